"""The contract of tools: declaration, invocation, result and display (TOOLS-01 to TOOLS-04).

A tool never asks for approval, never touches history and never raises (cancellation aside): a
failure is a `ToolFailure` inside its result.
"""

import threading
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from alhena.values import FailedCall, Value
from alhena.wire.content import Content, Part
from alhena.wire.request import FunctionDeclaration
from alhena.wire.request import ToolDeclarations as DeclaredTools
from alhena.wire.response import GenerateContentResponse


class ToolConfirmationOutcome(StrEnum):
    """Answers to a confirmation."""

    PROCEED_ONCE = "proceed_once"
    PROCEED_ALWAYS = "proceed_always"
    PROCEED_ALWAYS_AND_SAVE = "proceed_always_and_save"
    PROCEED_ALWAYS_SERVER = "proceed_always_server"
    PROCEED_ALWAYS_TOOL = "proceed_always_tool"
    MODIFY_WITH_EDITOR = "modify_with_editor"
    CANCEL = "cancel"


class EditConfirmation(Value, frozen=True, kw_only=True, rename="camel", tag="edit"):
    """A file is about to change. `is_modifying`: a person is changing the proposal in an external
    editor; the question is asked again afterwards. `warnings` report a placeholder for omitted
    code, hidden characters in new lines, and deceptive paths."""

    title: str
    file_path: str
    file_name: str
    file_diff: str
    original_content: str | None
    new_content: str
    is_new_file: bool
    is_modifying: bool = False
    warnings: tuple[str, ...] = ()


class ExecConfirmation(Value, frozen=True, kw_only=True, rename="camel", tag="exec"):
    """A command is about to run; `root_commands` are the programs it names (the scheduler fills
    them in for the shell tool).

    `command` is passed to bash; front ends display `command_shown`, the same text with hidden
    characters made visible (`display_text.exact`). `warnings` report deceptive text; with any
    warning, an approval covers this call only.
    """

    title: str
    command: str
    command_shown: str
    root_command: str = ""
    root_commands: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class McpConfirmation(Value, frozen=True, kw_only=True, rename="camel", tag="mcp"):
    """A tool of an MCP server is about to be called, with its arguments and the description from
    the server. `server` is the server's command line or URL, then its directory, variables and
    headers, redacted; empty when unknown. `changed` is a diff of the description since the tool was
    approved, "" when unchanged. `warnings` report hidden characters in the arguments or the
    description, and deceptive names; with any warning, an approval covers this call only."""

    title: str
    server_name: str
    tool_name: str
    tool_display_name: str
    tool_args: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    tool_description: str = ""
    tool_parameter_schema: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    server: tuple[str, ...] = ()
    changed: str = ""
    warnings: tuple[str, ...] = ()


class InfoConfirmation(Value, frozen=True, kw_only=True, rename="camel", tag="info"):
    """Any other confirmation, described in words. `warnings` report hidden characters in the prompt
    and deceptive URLs; with any warning, an approval covers this call only."""

    title: str
    prompt: str
    urls: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class QuestionOption(msgspec.Struct, frozen=True, kw_only=True):
    """An option of a question."""

    label: str
    description: str = ""


class Question(Value, frozen=True, kw_only=True, rename="camel"):
    """A question to a person. `type` is choice (of `options`, several with `multi_select`), text
    or yesno; `header` is a short label. `server` is the MCP server that asks, to which only the
    `options` are answers, "" for the model; a `secret` answer is not shown."""

    question: str
    header: str
    type: Literal["choice", "text", "yesno"]
    options: tuple[QuestionOption, ...] = ()
    multi_select: bool = False
    placeholder: str = ""
    server: str = ""
    secret: bool = False


class AskUserConfirmation(Value, frozen=True, kw_only=True, rename="camel", tag="ask_user"):
    """Questions about to be asked; approving shows them to the person."""

    title: str
    questions: tuple[Question, ...]


class ExitPlanModeConfirmation(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag="exit_plan_mode"
):
    """A plan waits for approval; `plan_path` is its file, existing or future. Approval ends plan
    mode and continues in `next_mode`."""

    title: str
    plan_path: str
    plan: str
    next_mode: str


ConfirmationDetails = (
    EditConfirmation
    | ExecConfirmation
    | McpConfirmation
    | InfoConfirmation
    | AskUserConfirmation
    | ExitPlanModeConfirmation
)


