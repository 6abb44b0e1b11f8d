"""/diff, /tasks and /trace: the work of a session, done and under way."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from alhena.display_text import escaped, one_line
from alhena.frontends.shared.listings import count_noun
from alhena.frontends.terminal.drawing.call_result import (
    DIFF_ROWS,
    SEE_ALL,
    FileChange,
    PagerBlock,
    content_hash,
)
from alhena.frontends.terminal.drawing.diff import diff_lines
from alhena.frontends.terminal.drawing.lines import Line, line, plain
from alhena.frontends.terminal.drawing.menu import Menu, MenuOption

if TYPE_CHECKING:
    from alhena.frontends.terminal.conversation import Conversation, ShownSession
    from alhena.system.processes import BackgroundCommand

TASK_ROWS = 40
_USAGE = "Usage: /tasks, /tasks show NUMBER, or /tasks stop NUMBER"


async def diff(context: "Conversation", _rest: str) -> list[Line]:
    """/diff: all that this session has written and that was not undone, by file. Every file is
    named; of the changes the first lines are printed."""
    lines: list[Line] = []
    shown: list[Line] = []
    room = DIFF_ROWS
    for path, each in [*context.pages.changes.items()]:
        diffs, note = await asyncio.to_thread(_diffs, path, each)
        if not diffs:
            continue
        name = _relative(path, context.toolset.workspace.cwd)
        added, removed = (sum(counts) for counts in zip(*(each[1:] for each in diffs), strict=True))
        head = (*line(name, "bold"), ("dim", f"  +{added} -{removed}{note}"))
        rows = (row for text, *_ in diffs for row in diff_lines(text, Path(path).name))
        change = [(("", "  "), *row) for row in rows]
        lines += [head, *change]
        shown += [head, *change[:room]]
        if more := len(change[room:]):
            shown.append(line(f"  … {count_noun(more, 'more line')}{SEE_ALL}", "dim"))
        room -= len(change[:room])
    if not lines:
        return [line("No changes by this session. Edits it makes are listed here.")]
    context.pages.add(PagerBlock("Changes of this session", plain(lines)))
    return shown


def _diffs(path: str, change: FileChange) -> tuple[list[tuple[str, int, int]], str]:
    """The diffs of a file with their added and removed lines, and a note for its line. Changes that
    were undone are left out. Takes its time."""
    from alhena.system.encoding import decode_text
    from alhena.system.errors import FileError
    from alhena.system.files import read_content
    from alhena.tools.edit.proposal import EDIT_LIMIT
    from alhena.tools.edit.splicing import unified_diff

    now: str | None = change.now
    gone = not os.path.lexists(path)
    try:
        now = None if gone else decode_text(read_content(Path(path), EDIT_LIMIT, follows=True)).raw
    except FileError:
        note = "  cannot be read now"
    else:
        note = "  no such file now" if gone else ""
    diffs = list(change.earlier)
    if not change.states:
        return diffs, note
    if content_hash(now) not in change.states:
        now, note = change.now, note or "  changed since"
    new = "  new file" if change.before is None and not diffs else ""
    if now != change.before:
        text, stat = unified_diff(change.before or "", now or "", Path(path).name)
        diffs.append((text, stat.ai_added_lines, stat.ai_removed_lines))
    return diffs, f"{new}{note}"


def _relative(path: str, cwd: Path) -> str:
    return escaped(path.removeprefix(f"{cwd}/"))


async def trace(context: "Conversation", _rest: str) -> list[Line]:
    """/trace: writes the page of this session and opens it. Raises AlhenaError."""
    journal = await context.agent.checkpoints.conversations.record()
    if journal is None:
        return [line("Nothing to trace yet.")]
    path = await asyncio.to_thread(_write_trace, context, Path(journal))
    from alhena.models.auth.authorization import open_browser
    from alhena.system.own_programs import begin_browser

    opened = await open_browser(path.as_uri(), begin_browser)
    how = "" if opened else " Open it in a browser."
    return [line(f"Written to {escaped(str(path))}.{how}")]


def _write_trace(context: "Conversation", journal: Path) -> Path:
    from alhena.config.home import claimed_project_temp
    from alhena.frontends.shared.files import write_document
    from alhena.models.prices import Prices
    from alhena.telemetry.records import Redaction
    from alhena.tracing.page import MARK, as_page
    from alhena.tracing.timeline import read_timeline

    place = context.folder.place
    timeline = read_timeline(journal, Prices(place.settings.model.prices))
    page = as_page(timeline, Redaction(place.environ), journal_size=journal.stat().st_size)
    folder = claimed_project_temp(os.environ, context.toolset.workspace.cwd)
    path = folder / f"trace-{context.agent.session_id}.html"
    write_document(str(path), page, replaces=MARK)
    return path


def running_commands(context: "ShownSession") -> "list[BackgroundCommand]":
    """The background commands of the session that run."""
    return [each for each in _background_commands(context) if each.running]


def _background_commands(context: "ShownSession") -> "tuple[BackgroundCommand, ...]":
    groups = context.toolset.host.groups
    return () if groups is None else groups.background


async def tasks(context: "Conversation", rest: str) -> list[Line]:
    """/tasks: what runs, by number; `show` and `stop` take one. A number stays that of its command
    when others end."""
    found = _background_commands(context)
    agents = context.view.subagents
    what, _, number = rest.strip().partition(" ")
    if not what:
        rows = [
            line(f"  {at} Shell {one_line(each.command, 200)}  PID {each.pid}")
            for at, each in enumerate(found, 1)
            if each.running
        ]
        if not rows and not agents:
            return [line("No tasks running. Commands in the background and subagents are listed.")]
        count = len(rows) + len(agents)
        names = {each.call_id: each for each in context.view.calls}
        for at, agent in enumerate(agents, len(found) + 1):
            call = names.get(agent.call_id)
            what = "" if call is None else one_line(call.description, 200)
            rows.append(line(f"  {at} Agent {what}  {count_noun(agent.turns, 'turn')}"))
        return [line(f"{count} running; /tasks show NUMBER, /tasks stop NUMBER", "bold"), *rows]
    at = int(number) if number.strip().isdecimal() else 0
    if what not in ("show", "stop") or not number.strip():
        return [line(_USAGE, "error")]
    if len(found) < at <= len(found) + len(agents):
        stop = "Esc stops the turn, and its subagents with it." if what == "stop" else ""
        return [line(stop or "Its calls are shown while it runs; Ctrl-O has what they gave.")]
    if not 0 < at <= len(found):
        return [line(f"No task {one_line(number, 20)}. /tasks lists them.", "error")]
    return await (_stop if what == "stop" else _show)(context, found[at - 1])


async def _stop(context: "Conversation", command: "BackgroundCommand") -> list[Line]:
    groups = context.toolset.host.groups
    ended = groups is not None and await groups.end(command.pid)
    context.show_status()
    words = "Stopped" if ended else "Not stopped, or ended already"
    return [line(f"{words}: {one_line(command.command, 200)}")]


async def _show(context: "Conversation", command: "BackgroundCommand") -> list[Line]:
    command.child.read_available()
    captured = command.output.capture.so_far()
    text = captured.text if captured.binary else captured.head + captured.tail
    context.pages.add(PagerBlock(f"Shell {one_line(command.command, 80)}", text))
    rows = text.rstrip("\n").split("\n") if text.strip() else []
    above = len(rows) - TASK_ROWS
    head = [line(f"Shell {one_line(command.command, 200)}", "bold")]
    if above > 0:
        head.append(line(f"… {count_noun(above, 'line')} above{SEE_ALL}", "dim"))
    return [*head, *(line(f"  {each}") for each in rows[-TASK_ROWS:] or ["No output yet."])]


async def asks_to_end(context: "Conversation", what: str = "leave") -> bool:
    """Asks whether running commands are to be ended, as `what` does; True when nothing keeps the
    person."""
    found = running_commands(context)
    if not found:
        return True
    names = ", ".join(one_line(each.command, 60) for each in found)
    context.print([line(f"? Still running: {names}", "bold")])
    options = (
        MenuOption(label=f"Yes, end them and {what}", key="y"),
        MenuOption(label="No, stay", key="n"),
    )
    title = f"End {count_noun(len(found), 'command')} and {what}?"
    picked = await context.screen.choose(Menu(title=title, options=options, escape="stay"))
    return bool(picked) and 0 in picked
