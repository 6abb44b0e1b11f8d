"""Which OAuth client signs a user in, and at which addresses."""

from collections.abc import Mapping

import msgspec

from alhena.config.errors import ConfigError
from alhena.config.settings import OAuthSettings
from alhena.http.endpoint import Endpoint
from alhena.models.auth.grant import token_endpoint
from alhena.models.errors import CredentialsError
from alhena.wire.text import is_token

PASTE_PAGE = "https://codeassist.google.com/authcode"
"""Shows the code to be pasted, where no browser can reach this machine."""

SCOPES = (
    "https://www.googleapis.com/auth/cloud-platform",
    "https://www.googleapis.com/auth/userinfo.email",
    "https://www.googleapis.com/auth/userinfo.profile",
)

_AUTHORIZATION = "https://accounts.google.com/o/oauth2/v2/auth"
_EXCHANGE = "https://oauth2.googleapis.com/token"
_USERINFO = "https://www.googleapis.com/oauth2/v2/userinfo"


class OAuthClient(msgspec.Struct, frozen=True, kw_only=True):
    """A client that was registered for an installed application. `paste_page` is its redirect
    address for codes that are pasted. The secret does not show in the repr."""

    id: str
    secret: str
    paste_page: str = PASTE_PAGE

    def __repr__(self) -> str:
        return f"OAuthClient(id={self.id!r}, paste_page={self.paste_page!r})"


class OAuthAddresses(msgspec.Struct, frozen=True, kw_only=True):
    """Where a person consents, where codes and refresh tokens are exchanged, and who tells whose
    they are."""

    authorization: str
    exchange: Endpoint
    userinfo: Endpoint


def find_client(environ: Mapping[str, str], settings: OAuthSettings) -> OAuthClient | None:
    """The client of ALHENA_OAUTH_CLIENT_ID and ALHENA_OAUTH_CLIENT_SECRET, or else of the settings;
    None when there is none. An id may do without a secret.

    Raises ConfigError when an id or secret holds blanks or what is no ASCII.
    """
    identity = environ.get("ALHENA_OAUTH_CLIENT_ID", "").strip()
    secret = environ.get("ALHENA_OAUTH_CLIENT_SECRET", "").strip()
    source = "ALHENA_OAUTH_CLIENT_ID"
    if not identity:
        source = "security.auth.oauth.clientId"
        identity = (settings.client_id or "").strip()
        secret = secret or (settings.client_secret or "").strip()
    if not identity:
        return None
    for value in (identity, secret):
        if value and not is_token(value):
            raise ConfigError(
                f"{source} or its secret holds blanks or characters that none has.",
                remedy="Copy it again.",
            )
    page = environ.get("ALHENA_OAUTH_REDIRECT_URI", "").strip() or settings.redirect_uri
    return OAuthClient(id=identity, secret=secret, paste_page=page or PASTE_PAGE)


def require_client(client: OAuthClient | None) -> OAuthClient:
    """The client. Raises CredentialsError, which says how to set one, when there is none."""
    if client is not None:
        return client
    raise CredentialsError(
        "signing in needs an OAuth client, and none is set: alhena comes without one.",
        remedy=(
            "Set ALHENA_OAUTH_CLIENT_ID and ALHENA_OAUTH_CLIENT_SECRET, or "
            "security.auth.oauth.clientId and clientSecret in settings.json, to a client of the "
            "type Desktop app (https://console.cloud.google.com/apis/credentials)."
        ),
    )


def find_addresses(environ: Mapping[str, str]) -> OAuthAddresses:
    """Google's addresses, or those that ALHENA_OAUTH_AUTHORIZATION_URL, ALHENA_OAUTH_TOKEN_URL and
    ALHENA_OAUTH_USERINFO_URL name instead. Raises ConfigError, also for one that would send
    credentials unencrypted to another machine."""
    pages = environ.get("ALHENA_OAUTH_AUTHORIZATION_URL", "").strip() or _AUTHORIZATION
    exchange = environ.get("ALHENA_OAUTH_TOKEN_URL", "").strip() or _EXCHANGE
    userinfo = environ.get("ALHENA_OAUTH_USERINFO_URL", "").strip() or _USERINFO
    token_endpoint(pages, "ALHENA_OAUTH_AUTHORIZATION_URL")
    return OAuthAddresses(
        authorization=pages,
        exchange=token_endpoint(exchange, "ALHENA_OAUTH_TOKEN_URL"),
        userinfo=token_endpoint(userinfo, "ALHENA_OAUTH_USERINFO_URL"),
    )
