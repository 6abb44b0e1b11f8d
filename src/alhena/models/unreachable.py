"""Why a service could not be reached, in words."""

import os
import socket
import ssl

from alhena.models.endpoint import Endpoint
from alhena.models.errors import NetworkError

_TRUST = (
    "If a proxy or gateway inspects TLS here, let SSL_CERT_FILE name its certificate authority."
)


def unreachable(error: OSError, endpoint: Endpoint, limit: float) -> NetworkError:
    """The error for a connection that could not be made within `limit` seconds."""
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
