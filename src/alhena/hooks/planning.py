"""The hooks of a session: selects those for an event, runs them in order, and combines their
verdicts."""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from alhena.hooks.model import (
    SILENT,
    HookDefinition,
    HookEvent,
    HookGroup,
    HookPlan,
    HookSource,
    HookVerdict,
    InputForms,
    OnFailure,
)

if TYPE_CHECKING:
    from asyncio import Task

    from regex import Pattern

    from alhena.events import Event
    from alhena.hooks.running import HookSurroundings
    from alhena.wire.request import GenerateContentRequest


class Hooks:
    """The hooks of a session. Builds and imports nothing for an event without hooks.

    `groups` are the enabled and trusted ones. `is_tool` returns True for names of tools, which a
    matcher then matches exactly. Each run emits a HookCallEvent; messages of hooks for people, and
    failures, are WarningEvents.
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
        """True when a hook may match this event."""
        return event in self._heard

    async def fire(
        self,
        event: HookEvent,
        fields: Mapping[str, Any],
        *,
        match: str | tuple[str, ...] | None = None,
        forms: InputForms | None = None,
        request: "GenerateContentRequest | None" = None,
    ) -> HookVerdict:
        """Runs the hooks of `event` that `match` selects and returns their combined verdict.

        `fields` is the event's input (built by `hooks.inputs`), plain JSON values. For BeforeTool
        and AfterTool `match` is every name of the tool, that in `tool_name` first: a hook whose
        matcher selects others gets the first of those. `forms` converts parameter names for
        BeforeTool hooks; `request` is that of a BeforeModel event. For SessionStart, SessionEnd and
        PreCompress `match` is the trigger; for other events it is ignored. Cancellation kills
        running hooks and their processes before
        CancelledError is raised. Never raises otherwise: a failure of a hook is a warning, or a
        `block` with `"onFailure": "block"`.
        """
        if event not in self._heard or self._surroundings is None:
            return SILENT
        from alhena.hooks.output import aggregate
        from alhena.hooks.running import HookFiring

        names = (match,) if isinstance(match, str) else match or ()
        chosen = plan(event, names, self.groups, self._is_tool)
        firing = HookFiring(event, self.groups, self._surroundings, self._emit, forms, request)
        return aggregate([each.said for each in await firing.run(chosen, dict(fields))])

    def run_in_background(self, firing: Coroutine[Any, Any, None]) -> None:
        """Runs hooks in the background, within their own timeouts, until `settle`."""
        import asyncio

        task = asyncio.get_running_loop().create_task(firing)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def settle(self) -> None:
        """Waits for hooks in the background; cancellation kills them."""
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
        """Kills running hooks at once; for an exit without waiting."""
        if self._surroundings is not None:
            self._surroundings.kill()


MATCH_SECONDS = 0.05
"""Timeout of a matcher in seconds; a timeout counts as a match."""

MAX_MATCHER_LENGTH = 2048

_TOOL_EVENTS = (HookEvent.BEFORE_TOOL, HookEvent.AFTER_TOOL)
_TRIGGER_EVENTS = (HookEvent.SESSION_START, HookEvent.SESSION_END, HookEvent.PRE_COMPRESS)
_ORDER = tuple(HookSource)


def plan(
    event: HookEvent,
    names: tuple[str, ...],
    groups: Iterable[HookGroup],
    is_tool: Callable[[str], bool] = lambda _name: False,
) -> HookPlan:
    """Selects the hooks of this `event`. One sequential group makes all of them sequential.

    `names`: of the tool, or the trigger. `is_tool` returns True for names of tools. A hook in
    several places runs once, with its longest timeout, and blocks on failure if it does so in one
    of them.
    """
    matching = [
        group
        for group in sorted(groups, key=_rank)
        if group.event is event and matches(event, group.matcher, names, is_tool)
    ]
    found: dict[object, tuple[HookDefinition, dict[str, None]]] = {}
    for group in matching:
        meant = dict.fromkeys(_meant(event, group.matcher, names, is_tool))
        for hook in group.hooks:
            key = (hook.key, tuple(sorted(hook.env.items())))
            first, known = found.get(key, (hook, {}))
            found[key] = (_merge_definitions(first, hook), known | meant)
    of_tools = event in _TOOL_EVENTS
    return HookPlan(
        tuple((hook, tuple(known) if of_tools else ()) for hook, known in found.values()),
        any(group.sequential for group in matching),
    )


def _meant(
    event: HookEvent, matcher: str, names: tuple[str, ...], is_tool: Callable[[str], bool]
) -> tuple[str, ...]:
    """The tool names selected by a matcher."""
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
    """True when a matcher selects one of `names`.

    For a tool: a tool's name selects that tool, anything else is a regular expression searched in
    the names; an invalid one has to equal the name. For a trigger: the trigger.
    """
    if matcher in ("", "*"):
        return True
    if event in _TRIGGER_EVENTS:
        return matcher in names
    if event not in _TOOL_EVENTS or matcher in names:
        return True
    if is_tool(matcher):
        return False
    pattern = compile_matcher(matcher)
    return pattern is not None and any(_matches_name(pattern, name) for name in names)


def compile_matcher(matcher: str) -> "Pattern[str] | None":
    """A matcher as a regular expression; None if invalid or too long."""
    return None if len(matcher) > MAX_MATCHER_LENGTH else _compile_pattern(matcher)


@lru_cache(maxsize=256)
def _compile_pattern(matcher: str) -> "Pattern[str] | None":
    import regex

    try:
        return regex.compile(matcher)
    except (regex.error, OverflowError, RecursionError, MemoryError):
        return None


def _matches_name(pattern: "Pattern[str]", name: str) -> bool:
    try:
        return pattern.search(name, timeout=MATCH_SECONDS) is not None
    except (TimeoutError, RecursionError, MemoryError):
        return True  # an expensive pattern must not disable a safeguard


def _rank(group: HookGroup) -> int:
    return _ORDER.index(group.hooks[0].source) if group.hooks else len(_ORDER)


def _merge_definitions(first: HookDefinition, other: HookDefinition) -> HookDefinition:
    blocks = OnFailure.BLOCK in (first.on_failure, other.on_failure)
    return msgspec.structs.replace(
        first,
        timeout_ms=max(first.timeout_ms, other.timeout_ms),
        on_failure=OnFailure.BLOCK if blocks else OnFailure.WARN,
    )
