"""What still changes, as lines below what is printed."""

from alhena.display_text import one_line
from alhena.frontends.terminal.ended import described, duration
from alhena.frontends.terminal.lines import Line, clipped, line, wrapped
from alhena.frontends.terminal.view import Call, View

OUTPUT_ROWS = 5
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


def live(view: View, columns: int, rows: int, now: float, *, asking: bool = False) -> list[Line]:
    """What still changes, in at most `rows` lines of at most `columns`: the open end of the
    answer, the calls at work, and what the model does."""
    if view.busy_since is None and not view.calls:
        return []
    lines: list[Line] = []
    for call in view.calls:
        if not call.nested:
            lines += _call_lines(call, view, columns, now)
    if not lines and not asking and view.busy_since is not None:
        lines.append(_thinking(view, now))
    room = max(rows - len(lines), 1)
    text = [
        (("", piece),)
        for each in view.open_text.split("\n")[-room:]
        for piece in wrapped(each.expandtabs(4), max(columns, 1))
    ]
    shown = [*(text[-room:] if view.open_text.strip() else []), *lines]
    return [clipped(each, columns) for each in shown[len(shown) - min(rows, len(shown)) :]]


def _thinking(view: View, now: float) -> Line:
    seconds = 0.0 if view.busy_since is None else now - view.busy_since
    pause = view.pause
    if pause is not None and now < pause.until:
        left = duration((int(pause.until - now) + 1) * 1000)
        again = f"Trying again in {left} ({pause.attempt}, Esc to interrupt): "
        return (("warning", f"! {again}"), ("dim", pause.why))
    spinner = SPINNER[int(seconds * 10) % len(SPINNER)]
    what = "Answering" if view.answering else "Thinking"
    thought = f" {view.thought}" if view.thought and not view.answering else ""
    hint = f" ({duration(int(seconds) * 1000)}, Esc to interrupt)"
    return (("accent", spinner), ("", f" {what}"), ("dim", thought), ("dim", hint))


def _call_lines(call: Call, view: View, columns: int, now: float) -> list[Line]:
    title = one_line(view.titles.get(call.name, call.name))
    took = now - call.since
    running = call.status == "executing"
    mark = SPINNER[int(took * 10) % len(SPINNER)] if running else "·"
    state = "" if running else f"  {call.status.replace('_', ' ')}" if call.status else ""
    time = f"  {duration(int(took) * 1000)}" if running and took >= 1 else ""
    lines: list[Line] = [
        clipped((("accent", mark), ("bold", f" {title}")), max(columns - len(time + state), 1))
    ]
    room = columns - sum(len(text) for _, text in lines[0]) - len(time + state) - 1
    what = described(title, one_line(call.description, 400))
    shown = clipped(line(f" {what}"), max(room, 0))
    lines[0] = (*lines[0], *(shown if what else ()), ("dim", state + time))
    rows = call.output.rstrip("\n").split("\n")[-OUTPUT_ROWS:] if call.output.strip() else []
    lines += (clipped((("dim", "  │ "), *line(each, "dim")), columns) for each in rows)
    return lines
