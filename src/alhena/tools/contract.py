"""The contract of tools: declaration, invocation, result, and what a person sees of it (TOOLS-01
to TOOLS-04).

A tool never asks for approval, never touches history and never raises (cancellation aside): a
failure is a `ToolFailure` inside its result.
"""

import threading
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import msgspec

from alhena.tools.confirmation import ConfirmationDetails
from alhena.values import Value
from alhena.wire.content import Content, Part
from alhena.wire.request import FunctionDeclaration
from alhena.wire.request import Tool as DeclaredTools
from alhena.wire.response import GenerateContentResponse


class DiffStat(msgspec.Struct, frozen=True, kw_only=True):
    """Lines added and removed, by the model and by the user's own edit of its proposal."""

    ai_added_lines: int = 0
    ai_removed_lines: int = 0
    user_added_lines: int = 0
    user_removed_lines: int = 0


class FileDiff(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag="file_diff"):
    """A file's change; `file_diff` is a unified diff, `original_content` None for a new file."""

    file_diff: str
    file_name: str
    file_path: str
    original_content: str | None
    new_content: str
    diff_stat: DiffStat


class TerminalOutput(msgspec.Struct, frozen=True, kw_only=True, tag="terminal_output"):
    """What a command printed."""

    text: str
    exit_code: int | None = None


class TodoItem(msgspec.Struct, frozen=True, kw_only=True):
    """One task; `status` is pending, in_progress, completed, cancelled or blocked."""

    description: str
    status: str


class TodoList(Value, frozen=True, kw_only=True, tag="todo_list"):
    """The agent's tasks."""

    todos: tuple[TodoItem, ...]


ToolDisplay = str | FileDiff | TerminalOutput | TodoList


class Kind(StrEnum):
    """What sort of thing a tool does (TOOLS-04)."""

    READ = "read"
    EDIT = "edit"
    DELETE = "delete"
    MOVE = "move"
    SEARCH = "search"
    EXECUTE = "execute"
    THINK = "think"
    FETCH = "fetch"
    COMMUNICATE = "communicate"
    PLAN = "plan"
    OTHER = "other"


MUTATOR_KINDS = frozenset({Kind.EDIT, Kind.DELETE, Kind.MOVE, Kind.EXECUTE})
"""Kinds with side effects; calls of these run alone."""


class ToolErrorType(StrEnum):
    """Machine-readable reasons of a tool failure."""

    UNKNOWN = "unknown"
    TOOL_NOT_REGISTERED = "tool_not_registered"
    INVALID_TOOL_PARAMS = "invalid_tool_params"
    POLICY_VIOLATION = "policy_violation"
    UNHANDLED_EXCEPTION = "unhandled_exception"
    EXECUTION_FAILED = "execution_failed"
    STOP_EXECUTION = "stop_execution"
    CANCELLED = "cancelled"
    FILE_NOT_FOUND = "file_not_found"
    FILE_WRITE_FAILURE = "file_write_failure"
    READ_CONTENT_FAILURE = "read_content_failure"
    FILE_TOO_LARGE = "file_too_large"
    PERMISSION_DENIED = "permission_denied"
    NO_SPACE_LEFT = "no_space_left"
    TARGET_IS_DIRECTORY = "target_is_directory"
    NOT_A_REGULAR_FILE = "not_a_regular_file"
    PATH_NOT_IN_WORKSPACE = "path_not_in_workspace"
    PATH_IS_NOT_A_DIRECTORY = "path_is_not_a_directory"
    SEARCH_PATH_NOT_FOUND = "search_path_not_found"
    SEARCH_PATH_NOT_A_DIRECTORY = "search_path_not_a_directory"
    ATTEMPT_TO_CREATE_EXISTING_FILE = "attempt_to_create_existing_file"
    EDIT_PREPARATION_FAILURE = "edit_preparation_failure"
    EDIT_NO_OCCURRENCE_FOUND = "edit_no_occurrence_found"
    EDIT_EXPECTED_OCCURRENCE_MISMATCH = "edit_expected_occurrence_mismatch"
    EDIT_NO_CHANGE = "edit_no_change"
    EDIT_NO_CHANGE_LLM_JUDGEMENT = "edit_no_change_llm_judgement"
    LS_EXECUTION_ERROR = "ls_execution_error"
    GLOB_EXECUTION_ERROR = "glob_execution_error"
    GREP_EXECUTION_ERROR = "grep_execution_error"
    READ_MANY_FILES_SEARCH_ERROR = "read_many_files_search_error"
    SHELL_EXECUTE_ERROR = "shell_execute_error"
    DISCOVERED_TOOL_EXECUTION_ERROR = "discovered_tool_execution_error"
    MEMORY_TOOL_EXECUTION_ERROR = "memory_tool_execution_error"
    WEB_FETCH_NO_URL_IN_PROMPT = "web_fetch_no_url_in_prompt"
    WEB_FETCH_FALLBACK_FAILED = "web_fetch_fallback_failed"
    WEB_FETCH_PROCESSING_ERROR = "web_fetch_processing_error"
    WEB_SEARCH_FAILED = "web_search_failed"
    MCP_TOOL_ERROR = "mcp_tool_error"
    MCP_RESOURCE_NOT_FOUND = "mcp_resource_not_found"

    @classmethod
    def named(cls, kind: str) -> "ToolErrorType":
        """The reason that an error's `kind` names; UNKNOWN for one that tools do not have."""
        try:
            return cls(kind)
        except ValueError:
            return cls.UNKNOWN


