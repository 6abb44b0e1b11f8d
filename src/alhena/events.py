"""The one stream of events that every front end, the journal and telemetry read.

Events hold plain values only, so that this module depends on no room and every event encodes to
JSON as it is (`msgspec.json.encode(event)`); `type` is the tag. Events of a subagent's tool calls
carry the id of the call that runs the subagent as `parent_call_id`.
"""

import time
from functools import lru_cache
from typing import Any, Literal

import msgspec

from alhena.values import Value


def timestamp(time_ns: int) -> str:
    """A time since 1970 as records of events say it: 2026-01-31T12:34:56.789Z."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    return f"{_second(seconds)}.{rest // 1_000_000:03d}Z"


@lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


class EventBase(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """What all events share: immutable, tagged by `type`."""


class RunStartedEvent(EventBase, Value, frozen=True, kw_only=True, tag="init"):
    """A prompt was accepted. `notices` are lines a person should see."""

    session_id: str
    model: str
    cwd: str
    tools: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


class UserMessageEvent(EventBase, frozen=True, kw_only=True, tag="user_message"):
    """The prompt as it enters the history."""

    prompt_id: str
    text: str


class ThoughtEvent(EventBase, frozen=True, kw_only=True, tag="thought"):
    """A summary of the model's thinking; never part of the history (CHAT-01, CHAT-02)."""

    subject: str
    description: str


class ContentEvent(EventBase, frozen=True, kw_only=True, tag="content"):
    """A piece of the answer's text, as it streamed in."""

    text: str


class ToolCallRequestEvent(EventBase, frozen=True, kw_only=True, tag="tool_call_request"):
    """The model asked for a tool call, or a hook put one in the place of another that has run:
    `replaces` is the id of the model's call, whose response it gives."""

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
    """A tool call as it stands; `status` is a `scheduler.states.Status`."""

    call_id: str
    name: str
    status: str
    description: str = ""
    parent_call_id: str | None = None
    scheduler_id: str | None = None


class ToolCallsUpdateEvent(EventBase, Value, frozen=True, kw_only=True, tag="tool_calls_update"):
    """All calls of the batch at work, in call order, after some of them have changed."""

    calls: tuple[ToolCallState, ...]
    parent_call_id: str | None = None


class ToolOutputEvent(EventBase, frozen=True, kw_only=True, tag="tool_output"):
    """Live output of a running tool: the text that came since the last such event."""

    call_id: str
    text: str
    parent_call_id: str | None = None


class ConfirmationRequestEvent(
    EventBase, Value, frozen=True, kw_only=True, tag="confirmation_request"
):
    """A tool call waits for an answer. `details` is the confirmation, encoded as plain values.

    `reason` and `parts` say why it is asked; `outcomes` are the answers it takes, and `lasting` the
    rule, or the approval mode, that those which hold beyond the call would leave (each a
    `bus.messages.LastingRule` as plain values). `problem` says why it is asked once more.
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

    `display` is what a person sees: text, or the encoded display object. `decision` says how the
    call came to run or not (auto_accept, accept, modify, reject); `denied` is set when the policy
    or a person kept it from running. `tool_type` is native or mcp. Where a hook or a person has
    changed the arguments, `args` are those that count and `proposed_args` those of the request.
    `parts` are what the model gets (each a `wire.content.Part`): none where a hook has put another
    call in the place of this one. `replaces` is as in the request.
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


class CheckpointEvent(EventBase, frozen=True, kw_only=True, tag="checkpoint"):
    """The files were kept as they are, under this name: before a call (`call_id`), or before they
    are put back (none). `tree` is their name in the shadow repository, "" where those of other
    roots were kept and the project's could not be."""

    name: str
    tree: str
    call_id: str = ""
    parent_call_id: str | None = None


class OutputTruncatedEvent(EventBase, frozen=True, kw_only=True, tag="output_truncated"):
    """Of a result the model gets the two ends (TOOLS-22). Lengths and the threshold are characters;
    `problem` says why `output_file` is missing or not complete."""

    call_id: str
    name: str
    original_length: int
    truncated_length: int
    threshold: int
    output_file: str | None = None
    problem: str = ""
    parent_call_id: str | None = None


class FinishedEvent(EventBase, frozen=True, kw_only=True, tag="finished"):
    """A model turn ended with this reason (CHAT-01)."""

    finish_reason: str


class ApiRequestEvent(EventBase, frozen=True, kw_only=True, tag="api_request"):
    """A request is about to be sent. `role` says on whose behalf: main, subagent,
    utility_tool or utility_loop_detector.
    `text` is its contents as JSON, when somebody asked for texts."""

    model: str
    prompt_id: str
    contents: int
    body_bytes: int = 0
    role: str = "main"
    text: str | None = None


