"""Skills: finds their files, reads names and descriptions first, and activate_skill, the tool that
gives the model the instructions."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from alhena.display_text import exact, one_line
from alhena.errors import AlhenaError, InputError
from alhena.system.files import read_content
from alhena.system.walk import folder_structure
from alhena.system.workspace import Workspace, is_within
from alhena.tools.base import BaseInvocation, DeclarativeTool
from alhena.tools.contract import (
    ConfirmationDetails,
    ExecutionContext,
    InfoConfirmation,
    ToolFailure,
    ToolInvocation,
    ToolResult,
)

FILE = "SKILL.md"
MAX_BYTES = 1_000_000
MAX_NAME, MAX_DESCRIPTION = 100, 1_000
_HEAD = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+(.*))?$")
_UNNAMED = re.compile(r"[:\\/<>*?\"|\x00-\x1f\x7f-\x9f]")


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """A skill. `path` is its SKILL.md, `source` "user", "workspace" or the name of an extension;
    `expand` puts the variables of that extension into a text."""

    name: str
    description: str
    source: str
    path: Path
    expand: Callable[[str], str] = str

    @property
    def folder(self) -> Path:
        """The real folder of the skill."""
        return Path(os.path.realpath(self.path)).parent

    def instructions(self) -> str:
        """The text of the file behind its front matter. Raises InputError."""
        return self.expand(_parse_file(self.path, self.source)[1])


class Skills:
    """The skills of some folders, each with its source; a later one overrides an earlier one of the
    same name. `disabled` are names of skills not to use. `expanders` put variables into the texts
    of a source. `problems` name the files not used."""

    def __init__(
        self,
        folders: Iterable[tuple[str, Path]],
        disabled: Iterable[str] = (),
        expanders: Mapping[str, Callable[[str], str]] | None = None,
    ) -> None:
        self._folders = tuple(folders)
        self._expanders = expanders or {}
        self.disabled = frozenset(map(fold_skill_name, disabled))
        self.reload()

    def reload(self) -> None:
        """Finds the skills, as they are now."""
        self.problems: list[str] = []
        self.all: dict[str, Skill] = {}
        for source, folder in self._folders:
            for skill in self._find_skills(source, folder):
                other = self.all.get(skill.name)
                if other is not None:
                    self._problem(other.path, f"is not used: {skill.path} has the same name")
                self.all[skill.name] = skill

    def turn(self, name: str, *, enabled: bool) -> None:
        """Enables or disables a skill until these are closed."""
        one = {fold_skill_name(name)}
        self.disabled = self.disabled - one if enabled else self.disabled | one

    @property
    def active(self) -> dict[str, Skill]:
        """The skills that are not disabled, by name."""
        found = self.all.items()
        return {name: skill for name, skill in found if fold_skill_name(name) not in self.disabled}

    def find(self, name: str) -> Skill | None:
        """The skill of a name, or of one that differs in case, blanks or dashes alone."""
        if name in self.all:
            return self.all[name]
        wanted = fold_skill_name(name)
        found = (each for known, each in self.all.items() if fold_skill_name(known) == wanted)
        return next(found, None)

    def _find_skills(self, source: str, folder: Path) -> Iterator[Skill]:
        try:
            names = sorted(os.listdir(folder))
        except OSError as error:
            self._problem(folder, f"cannot be read: {error.strerror}")
            return
        # The skills of an extension may share files of its whole folder.
        top = os.path.realpath(folder if source == "workspace" else folder.parent)
        for path in (folder / FILE, *(folder / name / FILE for name in names)):
            if not os.path.isfile(path):
                continue
            if source != "user" and not is_within(os.path.realpath(path), top):
                self._problem(path, "is not used: it is a link out of its folder")
                continue
            try:
                head, _ = _parse_file(path, source)
                yield _skill(head, source, path, self._expanders.get(source, str))
            except InputError as error:
                self._problem(path, f"is not used: {error.message}")

    def _problem(self, path: Path, text: str) -> None:
        self.problems.append(f"skill {one_line(str(path))} {one_line(text).rstrip('.')}.")


def _skill(head: dict[str, str], source: str, path: Path, expand: Callable[[str], str]) -> Skill:
    for key in ("name", "description"):
        if not head.get(key):
            raise InputError(f"its front matter has no {key}")
    name = plain_name(expand(head["name"]))
    description = one_line(expand(head["description"]), MAX_DESCRIPTION)
    return Skill(name=name, description=description, source=source, path=path, expand=expand)


def plain_name(text: str) -> str:
    """The name of a skill, without characters that names of files cannot have."""
    return _UNNAMED.sub("-", text)[:MAX_NAME]


def fold_skill_name(name: str) -> str:
    """A name by which a skill is found: blanks count as dashes, and case does not count."""
    return re.sub(r"\s+", "-", plain_name(name).strip()).lower()


def _parse_file(path: Path, source: str) -> tuple[dict[str, str], str]:
    """The front matter and the rest of a file. Raises InputError."""
    try:
        data = read_content(path, MAX_BYTES, follows=source == "user")
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError(f"not valid UTF-8 (at line {line})") from error
    except AlhenaError as error:
        raise InputError(error.message) from error
    found = _HEAD.match(text)
    if found is None:
        raise InputError("it does not begin with front matter between two lines of ---")
    try:
        head = front_matter(found[1])
    except InputError:
        head = _plain_lines(found[1])
        if not head.keys() >= {"name", "description"}:
            raise
    return head, text[found.end() :].strip()


_PLAIN_LINE = re.compile(r"\s*(name|description):\s*(.*)")


def _plain_lines(text: str) -> dict[str, str]:
    """The name and the description in front matter that is no YAML, each after its key; indented
    lines continue a description."""
    found: dict[str, str] = {}
    key = ""
    for line in text.splitlines():
        match = _PLAIN_LINE.match(line)
        if match is not None:
            key = match[1]
            found[key] = match[2].strip()
        elif key == "description" and line[:1] in (" ", "\t"):
            found[key] = f"{found[key]} {line.strip()}".strip()
        else:
            key = ""
    return found


def front_matter(text: str) -> dict[str, str]:
    """The texts at the top of a YAML front matter: plain, quoted, or in indented lines. Other
    values (lists, objects) are left out. Raises InputError, which names the line."""
    found: dict[str, str] = {}
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        line, start = lines[at].rstrip(), at
        at += 1
        if not line or line.startswith("#"):
            continue
        match = _KEY.match(line)
        if match is None:
            raise InputError(f"no key and value at line {start + 2}")
        more: list[str] = []
        while at < len(lines) and (not lines[at].strip() or lines[at].startswith(_CONTINUED)):
            more.append(lines[at].strip())
            at += 1
        found[match[1]] = _value((match[2] or "").strip(), more, start + 2)
    return found


_CONTINUED = (" ", "\t", "- ")
"""Beginnings of lines that belong to the key above them."""


def _value(first: str, more: list[str], line: int) -> str:
    """The text of a value: what comes after its key, and the indented lines below it."""
    if first[:1] in ("|", ">"):
        return ("\n" if first[0] == "|" else " ").join(more).strip()
    text = " ".join(part for part in (first, *more) if part)
    if text[:1] not in ("'", '"'):
        return re.sub(r"(^|\s)#.*", "", text).strip()
    if len(text) > 1 and text[-1] != text[0] and text[0] in text[1:]:
        return text  # it begins with a quotation
    if len(text) < 2 or text[-1] != text[0]:
        raise InputError(f"a quote without end at line {line}")
    if text[0] == "'":
        return text[1:-1].replace("''", "'")
    import json

    try:
        return str(json.loads(text))
    except ValueError as error:
        raise InputError(f"no valid text in double quotes at line {line}") from error


NAME = "activate_skill"
MAX_RESOURCES = 200
MAX_LISTED = 20_000
"""Maximum characters of all skills in the system prompt."""


class ActivateSkill(DeclarativeTool):
    """Activates one of the session's skills; their folders become readable in `workspace`."""

    name = NAME

    def __init__(self, skills: Skills, workspace: Workspace) -> None:
        self._skills = skills
        self._workspace = workspace

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """Requires the name of an active skill."""
        active = self._skills.active
        skill = self._skills.find(params["name"])
        if skill is not None and skill.name in active:
            return None
        known = ", ".join(sorted(active)) or "none"
        return ToolFailure.of_params(
            f'Skill "{params["name"]}" not found. Available skills are: {known}'
        )

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """Builds the call."""
        skill = self._skills.find(params["name"])
        name = params["name"] if skill is None else skill.name
        return _Activation(params, self._skills.active[name], self._workspace)


