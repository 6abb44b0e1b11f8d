"""A session of a toolset, with subagents, over scripted models."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from alhena.agent.delegation import SubagentModel, Subagents, open_agents
from alhena.agent.subagents import AgentDefinition
from alhena.agent.toolset.factory import open_toolset
from alhena.agent.toolset.options import People, Permissions, SessionSpec, Tools
from alhena.agent.toolset.toolset import SessionAgents, SessionLinks
from alhena.chat.chat import Outlets
from alhena.chat.turn import ModelTraits
from alhena.config.effective_settings import Place
from alhena.config.settings import Settings
from alhena.events import Event, ToolCallResponseEvent
from alhena.policy.model import ApprovalMode, PolicyRule
from alhena.scheduler.question import Approver
from alhena.scheduler.states import CompletedToolCall
from alhena.tools.builtin.subagents import DelegateToAgent
from alhena.tools.contract import Tool
from alhena.wire.conformance.check import check_request
from alhena.wire.errors import Severity
from tests.scheduler.kit import request
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk


def turn(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return [chunk(*parts, finish="STOP")]


def complete_task_call(result: Any = "found it", **extra: Any) -> list[dict[str, Any]]:
    return turn(call("complete_task", {"result": result}, **extra))


def worker(**options: Any) -> AgentDefinition:
    """An agent that may use everything, unless told otherwise."""
    given: dict[str, Any] = {
        "name": "worker",
        "description": "Works.",
        "system_prompt": "You are the worker.",
        "tools": ("*",),
        "result_schema": {"type": "string"},
    }
    return AgentDefinition(**given | options)


class Office:
    """Schedules calls of delegate_to_agent and keeps every event."""

    def __init__(
        self,
        generator: ScriptedGenerator,
        *,
        agents: Sequence[AgentDefinition] | None = None,
        approve: Approver | None = None,
        mode: ApprovalMode = ApprovalMode.DEFAULT,
        policy: tuple[PolicyRule, ...] = (),
        tools: tuple[Tool, ...] = (),
    ) -> None:
        self.generator = generator
        self.events: list[Event] = []
        self.bench = open_toolset(
            SessionSpec(
                place=Place(
                    cwd=Path.cwd(), environ={"HOME": str(Path.home())}, settings=Settings()
                ),
                permissions=Permissions(approval_mode=mode, policy=policy),
                people=People(interactive=approve is not None),
                tools=Tools(own=tools),
            ),
            SessionLinks(session_id="s", answering=lambda: (generator, "m"), delegate=open_agents),
        )
        if agents is not None:
            self.bench.agents = SessionAgents(local=tuple(agents))
        self.subagents = Subagents(
            self.bench,
            lambda: SubagentModel(generator, ModelTraits(name="m")),
            Outlets(self.events.append, self.pace),
            approver=approve,
        )
        self.bench.registry.register(
            DelegateToAgent(
                tuple(each.summary for each in self.bench.agents.local), self.subagents.run
            )
        )
        self.bench.hide_denied()
        self.scheduler = self.bench.scheduler(self.emit, approve)

    async def pace(self) -> None:
        return

    def emit(self, event: Event) -> None:
        msgspec.json.encode(event)
        self.events.append(event)

    async def delegate(
        self, objective: str = "Find it.", agent: str = "worker", call_id: str = "d1"
    ) -> CompletedToolCall:
        (done,) = await self.scheduler.schedule(
            request(call_id, "delegate_to_agent", agent_name=agent, objective=objective)
        )
        return done

    def responses(self) -> list[ToolCallResponseEvent]:
        return [event for event in self.events if isinstance(event, ToolCallResponseEvent)]

    def declared(self, index: int) -> tuple[str, ...]:
        return self.generator.requests[index].config.function_names()

    def told(self, index: int) -> list[dict[str, Any]]:
        """The functionResponses of the last content the subagent's model saw."""
        parts = self.generator.seen(index)[-1]["parts"]
        return [part["functionResponse"] for part in parts if "functionResponse" in part]

    def conforming(self) -> bool:
        found = (item for sent in self.generator.requests for item in check_request(sent))
        return not any(item.level is Severity.ERROR for item in found)
