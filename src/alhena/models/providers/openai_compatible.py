"""Models of OpenAI-compatible servers: OpenAI, Ollama, llama.cpp, vLLM and others."""

import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from alhena.errors import ModelError
from alhena.http import Timeouts
from alhena.http.addresses import Endpoint, endpoint_from, is_header_value, parse_endpoint
from alhena.models.catalogue import OPENAI_RESPONSES, answers_to_responses, foreign_name
from alhena.models.errors import CredentialsError, ModelNotFoundError, RequestRejectedError
from alhena.models.generator import WithoutEmbeddings
from alhena.models.providers.foreign import (
    ChunkReader,
    answer_chunks,
    decode_event,
    decode_object,
    foreign_key,
    ids_for_calls,
    numbered_ids,
    tool_names,
    unreadable,
)
from alhena.models.service import FixedAccess, HttpService, ServiceOptions, idle_s
from alhena.wire.content import MODEL, Content, Part, encode_value
from alhena.wire.dialects import openai, responses
from alhena.wire.dialects.conversation import DialectRequest, NewId, ToolNameMap
from alhena.wire.dialects.fields import DialectError
from alhena.wire.dialects.responses.items import is_carried
from alhena.wire.dialects.responses.response import ENDS
from alhena.wire.dialects.results import beside_results
from alhena.wire.dialects.thoughts import carries_thoughts, return_thoughts
from alhena.wire.encode import EncodedContent
from alhena.wire.json_values import as_array, as_object
from alhena.wire.request import GenerateContentConfig, GenerateContentRequest, merge_extra
from alhena.wire.response import GenerateContentResponse

DEFAULT_BASE_URL = "https://api.openai.com/v1"
KEY_PAGE = "https://platform.openai.com/api-keys"

_BYTES_PER_TOKEN = 4
_OWN_DOMAINS = ("openai.com", "openai.azure.com")
_PUBLIC_DOMAINS = (
    *_OWN_DOMAINS,
    *("anthropic.com", "cerebras.ai", "cohere.ai", "cohere.com", "deepinfra.com"),
    *("deepseek.com", "fireworks.ai", "github.ai", "githubcopilot.com", "googleapis.com"),
    *("groq.com", "huggingface.co", "minimax.io", "mistral.ai", "moonshot.ai", "nvidia.com"),
    *("ollama.com", "openrouter.ai", "perplexity.ai", "sambanova.ai", "together.ai"),
    *("together.xyz", "x.ai", "z.ai", "aliyuncs.com", "ai.azure.com"),
)
"""Domains of public services, whose models have large windows: they are not asked for them, so that
no session waits for that."""
_ACCOUNT = {"OPENAI_ORG_ID": "openai-organization", "OPENAI_PROJECT_ID": "openai-project"}
_CACHE_KEY = "prompt_cache_key"
_LONGEST_KEY = 64
_LEAST_OUTPUT = 16
"""The least output limit that the Responses API takes, in tokens."""
_ASK_RESPONSES = re.compile(
    r"/responses\b|responses (?:api|endpoint)|not a chat model", re.IGNORECASE
)
"""Words of a refusal that say that a model answers to the Responses API."""
_NO_ENCRYPTION = re.compile(
    r"encrypted content.{0,60}not supported|reasoning\.encrypted_content|\binclude\b",
    re.IGNORECASE,
)
"""Words of a refusal that say that a model's reasoning cannot be asked for."""


_NO_FORMS = re.compile(
    r"response_?format|json_?schema|grammar|guided|structured output|text\.format", re.IGNORECASE
)
"""Words of a refusal that say that a server takes no schema for its answers."""


_THOUGHTS = re.compile(r"(?<![\w-])reasoning(_content)?(?![\w-])")
"""Words of a refusal that is about the thoughts of earlier answers, and not in a model's name."""
_MISSED = re.compile(r"missing|must be(?! satisfied)|passed back|required", re.IGNORECASE)
"""Words of such a refusal that say that some are missing."""
_NO_THOUGHT = " "
"""In place of a thought that is missing: servers take an empty text for none."""


