"""Addresses of services, and TCP and TLS connections to them as byte streams with idle timeouts."""

import asyncio
import os
import socket
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from ssl import SSLContext
import re
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


def is_header_name(text: str) -> bool:
    """True when `text` can be the name of a header."""
    return _NAME.fullmatch(text.lower()) is not None


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


HIGH_WATER = 1 << 18
"""Unread bytes (256 KiB) above which reading pauses."""
HEAD_START = 0.25
"""Seconds before the next address of a host is tried in parallel (RFC 8305)."""
CA_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Certificate bundles of various systems, for a Python whose OpenSSL uses other paths."""

CA_FOLDERS = ("/etc/ssl/certs", "/etc/pki/tls/certs")
"""Folders of certificates of various systems, likewise."""
_HASHED = re.compile(r"[0-9a-f]{8}\.\d+")

_BUFFER = 1 << 16
"""Bytes read from the socket at once. The buffer is reused: allocating the transport's default 256
KiB costs more than processing a small piece."""


class _Link(asyncio.BufferedProtocol):
    """The lifecycle of a connection, and the single task that may wait on it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._ended = False
        self._fault: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._deadline = 0.0
        self._silence: asyncio.TimerHandle | None = None
        self._closed = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Stores the transport of the new connection."""
        self._transport = cast("asyncio.Transport", transport)

    def eof_received(self) -> None:
        """Records that the peer has closed its side."""
        self._ended = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Records that the socket is closed; `exc` is the reason, None after a regular end."""
        self._ended = True
        self._fault = exc
        self._transport = None
        self._wake()
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None
        if not self._closed.done():
            self._closed.set_result(None)

    def abort(self) -> None:
        """Closes the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    async def aclose(self) -> None:
        """Closes the connection and waits until the socket is closed."""
        if self._transport is not None:
            self._transport.abort()
            await self._closed

    def _woken(self, idle: float) -> asyncio.Future[None]:
        """Done when woken, or with TimeoutError; one timer is reused, because every piece has a
        wait."""
        self._waiter = self._loop.create_future()
        self._deadline = self._loop.time() + idle
        if self._silence is None or self._silence.when() > self._deadline:
            self._start_timer()
        return self._waiter

    def _start_timer(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
        self._silence = self._loop.call_at(self._deadline, self._check_silence)

    def _check_silence(self) -> None:
        self._silence = None
        if self._waiter is None or self._waiter.done():
            return
        if self._loop.time() < self._deadline:
            self._start_timer()
        else:
            self._waiter.set_exception(TimeoutError())

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Channel(_Link):
    """One connection. It reads while a request is still being written, so that an early answer (a
    refusal of a large body) is not lost when the peer then closes.

    Only one task at a time may wait on it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._writable = True
        self._buffer = memoryview(bytearray(_BUFFER))
        self._pieces: deque[bytes] = deque()
        self._unread = 0

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer for the next bytes."""
        del sizehint
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Stores received bytes; pauses reading when too much is unread."""
        self._pieces.append(bytes(self._buffer[:nbytes]))
        self._unread += nbytes
        if self._unread > HIGH_WATER and self._transport is not None:
            self._transport.pause_reading()
        self._wake()

    def pause_writing(self) -> None:
        """Records that the peer reads too slowly."""
        self._writable = False

    def resume_writing(self) -> None:
        """Records that the peer has caught up."""
        self._writable = True
        self._wake()

    @property
    def usable(self) -> bool:
        """True when an idle connection is open and has no unexpected data."""
        return not self._ended and not self._pieces

    @property
    def arrived(self) -> bool:
        """True when unread bytes have arrived."""
        return bool(self._pieces)

    @property
    def flushed(self) -> bool:
        """True when all written bytes have been sent."""
        return self._transport is not None and not self._transport.get_write_buffer_size()

    async def secure(self, tls: "SSLContext", host: str) -> None:
        """Starts TLS, with `host` as the peer's name. Raises OSError such as ssl.SSLError."""
        if self._transport is None:
            raise ConnectionResetError
        if self._pieces:  # they would be mistaken for encrypted data
            self._transport.abort()
            raise ConnectionAbortedError
        raw = self._transport
        try:
            secured = await self._loop.start_tls(raw, self, tls, server_hostname=host)
        except BaseException:
            raw.abort()
            raise
        if secured is None:
            raise ConnectionResetError
        self._transport = secured

    def put(self, data: bytes) -> None:
        """Sends without waiting for the peer."""
        if self._transport is not None and not self._ended:
            self._transport.write(data)

    async def write(self, data: bytes, idle: float) -> None:
        """Sends; returns when the data is sent, an answer arrives or the peer has closed.

        Raises TimeoutError after `idle` seconds in which the peer accepted nothing.
        """
        self.put(data)
        while not self._writable and not self._pieces and not self._ended:
            await self._woken(idle)

    async def read(self, idle: float) -> bytes:
        """The received bytes, at least one; b"" once the peer has closed.

        Raises TimeoutError after `idle` seconds of silence, OSError when the connection failed.
        """
        while not self._pieces:
            if self._fault is not None:
                raise self._fault
            if self._ended:
                return b""
            await self._woken(idle)
        return self.take()

    def take(self) -> bytes:
        """The received bytes, without waiting."""
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        if self._unread > HIGH_WATER and self._transport is not None and not self._ended:
            self._transport.resume_reading()
        self._unread = 0
        return data


