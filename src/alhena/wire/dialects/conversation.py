"""What every dialect reads a conversation into, calls and results paired (conformance F1 to F7)."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from alhena.wire.content import (
    MODEL,
    USER,
    Content,
    FunctionCall,
    FunctionResponse,
    FunctionResponsePart,
    Part,
)
from alhena.wire.dialects.errors import DialectError
from alhena.wire.dialects.names import ToolNames
from alhena.wire.request import GenerateContentConfig

NewId = Callable[[str], str]
"""Makes the id of a call to the tool of this name (`wire.calls.CallIds.next`)."""


class DialectRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request of any dialect in Gemini's terms.

    `model` is the name as the client wrote it. Media in a tool result are in
    `FunctionResponse.parts`; `results.beside_results` puts them where older models want them.
    `include_usage`: a stream ends with a chunk of token counts (OpenAI).
    """

    model: str
    contents: tuple[Content, ...]
    config: GenerateContentConfig = GenerateContentConfig()
    stream: bool = False
    include_usage: bool = False
    names: ToolNames = msgspec.field(default_factory=ToolNames)


class Conversation:
    """Builds contents from messages. Neighbours of one role become one content, but a prompt is
    never joined to results (C6)."""

    def __init__(self, names: ToolNames) -> None:
        self._names = names
        self._contents: list[Content] = []
        self._open: dict[str, str] = {}
        self._given: dict[str, Part] = {}
        self._asked_at = ""

    def user(self, parts: Sequence[Part], path: str) -> None:
        """A prompt."""
        self._require_answered(path)
        if parts:
            self._add(USER, parts)

    def model(self, parts: Sequence[Part], path: str) -> None:
        """An answer of the model, with its calls."""
        self._require_answered(path)
        if not parts:
            return
        known = self._last_calls() if self._last_role() == MODEL else set[str]()
        for part in parts:
            call = part.function_call
            if call is None or call.id is None:
                continue
            if call.id in known:
                raise DialectError(f'two calls of one message have the id "{call.id}".', path)
            known.add(call.id)
            self._open[call.id] = call.name
        self._asked_at = path
        self._add(MODEL, parts)

    def result(
        self,
        call_id: str,
        response: dict[str, Any],
        media: Iterable[FunctionResponsePart],
        path: str,
    ) -> None:
        """The result of one call of the answer before it."""
        if call_id in self._given:
            raise DialectError(f'there is a result for the call "{call_id}" already.', path)
        if call_id not in self._open:
            raise DialectError(
                f'it answers the call "{call_id}", which the message before it does not make.', path
            )
        self._given[call_id] = Part(
            function_response=FunctionResponse(
                id=call_id,
                name=self._open[call_id],
                response=response,
                parts=tuple(media) or None,
            )
        )
        if len(self._given) == len(self._open):
            ordered = [self._given[known] for known in self._open]
            self._open, self._given = {}, {}
            self._contents.append(Content(role=USER, parts=tuple(ordered)))

    def finish(self, path: str) -> tuple[Content, ...]:
        """All contents. The last word has to be the user's."""
        self._require_answered(path)
        if not self._contents:
            raise DialectError("holds no message with content.", path)
        if self._contents[-1].role == MODEL:
            raise DialectError(
                "ends with a message of the assistant, which Gemini cannot go on with.",
                path,
                remedy="End with a message of the user.",
            )
        return tuple(self._contents)

    def call(self, call_id: str, name: str, args: dict[str, Any]) -> FunctionCall:
        """A call, its tool under the name that is sent."""
        return FunctionCall(id=call_id, name=self._names.wire(name), args=args)

    def _require_answered(self, path: str) -> None:
        missing = [call_id for call_id in self._open if call_id not in self._given]
        if missing:
            listed = ", ".join(f'"{call_id}"' for call_id in missing[:3])
            raise DialectError(
                f"the results of the calls {listed} ({self._asked_at}) have to come first.", path
            )

    def _last_role(self) -> str | None:
        return self._contents[-1].role if self._contents else None

    def _last_calls(self) -> set[str]:
        calls = (part.function_call for part in self._contents[-1].parts)
        return {call.id for call in calls if call is not None and call.id is not None}

    def _add(self, role: str, parts: Sequence[Part]) -> None:
        last = self._contents[-1] if self._contents else None
        if last is not None and last.role == role and not _holds_results(last):
            self._contents[-1] = Content(role=role, parts=(*last.parts, *parts))
        else:
            self._contents.append(Content(role=role, parts=tuple(parts)))


def _holds_results(content: Content) -> bool:
    return any(part.function_response is not None for part in content.parts)


def system_texts(config: GenerateContentConfig) -> list[str]:
    """The texts of the system instruction."""
    instruction = config.system_instruction
    return [part.text for part in instruction.parts if part.text] if instruction else []


def with_ids(contents: Iterable[Content], new_id: NewId) -> tuple[Content, ...]:
    """The contents with an id for each call and result that has none: results without one belong to
    the calls of their name in order (F6)."""
    made: list[Content] = []
    waiting: list[FunctionCall] = []
    for content in contents:
        parts: list[Part] = []
        if content.role == MODEL:
            waiting = []
        for part in content.parts:
            if part.function_call is not None:
                call = part.function_call
                call = call if call.id else msgspec.structs.replace(call, id=new_id(call.name))
                waiting.append(call)
                part = msgspec.structs.replace(part, function_call=call)
            elif part.function_response is not None and not part.function_response.id:
                answer = part.function_response
                call_id = _taken(waiting, answer.name) or new_id(answer.name)
                answer = msgspec.structs.replace(answer, id=call_id)
                part = msgspec.structs.replace(part, function_response=answer)
            parts.append(part)
        made.append(Content(role=content.role, parts=tuple(parts)))
    return tuple(made)


def _taken(waiting: list[FunctionCall], name: str) -> str | None:
    """The id of the first waiting call to this tool, which waits no longer."""
    for at, call in enumerate(waiting):
        if call.name == name:
            del waiting[at]
            return call.id
    return None
