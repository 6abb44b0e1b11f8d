"""Function calls in the form of the scheduler (WIRE-10)."""

from typing import Any

import msgspec

from alhena.wire.content import FunctionCall


class ToolCallRequestInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A call to schedule. `call_id` is the model's id, or one from `CallIds`."""

    call_id: str
    name: str
    args: dict[str, Any]
    is_client_initiated: bool = False
    prompt_id: str = ""
    checkpoint: str | None = None
    trace_id: str | None = None
    parent_call_id: str | None = None
    scheduler_id: str | None = None


class CallIds:
    """Generates ids for calls without one: unique in and across sessions, never from a clock."""

    def __init__(self, token: str) -> None:
        """`token` is random text, new for each process that adds to a session."""
        self._token = token
        self._count = 0

    def next(self, name: str) -> str:
        """A new id for a call to `name`."""
        self._count += 1
        return f"{name}-{self._token}-{self._count}"


def request_info(
    call: FunctionCall, call_id: str, prompt_id: str, trace_id: str | None = None
) -> ToolCallRequestInfo:
    """The schedulable form of a model's function call. `trace_id` is that of its response."""
    return ToolCallRequestInfo(
        call_id=call_id,
        name=call.name,
        args=call.args or {},
        prompt_id=prompt_id,
        trace_id=trace_id,
    )
