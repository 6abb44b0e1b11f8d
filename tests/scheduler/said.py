"""Hooks that say what a test wants, and a stage with them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from alhena.hooks.model import HookEvent, HookVerdict
from alhena.policy.model import PolicyOutcome
from alhena.scheduler.executor import Executor
from alhena.scheduler.hooks import ToolHooks
from alhena.tools.contract import ExecutionContext, ToolResult
from tests.scheduler.kit import SmallTool, Stage, echo

ASK, ALLOW, DENY = PolicyOutcome.ASK_USER, PolicyOutcome.ALLOW, PolicyOutcome.DENY

BEFORE, AFTER, NOTIFICATION = (
    HookEvent.BEFORE_TOOL,
    HookEvent.AFTER_TOOL,
    HookEvent.NOTIFICATION,
)
Say = HookVerdict | Callable[[dict[str, Any]], HookVerdict | Awaitable[HookVerdict]]


class SaidHooks:
    """Hooks that say what a test wants, and remember what they heard."""

    def __init__(self, says: Mapping[HookEvent, Say]) -> None:
        self.says = says
        self.heard: list[tuple[HookEvent, dict[str, Any]]] = []
        self.matches: list[tuple[str, ...]] = []
        self.running: list[asyncio.Future[None]] = []

    def has(self, event: HookEvent) -> bool:
        return event in self.says

    async def fire(
        self, event: HookEvent, fields: Mapping[str, Any], *, match: Any = None, forms: Any = None
    ) -> HookVerdict:
        self.heard.append((event, dict(fields)))
        self.matches.append(match)
        say = self.says[event]
        if isinstance(say, HookVerdict):
            return say
        said = say(dict(fields))
        return said if isinstance(said, HookVerdict) else await said

    def run_in_background(self, firing: Any) -> None:
        self.running.append(asyncio.ensure_future(firing))

    def events(self) -> list[HookEvent]:
        return [event for event, _ in self.heard]


def stage_with_hooks(
    *tools: SmallTool, says: Mapping[HookEvent, Say], **options: Any
) -> tuple[Stage, Any]:
    hooks = SaidHooks(says)
    found: Any = hooks
    outputs = options.pop("outputs", None)
    executor = Executor(Path.cwd(), outputs=outputs, hooks=ToolHooks(found))
    return Stage(*tools, executor=executor, **options), hooks


def shown_input(log: list[Any]) -> Any:
    async def body(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        log.append(params)
        return await echo(params, context)

    return body
