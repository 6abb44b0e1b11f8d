"""Models behind Anthropic's Messages API, or a server that speaks it."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from msgspec.structs import replace

from alhena.models.catalogue import foreign_name
from alhena.models.endpoint import Endpoint, parse_endpoint
from alhena.models.errors import RequestRejectedError
from alhena.models.foreign import (
    answer_chunks,
    decode_object,
    foreign_key,
    ids_for_calls,
    unreadable,
)
from alhena.models.http import Timeouts
from alhena.models.service import FixedAccess, HttpService
from alhena.wire.content import MODEL, USER, Content, Part
from alhena.wire.dialects import anthropic
from alhena.wire.dialects.anthropic.signatures import is_foreign
from alhena.wire.dialects.anthropic.writing import DEFAULT_MAX_TOKENS
from alhena.wire.dialects.conversation import DialectRequest
from alhena.wire.dialects.errors import DialectError
from alhena.wire.dialects.names import ToolNames
from alhena.wire.encode import EncodedContent
from alhena.wire.encoded import encode_value
from alhena.wire.errors import DecodeError
from alhena.wire.request import (
    GenerateContentConfig,
    GenerateContentRequest,
    GenerationConfig,
)
from alhena.wire.response import EmbedContentResponse, GenerateContentResponse

DEFAULT_BASE_URL = "https://api.anthropic.com"
VERSION = "2023-06-01"
KEY_PAGE = "https://console.anthropic.com/settings/keys"
MESSAGES = "/v1/messages"

_LEAST_BUDGET = 1024
"""The fewest tokens that thinking may be granted."""


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
        body = encode_value(self._body(request, stream=False))
        answer = await self._http.ask(MESSAGES, foreign_name(request.model), body, decode_object)
        try:
            return anthropic.read_response(answer, ToolNames())
        except DialectError as error:
            raise unreadable(error) from error

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        """The answer chunk by chunk. Raises StreamCutError when the stream ends before the answer
        does."""
        events = self._http.events(
            MESSAGES,
            foreign_name(request.model),
            lambda: encode_value(self._body(request, stream=True)),
            decode_object,
        )
        chunks = answer_chunks(
            events,
            anthropic.EventReader(ToolNames()),
            self.endpoint.place,
            is_last=lambda event: event.get("type") == "message_stop",
        )
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        """How many tokens the contents take, as the service counts them."""
        request = GenerateContentRequest(model=model, contents=tuple(contents))
        body = self._body(request, stream=False)
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

    def _body(self, request: GenerateContentRequest, *, stream: bool) -> dict[str, Any]:
        contents = tuple(_own(entry.content) for entry in request.contents)
        asked = DialectRequest(
            model=foreign_name(request.model),
            contents=tuple(content for content in contents if content.parts),
            config=_accepted(request.config, contents),
            stream=stream,
        )
        return anthropic.write_request(asked, new_id=self._new_id)


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


def _own(content: Content) -> Content:
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


def _accepted(
    config: GenerateContentConfig, contents: tuple[Content, ...]
) -> GenerateContentConfig:
    """The config without what the service refuses: two ways of sampling at once, thinking behind
    calls whose own thoughts are gone, and budgets of thinking out of its bounds."""
    given = config.generation_config
    if given is None:
        return config
    made = given
    if made.temperature is not None and made.top_p is not None:
        made = replace(made, top_p=None)
    if made.thinking_config is not None and _lost_thought(contents):
        made = replace(made, thinking_config=None)
    made = _with_budget(made)
    return config if made == given else replace(config, generation_config=made)


def _with_budget(config: GenerationConfig) -> GenerationConfig:
    """The config with a budget that the service takes, which is a part of the limit of output; no
    thinking where there is no room for the least. A limit that nobody set grows by the budget."""
    budget = config.thinking_config.thinking_budget if config.thinking_config else None
    if config.thinking_config is None or budget is None or budget <= 0:
        return config
    budget = max(budget, _LEAST_BUDGET)
    limit = config.max_output_tokens or budget + DEFAULT_MAX_TOKENS
    if limit <= _LEAST_BUDGET:
        return replace(config, thinking_config=None)
    thinking = replace(config.thinking_config, thinking_budget=min(budget, limit - 1))
    return replace(config, max_output_tokens=limit, thinking_config=thinking)


def _lost_thought(contents: tuple[Content, ...]) -> bool:
    """Whether a step of the current turn has calls and does not begin with a thought."""
    for content in reversed(contents):
        if content.role == USER:
            if not any(part.function_response for part in content.parts):
                return False
        elif content.parts and not content.parts[0].thought:
            return True
    return False
