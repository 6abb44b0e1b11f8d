"""Prompts that name files (@path), resources and prompts of MCP servers.

Where there are no servers, nothing of them is imported.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from alhena.wire.content import Part

HEAD = "\n--- Content from referenced files ---\n"
MAX_SHELL_OUTPUT = 10_000
NAMED = 5

_MENTION = re.compile(r'(?<!\\)(?<![\w@])@(?:"([^"\n]+)"|((?:\\.|[^\s,;!?()\[\]{}"\\])+))')


def mentioned(prompt: str) -> tuple[str, ...]:
    """The paths that a prompt names with an @, in order and each once; backslashes and quotes are
    resolved, a full stop at the end belongs to the sentence."""
    found: dict[str, None] = {}
    for match in _MENTION.finditer(prompt):
        quoted, bare = match.groups()
        path = quoted or re.sub(r"\\(.)", r"\1", bare).rstrip(".:")
        if path:
            found[path] = None
    return tuple(found)


def existing(paths: Sequence[str], cwd: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those of the paths that are there, and those that are not: the latter stay mere text."""
    there = tuple(path for path in paths if os.path.lexists(cwd / os.path.expanduser(path)))
    return there, tuple(path for path in paths if path not in there)


def missing_words(paths: Sequence[str]) -> str:
    """What is said of paths that are not there."""
    named = ", ".join(f"@{path}" for path in paths[:NAMED])
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    if len(paths) == 1:
        return f"{named}: there is no such file; sent as text."
    return f"{named}{more}: there are no such files; sent as text."


def quoted_path(path: str) -> str:
    """A path as it is written behind an @."""
    return re.sub(r"""([\s,;!?()\[\]{}"\\])""", r"\\\1", path)


def attachment(parts: Sequence[Part]) -> tuple[Part, ...]:
    """What read_many_files answered, as parts of a prompt."""
    texts: list[Part] = []
    media = [part for part in parts if part.function_response is None]
    for part in parts:
        if part.function_response is not None and not media:
            output = part.function_response.response.get("output")
            texts.append(Part(text=str(output)))
    return (Part(text=HEAD), *texts, *media)


def shell_note(command: str, output: str) -> Part:
    """What the model is told of a command that the person ran."""
    if len(output) > MAX_SHELL_OUTPUT:
        output = output[:MAX_SHELL_OUTPUT] + "\n... (truncated)"
    return Part(
        text=f"I ran the following shell command:\n```sh\n{command}\n```\n\n"
        f"This produced the following result:\n```\n{output}\n```"
    )
