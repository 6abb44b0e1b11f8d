"""The steps of a recorded session with their times, read from its journal."""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from alhena.events import (
    ApiErrorEvent,
    ApiResponseEvent,
    CompressedEvent,
    ConfirmationRequestEvent,
    ErrorEvent,
    Event,
    HookCallEvent,
    LoopDetectedEvent,
    ModelFallbackEvent,
    OutputsMaskedEvent,
    RetryEvent,
    RunFinishedEvent,
    ToolCallRequestEvent,
    ToolCallResponseEvent,
    ToolCallUpdateEvent,
    WarningEvent,
)
from alhena.models.prices import Prices, Tokens
from alhena.session.records import (
    Answered,
    Contents,
    Continued,
    Happened,
    KnownRecord,
    Prompted,
    Started,
    Undone,
    record_of,
)
from alhena.session.transcript import Transcript, read_transcript, response_text
from alhena.tools.catalogue import plain_name
from alhena.wire.content import MODEL, Content, meant_call

_EVENTS = msgspec.json.Decoder(Event)
_CONTENTS = msgspec.json.Decoder(Content)
NO_RESULT = "no result was recorded"


class StepKind(StrEnum):
    """The kind of a step."""

    PROMPT = "prompt"
    MODEL = "model"
    TOOL = "tool"
    HOOK = "hook"
    ERROR = "error"
    RETRY = "retry"
    NOTE = "note"