_families: list[socket.AddressFamily] = []


def order_addresses(*, ipv4_first: bool) -> None:
    """Has all connections of this process try a host's IPv4 addresses first."""
    _families[:] = [socket.AF_INET] if ipv4_first else []


def preferred_families() -> tuple[socket.AddressFamily, ...]:
    """The families of addresses that are tried first."""
    return tuple(_families)


forbidden = 0
"""Greater than zero while a program's test lets no request leave."""


def refusal(host: str) -> str | None:
    """The reason why no request may leave to `host`; None: it may."""
    if not forbidden:
        return None
    return f"no_real_requests() lets no request leave to {host}."


async def open_channel(host: str, port: int, tls: "SSLContext | None", limit: float) -> Channel:
    """Connects within `limit` seconds, name resolution and TLS handshake included.

    Raises TimeoutError or OSError (such as socket.gaierror and ssl.SSLError).
    """
    if refused := refusal(host):
        from alhena.errors import ProgramError

        raise ProgramError(refused, remedy="Use a TestModel or a replay instead.")
    async with asyncio.timeout(limit):
        for family in _families:
            with suppress(OSError):
                return await _open_first(host, port, tls, host, family=family)
        loop = asyncio.get_running_loop()
        if isinstance(loop, asyncio.BaseEventLoop):
            return await _open_first(host, port, tls, host, happy_eyeballs_delay=HEAD_START)
        # Other loops, such as uvloop's, try one address after the other.
        return await _race_addresses(await resolve_addresses(host, port), host, port, tls)


async def _open_first(
    address: str, port: int, tls: "SSLContext | None", host: str, **options: Any
) -> Channel:
    """Connects to the first address that answers, with `host` as the peer's name."""
    _transport, channel = await asyncio.get_running_loop().create_connection(
        Channel,
        address,
        port,
        ssl=tls,
        server_hostname=host if tls is not None else None,
        **options,
    )
    return channel


async def resolve_addresses(host: str, port: int) -> list[str]:
    """The addresses of a host, with the families by turns (RFC 8305, 4). Raises OSError."""
    import socket

    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    first = [str(each[4][0]) for each in found if each[0] == found[0][0]]
    others = [str(each[4][0]) for each in found if each[0] != found[0][0]]
    pairs = zip_longest(first, others)
    return [address for pair in pairs for address in pair if address is not None]


