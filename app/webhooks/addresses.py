"""Which IP addresses may be connected to on behalf of a stranger. Judges numbers, never spellings.

The standard library's flags are not enough: `is_global` is true for NAT64 and 6to4 forms of internal addresses and
changes between Python versions. So IPv6 starts from what is allowed (the one allocated range), IPv4 from what the IANA
special-purpose registry withholds, and IPv6 forms that carry an IPv4 address are unpacked or refused.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address

# IANA IPv4 Special-Purpose Address Registry, and what is neither unicast nor allocated.
_WITHHELD_V4: tuple[tuple[IPv4Network, str], ...] = tuple(
    (IPv4Network(network), why)
    for network, why in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared (carrier-grade NAT)"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "reserved (6to4 relays)"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)

# Global unicast is the only range from which public IPv6 addresses are allocated (RFC 4291, section 2.4).
_GLOBAL_UNICAST_V6 = IPv6Network("2000::/3")
_WITHHELD_V6: tuple[tuple[IPv6Network, str], ...] = tuple(
    (IPv6Network(network), why)
    for network, why in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("::/96", "IPv4-compatible"),
        ("64:ff9b::/96", "NAT64"),
        ("64:ff9b:1::/48", "NAT64 (local use)"),
        ("2001::/32", "Teredo"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "6to4"),
        ("3fff::/20", "documentation"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "private (site-local)"),
        ("ff00::/8", "multicast"),
    )
)
# ISATAP (RFC 5214): the interface id is 0000:5efe or 0200:5efe followed by an IPv4 address.
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)


def refusal(address: str | Address) -> str | None:
    """Why an address may not be connected to, or None when it is public.

    Args:
        address: the number itself, in its standard spelling (no zone id).

    Returns:
        A few words such as `loopback` or `IPv4 inside IPv6: private`.

    Raises:
        ValueError: not an IP address in its standard spelling.
    """
    number = ip_address(address) if isinstance(address, str) else address
    return _refusal_v4(number) if isinstance(number, IPv4Address) else _refusal_v6(number)


def _refusal_v4(number: IPv4Address) -> str | None:
    return next((why for network, why in _WITHHELD_V4 if number in network), None)


def _refusal_v6(number: IPv6Address) -> str | None:
    if number.scope_id:
        return "has a zone"
    embedded = _embedded_v4(number)
    if embedded is not None:
        why = _refusal_v4(embedded)
        return f"IPv4 inside IPv6: {why}" if why else None
    withheld = next((why for network, why in _WITHHELD_V6 if number in network), None)
    if withheld is None and number not in _GLOBAL_UNICAST_V6:
        return "reserved"
    return withheld


def _embedded_v4(number: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that packets to `number` reach, for the forms that are not refused as a whole."""
    if number.ipv4_mapped is not None:
        return number.ipv4_mapped
    if number in _GLOBAL_UNICAST_V6 and (int(number) >> 32) & 0xFFFF_FFFF in _ISATAP:
        inner = IPv4Address(int(number) & 0xFFFF_FFFF)
        return inner if _refusal_v4(inner) else None
    return None
