"""The hooks of a session: who hears of an event, and what they say to it."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from alhena.hooks.model import SILENT, HookEvent, HookGroup, HookVerdict

if TYPE_CHECKING:
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
    ) -> HookVerdict:
        """Runs the hooks of `event` that `match` means and says what they say together.

        `fields` is what the event brings (`hooks.inputs` builds it), plain JSON values. `match` is,
        for BeforeTool and AfterTool, every name of the tool (the name it was called by, its
        declared one, its aliases); for SessionStart, SessionEnd and PreCompress the trigger; for
        other events it is ignored. Cancelled, it ends the hooks that run, their processes too,
        before CancelledError is raised. Never raises otherwise: what goes wrong with a hook is a
        warning, or a `block` where the hook says `"onFailure": "block"`.
        """
        if event not in self._heard or self._surroundings is None:
            return SILENT
        from alhena.hooks.firing import Firing, fire
        from alhena.hooks.plan import plan

        names = (match,) if isinstance(match, str) else match or ()
        chosen = plan(event, names, self.groups, self._is_tool)
        firing = Firing(event, self.groups, self._surroundings, self._emit)
        return await fire(chosen, dict(fields), firing)

    def kill(self) -> None:
        """Ends the hooks that run, at once; for an exit without waiting."""
        if self._surroundings is not None:
            self._surroundings.kill()
