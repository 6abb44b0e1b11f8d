"""Whose token goes out when a user signs in with a Google account (GOOGLE_GENAI_USE_GCA)."""

from collections.abc import Callable, Mapping

import msgspec

from alhena.config.settings import OAuthSettings
from alhena.models.auth.client import find_addresses, find_client
from alhena.models.auth.exchange import TokenEndpoint
from alhena.models.auth.store import CREDENTIALS_FILE, LoginStore, PrivateFiles
from alhena.models.auth.tokens import FixedToken, RenewedTokens, TokenSource, checked_token
from alhena.models.auth.user import UserLogin
from alhena.models.errors import CredentialsError

_GIVEN = "GOOGLE_CLOUD_ACCESS_TOKEN"
_FILE = "GOOGLE_APPLICATION_CREDENTIALS"


class SignedIn(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens, where they come from in words, what to do when they are refused, and the project that
    is charged for them when it is not their own."""

    tokens: TokenSource
    source: str
    remedy: str
    quota_project: str = ""

    def __repr__(self) -> str:
        return f"SignedIn(source={self.source!r})"


def signed_in(
    environ: Mapping[str, str],
    files: PrivateFiles | None,
    settings: OAuthSettings,
    *,
    warn: Callable[[str], None] | None = None,
) -> SignedIn:
    """The user's tokens. Nothing is sent before the first is asked for.

    In this order: GOOGLE_CLOUD_ACCESS_TOKEN, when GOOGLE_GENAI_USE_GCA is set; the login of
    `alhena auth login` (or of the reference) in `files`, if there are any; the file of
    GOOGLE_APPLICATION_CREDENTIALS. `warn` is told when a renewed login could not be kept. Raises
    CredentialsError when there is none of them, ConfigError for a client or an address that cannot
    be used.
    """
    given = environ.get("GOOGLE_CLOUD_ACCESS_TOKEN", "").strip()
    if given and environ.get("GOOGLE_GENAI_USE_GCA", "").strip().lower() in {"true", "1"}:
        return SignedIn(
            tokens=FixedToken(checked_token(given, _GIVEN)),
            source=_GIVEN,
            remedy=f"Set {_GIVEN} to a token that holds, or unset it and run alhena auth login.",
        )
    store = LoginStore(files) if files is not None else None
    if store is not None and store.load() is not None:
        endpoint = TokenEndpoint(find_addresses(environ), environ=environ)
        login = UserLogin(store, endpoint, find_client(environ, settings), warn=warn)
        return SignedIn(
            tokens=RenewedTokens(login.renew),
            source=CREDENTIALS_FILE,
            remedy="Sign in again: alhena auth login.",
        )
    if environ.get("GOOGLE_APPLICATION_CREDENTIALS", "").strip():
        from alhena.models.auth.adc import default_credentials

        found = default_credentials(environ)
        remedy = f"Check {_FILE}, or run alhena auth login."
        return SignedIn(
            tokens=found.tokens,
            source=found.source,
            remedy=remedy,
            quota_project=found.quota_project,
        )
    raise CredentialsError(
        "nobody has signed in with a Google account.",
        remedy=f"Run: alhena auth login. Or set {_GIVEN}.",
    )
