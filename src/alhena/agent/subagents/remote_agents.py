"""The remote agents of a session, and its conversations with them."""

import asyncio
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from alhena.agent.subagents.remote import RemoteAgent, missing_package
from alhena.policy.model import PolicyOutcome, PolicyRule, Tier
from alhena.tools.contract import ExecutionContext, ToolResult

if TYPE_CHECKING:
    from alhena.agent.subagents.a2a import RemoteConversation

ASK_PRIORITY = 51
"""Just above the default rule that lets agents of this machine work."""


class RemoteAgents:
    """The remote agents of a session, and its conversations with them. Commands for credentials run
    in `cwd`."""

    def __init__(
        self, agents: Iterable[RemoteAgent], environ: Mapping[str, str], cwd: Path
    ) -> None:
        self._agents = {agent.name: agent for agent in agents}
        self._environ = environ
        self._cwd = cwd
        self._conversations: dict[str, RemoteConversation] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._agents

    @property
    def rules(self) -> tuple[PolicyRule, ...]:
        """The default rules: each remote agent is asked about."""
        return tuple(
            PolicyRule(
                decision=PolicyOutcome.ASK_USER,
                priority=ASK_PRIORITY,
                tier=Tier.DEFAULT,
                tool_names=(name,),
                source="remote agents are asked about",
            )
            for name in self._agents
        )

    async def run(self, name: str, objective: str, context: ExecutionContext) -> ToolResult:
        """The result of the agent called `name`; every failure is a value."""
        if find_spec("a2a") is None:
            return ToolResult.from_failure(
                f"Remote agent '{name}' cannot be asked: {missing_package()}"
            )
        # In a thread: it takes up to a second.
        await asyncio.to_thread(import_module, "alhena.agent.subagents.a2a")
        conversation = self._conversations.get(name)
        if conversation is None:
            from alhena.agent.subagents.a2a import RemoteConversation
            from alhena.agent.subagents.credentials import AgentCredentials

            agent, environ = self._agents[name], self._environ
            credentials = agent.auth and AgentCredentials(agent, environ, self._cwd)
            conversation = RemoteConversation(agent, credentials, environ)
            self._conversations[name] = conversation
        return await conversation.run(objective, context.update_output, context.traceparent)
