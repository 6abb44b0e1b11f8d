"""URLs of web pages: parsed strictly, so that what was checked is what is connected to."""

import re
from urllib.parse import quote, urljoin, urlsplit

import msgspec

from alhena.system.errors import printable
from alhena.system.web.errors import UrlError

MAX_LENGTH = 8192

_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?")
_SAFE = "/%:@!$&'()*+,;=~-._?"
_BLOB = re.compile(r"/([^/]+)/([^/]+)/blob/(.+)")


class WebUrl(msgspec.Struct, frozen=True):
    """An http(s) URL. `host` is lower-case ASCII (IPv6 without brackets), `target` the quoted path
    and query, which is what the request line says."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """What the Host header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"

    @property
    def key(self) -> str:
        """The same for URLs that differ in a trailing slash only."""
        return str(self).rstrip("/")


def parse_web_url(text: str) -> WebUrl:
    """The URL that `text` is. Raises UrlError; the message quotes it unless it holds a password."""
    shown = _shown(text)
    if len(text) > MAX_LENGTH:
        raise UrlError(f'Malformed URL: "{shown}" is longer than {MAX_LENGTH} characters.')
    if "\\" in text or any(char <= " " or "\x7f" <= char <= "\xa0" for char in text):
        raise UrlError(f'Malformed URL: "{shown}" holds a space, a backslash or a control.')
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
            f'Malformed URL: "{parts.scheme}://…@{_shown(name)}" holds a user name or password, '
            "which are never sent. Use the URL without them."
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


def redirected(base: WebUrl, location: str) -> WebUrl:
    """Where a Location header leads. Raises UrlError."""
    try:
        return parse_web_url(urljoin(str(base), location.strip()))
    except ValueError as error:
        raise UrlError(f'Malformed URL: "{_shown(location)}".') from error


def raw_form(url: WebUrl) -> WebUrl:
    """A GitHub page that shows a file -> the file itself; other URLs as they are."""
    found = _BLOB.fullmatch(url.target.partition("?")[0])
    if url.host not in {"github.com", "www.github.com"} or not found:
        return url
    owner, repository, rest = found.groups()
    host = "raw.githubusercontent.com"
    return WebUrl("https", host, 443, f"/{owner}/{repository}/{rest}")


def _host(name: str, shown: str) -> str:
    if ":" in name:
        from alhena.system.web.address import literal_address

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


def _shown(text: str) -> str:
    """A URL for messages: one line, at most 200 characters, no user and password."""
    head, separator, rest = text.partition("://")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if separator and "@" in authority:
        rest = "…@" + rest[authority.rindex("@") + 1 :]
    shown = printable(f"{head}{separator}{rest}")
    return shown if len(shown) <= 200 else shown[:200] + "…"