class Step(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """Something that happened. `at` is when it began, `took` how long it lasted, both in
    milliseconds, `at` since the first record.

    Of a tool call `wait` is the time until a person answered, which comes before it is executed at
    `started`; a call that was not executed took no time. `lane` is a position in `Timeline.lanes`;
    `own_lane` the one of the subagent that the call ran. `text` is what a prompt, a model or an
    error says; `result` is what the model got. `replaces`: the call that a hook replaced by this
    one.
    """

    kind: StepKind
    at: float
    took: float = 0.0
    lane: int = 0
    name: str = ""
    status: str = ""
    text: str = ""
    role: str = ""
    tokens: Tokens | None = None
    cost: float | None = None
    call_id: str = ""
    replaces: str = ""
    args: dict[str, Any] | None = None
    proposed_args: dict[str, Any] | None = None
    wait: float = 0.0
    started: float | None = None
    own_lane: int | None = None
    result: str = ""
    diff: str = ""
    decision: str = ""
    reason: str = ""
    rule: str = ""

    @property
    def end(self) -> float:
        """The time at which it was over."""
        begun = self.at + self.wait if self.started is None else self.started
        return begun + self.took


class SessionTotals(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Sums over a session. Times are milliseconds; work that overlapped counts each time. Tool time
    leaves out calls that ran a subagent, whose own steps count. `cost` is in US dollars: None if no
    price is known; `unpriced` requests are not in it."""

    model_time: float
    tool_time: float
    waiting: float
    requests: int
    calls: int
    failed_calls: int
    retries: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost: float | None
    unpriced: int


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """A session that was read. `begin`: milliseconds since 1970. `steps` are in the order in which
    they began; `lanes` name the session and its subagents. `unread` counts events that this version
    cannot read."""

    transcript: Transcript
    begin: float
    steps: tuple[Step, ...]
    lanes: tuple[str, ...]
    totals: SessionTotals
    unread: int

    @property
    def problems(self) -> tuple[str, ...]:
        """Sentences that say what is missing."""
        found: list[str] = []
        damage = self.transcript.extent.damage
        if damage is not None:
            what = "ends within" if damage.torn else "is damaged from"
            found.append(
                f"the journal {what} line {damage.line}: {damage.size:,} bytes cannot be read, and "
                "what comes before them is shown."
            )
        if self.unread:
            records = "1 record" if self.unread == 1 else f"{self.unread:,} records"
            found.append(f"{records} cannot be read by this version.")
        return tuple(found)


def read_timeline(path: Path, prices: Prices) -> Timeline:
    """The session of a file, as far as it can be trusted. Raises SessionError."""
    reader = _JournalReader(prices)
    transcript = read_transcript(path, beside=reader.feed)
    begin = reader.finish()
    steps = tuple(reader.steps)
    return Timeline(
        transcript=transcript,
        begin=begin,
        steps=steps,
        lanes=tuple(reader.lanes),
        totals=_totals(steps),
        unread=reader.unread,
    )


def _totals(steps: Iterable[Step]) -> SessionTotals:
    model = [step for step in steps if step.kind is StepKind.MODEL]
    failed = [step for step in steps if step.kind is StepKind.ERROR and step.role]
    tools = [step for step in steps if step.kind is StepKind.TOOL]
    tokens = [step.tokens for step in model if step.tokens is not None]
    costs = [step.cost for step in model if step.cost is not None]
    return SessionTotals(
        model_time=_sum(step.took for step in (*model, *failed)),
        tool_time=_sum(step.took for step in tools if step.own_lane is None),
        waiting=_sum(step.wait for step in tools),
        requests=len(model) + len(failed),
        calls=len(tools),
        failed_calls=sum(step.status != "success" for step in tools),
        retries=sum(step.kind is StepKind.RETRY for step in steps),
        input_tokens=sum(each.prompt for each in tokens),
        cached_tokens=sum(each.cached for each in tokens),
        output_tokens=sum(each.output for each in tokens),
        cost=sum(costs) if costs else None,
        unpriced=len(model) - len(costs),
    )


def _sum(times: Iterable[float]) -> float:
    return round(sum(times), 1)


class _JournalReader:
    """Takes the lines of a journal in order and makes steps of them."""

    def __init__(self, prices: Prices) -> None:
        self.steps: list[Step] = []
        self.lanes = ["main"]
        self.unread = 0
        self._prices = prices
        self._now = 0.0
        self._calls: dict[str, Step] = {}
        self._replacing: dict[str, Step] = {}
        self._asked: dict[str, float] = {}
        self._lanes: dict[str, int] = {}
        self._answer: Step | None = None

    def feed(self, line: bytes) -> None:
        """Takes a line. One that cannot be read is counted."""
        try:
            record = record_of(line)
            if record is not None:
                self._now = milliseconds(record.at)
                self._record(record)
        except (msgspec.DecodeError, ValueError):
            self.unread += 1

    def finish(self) -> float:
        """Marks calls without a result, and puts the steps in their order; the time of the first
        one, from which the others count, in milliseconds since 1970."""
        for step in self._calls.values():
            self._settle(step)
            step.status = NO_RESULT
        for step, following in reversed(tuple(pairwise(self.steps))):
            if step.kind is StepKind.PROMPT:  # it is recorded with the beginning of the answer
                step.at = min(step.at, following.at)
        self.steps.sort(key=lambda step: step.at)
        begin = self.steps[0].at if self.steps else self._now
        for step in self.steps:
            step.at = round(step.at - begin, 1)
            step.started = None if step.started is None else round(step.started - begin, 1)
        return begin

    def _record(self, record: KnownRecord) -> None:
        match record:
            case Happened():
                self._event(_EVENTS.decode(record.event))
            case Started():
                self._execute(record.call_id)
            case Answered():
                step = self._calls.get(record.call_id) or self._replacing.get(record.call_id)
                if step is not None:
                    step.result = _response(map(msgspec.json.decode, record.parts))
            case Contents():
                self._attach(record)
            case Prompted():
                self._add(StepKind.PROMPT, name="prompt", text=record.text)
            case Continued():
                self._asked.clear()  # nobody was asked while it was at rest
                lost = (
                    f"; {record.dropped:,} damaged bytes were set aside" if record.dropped else ""
                )
                self._add(StepKind.NOTE, name="resumed", text=f"alhena {record.writer}{lost}")
            case Undone():
                self._add(StepKind.NOTE, name="restored", text=record.checkpoint)
            case _:
                pass

    def _attach(self, record: Contents) -> None:
        """Gives the latest answer its text, and its calls their arguments."""
        answer, self._answer = self._answer, None
        if answer is None or not record.contents:
            return
        content = _CONTENTS.decode(record.contents[-1])
        if content.role == MODEL:
            texts = (part.text or "" for part in content.parts if not part.thought)
            answer.text = "".join(texts)
            for call in filter(None, (part.function_call for part in content.parts)):
                step = self._calls.get(call.id or "")
                if step is not None:  # the event has only the beginning of long arguments
                    step.args = meant_call(call).args

    def _event(self, event: Event) -> None:
        match event:
            case ApiResponseEvent():
                self._response(event)
            case ApiErrorEvent():
                status = event.error_type if event.status is None else f"HTTP {event.status}"
                step = self._add(StepKind.ERROR, event.duration_ms, event.parent_call_id)
                step.name, step.role, step.status = event.model, event.role, status
                step.text = event.message
            case RetryEvent():
                step = self._add(StepKind.RETRY, 0.0, event.parent_call_id)
                step.took = 1000 * event.delay_s
                step.name, step.text = event.model, event.reason
                step.status = f"attempt {event.attempt} of {event.max_attempts}"
            case ToolCallRequestEvent():
                step = self._add(StepKind.TOOL, 0.0, event.parent_call_id, name=event.name)
                step.call_id, step.args = event.call_id, event.args
                self._calls[event.call_id] = step
                if event.replaces is not None:
                    step.replaces = event.replaces
                    self._replacing[event.replaces] = step
            case ConfirmationRequestEvent():
                self._asked.setdefault(event.call_id, self._now)
            case ToolCallUpdateEvent():
                self._update(event)
            case ToolCallResponseEvent():
                self._end(event)
            case HookCallEvent():
                self._hook(event)
            case _:
                self._note(event)

    def _response(self, event: ApiResponseEvent) -> None:
        prompt = event.input_tokens + event.tool_tokens
        output = event.output_tokens + event.thoughts_tokens
        tokens = Tokens(
            prompt=prompt,
            cached=min(event.cached_tokens, prompt),
            output=output,
            tier=event.service_tier,
            written=event.cache_write_tokens,
            written_hour=event.cache_write_hour_tokens,
        )
        step = self._add(StepKind.MODEL, event.duration_ms, event.parent_call_id, name=event.model)
        size, asked = event.input_tokens, event.asked_model
        cost = self._prices.cost(event.model, tokens, size=size, asked=asked)
        step.tokens, step.cost = tokens, cost
        step.role, step.status = event.role, event.finish_reason
        if event.role == "main":
            self._answer = step

    def _update(self, event: ToolCallUpdateEvent) -> None:
        step = self._calls.get(event.call_id)
        if step is not None:
            self._settle(step)
            step.text = event.description
            if event.status == "executing":
                self._execute(event.call_id)

    def _execute(self, call_id: str) -> None:
        step = self._calls.get(call_id)
        if step is not None:
            self._settle(step)
            step.started = self._now

    def _settle(self, step: Step) -> None:
        """Ends the wait for a person."""
        asked = self._asked.pop(step.call_id, None)
        if asked is not None:
            step.wait = round(step.wait + max(0.0, self._now - asked), 1)

    def _end(self, event: ToolCallResponseEvent) -> None:
        step = self._calls.pop(event.call_id, None)
        if step is None:
            step = self._add(
                StepKind.TOOL, event.duration_ms, event.parent_call_id, name=event.name
            )
            step.call_id = event.call_id
        self._settle(step)
        step.took = round(event.duration_ms, 1) if step.started is not None else 0.0
        step.status = event.outcome
        if not step.text:  # it ended before it was described
            texts = (each for each in (step.args or {}).values() if isinstance(each, str))
            step.text = next(texts, "")
        step.decision = "denied" if event.denied else _DECISIONS.get(event.decision, event.decision)
        step.reason, step.rule = event.reason, event.rule
        if event.args is not None:
            step.args, step.proposed_args = event.args, step.args
        if event.parts:
            step.result = _response(event.parts)
        display = event.display
        if isinstance(display, dict):
            step.diff = str(display.get("fileDiff") or "")
        elif not step.result:
            step.result = display or ""
        if event.error and event.error not in step.result:
            step.result = f"{event.error}\n{step.result}".rstrip()

    def _hook(self, event: HookCallEvent) -> None:
        if event.event == "BeforeTool" and len(self._asked) == 1:
            # Hooks run after the person's answer and before the call is scheduled.
            (call_id,) = self._asked
            asked = self._calls.get(call_id)
            if asked is not None:
                self._settle(asked)
                asked.wait = max(0.0, round(asked.wait - event.duration_ms, 1))
        step = self._add(StepKind.HOOK, event.duration_ms, event.parent_call_id, name=event.event)
        step.text, step.status = event.name, event.outcome
        step.result = "\n".join(filter(None, (event.message, event.stdout, event.stderr)))

    def _note(self, event: Event) -> None:
        match event:
            case ErrorEvent():
                self._add(StepKind.ERROR, name=event.error_type, text=event.message)
            case WarningEvent():
                self._add(StepKind.NOTE, name="warning", text=event.message)
            case ModelFallbackEvent():
                step = self._add(StepKind.NOTE, 0.0, event.parent_call_id, name="fallback")
                step.text = f"{event.model} instead of {event.instead_of}: {event.reason}"
            case CompressedEvent() | OutputsMaskedEvent():
                masked = isinstance(event, OutputsMaskedEvent)
                name = "masked" if masked else "compressed"
                step = self._add(StepKind.NOTE, 0.0, event.parent_call_id, name=name)
                step.text = f"{event.original_tokens:,} to {event.new_tokens:,} tokens"
                step.status = "" if isinstance(event, OutputsMaskedEvent) else event.status
            case LoopDetectedEvent():
                step = self._add(StepKind.NOTE, 0.0, event.parent_call_id, name="loop")
                step.text, step.status = event.detail, event.action
            case RunFinishedEvent() if event.reason != "done":
                self._add(StepKind.NOTE, name="run ended", text=event.reason)
            case _:
                pass

    def _add(
        self,
        kind: StepKind,
        took: float = 0.0,
        parent: str | None = None,
        *,
        name: str = "",
        text: str = "",
    ) -> Step:
        """Adds a step that ends now."""
        took = round(took, 1)
        lane = 0 if parent is None else self._lane(parent)
        step = Step(kind=kind, at=self._now - took, took=took, lane=lane, name=name, text=text)
        self.steps.append(step)
        return step

    def _lane(self, parent: str) -> int:
        """The lane of the subagent that a call runs."""
        if parent not in self._lanes:
            step = self._calls.get(parent)
            name = parent if step is None else (step.args or {}).get("agent_name") or step.name
            self._lanes[parent] = len(self.lanes)
            self.lanes.append(str(name))
            if step is not None:
                step.own_lane = self._lanes[parent]
        return self._lanes[parent]


_DECISIONS = {
    "auto_accept": "allowed",
    "accept": "approved",
    "modify": "approved with changes",
    "reject": "not run",
}


def _response(parts: Iterable[Any]) -> str:
    """The text of the parts that answer a call."""
    return "\n".join(filter(None, map(_part, parts)))


def _part(part: dict[str, Any]) -> str:
    if response := part.get("functionResponse"):
        return response_text(response.get("response") or {})
    if data := part.get("inlineData"):
        return f"[{data.get('mimeType')}, {len(data.get('data') or '') * 3 // 4:,} bytes]"
    return str(part.get("text") or "")


@lru_cache(maxsize=1)
def _second(text: str) -> float:
    return 1000 * datetime.fromisoformat(f"{text}+00:00").timestamp()


def milliseconds(at: str) -> float:
    """A time as `Record.at` has it, in milliseconds since 1970."""
    return _second(at[:19]) + int(at[20:23] or 0)


def call_title(step: Step) -> tuple[str, str]:
    """A step's name as people see it, of a tool as in its row at the terminal, and its text without
    that name."""
    name = plain_name(step.name) if step.kind is StepKind.TOOL else step.name
    return name, step.text.removeprefix(f"{name} ")
