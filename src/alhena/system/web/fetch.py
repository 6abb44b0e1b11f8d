"""A GET that reaches only the public internet, with a bounded body.

The host is resolved here, every address is checked, and the connection uses one of them; TLS is
verified against the host's name. Each redirect is checked the same way. A proxy resolves names by
itself, which defeats the check: hosts behind a proxy are refused.
"""

import asyncio
import codecs
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

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
    resolve_redirect,
)

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Request, Response, TransportError

_META = re.compile(
    rb"(?:<meta[^>]{0,500}?charset|\A\s*<\?xml[^>]{0,200}?encoding)"
    rb"\s*=\s*[\"']?\s*([a-zA-Z0-9_:.-]{1,40})",
    re.IGNORECASE,
)
_NO_CHARSETS = frozenset({"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined"})
_WIDER = {"gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949"}
"""Python's codecs that decode more of what pages with these encodings hold."""


def decode_body(data: bytes, charset: str, *, markup: bool) -> str:
    """Decodes a body: by its byte order mark, the header's charset, the page's own, or
    detection."""
    if not data.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        named = _find_codec(charset)
        if named is None and markup and (meta := _META.search(data[:1024])):
            named = _find_codec(meta[1].decode("ascii"))
            if named is not None and named.name.startswith("utf-16"):
                # A page whose charset is readable as ASCII is not UTF-16.
                named = codecs.lookup("utf-8")
        if named is not None:
            return named.decode(data, "replace")[0]
    return decode_text(data).shown


def _find_codec(charset: str) -> codecs.CodecInfo | None:
    """The codec of a label of the encoding standard, or else of a name that Python knows. Labels
    that the standard has only to refuse them are among the latter."""
    from webencodings import lookup

    label = charset.strip().strip("\"'")
    found = lookup(label)
    if found is not None and found.name != "replacement":
        name = found.codec_info.name
        return codecs.lookup(_WIDER[name]) if name in _WIDER else found.codec_info
    try:
        codec = codecs.lookup(label)
        b"  ".decode(codec.name, "replace")  # rejects names that are not text encodings
    except (LookupError, ValueError):
        return None
    return None if codec.name.replace("-", "_") in _NO_CHARSETS else codec


_HEADERS = (
    ("user-agent", "Mozilla/5.0 (compatible; alhena web_fetch)"),
    ("accept", "text/markdown, text/html, text/plain, application/json, text/*;q=0.9, */*;q=0.5"),
    ("accept-encoding", "gzip"),
    ("accept-language", "en, *;q=0.5"),
)

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host name and port -> addresses. Raises OSError."""
Place = Callable[[str, int], tuple[str, int]]
"""The address and port to connect to for an allowed address and port."""

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
        place: Place = lambda address, port: (address, port),
        limits: FetchLimits | None = None,
    ) -> None:
        self._tls = tls
        self._behind_proxy = behind_proxy
        self._resolve = resolve or system_resolver
        self._place = place
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
        import httpx2

        places = [self._place(address, url.port) for address in await self._allowed_addresses(url)]
        limit = httpx2.Timeout(None, connect=self._limits.connect / len(places))
        try:
            self._context = self._context or self._tls()
            async with (
                httpx2.AsyncClient(verify=self._context, trust_env=False, timeout=limit) as client,
                aclosing(await send_to_first(client, self._request(url), places)) as answer,
            ):
                location = answer.headers.get("location")
                if answer.status_code in _REDIRECTS and location:
                    return resolve_redirect(url, location)
                mime = _readable_type(url, answer)
                data = await self._body(url, answer)
        except ConfigError as error:
            raise UnreachableError(f"no TLS connection to {url.authority}: {error}") from error
        except (httpx2.RemoteProtocolError, httpx2.DecodingError) as error:
            raise AnswerError(f"{url.authority} gave no usable answer: {error}.") from error
        except httpx2.TransportError as error:
            raise _unreachable(url, error) from error
        return _page(url, mime, _charset(answer), data)

    def _request(self, url: WebUrl) -> "Request":
        from httpx2 import Request

        headers = [("host", url.authority), *_HEADERS]
        return Request("GET", str(url), headers=headers)

    async def _body(self, url: WebUrl, answer: "Response") -> bytes:
        data = bytearray()
        async for piece in answer.aiter_bytes():
            data += piece
            if len(data) > self._limits.size:
                raise AnswerError(f"{url.authority} sent more than {self._limits.size >> 20} MB.")
        return bytes(data)

    async def _allowed_addresses(self, url: WebUrl) -> Sequence[str]:
        """The addresses of a URL that may be fetched."""
        from alhena.http.addresses import refusal

        _check_name(url)
        if self._behind_proxy(url):
            raise BlockedAddressError(
                f"{url.authority} is reached through a proxy, which would resolve the name itself, "
                "so that its address cannot be checked.",
                remedy="Add the host to NO_PROXY if this machine may reach it directly.",
            )
        if refused := refusal(url.host):
            raise UnreachableError(refused)
        try:
            async with asyncio.timeout(self._limits.connect):
                return await self._addresses(url)
        except TimeoutError as error:
            raise UnreachableError(
                f"cannot find the host {url.host} within {self._limits.connect:g} s."
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


async def send_to_first(
    client: "AsyncClient", request: "Request", places: Sequence[tuple[str, int | None]]
) -> "Response":
    """Sends a request to the first of these addresses and ports that accepts a connection. The
    certificate is checked for the host's name."""
    from httpx2 import ConnectError, ConnectTimeout

    *others, last = (_at(request, host, port) for host, port in places)
    for attempt in others:
        try:
            return await client.send(attempt, stream=True, follow_redirects=False)
        except (ConnectError, ConnectTimeout):
            continue
    return await client.send(last, stream=True, follow_redirects=False)