class _Api(msgspec.Struct, frozen=True):
    """One of OpenAI's APIs for answers."""

    path: str
    write: Callable[..., dict[str, Any]]
    read: Callable[[object, ToolNameMap, NewId], GenerateContentResponse]
    reader: Callable[[ToolNameMap, NewId], ChunkReader]
    is_end: Callable[[dict[str, Any] | None], bool]


def _is_chat_end(event: dict[str, Any] | None) -> bool:
    choices = as_array((event or {}).get("choices")) or ()
    return any((as_object(choice) or {}).get("finish_reason") for choice in choices)


def _is_responses_end(event: dict[str, Any] | None) -> bool:
    return (event or {}).get("type") in ENDS


_CHAT = _Api(
    "/chat/completions",
    openai.write_request,
    openai.read_response,
    openai.EventReader,
    _is_chat_end,
)
_RESPONSES = _Api(
    "/responses",
    responses.write_request,
    responses.read_response,
    responses.EventReader,
    _is_responses_end,
)


class _Way(msgspec.Struct, frozen=True):
    """A way to ask a model. `encrypts`: its reasoning is asked for, to be sent back. `forms`: it
    takes the schema of an answer, which goes into the prompt otherwise. `keyed`: it takes the key
    of a conversation for its cache. `fields`: those in which its thoughts may go back, the one to
    use first; none if it takes no thoughts. `all_thoughts`: each answer must have them."""

    api: _Api
    encrypts: bool = True
    forms: bool = True
    keyed: bool = True
    fields: tuple[str, ...] = openai.THOUGHTS
    all_thoughts: bool = False

    @property
    def thoughts(self) -> str:
        """The field in which its thoughts go back, empty if it takes none."""
        return self.fields[0] if self.fields else ""


_LEARNED: dict[tuple[str, str], _Way] = {}
"""Ways learned from refusals and answers, by address and model."""


