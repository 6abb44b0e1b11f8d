"""The common form of a conversation in all dialects: pairs calls and results, maps names,
translates finish reasons."""

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
from alhena.wire.dialects.fields import DialectError, InexpressibleAnswerError
from alhena.wire.request import GenerateContentConfig, GenerationConfig, ThinkingConfig
from alhena.wire.response import (
    CUT_CALL,
    NO_REASON,
    Candidate,
    FinishReason,
    GenerateContentResponse,
    UsageMetadata,
)
from alhena.wire.schema.adapt import to_json_schema

NAMELESS = "a tool without a name"
"""In place of the name of an incomplete call that has none."""
MAX_LENGTH = 63
_VALID = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}\Z")
_VALID_ELSEWHERE = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


class ToolNameMap:
    """Maps the names of a client of another dialect to Gemini names. Valid names are unchanged; the
    name for an invalid one depends only on that name, so that it is the same in each request,
    unless an earlier tool has that name."""

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
        """The original of the name `sent`; an unknown one is unchanged."""
        return self._originals.get(sent, sent)


class ServiceNames(ToolNameMap):
    """The reverse: maps our names to those of a service of another dialect, which accepts up to 64
    letters, digits, "_" and "-". `original` returns the service's name for one of ours, `wire` ours
    for one of the service.

    Built from all names of a request at once: valid names are unchanged, and no generated name
    equals one of them.
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
        """Our name for the service's `name`; an unknown one is unchanged."""
        return self._ours.get(name, name)

    def original(self, sent: str) -> str:
        """The service's name for our name `sent`."""
        return self._theirs.get(sent, sent)


def _free(name: str, valid: "re.Pattern[str]", taken: dict[str, str]) -> str:
    """`name`, or one derived from it, that is not in `taken`."""
    sent = name if valid.match(name) else _make_name(name)
    again = 0
    while sent in taken:
        again += 1
        sent = _make_name(name, again)
    return sent


def _make_name(name: str, again: int = 0) -> str:
    from hashlib import sha256

    told = f"{name}\0{again}" if again else name
    digest = sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[: MAX_LENGTH - 10]
    lead = "" if readable[:1].isalpha() or readable[:1] == "_" else "_"
    return f"{lead}{readable}_{digest}"


LEVEL_BUDGETS = {"MINIMAL": 512, "LOW": 1024, "MEDIUM": 8192, "HIGH": 24576}
"""Thinking level -> thinking tokens."""

NewId = Callable[[str], str]
"""Generates the id of a call to the named tool (`wire.content.CallIds.next`)."""


class DialectRequest(Value, frozen=True, kw_only=True):
    """A request of any dialect in Gemini's types.

    `model` is the client's name. Media in a tool result are in `FunctionResponse.parts`;
    `results.beside_results` moves them for older models. `include_usage`: a stream ends with a
    chunk of token counts (OpenAI). Without `parallel_calls` an answer has one call at most; it ends
    before the first of `stops`, which the service is not told. `left_out` are the names or types
    of tools that cannot be declared, `server_tools` the client's names of Gemini's own tools, by
    their fields in `ToolDeclarations`. Of the Responses API only: `echo` are the settings that the
    answer repeats, `items` the input as it was given.
    """

    model: str
    contents: tuple[Content, ...]
    config: GenerateContentConfig = GenerateContentConfig()
    stream: bool = False
    include_usage: bool = False
    parallel_calls: bool = True
    stops: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    server_tools: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    echo: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    items: tuple[Any, ...] = ()
    names: ToolNameMap = msgspec.field(default_factory=ToolNameMap)


class _Turn(msgspec.Struct):
    """A content that may still grow; one of `results` does not."""

    role: str
    parts: list[Part]
    results: bool = False


class ConversationBuilder:
    """Builds contents from messages. Neighbours of one role are merged, but a prompt is never
    merged into results (C6)."""

    def __init__(self, names: ToolNameMap) -> None:
        self._names = names
        self._turns: list[_Turn] = []
        self._open: dict[str, str] = {}
        self._given: dict[str, Part] = {}
        self._asked_at = ""
        self._asides: list[Part] = []

    def add_aside(self, parts: Sequence[Part]) -> None:
        """Adds text that may stand anywhere, even between calls and their results, which it then
        follows."""
        if self._open:
            self._asides += parts
        elif parts:
            self._add(USER, parts)

    def user(self, parts: Sequence[Part], path: str) -> None:
        """Adds a prompt."""
        self._require_answered(path)
        if parts:
            self._add(USER, parts)

    def model(self, parts: Sequence[Part], path: str) -> None:
        """Adds an answer of the model, with its calls."""
        self._require_answered(path)
        if not parts:
            return
        # Calls of an earlier message must have been answered: `_open` is empty.
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
        """Adds the result of a call of the previous answer."""
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
            asides, self._asides = self._asides, []
            self.add_aside(asides)

    def finish(self, path: str) -> tuple[Content, ...]:
        """All contents. The last one must be the user's."""
        self._require_answered(path)
        if not self._turns:
            raise DialectError("contains no message with content.", path)
        if self._turns[-1].role == MODEL:
            raise DialectError(
                "ends with a message of the assistant, which Gemini cannot continue with.",
                path,
                remedy="End with a message of the user.",
            )
        return tuple(Content(role=turn.role, parts=tuple(turn.parts)) for turn in self._turns)

    @property
    def unanswered(self) -> str:
        """The id of the first call without a result; "" for none."""
        return next((call_id for call_id in self._open if call_id not in self._given), "")

    def call(self, call_id: str, name: str, args: dict[str, Any]) -> FunctionCall:
        """A call with the tool's sent name."""
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
    """A unique id of a call in an answer with the ids `taken`, to which it is added: its own, or a
    new one if missing or taken (NATIVE-01)."""
    made = call.id if call.id and call.id not in taken else new_id(call.name)
    taken.add(made)
    return made