class ApiResponseEvent(EventBase, frozen=True, kw_only=True, tag="api_response"):
    """A request was answered in full. Token counts are the server's; 0 where it gave none. `text`
    is the answer as a JSON array of its pieces, when somebody asked for texts."""

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
    role: str = "main"
    text: str | None = None


class ApiErrorEvent(EventBase, frozen=True, kw_only=True, tag="api_error"):
    """A request failed."""

    model: str
    prompt_id: str
    duration_ms: float
    error_type: str
    message: str
    status: int | None = None
    role: str = "main"


class RetryEvent(EventBase, frozen=True, kw_only=True, tag="retry"):
    """A request failed and is sent again in `delay_s` seconds, which begin with this event, as
    attempt `attempt` of at most `max_attempts`. With `retract`, the text that has streamed in since
    the last ApiRequestEvent is void: the answer begins anew."""

    model: str
    prompt_id: str
    attempt: int
    max_attempts: int
    delay_s: float
    reason: str
    error_type: str
    retract: bool = False
    role: str = "main"


class ModelFallbackEvent(EventBase, frozen=True, kw_only=True, tag="model_fallback"):
    """From here on `model` answers instead of `instead_of`. With `retract`, the text that has
    streamed in since the last ApiRequestEvent is void. `asked`: a person agreed to it."""

    model: str
    instead_of: str
    prompt_id: str
    reason: str
    error_type: str
    asked: bool = False
    retract: bool = False
    role: str = "main"


class CompressedEvent(EventBase, frozen=True, kw_only=True, tag="chat_compressed"):
    """An attempt to shorten the conversation has ended. `status` is a
    `chat.compression_options.CompressionStatus`; tokens are those of the next request, as far as
    they are known, and stay the same where it failed. `reason` says why it failed, where that is to
    be said."""

    original_tokens: int
    new_tokens: int
    status: str
    trigger: Literal["manual", "auto"] = "auto"
    reason: str = ""
    role: str = "main"


class OutputsMaskedEvent(EventBase, frozen=True, kw_only=True, tag="tool_outputs_masked"):
    """Of so many old `results` the model has a preview from here on; the whole is on the disk.
    Tokens are estimates of the conversation."""

    results: int
    original_tokens: int
    new_tokens: int
    role: str = "main"


class ContextWindowWillOverflowEvent(
    EventBase, frozen=True, kw_only=True, tag="context_window_will_overflow"
):
    """A request is not sent: it needs about `estimated_tokens`, the model takes `window_tokens`,
    and nothing is left to be left out. The run ends with an error."""

    estimated_tokens: int
    window_tokens: int
    role: str = "main"


class LoopDetectedEvent(EventBase, frozen=True, kw_only=True, tag="loop_detected"):
    """A model goes in circles. `kind` is a `chat.loops.LoopKind`, `detail` says what is repeated.

    `action`: the model was told so (corrected), the run ends for it (ended), or a person wants to
    go on without being warned again in this prompt (ignored). `role` says whose conversation it is.
    """

    kind: str
    detail: str
    action: Literal["corrected", "ended", "ignored"]
    prompt_id: str
    role: str = "main"


class LoopCheckEvent(EventBase, frozen=True, kw_only=True, tag="loop_check"):
    """A model was asked whether another goes in circles; `confidence` (0 to 1) is its answer, and
    `second_confidence` that of `second_model`, which is asked when the first is sure."""

    prompt_id: str
    model: str
    confidence: float
    second_model: str = ""
    second_confidence: float = 0.0


class HookCallEvent(EventBase, frozen=True, kw_only=True, tag="hook_call"):
    """A hook ran. `event` is what it heard of (a `hooks.model.HookEvent`), `kind` its type.

    `success`: it ended with exit code 0 and can be understood. `outcome` is one of allow, block,
    stop, ask, warn (it failed and that is all) and cancelled; `message` says why. `input` is what
    it read; `stdout` and `stderr` are the beginnings of what it wrote.
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


class WarningEvent(EventBase, frozen=True, kw_only=True, tag="warning"):
    """Something a person should know that does not end the run."""

    message: str


class ErrorEvent(EventBase, frozen=True, kw_only=True, tag="error"):
    """The run cannot go on. `error_type` is the error's `kind`."""

    error_type: str
    message: str
    exit_code: int = 1


class RunFinishedEvent(EventBase, frozen=True, kw_only=True, tag="result"):
    """The last event of a run.

    `reason` is one of done, stopped or blocked (by a hook), turn_limit, token_limit, time_limit,
    cost_limit, loop_detected, interrupted, error; `text` is the text of the last model turn, and
    `finish_reason` the service's word for how that turn ended, "" where it said none.
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
    | WarningEvent
    | ErrorEvent
    | RunFinishedEvent
)
