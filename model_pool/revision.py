"""Which weights a model's answers come from, as a short text that changes when they do."""

from __future__ import annotations

import hashlib
from pathlib import Path

_DIGITS = 12


def tokenizer_of(path: str, revision: str = "") -> str:
    """Whose token ids an answer consists of: equal only where an id surely means the same.

    Stricter than the revision, which operators name as they like: another path is another tokenizer, too.
    """
    return hashlib.sha256(f"{path}\n{revision_of(path, revision)}".encode()).hexdigest()[:_DIGITS]


def revision_of(path: str, revision: str = "") -> str:
    """The configured revision; else, for a folder on this host, a fingerprint of it; else the path itself.

    The fingerprint covers `config.json` (quantisation included) and name, size and time of every file, so weights that
    are replaced in place are a new revision. Hosts whose folders are copied separately should configure `revision`.
    """
    folder = Path(path)
    if revision or not path or not folder.is_dir():
        return revision or path
    digest = hashlib.sha256()
    for file in sorted(p for p in folder.rglob("*") if p.is_file()):
        state = file.stat()
        digest.update(f"{file.relative_to(folder)}:{state.st_size}:{state.st_mtime_ns}\n".encode())
    config = folder / "config.json"
    if config.is_file():
        digest.update(config.read_bytes())
    return f"local-{digest.hexdigest()[:_DIGITS]}"
