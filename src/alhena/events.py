"""The stream of events read by every front end, the journal and telemetry.

Events have plain values only, so that this module depends on no room and every event encodes to
JSON directly (`msgspec.json.encode(event)`); `type` is the tag. Events of a subagent have the id of
the call that runs it as `parent_call_id`.
"""

import time
from functools import lru_cache
from typing import Any, Literal

import msgspec

from alhena.values import Value

__all__ = [
    "ApiErrorEvent",
    "ApiRequestEvent",
    "ApiResponseEvent",
    "CallExceptionEvent",
    "CheckpointEvent",
    "CompressedEvent",
    "ConfirmationRequestEvent",
    "ContentEvent",
    "ContextWindowWillOverflowEvent",
    "ErrorEvent",
    "Event",
    "FinishedEvent",
    "HookCallEvent",
    "LoopCheckEvent",
    "LoopDetectedEvent",
    "ModelFallbackEvent",
    "OutputTruncatedEvent",
    "OutputsMaskedEvent",
    "RetryEvent",
    "RunFinishedEvent",
    "RunStartedEvent",
    "ThoughtEvent",
    "ToolCallRequestEvent",
    "ToolCallResponseEvent",
    "ToolCallState",
    "ToolCallUpdateEvent",
    "ToolCallsUpdateEvent",
    "ToolOutputEvent",
    "UserMessageEvent",
    "WarningEvent",
]


def timestamp(time_ns: int) -> str:
    """Formats a time since 1970 for records of events: 2026-01-31T12:34:56.789Z."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    return f"{_second(seconds)}.{rest // 1_000_000:03d}Z"


@lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


class EventBase(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """The base of all events: immutable, tagged by `type`."""


class RunStartedEvent(EventBase, Value, frozen=True, kw_only=True, tag="init"):
    """A prompt was accepted. `notices` are lines for a person."""

    session_id: str
    model: str
    cwd: str
    tools: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


class UserMessageEvent(EventBase, frozen=True, kw_only=True, tag="user_message"):
    """The prompt as stored in the history."""

    prompt_id: str
    text: str


class ThoughtEvent(EventBase, frozen=True, kw_only=True, tag="thought"):
    """A summary of the model's thinking; never part of the history."""

    subject: str
    description: str


class ContentEvent(EventBase, frozen=True, kw_only=True, tag="content"):
    """A piece of the answer's text, as streamed."""

    text: str


class ToolCallRequestEvent(EventBase, frozen=True, kw_only=True, tag="tool_call_request"):
    """The model requested a tool call, or a hook replaced a finished call by another: `replaces` is
    the id of the model's call, which it answers."""

    call_id: str
    name: str
    args: dict[str, Any]
    prompt_id: str
    replaces: str | None = None
    parent_call_id: str | None = None


class ToolCallUpdateEvent(EventBase, frozen=True, kw_only=True, tag="tool_call_update"):
    """A tool call entered a state of the scheduler (`status` is a `scheduler.states.Status`)."""

    call_id: str
    name: str
    status: str
    description: str = ""
    pid: int | None = None
    parent_call_id: str | None = None


