"""Confirmation details of tools, and protocols for calls that an answer can change."""

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
    or yesno; `header` is a short label."""

    question: str
    header: str
    type: Literal["choice", "text", "yesno"]
    options: tuple[QuestionOption, ...] = ()
    multi_select: bool = False
    placeholder: str = ""


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
    """The plan mode of a session. Policy, declarations and system prompt follow it."""

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
