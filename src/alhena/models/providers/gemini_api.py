"""The Gemini API with an API key (WIRE-03), also of services that only know the older form of
declarations."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from alhena.http import Timeouts
from alhena.http.addresses import Endpoint, endpoint_from, parse_headers
from alhena.models.errors import KEY_REMEDY, RequestRejectedError
from alhena.models.generator import ContentGenerator
from alhena.models.service import FixedAccess, HttpService, idle_s, model_path, parse_version
from alhena.wire.encode import (
    EncodedContent,
    decode_count_tokens,
    decode_embed,
    decode_response,
    encode_count_tokens,
    encode_embed,
    request_body,
)
from alhena.wire.json_values import as_array, as_object
from alhena.wire.request import GenerateContentConfig, GenerateContentRequest
from alhena.wire.response import EmbedContentResponse, GenerateContentResponse

DEFAULT_BASE_URL = "https://generativelanguage.googleapis.com"
DEFAULT_API_VERSION = "v1beta"
MAX_MODELS = 1_000

if TYPE_CHECKING:
    from alhena.models.catalogue import ServedModel


class GeminiService(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the API and the credentials. `headers` are added to every request, by
    lower-case name. The repr shows neither the key nor header values."""

    api_key: str
    endpoint: Endpoint
    version: str = DEFAULT_API_VERSION
    bearer: bool = False
    headers: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"GeminiService({self.endpoint.place}{self.endpoint.prefix}/{self.version})"

    @property
    def credentials(self) -> dict[str, str]:
        """The headers with the key."""
        shown = {"x-goog-api-key": self.api_key}
        if self.bearer and self.api_key:
            shown["authorization"] = f"Bearer {self.api_key}"
        return shown

    def path(self, model: str, method: str) -> str:
        """The path of a model's method, below the endpoint's own."""
        return f"/{self.version}/{model_path(model)}:{method}"


def service_from(
    environ: Mapping[str, str], api_key: str, base_url: str | None = None
) -> GeminiService:
    """Builds the service from the environment, at `base_url` if given.

    Reads GOOGLE_GEMINI_BASE_URL, GOOGLE_GENAI_API_VERSION, GEMINI_CLI_CUSTOM_HEADERS and
    GEMINI_API_KEY_AUTH_MECHANISM; raises ConfigError for an invalid value.
    """
    version = environ.get("GOOGLE_GENAI_API_VERSION", "").strip() or DEFAULT_API_VERSION
    custom = environ.get("GEMINI_CLI_CUSTOM_HEADERS", "")
    return GeminiService(
        api_key=api_key,
        endpoint=endpoint_from(environ, "GOOGLE_GEMINI_BASE_URL", DEFAULT_BASE_URL, base_url),
        version=parse_version(version, "GOOGLE_GENAI_API_VERSION"),
        bearer=wants_bearer(environ),
        headers=parse_headers(custom, "GEMINI_CLI_CUSTOM_HEADERS"),
    )


def wants_bearer(environ: Mapping[str, str]) -> bool:
    """True when GEMINI_API_KEY_AUTH_MECHANISM asks for the key as a bearer token too."""
    return environ.get("GEMINI_API_KEY_AUTH_MECHANISM", "").strip().lower() == "bearer"