def _at(request: "Request", host: str, port: int | None) -> "Request":
    from httpx2 import Request

    name = request.url.host.rstrip(".")
    return Request(
        request.method,
        request.url.copy_with(host=host, port=port),
        headers=request.headers,  # includes Host
        content=request.content,
        extensions={**request.extensions, "sni_hostname": name},
    )


async def system_resolver(host: str, port: int) -> Sequence[str]:
    """Resolves a host with the system's resolver."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for _family, _type, _protocol, _name, address in found]


def _check_name(url: WebUrl) -> None:
    if problem := host_problem(url.host):
        raise BlockedAddressError(f"{problem}.", remedy=_REMEDY)


def _readable_type(url: WebUrl, answer: "Response") -> str:
    """The media type of a text answer, "" without one. Raises AnswerError."""
    if not answer.is_success:
        raise AnswerError(f"{url} answers with HTTP status {answer.status_code}.")
    mime = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    known = mime.startswith("text/") or mime in _TEXT_TYPES or mime in HTML_TYPES
    if mime and not known and not mime.endswith(("+json", "+xml", "+yaml")):
        raise AnswerError(f"{url} is of type {mime[:80]}, which is not text.")
    return mime


def _charset(answer: "Response") -> str:
    kind = answer.headers.get("content-type", "")
    found = re.search(r"charset\s*=\s*([^;\s]{1,60})", kind, re.IGNORECASE)
    return found[1] if found else ""


def _page(url: WebUrl, mime: str, charset: str, data: bytes) -> WebPage:
    if not charset and is_binary(data[:SAMPLE_SIZE]):
        raise AnswerError(f"{url} is binary data, not text.")
    if not mime:
        start = data[:1024].lstrip().lower()
        mime = "text/html" if start.startswith((b"<!doctype html", b"<html")) else "text/plain"
    markup = mime in HTML_TYPES or mime.endswith("xml")
    return WebPage(url, mime, decode_body(data, charset, markup=markup))


def _unreachable(url: WebUrl, error: "TransportError") -> UnreachableError:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return UnreachableError(
                f"the certificate of {url.authority} is not trusted: {cause.verify_message}."
            )
        cause = cause.__cause__ or cause.__context__
    return UnreachableError(
        f"no connection to {url.authority}: {str(error) or type(error).__name__}."
    )
