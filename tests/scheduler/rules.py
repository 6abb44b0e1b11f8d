"""A policy that changes while calls wait, and a stage over it."""

import asyncio
from collections.abc import Callable
from typing import Any

from alhena.policy.model import Decision, PolicyCall, PolicyOutcome
from alhena.scheduler.bus import (
    LastingRule,
    UpdatePolicy,
)
from alhena.tools.contract import ToolConfirmationOutcome
from tests.scheduler.kit import SmallTool, Stage

ASK, ALLOW, DENY = PolicyOutcome.ASK_USER, PolicyOutcome.ALLOW, PolicyOutcome.DENY
Outcome = ToolConfirmationOutcome
RULE = {"toolName": "look", "decision": "allow", "priority": 950}


class Rules:
    """A policy that asks about everything but what was allowed since."""

    def __init__(self) -> None:
        self.allowed: set[str] = set()
        self.denied: set[str] = set()
        self.watchers: list[Callable[[], None]] = []

    def decide(self, call: PolicyCall) -> Decision:
        name = call.names[0]
        outcome = DENY if name in self.denied else ALLOW if name in self.allowed else ASK
        return Decision(outcome=outcome, reason=f"{outcome} {name}")

    def watch(self, listener: Callable[[], None]) -> Callable[[], None]:
        self.watchers.append(listener)
        return lambda: self.watchers.remove(listener)

    def allow(self, name: str) -> None:
        self.allowed.add(name)
        self.changed()

    def changed(self) -> None:
        for watcher in tuple(self.watchers):
            watcher()


def offers(call: PolicyCall) -> tuple[LastingRule, ...]:
    rule = RULE | {"toolName": call.names[0]}
    return (
        LastingRule(outcome=Outcome.PROCEED_ALWAYS, words="all of it", rule=rule, toml="[[rule]]"),
    )


def stage_rules(rules: Rules, *tools: SmallTool, **options: Any) -> Stage:
    async def save(update: UpdatePolicy) -> None:
        rules.allow(update.tool_name)

    given: dict[str, Any] = {"offers": offers, "save": save} | options
    return Stage(*tools, decide=rules.decide, watch=rules.watch, **given)


async def await_questions(stage: Stage, count: int = 1) -> None:
    while len(stage.questions()) < count:
        await asyncio.sleep(0)
