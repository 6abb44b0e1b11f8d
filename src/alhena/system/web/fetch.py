"""A GET that reaches only the public internet, with a bounded body.

The host is resolved here, every address is checked, and the connection uses one of them; TLS is
verified against the host's name. Each redirect is checked the same way. A proxy resolves names by
itself, which defeats the check: hosts behind a proxy are refused.
"""

import asyncio
import codecs
import contextlib
import errno
import os
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import h11
import msgspec

from alhena.errors import ConfigError
from alhena.system.encoding import SAMPLE_SIZE, decode_text, is_binary
from alhena.system.web.url import (
    AnswerError,
    BlockedAddressError,
    UnreachableError,
    WebUrl,
    address_problem,
    host_problem,
    literal_address,
    redirected,
)

RATIO = 200
"""Maximum decompression ratio beyond the first megabyte."""

_FREE = 1 << 20
_GZIP = b"\x1f\x8b"
_META = re.compile(
    rb"<meta[^>]{0,500}?charset\s*=\s*[\"']?\s*([a-zA-Z0-9_:.-]{1,40})", re.IGNORECASE
)
_NO_CHARSETS = frozenset({"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined"})
_WIDER = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}
"""Actual encodings of pages that declare these, as in browsers."""


class _Inflater(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...


class Body:
    """Collects a body of at most `limit` bytes, counted after decompression.

    `coding` is the Content-Encoding. Methods raise AnswerError, in which `place` names the server.
    """

    def __init__(self, coding: str, limit: int, place: str) -> None:
        self._data = bytearray()
        self._limit = limit
        self._place = place
        self._received = 0
        self._inflater: _Inflater | None = None
        coding = coding.strip().lower()
        if coding in {"gzip", "x-gzip"}:
            self._inflater = _gunzip()
        elif coding not in {"", "identity"}:
            raise AnswerError(
                f"{place} sent the encoding {coding[:40]!r}, which was not asked for."
            )

    def feed(self, data: bytes) -> None:
        """Adds bytes as they were sent."""
        self._received += len(data)
        if self._inflater is None:
            self._data += data
        else:
            self._inflate(data)
        if len(self._data) > self._limit:
            raise AnswerError(f"{self._place} sent more than {self._limit >> 20} MB.")

    def end(self) -> bytes:
        """Returns the whole body."""
        if self._inflater is not None and self._received and not self._inflater.eof:
            raise AnswerError(f"the compressed answer of {self._place} ended before its end.")
        return bytes(self._data)

    def _inflate(self, data: bytes) -> None:
        import zlib

        inflater = self._inflater
        while data and inflater is not None and len(self._data) <= self._limit:
            if inflater.eof:
                if not data.startswith(_GZIP[: len(data)]):
                    return  # padding after the last member
                inflater = self._inflater = _gunzip()
            room = min(self._limit + 1 - len(self._data), _FREE)
            try:
                self._data += inflater.decompress(data, room)
            except zlib.error as error:
                raise AnswerError(f"the compressed answer of {self._place} is damaged.") from error
            data = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
            read = self._received - len(data)
            if len(self._data) > _FREE and len(self._data) > RATIO * read:
                raise AnswerError(
                    f"{self._place} sent data that decompresses to more than {RATIO} times its "
                    "size."
                )


def _gunzip() -> _Inflater:
    import zlib

    return zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)


def decoded(data: bytes, charset: str, *, markup: bool) -> str:
    """Decodes a body: by its byte order mark, the header's charset, the page's own, or
    detection."""
    if not data.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        named = _codec(charset)
        if named is None and markup and (meta := _META.search(data[:1024])):
            named = _codec(meta[1].decode("ascii"))
            # A page whose charset is readable as ASCII is not UTF-16.
            named = "utf-8" if named and named.startswith("utf-16") else named
        if named is not None:
            return data.decode(named, "replace")
    return decode_text(data).shown


