"""One authorization request (RFC 6749 with PKCE, RFC 7636) and what comes back for it."""

import secrets
from base64 import urlsafe_b64encode
from urllib.parse import parse_qs, urlencode

import msgspec

from alhena.models.auth.client import SCOPES, OAuthClient
from alhena.models.errors import CredentialsError
from alhena.wire.text import excerpt, is_token

_REMEDY = "Sign in again: alhena auth login."


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """What one login is known by. Neither the state nor the verifier shows in the repr."""

    redirect_uri: str
    state: str
    verifier: str

    def __repr__(self) -> str:
        return f"Attempt(redirect_uri={self.redirect_uri!r})"


class StrayAnswerError(CredentialsError):
    """What came back belongs to another login, or to none."""


def new_attempt(redirect_uri: str) -> Attempt:
    """A login that comes back to `redirect_uri`, with 256 bits of chance in each of its words."""
    return Attempt(
        redirect_uri=redirect_uri,
        state=secrets.token_hex(32),
        verifier=secrets.token_urlsafe(48),
    )


def authorization_url(page: str, client: OAuthClient, attempt: Attempt) -> str:
    """Where a person consents."""
    from hashlib import sha256

    digest = sha256(attempt.verifier.encode("ascii")).digest()
    fields = {
        "response_type": "code",
        "client_id": client.id,
        "redirect_uri": attempt.redirect_uri,
        "scope": " ".join(SCOPES),
        "access_type": "offline",
        "state": attempt.state,
        "code_challenge": urlsafe_b64encode(digest).rstrip(b"=").decode("ascii"),
        "code_challenge_method": "S256",
    }
    return f"{page}{'&' if '?' in page else '?'}{urlencode(fields)}"


def answered_code(query: str, attempt: Attempt) -> str:
    """The code in the query of the redirect.

    Raises StrayAnswerError when the state is not this login's, CredentialsError when the person or
    the service refused. No message quotes a code or a state.
    """
    try:
        fields = parse_qs(query, max_num_fields=32)
    except ValueError as error:
        raise StrayAnswerError("the answer of the browser cannot be read.") from error
    state = fields.get("state", [])
    if len(state) != 1 or not secrets.compare_digest(_bytes(state[0]), _bytes(attempt.state)):
        raise StrayAnswerError(
            "what came back belongs to another login: its state differs.", remedy=_REMEDY
        )
    refused, codes = fields.get("error", []), fields.get("code", [])
    if refused:
        said = excerpt(": ".join((refused[0], *fields.get("error_description", [])[:1])), 200)
        raise CredentialsError(f"Google did not sign you in: {said}.", remedy=_REMEDY)
    if len(codes) != 1:
        raise CredentialsError("what came back holds no code.", remedy=_REMEDY)
    return codes[0]


def pasted_code(text: str, attempt: Attempt) -> str:
    """The code in what a person pasted: the code itself, or the whole address that the browser
    ended at. Raises CredentialsError, as `answered_code` does."""
    given = text.strip()
    if given.startswith(("http://", "https://")):
        return answered_code(given.partition("?")[2].partition("#")[0], attempt)
    if not is_token(given):
        raise CredentialsError(
            "that is no authorization code: it is empty, or has blanks or characters that none has."
        )
    return given


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
