"""Who may use the gateway: whoever has its key, or without one whoever is on this machine."""

import hmac
from collections.abc import Mapping
from urllib.parse import urlsplit

from alhena.gateway.faults import FaultKind, RefusedError, refused
from alhena.http.endpoint import is_loopback


class Guard:
    """Lets requests in.

    With a `key` they have to show it: as a bearer token, in x-api-key or in x-goog-api-key. Without
    one nobody but this machine can reach the gateway; then its own browser must not be made to by a
    page from elsewhere, so that Host and Origin have to name this machine.
    """

    def __init__(self, key: str = "") -> None:
        self._key = key.encode("utf-8")

    def check(self, headers: Mapping[str, str]) -> None:
        """Raises RefusedError."""
        if not self._key:
            _require_local(headers)
            return
        shown = _shown(headers)
        if not shown:
            raise refused(
                FaultKind.UNAUTHENTICATED,
                "no key was given: send it as a bearer token, x-api-key or x-goog-api-key.",
            )
        if not any(hmac.compare_digest(one, self._key) for one in shown):
            raise refused(FaultKind.UNAUTHENTICATED, "the key is not the gateway's.")


def _shown(headers: Mapping[str, str]) -> list[bytes]:
    scheme, _, token = headers.get("authorization", "").strip().partition(" ")
    found = [token if scheme.lower() == "bearer" else ""]
    found += [headers.get("x-api-key", ""), headers.get("x-goog-api-key", "")]
    # Header values are latin-1 here; a key that is UTF-8 has to be compared as what was sent.
    return [value.strip().encode("latin-1", "replace") for value in found if value.strip()]


def _require_local(headers: Mapping[str, str]) -> None:
    host = headers.get("host", "")
    if not _is_local(f"//{host}"):
        raise _elsewhere("Host", host)
    origin = headers.get("origin")
    if origin is not None and not _is_local(origin):
        raise _elsewhere("Origin", origin)


def _is_local(url: str) -> bool:
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False


def _elsewhere(header: str, value: str) -> RefusedError:
    return refused(
        FaultKind.FORBIDDEN,
        f"the header {header} names {value[:100]!r}, which is not this machine; "
        "run the gateway with a key to use it under another name.",
    )
