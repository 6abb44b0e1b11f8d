"""Hooks as values: definitions, events, and the combined verdict (HOOK-04)."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import msgspec

from alhena.errors import AlhenaError
from alhena.values import Value

DEFAULT_TIMEOUT_MS = 60_000

OUTPUT_LIMIT = 1 << 20
"""The most bytes of a hook's output whose fields are used."""

ANSWER_LIMIT = 8 << 20
"""Bytes kept of each of a hook's two streams, and searched for its answer; the rest is counted."""


class HookEvent(StrEnum):
    """The events of hooks; the keys of `hooks` in settings files."""

    BEFORE_TOOL = "BeforeTool"
    AFTER_TOOL = "AfterTool"
    BEFORE_AGENT = "BeforeAgent"
    AFTER_AGENT = "AfterAgent"
    NOTIFICATION = "Notification"
    SESSION_START = "SessionStart"
    SESSION_END = "SessionEnd"
    PRE_COMPRESS = "PreCompress"
    BEFORE_MODEL = "BeforeModel"
    AFTER_MODEL = "AfterModel"
    BEFORE_TOOL_SELECTION = "BeforeToolSelection"


class HookSource(StrEnum):
    """The source of a hook. For one event, hooks of earlier members run first."""

    RUNTIME = "runtime"
    PROJECT = "project"
    USER = "user"
    SYSTEM = "system"
    EXTENSION = "extension"


class OnFailure(StrEnum):
    """The effect of a hook that crashed, timed out or wrote invalid output: block the action, or
    only warn."""

    BLOCK = "block"
    WARN = "warn"


class HookDefinition(Value, frozen=True, kw_only=True):
    """A command to run, or a `function` of a program to call. `place` is its location: the file and
    the path in its document. `fingerprint` identifies its trusted form (`hooks.trust`); "" if no
    trust is needed."""

    command: str
    source: HookSource
    name: str = ""
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    env: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    description: str = ""
    on_failure: OnFailure = OnFailure.WARN
    place: str = ""
    extension: str = ""
    fingerprint: str = ""
    function: Callable[[dict[str, Any]], Any] | None = None

    @property
    def kind(self) -> str:
        """Its type in settings."""
        return "command" if self.function is None else "function"

    @property
    def label(self) -> str:
        """The name for people: its name, or else its command."""
        return self.name or self.command

    @property
    def key(self) -> str:
        """`name:command`, which identifies the same hook in two places."""
        return f"{self.name}:{self.command}"


class HookGroup(Value, frozen=True, kw_only=True):
    """Hooks with a common event and matcher. `matcher` "" and "*" match everything."""

    event: HookEvent
    hooks: tuple[HookDefinition, ...]
    matcher: str = ""
    sequential: bool = False


class HookRun(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a hook's command. `problem` is the reason for a missing exit code: it could not
    start, timed out, or was killed by a signal. `stdout` and `stderr` may be shorter than what it
    wrote (`stdout_bytes`, `stderr_bytes`). `exception` is what a function raised,
    `contents` what it put in place of those of a request."""

    exit_code: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    duration_ms: float = 0.0
    problem: str = ""
    exception: Exception | None = None
    contents: tuple[Any, ...] | None = None

    @property
    def is_cut(self) -> bool:
        """Did it write more than is kept?"""
        return self.stdout_bytes > len(self.stdout) or self.stderr_bytes > len(self.stderr)


class TailCall(msgspec.Struct, frozen=True):
    """A call that an AfterTool hook requests in place of the result."""

    name: str
    args: dict[str, Any]


class InputForms(msgspec.Struct, frozen=True):
    """Converts a tool's parameters for the hooks of the call `call_id`: `shown` lists parameters
    under all names hooks may know, `changes` compares the input of a hook with its output and
    returns changes under the tool's own names."""

    shown: Callable[[dict[str, Any]], dict[str, Any]]
    changes: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]
    call_id: str = ""


class HookVerdict(Value, frozen=True, kw_only=True):
    """The combined verdict of the hooks of one event; `HookVerdict()` without any statement.

    `stop`: ends the run, for this reason. `block`: prevents the pending action, or withholds the
    result, for this reason. `ask`: asks a person, because of `reason`. The three exclude each
    other, in that order. `system_messages` are for people.

    `additional_context` is for the model, with `<` and `>` already escaped; the caller encloses it
    in `<hook_context>` and `</hook_context>`. `tool_input` has the parameters set by a BeforeTool
    hook, which override those of the call. `tail_call` belongs to AfterTool, `clear_context` to
    AfterAgent, `tool_result` (as `llmContent`) to AfterTool, `contents`, and the whole changed
    `request`, to BeforeModel functions. `llm_request`, `llm_response` and `tool_config` are in the
    form of `hooks.inputs`.
    """

    stop: str | None = None
    block: str | None = None
    ask: bool = False
    reason: str = ""
    system_messages: tuple[str, ...] = ()
    additional_context: str | None = None
    tool_input: dict[str, Any] | None = None
    tail_call: TailCall | None = None
    tool_result: Any = None
    contents: tuple[Any, ...] | None = None
    request: Any = None
    llm_request: dict[str, Any] | None = None
    llm_response: dict[str, Any] | None = None
    tool_config: dict[str, Any] | None = None
    clear_context: bool = False
    suppress_output: bool = False


SILENT = HookVerdict()
"""The verdict without hooks."""


class HookBlockedError(AlhenaError):
    """A hook blocked the prompt, the request or the answer; the run ends as blocked."""

    exit_code = 0
    kind = "hook_blocked"


class HookStopError(AlhenaError):
    """A hook requested the end of the run (`"continue": false`)."""

    exit_code = 0
    kind = "hook_stop"


class HookPlan(Value, frozen=True):
    """The hooks to run, in order, each with the tool names that its matchers select; concurrently
    or sequentially."""

    heard: tuple[tuple[HookDefinition, tuple[str, ...]], ...]
    sequential: bool
