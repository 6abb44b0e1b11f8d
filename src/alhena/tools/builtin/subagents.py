"""delegate_to_agent: gives a task to a subagent (AGENT-01)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from alhena.tools.base import BaseInvocation, DeclarativeTool
from alhena.tools.contract import (
    ConfirmationDetails,
    ExecutionContext,
    InfoConfirmation,
    ToolFailure,
    ToolInvocation,
    ToolResult,
)

MAX_DESCRIBED = 100


class AgentSummary(msgspec.Struct, frozen=True):
    """An agent as it is described to the model. `place` is the URL of a remote one, "" for others,
    which people see before they approve a call."""

    name: str
    description: str
    place: str = ""


RunAgent = Callable[[str, str, ExecutionContext], Awaitable[ToolResult]]
"""Runs the named agent on an objective. A failure is a value."""


class DelegateToAgent(DeclarativeTool):
    """Delegates tasks through `run`. Subagents never get this tool."""

    name = "delegate_to_agent"

    def __init__(self, agents: Sequence[AgentSummary], run: RunAgent) -> None:
        self.agents = tuple(agents)
        self._run = run
        names = [agent.name for agent in self.agents]
        if names:
            fields = self.parameter_schema["properties"]
            named = {"agent_name": fields["agent_name"] | {"enum": names}}
            self.parameter_schema = self.parameter_schema | {"properties": fields | named}

    def describe(self, descriptions: Mapping[str, str]) -> None:
        """Describes agents otherwise, by name."""
        self.agents = tuple(
            msgspec.structs.replace(each, description=descriptions.get(each.name, each.description))
            for each in self.agents
        )

    @property
    def description(self) -> str:
        """The tool's description followed by the list of agents."""
        listed = "\n".join(f"- {agent.name}: {agent.description}" for agent in self.agents)
        return f"{super().description}\n\nAgents:\n{listed or 'There are none.'}"

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """Requires a known agent and a non-empty objective."""
        name: str = params["agent_name"]
        if name not in {agent.name for agent in self.agents}:
            return ToolFailure.of_params(f"Subagent '{name}' not found.")
        if not params["objective"].strip():
            return ToolFailure.of_params("The 'objective' parameter must be non-empty.")
        return None

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """Builds the call."""
        agent = next(each for each in self.agents if each.name == params["agent_name"])
        return DelegateToAgentInvocation(self._run, params, agent.place)


class DelegateToAgentInvocation(BaseInvocation):
    """A task for one agent."""

    def __init__(self, run: RunAgent, params: dict[str, Any], place: str = "") -> None:
        super().__init__(params)
        self._run = run
        self._place = place

    def describe(self) -> str:
        """Names the agent and its objective."""
        objective = " ".join(self.params["objective"].split())
        shown = objective if len(objective) <= MAX_DESCRIBED else objective[:MAX_DESCRIBED] + "…"
        return f"{self.params['agent_name']}: {shown}"

    async def confirmation(self, context: ExecutionContext) -> ConfirmationDetails | None:
        """Shows the whole text that leaves for a remote agent, and its URL."""
        if not self._place:
            return await super().confirmation(context)
        name, objective = self.params["agent_name"], self.params["objective"]
        return InfoConfirmation(
            title="Send a task to a remote agent",
            prompt=f"{name} ({self._place}) gets:\n{objective}",
            urls=(self._place,),
        )

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Runs the agent to its end."""
        return await self._run(self.params["agent_name"], self.params["objective"], context)
