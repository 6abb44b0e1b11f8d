"""URLs of public web pages, parsed strictly, and the hosts that may be asked.

IPv6 is an allow list (2000::/3 without its special blocks), IPv4 the registry of special-purpose
blocks; addresses that carry an IPv4 address are judged by it, or refused when they are tunnels.

FetchError
├── UrlError                malformed, another scheme than http(s), with credentials
├── BlockedAddressError     the host is, or leads to, something other than the public internet
├── UnreachableError        no address, no connection, no trust, no time
└── AnswerError             the server's answer is an error, malformed, too large or no text
"""

import re
from functools import cache
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network
from urllib.parse import quote, urljoin, urlsplit

import msgspec

from alhena.errors import AlhenaError
from alhena.system.errors import printable

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
"""Local names from hosts files and cloud resolvers."""
_LOCAL_SUFFIXES = (".localhost", ".local", ".internal", ".localdomain", ".home.arpa")
_NUMERIC = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)")


def host_problem(host: str) -> str | None:
    """The reason why a host is not allowed, by its name or literal address; None if it is.

    `host` is lower-case ASCII without brackets. Spellings a resolver could read as an address
    (decimal, octal, hexadecimal, short forms) are refused, except dotted quads.
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
    """The address that `host` spells in the usual form; None for a name or another spelling."""
    try:
        return IPv6Address(host) if ":" in host else IPv4Address(host)
    except AddressValueError:
        return None


def address_problem(address: str) -> str | None:
    """The reason why an address (from a resolver) is not public; None if it is."""
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
        return f"{address} contains {inner.replace(' is ', ', ', 1)}" if inner else None
    for network, kind in _v6_blocks():
        if address in network:
            return f"{address} is {kind} address"
    if packed[0] >> 5 != 1:
        return f"{address} is a reserved address"
    # ISATAP: the interface identifier embeds an IPv4 host inside the site.
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


class FetchError(AlhenaError):
    """A page cannot be read."""

    kind = "web_fetch_processing_error"


class UrlError(FetchError):
    """The URL is invalid."""


class BlockedAddressError(FetchError):
    """The host is, or leads to, something other than the public internet."""


class UnreachableError(FetchError):
    """The server could not be reached in time."""


class AnswerError(FetchError):
    """The server's answer is unusable."""


MAX_LENGTH = 8192

_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?")
_SAFE = "/%:@!$&'()*+,;=~-._?"
_BLOB = re.compile(r"/([^/]+)/([^/]+)/blob/(.+)")


class WebUrl(msgspec.Struct, frozen=True):
    """An http(s) URL. `host` is lower-case ASCII (IPv6 without brackets), `target` the quoted path
    and query for the request line."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"

    @property
    def key(self) -> str:
        """The same key for URLs that differ only in a trailing slash."""
        return str(self).rstrip("/")


def parse_web_url(text: str) -> WebUrl:
    """Parses a URL. Raises UrlError; the message quotes it unless it has a password."""
    shown = _redact_url(text)
    if len(text) > MAX_LENGTH:
        raise UrlError(f'Malformed URL: "{shown}" is longer than {MAX_LENGTH} characters.')
    if "\\" in text or any(char <= " " or "\x7f" <= char <= "\xa0" for char in text):
        raise UrlError(f'Malformed URL: "{shown}" contains a space, a backslash or a control.')
    try:
        parts = urlsplit(text)
        port, name = parts.port, parts.hostname or ""
    except ValueError as error:
        raise UrlError(f'Malformed URL: "{shown}".') from error
    if parts.scheme not in _PORTS:
        raise UrlError(
            f'Unsupported protocol in URL: "{shown}". Only http and https are supported.'
        )
    if parts.username is not None or parts.password is not None:
        raise UrlError(
            f'Malformed URL: "{parts.scheme}://…@{_redact_url(name)}" contains a user name or '
            "password, which are never sent. Use the URL without them."
        )
    if not name or port == 0:
        raise UrlError(f'Malformed URL: "{shown}" names no usable host and port.')
    try:
        path = quote(parts.path or "/", safe=_SAFE.replace("?", ""))
        query = f"?{quote(parts.query, safe=_SAFE)}" if parts.query else ""
    except UnicodeEncodeError as error:
        raise UrlError(f'Malformed URL: "{shown}".') from error
    host = _host(name, shown)
    return WebUrl(parts.scheme, host, port or _PORTS[parts.scheme], path + query)


def resolve_redirect(base: WebUrl, location: str) -> WebUrl:
    """The target of a Location header. Raises UrlError."""
    try:
        return parse_web_url(urljoin(str(base), location.strip()))
    except ValueError as error:
        raise UrlError(f'Malformed URL: "{_redact_url(location)}".') from error


def raw_form(url: WebUrl) -> WebUrl:
    """Converts a GitHub file page to the raw file; other URLs are unchanged."""
    found = _BLOB.fullmatch(url.target.partition("?")[0])
    if url.host not in {"github.com", "www.github.com"} or not found:
        return url
    owner, repository, rest = found.groups()
    host = "raw.githubusercontent.com"
    return WebUrl("https", host, 443, f"/{owner}/{repository}/{rest}")


def _host(name: str, shown: str) -> str:
    if ":" in name:
        address = literal_address(name)
        if address is None:
            raise UrlError(f'Malformed URL: "{shown}" has no usable host.')
        return str(address)
    try:
        host = name.encode("idna").decode("ascii").lower()
    except UnicodeError as error:
        raise UrlError(f'Malformed URL: "{shown}" has no usable host.') from error
    if len(host) > 253 or not _HOST.fullmatch(host):
        raise UrlError(f'Malformed URL: "{shown}" has no usable host.')
    return host


def _redact_url(text: str) -> str:
    """A URL for messages: one line, at most 200 characters, without user and password."""
    head, separator, rest = text.partition("://")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if separator and "@" in authority:
        rest = "…@" + rest[authority.rindex("@") + 1 :]
    shown = printable(f"{head}{separator}{rest}")
    return shown if len(shown) <= 200 else shown[:200] + "…"