class _Activation(BaseInvocation):
    def __init__(self, params: dict[str, Any], skill: Skill, workspace: Workspace) -> None:
        super().__init__(params)
        self._skill = skill
        self._workspace = workspace

    def describe(self) -> str:
        """Names the skill."""
        return f'"{self._skill.name}": {self._skill.description}'

    async def confirmation(self, context: ExecutionContext) -> ConfirmationDetails:
        """Shows the skill."""
        del context
        return InfoConfirmation(
            title=f"Activate Skill: {self._skill.name}",
            prompt=f"{self._skill.description}\n\nThe model gets the instructions in "
            f"{exact(str(self._skill.path))} and may read that folder.",
        )

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Returns the instructions and the files of the skill."""
        del context
        skill = self._skill
        try:
            instructions = skill.instructions()
        except InputError as error:
            return ToolResult.from_failure(f"The skill {skill.name} cannot be read: {error}")
        if skill.folder not in self._workspace.readable:
            self._workspace.readable += (skill.folder,)
        files = folder_structure(skill.folder, None, MAX_RESOURCES)
        return ToolResult(
            llm_content=f'<activated_skill name="{_escape_xml(skill.name)}">\n'
            f"  <instructions>\n{instructions}\n  </instructions>\n\n"
            f"  <available_resources>\n{files}\n  </available_resources>\n</activated_skill>",
            display=f"Skill {skill.name} activated.",
        )


def _escape_xml(text: str) -> str:
    """The text within XML; `html.escape` would load a table of all entities."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace('"', "&quot;")


def describe_skills(skills: Skills) -> str:
    """The section of the system prompt about the active skills."""
    entries: list[str] = []
    left = MAX_LISTED
    for skill in skills.active.values():
        entry = (
            f"  <skill>\n    <name>{_escape_xml(skill.name)}</name>\n"
            f"    <description>{_escape_xml(skill.description)}</description>\n"
            f"    <location>{_escape_xml(str(skill.path))}</location>\n  </skill>"
        )
        left -= len(entry)
        if left < 0:
            break
        entries.append(entry)
    shown = "\n".join(entries)
    return (
        "# Available Agent Skills\n\n"
        f"These are skills for particular tasks. Before such a task, call `{NAME}` with the name "
        "of the skill to get its instructions, and follow them.\n\n"
        f"<available_skills>\n{shown}\n</available_skills>"
    )
