"""Models served by Anthropic's Messages API, or by a compatible server."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from msgspec.structs import replace

from alhena.errors import ModelError
from alhena.http.addresses import Endpoint, endpoint_from
from alhena.models.catalogue import LEAST_OUTPUT, ClaudeInfo, claude_info, foreign_name
from alhena.models.errors import RequestRejectedError
from alhena.models.generator import WithoutEmbeddings
from alhena.models.providers.foreign import (
    answer_chunks,
    decode_event,
    decode_object,
    foreign_key,
    ids_for_calls,
    numbered_ids,
    tool_names,
    unreadable,
)
from alhena.models.service import FixedAccess, HttpService, ServiceOptions
from alhena.wire.conformance.repair import without_idle_calling
from alhena.wire.content import MODEL, USER, Content, Part, encode_value, without_thoughts
from alhena.wire.dialects import anthropic
from alhena.wire.dialects.conversation import (
    DialectRequest,
    ToolNameMap,
    thinking_budget,
)
from alhena.wire.dialects.fields import DialectError, is_foreign
from alhena.wire.dialects.results import is_formed, with_form_in_words
from alhena.wire.dialects.thoughts import return_thoughts, whole_thoughts
from alhena.wire.encode import EncodedContent
from alhena.wire.errors import DecodeError
from alhena.wire.json_values import as_object
from alhena.wire.request import (
    FunctionCallingMode,
    GenerateContentConfig,
    GenerateContentRequest,
    GenerationConfig,
    ThinkingConfig,
    merge_extra,
)
from alhena.wire.response import GenerateContentResponse

EMPTY = "[a message without words]"
"""Replaces a user message that would be empty."""
CONTINUE = "Continue."
"""Follows the beginning of an answer, with which a conversation may not end."""
_LEAST_BUDGET = 1024
"""Minimum thinking budget in tokens."""
_WINDOW = 200_000
"""Known context window of Claude models in tokens, prompt and answer together."""
_BYTES_PER_TOKEN = 3
_EFFORTS = (("LOW", 1024), ("MEDIUM", 8192))
"""Efforts by the largest number of thinking tokens that means them."""
_LEAST_TOP_P = 0.95
"""Minimum top_p with thinking."""
_LEAST_BYTES = 4 * anthropic.LEAST_TOKENS
"""Size of a request below which no prefix is kept."""
_REFUSALS = frozenset({400, 422})
"""Statuses of a request with a field that a server does not know."""
_THOUGHTS = frozenset({"thinking", "redacted_thinking"})
"""Types of blocks with thoughts."""
_UNMARKED: set[str] = set()
"""Addresses of compatible servers that refused marks for the cache."""


def own_thoughts(content: Content) -> Content:
    """The content with the service's own thoughts, where it said them, and with no other thoughts
    and signatures."""
    if content.role != MODEL:
        return content
    if any(part.thought for part in content.parts):
        found = [
            part
            for part in whole_thoughts(content.parts)
            if not part.thought or is_foreign(part.thought_signature or "")
        ]
    else:
        found = return_thoughts(content.parts)
    parts = (part if part.thought else replace(part, thought_signature=None) for part in found)
    return Content(role=MODEL, parts=tuple(part for part in parts if part != Part(text="")))


def without_blanks(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Removes text blocks with only white space and thoughts at the end of an answer, for which the
    service rejects the whole request, and answers left empty by that."""
    made: list[dict[str, Any]] = []
    for message in messages:
        blocks = [
            _remove_blank_results(block) for block in message["content"] if not _is_blank(block)
        ]
        while blocks and blocks[-1]["type"] in _THOUGHTS:
            blocks.pop()
        if not blocks and message["role"] == "user":
            blocks = [{"type": "text", "text": EMPTY}]
        if made and made[-1]["role"] == message["role"]:
            made[-1]["content"] += blocks
        elif blocks:
            made.append({**message, "content": blocks})
    return made


def _remove_blank_results(block: dict[str, Any]) -> dict[str, Any]:
    if block["type"] != "tool_result":
        return block
    return {**block, "content": [one for one in block["content"] if not _is_blank(one)]}


def _is_blank(block: dict[str, Any]) -> bool:
    return block["type"] == "text" and not block["text"].strip()


