"""Models behind Anthropic's Messages API, or a server that speaks it."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from alhena.http.client import Timeouts
from alhena.http.endpoint import Endpoint, parse_endpoint
from alhena.models.anthropic_terms import (
    accepted,
    likely_room,
    own_thoughts,
    room_left,
    without_blanks,
)
from alhena.models.catalogue import foreign_name
from alhena.models.claude import claude_info
from alhena.models.errors import RequestRejectedError
from alhena.models.foreign import (
    answer_chunks,
    decode_object,
    foreign_key,
    ids_for_calls,
    unreadable,
)
from alhena.models.service import FixedAccess, HttpService
from alhena.wire.dialects import anthropic
from alhena.wire.dialects.conversation import DialectRequest, service_names
from alhena.wire.dialects.errors import DialectError
from alhena.wire.dialects.names import ToolNames
from alhena.wire.encode import EncodedContent
from alhena.wire.encoded import encode_value
from alhena.wire.errors import DecodeError
from alhena.wire.plain import as_object
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import EmbedContentResponse, GenerateContentResponse

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
        """How many tokens the contents take, as the service counts them."""
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
    """Whether an event says how the answer ends. Nothing of it comes behind that."""
    said = as_object((event or {}).get("delta")) or {}
    return (event or {}).get("type") == "message_delta" and bool(said.get("stop_reason"))


def _names(request: GenerateContentRequest) -> ToolNames:
    return service_names(request.config, (entry.content for entry in request.contents))
