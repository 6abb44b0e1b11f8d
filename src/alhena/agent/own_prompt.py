"""A system prompt of the user's own in a file: read in place of the composed one, which can be
written into such a file to begin with."""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from alhena.agent.definitions import builtin_agents
from alhena.config.documents import read_limited
from alhena.config.errors import ConfigError
from alhena.config.trust import FolderTrust
from alhena.system.errors import ChangedFileError, FileError, MissingFileError, printable
from alhena.system.files import read_whole
from alhena.system.replacement import replace_file
from alhena.system.workspace import Workspace, is_within
from alhena.tools.names import BUILT_IN, declared_name
from alhena.tools.registry import ToolRegistry

READ, WRITE = "GEMINI_SYSTEM_MD", "GEMINI_WRITE_SYSTEM_MD"
DEFAULT = os.path.join(".gemini", "system.md")
LIMIT = 1024 * 1024
"""Bytes of a prompt."""

_OFF, _ON = frozenset({"", "0", "false"}), frozenset({"1", "true"})
_ATTEMPTS = 3
_VARIABLE = re.compile(r"\$\{(AvailableTools|SubAgents|AgentSkills|([\w.-]+)_ToolName)\}")
_NO_TOOLS = "No tools are currently available."


def own_prompt(
    workspace: Workspace, environ: Mapping[str, str], trust: Callable[[Path], FolderTrust]
) -> tuple[str | None, str]:
    """What the file says that GEMINI_SYSTEM_MD asks for, None where it asks for none or that is
    not used; and then why, for people.

    A file of a workspace is not used before that is trusted. Raises ConfigError when it is missing
    or no text.
    """
    path = _place(environ.get(READ, ""), workspace, environ)
    if path is None:
        return None, ""
    for folder in dict.fromkeys((path.parent, Path(os.path.realpath(path)).parent)):
        if any(is_within(str(folder), str(root)) for root in workspace.roots):
            found = trust(folder)
            if not found.trusted:
                return None, (
                    f"the system prompt {printable(path)} ({READ}) is not used: the folder is not "
                    f"trusted ({found.reason})."
                )
    return _text(path), ""


def write_prompt(text: str, workspace: Workspace, environ: Mapping[str, str]) -> None:
    """Writes `text` where GEMINI_WRITE_SYSTEM_MD wants it, if anywhere: in one step, with the
    folders that it takes, and not at all where it stands there already. Raises ConfigError."""
    value = environ.get(WRITE, "")
    path = _place(value, workspace, environ)
    if path is None:
        return
    real = Path(os.path.realpath(path))
    if value.strip().lower() in _ON and not is_within(str(real), str(workspace.cwd)):
        raise _unwritten(path, f"it leads to {printable(real)}", "Name that file, if it is meant.")
    own = _place(environ.get(READ, ""), workspace, environ)
    if own is not None and Path(os.path.realpath(own)) == real:
        raise _unwritten(path, f"{READ} names the same file", "Unset one of the two.")
    data = f"{text}\n".encode()
    for attempt in range(_ATTEMPTS):
        try:
            _write(real, data)
            return
        except ChangedFileError as error:  # another session may just have written the same
            if attempt == _ATTEMPTS - 1:
                raise _unwritten(path, error.message, "Try again.") from error
        except FileError as error:
            raise _unwritten(path, error.message, f"Change or unset {WRITE}.") from error


def told_of_tools(text: str, registry: ToolRegistry) -> str:
    """A prompt with its variables told: `${AvailableTools}` and `${SubAgents}` as lists,
    `${AgentSkills}`, and `${NAME_ToolName}` as the name under which that tool is declared. What
    names no tool stays as it is."""
    names = registry.names

    def told(found: re.Match[str]) -> str:
        whole, tool = found.groups()
        if tool is not None:
            entry = registry.find(tool, excluded=True)
            known = declared_name(tool)
            if entry is not None:
                return entry.wire_name
            return known if known in BUILT_IN else found.group()
        if whole == "AvailableTools":
            return "\n".join(f"- {name}" for name in names) or _NO_TOOLS
        if whole == "SubAgents" and "delegate_to_agent" in names:
            return "\n".join(f"- {each.name}: {each.description}" for each in builtin_agents())
        return ""

    return _VARIABLE.sub(told, text)


def _place(value: str, workspace: Workspace, environ: Mapping[str, str]) -> Path | None:
    """The file that a variable means; None for none."""
    given = value.strip()
    if given.lower() in _OFF:
        return None
    if given.lower() in _ON:
        return workspace.cwd / DEFAULT
    if given == "~" or given.startswith("~/"):
        given = (environ.get("HOME") or os.path.expanduser("~")) + given[1:]
    return Path(os.path.normpath(workspace.cwd / given))


def _text(path: Path) -> str:
    try:
        data = read_limited(path, LIMIT)
    except FileNotFoundError as error:
        raise ConfigError(
            f"missing system prompt file '{printable(path)}'.",
            remedy=f"{READ} names it: write it, perhaps with {WRITE}, or unset the variable.",
        ) from error
    except (OSError, ValueError) as error:
        raise _unusable(path, getattr(error, "strerror", None) or str(error)) from error
    try:
        text = data.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise _unusable(path, f"it is not UTF-8 (byte {error.start})") from error
    if not text:
        raise _unusable(path, "it is empty")
    return text


def _write(real: Path, data: bytes) -> None:
    try:
        there, before = read_whole(real, LIMIT)
    except MissingFileError:
        there, before = None, None
    if there != data:
        replace_file(real, data, expected=before, limit=LIMIT)


def _unusable(path: Path, reason: str) -> ConfigError:
    return ConfigError(
        f"the system prompt file {printable(path)} cannot be used: {reason}.",
        remedy=f"Correct it, or change or unset {READ}.",
    )


def _unwritten(path: Path, reason: str, remedy: str) -> ConfigError:
    return ConfigError(
        f"the system prompt was not written to {printable(path)} ({WRITE}): {reason.rstrip('.')}.",
        remedy=remedy,
    )