class GeminiMethods:
    """The methods of the Gemini API over HTTP, at the paths that `path` gives for a model and a
    method.

    Opens nothing before the first request. Requests may run concurrently; successive ones share a
    connection.
    """

    def __init__(self, http: HttpService, path: Callable[[str, str], str]) -> None:
        self._http = http
        self._path = path

    @property
    def endpoint(self) -> Endpoint:
        """The address of requests."""
        return self._http.endpoint

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """Returns the whole answer."""
        path = self._path(request.model, "generateContent")
        body = request_body(request)
        return await self._http.ask(
            path, request.model, body, decode_response, request.pause, idle_s(request)
        )

    def stream(
        self, request: GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        """Yields the answer in chunks.

        A stream that ends regularly without a finish reason yields the received chunks; `chat`
        decides if that is an answer. Raises StreamCutError when the connection, or the JSON of the
        last event, ends too early, and SseError when the body is not an event stream.
        """
        path = self._path(request.model, "streamGenerateContent") + "?alt=sse"
        return self._http.events(
            path,
            request.model,
            lambda: request_body(request),
            decode_response,
            request.pause,
            idle_s(request),
        )

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        """Counts the tokens of the contents for this model."""
        path = self._path(model, "countTokens")
        body = encode_count_tokens(contents)
        return (await self._http.ask(path, model, body, decode_count_tokens)).total_tokens

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._http.aclose()


class GeminiApi(GeminiMethods):
    """The Gemini API with a key. `environ` supplies proxies and certificates."""

    def __init__(
        self,
        service: GeminiService,
        *,
        environ: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        http = HttpService(
            service.endpoint,
            FixedAccess(service.credentials, KEY_REMEDY),
            environ=environ,
            timeouts=timeouts,
            headers=service.headers,
        )
        self._version = service.version
        self.origin = (f"{service.endpoint.place}{service.endpoint.prefix}", service.api_key)
        super().__init__(http, service.path)

    async def embed(
        self, contents: Sequence[EncodedContent], *, model: str
    ) -> EmbedContentResponse:
        """Returns one vector per content."""
        path = self._path(model, "batchEmbedContents")
        return await self._http.ask(path, model, encode_embed(contents, model), decode_embed)

    async def models(self) -> tuple[str, ...]:
        """Names of the models that answer prompts."""
        return tuple(each.name for each in await self.list_models())

    async def list_models(self) -> "tuple[ServedModel, ...]":
        """The models that answer prompts, with their limits."""
        from alhena.models.providers.foreign import decode_object

        path = f"/{self._version}/models?pageSize={MAX_MODELS}"
        answer = await self._http.ask(path, "models", None, decode_object)
        found = [as_object(item) or {} for item in as_array(answer.get("models")) or ()]
        return tuple(
            _read_model(each)
            for each in found
            if "generateContent" in (as_array(each.get("supportedGenerationMethods")) or ())
        )


def _read_model(model: "dict[str, Any]") -> "ServedModel":
    """A model of the list. Fields of another type than documented are taken as not said."""
    from alhena.models.catalogue import ServedModel

    def count(key: str) -> int | None:
        value = model.get(key)
        return value if isinstance(value, int) and value > 0 else None

    levels = as_array(model.get("thinkingLevels")) or ()
    return ServedModel(
        name=str(model.get("name", "")).removeprefix("models/"),
        title=title if isinstance(title := model.get("displayName"), str) else "",
        input_limit=count("inputTokenLimit"),
        output_limit=count("outputTokenLimit"),
        levels=tuple(each.upper() for each in levels if isinstance(each, str)),
    )


_NAMES = ("parametersjsonschema", "parameters_json_schema")


class OlderSchemas:
    """Sends requests to `inner`; when it rejects the form of the declarations, uses the older form
    from then on. `tell` is called with tools lost by that. The converted request is checked again,
    because the usual check comes before this."""

    def __init__(self, inner: ContentGenerator, tell: Callable[[str], None] | None = None) -> None:
        self.inner = inner
        self._tell = tell
        self._older = False
        self._last: tuple[GenerateContentConfig, GenerateContentConfig] | None = None

    @property
    def endpoint(self) -> Endpoint | None:
        """The service that `inner` asks."""
        return getattr(self.inner, "endpoint", None)

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """Returns the whole answer."""
        try:
            return await self.inner.generate(self._adapt_request(request))
        except RequestRejectedError as error:
            if not self._turns_to_older(request, error):
                raise
        return await self.inner.generate(self._adapt_request(request))

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        """Yields the answer in chunks. A refusal comes before the first one."""
        while True:
            answer = self.inner.stream(self._adapt_request(request))
            try:
                async for response in answer:
                    yield response
                return
            except RequestRejectedError as error:
                if not self._turns_to_older(request, error):
                    raise
            finally:
                close = getattr(answer, "aclose", None)
                if close is not None:
                    await close()

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        """Delegates to the service."""
        return await self.inner.count_tokens(contents, model=model)

    async def embed(
        self, contents: Sequence[EncodedContent], *, model: str
    ) -> EmbedContentResponse:
        """Delegates to the service."""
        return await self.inner.embed(contents, model=model)

    async def aclose(self) -> None:
        """Closes the inner generator."""
        await self.inner.aclose()

    def _turns_to_older(self, request: GenerateContentRequest, error: RequestRejectedError) -> bool:
        """True when the refusal concerns the form, and the older one has not been tried."""
        said = error.message.lower()
        declares = bool(request.config.function_names())
        if self._older or not declares or not any(name in said for name in _NAMES):
            return False
        self._older = True
        return True

    def _adapt_request(self, request: GenerateContentRequest) -> GenerateContentRequest:
        """The request in the supported form."""
        config = request.config
        if not self._older or config.tools is None:
            return request
        if self._last is None or self._last[0] is not config:
            from alhena.wire.conformance import ConformanceFindings
            from alhena.wire.conformance.check import check_config, refuse_errors
            from alhena.wire.conformance.repair import without_idle_calling
            from alhena.wire.schema.adapt import SchemaForm, with_form

            older, lost = with_form(config, SchemaForm.OPENAPI)
            older = without_idle_calling(older)
            findings = ConformanceFindings()
            check_config(older, findings)
            refuse_errors(findings.violations)
            if self._tell is not None:
                for tool in lost:
                    self._tell(f'Tool "{tool.name}" is left out: {tool.reason}')
            self._last = (config, older)
        return msgspec.structs.replace(request, config=self._last[1])
