"""The hooks of a session: who hears of an event, and what they say to it."""

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from alhena.hooks.model import SILENT, HookEvent, HookGroup, HookVerdict, InputForms

if TYPE_CHECKING:
    from asyncio import Task

    from alhena.events import Event
    from alhena.hooks.run import HookSurroundings


class Hooks:
    """The hooks of a session. Nothing is built or imported for an event that nobody hears of.

    `groups` are those that may run: enabled and trusted ones. `is_tool` says whether a word is the
    name of some tool, which a matcher then means. Each run is a HookCallEvent to
    `emit`; what a hook tells people, and what went wrong with one, is a WarningEvent.
    """

    def __init__(
        self,
        groups: tuple[HookGroup, ...],
        surroundings: "HookSurroundings | None" = None,
        emit: "Callable[[Event], None]" = lambda _event: None,
        is_tool: Callable[[str], bool] = lambda _name: False,
    ) -> None:
        self.groups = groups
        self._is_tool = is_tool
        self._surroundings = surroundings
        self._emit = emit
        self._beside: set[Task[None]] = set()
        self._heard = frozenset(group.event for group in groups if group.hooks)

    @staticmethod
    def none() -> "Hooks":
        """No hooks at all."""
        return Hooks(())

    def has(self, event: HookEvent) -> bool:
        """Whether a hook may hear of this event."""
        return event in self._heard

    async def fire(
        self,
        event: HookEvent,
        fields: Mapping[str, Any],
        *,
        match: str | tuple[str, ...] | None = None,
        forms: InputForms | None = None,
    ) -> HookVerdict:
        """Runs the hooks of `event` that `match` means and says what they say together.

        `fields` is what the event brings (`hooks.inputs` builds it), plain JSON values. `match` is,
        for BeforeTool and AfterTool, every name of the tool, that which `tool_name` gives first: a
        hook whose matcher means others is told the first of those. `forms` says how what a
        BeforeTool hook sets is read, under which names. For SessionStart, SessionEnd and
        PreCompress the trigger; for other events `match` is ignored. Cancelled, it ends the hooks
        that run, their processes too, before CancelledError is raised. Never raises otherwise: what
        goes wrong with a hook is a warning, or a `block` where it says `"onFailure": "block"`.
        """
        if event not in self._heard or self._surroundings is None:
            return SILENT
        from alhena.hooks.firing import Firing, fire
        from alhena.hooks.plan import plan

        names = (match,) if isinstance(match, str) else match or ()
        chosen = plan(event, names, self.groups, self._is_tool)
        firing = Firing(event, self.groups, self._surroundings, self._emit, forms)
        return await fire(chosen, dict(fields), firing)

    def beside(self, firing: Coroutine[Any, Any, None]) -> None:
        """Lets hooks run that nobody waits for, within their own time limits, until `settle`."""
        import asyncio

        task = asyncio.get_running_loop().create_task(firing)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def settle(self) -> None:
        """Waits for the hooks that run beside the session; cancelled, it ends them."""
        import asyncio

        while self._beside:
            tasks = set(self._beside)
            try:
                await asyncio.wait(tasks)
            except asyncio.CancelledError:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                raise

    def kill(self) -> None:
        """Ends the hooks that run, at once; for an exit without waiting."""
        if self._surroundings is not None:
            self._surroundings.kill()