class ToolFailure(Value, frozen=True):
    """The reason why a tool call failed, in a sentence the model can act on."""

    message: str
    type: ToolErrorType = ToolErrorType.EXECUTION_FAILED

    @classmethod
    def of_params(cls, message: str) -> "ToolFailure":
        """Parameters with which no call can be made."""
        return cls(message, ToolErrorType.INVALID_TOOL_PARAMS)


LlmContent = str | Part | tuple[str | Part, ...]
"""What the model gets back: text, one part, or a mix in order."""


class SpilledText(msgspec.Struct, frozen=True, kw_only=True):
    """The two ends of a text that was too long to be held, `characters` in all.

    `path` is the file with all of it; where that lacks something, or there is none, `problem` says
    why, and `saved` how many characters it has.
    """

    head: str
    tail: str
    characters: int
    path: str | None
    problem: str = ""
    saved: int = 0


class ToolResult(Value, frozen=True, kw_only=True):
    """What a call came to (TOOLS-03). With `error` set, the model gets `error.message`.

    `spilled`: `llm_content` is only an excerpt, this is what it was taken from.
    """

    llm_content: LlmContent
    display: ToolDisplay = ""
    error: ToolFailure | None = None
    data: dict[str, Any] | None = None
    spilled: SpilledText | None = None

    @classmethod
    def failed(
        cls, message: str, type: ToolErrorType = ToolErrorType.EXECUTION_FAILED
    ) -> "ToolResult":
        """A result that is a failure, shown to model and user alike."""
        return cls(llm_content=message, display=message, error=ToolFailure(message, type))


class ToolLocation(msgspec.Struct, frozen=True):
    """A place on disk that a call reads or changes; `line` counts from 1."""

    path: str
    line: int | None = None


class ExecutionContext:
    """What a running call is given.

    `cancellation` is set when the call is cancelled, for work in threads; coroutines also receive
    CancelledError. `update_output` takes live output (a no-op for tools that have none);
    `report_pid` the process id of a child. `call_id` names the call in events.
    """

    __slots__ = ("call_id", "cancellation", "cwd", "report_pid", "update_output")

    def __init__(
        self,
        cwd: Path,
        *,
        cancellation: threading.Event | None = None,
        update_output: Callable[[str], None] = lambda _text: None,
        report_pid: Callable[[int], None] = lambda _pid: None,
        call_id: str = "",
    ) -> None:
        self.cwd = cwd
        self.call_id = call_id
        self.cancellation = cancellation or threading.Event()
        self.update_output = update_output
        self.report_pid = report_pid


Discover = Callable[[str, tuple[ToolLocation, ...], threading.Event], Awaitable[str]]
"""The declared name of a tool that has run, the places of its call, and what is set when that is
cancelled -> what the model should know of these places, "" for nothing. It is told in a part of
its own, which no result of a tool can be taken for."""


class ToolInvocation(Protocol):
    """A validated call, ready to be decided on and executed. `params` use the declared names."""

    @property
    def params(self) -> dict[str, Any]:
        """The parameters under their declared names."""
        ...

    def describe(self) -> str:
        """One line for people: what this call will do."""
        ...

    def locations(self) -> tuple[ToolLocation, ...]:
        """The paths this call reads or changes."""
        ...

    async def confirmation(self, context: ExecutionContext) -> ConfirmationDetails | None:
        """What to show when a person has to approve; None when there is nothing to approve."""
        ...

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Does it. Called by the scheduler's executor and by nothing else."""
        ...


class Tool(Protocol):
    """A tool as the registry holds it (TOOLS-01)."""

    @property
    def name(self) -> str:
        """The unique name, as calls use it."""
        ...

    @property
    def display_name(self) -> str:
        """The name for people."""
        ...

    @property
    def description(self) -> str:
        """What the model is told about it."""
        ...

    @property
    def kind(self) -> Kind:
        """What sort of thing it does."""
        ...

    @property
    def parameter_schema(self) -> dict[str, Any]:
        """JSON Schema of the parameters; its top is an object."""
        ...

    @property
    def is_output_markdown(self) -> bool:
        """True when the display text is Markdown."""
        ...

    @property
    def can_update_output(self) -> bool:
        """True when it has live output."""
        ...

    def declaration(self) -> FunctionDeclaration:
        """The tool as the model sees it."""
        ...

    def build(self, params: dict[str, Any]) -> "ToolInvocation | ToolFailure":
        """Aliases, JSON Schema, then the tool's own checks; a failure is a value (TOOLS-05)."""
        ...


class ModelAccess(Protocol):
    """The session's model, as tools may use it."""

    async def generate(
        self,
        contents: tuple[Content, ...],
        *,
        tools: tuple[DeclaredTools, ...] = (),
        system: str | None = None,
        model: str | None = None,
    ) -> GenerateContentResponse:
        """The answer to `contents`; `tools` are server-side ones, `model` None is the session's.

        Raises `models.errors.ModelError` or `wire.errors.WireError`.
        """
        ...


@runtime_checkable
class QuestioningInvocation(ToolInvocation, Protocol):
    """A call that asks a person something, whose answers may come with the approval."""

    def with_answers(self, answers: Mapping[int, str]) -> ToolInvocation:
        """The call that has its answers, by the index of the question."""
        ...


@runtime_checkable
class ApprovableInvocation(ToolInvocation, Protocol):
    """A call that does more when a person has approved it than unasked."""

    def approve(self) -> None:
        """Notes that a person has approved this call."""
        ...


@runtime_checkable
class PlanningInvocation(ToolInvocation, Protocol):
    """A call that ends plan mode, whose approval may say which mode follows."""

    def with_mode(self, mode: str) -> ToolInvocation:
        """The call that goes over to `mode`: default, autoEdit or yolo."""
        ...
