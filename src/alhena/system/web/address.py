"""Which hosts are on the public internet. Decided on names and on addresses; no I/O.

IPv6 is an allow list (2000::/3 without its special blocks), IPv4 the registry of special-purpose
blocks; addresses that carry an IPv4 address are judged by it, or refused when they are tunnels.
"""

import re
from functools import cache
from ipaddress import (
    AddressValueError,
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
)

_SPECIAL_V4 = {
    "0.0.0.0/8": "an unspecified",
    "10.0.0.0/8": "a private",
    "100.64.0.0/10": "a carrier-grade NAT",
    "127.0.0.0/8": "a loopback",
    "168.63.129.16/32": "a cloud metadata",
    "169.254.0.0/16": "a link-local",
    "172.16.0.0/12": "a private",
    "192.0.0.0/24": "a reserved",
    "192.0.2.0/24": "a documentation",
    "192.88.99.0/24": "a tunnel",
    "192.168.0.0/16": "a private",
    "198.18.0.0/15": "a benchmarking",
    "198.51.100.0/24": "a documentation",
    "203.0.113.0/24": "a documentation",
    "224.0.0.0/4": "a multicast",
    "240.0.0.0/4": "a reserved",
}
_SPECIAL_V6 = {
    "::/128": "an unspecified",
    "::1/128": "a loopback",
    "2001::/32": "a tunnel",
    "2001::/23": "a reserved",
    "2001:db8::/32": "a documentation",
    "2002::/16": "a tunnel",
    "3fff::/20": "a documentation",
    "fc00::/7": "a private",
    "fe80::/10": "a link-local",
    "fec0::/10": "a private",
    "ff00::/8": "a multicast",
}
_LOCAL_NAMES = frozenset({"localhost", "local", "internal", "localdomain", "metadata"})
_LOCAL_HOSTS = frozenset(
    {
        *("instance-data", "metadata.goog", "loopback", "broadcasthost", "localhost4"),
        *("localhost4.localdomain4", "localhost6", "localhost6.localdomain6", "ip6-localhost"),
        *("ip6-loopback", "ip6-localnet", "ip6-mcastprefix", "ip6-allnodes", "ip6-allrouters"),
    }
)
"""Names that systems have in their hosts files, and clouds in their resolvers."""
_LOCAL_SUFFIXES = (".localhost", ".local", ".internal", ".localdomain", ".home.arpa")
_NUMERIC = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)")


def host_problem(host: str) -> str | None:
    """Why a host may not be reached, by its name or by the address it spells; None when it may.

    `host` is lower-case ASCII without brackets. What a resolver could read as an address (decimal,
    octal, hexadecimal, short forms) but is no dotted quad is refused whatever it stands for.
    """
    name = host.rstrip(".")
    if name in _LOCAL_NAMES | _LOCAL_HOSTS or name.endswith(_LOCAL_SUFFIXES):
        return f"{host} is a name of the local network"
    if literal_address(name) is not None:
        return address_problem(name)
    if ":" in name or _NUMERIC.fullmatch(name.rpartition(".")[2]):
        return f"{host} is an unusual spelling of an address"
    return None


def literal_address(host: str) -> IPv4Address | IPv6Address | None:
    """The address that `host` spells in its usual form; None for a name or another spelling."""
    try:
        return IPv6Address(host) if ":" in host else IPv4Address(host)
    except AddressValueError:
        return None


def address_problem(address: str) -> str | None:
    """Why an address (as a resolver gives it) is not on the public internet; None when it is."""
    parsed = literal_address(address)
    if parsed is None:
        return f"{address} is no address"
    if isinstance(parsed, IPv4Address):
        return _v4_problem(parsed)
    return _v6_problem(parsed)


def _v4_problem(address: IPv4Address) -> str | None:
    for network, kind in _v4_blocks():
        if address in network:
            return f"{address} is {kind} address"
    return None


def _v6_problem(address: IPv6Address) -> str | None:
    if address.scope_id is not None:
        return f"{address} is a link-local address"
    packed = address.packed
    if address.ipv4_mapped is not None or packed.startswith(_NAT64):
        inner = _v4_problem(IPv4Address(packed[12:]))
        return f"{address} stands for {inner.replace(' is ', ', ', 1)}" if inner else None
    for network, kind in _v6_blocks():
        if address in network:
            return f"{address} is {kind} address"
    if packed[0] >> 5 != 1:
        return f"{address} is a reserved address"
    # ISATAP: the interface identifier names an IPv4 host inside the site.
    if packed[8] & 0xFD == 0 and packed[9:12] == b"\0\x5e\xfe":
        return f"{address} is a tunnel address"
    return None


_NAT64 = bytes.fromhex("0064ff9b0000000000000000")


@cache
def _v4_blocks() -> tuple[tuple[IPv4Network, str], ...]:
    return tuple((IPv4Network(block), kind) for block, kind in _SPECIAL_V4.items())


@cache
def _v6_blocks() -> tuple[tuple[IPv6Network, str], ...]:
    return tuple((IPv6Network(block), kind) for block, kind in _SPECIAL_V6.items())
