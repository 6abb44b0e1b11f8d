"""What a prompt can ask of the rehearsal: a closed set."""

from typing import Any

import msgspec


class ListFolder(msgspec.Struct, frozen=True, tag="list_folder"):
    """Show the entries of a folder."""

    path: str = "."


class DescribeFolder(msgspec.Struct, frozen=True, tag="describe_folder"):
    """Sum up a folder: counts, kinds of files, its README."""

    path: str = "."


class ExplainProject(msgspec.Struct, frozen=True, tag="explain_project"):
    """Say what the project in the working directory is."""


class FindFiles(msgspec.Struct, frozen=True, tag="find_files"):
    """Find files by a glob pattern."""

    pattern: str
    path: str = "."


class SearchText(msgspec.Struct, frozen=True, tag="search_text"):
    """Find lines that hold `text` (not a pattern), in files that match `include` if it is set."""

    text: str
    path: str = "."
    include: str = ""


class ReadFile(msgspec.Struct, frozen=True, tag="read_file"):
    """Show the beginning of a file."""

    path: str


class OutlineFile(msgspec.Struct, frozen=True, tag="outline_file"):
    """Sum up a file by its headings, definitions, sections or keys."""

    path: str


class ReplaceText(msgspec.Struct, frozen=True, tag="replace_text"):
    """Replace every occurrence of `old` in a file."""

    old: str
    new: str
    path: str


class WriteFile(msgspec.Struct, frozen=True, tag="write_file"):
    """Create or overwrite a file with exactly `text`."""

    path: str
    text: str


class RunCommand(msgspec.Struct, frozen=True, tag="run_command"):
    """Run a shell command, in the working directory or in `directory`."""

    command: str
    directory: str = ""


class Remember(msgspec.Struct, frozen=True, tag="remember"):
    """Save a fact for later sessions."""

    fact: str


class CallTool(msgspec.Struct, frozen=True, tag="call_tool"):
    """Call a declared tool by its name.

    `args` is None when the prompt gave a bare `text` for a tool's only parameter.
    """

    name: str
    args: dict[str, Any] | None = None
    text: str = ""


class ConsultDocs(msgspec.Struct, frozen=True, tag="consult_docs"):
    """Find what alhena's own documentation says nearest to a question."""

    question: str


class NotUnderstood(msgspec.Struct, frozen=True, tag="not_understood"):
    """Words that no rule covers."""

    text: str


Intent = (
    ListFolder
    | DescribeFolder
    | ExplainProject
    | FindFiles
    | SearchText
    | ReadFile
    | OutlineFile
    | ReplaceText
    | WriteFile
    | RunCommand
    | Remember
    | CallTool
    | ConsultDocs
    | NotUnderstood
)

LOOKING = (
    ListFolder,
    DescribeFolder,
    ExplainProject,
    FindFiles,
    SearchText,
    ReadFile,
    OutlineFile,
    ConsultDocs,
    NotUnderstood,
)
"""Intents that change nothing: neighbours of these are carried out side by side."""