def _codec(charset: str) -> str | None:
    try:
        name = codecs.lookup(charset.strip().strip("\"'")).name
        b"  ".decode(name, "replace")  # rejects names that are not text encodings
    except (LookupError, ValueError):
        return None
    return None if name.replace("-", "_") in _NO_CHARSETS else _WIDER.get(name, name)


MAX_HEAD_BYTES = 64 * 1024
MAX_INTERIM = 10
"""Maximum number of 1xx answers before the final one."""

_CHUNK = 1 << 16
_HEADERS = (
    ("user-agent", "Mozilla/5.0 (compatible; alhena web_fetch)"),
    ("accept", "text/markdown, text/html, text/plain, application/json, text/*;q=0.9, */*;q=0.5"),
    ("accept-encoding", "gzip"),
    ("accept-language", "en, *;q=0.5"),
    ("connection", "close"),
)


class Head:
    """The head of an answer."""

    def __init__(self, response: h11.Response) -> None:
        self.status = response.status_code
        self._headers = response.headers

    def header(self, name: str) -> str:
        """The first value of a header (lower-case name), "" when absent."""
        wanted = name.encode("ascii")
        for key, value in self._headers:
            if key == wanted:
                return value.decode("latin-1")
        return ""


class Exchange:
    """A request for `url` on an open connection. Methods raise AnswerError when the server breaks
    the protocol, OSError when the connection fails."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, url: WebUrl
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._url = url
        self._place = url.authority
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)

    async def head(self) -> Head:
        """Sends the request and waits for the head of the answer."""
        request = h11.Request(
            method="GET",
            target=self._url.target,
            headers=[("host", self._url.authority), *_HEADERS],
        )
        self._writer.write(self._http.send(request) + self._http.send(h11.EndOfMessage()))
        await self._writer.drain()
        interim = 0
        while True:
            event = await self._event()
            if isinstance(event, h11.Response):
                return Head(event)
            if isinstance(event, h11.InformationalResponse):
                interim += 1
            if interim > MAX_INTERIM or not isinstance(event, h11.InformationalResponse):
                raise AnswerError(f"{self._place} does not answer in HTTP.")

    async def body(self, head: Head, limit: int) -> bytes:
        """The body, at most `limit` bytes after decompression."""
        body = Body(head.header("content-encoding"), limit, self._place)
        while True:
            event = await self._event()
            if isinstance(event, h11.Data):
                body.feed(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                return body.end()
            else:
                raise AnswerError(f"{self._place} broke off in the middle of its answer.")

    async def _event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            while True:
                event = self._http.next_event()
                if event is not h11.NEED_DATA:
                    return event
                self._http.receive_data(await self._reader.read(_CHUNK))
        except h11.RemoteProtocolError as error:
            if self._http.their_state is h11.ERROR and self._reader.at_eof():
                raise AnswerError(
                    f"{self._place} closed the connection before its answer was complete."
                ) from error
            raise AnswerError(f"{self._place} does not answer in HTTP: {error}.") from error


Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host name and port -> addresses. Raises OSError."""
Connect = Callable[[str, int], Awaitable[socket.socket]]
"""Address and port -> a connected, non-blocking TCP socket. Raises OSError."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TEXT_TYPES = frozenset(
    {
        *("application/json", "application/ld+json", "application/x-ndjson", "application/jsonl"),
        *("application/xml", "application/javascript", "application/ecmascript"),
        *("application/x-javascript", "application/typescript", "application/toml"),
        *("application/yaml", "application/x-yaml", "application/graphql", "application/sql"),
        *("application/x-sh", "application/x-httpd-php", "application/rtf"),
    }
)
HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_REMEDY = (
    "web_fetch reads pages of the public internet only; "
    "ask the user, or use run_shell_command for local services."
)


class FetchLimits(msgspec.Struct, frozen=True):
    """Seconds to connect (TLS included) and in total, bytes after decompression, redirects."""

    connect: float = 10.0
    total: float = 30.0
    size: int = 10 << 20
    redirects: int = 5


class WebPage(msgspec.Struct, frozen=True):
    """A fetched page: its final URL, its media type, its text."""

    url: WebUrl
    mime: str
    text: str

    @property
    def is_html(self) -> bool:
        """True when `text` is HTML."""
        return self.mime in HTML_TYPES


class GuardedFetcher:
    """Fetches text from the public internet.

    `tls` creates the context for https; `behind_proxy` is True for hosts reached through a proxy.
    """

    def __init__(
        self,
        tls: Callable[[], ssl.SSLContext],
        behind_proxy: Callable[[WebUrl], bool],
        *,
        resolve: Resolve | None = None,
        connect: Connect | None = None,
        limits: FetchLimits | None = None,
    ) -> None:
        self._tls = tls
        self._behind_proxy = behind_proxy
        self._resolve = resolve or system_resolver
        self._connect = connect or system_connector
        self._limits = limits or FetchLimits()
        self._context: ssl.SSLContext | None = None

    async def refuse_local(self, url: WebUrl) -> None:
        """Raises BlockedAddressError when the host is, or resolves to, a non-public address.

        A host that does not resolve here, or is reached through a proxy, is checked by name only.
        """
        _check_name(url)
        if self._behind_proxy(url):
            return
        try:
            async with asyncio.timeout(self._limits.connect):
                await self._addresses(url)
        except (TimeoutError, UnreachableError):
            return

    async def fetch(self, url: WebUrl) -> WebPage:
        """Fetches the page at `url`. Raises FetchError."""
        try:
            async with asyncio.timeout(self._limits.total):
                return await self._follow(url)
        except TimeoutError as error:
            raise UnreachableError(
                f"{url.authority} did not answer completely within {self._limits.total:g} s."
            ) from error

    async def _follow(self, url: WebUrl) -> WebPage:
        for _hop in range(self._limits.redirects + 1):
            answer = await self._get(url)
            if isinstance(answer, WebPage):
                return answer
            url = answer
        raise AnswerError(f"more than {self._limits.redirects} redirects; the last was to {url}.")

    async def _get(self, url: WebUrl) -> WebPage | WebUrl:
        """The page, or the target of a redirect."""
        reader, writer = await self._open(url)
        try:
            exchange = Exchange(reader, writer, url)
            head = await exchange.head()
            location = head.header("location")
            if head.status in _REDIRECTS and location:
                return redirected(url, _as_sent(location))
            mime = _readable_type(url, head)
            data = await exchange.body(head, self._limits.size)
        except OSError as error:
            raise UnreachableError(
                f"the connection to {url.authority} broke: {_reason(error)}."
            ) from error
        finally:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        return _page(url, mime, _charset(head), data)

    async def _open(self, url: WebUrl) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        _check_name(url)
        if self._behind_proxy(url):
            raise BlockedAddressError(
                f"{url.authority} is reached through a proxy, which would resolve the name itself, "
                "so that its address cannot be checked.",
                remedy="Add the host to NO_PROXY if this machine may reach it directly.",
            )
        try:
            async with asyncio.timeout(self._limits.connect):
                addresses = await self._addresses(url)
                connected = await self._first(addresses, url)
                return await self._streams(connected, url)
        except TimeoutError as error:
            raise UnreachableError(
                f"no connection to {url.authority} within {self._limits.connect:g} s."
            ) from error
        except ConfigError as error:
            raise UnreachableError(f"no TLS connection to {url.authority}: {error}") from error
        except ssl.SSLCertVerificationError as error:
            raise UnreachableError(
                f"the certificate of {url.authority} is not trusted: {error.verify_message}."
            ) from error
        except OSError as error:
            raise UnreachableError(
                f"no connection to {url.authority}: {_reason(error)}."
            ) from error

    async def _addresses(self, url: WebUrl) -> Sequence[str]:
        """All addresses of the host, each of them public."""
        if literal_address(url.host) is not None:
            return [url.host.rstrip(".")]
        try:
            found = list(dict.fromkeys(await self._resolve(url.host, url.port)))
        except (OSError, UnicodeError) as error:
            raise UnreachableError(f"cannot find the host {url.host.rstrip('.')}.") from error
        for address in found:
            if problem := address_problem(address):
                raise BlockedAddressError(
                    f"{url.host} leads to a place that is not public: {problem}.", remedy=_REMEDY
                )
        if not found:
            raise UnreachableError(f"cannot find the host {url.host.rstrip('.')}.")
        return found

    async def _first(self, addresses: Sequence[str], url: WebUrl) -> socket.socket:
        """Connects to the first address that accepts; each gets its share of the time."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._limits.connect
        failure: OSError = OSError("no address")
        for tried, address in enumerate(addresses):
            share = (end - loop.time()) / (len(addresses) - tried)
            try:
                async with asyncio.timeout(share):
                    return await self._connect(address, url.port)
            except OSError as error:
                failure = error
        raise failure

    async def _streams(
        self, connected: socket.socket, url: WebUrl
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            if url.scheme == "http":
                return await asyncio.open_connection(sock=connected)
            if self._context is None:
                self._context = self._tls()
            return await asyncio.open_connection(
                sock=connected, ssl=self._context, server_hostname=url.host.rstrip(".")
            )
        except BaseException:
            connected.close()
            raise


async def system_resolver(host: str, port: int) -> Sequence[str]:
    """Resolves a host with the system's resolver."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for _family, _type, _protocol, _name, address in found]


async def system_connector(address: str, port: int) -> socket.socket:
    """Connects to an address by TCP; nothing is resolved."""
    from alhena.http.connect import refusal

    if refused := refusal(address):
        raise UnreachableError(refused)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    connecting = socket.socket(family, socket.SOCK_STREAM)
    try:
        connecting.setblocking(False)
        # asyncio sets it only for sockets with an explicit protocol. Without it the last bytes
        # of a request wait for the acknowledgement of earlier ones, sometimes 40 ms.
        connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(connecting, (address, port))
    except BaseException:
        connecting.close()
        raise
    return connecting


def _check_name(url: WebUrl) -> None:
    if problem := host_problem(url.host):
        raise BlockedAddressError(f"{problem}.", remedy=_REMEDY)


def _as_sent(location: str) -> str:
    """Decodes a Location header: as UTF-8 if valid, like browsers."""
    try:
        return location.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return location


def _readable_type(url: WebUrl, head: Head) -> str:
    """The media type of a text answer, "" without one. Raises AnswerError."""
    if not 200 <= head.status < 300:
        raise AnswerError(f"{url} answers with HTTP status {head.status}.")
    mime = head.header("content-type").partition(";")[0].strip().lower()
    known = mime.startswith("text/") or mime in _TEXT_TYPES or mime in HTML_TYPES
    if mime and not known and not mime.endswith(("+json", "+xml", "+yaml")):
        raise AnswerError(f"{url} is of type {mime[:80]}, which is not text.")
    return mime


def _charset(head: Head) -> str:
    found = re.search(r"charset\s*=\s*([^;\s]{1,60})", head.header("content-type"), re.IGNORECASE)
    return found[1] if found else ""


def _page(url: WebUrl, mime: str, charset: str, data: bytes) -> WebPage:
    if not charset and is_binary(data[:SAMPLE_SIZE]):
        raise AnswerError(f"{url} is binary data, not text.")
    if not mime:
        start = data[:1024].lstrip().lower()
        mime = "text/html" if start.startswith((b"<!doctype html", b"<html")) else "text/plain"
    markup = mime in HTML_TYPES or mime.endswith("xml")
    return WebPage(url, mime, decoded(data, charset, markup=markup))


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "the TLS handshake failed").replace("_", " ").lower()
    if isinstance(error, TimeoutError):
        return "no answer"
    if error.errno in errno.errorcode:
        return os.strerror(error.errno or 0).lower()
    return str(error) or type(error).__name__
