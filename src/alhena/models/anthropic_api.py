"""Models behind Anthropic's Messages API, or a server that speaks it."""

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from msgspec.structs import replace

from alhena.http.client import Timeouts
from alhena.http.endpoint import Endpoint, parse_endpoint
from alhena.models.catalogue import LEAST_OUTPUT, ClaudeInfo, claude_info, foreign_name
from alhena.models.errors import RequestRejectedError
from alhena.models.foreign import (
    answer_chunks,
    decode_object,
    foreign_key,
    ids_for_calls,
    unreadable,
)
from alhena.models.service import FixedAccess, HttpService
from alhena.wire.conformance.repair import without_idle_calling
from alhena.wire.content import MODEL, USER, Content, Part
from alhena.wire.dialects import anthropic
from alhena.wire.dialects.anthropic.writing import answer_form
from alhena.wire.dialects.conversation import (
    DialectRequest,
    ToolNames,
    answer_schema,
    service_names,
    thinking_budget,
)
from alhena.wire.dialects.fields import DialectError
from alhena.wire.dialects.results import is_formed, with_form_in_words
from alhena.wire.dialects.signatures import is_foreign
from alhena.wire.encode import EncodedContent
from alhena.wire.encoded import encode_value
from alhena.wire.errors import DecodeError
from alhena.wire.plain import as_object
from alhena.wire.request import (
    FunctionCallingMode,
    GenerateContentConfig,
    GenerateContentRequest,
    GenerationConfig,
    ThinkingConfig,
)
from alhena.wire.response import EmbedContentResponse, GenerateContentResponse

EMPTY = "[a message without words]"
"""What stands for a message of the user's in which nothing is left."""
_LEAST_BUDGET = 1024
"""The fewest tokens that thinking may be granted."""
_WINDOW = 200_000
"""Tokens of the question and the answer together, as far as is known of any Claude."""
_BYTES_PER_TOKEN = 3
_MARGIN = 64
"""Tokens by which a second count may differ."""
_BESIDE = re.compile(r"exceed context limit: (?P<used>\d+) \+ \d+ > (?P<most>\d+)")
_LEAST_TOP_P = 0.95
"""The least that is taken while the model thinks."""


def own_thoughts(content: Content) -> Content:
    """A content with no thoughts and signatures but those that the service made. A thought comes
    in pieces, of which the last is signed; it goes back as one."""
    if content.role != MODEL:
        return content
    parts: list[Part] = []
    thought = ""
    for part in content.parts:
        if not part.thought:
            parts.append(replace(part, thought_signature=None))
            thought = ""
            continue
        thought += part.text or ""
        if part.thought_signature:
            if is_foreign(part.thought_signature):
                parts.append(replace(part, text=thought))
            thought = ""
    return Content(role=MODEL, parts=tuple(part for part in parts if part != Part(text="")))


