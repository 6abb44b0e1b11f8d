"""From the events of a session to its records, and from its records to the conversation."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, assert_never, cast

import msgspec

from alhena.events import (
    ApiRequestEvent,
    ApiResponseEvent,
    ConfirmationRequestEvent,
    ContentEvent,
    Event,
    HookCallEvent,
    ModelFallbackEvent,
    RunFinishedEvent,
    RunStartedEvent,
    ToolCallRequestEvent,
    ToolCallResponseEvent,
    ToolCallsUpdateEvent,
    ToolCallUpdateEvent,
    ToolOutputEvent,
    UserMessageEvent,
)
from alhena.session.journal import read_session
from alhena.session.records import (
    Answered,
    CallRefs,
    Contents,
    Continued,
    Happened,
    Header,
    KnownRecord,
    Prompted,
    Started,
    Tagged,
    Undone,
    encode_json,
    now,
    record_of,
)
from alhena.wire.conformance.history import UNKNOWN_OUTCOME
from alhena.wire.content import (
    MODEL,
    USER,
    Content,
    EncodedContent,
    FunctionResponse,
    Part,
    encode_value,
    meant_call,
    mend,
)
from alhena.wire.errors import EncodeError
from alhena.wire.json_values import scrub

NOT_STARTED = "This call was not started: the session ended before. It had no effect."

_REFS = b'{"calls":'
_RESPONSE = b'{"functionResponse":'
_EVENT = b'{"type":"event",'
_RESPONDED = b'"event":{"type":"api_response"'
_RESPONDED_BY = 100
"""Bytes of a line within which it says what event it is of."""


class _Response(msgspec.Struct, frozen=True, kw_only=True):
    role: str = "main"
    input_tokens: int = 0
    continues: bool = False
    model: str = ""


class _Responded(msgspec.Struct, frozen=True):
    event: _Response


class Replay:
    """Takes the lines of a journal in order. `contents` is the history they lead to.

    `prompts` counts what people have said, `first` is the first of that, `model` is who was last to
    answer, `version` the name that it gave itself; `times` says when each content came. `counted`
    is how many contents the service counted last, and as how many tokens; None where these are
    gone. `agent_turns` are those of subagents since a person said something. `superseded` are those
    that are part of
    it no more, with their times, on demand (`whole`). `incomplete`: records behind
    `contents` are gone, which may have said more of the last calls. `damage` are the damaged ends
    that were moved since a person was last at work, `moved` the files of all of them. `feed` raises
    msgspec.DecodeError for a line that contradicts those before it.
    """

    def __init__(self, *, whole: bool = False) -> None:
        self._whole = whole
        self.incomplete = False
        self.header: Header | None = None
        self.contents: list[EncodedContent] = []
        self.times: list[str] = []
        self.superseded: list[tuple[str, EncodedContent]] = []
        self.prompts = 0
        self.first = ""
        self.model = ""
        self.version = ""
        self.last_at = ""
        self.counted: tuple[int, int] | None = None
        self.agent_turns = 0
        self.damage: list[Continued] = []
        self.moved: set[str] = set()
        self._going_on = False
        self._unsure: list[str] = []
        self._answers: dict[str, tuple[bytes, ...]] = {}
        self._started: set[str] = set()

    @classmethod
    def of_contents(cls, contents: Iterable[EncodedContent]) -> "Replay":
        """The state that has led to these contents."""
        replay = cls()
        replay.contents.extend(contents)
        return replay

    def feed(self, line: bytes) -> None:
        """Takes a line. Of events only those are read that say how much was counted."""
        if line.startswith(_EVENT) and self.header is not None:
            if line.find(_RESPONDED, 0, _RESPONDED_BY) > 0:
                self._count(line)
            return
        record = record_of(line)
        if record is None:
            return
        if (self.header is None) != isinstance(record, Header):
            raise msgspec.DecodeError("a journal begins with one header")
        self.take(record)

    def take(self, record: KnownRecord) -> None:
        """Takes a record."""
        match record:
            case Header():
                self.header = record
            case Contents():
                self._splice(record)
                self.model = record.model or self.model
            case Started():
                self._started.add(record.call_id)
            case Answered():
                self._answers[record.call_id] = tuple(map(bytes, record.parts))
            case Prompted():
                self.prompts += 1
                if self.prompts == 1:
                    self.first = record.text
                self._going_on = False
                self.agent_turns = 0
                self.damage.clear()
                self._unsure.clear()
            case Undone():
                self._started.difference_update(record.calls)
                for call_id in record.calls:
                    self._answers.pop(call_id, None)
            case Continued():
                self._continue(record)
            case Happened() | Tagged():
                pass
            case _:
                assert_never(record)
        self.last_at = record.at

    def result(self, call_id: str) -> tuple[bytes, ...] | None:
        """The parts that answer a call of the last turn, None when none were recorded."""
        return self._answers.get(call_id)

    def pending_responses(self, undone: str = "") -> Content | None:
        """Responses to the calls that end the conversation, if any: recorded results; for other
        calls a note that they may have taken effect or did not start, or `undone`."""
        if not self.contents or self.contents[-1].content.role != MODEL:
            return None
        raws: list[bytes] = []
        for part in self.contents[-1].content.parts:
            call = part.function_call
            if call is None:
                continue
            known = self._answers.get(call.id or "")
            if known is None:
                text = UNKNOWN_OUTCOME if self._may_have_started(call.id) else NOT_STARTED
                text = undone or text
                answer = FunctionResponse(id=call.id, name=call.name, response={"error": text})
                known = (msgspec.json.encode(Part(function_response=answer)),)
            raws += known
        return None if not raws else _contents().decode(join_parts(raws))

    def unknown_calls(self) -> tuple[str, ...]:
        """The names of calls that had started, or may have, and have no result; also of those that
        another run has answered with that, before anybody has heard of it."""
        unsure = tuple(self._unsure)
        if not self.contents or self.contents[-1].content.role != MODEL:
            return unsure
        calls = (part.function_call for part in self.contents[-1].content.parts)
        return unsure + tuple(
            meant_call(call).name
            for call in calls
            if call is not None and call.id not in self._answers and self._may_have_started(call.id)
        )

    def _may_have_started(self, call_id: str | None) -> bool:
        return self.incomplete or call_id in self._started

    def _continue(self, record: Continued) -> None:
        self._going_on = True
        if record.dropped:
            self.damage.append(record)
            self.moved.add(record.moved_to)
            self.incomplete = self.incomplete or not record.torn

    def _count(self, line: bytes) -> None:
        try:
            event = _counts().decode(line).event
        except msgspec.ValidationError:
            return  # of a version that counts otherwise
        # Each request of an answer that takes several has its own event.
        self.agent_turns += event.role == "subagent" and not event.continues
        if event.role != "main":
            return
        self.version = event.model or self.version
        if event.input_tokens > 0 and not event.continues:
            self.counted = (len(self.contents), event.input_tokens)

    def _splice(self, record: Contents) -> None:
        if record.keep > len(self.contents):
            raise msgspec.DecodeError("contents that are not there cannot be kept")
        if self.counted is not None and record.keep < self.counted[0]:
            self.counted = None
        fresh: list[EncodedContent] = []
        for raw in record.contents:
            data = bytes(raw)
            if data.startswith(_REFS):
                data = self._answering(data)
            content = _contents().decode(data)
            fresh.append(EncodedContent(content, lambda _content, data=data: data))
            self.incomplete = False  # whoever went on has told what is gone
            if content.role != USER:
                self._answers.clear()
                self._started.clear()
            elif self._going_on:
                self._unsure += _calls_without_outcome(content)
        self._replace(record.keep, fresh, record.at)

    def _replace(self, keep: int, fresh: list[EncodedContent], at: str) -> None:
        """Replaces the contents after the first `keep` by `fresh`; contents in both keep their
        times."""
        times = [at] * len(fresh)
        if self._whole:
            gone = list(zip(self.times[keep:], self.contents[keep:], strict=True))
            staying = _staying([bytes(entry.raw) for _, entry in gone], fresh)
            for old, new in staying.items():
                times[new] = gone[old][0]
            self.superseded += (each for old, each in enumerate(gone) if old not in staying)
        self.contents[keep:] = fresh
        self.times[keep:] = times

    def _answering(self, refs: bytes) -> bytes:
        calls = _refs().decode(refs).calls
        try:
            return join_parts([part for call in calls for part in self._answers[call]])
        except KeyError as error:
            raise msgspec.DecodeError(f"no answer to the call {error} was recorded") from error


def join_parts(parts: list[bytes]) -> bytes:
    """The bytes of the user content that has these parts, responses before media."""
    ordered = [part for part in parts if part.startswith(_RESPONSE)]
    ordered += (part for part in parts if not part.startswith(_RESPONSE))
    return b'{"parts":[%b],"role":"%b"}' % (b",".join(ordered), USER.encode())


def _staying(gone: list[bytes], fresh: list[EncodedContent]) -> dict[int, int]:
    """Maps positions of removed contents to those of identical new ones. Compares by position if
    both lists have the same length, else from the beginning and the end; an equal content elsewhere
    counts as new."""
    raws = [bytes(entry.raw) for entry in fresh]
    if len(raws) == len(gone):
        return {place: place for place, raw in enumerate(raws) if raw == gone[place]}
    shorter = min(len(raws), len(gone))
    first = next((at for at in range(shorter) if raws[at] != gone[at]), shorter)
    found = {place: place for place in range(first)}
    for back in range(1, shorter - first + 1):
        if raws[-back] != gone[-back]:
            break
        found[len(gone) - back] = len(raws) - back
    return found


def _calls_without_outcome(content: Content) -> list[str]:
    answers = (part.function_response for part in content.parts)
    unknown = {"error": UNKNOWN_OUTCOME}
    return [each.name for each in answers if each is not None and each.response == unknown]


@cache
def _contents() -> msgspec.json.Decoder[Content]:
    return msgspec.json.Decoder(Content)


@cache
def _refs() -> msgspec.json.Decoder[CallRefs]:
    return msgspec.json.Decoder(CallRefs)


@cache
def _counts() -> msgspec.json.Decoder[_Responded]:
    return msgspec.json.Decoder(_Responded)


_MARK = b'"type":"checkpoint"'


def conversation_at(journal: Path, name: str) -> Replay | None:
    """The conversation of a recorded session as it was when the checkpoint `name` was made; None
    when the journal does not know of it. Raises SessionError."""
    replay = Replay()
    found = False

    def take(line: bytes) -> bool:
        nonlocal found
        if line.startswith(_EVENT) and _MARK in line and _names(line, name):
            found = True
            return True
        replay.feed(line)
        return False

    read_session(journal, take)
    return replay if found else None


def _names(line: bytes, name: str) -> bool:
    record = record_of(line)
    if not isinstance(record, Happened):
        return False
    said = msgspec.json.decode(record.event)
    return said.get("type") == "checkpoint" and said.get("name") == name


_PASSING = (ContentEvent, ToolOutputEvent, ToolCallsUpdateEvent, ApiRequestEvent)
"""Events of which the contents, or later events, say all that lasts."""

_LONGEST = 20_000
"""Characters of a text that an event brings for people."""
_DEEPEST = 8
_WHOLE_TEXTS = frozenset({"originalContent", "newContent"})


class JournalRecorder:
    """Takes events and changes of the history, in the order in which they come about, and gives
    `append` the records. Raises what that raises."""

    def __init__(
        self, append: Callable[[KnownRecord], None], clock: Callable[[], str] = now
    ) -> None:
        self._append = append
        self._clock = clock
        self._model = self._said = ""
        self._answers: dict[str, tuple[bytes, ...]] = {}

    def event(self, event: Event) -> None:
        """Takes an event."""
        if isinstance(event, _PASSING):
            return
        if isinstance(event, ToolCallUpdateEvent):
            self._update(event)
        elif isinstance(event, ToolCallResponseEvent):
            self._answer(event)
        elif isinstance(event, UserMessageEvent):
            self._append(Prompted(at=self._clock(), text=scrub(event.text)))
        else:
            if isinstance(event, RunStartedEvent | ModelFallbackEvent) and _is_main(event):
                self._model = event.model
            self._append_event(_without_ballast(event))

    def history(self, keep: int, fresh: Sequence[EncodedContent]) -> None:
        """The history is now its first `keep` contents, and `fresh` behind them."""
        raws = tuple(map(self._record_content, fresh))
        model, self._said = ("" if self._model == self._said else self._model), self._model
        self._append(Contents(at=self._clock(), keep=keep, contents=raws, model=model))

    def _update(self, event: ToolCallUpdateEvent) -> None:
        if event.pid is not None or event.status not in ("scheduled", "executing"):
            return
        if event.status == "executing" and event.parent_call_id is None:
            call_id, name = scrub(event.call_id), scrub(event.name)
            self._append(Started(at=self._clock(), call_id=call_id, name=name))
        else:
            self._append_event(event)

    def _answer(self, event: ToolCallResponseEvent) -> None:
        """The answer first: of a call that has ended, nothing else may be the last word."""
        answers = event.parts and event.parent_call_id is None
        raws = _raw_parts(event.parts) if answers else None
        if raws is not None:
            call_id = event.replaces or event.call_id
            self._answers[call_id] = raws
            self._append(
                Answered(
                    at=self._clock(),
                    call_id=scrub(call_id),
                    name=scrub(event.name),
                    parts=tuple(map(msgspec.Raw, raws)),
                )
            )
        inner = _raw_parts(event.parts) if event.parent_call_id is not None else None
        self._append_event(
            msgspec.structs.replace(
                event,
                parts=tuple(_shorten_values(msgspec.json.decode(raw)) for raw in inner or ()),
                display=_shorten_values(event.display),
                args=_shorten_values(event.args),
                proposed_args=_shorten_values(event.proposed_args),
            )
        )

    def _append_event(self, event: Event) -> None:
        self._append(Happened(at=self._clock(), event=msgspec.Raw(_json(event))))

    def _record_content(self, entry: EncodedContent) -> msgspec.Raw:
        """The content, or for one that answers calls their ids, when that comes to the same."""
        content = entry.content
        if content.role != USER:
            self._answers.clear()
            return entry.raw
        if not self._answers:
            return entry.raw
        calls = tuple(
            part.function_response.id or ""
            for part in content.parts
            if part.function_response is not None
        )
        try:
            parts = [raw for call in calls for raw in self._answers[call]]
        except KeyError:
            return entry.raw
        if not calls or join_parts(parts) != bytes(entry.raw):
            return entry.raw
        return msgspec.Raw(encode_json(CallRefs(calls=calls)))


def _raw_parts(parts: tuple[Part, ...]) -> tuple[bytes, ...] | None:
    """The parts as they are sent; None for what cannot be."""
    try:
        content = EncodedContent(Content(role=USER, parts=parts)).content
    except EncodeError:
        return None
    return tuple(map(encode_value, content.parts))


def _is_main(event: RunStartedEvent | ModelFallbackEvent) -> bool:
    return isinstance(event, RunStartedEvent) or event.role == "main"


def _without_ballast(event: Event) -> Event:
    """An event without what the contents, or other files, hold already."""
    if isinstance(event, HookCallEvent):
        return msgspec.structs.replace(event, input={})
    if isinstance(event, ApiResponseEvent):
        return msgspec.structs.replace(event, text=None)
    if isinstance(event, RunFinishedEvent):
        return msgspec.structs.replace(event, text="")
    if isinstance(event, ConfirmationRequestEvent):
        return msgspec.structs.replace(event, details=_shorten_values(event.details))
    if isinstance(event, ToolCallRequestEvent):
        return msgspec.structs.replace(event, args=_shorten_values(event.args))
    return event


def _shorten_values(value: Any, depth: int = _DEEPEST) -> Any:
    """The value without the two texts of a file's change, of which the diff tells; of other long
    texts the beginning."""
    if isinstance(value, str):
        if len(value) <= _LONGEST:
            return value
        return f"{value[:_LONGEST]}… [{len(value) - _LONGEST} more characters]"
    if not depth:
        return value
    if isinstance(value, dict):
        known = cast("dict[str, Any]", value)
        whole = _WHOLE_TEXTS if "fileDiff" in known else frozenset[str]()
        return {
            key: _shorten_values(each, depth - 1) for key, each in known.items() if key not in whole
        }
    if isinstance(value, list | tuple):
        return [_shorten_values(each, depth - 1) for each in cast("Sequence[Any]", value)]
    return value


def _json(event: Event) -> bytes:
    """An event as JSON, whatever it holds: of one that has no such form, its type and why."""
    try:
        try:
            return encode_value(event)
        except UnicodeEncodeError:
            return encode_value(mend(event))
    except EncodeError as error:
        kind = event.__struct_config__.tag
        return encode_json({"type": kind, "problem": error.message})
