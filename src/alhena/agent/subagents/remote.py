"""Remote agents as data: the address of the agent card, and the credentials that requests carry."""

from collections.abc import Callable
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

import msgspec

from alhena.config.documents import read_value
from alhena.errors import ConfigError
from alhena.http.addresses import Endpoint, is_loopback, parse_endpoint
from alhena.tools.builtin.subagents import AgentSummary
from alhena.tools.registry import is_declarable
from alhena.values import Value

WELL_KNOWN = "/.well-known/agent-card.json"


def missing_package() -> str:
    """The remedy where the package of the protocol is not installed."""
    from alhena.distribution import install_command

    return f"it needs a package. Install it: {install_command('a2a')}"


class _Secret(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"


class ApiKeyAuth(_Secret, frozen=True, tag="apiKey"):
    """A key in a header. Like the other secrets, `key` is a text, `$VARIABLE` or `!command`."""

    key: str
    name: str = "X-API-Key"


class HttpAuth(_Secret, frozen=True, tag="http"):
    """An Authorization header: a `token` for Bearer, `username` and `password` for Basic, and the
    raw `value` for other schemes."""

    scheme: str
    token: str = ""
    username: str = ""
    password: str = ""
    value: str = ""


class GoogleAuth(_Secret, frozen=True, tag="google-credentials"):
    """Application Default Credentials: an access token for hosts of googleapis.com, an identity
    token for those of run.app. `scopes` are read and not used: access tokens are for the whole
    Cloud Platform."""

    scopes: tuple[str, ...] = ()


class OAuth(_Secret, frozen=True, tag="oauth"):
    """OAuth 2.0 with a person who signs in (`alhena agents auth`). What is empty comes from the
    agent card, but for the `token_url` that gets a `client_secret`."""

    client_id: str = ""
    client_secret: str = ""
    scopes: tuple[str, ...] = ()
    authorization_url: str = ""
    token_url: str = ""


Auth = ApiKeyAuth | HttpAuth | GoogleAuth | OAuth


class RemoteAgent(Value, frozen=True, kw_only=True):
    """An agent behind an A2A interface. `card` is the URL of its agent card, or the card itself as
    JSON. `auth` is a mapping as definition files have it, such as `{"type": "apiKey", "key":
    "$KEY"}`. `time_limit_s` limits one task. `why_held` is asked before a command for credentials
    runs: the reason why it may not, "" if it may.

    Raises ConfigError for an unusable name, URL or `auth`.
    """

    name: str
    card: str
    description: str = ""
    auth: Any = None
    time_limit_s: float = 1800
    why_held: Callable[[], str] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        where = f"RemoteAgent {self.name!r:.60}"
        if not is_declarable(self.name):
            raise ConfigError(f"{where}: that is no name.", remedy="Use letters, digits, _ and -.")
        if not self.is_inline:
            checked_url(self.card, f"{where}: the agent card")
        if self.auth is not None:
            msgspec.structs.force_setattr(self, "auth", auth_of(self.auth, where))

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands that give its credentials."""
        texts = msgspec.structs.astuple(self.auth) if self.auth is not None else ()
        return tuple(
            each[1:].strip()
            for each in texts
            if isinstance(each, str) and each.startswith("!") and not each.startswith("!!")
        )

    @property
    def is_inline(self) -> bool:
        """True when `card` is the card and not its URL."""
        return self.card.lstrip().startswith("{")

    @property
    def card_url(self) -> str:
        """The URL of the card; a host alone has it at the well-known path. "" for an inline
        card."""
        if self.is_inline:
            return ""
        parts = urlsplit(self.card.strip())
        return urlunsplit(parts._replace(path=WELL_KNOWN) if parts.path in {"", "/"} else parts)

    @property
    def summary(self) -> AgentSummary:
        """The description of the agent for models, and for people who approve it."""
        told = self.description or f"A remote agent called {self.name}."
        place = self.card_url.partition("?")[0]  # a query may hold a secret
        return AgentSummary(self.name, told, place or "a remote agent")


def auth_of(value: object, where: str) -> Auth:
    """Reads the `auth` of a definition. Raises ConfigError, which quotes no secret."""
    if isinstance(value, ApiKeyAuth | HttpAuth | GoogleAuth | OAuth):
        return value
    try:
        auth: Auth = read_value(value, cast("Any", Auth))
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"{where}: auth is invalid: {error}.",
            remedy="Its type is apiKey, http, google-credentials or oauth.",
        ) from None
    missing = _missing(auth)
    if missing:
        raise ConfigError(f"{where}: auth has no {missing}.", remedy=f"Add {missing}.")
    return auth


def _missing(auth: Auth) -> str:
    """The first key without which the credentials cannot be sent."""
    match auth:
        case ApiKeyAuth():
            wanted = ("key", "name")
        case HttpAuth():
            of_scheme = {"bearer": ("token",), "basic": ("username", "password")}
            wanted = ("scheme", *of_scheme.get(auth.scheme.lower(), ("value",)))
        case OAuth():
            wanted = ("client_id", "token_url") if auth.client_secret else ("client_id",)
        case GoogleAuth():
            wanted = ()
    return next((key for key in wanted if not getattr(auth, key)), "")


def checked_url(url: str, what: str) -> Endpoint:
    """The place of a URL that may be asked: https, or this machine. Raises ConfigError."""
    endpoint = parse_endpoint(url.partition("?")[0], what)
    if not endpoint.secure and not is_loopback(endpoint.host):
        raise ConfigError(
            f"{what} is at {endpoint.place}, which is not encrypted.", remedy="Use an https URL."
        )
    return endpoint