class OpenAiCompatible(WithoutEmbeddings):
    """A ContentGenerator. Model names may have the prefix `openai:`, `openai-responses:` or
    `ollama:`. Schemas for servers that are not OpenAI's are reduced (`wire.schema.grammar`).

    A model is asked by chat completions, or by the Responses API if its prefix or its name says so
    or a refusal does; then the request is sent there, and later ones too.

    Thoughts of earlier answers go back in the field in which they came, unless the server refuses
    it; some refuse answers without. The Responses API gets its own reasoning back, in signatures.
    In chat completions media in tool results follow them, because most servers reject them there.
    Opens nothing before the first request.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        key: str = "",
        *,
        environ: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        headers: Mapping[str, str] | None = None,
        remedy: str = f"Set OPENAI_API_KEY to a valid key ({KEY_PAGE}).",
    ) -> None:
        access = {"authorization": f"Bearer {key}"} if key else {}
        self.endpoint = endpoint
        self._reduced: tuple[GenerateContentConfig, GenerateContentConfig] | None = None
        self._windows: dict[str, int | None] = {}
        self._new_id = ids_for_calls()
        self._open_service = partial(
            HttpService,
            access=FixedAccess(access, remedy),
            environ=environ,
            timeouts=timeouts,
            headers=headers,
        )
        self._http = self._open_service(endpoint)

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """Returns the whole answer."""
        names, model = tool_names(request), foreign_name(request.model)
        way = self._way(request.model)
        while True:
            body = self._body(request, names, way, stream=False)
            try:
                answer = await self._http.ask(
                    way.api.path, model, body, decode_object, request.pause, idle_s(request)
                )
            except (ModelNotFoundError, RequestRejectedError) as error:
                way = self._other_way(way, request, error)
                continue
            try:
                return way.api.read(answer, names, self._new_id)
            except DialectError as error:
                raise unreadable(error) from error

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        """Yields the answer in chunks, with calls in the last one. Raises StreamCutError when the
        stream ends before the answer."""
        names = tool_names(request)
        way = self._way(request.model)
        begun = False
        while True:
            reader = way.api.reader(names, self._new_id)
            chunks = self._chunks(request, names, way, reader)
            try:
                async with aclosing(chunks):
                    async for chunk in chunks:
                        begun = True
                        yield chunk
                self._learn_field(request.model, reader)
                return
            except (ModelNotFoundError, RequestRejectedError) as error:
                if begun:
                    raise
                way = self._other_way(way, request, error)

    def _chunks(
        self,
        request: GenerateContentRequest,
        names: ToolNameMap,
        way: _Way,
        reader: ChunkReader,
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        body = self._body(request, names, way, stream=True)  # its errors are not an answer's
        model, path = foreign_name(request.model), way.api.path
        events = self._http.events(
            path, model, lambda: body, decode_event, request.pause, idle_s(request)
        )
        return answer_chunks(
            events,
            reader,
            self.endpoint.place,
            is_last=lambda event: event is None,
            is_whole=way.api.is_end,
        )

    def _learn_field(self, model: str, reader: ChunkReader) -> None:
        """Notes the field in which the thoughts of an answer came."""
        came = reader.thoughts if isinstance(reader, openai.EventReader) else ""
        way = self._way(model)  # a request beside this one may have learned another
        if came in way.fields and len(way.fields) > 1:
            _LEARNED[self._address, foreign_name(model)] = replace(way, fields=(came,))

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        """Estimates by size: the dialect has no counting method."""
        del model
        return -(-sum(map(len, contents)) // _BYTES_PER_TOKEN)

    async def models(self) -> tuple[str, ...]:
        """Names of the models the server has."""
        answer = await self._http.ask("/models", "models", None, decode_object)
        found = [as_object(item) or {} for item in as_array(answer.get("data")) or ()]
        return tuple(str(each["id"]) for each in found if each.get("id"))

    async def window(self, model: str) -> int | None:
        """Tokens of a model's context window, as the server says when it is asked first; None if it
        does not. Raises ModelError and WireError."""
        from alhena.models.providers.server_window import read_window, root_prefix

        if model in self._windows:
            return self._windows[model]
        root = self._open_service(replace(self.endpoint, prefix=root_prefix(self.endpoint)))
        try:
            found = self._windows[model] = await read_window(self._http, root, model)
            return found
        finally:
            await root.aclose()

    @property
    def is_openai(self) -> bool:
        """True for OpenAI's own service, also as Azure runs it."""
        return _is_within(self.endpoint.host, _OWN_DOMAINS)

    @property
    def tells_windows(self) -> bool:
        """True for a server to be asked for the windows of its models: no public service."""
        return not _is_within(self.endpoint.host, _PUBLIC_DOMAINS)

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    def _way(self, model: str) -> _Way:
        """Chooses the way to ask a model: by its prefix, by earlier refusals, or by its name."""
        name = foreign_name(model)
        known = _LEARNED.get((self._address, name))
        if known is not None and (known.api is _RESPONSES or not _is_forced(model)):
            return known
        return _Way(_RESPONSES if _is_forced(model) or answers_to_responses(name) else _CHAT)

    def _other_way(self, way: _Way, request: GenerateContentRequest, error: ModelError) -> _Way:
        """The way to ask after a refusal, which is kept for later requests. Raises the error if
        there is none."""
        status, model = error.status, request.model
        known = _LEARNED.get((self._address, foreign_name(model)))
        other = way
        if self._may_lack_forms(way, request) and _NO_FORMS.search(error.message):
            other = replace(way, forms=False)
            if request.config.tools:  # some servers take a schema only where there are no tools
                return other
        elif way.keyed and self.is_openai and _CACHE_KEY in error.message:
            other = replace(way, keyed=False)
        elif way.api is _CHAT:
            if status in {400, 404} and _ASK_RESPONSES.search(error.message):
                # A request beside this one may know already.
                other = known if known not in (None, way) else replace(way, api=_RESPONSES)
            elif status in {400, 422} and _THOUGHTS.search(error.message):
                other = _with_other_thoughts(way, request, error)
        elif way.encrypts and status == 400 and _NO_ENCRYPTION.search(error.message):
            other = replace(way, encrypts=False)
        elif status in {404, 405} and not self.is_openai and not _is_forced(model):
            # Other servers may have a model of such a name, and no such API.
            other = known or _Way(_CHAT)
        if other == way:
            if known is not None and _THOUGHTS.search(error.message):
                # It was not about the thoughts of earlier answers.
                other = replace(known, fields=openai.THOUGHTS, all_thoughts=False)
                _LEARNED[self._address, foreign_name(model)] = other
            raise error
        _LEARNED[self._address, foreign_name(model)] = other
        return other

    def _may_lack_forms(self, way: _Way, request: GenerateContentRequest) -> bool:
        generation = request.config.generation_config
        asks = generation is not None and generation.response_mime_type is not None
        return asks and way.forms and not self.is_openai

    @property
    def _address(self) -> str:
        return f"{self.endpoint.place}{self.endpoint.prefix}"

    def _body(
        self, request: GenerateContentRequest, names: ToolNameMap, way: _Way, *, stream: bool
    ) -> bytes:
        own = (_own_parts(entry.content, way) for entry in request.contents)
        contents = tuple(content for content in own if content.parts)
        asked = DialectRequest(
            model=foreign_name(request.model),
            contents=contents if way.api is _RESPONSES else beside_results(contents),
            config=self._own_config(request.config, way),
            stream=stream,
            include_usage=stream,
            names=names,
        )
        body = way.api.write(asked, new_id=numbered_ids())
        if way.api is _CHAT:
            _name_thoughts(body["messages"], way)
        if not self.is_openai and "max_completion_tokens" in body:
            # Other servers know the older name.
            body["max_tokens"] = body.pop("max_completion_tokens")
        if "max_output_tokens" in body:
            body["max_output_tokens"] = max(body["max_output_tokens"], _LEAST_OUTPUT)
        if not way.encrypts:
            del body["include"]
        key = request.cache_key or request.session_id
        if key and self.is_openai and way.keyed:
            body[_CACHE_KEY] = key[:_LONGEST_KEY]
        return encode_value(merge_extra(body, request.config.extra))

    def _own_config(self, config: GenerateContentConfig, way: _Way) -> GenerateContentConfig:
        """The settings of a request as the server takes them."""
        if self.is_openai:
            return config
        from alhena.models.providers.server_forms import describe_form, reduce_schemas

        if self._reduced is None or self._reduced[0] is not config:
            self._reduced = config, reduce_schemas(config)
        reduced = self._reduced[1]
        return reduced if way.forms else describe_form(reduced)