def without_blanks(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages without blocks of text that hold only white space, for which the service refuses
    the whole request. An answer in which nothing is left goes with them."""
    made: list[dict[str, Any]] = []
    for message in messages:
        blocks = [_worded(block) for block in message["content"] if not _is_blank(block)]
        if not blocks and message["role"] == "user":
            blocks = [{"type": "text", "text": EMPTY}]
        if made and made[-1]["role"] == message["role"]:
            made[-1]["content"] += blocks
        elif blocks:
            made.append({**message, "content": blocks})
    return made


def _worded(block: dict[str, Any]) -> dict[str, Any]:
    if block["type"] != "tool_result":
        return block
    return {**block, "content": [one for one in block["content"] if not _is_blank(one)]}


def _is_blank(block: dict[str, Any]) -> bool:
    return block["type"] == "text" and not block["text"].strip()


def room_left(config: GenerateContentConfig, error: RequestRejectedError) -> int | None:
    """The number of tokens of output that were left beside the question, if the service refused a
    request for more; None where it did not, and where somebody set the limit."""
    found = _BESIDE.search(error.message.replace(",", ""))
    if found is None or (config.generation_config and config.generation_config.max_output_tokens):
        return None
    left = int(found["most"]) - int(found["used"]) - _MARGIN
    return left if left >= _LEAST_BUDGET else None


def likely_room(request: GenerateContentRequest) -> int:
    """The number of tokens of output that are left beside a question, by its size: a low
    estimate."""
    size = sum(entry.size for entry in request.contents) + len(encode_value(request.config))
    return max(LEAST_OUTPUT, _WINDOW - size // _BYTES_PER_TOKEN)


def accepted(
    config: GenerateContentConfig, contents: tuple[Content, ...], info: ClaudeInfo, room: int
) -> GenerateContentConfig:
    """The config without what the service refuses: thinking where a tool is forced or behind calls
    whose own thoughts are gone, budgets of thinking out of its bounds, more output than the model
    has, ways of sampling that exclude each other, and a choice among no tools. A schema that it
    does not take is told in words. There is always a limit of output; one that nobody set is at
    most `room`."""
    if is_formed(config):
        config = _formed(config, info)
    config = without_idle_calling(config)
    made = config.generation_config or GenerationConfig()
    made = replace(made, thinking_config=_thinking(config, contents, info))
    return replace(config, generation_config=_sampled(_limited(made, info, room)))


def _formed(config: GenerateContentConfig, info: ClaudeInfo) -> GenerateContentConfig:
    """The config with the form of the answer as the service takes it, else in words."""
    given = config.generation_config or GenerationConfig()
    schema = answer_schema(given)
    form = answer_form(schema) if schema is not None and info.schemas else None
    if form is None:
        return with_form_in_words(config)
    made = replace(given, response_schema=None, response_json_schema=form)
    return replace(config, generation_config=made)


def _thinking(
    config: GenerateContentConfig, contents: tuple[Content, ...], info: ClaudeInfo
) -> ThinkingConfig | None:
    given = config.generation_config.thinking_config if config.generation_config else None
    budget = thinking_budget(given)
    if given is None or budget is None or not info.thinks:
        return None
    if budget and (_is_forced(config) or _lost_thought(contents)):
        return None
    return replace(given, thinking_budget=budget, thinking_level=None)


def _is_forced(config: GenerateContentConfig) -> bool:
    calling = config.tool_config.function_calling_config if config.tool_config else None
    return calling is not None and calling.mode is FunctionCallingMode.ANY


def _limited(config: GenerationConfig, info: ClaudeInfo, room: int) -> GenerationConfig:
    """The config with a limit of output that the model has, and a budget of thinking, a part of it,
    that the service takes; no thinking where there is no room for the least. A limit that nobody
    set grows by the budget, as far as there is room; half of less is for thinking."""
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


def _sampled(config: GenerationConfig) -> GenerationConfig:
    """Of two ways of sampling the first, within the bounds of this service; beside thinking those
    alone that leave the model its own."""
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
    """True when a step of the current turn has calls and does not begin with a thought."""
    for content in reversed(contents):
        if content.role == USER:
            if not any(part.function_response for part in content.parts):
                return False
        elif content.parts and not content.parts[0].thought:
            return True
    return False


DEFAULT_BASE_URL = "https://api.anthropic.com"
VERSION = "2023-06-01"
KEY_PAGE = "https://console.anthropic.com/settings/keys"
MESSAGES = "/v1/messages"

_DONE = b"[DONE]"


class AnthropicApi:
    """A ContentGenerator. Models are named as there, with or without `anthropic:` before it.

    Of the thoughts in a history those go back that the service has signed; signatures of others it
    refuses. Where a call of the current turn has lost its thought, the next request asks for no
    thinking, which the service would refuse. Nothing is opened before the first request.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        key: str = "",
        *,
        bearer: str = "",
        environ: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        """`bearer`: a token that is shown instead of, or beside, the key."""
        access = {"x-api-key": key} if key else {}
        if bearer:
            access["authorization"] = f"Bearer {bearer}"
        self.endpoint = endpoint
        self._new_id = ids_for_calls()
        self._http = HttpService(
            endpoint,
            FixedAccess(access, f"Set ANTHROPIC_API_KEY to a valid key ({KEY_PAGE})."),
            environ=environ,
            timeouts=timeouts,
            headers={"anthropic-version": VERSION},
        )

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """The whole answer in one piece."""
        names = _names(request)
        try:
            answer = await self._asked(request, names)
        except RequestRejectedError as error:
            room = room_left(request.config, error)
            if room is None:
                raise
            answer = await self._asked(request, names, room)
        try:
            return anthropic.read_response(answer, names, self._new_id)
        except DialectError as error:
            raise unreadable(error) from error

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        """The answer chunk by chunk. Raises StreamCutError when the stream ends before the answer
        does. A limit of output that nobody set is lowered to what is left beside the question,
        where the service says that it is less."""
        room: int | None = None
        while True:
            try:
                async with aclosing(self._streamed(request, room)) as chunks:
                    async for chunk in chunks:
                        yield chunk
            except RequestRejectedError as error:
                again, room = room is None, room_left(request.config, error)
                if room is None or not again:
                    raise
            else:
                return

    async def _streamed(
        self, request: GenerateContentRequest, room: int | None
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        names = _names(request)
        # Before the stream: a DialectError of the request is none of the answer.
        body = encode_value(self._body(request, names, stream=True, room=room))
        events = self._http.events(
            MESSAGES, foreign_name(request.model), lambda: body, _decode_event
        )
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

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        """The number of tokens the contents take, as the service counts them."""
        request = GenerateContentRequest(model=model, contents=tuple(contents))
        body = self._body(request, _names(request), stream=False)
        told = encode_value({"model": body["model"], "messages": body["messages"]})
        path = f"{MESSAGES}/count_tokens"
        answer = await self._http.ask(path, foreign_name(model), told, decode_object)
        tokens = answer.get("input_tokens")
        if not isinstance(tokens, int):
            raise DecodeError("the answer holds no number of tokens.")
        return tokens

    async def embed(
        self, contents: Sequence[EncodedContent], *, model: str
    ) -> EmbedContentResponse:
        """Always RequestRejectedError: the service has no embeddings."""
        del contents, model
        raise RequestRejectedError(
            "this service computes no embeddings.", remedy="Use the Gemini API for them."
        )

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def _asked(
        self, request: GenerateContentRequest, names: ToolNames, room: int | None = None
    ) -> dict[str, Any]:
        body = encode_value(self._body(request, names, stream=False, room=room))
        return await self._http.ask(MESSAGES, foreign_name(request.model), body, decode_object)

    def _body(
        self,
        request: GenerateContentRequest,
        names: ToolNames,
        *,
        stream: bool,
        room: int | None = None,
    ) -> dict[str, Any]:
        """`room`: the tokens of output that are known to be left beside the question."""
        room = likely_room(request) if room is None else room
        model = foreign_name(request.model)
        contents = tuple(own_thoughts(entry.content) for entry in request.contents)
        asked = DialectRequest(
            model=model,
            contents=tuple(content for content in contents if content.parts),
            config=accepted(request.config, contents, claude_info(model), room),
            stream=stream,
            names=names,
        )
        body = anthropic.write_request(asked, new_id=self._new_id)
        return body | {"messages": without_blanks(body["messages"])}


def anthropic_from(environ: Mapping[str, str]) -> AnthropicApi:
    """The service that the environment names.

    Read are ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY and ANTHROPIC_AUTH_TOKEN (a bearer token),
    proxies and certificates. Raises ConfigError or CredentialsError.
    """
    base = environ.get("ANTHROPIC_BASE_URL", "").strip() or DEFAULT_BASE_URL
    endpoint = parse_endpoint(base, "ANTHROPIC_BASE_URL")
    token = environ.get("ANTHROPIC_AUTH_TOKEN", "").strip()
    if token:
        token = foreign_key(environ, "ANTHROPIC_AUTH_TOKEN", endpoint, KEY_PAGE)
    key = environ.get("ANTHROPIC_API_KEY", "").strip()
    if key or not token:
        key = foreign_key(environ, "ANTHROPIC_API_KEY", endpoint, KEY_PAGE)
    return AnthropicApi(endpoint, key, bearer=token, environ=environ)


def _decode_event(payload: bytes) -> dict[str, Any] | None:
    """One event; None for the word with which other services end a stream."""
    return None if payload.strip() == _DONE else decode_object(payload)


def _is_last(event: dict[str, Any] | None) -> bool:
    return event is None or event.get("type") == "message_stop"


def _is_end(event: dict[str, Any] | None) -> bool:
    """True when an event says how the answer ends. Nothing of it comes behind that."""
    said = as_object((event or {}).get("delta")) or {}
    return (event or {}).get("type") == "message_delta" and bool(said.get("stop_reason"))


def _names(request: GenerateContentRequest) -> ToolNames:
    return service_names(request.config, (entry.content for entry in request.contents))
