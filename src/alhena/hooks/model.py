"""Hooks as values: what one is, the events, and the verdict of several together (HOOK-04)."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import msgspec

from alhena.errors import AlhenaError
from alhena.values import Value

DEFAULT_TIMEOUT_MS = 60_000

OUTPUT_LIMIT = 1 << 20
"""Bytes that are kept of each of a hook's two streams; the rest is read and counted."""


class HookEvent(StrEnum):
    """When hooks run; the keys of `hooks` in settings files."""

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
    """Whose hook it is. Of one event the hooks of earlier members run first."""

    RUNTIME = "runtime"
    PROJECT = "project"
    USER = "user"
    SYSTEM = "system"
    EXTENSION = "extension"


class OnFailure(StrEnum):
    """What a hook that crashed, ran out of time or wrote garbage means: what it watches over does
    not happen, or a warning is all."""

    BLOCK = "block"
    WARN = "warn"


class HookDefinition(Value, frozen=True, kw_only=True):
    """A command to run. `place` is where it is written: the file and the path in its document.
    `fingerprint` is what was trusted of it (`hooks.trust`); "" where trust is not asked for."""

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

    @property
    def label(self) -> str:
        """What people know it by: its name, or else its command."""
        return self.name or self.command

    @property
    def key(self) -> str:
        """`name:command`, by which the same hook in two places is one."""
        return f"{self.name}:{self.command}"


class HookGroup(Value, frozen=True, kw_only=True):
    """Hooks that share an event and a matcher. `matcher` "" and "*" match everything."""

    event: HookEvent
    hooks: tuple[HookDefinition, ...]
    matcher: str = ""
    sequential: bool = False


class HookRun(msgspec.Struct, frozen=True, kw_only=True):
    """How a hook's command ended. `problem` says why it has no exit code: it could not be started,
    ran out of time, or was ended by a signal."""

    exit_code: int | None
    stdout: bytes
    stderr: bytes
    stdout_bytes: int
    duration_ms: float
    problem: str = ""


class TailCall(msgspec.Struct, frozen=True):
    """A call that an AfterTool hook wants in place of the result."""

    name: str
    args: dict[str, Any]


class InputForms(msgspec.Struct, frozen=True):
    """How a tool's input is put to hooks, and how what they set is read: `shown` gives parameters
    under all names that hooks may know, `changes` what is different in the second of what was told
    and what was given, under the tool's own names."""

    shown: Callable[[dict[str, Any]], dict[str, Any]]
    changes: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]


class HookVerdict(Value, frozen=True, kw_only=True):
    """What the hooks of one event say together; one that says nothing is `HookVerdict()`.

    `stop`: the run ends, for this reason. `block`: what was about to happen does not, what has
    happened is not passed on, for this reason. `ask`: a person has to be asked, because of
    `reason`. The three exclude each other, in that order. `system_messages` are for people.

    `additional_context` is for the model, with `<` and `>` escaped already; whoever places it puts
    it between `<hook_context>` and `</hook_context>`. `tool_input` holds the parameters that a
    BeforeTool hook sets, to be laid over those of the call. `tail_call` belongs to AfterTool,
    `clear_context` to AfterAgent. `llm_request`, `llm_response` and `tool_config` are in the form
    of `hooks.model_messages`.
    """

    stop: str | None = None
    block: str | None = None
    ask: bool = False
    reason: str = ""
    system_messages: tuple[str, ...] = ()
    additional_context: str | None = None
    tool_input: dict[str, Any] | None = None
    tail_call: TailCall | None = None
    llm_request: dict[str, Any] | None = None
    llm_response: dict[str, Any] | None = None
    tool_config: dict[str, Any] | None = None
    clear_context: bool = False
    suppress_output: bool = False


SILENT = HookVerdict()
"""The verdict of no hook."""


class HookBlockedError(AlhenaError):
    """A hook did not let the prompt, the request or the answer pass; the run ends as blocked."""

    exit_code = 0
    kind = "hook_blocked"


class HookStopError(AlhenaError):
    """A hook asked for the end of the run (`"continue": false`)."""

    exit_code = 0
    kind = "hook_stop"
