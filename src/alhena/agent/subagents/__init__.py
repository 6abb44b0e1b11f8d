"""Subagents as data: their names, tools and limits."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from alhena.models.generator import ContentGenerator
from alhena.tools.builtin.subagents import AgentSummary
from alhena.tools.contract import Tool
from alhena.values import Value

if TYPE_CHECKING:
    from alhena.models.settings import ModelSettings

_PROMPTS = Path(__file__).parent / "prompts"
_TEXT: dict[str, Any] = {"type": "string"}


class Handoff(Value, frozen=True):
    """The end of a run by a subagent's answer, of which `read` makes the program's value. It raises
    ValueError for one that does not fit."""

    read: Callable[[Any], Any]


class AgentDefinition(Value, frozen=True, kw_only=True):
    """A subagent.

    `tools` are names, `*` for all, or `server__*` for those of an MCP server. `result_schema` is
    the JSON Schema of what it hands over; `own_tools` are its alone. `max_turns` counts model
    turns, `time_limit_s` seconds without those a person took to answer. `model` None is the
    session's. In `query`, the first message, `${query}` is replaced by the task.
    `in_worktree`: it works in a git worktree of its own, whose patch belongs to its result.
    `mcp_servers` are entries as in the settings, started for its tasks alone; `why_held` is asked
    right before a start for the reason against it, "" for none. `temperature_place` is the file or
    the setting that sets the temperature, "" if it is the usual one. `generator` is a program's
    model object for it, `settings` are its own. With `handoff` its answer ends the run.
    """

    name: str
    description: str
    system_prompt: str
    tools: tuple[str, ...]
    result_schema: dict[str, Any]
    max_turns: int = 30
    time_limit_s: float = 600
    temperature: float = 1.0
    temperature_place: str = ""
    model: str | None = None
    own_tools: tuple[Tool, ...] = ()
    display_name: str = ""
    query: str = "${query}"
    in_worktree: bool = False
    mcp_servers: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    why_held: Callable[[str], str] | None = None
    generator: ContentGenerator | None = None
    settings: "ModelSettings | None" = None
    handoff: Handoff | None = None

    def require_temperature(self, model: str) -> None:
        """Raises ConfigError if `model`, the session's unless the agent has its own, does not take
        the temperature that a person set."""
        if not self.temperature_place:
            return
        from alhena.models.catalogue import refuse_settings, refused_settings, resolved_name
        from alhena.wire.request import GenerationConfig

        name = resolved_name(self.model or model)
        refused = refused_settings(name, GenerationConfig(temperature=self.temperature))
        refuse_settings(name, refused, self.temperature_place)

    @property
    def summary(self) -> AgentSummary:
        """The description of the agent for other models."""
        return AgentSummary(self.name, self.description)


def prompt_text(name: str) -> str:
    """A packaged prompt."""
    return (_PROMPTS / f"{name}.md").read_text(encoding="utf-8")


def builtin_agents() -> tuple[AgentDefinition, ...]:
    """The agents that are always there."""
    return (
        AgentDefinition(
            name="codebase_investigator",
            description="Finds out how a codebase works: architecture, the cause of a bug, where "
            "a change belongs and what it touches. Reads and searches only. Reports findings, the "
            "way to them, and the relevant files with their key symbols.",
            system_prompt=prompt_text("codebase_investigator"),
            tools=(
                "list_directory",
                "read_file",
                "read_many_files",
                "search_file_content",
                "glob",
            ),
            result_schema=_REPORT,
            max_turns=50,
            temperature=0.1,
        ),
        AgentDefinition(
            name="introspection_agent",
            description="Answers questions about alhena itself: options, settings, policies, "
            "tools, embedding. Works from its documentation.",
            system_prompt=prompt_text("introspection_agent"),
            tools=("get_internal_docs",),
            result_schema={
                "type": "string",
                "description": "The answer, in Markdown, with the files it comes from.",
            },
            max_turns=10,
            time_limit_s=180,
            temperature=0.1,
        ),
        AgentDefinition(
            name="generalist",
            description="Does a task that takes many steps or much reading, with all tools, apart "
            "from this conversation. Reports what it did and found.",
            system_prompt=prompt_text("generalist"),
            tools=("*",),
            result_schema={
                "type": "string",
                "description": "What was done and found, in Markdown.",
            },
            max_turns=20,
        ),
    )


_REPORT: dict[str, Any] = {
    "type": "object",
    "description": "The report.",
    "properties": {
        "summary_of_findings": _TEXT | {"description": "What was asked, answered."},
        "exploration_trace": {
            "type": "array",
            "items": _TEXT,
            "description": "The steps taken, each in a line.",
        },
        "relevant_locations": {
            "type": "array",
            "description": "The files that matter.",
            "items": {
                "type": "object",
                "properties": {
                    "file_path": _TEXT | {"description": "An absolute path."},
                    "reasoning": _TEXT | {"description": "Why it matters."},
                    "key_symbols": {"type": "array", "items": _TEXT},
                },
                "required": ["file_path", "reasoning", "key_symbols"],
            },
        },
    },
    "required": ["summary_of_findings", "exploration_trace", "relevant_locations"],
}