class ModeSwitch(Protocol):
    """The plan mode of a session. The policy follows it; declarations and system
    prompt stay the same."""

    @property
    def planning(self) -> bool:
        """True when plan mode is on."""
        ...

    @property
    def next_mode(self) -> str:
        """The mode after plan mode: default, autoEdit or yolo."""
        ...

    def enter_plan_mode(self) -> None:
        """Turns plan mode on."""
        ...

    def leave_plan_mode(self, mode: str | None = None) -> None:
        """Turns plan mode off and switches to `mode`, by default `next_mode`."""
        ...


class DiffStat(msgspec.Struct, frozen=True, kw_only=True):
    """Lines added and removed, by the model and by the user's changes to its proposal."""

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


class ProposedContents(msgspec.Struct, frozen=True):
    """A file's path, its current text (None: no file) and its proposed text, with LF."""

    file_path: str
    current: str | None
    proposed: str


class TerminalOutput(msgspec.Struct, frozen=True, kw_only=True, tag="terminal_output"):
    """The output of a command; `signal` is the number of the one that ended it. `lines`: how many
    there are, where `text` may not have all."""

    text: str
    exit_code: int | None = None
    signal: int | None = None
    lines: int | None = None


class TodoItem(msgspec.Struct, frozen=True, kw_only=True):
    """One task; `status` is pending, in_progress, completed, cancelled or blocked."""

    description: str
    status: str


class TodoList(Value, frozen=True, kw_only=True, tag="todo_list"):
    """The agent's task list."""

    todos: tuple[TodoItem, ...]


ToolDisplay = str | FileDiff | TerminalOutput | TodoList


class Kind(StrEnum):
    """The category of a tool's action."""

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
"""Kinds with side effects; their calls run alone."""


class Deferred(Exception):  # noqa: N818  it is no error: the call waits
    """Raised by a tool, or by `approve`, to make the call wait: the run ends with `stop_reason`
    "pending", and `Agent.resume` takes the answer. `reason` is shown to whoever answers."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


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
    CANCELLED_BY_USER = "cancelled_by_user"
    DEFERRED = "deferred"
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
    def from_name(cls, kind: str) -> "ToolErrorType":
        """The type with this name; UNKNOWN if there is none."""
        try:
            return cls(kind)
        except ValueError:
            return cls.UNKNOWN


class Suspension(Value, frozen=True, kw_only=True):
    """A call waits after its run, for the answers to `requests` (ConfirmationRequest). One that ran
    in part continues from its `state`, then `ExecutionContext.earlier`."""

    requests: tuple[Any, ...]
    state: Any = None


class ToolFailure(Value, frozen=True):
    """The reason of a failed tool call, as a sentence the model can act on. `exception`: what a
    function of the program raised. `suspension`: the call has not failed, it waits."""

    message: str
    type: ToolErrorType = ToolErrorType.EXECUTION_FAILED
    exception: Exception | None = None
    suspension: Suspension | None = None

    @classmethod
    def of_params(cls, message: str) -> "ToolFailure":
        """Builds the failure of a call with invalid parameters."""
        return cls(message, ToolErrorType.INVALID_TOOL_PARAMS)


LlmContent = str | Part | tuple[str | Part, ...]
"""Content of a result for the model: text, one part, or a sequence of both."""


class SpilledText(msgspec.Struct, frozen=True, kw_only=True):
    """The beginning and end of a text too long for memory; `characters` is the full length.

    `path` is the file with the whole text. If the file is incomplete or missing, `problem` gives
    the reason and `saved` the number of characters in it.
    """

    head: str
    tail: str
    characters: int
    path: str | None
    problem: str = ""
    saved: int = 0


class ToolResult(Value, frozen=True, kw_only=True):
    """The result of a call. With `error` set, the model gets `error.message`.

    `spilled`: `llm_content` is only an excerpt of this text.
    """

    llm_content: LlmContent
    display: ToolDisplay = ""
    error: ToolFailure | None = None
    data: dict[str, Any] | None = None
    spilled: SpilledText | None = None

    @classmethod
    def from_failure(
        cls, message: str, type: ToolErrorType = ToolErrorType.EXECUTION_FAILED
    ) -> "ToolResult":
        """Builds a failed result, shown to model and user alike."""
        return cls(llm_content=message, display=message, error=ToolFailure(message, type))


class ToolLocation(msgspec.Struct, frozen=True):
    """A path that a call reads or changes; `line` counts from 1."""

    path: str
    line: int | None = None


class HostProgram(Protocol):
    """The program around an agent, for the tools it wrote."""

    deps: Any

    async def ask_model(self, prompt: str) -> str:
        """The text by which the session's model answers `prompt`. Raises ModelError."""
        ...

    def fail(self, message: str) -> None:
        """Ends the run with an error of the program."""
        ...

    def note_failure(self, failed: FailedCall) -> str:
        """Takes a call whose function raised. Returns what the model reads; "" for the usual."""
        ...


