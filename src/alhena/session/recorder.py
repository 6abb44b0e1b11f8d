"""From what happens in a session to the records of it."""

from collections.abc import Callable, Sequence

import msgspec

from alhena.events import (
    ApiRequestEvent,
    ApiResponseEvent,
    ContentEvent,
    Event,
    HookCallEvent,
    ModelFallbackEvent,
    RunStartedEvent,
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
from alhena.wire.text import scrub

_PASSING = (ContentEvent, ToolOutputEvent, ToolCallsUpdateEvent, ApiRequestEvent)
"""Events of which the contents, or later events, say all that lasts."""


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
        raws = None if event.parent_call_id is not None else _raw_parts(event.parts)
        if raws is not None:
            self._answers[event.call_id] = raws
            self._append(
                Answered(
                    at=self._clock(),
                    call_id=scrub(event.call_id),
                    name=scrub(event.name),
                    parts=tuple(map(msgspec.Raw, raws)),
                )
            )
        self._happened(msgspec.structs.replace(event, parts=()))

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
    return event


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