def service_names(config: GenerateContentConfig, contents: Iterable[Content]) -> ServiceNames:
    """The names of all tools of a request to a service of another dialect: declared ones, and those
    in its history, so that a call has the same name everywhere."""
    names = list(config.function_names())
    for content in contents:
        for part in content.parts:
            if part.function_call is not None:
                names.append(part.function_call.name)
            if part.function_response is not None:
                names.append(part.function_response.name)
    return ServiceNames(names)


def declared_functions(
    config: GenerateContentConfig, names: ToolNameMap
) -> list[tuple[str, str, dict[str, Any]]]:
    """Name, description and JSON Schema of each function, under the client's names."""
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
    """The required JSON Schema of an answer."""
    if config.response_json_schema is not None:
        return config.response_json_schema
    return to_json_schema(config.response_schema) if config.response_schema is not None else None


def thinking_budget(thinking: ThinkingConfig | None) -> int | None:
    """The thinking budget in tokens: -1 for the model's choice, None if unspecified. A level is
    converted to its tokens."""
    if thinking is None or thinking.thinking_budget is not None:
        return thinking.thinking_budget if thinking is not None else None
    return LEVEL_BUDGETS.get((thinking.thinking_level or "").upper())


def with_ids(contents: Iterable[Content], new_id: NewId) -> tuple[Content, ...]:
    """The contents with an id for each call and result: results without one are matched to calls of
    their name in order (F6). Duplicate ids of calls in one content are replaced except the first
    (F5); the results with that id are matched in order."""
    made: list[Content] = []
    step = _IdAssigner(new_id)
    for content in contents:
        if content.role == MODEL:
            step = _IdAssigner(new_id)
        made.append(Content(role=content.role, parts=tuple(map(step.add_id, content.parts))))
    return tuple(made)


class _IdAssigner:
    """Assigns ids to calls and their results."""

    def __init__(self, new_id: NewId) -> None:
        self._new_id = new_id
        self._taken: set[str] = set()
        self._by_name: dict[str, deque[str]] = {}
        self._by_id: dict[str, deque[str]] = {}

    def add_id(self, part: Part) -> Part:
        """A call or a result with its id; other parts are unchanged."""
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


class AnswerEnd(Enum):
    """The end of an answer: complete, cut at the token limit, or filtered."""

    DONE = "done"
    LENGTH = "length"
    FILTERED = "filtered"


def ending_of(last: GenerateContentResponse) -> AnswerEnd:
    """The kind of end of the answer with this last chunk.

    Raises InexpressibleAnswerError for an answer that is unusable (`wire.finish_reasons`).
    """
    reason = last.finish_reason
    if last.prompt_feedback and last.prompt_feedback.block_reason:
        return AnswerEnd.FILTERED
    if reason in (None, FinishReason.STOP):
        return AnswerEnd.DONE
    from alhena.wire.finish_reasons import finish_info

    ending = finish_info(reason)
    if ending.withheld:
        return AnswerEnd.FILTERED
    if ending.is_error:
        said = last.candidates[0].finish_message
        raise InexpressibleAnswerError(f"{ending.words} ({reason}){f': {said}' if said else '.'}")
    return AnswerEnd.LENGTH if reason == FinishReason.MAX_TOKENS else AnswerEnd.DONE


def malformed_call(name: str) -> Candidate:
    """The end of an answer with an unreadable call."""
    return Candidate(
        finish_reason=FinishReason.MALFORMED_FUNCTION_CALL,
        finish_message=f"the arguments of a call to {name} are no JSON object",
    )


def cut_call(name: str) -> Candidate:
    """The end of an answer that reached its token limit inside a call, which is dropped. A retry
    would have the same result."""
    return Candidate(finish_reason=FinishReason.MAX_TOKENS, finish_message=f"{CUT_CALL}{name}")


def words_without_reason() -> Candidate:
    """The end of a text-only stream that ended regularly without a finish reason. Some services
    never send one, so the text counts as complete."""
    return Candidate(finish_reason=FinishReason.STOP, finish_message=NO_REASON)


def count_tokens(prompt: int, output: int, thoughts: int, cached: int, total: int) -> UsageMetadata:
    """Token counts. Most services count thoughts within the output, some beside it: then there are
    more of them, or the total says so."""
    beside = thoughts > output or (thoughts > 0 and total - prompt >= output + thoughts)
    text = output if beside else output - thoughts
    return UsageMetadata(
        prompt_token_count=prompt,
        candidates_token_count=text,
        thoughts_token_count=thoughts,
        cached_content_token_count=cached,
        total_token_count=total or prompt + text + thoughts,
    )


def answer_chunk(
    parts: Iterable[Part], end: Candidate | None, *, model: str | None, response_id: str | None
) -> GenerateContentResponse:
    """A chunk of an answer with these parts; `end` if it is the last one."""
    content = Content(role=MODEL, parts=tuple(parts))
    return GenerateContentResponse(
        candidates=(msgspec.structs.replace(end or Candidate(), content=content),),
        model_version=model,
        response_id=response_id,
    )
