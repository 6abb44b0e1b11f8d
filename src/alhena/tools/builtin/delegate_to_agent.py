"""delegate_to_agent: a task for a subagent, its report as the result (AGENT-01)."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from alhena.tools.base import BaseInvocation, DeclarativeTool
from alhena.tools.contract import (
    ExecutionContext,
    ToolFailure,
    ToolInvocation,
    ToolResult,
)

MAX_DESCRIBED = 100


class AgentSummary(msgspec.Struct, frozen=True):
    """An agent as the model is told of it."""

    name: str
    description: str


RunAgent = Callable[[str, str, ExecutionContext], Awaitable[ToolResult]]
"""Runs the agent of this name on an objective. A failure is a value."""


class DelegateToAgent(DeclarativeTool):
    """Hands tasks to `run`. Subagents are never given this tool."""

    name = "delegate_to_agent"

    def __init__(self, agents: Sequence[AgentSummary], run: RunAgent) -> None:
        self._agents = tuple(agents)
        self._run = run
        names = [agent.name for agent in self._agents]
        if names:
            fields = self.parameter_schema["properties"]
            named = {"agent_name": fields["agent_name"] | {"enum": names}}
            self.parameter_schema = self.parameter_schema | {"properties": fields | named}

    @property
    def description(self) -> str:
        """What delegating is for, with the agents there are."""
        listed = "\n".join(f"- {agent.name}: {agent.description}" for agent in self._agents)
        return f"{super().description}\n\nAgents:\n{listed or 'There are none.'}"

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """The agent has to exist and to be given something."""
        name: str = params["agent_name"]
        if name not in {agent.name for agent in self._agents}:
            return ToolFailure.of_params(f"Subagent '{name}' not found.")
        if not params["objective"].strip():
            return ToolFailure.of_params("The 'objective' parameter must be non-empty.")
        return None

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """One task."""
        return DelegateToAgentInvocation(self._run, params)


class DelegateToAgentInvocation(BaseInvocation):
    """One task for one agent."""

    def __init__(self, run: RunAgent, params: dict[str, Any]) -> None:
        super().__init__(params)
        self._run = run

    def describe(self) -> str:
        """Who does what."""
        objective = " ".join(self.params["objective"].split())
        shown = objective if len(objective) <= MAX_DESCRIBED else objective[:MAX_DESCRIBED] + "…"
        return f"{self.params['agent_name']}: {shown}"

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Runs the agent to its end."""
        return await self._run(self.params["agent_name"], self.params["objective"], context)
