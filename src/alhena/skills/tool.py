"""activate_skill: gives the model the instructions of a skill and opens its folder."""

from typing import Any

from alhena.display_text import exact
from alhena.errors import InputError
from alhena.skills.files import Skill, Skills
from alhena.system.walk import folder_structure
from alhena.system.workspace import Workspace
from alhena.tools.base import BaseInvocation, DeclarativeTool
from alhena.tools.contract import (
    ConfirmationDetails,
    ExecutionContext,
    InfoConfirmation,
    ToolFailure,
    ToolInvocation,
    ToolResult,
)

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
        if params["name"] in active:
            return None
        known = ", ".join(sorted(active)) or "none"
        return ToolFailure.of_params(
            f'Skill "{params["name"]}" not found. Available skills are: {known}'
        )

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """Builds the call."""
        return _Activation(params, self._skills.active[params["name"]], self._workspace)


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
            return ToolResult.failed(f"The skill {skill.name} cannot be read: {error}")
        if skill.folder not in self._workspace.readable:
            self._workspace.readable += (skill.folder,)
        files = folder_structure(skill.folder, None, MAX_RESOURCES)
        return ToolResult(
            llm_content=f'<activated_skill name="{_escaped(skill.name)}">\n'
            f"  <instructions>\n{instructions}\n  </instructions>\n\n"
            f"  <available_resources>\n{files}\n  </available_resources>\n</activated_skill>",
            display=f"Skill {skill.name} activated.",
        )


def _escaped(text: str) -> str:
    """The text within XML; `html.escape` would load a table of all entities."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace('"', "&quot;")


def listed(skills: Skills) -> str:
    """The section of the system prompt about the active skills."""
    entries: list[str] = []
    left = MAX_LISTED
    for skill in skills.active.values():
        entry = (
            f"  <skill>\n    <name>{_escaped(skill.name)}</name>\n"
            f"    <description>{_escaped(skill.description)}</description>\n"
            f"    <location>{_escaped(str(skill.path))}</location>\n  </skill>"
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
