"""Authentication types of model services, named as in `security.auth.selectedType`."""

from collections.abc import Mapping
from enum import StrEnum

from alhena.config.settings import AuthSettings
from alhena.models.errors import CredentialsError


class AuthType(StrEnum):
    """The authentication types. CLOUD_SHELL is an older name of COMPUTE."""

    LOGIN = "oauth-personal"
    API_KEY = "gemini-api-key"
    VERTEX = "vertex-ai"
    COMPUTE = "compute-default-credentials"
    CLOUD_SHELL = "cloud-shell"
    GATEWAY = "gateway"


def auth_type(settings: AuthSettings, environ: Mapping[str, str]) -> AuthType | None:
    """The type selected in the settings, else by the environment, else the enforced one; None if
    unspecified.

    Raises CredentialsError for an unknown type, and when another type is enforced.
    """
    selected = _parsed(settings.selected_type, "selectedType")
    enforced = _parsed(settings.enforced_type, "enforcedType")
    current = selected or _of_environment(environ) or enforced
    if enforced is not None and current is not enforced:
        raise CredentialsError(
            f"The enforced authentication type is '{enforced}', but the current type is "
            f"'{current}'.",
            remedy=(
                "Change security.auth.selectedType, or the variables that ask for it; "
                "security.auth.enforcedType allows no other."
            ),
        )
    return current


def is_on(environ: Mapping[str, str], variable: str) -> bool:
    """True when a variable is "true" or "1"."""
    return environ.get(variable, "").strip().lower() in {"true", "1"}


def _of_environment(environ: Mapping[str, str]) -> AuthType | None:
    """The first type selected by variables, in the reference's order; GOOGLE_API_KEY comes last."""
    if is_on(environ, "GOOGLE_GENAI_USE_GCA"):
        return AuthType.LOGIN
    if is_on(environ, "GOOGLE_GENAI_USE_VERTEXAI"):
        return AuthType.VERTEX
    if environ.get("GOOGLE_GEMINI_BASE_URL", "").strip():
        return AuthType.GATEWAY
    if environ.get("GEMINI_API_KEY", "").strip():
        return AuthType.API_KEY
    if is_on(environ, "CLOUD_SHELL") or is_on(environ, "GEMINI_CLI_USE_COMPUTE_ADC"):
        return AuthType.COMPUTE
    return AuthType.API_KEY if environ.get("GOOGLE_API_KEY", "").strip() else None


def _parsed(word: str | None, key: str) -> AuthType | None:
    if not word:
        return None
    try:
        return AuthType(word)
    except ValueError:
        known = ", ".join(AuthType)
        raise CredentialsError(
            f"Invalid auth method selected: {word[:60]!r} in security.auth.{key}.",
            remedy=f"Known are {known}.",
        ) from None
