"""Runs subagents: a conversation and a scheduler of their own, under the session's policy."""

from collections.abc import Callable, Sequence

import msgspec

from alhena.agent.definitions import AgentDefinition, builtin_agents
from alhena.agent.delegation import Delegation
from alhena.agent.fallback import SessionFallback
from alhena.agent.workbench import Workbench
from alhena.chat.chat import ModelTraits, Outlets
from alhena.errors import AlhenaError
from alhena.models.generator import ContentGenerator
from alhena.scheduler.confirmation import Approver
from alhena.tools.builtin.delegate_to_agent import AgentSummary
from alhena.tools.contract import ExecutionContext, ToolErrorType, ToolResult
from alhena.wire.content import Content


class SubagentModel(msgspec.Struct, frozen=True):
    """Who answers subagents that name no model of their own; and what decides whether another model
    does when that one cannot."""

    generator: ContentGenerator
    traits: ModelTraits
    fallback: SessionFallback | None = None


class Subagents:
    """The agents of a session. `run` is what DelegateToAgent is given.

    `model` is asked for when an agent starts. `outlets` take the events: model requests and tool
    calls, the latter with `parent_call_id`; what a subagent says is live output of its call.
    `approver` is asked about calls that need a person; without it they are declined. `opening`
    precedes the objective in each conversation.
    """

    def __init__(
        self,
        bench: Workbench,
        model: Callable[[], SubagentModel],
        outlets: Outlets,
        approver: Approver | None = None,
        opening: Sequence[Content] = (),
        agents: Sequence[AgentDefinition] | None = None,
    ) -> None:
        self.bench = bench
        self.outlets = outlets
        self.approver = approver
        self.opening = tuple(opening)
        self._model = model
        given = builtin_agents() if agents is None else agents
        self._agents = {agent.name: agent for agent in given}

    @property
    def summaries(self) -> tuple[AgentSummary, ...]:
        """The agents as the model is told of them."""
        return tuple(agent.summary for agent in self._agents.values())

    async def run(self, name: str, objective: str, context: ExecutionContext) -> ToolResult:
        """The report of the agent called `name`; every failure is a value."""
        definition = self._agents.get(name)
        if definition is None:
            return ToolResult.failed(
                f"Subagent '{name}' not found.", ToolErrorType.INVALID_TOOL_PARAMS
            )
        try:
            model = self._model()
            delegation = Delegation(
                definition,
                self.bench,
                (model.generator, model.traits),
                self.outlets,
                self.approver,
                context,
            )
            delegation.fall_back_by(model.fallback)
            return await delegation.run(self.opening, objective)
        except AlhenaError as error:
            return ToolResult.failed(f"Subagent '{name}' failed: {error}")