class ToolCallState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The current state of a tool call; `status` is a `scheduler.states.Status`."""

    call_id: str
    name: str
    status: str
    description: str = ""
    parent_call_id: str | None = None
    scheduler_id: str | None = None


class CallExceptionEvent(EventBase, frozen=True, kw_only=True, tag="call_exception"):
    """A function of the program raised: a tool, its `confirm`, a rule's `when`, or a hook. `name`
    is the tool's, or the event's of a hook that is about no call (`call_id` "")."""

    call_id: str
    name: str
    error_type: str
    message: str
    traceback: str
    parent_call_id: str | None = None


class ToolCallsUpdateEvent(EventBase, Value, frozen=True, kw_only=True, tag="tool_calls_update"):
    """All calls of the current batch, in call order, after some of them changed."""

    calls: tuple[ToolCallState, ...]
    parent_call_id: str | None = None


class ToolOutputEvent(EventBase, frozen=True, kw_only=True, tag="tool_output"):
    """Live output of a running tool: the text since the last such event, or with `screen` all that
    is on its screen now."""

    call_id: str
    text: str
    screen: bool = False
    parent_call_id: str | None = None


class ConfirmationRequestEvent(
    EventBase, Value, frozen=True, kw_only=True, tag="confirmation_request"
):
    """A tool call waits for approval. `details` is the confirmation, encoded as plain values.

    `reason` and `parts` explain the question; `outcomes` are the possible answers, and `lasting`
    the rule, or the approval mode, that permanent answers would create (each a
    `bus.messages.LastingRule` as plain values). `problem` is the reason why the question is
    repeated.
    """

    call_id: str
    name: str
    details: dict[str, Any]
    reason: str = ""
    parts: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ()
    lasting: tuple[dict[str, Any], ...] = ()
    problem: str = ""
    correlation_id: str = ""
    parent_call_id: str | None = None


class ToolCallResponseEvent(EventBase, Value, frozen=True, kw_only=True, tag="tool_call_response"):
    """A tool call ended; emitted exactly once for each request.

    `display` is shown to people: text, or the encoded display object. `decision` tells how the call
    was approved or not (auto_accept, accept, modify, reject); `denied` is set when the policy or a
    person prevented it. `reason` is the policy's, `rule` its rule: the author and where it is
    written. `tool_type` is native or mcp. If a hook or a person changed the arguments,
    `args` are the final ones and `proposed_args` those of the request. `parts` are the response for
    the model (each a `wire.content.Part`): empty if a hook replaced this call by another.
    `replaces` is as in the request.
    """

    call_id: str
    name: str
    status: str
    display: str | dict[str, Any] | None = None
    error: str | None = None
    error_type: str | None = None
    duration_ms: float = 0.0
    decision: str = "auto_accept"
    denied: bool = False
    reason: str = ""
    rule: str = ""
    content_length: int = 0
    data: dict[str, Any] | None = None
    output_file: str | None = None
    tool_type: str = "native"
    mcp_server_name: str | None = None
    args: dict[str, Any] | None = None
    proposed_args: dict[str, Any] | None = None
    parts: tuple[Any, ...] = ()
    replaces: str | None = None
    parent_call_id: str | None = None

    @property
    def outcome(self) -> str:
        """The status for people: a call whose command failed is an error, though the model gets
        its output as a result. The one place that decides what counts as failed."""
        return "error" if self.status == "success" and self.command_failure else self.status

    @property
    def failure_type(self) -> str | None:
        """The type of the error, also of a command that failed."""
        return self.error_type or ("command_failed" if self.outcome != self.status else None)

    @property
    def command_failure(self) -> str:
        """The exit code or the signal of a command that failed; "" for others."""
        display = self.display
        if not isinstance(display, dict) or display.get("type") != "terminal_output":
            return ""
        if number := display.get("signal"):
            import signal

            known = {each.value: f" ({each.name})" for each in signal.Signals}
            return f"killed by signal {number}{known.get(number, '')}"
        code = display.get("exit_code")
        return f"exit code {code}" if code else ""


class CheckpointEvent(EventBase, frozen=True, kw_only=True, tag="checkpoint"):
    """A snapshot of the files was made under this name: before a call (`call_id`), or before a
    restore (none). `tree` is that of all files in the shadow repository, "" if it is not complete
    yet or there is none; the checkpoint gets it later."""

    name: str
    tree: str
    call_id: str = ""
    parent_call_id: str | None = None


class OutputTruncatedEvent(EventBase, frozen=True, kw_only=True, tag="output_truncated"):
    """A result was truncated to its two ends for the model. Lengths and the threshold
    are characters; `problem` is the reason why `output_file` is missing or incomplete."""

    call_id: str
    name: str
    original_length: int
    truncated_length: int
    threshold: int
    output_file: str | None = None
    problem: str = ""
    parent_call_id: str | None = None


class FinishedEvent(EventBase, frozen=True, kw_only=True, tag="finished"):
    """A model turn ended with this reason. `citations` are addresses of what it cites."""

    finish_reason: str
    citations: list[str] = msgspec.field(default_factory=list[str])


class ApiRequestEvent(EventBase, frozen=True, kw_only=True, tag="api_request"):
    """A request is about to be sent. `role` is its origin: main, subagent, utility_tool,
    utility_loop_detector or utility_next_speaker. If texts are enabled, `text` is its contents as
    JSON and `system` its system instruction. With `continues` it asks for the rest of an
    answer."""

    model: str
    prompt_id: str
    contents: int
    body_bytes: int = 0
    role: str = "main"
    text: str | None = None
    system: str | None = None
    parent_call_id: str | None = None
    continues: bool = False


class ApiResponseEvent(EventBase, frozen=True, kw_only=True, tag="api_response"):
    """A request was answered in full. Token counts are the server's; 0 if missing. `text` is the
    answer as a JSON array of its pieces, if texts are enabled. With `continues` it is the rest of
    an answer: its prompt includes what came before. `service_tier` changes the price; "" is the
    usual one. `asked_model` is the name in the request, `model` that in the answer."""

    model: str
    prompt_id: str
    duration_ms: float
    finish_reason: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    thoughts_tokens: int = 0
    tool_tokens: int = 0
    total_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_hour_tokens: int = 0
    role: str = "main"
    text: str | None = None
    parent_call_id: str | None = None
    continues: bool = False
    service_tier: str = ""
    asked_model: str = ""


class ApiErrorEvent(EventBase, frozen=True, kw_only=True, tag="api_error"):
    """A request failed."""

    model: str
    prompt_id: str
    duration_ms: float
    error_type: str
    message: str
    status: int | None = None
    role: str = "main"
    parent_call_id: str | None = None


class RetryEvent(EventBase, frozen=True, kw_only=True, tag="retry"):
    """A request failed and is sent again in `delay_s` seconds, counted from this event, as attempt
    `attempt` of at most `max_attempts`. With `retract`, the text streamed since the last
    ApiRequestEvent is void: the answer starts again."""

    model: str
    prompt_id: str
    attempt: int
    max_attempts: int
    delay_s: float
    reason: str
    error_type: str
    retract: bool = False
    role: str = "main"
    parent_call_id: str | None = None


class ModelFallbackEvent(EventBase, frozen=True, kw_only=True, tag="model_fallback"):
    """From now on `model` answers instead of `instead_of`. With `retract`, the text streamed since
    the last ApiRequestEvent is void. `asked`: a person agreed to it."""

    model: str
    instead_of: str
    prompt_id: str
    reason: str
    error_type: str
    asked: bool = False
    retract: bool = False
    role: str = "main"
    parent_call_id: str | None = None


class CompressedEvent(EventBase, frozen=True, kw_only=True, tag="chat_compressed"):
    """An attempt to compress the conversation has ended. `status` is a
    `chat.compression_options.CompressionStatus`; tokens are those of the next request, as far as
    known, unchanged after a failure. `reason` explains a failure worth reporting."""

    original_tokens: int
    new_tokens: int
    status: str
    trigger: Literal["manual", "auto"] = "auto"
    reason: str = ""
    role: str = "main"
    parent_call_id: str | None = None


class OutputsMaskedEvent(EventBase, frozen=True, kw_only=True, tag="tool_outputs_masked"):
    """A number of old `results` was replaced by previews for the model; the full results are on
    disk. Tokens are estimates of the conversation."""

    results: int
    original_tokens: int
    new_tokens: int
    role: str = "main"
    parent_call_id: str | None = None


class ContextWindowWillOverflowEvent(
    EventBase, frozen=True, kw_only=True, tag="context_window_will_overflow"
):
    """A request is not sent: it needs about `estimated_tokens`, the model accepts `window_tokens`,
    and nothing can be left out. The run ends with an error."""

    estimated_tokens: int
    window_tokens: int
    role: str = "main"


class LoopDetectedEvent(EventBase, frozen=True, kw_only=True, tag="loop_detected"):
    """A model repeats itself. `kind` is a `chat.loops.LoopKind`, `detail` describes the repetition.

    `action`: the model was notified (corrected), the run ends (ended), or a person chose to
    continue without further warnings in this prompt (ignored). `role` is the conversation's role.
    """

    kind: str
    detail: str
    action: Literal["corrected", "ended", "ignored"]
    prompt_id: str
    role: str = "main"
    parent_call_id: str | None = None


class LoopCheckEvent(EventBase, frozen=True, kw_only=True, tag="loop_check"):
    """A model checked another for loops; `confidence` (0 to 1) is its answer, and
    `second_confidence` that of `second_model`, which is asked when the first is sure."""

    prompt_id: str
    model: str
    confidence: float
    second_model: str = ""
    second_confidence: float = 0.0


class HookCallEvent(EventBase, frozen=True, kw_only=True, tag="hook_call"):
    """A hook ran. `event` is its event (a `hooks.model.HookEvent`), `kind` its type.

    `success`: it ended with exit code 0 and valid output. `outcome` is one of allow, block, stop,
    ask, warn (a failure without effect) and cancelled; `message` explains it. `input` is its input;
    `stdout` and `stderr` are the beginnings of its output.
    """

    event: str
    name: str
    kind: str
    source: str
    duration_ms: float
    success: bool
    outcome: str
    exit_code: int | None = None
    message: str = ""
    stdout: str = ""
    stderr: str = ""
    input: dict[str, Any] = {}
    parent_call_id: str | None = None


class WarningEvent(EventBase, frozen=True, kw_only=True, tag="warning"):
    """A warning for a person that does not end the run."""

    message: str


class ErrorEvent(EventBase, frozen=True, kw_only=True, tag="error"):
    """The run ends with an error. `error_type` is the error's `kind`."""

    error_type: str
    message: str
    exit_code: int = 1


