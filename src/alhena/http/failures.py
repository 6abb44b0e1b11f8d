"""Error messages for failed connections and non-HTTP answers."""

import os
import socket
import ssl

from alhena.errors import NetworkError
from alhena.http.endpoint import Endpoint
from alhena.http.exchange import MAX_HEAD_BYTES, MOST_INTERIM, Named

_TRUST = (
    "If a proxy or gateway inspects TLS here, let SSL_CERT_FILE name its certificate authority."
)
_HTTP_1 = b"HTTP/1."
_ALERT, _HANDSHAKE = 0x15, 0x16
_SETTINGS = 4


def unreachable(error: OSError, endpoint: Endpoint, limit: float) -> NetworkError:
    """The error for a connection that failed or timed out after `limit` seconds."""
    place = endpoint.place
    address = f"Check the network, {endpoint.source} and the proxy variables."
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message
        return NetworkError(f"the certificate of {place} is not trusted: {reason}.", remedy=_TRUST)
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or "handshake failed").replace("_", " ").lower()
        return NetworkError(f"no TLS connection to {place}: {reason}.", remedy=address)
    if isinstance(error, socket.gaierror):
        return NetworkError(f"cannot find the host {endpoint.host}.", remedy=address)
    if isinstance(error, TimeoutError) and error.errno is None:
        return NetworkError(f"no connection to {place} within {limit:g} s.", remedy=address)
    if error.errno:
        reason = os.strerror(error.errno).lower()
    elif isinstance(error, ConnectionError):
        reason = "it closed the connection"
    else:
        reason = "none of its addresses answers"
    return NetworkError(f"cannot connect to {place}: {reason}.", remedy=address)


def unreadable(start: bytes, named: Named, *, interim: int, ended: bool) -> NetworkError:
    """The error for an answer that begins with `start`, after `interim` answers of status 1xx.
    `ended`: the connection was closed there."""
    again = f"Run again; if it stays so, check {named.source}."
    address = f"Check the host and port of {named.source}."
    if interim > MOST_INTERIM:
        said, remedy = f"sent {interim} interim answers (1xx) and no other.", again
    elif not start:
        said, remedy = "closed the connection after an interim answer (1xx).", again
    elif _is_http_2(start):
        said = "answers in HTTP/2 where HTTP/1.1 was asked for."
        remedy = f"Check {named.source}: what stands there has to take HTTP/1.1."
    elif start[0] in {_ALERT, _HANDSHAKE} and start[1:2] == b"\x03":
        said = "answers in TLS to a request without it."
        remedy = f"Check {named.source}: such an address begins with https://."
    elif not start.startswith(_HTTP_1[: len(start)]):
        said, remedy = "does not answer in HTTP.", address
    elif start[len(_HTTP_1) + 1 :].startswith(b" 101"):
        said = "changes to another protocol (status 101), which was not asked for."
        remedy = f"Check {named.source}: it has to be the address of a model service."
    elif ended:
        said, remedy = "closed the connection in the middle of the head of its answer.", again
    else:
        size = MAX_HEAD_BYTES // 1024
        said = f"does not answer in HTTP: the head is malformed, or longer than {size} KiB."
        remedy = address
    return NetworkError(f"{named.place} {said}", remedy=remedy)


def _is_http_2(start: bytes) -> bool:
    """True for the start of an HTTP/2 answer: its name, or a settings frame."""
    return start.startswith(b"HTTP/2") or (
        start[:2] == b"\0\0" and start[3:4] == bytes([_SETTINGS])
    )
