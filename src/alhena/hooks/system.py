"""The hooks of a session: which of them hear of an event, in what order, and what they say to
it."""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from alhena.hooks.model import (
    SILENT,
    HookDefinition,
    HookEvent,
    HookGroup,
    HookSource,
    HookVerdict,
    InputForms,
    OnFailure,
)
from alhena.values import Value

if TYPE_CHECKING:
    from asyncio import Task

    from regex import Pattern

    from alhena.events import Event
    from alhena.hooks.firing import HookSurroundings


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

    def has(self, event: HookEvent) -> bool:
        """True when a hook may hear of this event."""
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


MATCH_SECONDS = 0.05
"""What one matcher may take; one that takes longer counts as a match."""

MAX_MATCHER_LENGTH = 2048

_TOOL_EVENTS = (HookEvent.BEFORE_TOOL, HookEvent.AFTER_TOOL)
_TRIGGER_EVENTS = (HookEvent.SESSION_START, HookEvent.SESSION_END, HookEvent.PRE_COMPRESS)
_ORDER = tuple(HookSource)


class HookPlan(Value, frozen=True):
    """The hooks to run, in order; at once, or each after the one before. `names` are, for each of
    them, those names of the tool that its matchers mean; () where all are alike."""

    hooks: tuple[HookDefinition, ...]
    sequential: bool
    names: tuple[tuple[str, ...], ...] = ()

    @property
    def heard(self) -> tuple[tuple[HookDefinition, tuple[str, ...]], ...]:
        """Each hook with the names of the tool that it knows."""
        names = self.names or ((),) * len(self.hooks)
        return tuple(zip(self.hooks, names, strict=True))


def plan(
    event: HookEvent,
    names: tuple[str, ...],
    groups: Iterable[HookGroup],
    is_tool: Callable[[str], bool] = lambda _name: False,
) -> HookPlan:
    """The hooks that hear of this `event`. One sequential group makes all of them sequential.

    `names`: of the tool, or the trigger. `is_tool` says whether a word is the name of some tool.
    A hook that stands in several places runs once, with the longest of its time limits, and blocks
    on failure if it does so in one of them.
    """
    matching = [
        group
        for group in sorted(groups, key=_rank)
        if group.event is event and matches(event, group.matcher, names, is_tool)
    ]
    found: dict[tuple[str, tuple[tuple[str, str], ...]], HookDefinition] = {}
    known: dict[tuple[str, tuple[tuple[str, str], ...]], dict[str, None]] = {}
    for group in matching:
        meant = dict.fromkeys(_meant(event, group.matcher, names, is_tool))
        for hook in group.hooks:
            key = (hook.key, tuple(sorted(hook.env.items())))
            found[key] = hook if key not in found else _joined(found[key], hook)
            known[key] = known.get(key, {}) | meant
    return HookPlan(
        tuple(found.values()),
        any(group.sequential for group in matching),
        tuple(map(tuple, known.values())) if event in _TOOL_EVENTS else (),
    )


def _meant(
    event: HookEvent, matcher: str, names: tuple[str, ...], is_tool: Callable[[str], bool]
) -> tuple[str, ...]:
    """Those of a tool's names that a matcher means."""
    if matcher in ("", "*"):
        return names
    if matcher in names:
        return (matcher,)
    return tuple(name for name in names if matches(event, matcher, (name,), is_tool))


def matches(
    event: HookEvent,
    matcher: str,
    names: tuple[str, ...],
    is_tool: Callable[[str], bool] = lambda _name: False,
) -> bool:
    """True when a matcher means one of `names`.

    Of a tool: the name of some tool means that one, anything else is a regular expression that is
    looked for anywhere in a name; what is none has to be the name. Of a trigger: the trigger.
    """
    if matcher in ("", "*"):
        return True
    if event in _TRIGGER_EVENTS:
        return matcher in names
    if event not in _TOOL_EVENTS or matcher in names:
        return True
    if is_tool(matcher):
        return False
    pattern = compiled(matcher)
    return pattern is not None and any(_found(pattern, name) for name in names)


def compiled(matcher: str) -> "Pattern[str] | None":
    """A matcher as a regular expression; None when it is none, or too long."""
    return None if len(matcher) > MAX_MATCHER_LENGTH else _compiled(matcher)


@lru_cache(maxsize=256)
def _compiled(matcher: str) -> "Pattern[str] | None":
    import regex

    try:
        return regex.compile(matcher)
    except (regex.error, OverflowError, RecursionError, MemoryError):
        return None


def _found(pattern: "Pattern[str]", name: str) -> bool:
    try:
        return pattern.search(name, timeout=MATCH_SECONDS) is not None
    except (TimeoutError, RecursionError, MemoryError):
        return True  # a hook that watches over this tool must not be talked out of it


def _rank(group: HookGroup) -> int:
    return _ORDER.index(group.hooks[0].source) if group.hooks else len(_ORDER)


def _joined(first: HookDefinition, other: HookDefinition) -> HookDefinition:
    blocks = OnFailure.BLOCK in (first.on_failure, other.on_failure)
    return msgspec.structs.replace(
        first,
        timeout_ms=max(first.timeout_ms, other.timeout_ms),
        on_failure=OnFailure.BLOCK if blocks else OnFailure.WARN,
    )
