"""The form that every dialect reads a conversation into: calls paired, names mapped, endings
translated."""

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
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
from alhena.wire.dialects.fields import DialectError, UnusableAnswerError
from alhena.wire.request import GenerateContentConfig, GenerationConfig, ThinkingConfig
from alhena.wire.response import (
    CUT_CALL,
    NO_REASON,
    Candidate,
    FinishReason,
    GenerateContentResponse,
)
from alhena.wire.schema.adapt import to_json_schema

MAX_LENGTH = 63
_VALID = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}\Z")
_VALID_ELSEWHERE = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


class ToolNames:
    """The names of one conversation of a client of another dialect, for Gemini. A name that Gemini
    takes stands for itself; the name made for another depends on that one only, so that it is the
    same in each request, unless a tool that came before it has that very name."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._originals: dict[str, str] = {}
        self._sent: dict[str, str] = {}
        for name in names:
            self.wire(name)

    def wire(self, name: str) -> str:
        """The name to send for `name`."""
        sent = self._sent.get(name)
        if sent is None:
            sent = self._sent[name] = _free(name, _VALID, self._originals)
            self._originals[sent] = name
        return sent

    def original(self, sent: str) -> str:
        """The name that `sent` was made for; an unknown one stays as it is."""
        return self._originals.get(sent, sent)

    def knows(self, name: str) -> bool:
        """True when `name`, as the other side says it, has come up."""
        return name in self._sent


class ServiceNames(ToolNames):
    """The other way round: the names of a conversation of ours, for a service of another dialect,
    which takes up to 64 letters, digits, "_" and "-". `original` gives the service's name for one
    of ours, `wire` ours for one of the service.

    Made from all names of a request at once: those that the service takes stand for themselves, and
    no name made for another is one of them.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        super().__init__()
        known = dict.fromkeys(names)
        taken = {name: name for name in known if _VALID_ELSEWHERE.match(name)}
        for name in sorted(known.keys() - taken.keys()):
            taken[_free(name, _VALID_ELSEWHERE, taken)] = name
        self._ours = taken
        self._theirs = {name: sent for sent, name in taken.items()}

    def wire(self, name: str) -> str:
        """Our name for the service's `name`; an unknown one stays as it is."""
        return self._ours.get(name, name)

    def original(self, sent: str) -> str:
        """The service's name for `sent`, which is one of ours."""
        return self._theirs.get(sent, sent)

    def knows(self, name: str) -> bool:
        """True when `name`, as the service says it, is that of a tool."""
        return name in self._ours


def _free(name: str, valid: "re.Pattern[str]", taken: dict[str, str]) -> str:
    """`name`, or one made for it, that none of the `taken` names is."""
    sent = name if valid.match(name) else _made(name)
    again = 0
    while sent in taken:
        again += 1
        sent = _made(name, again)
    return sent


def _made(name: str, again: int = 0) -> str:
    from hashlib import sha256

    told = f"{name}\0{again}" if again else name
    digest = sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[: MAX_LENGTH - 10]
    lead = "" if readable[:1].isalpha() or readable[:1] == "_" else "_"
    return f"{lead}{readable}_{digest}"


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
    """The number of tokens for thinking: -1 at the model's own choice, None where nothing is said.
    A level stands for the tokens that it grants."""
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


_FILTERED = frozenset(
    {
        *(FinishReason.SAFETY, FinishReason.RECITATION, FinishReason.BLOCKLIST),
        *(FinishReason.PROHIBITED_CONTENT, FinishReason.SPII, FinishReason.IMAGE_SAFETY),
    }
)
_UNUSABLE = frozenset(
    {
        *(FinishReason.MALFORMED_FUNCTION_CALL, FinishReason.UNEXPECTED_TOOL_CALL),
        *(FinishReason.TOO_MANY_TOOL_CALLS, FinishReason.MISSING_THOUGHT_SIGNATURE),
    }
)


class Ending(Enum):
    """Whole, cut at the limit of tokens, or held back."""

    DONE = "done"
    LENGTH = "length"
    FILTERED = "filtered"


def ending_of(last: GenerateContentResponse, *, has_calls: bool) -> Ending:
    """How the answer ended whose last chunk this is.

    Raises UnusableAnswerError for one that ended with a call that cannot be used.
    """
    reason = last.finish_reason
    if reason in _UNUSABLE and not has_calls:
        said = last.candidates[0].finish_message
        raise UnusableAnswerError(
            f"the model's answer ended with {reason}{f': {said}' if said else '.'}"
        )
    if reason in _FILTERED or (last.prompt_feedback and last.prompt_feedback.block_reason):
        return Ending.FILTERED
    return Ending.LENGTH if reason == FinishReason.MAX_TOKENS else Ending.DONE


def malformed_call(name: str) -> Candidate:
    """The end of an answer with a call that cannot be read."""
    return Candidate(
        finish_reason=FinishReason.MALFORMED_FUNCTION_CALL,
        finish_message=f"the arguments of a call to {name} are no JSON object",
    )


def cut_call(name: str) -> Candidate:
    """The end of an answer that reached the limit of its tokens in the middle of a call, which is
    left out. Asking again in the same words would come to the same."""
    return Candidate(finish_reason=FinishReason.MAX_TOKENS, finish_message=f"{CUT_CALL}{name}")


def words_without_reason() -> Candidate:
    """The end of a stream of words alone that ended in good order and did not say why. Some
    services never say it, so that they are taken for whole."""
    return Candidate(finish_reason=FinishReason.STOP, finish_message=NO_REASON)
