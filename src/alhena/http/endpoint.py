"""Addresses of services, and headers from the environment."""

import re
from collections.abc import Mapping
from urllib.parse import quote, urlsplit

import msgspec

from alhena.errors import ConfigError

_FRAMING = ("connection", "content-length", "transfer-encoding")
_NEXT_HEADER = re.compile(r",(?=\s*(?:[^,:]+:|$))")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


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
        if not host.isascii() or len(host) > 63:  # the codec knows what is too long
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


def parse_headers(text: str, source: str) -> dict[str, str]:
    """Parses headers written as "Name:Value, Name:Value", by lower-case name.

    A comma belongs to the value unless a "name:" follows it. Raises ConfigError, which names the
    header and never its value.
    """
    headers: dict[str, str] = {}
    for position, entry in enumerate(_NEXT_HEADER.split(text), start=1):
        if not entry.strip():
            continue
        name, colon, value = entry.partition(":")
        name, value = name.strip().lower(), value.strip()
        if not colon or not _NAME.fullmatch(name):
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