def _ignore_news(_news: str | int) -> None:
    """Ignores news of a call."""


class ExecutionContext(msgspec.Struct, eq=False):
    """The execution context of a running call.

    `cancellation` is set when the call is cancelled, for work in threads; coroutines also receive
    CancelledError. `update_output` takes live output (a no-op for tools without it), and
    `update_screen` a text that replaces all of it;
    `report_pid` takes the process id of a child. `call_id` identifies the call in events,
    `traceparent` in traces (W3C; "" where none are kept). `earlier`: the state from which a call
    that waited continues.
    """

    cwd: Path
    cancellation: threading.Event = msgspec.field(default_factory=threading.Event)
    update_output: Callable[[str], None] = _ignore_news
    update_screen: Callable[[str], None] = _ignore_news
    report_pid: Callable[[int], None] = _ignore_news
    call_id: str = ""
    program: HostProgram | None = None
    traceparent: str = ""
    earlier: Any = None


Discover = Callable[[str, tuple[ToolLocation, ...], threading.Event], Awaitable[str]]
"""Finds context for the locations of an executed call: declared tool name, locations,
cancellation event -> text for the model, "" for none. The text goes into a separate part that no
tool result can imitate."""


class ToolInvocation(Protocol):
    """A validated call, ready for the policy and for execution. `params` use the declared names."""

    @property
    def params(self) -> dict[str, Any]:
        """The parameters under their declared names."""
        ...

    def describe(self) -> str:
        """Describes the call to people in one line."""
        ...

    def locations(self) -> tuple[ToolLocation, ...]:
        """The paths this call reads or changes."""
        ...

    async def confirmation(self, context: ExecutionContext) -> ConfirmationDetails | None:
        """Details to show when a person has to approve; None when there is nothing to approve."""
        ...

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Executes the call. Only the scheduler's executor calls this."""
        ...


class Tool(Protocol):
    """A tool in the registry."""

    @property
    def name(self) -> str:
        """The unique name used in calls."""
        ...

    @property
    def display_name(self) -> str:
        """The name shown to people."""
        ...

    @property
    def description(self) -> str:
        """The description for the model."""
        ...

    @property
    def kind(self) -> Kind:
        """The category of the tool's action."""
        ...

    @property
    def parameter_schema(self) -> dict[str, Any]:
        """JSON Schema of the parameters; the top level is an object."""
        ...

    @property
    def is_output_markdown(self) -> bool:
        """True if the display text is Markdown."""
        ...

    @property
    def can_update_output(self) -> bool:
        """True if the tool has live output."""
        ...

    def declaration(self) -> FunctionDeclaration:
        """The tool as the model sees it."""
        ...

    def build(self, params: dict[str, Any]) -> "ToolInvocation | ToolFailure":
        """Applies aliases, the JSON Schema and the tool's own checks; a failure is a value."""
        ...


class ModelAccess(Protocol):
    """Access to the session's model for tools."""

    async def generate(
        self,
        contents: tuple[Content, ...],
        *,
        tools: tuple[DeclaredTools, ...] = (),
        system: str | None = None,
        model: str | None = None,
    ) -> GenerateContentResponse:
        """Answers `contents`; `tools` are server-side tools, `model` None means the session's
        model.

        Raises `models.errors.ModelError` or `wire.errors.WireError`.
        """
        ...


@runtime_checkable
class QuestioningInvocation(ToolInvocation, Protocol):
    """A call that asks a person questions; the approval may include the answers."""

    def with_answers(self, answers: Mapping[int, str]) -> ToolInvocation:
        """Returns the call with its answers, by question index."""
        ...


@runtime_checkable
class ApprovableInvocation(ToolInvocation, Protocol):
    """A call that may do more after a person has approved it."""

    def approve(self) -> None:
        """Notes that a person has approved this call."""
        ...


@runtime_checkable
class PlanningInvocation(ToolInvocation, Protocol):
    """A call that ends plan mode; the approval may choose the mode that follows."""

    def with_mode(self, mode: str) -> ToolInvocation:
        """Returns the call with the following mode: default, autoEdit or yolo."""
        ...
