"""Asking a token endpoint, and what it answers: tokens, or a refusal."""

from urllib.parse import quote, urlencode

import httpx2
import msgspec

from alhena.config.environment import without_secrets
from alhena.display_text import one_line
from alhena.mcp.oauth.errors import RefusedError, SignInError
from alhena.mcp.oauth.http import shown
from alhena.mcp.oauth.tokens import StoredToken
from alhena.wire.text import is_token

BASIC = "client_secret_basic"
MAX_SAID = 300
MAX_LIFE_S = 100 * 366 * 24 * 3600.0
"""The longest that a token can be said to hold: what is more says nothing."""
_TEMPORARY = frozenset({"temporarily_unavailable", "server_error", "slow_down"})


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """RFC 6749, 5.1; `expires_in` in seconds. No token shows in the repr."""

    access_token: str
    token_type: str | None = None
    expires_in: float | None = None
    refresh_token: str | None = None
    scope: str | None = None

    def __repr__(self) -> str:
        return f"Grant(expires_in={self.expires_in!r})"


class _Refusal(msgspec.Struct, frozen=True):
    """RFC 6749, 5.2."""

    error: str = ""
    error_description: str = ""


def posted(url: str, form: dict[str, str], authorization: str | None) -> httpx2.Request:
    """A request to a token endpoint."""
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    if authorization is not None:
        headers["Authorization"] = authorization
    return httpx2.Request("POST", url, content=urlencode(form).encode("ascii"), headers=headers)


def refresh_request(token: StoredToken) -> httpx2.Request:
    """The request that renews a token (RFC 6749, 6)."""
    form = {
        "grant_type": "refresh_token",
        "refresh_token": token.refresh_token,
        "client_id": token.client_id,
        "resource": token.resource or token.server_url.partition("#")[0],
    }
    if token.audience:
        form["audience"] = token.audience
    authorization = None
    if token.client_secret and token.auth_method == BASIC:
        from base64 import b64encode

        pair = f"{quote(token.client_id, safe='')}:{quote(token.client_secret, safe='')}"
        authorization = f"Basic {b64encode(pair.encode('ascii')).decode('ascii')}"
    elif token.client_secret:
        form["client_secret"] = token.client_secret
    return posted(token.token_url, form, authorization)


def read_grant(status: int, body: bytes, url: str, secrets: tuple[str, ...]) -> Grant:
    """The tokens of an answer. Raises RefusedError when the server says no and would say so again,
    another SignInError when it cannot say now, or says something else. No message quotes any of
    `secrets`."""
    place = shown(url)
    if status not in (200, 201):
        raise _refusal(status, body, place, secrets)
    try:
        # Not chained: the cause may quote a token.
        grant = msgspec.json.decode(body, type=Grant, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        grant = None
    known = grant is not None and (grant.token_type or "bearer").lower() == "bearer"
    if grant is None or not known or not is_token(grant.access_token):
        raise SignInError(f"{place} gave something else than a token that can be sent")
    return msgspec.structs.replace(grant, expires_in=_life(grant.expires_in))


def _life(seconds: float | None) -> float | None:
    """So many seconds as a time can be told by; None where none was said, or one that is none."""
    if seconds is None or not seconds <= MAX_LIFE_S:  # which NaN is not, either
        return None
    return max(seconds, 0.0)


def refusal_words(body: bytes, secrets: tuple[str, ...]) -> tuple[str, str]:
    """The code of a refusal, "" for none, and what is said of it with `secrets` taken out."""
    try:
        refusal = msgspec.json.decode(body, type=_Refusal)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        refusal = _Refusal()
    said = ": ".join(filter(None, (refusal.error, refusal.error_description)))
    for secret in secrets:
        if len(secret) >= 4:
            said = said.replace(secret, "[redacted]")
    return refusal.error, one_line(without_secrets(said), MAX_SAID)


def _refusal(status: int, body: bytes, place: str, secrets: tuple[str, ...]) -> SignInError:
    code, said = refusal_words(body, secrets)
    words = f"HTTP {status}" + (f", {said}" if said else "")
    if code and code not in _TEMPORARY and 400 <= status < 500 and status != 429:
        return RefusedError(f"{place} gives no token ({words})", code=code)
    return SignInError(f"{place} gives no token for now ({words})")
