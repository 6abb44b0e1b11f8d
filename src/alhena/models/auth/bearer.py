"""Requests that show an access token."""

from collections.abc import Mapping

from alhena.config.errors import ConfigError
from alhena.http.endpoint import is_header_value
from alhena.models.auth.tokens import TokenSource, other_token

_SCHEME = "Bearer "


def quota_project(environ: Mapping[str, str], default: object = None) -> str:
    """The project that is charged: GOOGLE_CLOUD_QUOTA_PROJECT, else `default` if it is one, else
    "". Raises ConfigError when no header can carry the variable."""
    given = environ.get("GOOGLE_CLOUD_QUOTA_PROJECT", "").strip()
    if not is_header_value(given):
        raise ConfigError(
            "GOOGLE_CLOUD_QUOTA_PROJECT is no project.", remedy="Set it to a project's id."
        )
    if given or not isinstance(default, str) or not is_header_value(default):
        return given
    return default


class BearerAccess:
    """The token of a source, and the project that is charged when that is another than the token's
    own (`x-goog-user-project`). `remedy` is what messages advise when the service refuses it."""

    def __init__(self, tokens: TokenSource, *, remedy: str, quota_project: str = "") -> None:
        self._tokens = tokens
        self._remedy = remedy
        self._quota_project = quota_project

    @property
    def remedy(self) -> str:
        """What to do when the token is refused."""
        return self._remedy

    async def headers(self) -> dict[str, str]:
        """The headers of the next request. Raises what the source raises."""
        return self._shown(await self._tokens.token())

    async def renewed(self, refused: Mapping[str, str]) -> dict[str, str] | None:
        """The headers with a token that was not refused yet, None when there is none."""
        old = refused.get("authorization", "").removeprefix(_SCHEME)
        token = await other_token(self._tokens, old)
        return None if token is None else self._shown(token)

    def _shown(self, token: str) -> dict[str, str]:
        shown = {"authorization": f"{_SCHEME}{token}"}
        if self._quota_project:
            shown["x-goog-user-project"] = self._quota_project
        return shown
