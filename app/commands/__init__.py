"""The subcommands of `posthouse`, one small file each; `app.cli` imports the one that is asked for."""
