"""Secrets that the stack makes for itself on its first start: kept in the data folder, for its owner's eyes only."""

from __future__ import annotations

import base64
import os
import secrets
import tomllib
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_FILE = "secrets.toml"


@dataclass(frozen=True)
class StackSecrets:
    """What a stack on one machine needs to keep to itself.

    Attributes:
        secret_key: encrypts webhook secrets at rest; a Fernet key (32 bytes, URL-safe base64).
        redis_password: of both embedded Redis servers.
        flower_password: of the operators' window.
        dev_key: the API key that `posthouse up` prints.
    """

    secret_key: str
    redis_password: str
    flower_password: str
    dev_key: str

    def __repr__(self) -> str:
        return "StackSecrets(…)"


def load_or_create(folder: Path) -> StackSecrets:
    """The secrets of this data folder; missing ones are made and written back at once."""
    file = folder / _FILE
    known = tomllib.loads(file.read_text()) if file.exists() else {}
    made = asdict(_generate())
    kept = StackSecrets(**{field.name: str(known.get(field.name, made[field.name])) for field in fields(StackSecrets)})
    if asdict(kept) != known:
        _write(file, kept)
    return kept


def _generate() -> StackSecrets:
    return StackSecrets(
        secret_key=base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        redis_password=secrets.token_hex(24),
        flower_password=secrets.token_urlsafe(18),
        dev_key=f"ph_{secrets.token_urlsafe(32)}",
    )


def _write(file: Path, kept: StackSecrets) -> None:
    temporary = file.with_suffix(".new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as out:
        out.writelines(f'{name} = "{value}"\n' for name, value in asdict(kept).items())
    temporary.replace(file)
