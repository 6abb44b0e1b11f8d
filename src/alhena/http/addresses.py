"""Addresses of services: how they are written, which proxy leads to them, and which of a host's are
tried first. Imported before a connection is opened early, so without an event loop."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

import msgspec

from alhena.errors import ConfigError

if TYPE_CHECKING:
    from socket import AddressFamily

_FRAMING = ("connection", "content-length", "transfer-encoding")
_NEXT_HEADER = r",(?=\s*(?:[^,:]+:|$))"
_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"


class Endpoint(msgspec.Struct, frozen=True):
    """A service address; `prefix` is "" or a quoted path that starts with "/" and ends without.
    `source` is the variable or setting it comes from, for messages."""

    scheme: str
    host: str
    port: int
    prefix: str = ""
    source: str = "GOOGLE_GEMINI_BASE_URL"

    @property
    def secure(self) -> bool:
        """True when requests are encrypted."""
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """Host and non-default port: the value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"

    @property
    def place(self) -> str:
        """The address for messages."""
        return f"{self.scheme}://{self.authority}"


def parse_endpoint(text: str, source: str) -> Endpoint:
    """The endpoint of a base URL; `source` is the variable or option it came from.

    Raises ConfigError for anything but http(s)://host[:port][/path]; the message quotes the URL
    unless it has a password.
    """
    url = text.strip()
    remedy = f"Set {source} to an address such as https://host.example/prefix, or unset it."
    if any(char <= " " or char == "\x7f" for char in url) or "\\" in url:
        raise ConfigError(f"{source} contains spaces or control characters.", remedy=remedy)
    try:
        parts = urlsplit(url)
        port = parts.port
        host = parts.hostname or ""
        # The codec knows what is too long, and that no label is empty.
        if not host.isascii() or len(host) > 63 or ".." in f".{host}":
            host = host.encode("idna").decode("ascii")
        prefix = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~-._")
    except (ValueError, UnicodeError) as error:
        raise ConfigError(f"{source} is no usable URL.", remedy=remedy) from error
    if parts.username is not None or parts.password is not None:
        raise ConfigError(f"{source} must not hold a user name or password.", remedy=remedy)
    if parts.scheme not in {"http", "https"} or not host or parts.query or parts.fragment:
        raise ConfigError(f"{source} is no usable URL: {url[:200]!r}.", remedy=remedy)
    port = port or (443 if parts.scheme == "https" else 80)
    return Endpoint(parts.scheme, host, port, prefix, source)


def endpoint_from(
    environ: Mapping[str, str], variable: str, default: str, base_url: str | None
) -> Endpoint:
    """The endpoint of the argument `base_url`, else of a variable, else the default one. Raises
    ConfigError, as `parse_endpoint` does."""
    if base_url is not None:
        return parse_endpoint(base_url, "base_url")
    return parse_endpoint(environ.get(variable, "").strip() or default, variable)


def is_loopback(host: str) -> bool:
    """True when `host` is a loopback name or address."""
    return host in {"localhost", "::1"} or re.fullmatch(r"127(\.\d{1,3}){3}", host) is not None


def is_header_value(text: str) -> bool:
    """True when `text` can be sent as a header value: visible ASCII and inner blanks."""
    return text.isascii() and text.strip() == text and (not text or text.isprintable())


def is_header_name(text: str) -> bool:
    """True when `text` can be the name of a header."""
    return re.fullmatch(_NAME, text.lower()) is not None


def parse_headers(text: str, source: str) -> dict[str, str]:
    """Parses headers written as "Name:Value, Name:Value", by lower-case name.

    A comma belongs to the value unless a "name:" follows it. Raises ConfigError, which names the
    header and never its value.
    """
    headers: dict[str, str] = {}
    for position, entry in enumerate(re.split(_NEXT_HEADER, text), start=1):
        if not entry.strip():
            continue
        name, colon, value = entry.partition(":")
        name, value = name.strip().lower(), value.strip()
        if not colon or not re.fullmatch(_NAME, name):
            raise ConfigError(
                f"entry {position} of {source} is no header.", remedy='Write it as "Name: value".'
            )
        if name in _FRAMING or not is_header_value(value):
            raise ConfigError(
                f"{source} cannot set the header {name!r}.",
                remedy="Framing headers are computed; values are printable ASCII.",
            )
        headers[name] = value
    return headers