def openai_from(
    environ: Mapping[str, str],
    base_url: str | None = None,
    connection: ServiceOptions = ServiceOptions(),  # noqa: B008  it is frozen
) -> OpenAiCompatible:
    """Builds the client from the environment, for `base_url` if given.

    Reads OPENAI_BASE_URL, OPENAI_API_KEY, OPENAI_ORG_ID and OPENAI_PROJECT_ID, proxies and
    certificates. Raises ConfigError or CredentialsError.
    """
    endpoint = endpoint_from(environ, "OPENAI_BASE_URL", DEFAULT_BASE_URL, base_url)
    key = foreign_key(environ, "OPENAI_API_KEY", endpoint, KEY_PAGE)
    headers: dict[str, str] = {}
    for variable, name in _ACCOUNT.items():
        value = environ.get(variable, "").strip()
        if not is_header_value(value):
            raise CredentialsError(
                f"{variable} contains characters that no header can.", remedy="Correct or unset it."
            )
        if value:
            headers[name] = value
    return OpenAiCompatible(
        endpoint,
        key,
        environ=environ,
        headers={**headers, **connection.headers},
        timeouts=connection.timeouts,
    )


DEFAULT_OLLAMA = "127.0.0.1:11434"
_OLLAMA_PORT = 11434


def ollama_from(
    environ: Mapping[str, str],
    base_url: str | None = None,
    connection: ServiceOptions = ServiceOptions(),  # noqa: B008  it is frozen
) -> OpenAiCompatible:
    """Builds the client for Ollama at `base_url`, else at OLLAMA_HOST, else on this machine; the
    path of its OpenAI API is added where there is none. A key is OLLAMA_API_KEY, if one is set.
    Raises ConfigError or CredentialsError."""
    if base_url is not None:
        endpoint = parse_endpoint(base_url, "base_url")
    else:
        endpoint = parse_endpoint(_ollama_url(environ), "OLLAMA_HOST")
    if not endpoint.prefix:
        endpoint = replace(endpoint, prefix="/v1")
    key = environ.get("OLLAMA_API_KEY", "").strip()
    if not is_header_value(key):
        raise CredentialsError(
            "OLLAMA_API_KEY contains characters that no key has.", remedy="Correct or unset it."
        )
    return OpenAiCompatible(
        endpoint,
        key,
        environ=environ,
        headers=connection.headers,
        timeouts=connection.timeouts,
        remedy="Set OLLAMA_API_KEY to a key that the server takes.",
    )