class RunFinishedEvent(EventBase, frozen=True, kw_only=True, tag="result"):
    """The last event of a run.

    `reason` is one of done, stopped or blocked (by a hook), cancelled (a person refused a call),
    pending (calls wait for answers), turn_limit, token_limit, time_limit, cost_limit,
    loop_detected, interrupted, error; `text` is the text of the last model turn, and
    `finish_reason` the service's finish reason of that turn, "" without one.
    """

    reason: str
    text: str
    turns: int
    duration_ms: float
    finish_reason: str = ""


Event = (
    RunStartedEvent
    | UserMessageEvent
    | ThoughtEvent
    | ContentEvent
    | ToolCallRequestEvent
    | ToolCallUpdateEvent
    | ToolCallsUpdateEvent
    | ToolOutputEvent
    | ConfirmationRequestEvent
    | ToolCallResponseEvent
    | CheckpointEvent
    | OutputTruncatedEvent
    | FinishedEvent
    | ApiRequestEvent
    | ApiResponseEvent
    | ApiErrorEvent
    | RetryEvent
    | ModelFallbackEvent
    | CompressedEvent
    | OutputsMaskedEvent
    | ContextWindowWillOverflowEvent
    | LoopDetectedEvent
    | LoopCheckEvent
    | HookCallEvent
    | CallExceptionEvent
    | WarningEvent
    | ErrorEvent
    | RunFinishedEvent
)
