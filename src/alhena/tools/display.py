"""What a person sees of a result: text, a file's change, terminal output, a list of tasks."""

import msgspec

from alhena.values import Value


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
