"""Which URLs may receive webhooks: https on 443 and 8443 at public addresses, or what the config names.

Judged twice: at submit, so that the caller hears of it, and again for every attempt, because a name may lead elsewhere
by then. URLs are parsed by yarl here because aiohttp, which sends, parses with yarl: two parsers that disagree about
the host are the classic way round a filter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, NoReturn

from yarl import URL

from app.errors import WebhookUrlForbidden
from app.settings import ConfigurationError
from app.webhooks.addresses import Address, refusal
from app.webhooks.lookup import Lookup

PORTS: Final = frozenset({443, 8443})
MAX_URL: Final = 2048
_PARAM: Final = "webhook.url"
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
_LOOKS_NUMERIC = re.compile(r"(0x[0-9a-f]*|[0-9]+)")
_AUTHORITY_END = re.compile(r"[/?#]")
_PRINTABLE = re.compile(r"[!-\[\]-~]+")  # visible ASCII but for the backslash


@dataclass(frozen=True)
class Target:
    """A URL whose form is in order. `host` is a lower-case name or an address in its standard spelling."""

    url: URL
    host: str
    port: int


class Targets:
    """Judges webhook URLs.

    Args:
        allow_hosts: `host` or `host:port` (IPv6 in brackets when a port follows) that may receive all the same: over
            http too, on any port or the one named, at any address.
        lookup: the resolver.
    """

    def __init__(self, allow_hosts: Iterable[str], lookup: Lookup) -> None:
        self._allowed = frozenset(_allow_entry(entry) for entry in allow_hosts)
        self._lookup = lookup

    def check_url(self, url: str) -> Target:
        """Judge a URL at submit: its form, and every address that its host has now.

        A name that does not resolve at this moment passes: a failing resolver must not refuse work, and every
        attempt is judged again.

        Raises:
            WebhookUrlForbidden: with the reason; `param` is `webhook.url`.
        """
        target = self.parse(url)
        with suppress(OSError):
            self.resolve(target.host, target.port)
        return target

    def parse(self, url: str) -> Target:
        """Judge the form alone, literal addresses included. Raises WebhookUrlForbidden."""
        parsed = _well_formed(url)
        host, port = parsed.raw_host or "", parsed.port or 0
        host = _canonical_host(host)
        target = Target(parsed.with_fragment(None), host, port)
        if not self._trusts(host, port):
            _judge_form(target)
        return target

    def resolve(self, host: str, port: int) -> tuple[str, ...]:
        """The addresses to connect to, every one of them judged. Blocks while the resolver works.

        Args:
            host: as `Target` has it.
            port: what the URL names or its scheme implies.

        Raises:
            WebhookUrlForbidden: at least one is not public (none is used then).
            OSError: the name leads nowhere, or the resolver gave no answer in time.
        """
        found = (host,) if _literal(host) else self._lookup(host, port)
        if not found:
            raise OSError("the name has no address")
        if not self._trusts(host, port):
            for address in found:
                _judge_address(address)
        return found

    def _trusts(self, host: str, port: int) -> bool:
        return (host, port) in self._allowed or (host, None) in self._allowed


def authority(url: str) -> str:
    """`host:port` of a URL without judging it: names the receiver in logs and limits."""
    try:
        parsed = URL(url)
        host, port = parsed.raw_host, parsed.port
    except ValueError:
        return "unreadable"
    return f"{host}:{port}"


def _forbid(why: str) -> NoReturn:
    raise WebhookUrlForbidden(
        f"The webhook URL is refused: {why}. Webhooks go to https on port 443 or 8443 at public addresses; the "
        "operator can name other hosts in the configuration (webhooks.allow_hosts).",
        param=_PARAM,
    )


def _well_formed(url: str) -> URL:
    if not _PRINTABLE.fullmatch(url) or len(url) > MAX_URL:
        _forbid(f"it must be 1 to {MAX_URL} visible ASCII characters, without backslashes (escape others)")
    try:
        parsed = URL(url)
        port = parsed.port
    except ValueError:
        _forbid("it cannot be parsed")
    if parsed.scheme not in {"http", "https"}:
        _forbid("its scheme is not https")
    if "@" in _AUTHORITY_END.split(url.split("://", 1)[-1], maxsplit=1)[0]:
        _forbid("it carries a user name")
    if not parsed.raw_host or not port:
        _forbid("it names no host or no port")
    return parsed


def _canonical_host(host: str) -> str:
    """Lower-case name or canonical address; odd spellings are refused, allowed host or not."""
    literal = _literal(host)
    if literal is not None:
        return str(literal)
    if not _NAME.fullmatch(host) or len(host) > 253:  # noqa: PLR2004 -- RFC 1035
        _forbid("its host is neither a plain name nor an address in the usual spelling")
    if _LOOKS_NUMERIC.fullmatch(host.rsplit(".", 1)[-1]):
        _forbid("its host is a number that is not an address in the usual spelling")
    return host


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _judge_form(target: Target) -> None:
    if target.url.scheme != "https":
        _forbid("its scheme is not https")
    if target.port not in PORTS:
        _forbid(f"port {target.port} is not allowed")
    if target.host == "localhost" or target.host.endswith(".localhost"):
        _forbid("its host is this machine")
    if _literal(target.host):
        _judge_address(target.host)


def _judge_address(address: str) -> None:
    why = refusal(address)
    if why is not None:
        _forbid(f"its address is not public ({why})")


def _allow_entry(entry: str) -> tuple[str, int | None]:
    """`host`, `host:port`, `::1`, `[::1]` or `[::1]:8080` as (canonical host, port or None)."""
    text = entry.strip().lower()
    if _literal(text) is not None:
        return str(_literal(text)), None
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, ""
    host = host.removeprefix("[").removesuffix("]")
    literal = _literal(host)
    if (port and not port.isdigit()) or (literal is None and not _NAME.fullmatch(host)):
        raise ConfigurationError(f"webhooks.allow_hosts: {entry!r} is neither host nor host:port")
    return str(literal or host), int(port) if port else None