def _ollama_url(environ: Mapping[str, str]) -> str:
    """The URL of OLLAMA_HOST, which Ollama writes as HOST, :PORT, HOST:PORT or a URL. An address on
    which a server listens everywhere means this machine."""
    text = environ.get("OLLAMA_HOST", "").strip().strip("\"'") or DEFAULT_OLLAMA
    scheme, separator, rest = text.rpartition("://")
    host, slash, path = rest.partition("/")
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, port = host, ""
    if name in {"", "0.0.0.0", "[::]"}:  # noqa: S104  nothing is bound
        name = "127.0.0.1"
    usual = {"http": "80", "https": "443"}.get(scheme, str(_OLLAMA_PORT))
    return f"{scheme if separator else 'http'}://{name}:{port or usual}{slash}{path}"


def _is_within(host: str, domains: tuple[str, ...]) -> bool:
    return f".{host}".endswith(tuple(f".{domain}" for domain in domains))


def _is_forced(model: str) -> bool:
    return model.startswith(OPENAI_RESPONSES)


def _with_other_thoughts(way: _Way, request: GenerateContentRequest, error: ModelError) -> _Way:
    """The way after a refusal of thoughts: with all of them if some are missing, else in another
    field, in the end without any."""
    if not way.fields:
        return way
    if not way.all_thoughts:
        if _MISSED.search(error.message):
            return replace(way, all_thoughts=True)
        contents = (entry.content for entry in request.contents)
        if not any(carries_thoughts(part) for content in contents for part in content.parts):
            return way
    return replace(way, fields=way.fields[1:], all_thoughts=False)


def _own_parts(content: Content, way: _Way) -> Content:
    """Removes what the API does not know: signatures, of which the Responses API takes its own
    only, and chat completions any other; and thoughts, except the model's own in chat completions.
    An empty text that only had such a signature is removed too."""
    if not any(part.thought or part.thought_signature for part in content.parts):
        return content
    given = [part for part in content.parts if way.all_thoughts or not part.thought]
    if way.api is _CHAT and way.thoughts:
        given = return_thoughts(given)
    parts: list[Part] = []
    for part in given:
        carried = is_carried(part.thought_signature)
        is_known = carried and way.encrypts if way.api is _RESPONSES else not carried
        if not is_known or carries_thoughts(part):
            part = replace(part, thought_signature=None)
        if content.role != MODEL or part != Part(text=""):
            parts.append(part)
    return Content(role=content.role, parts=tuple(parts))


def _name_thoughts(messages: list[dict[str, Any]], way: _Way) -> None:
    """Puts thoughts into the field in which the server takes them."""
    for message in messages:
        if message["role"] == "assistant":
            thought = message.pop(openai.THOUGHTS[0], _NO_THOUGHT if way.all_thoughts else "")
            if thought:
                message[way.thoughts] = thought
