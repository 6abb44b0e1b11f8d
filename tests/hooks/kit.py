"""Helpers shared by tests of hooks."""

import os
from pathlib import Path
from typing import Any

from alhena.events import Event, HookCallEvent, WarningEvent
from alhena.hooks.model import HookDefinition, HookEvent, HookGroup, HookSource, HookVerdict
from alhena.hooks.planning import Hooks
from alhena.hooks.running import HookSurroundings
from alhena.system.processes import ProcessGroups

NOW = "2026-01-02T03:04:05.006Z"


def hook(command: str, **fields: Any) -> HookDefinition:
    fields.setdefault("source", HookSource.USER)
    return HookDefinition(command=command, **fields)


def group(event: HookEvent, *hooks: HookDefinition | str, **fields: Any) -> HookGroup:
    made = tuple(hook(each) if isinstance(each, str) else each for each in hooks)
    return HookGroup(event=event, hooks=made, **fields)


def surroundings(**fields: Any) -> HookSurroundings:
    given: dict[str, Any] = {
        "session_id": "s-1",
        "cwd": str(Path.cwd()),
        "environ": dict(os.environ),
        "project_dir": str(Path.cwd()),
        "plans_dir": "/plans",
        "groups": ProcessGroups(),
        "now": lambda: NOW,
    }
    return HookSurroundings(**given | fields)


class Heard:
    """Hooks that run, and the events of it."""

    def __init__(self, *groups: HookGroup, around: HookSurroundings | None = None) -> None:
        self.events: list[Event] = []
        self.around = around or surroundings()
        self.hooks = Hooks(groups, self.around, self.events.append, self.is_tool)

    @staticmethod
    def is_tool(name: str) -> bool:
        return name in {"write_file", "read_file", "replace", "edit"}

    async def fire(self, event: HookEvent, match: Any = None, /, **fields: Any) -> HookVerdict:
        return await self.hooks.fire(event, fields, match=match)

    @property
    def calls(self) -> list[HookCallEvent]:
        return [event for event in self.events if isinstance(event, HookCallEvent)]

    @property
    def warnings(self) -> list[str]:
        return [event.message for event in self.events if isinstance(event, WarningEvent)]
