"""The events of a subagent as events of its session."""

from collections.abc import Callable
from typing import Any

import msgspec

from alhena.events import (
    Event,
    ThoughtEvent,
    ToolCallsUpdateEvent,
    ToolCallUpdateEvent,
    WarningEvent,
)
from alhena.scheduler.scheduler import Caller


class EventRelay:
    """Passes on requests to the model, runs of hooks, and tool calls under ids that are unique in
    the session.

    What the subagent says and thinks is not what the session's model says: subjects of thoughts and
    the calls that start become live output of the call that runs it.
    """

    def __init__(
        self,
        caller: Caller,
        emit: Callable[[Event], None],
        output: Callable[[str], None],
    ) -> None:
        self._caller = caller
        self._emit = emit
        self._output = output

    def emit(self, event: Event) -> None:
        """Takes an event of the subagent."""
        if isinstance(event, ThoughtEvent):
            if event.subject:
                self._output(f"{event.subject}\n")
        elif isinstance(event, WarningEvent):
            self._emit(event)
        elif isinstance(event, ToolCallsUpdateEvent):
            self._emit(self._of_session(event))
        elif hasattr(event, "parent_call_id"):
            if isinstance(event, ToolCallUpdateEvent):
                self._tell(event)
            self._emit(self._rename_calls(event))

    def _rename_calls(self, event: Any) -> Event:
        """An event with a `parent_call_id` under the ids of the session."""
        changes: dict[str, Any] = {"parent_call_id": self._parent_of(event.parent_call_id)}
        for name in ("call_id", "replaces"):
            if getattr(event, name, None) is not None:
                changes[name] = self._caller.call_id(getattr(event, name))
        if hasattr(event, "retract"):
            changes["retract"] = False  # what the subagent said was never shown
        return msgspec.structs.replace(event, **changes)

    def _of_session(self, event: ToolCallsUpdateEvent) -> ToolCallsUpdateEvent:
        """A batch of the subagent's under the ids of the session. Of one deeper down the calls have
        their parents already, which are this subagent's own."""
        parent = self._parent_of(event.parent_call_id)
        return ToolCallsUpdateEvent(
            calls=tuple(
                msgspec.structs.replace(
                    call, call_id=self._caller.call_id(call.call_id), parent_call_id=parent
                )
                for call in event.calls
            ),
            parent_call_id=parent,
        )

    def _parent_of(self, own: str | None) -> str:
        """The parent in the session; events from deeper down name a call of this subagent."""
        return self._caller.parent if own is None else self._caller.call_id(own)

    def _tell(self, event: ToolCallUpdateEvent) -> None:
        if event.status == "executing" and event.pid is None:
            self._output(f"{event.name} {event.description}".strip() + "\n")
