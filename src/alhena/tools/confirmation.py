"""Confirmation details of tools, and the seams by which an answer changes the call."""

from enum import StrEnum
from typing import Any, Literal, Protocol

import msgspec

from alhena.values import Value


class ToolConfirmationOutcome(StrEnum):
    """Answers to a confirmation (SCHED-04)."""

    PROCEED_ONCE = "proceed_once"
    PROCEED_ALWAYS = "proceed_always"
    PROCEED_ALWAYS_AND_SAVE = "proceed_always_and_save"
    PROCEED_ALWAYS_SERVER = "proceed_always_server"
    PROCEED_ALWAYS_TOOL = "proceed_always_tool"
    MODIFY_WITH_EDITOR = "modify_with_editor"
    CANCEL = "cancel"


class EditConfirmation(Value, frozen=True, kw_only=True, rename="camel", tag="edit"):
    """A file is about to change. `is_modifying`: a person is at work on the proposal, in an editor
    of their own; the question comes again when they are done. `warnings` name a line that seems to
    stand for left out code, what is hidden in new lines, and what of the path may deceive."""

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

    `command` is what bash gets; whoever prints it prints `command_shown`, which is the same with
    nothing hidden (`display_text.exact`). `warnings` say what of it may deceive a reader; where
    there are any, no answer holds beyond this call.
    """

    title: str
    command: str
    command_shown: str
    root_command: str = ""
    root_commands: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class McpConfirmation(Value, frozen=True, kw_only=True, rename="camel", tag="mcp"):
    """A tool of an MCP server is about to be called; what it is called with, and what the server
    says of it. `server` says what that is: its command line or URL, then its directory, variables
    and headers, with nothing secret; empty where nobody knows. `changed` is a diff of what it says
    against what it said when the tool was approved, "" where it is the same. `warnings` say what
    nobody sees of the arguments or of the description, or what of the names may deceive; where
    there are any, no answer holds beyond this call."""

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
    """Anything else: what will happen, in words. `warnings` say what nobody sees of the prompt, or
    what of a URL may deceive; where there are any, no answer holds beyond this call."""

    title: str
    prompt: str
    urls: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class QuestionOption(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that can be chosen."""

    label: str
    description: str = ""


class Question(Value, frozen=True, kw_only=True, rename="camel"):
    """A question to a person. `type` is choice (of `options`, several when `multi_select`), text
    or yesno; `header` a short label."""

    question: str
    header: str
    type: Literal["choice", "text", "yesno"]
    options: tuple[QuestionOption, ...] = ()
    multi_select: bool = False
    placeholder: str = ""


class AskUserConfirmation(Value, frozen=True, kw_only=True, rename="camel", tag="ask_user"):
    """Questions are about to be asked; who lets them pass will see them."""

    title: str
    questions: tuple[Question, ...]


class ExitPlanModeConfirmation(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag="exit_plan_mode"
):
    """A plan waits for approval; `plan_path` is where it is, or will be, stored. Approving it ends
    plan mode and goes on in `next_mode`."""

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
    """A session's mode, as far as planning goes. Policy, declarations and system prompt follow."""

    @property
    def planning(self) -> bool:
        """True when plan mode is on."""
        ...

    @property
    def next_mode(self) -> str:
        """The mode that leaving plan mode leads to: default, autoEdit or yolo."""
        ...

    def enter_plan_mode(self) -> None:
        """Turns plan mode on."""
        ...

    def leave_plan_mode(self, mode: str | None = None) -> None:
        """Turns plan mode off, into `mode`, or `next_mode` without one."""
        ...
