"""Passes the events of a subagent on to its session."""

from collections.abc import Callable

import msgspec

from alhena.events import (
    ApiErrorEvent,
    ApiRequestEvent,
    ApiResponseEvent,
    CompressedEvent,
    ConfirmationRequestEvent,
    Event,
    HookCallEvent,
    LoopDetectedEvent,
    ModelFallbackEvent,
    OutputsMaskedEvent,
    OutputTruncatedEvent,
    RetryEvent,
    ThoughtEvent,
    ToolCallRequestEvent,
    ToolCallResponseEvent,
    ToolCallsUpdateEvent,
    ToolCallUpdateEvent,
    ToolOutputEvent,
    WarningEvent,
)


class EventRelay:
    """Passes on requests to the model, runs of hooks, and tool calls under ids that are unique in
    the session.

    What the subagent says and thinks is not what the session's model says: subjects of thoughts and
    the calls that start become live output of the call that runs it.
    """

    def __init__(
        self,
        parent_call_id: str,
        emit: Callable[[Event], None],
        output: Callable[[str], None],
    ) -> None:
        self._parent = parent_call_id
        self._emit = emit
        self._output = output

    def call_id(self, own: str) -> str:
        """The id by which the session knows a call of the subagent."""
        return f"{self._parent}/{own}"

    def emit(self, event: Event) -> None:
        """Takes an event of the subagent."""
        match event:
            case (
                ToolCallRequestEvent()
                | ToolCallUpdateEvent()
                | ToolOutputEvent()
                | ConfirmationRequestEvent()
                | ToolCallResponseEvent()
                | OutputTruncatedEvent()
            ):
                if isinstance(event, ToolCallUpdateEvent):
                    self._tell(event)
                elif (
                    isinstance(event, ToolCallRequestEvent | ToolCallResponseEvent)
                    and event.replaces is not None
                ):
                    replaces = self.call_id(event.replaces)
                    event = msgspec.structs.replace(event, replaces=replaces)
                self._emit(
                    msgspec.structs.replace(
                        event,
                        call_id=self.call_id(event.call_id),
                        parent_call_id=self._parent_of(event.parent_call_id),
                    )
                )
            case ToolCallsUpdateEvent():
                self._emit(self._of_session(event))
            case (
                ApiRequestEvent()
                | ApiResponseEvent()
                | ApiErrorEvent()
                | HookCallEvent()
                | LoopDetectedEvent()
                | CompressedEvent()
                | OutputsMaskedEvent()
            ):
                parent = self._parent_of(event.parent_call_id)
                self._emit(msgspec.structs.replace(event, parent_call_id=parent))
            case RetryEvent() | ModelFallbackEvent():  # what the subagent said was never shown
                parent = self._parent_of(event.parent_call_id)
                self._emit(msgspec.structs.replace(event, retract=False, parent_call_id=parent))
            case WarningEvent():
                self._emit(event)
            case ThoughtEvent():
                if event.subject:
                    self._output(f"{event.subject}\n")
            case _:
                pass

    def _of_session(self, event: ToolCallsUpdateEvent) -> ToolCallsUpdateEvent:
        """A batch of the subagent's under the ids of the session. Of one deeper down the calls have
        their parents already, which are this subagent's own."""
        parent = self._parent_of(event.parent_call_id)
        return ToolCallsUpdateEvent(
            calls=tuple(
                msgspec.structs.replace(
                    call, call_id=self.call_id(call.call_id), parent_call_id=parent
                )
                for call in event.calls
            ),
            parent_call_id=parent,
        )

    def _parent_of(self, own: str | None) -> str:
        """The parent in the session; events from deeper down name a call of this subagent."""
        return self._parent if own is None else self.call_id(own)

    def _tell(self, event: ToolCallUpdateEvent) -> None:
        if event.status == "executing" and event.pid is None:
            self._output(f"{event.name} {event.description}".strip() + "\n")
