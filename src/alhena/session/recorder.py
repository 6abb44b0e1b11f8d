"""From what happens in a session to the records of it."""

from collections.abc import Callable, Sequence
from typing import Any, cast

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
from alhena.session.records import (
    Answered,
    CallRefs,
    Contents,
    Happened,
    KnownRecord,
    Prompted,
    Started,
    encode_json,
    now,
)
from alhena.session.replay import joined
from alhena.wire.content import USER, Content, Part
from alhena.wire.encoded import EncodedContent, encode_value, mend
from alhena.wire.errors import EncodeError
from alhena.wire.json_values import scrub

_PASSING = (ContentEvent, ToolOutputEvent, ToolCallsUpdateEvent, ApiRequestEvent)
"""Events of which the contents, or later events, say all that lasts."""

_LONGEST = 20_000
"""Characters of a text that an event brings for people."""
_DEEPEST = 8
_WHOLE_TEXTS = frozenset({"originalContent", "newContent"})


class Recorder:
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
            self._happened(_without_ballast(event))

    def history(self, keep: int, fresh: Sequence[EncodedContent]) -> None:
        """The history is now its first `keep` contents, and `fresh` behind them."""
        raws = tuple(map(self._as_recorded, fresh))
        model, self._said = ("" if self._model == self._said else self._model), self._model
        self._append(Contents(at=self._clock(), keep=keep, contents=raws, model=model))

    def _update(self, event: ToolCallUpdateEvent) -> None:
        if event.pid is not None or event.status not in ("scheduled", "executing"):
            return
        if event.status == "executing" and event.parent_call_id is None:
            call_id, name = scrub(event.call_id), scrub(event.name)
            self._append(Started(at=self._clock(), call_id=call_id, name=name))
        else:
            self._happened(event)

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
        self._happened(
            msgspec.structs.replace(
                event,
                parts=tuple(_bounded(msgspec.json.decode(raw)) for raw in inner or ()),
                display=_bounded(event.display),
                args=_bounded(event.args),
                proposed_args=_bounded(event.proposed_args),
            )
        )

    def _happened(self, event: Event) -> None:
        self._append(Happened(at=self._clock(), event=msgspec.Raw(_json(event))))

    def _as_recorded(self, entry: EncodedContent) -> msgspec.Raw:
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
        if not calls or joined(parts) != bytes(entry.raw):
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
        return msgspec.structs.replace(event, details=_bounded(event.details))
    if isinstance(event, ToolCallRequestEvent):
        return msgspec.structs.replace(event, args=_bounded(event.args))
    return event


def _bounded(value: Any, depth: int = _DEEPEST) -> Any:
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
        return {key: _bounded(each, depth - 1) for key, each in known.items() if key not in whole}
    if isinstance(value, list | tuple):
        return [_bounded(each, depth - 1) for each in cast("Sequence[Any]", value)]
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