async def _race_addresses(
    addresses: list[str], host: str, port: int, tls: "SSLContext | None"
) -> Channel:
    """Connects to the address that answers first; the next one is tried after `HEAD_START`."""
    waiting = deque(addresses)
    attempts: set[asyncio.Task[Channel]] = set()
    errors: list[OSError] = []
    try:
        while waiting or attempts:
            if waiting:
                attempt = _open_first(waiting.popleft(), port, tls, host)
                attempts.add(asyncio.ensure_future(attempt))
            done, _ = await asyncio.wait(
                attempts,
                timeout=HEAD_START if waiting else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in done:
                attempts.remove(task)
                try:
                    return task.result()
                except OSError as error:
                    errors.append(error)
    finally:
        await _end_attempts(attempts)
    raise errors[0] if errors else ConnectionError(f"{host} has no address")


async def _end_attempts(running: "set[asyncio.Task[Channel]]") -> None:
    """Ends attempts that another one has overtaken, and closes what they opened meanwhile."""
    for task in running:
        task.cancel()
    for result in await asyncio.gather(*running, return_exceptions=True):
        if isinstance(result, Channel):
            result.abort()


def tls_context(environ: Mapping[str, str]) -> "SSLContext":
    """A context for outgoing connections, which are always verified: against the system's
    certificates, or those in SSL_CERT_FILE and SSL_CERT_DIR, and those that MORE_CERTIFICATES name.

    Raises ConfigError when these are unreadable.
    """
    context = _base_context(environ)
    for name in MORE_CERTIFICATES:
        if environ.get(name):
            _load_certificates(context, name, environ[name])
    return context


MORE_CERTIFICATES = ("NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Variables of other programs that name certificates to trust, here in addition to the others."""


def _base_context(environ: Mapping[str, str]) -> "SSLContext":
    import ssl
    import sys
    from pathlib import Path

    file, directory = environ.get("SSL_CERT_FILE"), environ.get("SSL_CERT_DIR")
    if directory and not Path(directory).is_dir():
        raise _unusable("SSL_CERT_DIR", directory, "no directory")
    if file or directory:
        try:
            return ssl.create_default_context(cafile=file or None, capath=directory or None)
        except OSError as error:
            raise _unusable("SSL_CERT_FILE", file or "", error.strerror or str(error)) from error
    if sys.platform in {"darwin", "win32"}:
        import truststore

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    default = ssl.get_default_verify_paths().openssl_capath
    folder = _find_hashed_folder((default, *CA_FOLDERS))
    if folder:
        return ssl.create_default_context(capath=folder)
    context = ssl.create_default_context()
    if not context.get_ca_certs():
        _add_bundle(context)
    return context


def _find_hashed_folder(folders: Iterable[str]) -> str:
    """The first folder whose certificates OpenSSL finds one by one by their hashes: reading a whole
    bundle takes 20 ms. "" where there is none, or where a bundle was changed after its folder."""
    for folder in folders:
        try:
            changed = os.stat(folder).st_mtime
            with os.scandir(folder) as entries:
                hashed = any(_HASHED.fullmatch(entry.name) for entry in entries)
        except OSError:
            continue
        if hashed:
            return "" if any(_is_newer(bundle, changed) for bundle in CA_BUNDLES) else folder
    return ""


def _is_newer(path: str, than: float) -> bool:
    try:
        return os.stat(path).st_mtime > than
    except OSError:
        return False


def _load_certificates(context: "SSLContext", name: str, path: str) -> None:
    """Trusts the certificates in the file or directory that a variable names."""
    from pathlib import Path

    folder = Path(path).is_dir()
    try:
        context.load_verify_locations(None if folder else path, path if folder else None)
    except OSError as error:
        raise _unusable(name, path, error.strerror or str(error)) from error


def _unusable(name: str, path: str, reason: str) -> "ConfigError":
    from alhena.errors import ConfigError

    return ConfigError(
        f"{name} ({path}) cannot be used: {reason}.",
        remedy="Let it name PEM certificates, or unset it.",
    )


def _add_bundle(context: "SSLContext") -> None:
    from pathlib import Path

    for bundle in CA_BUNDLES:
        if Path(bundle).is_file():
            context.load_verify_locations(bundle)
            return
