"""What a file looks like around a change, so that the model need not read it again."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alhena.tools.diffing import Window

CONTEXT = 5
_LINES = 80
_REGION = 30
_LINE = 300
GAP = "..."


def snippet_of(window: "Window") -> str:
    """The changed regions of the new text with five lines around each, gaps as "..."; bounded.

    At most 80 lines of at most 300 characters; of a region over 30 lines the middle is left out.
    The window has at least five lines of context.
    """
    lines = [line.rstrip("\n") for line in window.after]
    out: list[str] = []
    end = 0
    for start, stop in _regions(window.changes, len(lines)):
        if len(out) >= _LINES:
            out.append(GAP)
            break
        if start > end or (start == 0 and window.base):
            out.append(GAP)
        out += _region(lines[start:stop])
        end = stop
    else:
        if not window.ends:
            out.append(GAP)
    return "\n".join(line if len(line) <= _LINE else line[:_LINE] + "\u2026" for line in out)


def _regions(changes: list[tuple[str, int, int, int, int]], count: int) -> list[tuple[int, int]]:
    """Ranges of new lines to show, those that touch made one."""
    found: list[tuple[int, int]] = []
    for tag, _, _, j1, j2 in changes:
        if tag == "equal":
            continue
        start, stop = max(j1 - CONTEXT, 0), min(j2 + CONTEXT, count)
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], stop)
        else:
            found.append((start, stop))
    return found


def _region(lines: list[str]) -> list[str]:
    if len(lines) <= _REGION:
        return lines
    return [*lines[: _REGION // 2], GAP, *lines[-_REGION // 2 :]]
