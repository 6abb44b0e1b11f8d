"""What the terminal shows, as a value. `advancing` has how events change it, `live` what of it is
drawn."""

from collections.abc import Mapping

import msgspec

from alhena.frontends.terminal.lines import Block, Line, Lines


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that has not ended. `since`: when it was asked for, or began to run."""

    call_id: str
    name: str
    since: float
    status: str = ""
    description: str = ""
    output: str = ""
    nested: bool = False


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a session, or of one prompt."""

    requests: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    calls: int = 0
    failed_calls: int = 0
    model_ms: float = 0.0
    tool_ms: float = 0.0


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """A request failed, and is sent again at `until`."""

    why: str
    until: float
    attempt: str


class View(msgspec.Struct, frozen=True, kw_only=True):
    """All that is shown. `titles`: names of tools for people. `own` are ids of calls that the
    person made, `shown` those of calls whose change was shown before it is made. `busy_since` is
    None while nothing runs; `spoken`: something of the answer to the last request was printed.
    `group` is what the last block was, so that a blank line parts it from others."""

    titles: Mapping[str, str] = {}
    own: frozenset[str] = frozenset()
    calls: tuple[Call, ...] = ()
    open_text: str = ""
    thought: str = ""
    busy_since: float | None = None
    answering: bool = False
    pause: Pause | None = None
    spoken: bool = False
    totals: Totals = Totals()
    prompt_start: Totals = Totals()
    shown: frozenset[str] = frozenset()
    group: str = ""


Step = tuple[View, tuple[Block, ...]]


def gap(view: View) -> tuple[Block, ...]:
    """The blank line before something of its own, where anything stands above it."""
    return (Lines(((),)),) if view.group else ()


def printed(
    view: View, group: str, lines: list[Line], *, clip: bool = False, hang: int = 0
) -> Step:
    """Finished lines, with a blank one before them where something else stands above."""
    if not lines:
        return view, ()
    gap: list[Line] = [()] if view.group and view.group != group else []
    return msgspec.structs.replace(view, group=group), (Lines((*gap, *lines), clip, hang),)


def without_run(view: View) -> View:
    """The view when nothing runs any more."""
    return msgspec.structs.replace(
        view,
        calls=(),
        open_text="",
        thought="",
        busy_since=None,
        answering=False,
        pause=None,
        spoken=False,
    )


def since(totals: Totals, start: Totals) -> Totals:
    """What was counted after `start`."""
    return Totals(
        **{name: getattr(totals, name) - getattr(start, name) for name in Totals.__struct_fields__}
    )