def likely_room(request: GenerateContentRequest) -> int:
    """Conservative estimate of the output tokens left beside a prompt, from its size."""
    size = sum(entry.size for entry in request.contents) + len(encode_value(request.config))
    return max(LEAST_OUTPUT, _WINDOW - size // _BYTES_PER_TOKEN)


def adapt_config(
    config: GenerateContentConfig, contents: tuple[Content, ...], info: ClaudeInfo, room: int
) -> GenerateContentConfig:
    """Adapts the config to the service: no thinking with a forced tool or after calls without their
    own thoughts, thinking budgets within bounds, output within the model's limit, no conflicting
    sampling parameters, no tool choice without tools. The form of an answer is described in words,
    because the service takes few schemas. An output limit is always set, by default at most
    `room`."""
    if is_formed(config):
        config = with_form_in_words(config)
    config = without_idle_calling(config)
    made = config.generation_config or GenerationConfig()
    made = replace(made, thinking_config=_thinking(config, contents, info))
    made = _reduce_sampling(_limit_output(made, info, room))
    if not info.takes_sampling:
        made = replace(made, temperature=None, top_p=None, top_k=None)
    return replace(config, generation_config=made)


def _thinking(
    config: GenerateContentConfig, contents: tuple[Content, ...], info: ClaudeInfo
) -> ThinkingConfig | None:
    given = config.generation_config.thinking_config if config.generation_config else None
    if given is not None and info.adaptive:
        return None if _is_forced(config) else _effort(given)
    budget = thinking_budget(given)
    if given is None or budget is None or not info.thinks:
        return None
    if budget and (_is_forced(config) or _lost_thought(contents)):
        return None
    return replace(given, thinking_budget=budget, thinking_level=None)


def _thinks(config: GenerateContentConfig) -> bool:
    made = config.generation_config or GenerationConfig()
    return bool(thinking_budget(made.thinking_config))


def _effort(given: ThinkingConfig) -> ThinkingConfig | None:
    """Thinking as the model chooses, with an effort in place of a level or a number of tokens. None
    leaves it to the model, which is what "no thinking" comes nearest to."""
    level = (given.thinking_level or "").upper()
    budget = given.thinking_budget
    if budget == 0 and not level:
        return None
    if budget is not None and budget > 0 and not level:
        level = next((name for name, most in _EFFORTS if budget <= most), "HIGH")
    level = "LOW" if level == "MINIMAL" else level
    return replace(given, thinking_budget=-1, thinking_level=level or None)


def _is_forced(config: GenerateContentConfig) -> bool:
    calling = config.tool_config.function_calling_config if config.tool_config else None
    return calling is not None and calling.mode is FunctionCallingMode.ANY


def _limit_output(config: GenerationConfig, info: ClaudeInfo, room: int) -> GenerationConfig:
    """Sets an output limit within the model's, and a valid thinking budget within it; no thinking
    without room for the minimum. A default limit grows by the budget as far as there is room;
    thinking gets half of a smaller one."""
    budget = config.thinking_config.thinking_budget if config.thinking_config else None
    thinks = budget is not None and budget > 0
    budget = max(budget, _LEAST_BUDGET) if budget is not None and thinks else 0
    limit = config.max_output_tokens or info.default_output + budget
    if not config.max_output_tokens and limit > room:
        limit, budget = room, min(budget, room // 2)
    limit = min(limit, info.most_output or limit)
    config = replace(config, max_output_tokens=limit)
    if config.thinking_config is None or not thinks:
        return config
    if limit <= _LEAST_BUDGET or budget < _LEAST_BUDGET:
        return replace(config, thinking_config=None)
    thinking = replace(config.thinking_config, thinking_budget=min(budget, limit - 1))
    return replace(config, thinking_config=thinking)


def _reduce_sampling(config: GenerationConfig) -> GenerationConfig:
    """Reduces conflicting sampling parameters to the first one, within the service's bounds; with
    thinking only to values the service allows."""
    temperature, top_p, top_k = config.temperature, config.top_p, config.top_k
    if temperature is not None:
        temperature = min(temperature, 1.0)
    if config.thinking_config is not None and config.thinking_config.thinking_budget:
        temperature = 1.0 if temperature == 1.0 else None
        top_p = top_p if top_p is not None and top_p >= _LEAST_TOP_P else None
        top_k = None
    if temperature is not None:
        top_p = None
    return replace(config, temperature=temperature, top_p=top_p, top_k=top_k)


def _lost_thought(contents: tuple[Content, ...]) -> bool:
    """True when the current turn does not begin with a thought; its later answers need not."""
    first: Content | None = None
    for content in reversed(contents):
        if content.role != USER:
            first = content if content.parts else first
        elif not any(part.function_response for part in content.parts):
            break
    return first is not None and not first.parts[0].thought


_OWN_HOST = "api.anthropic.com"
DEFAULT_BASE_URL = f"https://{_OWN_HOST}"
VERSION = "2023-06-01"
KEY_PAGE = "https://console.anthropic.com/settings/keys"
MESSAGES = "/v1/messages"


class AnthropicApi(WithoutEmbeddings):
    """A ContentGenerator. Model names may have the prefix `anthropic:`.

    Only thoughts signed by this service are sent back; it rejects other signatures. Where the
    current turn lost its first thought, the next request disables thinking, which the service would
    reject. Nothing is opened before the first request.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        key: str = "",
        *,
        bearer: str = "",
        environ: Mapping[str, str] | None = None,
        connection: ServiceOptions = ServiceOptions(),  # noqa: B008  it is frozen
        cache: anthropic.CacheTime | None = "5m",
    ) -> None:
        """`bearer`: a token sent instead of, or beside, the key. `cache`: the time for which the
        service keeps prompts; None: it keeps none."""
        access = {"x-api-key": key} if key else {}
        if bearer:
            access["authorization"] = f"Bearer {bearer}"
        self.endpoint = endpoint
        self._new_id = ids_for_calls()
        self._cache: anthropic.CacheTime | None = cache
        self._http = HttpService(
            endpoint,
            FixedAccess(access, f"Set ANTHROPIC_API_KEY to a valid key ({KEY_PAGE})."),
            environ=environ,
            timeouts=connection.timeouts,
            headers={"anthropic-version": VERSION, **connection.headers},
        )

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """Returns the whole answer."""
        names = tool_names(request)
        body = self._body(request, names, stream=False)
        marked = self._mark(request, body)
        try:
            answer = await self._ask(request, marked)
        except ModelError as error:
            if not self._drop_marks(error, marked, body):
                raise
            answer = await self._ask(request, body)
            self._mark_no_more()
        try:
            return anthropic.read_response(answer, names, self._new_id)
        except DialectError as error:
            raise unreadable(error) from error

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        """Yields the answer in chunks. Raises StreamCutError when the stream ends before the
        answer."""
        names = tool_names(request)
        # Before the stream starts: a DialectError of the request is not an error of the answer.
        body = self._body(request, names, stream=True)
        marked = self._mark(request, body)
        began = False
        try:
            async with aclosing(self._chunks(request, names, marked)) as chunks:
                async for chunk in chunks:
                    began = True
                    yield chunk
        except ModelError as error:
            if began or not self._drop_marks(error, marked, body):
                raise
        else:
            return
        async with aclosing(self._chunks(request, names, body)) as chunks:
            async for chunk in chunks:
                self._mark_no_more()
                yield chunk

    async def _ask(self, request: GenerateContentRequest, body: dict[str, Any]) -> dict[str, Any]:
        model = foreign_name(request.model)
        data = encode_value(body)
        return await self._http.ask(MESSAGES, model, data, decode_object, request.pause)

    async def _chunks(
        self, request: GenerateContentRequest, names: ToolNameMap, body: dict[str, Any]
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        model = foreign_name(request.model)
        data = encode_value(body)
        events = self._http.events(MESSAGES, model, lambda: data, decode_event, request.pause)
        chunks = answer_chunks(
            events,
            anthropic.EventReader(names, self._new_id),
            self.endpoint.place,
            is_last=_is_last,
            is_whole=_is_end,
        )
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    def _mark(self, request: GenerateContentRequest, body: dict[str, Any]) -> dict[str, Any]:
        """The body with marks for the cache, unless it is too small for one."""
        if self._cache is None or self._address in _UNMARKED:
            return body
        # A long conversation is not encoded once more to be measured.
        size = sum(entry.size for entry in request.contents)
        if size < _LEAST_BYTES and len(encode_value(body)) < _LEAST_BYTES:
            return body
        # What a program puts into the body itself has the form, and the marks, that it gives it.
        extra = request.config.extra or {}
        own = {key: value for key, value in body.items() if key not in extra}
        return body | anthropic.mark_prefixes(own, self._cache)

    def _drop_marks(self, error: ModelError, marked: dict[str, Any], body: dict[str, Any]) -> bool:
        """True when a request may have been refused for its marks: the error names them, whatever
        its status, or it is that of a compatible server that does not know them."""
        if marked is body:
            return False
        if "cache_control" in error.message:
            return True
        refused = isinstance(error, RequestRejectedError) and error.status in _REFUSALS
        return refused and self.endpoint.host != _OWN_HOST

    @property
    def _address(self) -> str:
        return f"{self.endpoint.place}{self.endpoint.prefix}"

    def _mark_no_more(self) -> None:
        self._cache = None
        if self.endpoint.host != _OWN_HOST:  # its own service knows marks, and refused these ones
            _UNMARKED.add(self._address)

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        """Counts the tokens of the contents through the service."""
        request = GenerateContentRequest(model=model, contents=tuple(contents))
        body = self._body(request, tool_names(request), stream=False)
        told = encode_value({"model": body["model"], "messages": body["messages"]})
        path = f"{MESSAGES}/count_tokens"
        answer = await self._http.ask(path, foreign_name(model), told, decode_object)
        tokens = answer.get("input_tokens")
        if not isinstance(tokens, int):
            raise DecodeError("the answer contains no number of tokens.")
        return tokens

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    def _body(
        self, request: GenerateContentRequest, names: ToolNameMap, *, stream: bool
    ) -> dict[str, Any]:
        model = foreign_name(request.model)
        contents = tuple(own_thoughts(entry.content) for entry in request.contents)
        info = claude_info(model)
        config = adapt_config(request.config, contents, info, likely_room(request))
        if not info.adaptive and _thinks(request.config) and not _thinks(config):
            contents = tuple(
                replace(content, parts=tuple(without_thoughts(content.parts)))
                for content in contents
            )
        asked = DialectRequest(
            model=model,
            contents=tuple(content for content in contents if content.parts),
            config=config,
            stream=stream,
            names=names,
        )
        body = anthropic.write_request(asked, new_id=numbered_ids())
        messages = without_blanks(body["messages"])
        if messages and messages[-1]["role"] != USER and not claude_info(model).takes_prefill:
            messages.append({"role": USER, "content": [{"type": "text", "text": CONTINUE}]})
        return merge_extra(body | {"messages": messages}, request.config.extra)


def anthropic_from(
    environ: Mapping[str, str],
    base_url: str | None = None,
    cache: anthropic.CacheTime | None = "5m",
    connection: ServiceOptions = ServiceOptions(),  # noqa: B008  it is frozen
) -> AnthropicApi:
    """Builds the service from the environment, at `base_url` if given.

    Reads ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY and ANTHROPIC_AUTH_TOKEN (a bearer token), proxies
    and certificates. Raises ConfigError or CredentialsError.
    """
    endpoint = endpoint_from(environ, "ANTHROPIC_BASE_URL", DEFAULT_BASE_URL, base_url)
    token = environ.get("ANTHROPIC_AUTH_TOKEN", "").strip()
    if token:
        token = foreign_key(environ, "ANTHROPIC_AUTH_TOKEN", endpoint, KEY_PAGE)
    key = environ.get("ANTHROPIC_API_KEY", "").strip()
    if key or not token:
        key = foreign_key(environ, "ANTHROPIC_API_KEY", endpoint, KEY_PAGE)
    return AnthropicApi(
        endpoint,
        key,
        bearer=token,
        environ=environ,
        connection=connection,
        cache=cache,
    )


def _is_last(event: dict[str, Any] | None) -> bool:
    return event is None or event.get("type") == "message_stop"


def _is_end(event: dict[str, Any] | None) -> bool:
    """True for the event that ends the answer; none of its content follows."""
    said = as_object((event or {}).get("delta")) or {}
    return (event or {}).get("type") == "message_delta" and bool(said.get("stop_reason"))
