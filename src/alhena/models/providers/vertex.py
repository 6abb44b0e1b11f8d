"""Vertex AI: by project and location, or by an express key (WIRE-04)."""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote

import msgspec

from alhena.errors import ConfigError
from alhena.http import Timeouts
from alhena.http.addresses import Endpoint, parse_endpoint, parse_headers
from alhena.models.errors import CredentialsError
from alhena.models.providers.gemini_api import GeminiMethods, wants_bearer
from alhena.models.service import Access, FixedAccess, HttpService, ServiceOptions, parse_version
from alhena.wire.encode import (
    EncodedContent,
    decode_embed,
    encode_embed_contents,
)
from alhena.wire.response import EmbedContentResponse

DEFAULT_VERSION = "v1beta1"
KEY_REMEDY = "Set GOOGLE_API_KEY to a valid key of Vertex AI in express mode."
SIGN_IN_REMEDY = (
    "Sign in again (gcloud auth application-default login), and check that the account may use "
    "Vertex AI in GOOGLE_CLOUD_PROJECT."
)
GATE_REMEDY = "Check what GOOGLE_VERTEX_BASE_URL wants to see; GEMINI_CLI_CUSTOM_HEADERS sets it."
_MULTI_REGIONS = frozenset({"us", "eu"})
_COLLECTIONS = ("publishers", "models", "endpoints")


class VertexService(msgspec.Struct, frozen=True, kw_only=True):
    """The address of Vertex. Without `project` and `location` models have plain names, as express
    keys require. `headers` are added to every request; the repr does not show their values."""

    endpoint: Endpoint
    project: str = ""
    location: str = ""
    version: str = DEFAULT_VERSION
    headers: dict[str, str] = {}

    def __repr__(self) -> str:
        place = f"{self.endpoint.place}{self.endpoint.prefix}/{self.version}"
        return f"VertexService({place}, {self.project!r}, {self.location!r})"

    def path(self, model: str, method: str) -> str:
        """The path of a model's method, below the endpoint's own."""
        name = model_resource(model)
        if self.project and not name.startswith("projects/"):
            name = f"projects/{_segment(self.project)}/locations/{self.location}/{name}"
        return f"/{self.version}/{name}:{method}"


def vertex_from(
    environ: Mapping[str, str],
    key: str,
    *,
    external: bool = False,
    connection: ServiceOptions = ServiceOptions(),  # noqa: B008  it is frozen
) -> "VertexApi":
    """Builds Vertex from the environment: with the express `key` if given, else by project and
    location with the token of GOOGLE_CLOUD_ACCESS_TOKEN or Application Default Credentials.

    With `external`, the server at GOOGLE_VERTEX_BASE_URL authenticates us, so nothing needs to be
    set. The headers of the `connection` are sent with every request. Raises CredentialsError or
    ConfigError.
    """
    access: Access
    if key:
        service = vertex_service(environ)
        shown = {"x-goog-api-key": key}
        if wants_bearer(environ):
            shown["authorization"] = f"Bearer {key}"
        access = FixedAccess(shown, KEY_REMEDY)
    else:
        project, location = _project(environ), environ.get("GOOGLE_CLOUD_LOCATION", "").strip()
        based = bool(environ.get("GOOGLE_VERTEX_BASE_URL", "").strip())
        if project and location:
            service = vertex_service(environ, project=project, location=location)
            access = _token_access(environ)
        elif external and based:
            service, access = vertex_service(environ), FixedAccess({}, GATE_REMEDY)
        else:
            raise _missing(project, location)
    service = msgspec.structs.replace(service, headers={**connection.headers, **service.headers})
    return VertexApi(service, access, environ=environ, timeouts=connection.timeouts)


def _project(environ: Mapping[str, str]) -> str:
    first = environ.get("GOOGLE_CLOUD_PROJECT", "").strip()
    return first or environ.get("GOOGLE_CLOUD_PROJECT_ID", "").strip()


def _missing(project: str, location: str) -> CredentialsError:
    absent = [] if project else ["GOOGLE_CLOUD_PROJECT"]
    absent += [] if location else ["GOOGLE_CLOUD_LOCATION"]
    return CredentialsError(
        "When using Vertex AI, you must specify either the GOOGLE_CLOUD_PROJECT and "
        "GOOGLE_CLOUD_LOCATION environment variables, or GOOGLE_API_KEY (express mode); not set: "
        f"{' and '.join(absent)}.",
        remedy="Set them, or choose another way by security.auth.selectedType.",
    )


