"""Code Assist for a way of signing in."""

from collections.abc import Callable, Mapping

from alhena.config.settings import OAuthSettings
from alhena.models.auth.bearer import BearerAccess
from alhena.models.auth.store import PrivateFiles
from alhena.models.code_assist.generator import CodeAssist, code_assist

Tell = Callable[[str], None]


def for_login(
    environ: Mapping[str, str],
    files: PrivateFiles | None,
    settings: OAuthSettings,
    *,
    tell: Tell | None = None,
) -> CodeAssist:
    """For the user who signed in with a Google account (oauth-personal). `tell` gets warnings, and
    what a new user should read. Raises CredentialsError when nobody has signed in, ConfigError."""
    from alhena.models.auth.signed_in import signed_in

    found = signed_in(environ, files, settings, warn=tell)
    access = BearerAccess(found.tokens, remedy=found.remedy, quota_project=found.quota_project)
    return code_assist(environ, access, tell=tell)


def for_machine(environ: Mapping[str, str], *, tell: Tell | None = None) -> CodeAssist:
    """For the credentials of this machine (compute-default-credentials, cloud-shell): the metadata
    server is asked where there is no file. Raises CredentialsError, ConfigError."""
    from alhena.models.auth.adc import default_credentials

    found = default_credentials(environ, metadata=True)
    remedy = f"Check the credentials of {found.source}."
    access = BearerAccess(found.tokens, remedy=remedy, quota_project=found.quota_project)
    return code_assist(environ, access, tell=tell)
