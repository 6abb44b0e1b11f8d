"""A GET that reaches the public internet and nothing else.

A host is resolved here, every address of the answer is checked, and the connection goes to one of
those addresses; TLS is verified against the host's name. Each redirect takes the same way. Behind
a proxy, which resolves names by itself, none of this would hold: such a host is refused.
"""

import asyncio
import contextlib
import errno
import os
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from alhena.config.errors import ConfigError
from alhena.system.encoding import SAMPLE_SIZE, is_binary
from alhena.system.web.address import address_problem, host_problem, literal_address
from alhena.system.web.body import decoded
from alhena.system.web.errors import AnswerError, BlockedAddressError, UnreachableError
from alhena.system.web.exchange import Exchange, Head
from alhena.system.web.url import WebUrl, redirected

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
    """What was fetched: the URL it came from in the end, its media type, its text."""

    url: WebUrl
    mime: str
    text: str

    @property
    def is_html(self) -> bool:
        """Whether `text` is HTML."""
        return self.mime in HTML_TYPES


class GuardedFetcher:
    """Fetches text from the public internet.

    `tls` makes the context for https; `behind_proxy` says whether requests to a host have to go
    through a proxy.
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
        """Raises BlockedAddressError when the host is, or resolves to, anything not public.

        A host that does not resolve here, or is reached through a proxy, is judged by its name.
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
        """The page at `url`. Raises FetchError."""
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
        """The page, or where the server sends us instead."""
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
        """A connection to the first address that takes it; each gets its share of the time."""
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
    """The addresses the system knows for a host."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for _family, _type, _protocol, _name, address in found]


async def system_connector(address: str, port: int) -> socket.socket:
    """A TCP connection to an address; nothing is looked up."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    connecting = socket.socket(family, socket.SOCK_STREAM)
    try:
        connecting.setblocking(False)
        # asyncio sees to it only for sockets whose protocol is spelt out. Without it the last bytes
        # of a request wait until those before them are acknowledged, 40 ms at times.
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
    """A Location header as text: UTF-8, as browsers read it, when it is that."""
    try:
        return location.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return location


def _readable_type(url: WebUrl, head: Head) -> str:
    """The media type of an answer that is text, "" when it has none. Raises AnswerError."""
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