def _token_access(environ: Mapping[str, str]) -> Access:
    from alhena.models.auth.tokens import BearerAccess, FixedToken, checked_token, quota_project

    given = environ.get("GOOGLE_CLOUD_ACCESS_TOKEN", "").strip()
    if given:
        return BearerAccess(
            FixedToken(checked_token(given, "GOOGLE_CLOUD_ACCESS_TOKEN")),
            remedy="Set GOOGLE_CLOUD_ACCESS_TOKEN to a new token, or unset it.",
            quota_project=quota_project(environ),
        )
    from alhena.models.auth.adc import default_credentials

    found = default_credentials(environ)
    remedy = f"{SIGN_IN_REMEDY} The credentials are those of {found.source}."
    return msgspec.structs.replace(found, remedy=remedy).access()


def vertex_service(
    environ: Mapping[str, str], *, project: str = "", location: str = ""
) -> VertexService:
    """Vertex at `location`, or the address for express keys.

    Reads GOOGLE_VERTEX_BASE_URL, GOOGLE_GENAI_API_VERSION and GEMINI_CLI_CUSTOM_HEADERS; raises
    ConfigError for an invalid value.
    """
    if location and not re.fullmatch(r"[a-z][a-z0-9-]*", location):
        raise ConfigError(
            f"GOOGLE_CLOUD_LOCATION is no location: {location[:40]!r}.",
            remedy="Set it to a region such as us-central1, or to global, us or eu.",
        )
    version = environ.get("GOOGLE_GENAI_API_VERSION", "").strip() or DEFAULT_VERSION
    base = environ.get("GOOGLE_VERTEX_BASE_URL", "").strip() or base_url(location)
    custom = environ.get("GEMINI_CLI_CUSTOM_HEADERS", "")
    return VertexService(
        endpoint=parse_endpoint(base, "GOOGLE_VERTEX_BASE_URL"),
        project=project,
        location=location,
        version=parse_version(version, "GOOGLE_GENAI_API_VERSION"),
        headers=parse_headers(custom, "GEMINI_CLI_CUSTOM_HEADERS"),
    )


def base_url(location: str) -> str:
    """Google's address for a location; "" for express keys."""
    if location in _MULTI_REGIONS:
        return f"https://aiplatform.{location}.rep.googleapis.com"
    if location in {"", "global"}:
        return "https://aiplatform.googleapis.com"
    return f"https://{location}-aiplatform.googleapis.com"


def model_resource(model: str) -> str:
    """The resource name of a model: "publishers/google/models/NAME" for a plain name.

    "publishers/…", "models/…", "endpoints/…" and full names ("projects/…") are unchanged;
    "PUBLISHER/NAME" names another publisher's model. Characters that end a path segment are
    percent-encoded.
    """
    first, *rest = model.split("/")
    if not rest:
        return f"publishers/google/models/{_segment(model)}"
    if first in _COLLECTIONS or first == "projects":
        return "/".join(map(_segment, (first, *rest)))
    return f"publishers/{_segment(first)}/models/{_segment('/'.join(rest))}"


def _segment(text: str) -> str:
    if text in {".", ".."}:
        return text.replace(".", "%2E")
    return quote(text, safe="", errors="replace")


class VertexApi(GeminiMethods):
    """Vertex AI. `access` authenticates: `FixedAccess` with an express key, `BearerAccess` with
    tokens. `environ` supplies proxies and certificates."""

    def __init__(
        self,
        service: VertexService,
        access: Access,
        *,
        environ: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        http = HttpService(
            service.endpoint, access, environ=environ, timeouts=timeouts, headers=service.headers
        )
        super().__init__(http, service.path)

    async def embed(
        self, contents: Sequence[EncodedContent], *, model: str
    ) -> EmbedContentResponse:
        """Returns one vector per content."""
        path = self._path(model, "embedContent" if len(contents) == 1 else "batchEmbedContents")
        return await self._http.ask(path, model, encode_embed_contents(contents), decode_embed)
