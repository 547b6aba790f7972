"""llama-server out of a Python module: `python -m model_pool.servers.llama_cpp --file MODEL.gguf …`.

The module xllamacpp holds llama.cpp's own server with all of its HTTP face; this only gives it its options and keeps
the process alive, for machines that have no `llama-server` on the PATH.
"""
