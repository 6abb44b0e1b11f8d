"""What the tools of a session have started, so that nothing of it is left."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress

from alhena.events import Event, ToolCallResponseEvent, ToolCallUpdateEvent
from alhena.system.processes import ProcessGroups


class SessionProcesses:
    """What tools have started: the groups they left running, and the commands at work now."""

    def __init__(self) -> None:
        self.groups = ProcessGroups()
        self.kill_hooks: Callable[[], None] = lambda: None
        self._running: dict[str, int] = {}

    def feed(self, event: Event) -> None:
        """Takes note of commands that start and end."""
        if isinstance(event, ToolCallUpdateEvent) and event.pid is not None:
            self._running[event.call_id] = event.pid
        elif isinstance(event, ToolCallResponseEvent):
            self._running.pop(event.call_id, None)

    def kill(self) -> None:
        """Ends all of them at once, for an exit without waiting."""
        self.kill_hooks()
        for pid in self._running.values():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        self.groups.kill()