VARIABLES = "HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY"
PROXY_REMEDY = f"Check {VARIABLES}."
_PROXY_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


class Proxy(msgspec.Struct, frozen=True):
    """A proxy. User and password are hidden in its repr and in messages."""

    scheme: str
    host: str
    port: int
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"Proxy({self.place})"

    @property
    def place(self) -> str:
        """Host and port for messages."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def socks(self) -> bool:
        """True for SOCKS 5."""
        return self.scheme.startswith("socks")

    @property
    def headers(self) -> list[tuple[str, str]]:
        """The header with user and password."""
        if not self.user and not self.password:
            return []
        from base64 import b64encode

        pair = f"{self.user}:{self.password}".encode(errors="replace")
        return [("proxy-authorization", f"Basic {b64encode(pair).decode('ascii')}")]


def parse_proxy(url: str) -> Proxy:
    """Parses a proxy address. Raises ConfigError; the message does not quote the URL, because it
    may have a password."""
    try:
        found = _read_proxy(url)
    except ValueError:
        found = None
    if found is None:
        # Not chained: the cause quotes the URL.
        raise ConfigError(
            "the proxy's address cannot be used.",
            remedy=f"Write it as http://host:port, https://… or socks5://…. {PROXY_REMEDY}",
        )
    return found


def _read_proxy(url: str) -> Proxy | None:
    parts = urlsplit(url)
    scheme, host = parts.scheme.lower(), parts.hostname
    usual = _PROXY_PORTS.get(scheme)
    port = usual if parts.port is None else parts.port
    if not host or not port or usual is None:
        return None
    host = host.encode("idna").decode("ascii")  # a ValueError for an invalid name
    return Proxy(scheme, host, port, unquote(parts.username or ""), unquote(parts.password or ""))


def proxy_for(endpoint: Endpoint, environ: Mapping[str, str]) -> str | None:
    """The proxy URL for `endpoint`, None for a direct connection.

    HTTPS_PROXY or HTTP_PROXY by scheme, else ALL_PROXY; lower-case names take precedence, an empty
    value means none. NO_PROXY lists hosts, domains (with or without a leading dot), addresses,
    networks and host:port pairs that are reached directly; "*" matches all.
    """
    proxy = _variable(environ, f"{endpoint.scheme}_proxy") or _variable(environ, "all_proxy")
    if not proxy or _is_bypassed(endpoint, _variable(environ, "no_proxy")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _variable(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name)
    # CGI servers set HTTP_PROXY from a client's "Proxy:" header.
    if value is None and not (name == "http_proxy" and "REQUEST_METHOD" in environ):
        value = environ.get(name.upper())
    return (value or "").strip()


def _is_bypassed(endpoint: Endpoint, listed: str) -> bool:
    return any(_covers(entry.strip().lower(), endpoint) for entry in listed.split(","))


def _covers(entry: str, endpoint: Endpoint) -> bool:
    """True when an entry of NO_PROXY covers the endpoint."""
    if not entry:
        return False
    if entry == "*":
        return True
    host = endpoint.host.rstrip(".")
    if "/" in entry:
        return _in_network(host, entry)
    name, port = _host_and_port(entry)
    if port and port != str(endpoint.port):
        return False
    name = name.removeprefix("*").removeprefix(".")
    return bool(name) and (host == name or host.endswith(f".{name}"))


def _host_and_port(entry: str) -> tuple[str, str]:
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    if entry.count(":") == 1:
        name, _, port = entry.partition(":")
        return name, port
    return entry, ""


def _in_network(host: str, network: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


HEAD_START = 0.25
"""Seconds before the next address of a host is tried in parallel (RFC 8305)."""

_families: "list[AddressFamily]" = []


def order_addresses(*, ipv4_first: bool) -> None:
    """Has all connections of this process try a host's IPv4 addresses first."""
    from socket import AF_INET

    _families[:] = [AF_INET] if ipv4_first else []


def preferred_families() -> "tuple[AddressFamily, ...]":
    """The families of addresses that are tried first."""
    return tuple(_families)


forbidden = 0
"""Greater than zero while a program's test lets no request leave."""


def refusal(host: str) -> str | None:
    """The reason why no request may leave to `host`; None: it may."""
    if not forbidden:
        return None
    return f"no_real_requests() lets no request leave to {host}."
