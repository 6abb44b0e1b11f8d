"""What every dialect reads a conversation into, calls and results paired (conformance F1 to F7)."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from alhena.values import Value
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
from alhena.wire.dialects.names import ServiceNames, ToolNames
from alhena.wire.request import GenerateContentConfig, GenerationConfig, ThinkingConfig
from alhena.wire.schema.json_schema import to_json_schema

LEVEL_BUDGETS = {"MINIMAL": 512, "LOW": 1024, "MEDIUM": 8192, "HIGH": 24576}
"""Level of thinking -> tokens to think with."""

NewId = Callable[[str], str]
"""Makes the id of a call to the tool of this name (`wire.calls.CallIds.next`)."""


class DialectRequest(Value, frozen=True, kw_only=True):
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


class _Turn(msgspec.Struct):
    """A content that may still grow; one of `results` does not."""

    role: str
    parts: list[Part]
    results: bool = False


class Conversation:
    """Builds contents from messages. Neighbours of one role become one content, but a prompt is
    never joined to results (C6)."""

    def __init__(self, names: ToolNames) -> None:
        self._names = names
        self._turns: list[_Turn] = []
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
        # Calls of a message before it would be open here, were they not answered: `_open` is empty.
        for part in parts:
            call = part.function_call
            if call is None or call.id is None:
                continue
            if call.id in self._open:
                raise DialectError(f'two calls of one message have the id "{call.id}".', path)
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
            self._turns.append(_Turn(USER, ordered, results=True))

    def finish(self, path: str) -> tuple[Content, ...]:
        """All contents. The last word has to be the user's."""
        self._require_answered(path)
        if not self._turns:
            raise DialectError("holds no message with content.", path)
        if self._turns[-1].role == MODEL:
            raise DialectError(
                "ends with a message of the assistant, which Gemini cannot go on with.",
                path,
                remedy="End with a message of the user.",
            )
        return tuple(Content(role=turn.role, parts=tuple(turn.parts)) for turn in self._turns)

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

    def _add(self, role: str, parts: Sequence[Part]) -> None:
        last = self._turns[-1] if self._turns else None
        if last is not None and last.role == role and not last.results:
            last.parts += parts
        else:
            self._turns.append(_Turn(role, list(parts)))


def system_texts(config: GenerateContentConfig) -> list[str]:
    """The texts of the system instruction."""
    instruction = config.system_instruction
    return [part.text for part in instruction.parts if part.text] if instruction else []


def unique_id(call: FunctionCall, new_id: NewId, taken: set[str]) -> str:
    """The id of a call of an answer whose other calls have the ids `taken`, to which it is added:
    its own, or a new one where it has none or one that is taken (NATIVE-01)."""
    made = call.id if call.id and call.id not in taken else new_id(call.name)
    taken.add(made)
    return made


def service_names(config: GenerateContentConfig, contents: Iterable[Content]) -> ServiceNames:
    """The names of all tools of a request to a service of another dialect: declared ones, and those
    of the calls and results in its history, so that a call has one name wherever it stands."""
    names = list(config.function_names())
    for content in contents:
        for part in content.parts:
            if part.function_call is not None:
                names.append(part.function_call.name)
            if part.function_response is not None:
                names.append(part.function_response.name)
    return ServiceNames(names)


def declared_functions(
    config: GenerateContentConfig, names: ToolNames
) -> list[tuple[str, str, dict[str, Any]]]:
    """Name, description and JSON Schema of each function, under the names of the client."""
    return [
        (
            names.original(each.name),
            each.description,
            each.parameters_json_schema or to_json_schema(each.parameters or {"type": "object"}),
        )
        for tool in config.tools or ()
        for each in tool.function_declarations or ()
    ]


def answer_schema(config: GenerationConfig) -> dict[str, Any] | None:
    """The JSON Schema that an answer has to keep to."""
    if config.response_json_schema is not None:
        return config.response_json_schema
    return to_json_schema(config.response_schema) if config.response_schema is not None else None


def thinking_budget(thinking: ThinkingConfig | None) -> int | None:
    """How many tokens may be thought with: -1 at the model's own choice, None where nothing is said
    of it. A level stands for the tokens that it grants."""
    if thinking is None or thinking.thinking_budget is not None:
        return thinking.thinking_budget if thinking is not None else None
    return LEVEL_BUDGETS.get((thinking.thinking_level or "").upper())


def with_ids(contents: Iterable[Content], new_id: NewId) -> tuple[Content, ...]:
    """The contents with an id for each call and result: results without one belong to the calls of
    their name in order (F6). Of calls of one content with the same id, all but the first get
    another (F5); the results with that id belong to them in order."""
    made: list[Content] = []
    step = _Step(new_id)
    for content in contents:
        if content.role == MODEL:
            step = _Step(new_id)
        made.append(Content(role=content.role, parts=tuple(map(step.identified, content.parts))))
    return tuple(made)


class _Step:
    """Calls and their results, as they get ids."""

    def __init__(self, new_id: NewId) -> None:
        self._new_id = new_id
        self._taken: set[str] = set()
        self._by_name: dict[str, deque[str]] = {}
        self._by_id: dict[str, deque[str]] = {}

    def identified(self, part: Part) -> Part:
        """A call or a result with its id; any other part as it is."""
        if part.function_call is not None:
            call = part.function_call
            made = unique_id(call, self._new_id, self._taken)
            self._by_name.setdefault(call.name, deque()).append(made)
            self._by_id.setdefault(call.id or made, deque()).append(made)
            call = msgspec.structs.replace(call, id=made)
            return msgspec.structs.replace(part, function_call=call)
        if part.function_response is not None:
            answer = part.function_response
            waiting = self._by_id.get(answer.id) if answer.id else self._by_name.get(answer.name)
            made = waiting.popleft() if waiting else answer.id or self._new_id(answer.name)
            answer = msgspec.structs.replace(answer, id=made)
            return msgspec.structs.replace(part, function_response=answer)
        return part
