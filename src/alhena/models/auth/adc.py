"""Application Default Credentials: what Google's tools leave on a machine for programs to use.

Looked for are, in this order, the file that GOOGLE_APPLICATION_CREDENTIALS names, the one that
`gcloud auth application-default login` writes, and on Google's machines the metadata server.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from alhena.config.files import NotReadableError, read_limited
from alhena.models.auth.bearer import quota_project
from alhena.models.auth.tokens import TokenSource
from alhena.models.errors import CredentialsError
from alhena.wire.plain import as_object

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
LOGIN = "gcloud auth application-default login"
_VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
_GCLOUD_FILE = "application_default_credentials.json"
_PRODUCT_NAME = Path("/sys/class/dmi/id/product_name")
_SERVERLESS = ("K_SERVICE", "CLOUD_RUN_JOB")


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens, the project that is charged for them when it is not their own, and where they come
    from, for people."""

    tokens: TokenSource
    source: str
    quota_project: str = ""

    def __repr__(self) -> str:
        return f"Credentials(source={self.source!r}, quota_project={self.quota_project!r})"


def default_credentials(
    environ: Mapping[str, str],
    *,
    metadata: bool = False,
    product: Callable[[], str] | None = None,
) -> Credentials:
    """The credentials of this machine. Nothing is sent before the first token is asked for.

    With `metadata` the metadata server is asked when there is no file, otherwise only where
    `product` (the machine's product name) or the environment says that this is Google's machine.
    Raises CredentialsError, which says where was looked, and never quotes a file.
    """
    named = environ.get(_VARIABLE, "").strip()
    if named:
        return _from_file(Path(named), environ, f"{_VARIABLE} ({named})")
    path = gcloud_file(environ)
    if path is not None and path.exists():
        return _from_file(path, environ, str(path))
    if metadata or _on_google(environ, product or _product_name):
        from alhena.models.auth.metadata import metadata_tokens

        return Credentials(
            tokens=metadata_tokens(environ),
            source="the metadata server",
            quota_project=quota_project(environ),
        )
    places = f"{_VARIABLE} is not set" + (f", there is no {path}" if path is not None else "")
    raise CredentialsError(
        f"no Google credentials: {places}, and this is none of Google's machines.",
        remedy=f"Run `{LOGIN}`, or let {_VARIABLE} name a service account's key file.",
    )


def gcloud_file(environ: Mapping[str, str]) -> Path | None:
    """Where gcloud keeps the credentials for programs; None when there is no home directory."""
    if given := environ.get("CLOUDSDK_CONFIG"):
        return Path(given) / _GCLOUD_FILE
    if os.name == "nt":
        base = environ.get("APPDATA")
        return Path(base) / "gcloud" / _GCLOUD_FILE if base else None
    home = environ.get("HOME")
    return Path(home) / ".config" / "gcloud" / _GCLOUD_FILE if home else None


def _from_file(path: Path, environ: Mapping[str, str], source: str) -> Credentials:
    info = _read(path, source)
    if info.get("type") == "impersonated_service_account":
        from alhena.models.auth.impersonated import impersonated_tokens

        actor = _tokens(as_object(info.get("source_credentials")) or {}, environ, source)
        tokens: TokenSource = impersonated_tokens(info, actor, SCOPE, source, environ)
    else:
        tokens = _tokens(info, environ, source)
    project = quota_project(environ, info.get("quota_project_id"))
    return Credentials(tokens=tokens, source=source, quota_project=project)


def _tokens(info: Mapping[str, Any], environ: Mapping[str, str], source: str) -> TokenSource:
    """The tokens of credentials that stand for themselves."""
    kind = info.get("type")
    if kind == "authorized_user":
        from alhena.models.auth.grants import user_tokens

        return user_tokens(info, environ, source)
    if kind == "service_account":
        from alhena.models.auth.grants import account_tokens

        return account_tokens(info, environ, source)
    if kind in {"external_account", "external_account_authorized_user"}:
        from alhena.models.auth.federated import federated_tokens

        return federated_tokens(info, environ, source)
    raise CredentialsError(
        f"the credentials of {source} are of a type that is not known: {str(kind)[:60]!r}.",
        remedy=f"Run `{LOGIN}`, or use a service account's key file.",
    )


def _read(path: Path, source: str) -> dict[str, Any]:
    remedy = f"Let it name a readable credentials file, or run `{LOGIN}`."
    try:
        data = read_limited(path)
    except (OSError, ValueError) as error:
        reason = str(error) if isinstance(error, NotReadableError) else _reason(error)
        raise CredentialsError(
            f"cannot read the credentials of {source}: {reason}.", remedy=remedy
        ) from error
    try:
        info = as_object(msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        info = None  # not chained: the cause may quote a secret
    if info is None:
        raise CredentialsError(f"the credentials of {source} are no JSON object.", remedy=remedy)
    return info


def _reason(error: OSError | ValueError) -> str:
    strerror = error.strerror if isinstance(error, OSError) else None
    return (strerror or "no usable path").lower()


def _on_google(environ: Mapping[str, str], product: Callable[[], str]) -> bool:
    if environ.get("GCE_METADATA_HOST") or any(environ.get(name) for name in _SERVERLESS):
        return True
    return product().startswith("Google")


def _product_name() -> str:
    try:
        return _PRODUCT_NAME.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
