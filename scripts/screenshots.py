"""Writes the screenshots of docs/terminal.md: real sessions at a terminal, drawn as SVG.

`.venv/bin/python -m scripts.screenshots` writes docs/images/terminal-*.svg.
"""

import os
import tempfile
from contextlib import suppress
from html import escape
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pexpect
from tests.frontends.terminal.session import ENTER, ESC, at, calling
from tests.support.server import ScriptedServer, json_reply, sse, text
from tests.support.terminal import Cell, Terminal

from alhena.coloured_text import Pen, change_pen
from alhena.frontends.terminal.drawing.lines import pen_style

STILL_S = 0.5
IMAGES = Path(__file__).parent.parent / "docs" / "images"
SIZE, WIDTH, HEIGHT, MARGIN = 14, 8.4, 19, 12
BLANK = "\u00a0"
FONTS = "ui-monospace,Menlo,Consolas,monospace"


class Palette(NamedTuple):
    """The colours of a terminal: `colours` are the eight names of ANSI, bright black first."""

    ground: str
    text: str
    colours: tuple[str, ...]


DARK = Palette(
    "#1e1e2e",
    "#cdd6f4",
    ("#7f849c", "#f38ba8", "#a6e3a1", "#f9e2af", "#89b4fa", "#f5c2e7", "#94e2d5", "#cdd6f4"),
)
LIGHT = Palette(
    "#ffffff",
    "#24292f",
    ("#666e77", "#cf222e", "#116329", "#7d4e00", "#0969da", "#8250df", "#1b7c83", "#6e7781"),
)
NAMES = [
    f"ansi{name}" for name in ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "gray"]
]
ATTRIBUTES = {
    "bold": ' font-weight="bold"',
    "italic": ' font-style="italic"',
    "underline": ' text-decoration="underline"',
}
TESTS = "printf '\\033[32m.....\\033[0m\\n\\033[1;32m5 passed\\033[0m in 0.02s\\n'"
SHOP = 'def total(prices, discount=0):\n    """Price of all, in euros."""\n    return sum(prices)\n'
PLAN = """\
`total` ignores the discount:

| step | amount |
|---|---|
| prices | 30.00 |
| discount | *missing* |

I mend it and **run the tests**.
"""


def sessions(server: ScriptedServer, **environ: str) -> None:
    """Runs the sessions and writes a picture of each."""
    change = {
        "file_path": "shop.py",
        "old_string": "    return sum(prices)",
        "new_string": "    return sum(prices) * (1 - discount)",
    }
    models = [
        {"name": f"models/gemini-{name}", "supportedGenerationMethods": ["generateContent"]}
        for name in ("3-pro-preview", "2.5-pro", "2.5-flash", "2.5-flash-lite")
    ]
    first = calling("replace", change)
    first.pieces[:0] = sse(text(PLAN, None)).pieces
    server.reply(first, sse(text("The discount counts now.")), json_reply({"models": models}))
    server.reply(calling("run_shell_command", {"command": TESTS}), sse(text("All tests pass.")))
    environ |= {"GEMINI_MODEL": "gemini-3.8-flash"}
    with at(
        server, "--skip-trust", columns=84, rows=28, term="xterm-256color", **environ
    ) as terminal:
        terminal.until("default  gemini-3.8-flash")
        draw(terminal, "terminal-first", rows=8)
        terminal.send("Why is the total of shop.py too high? Mend it." + ENTER)
        terminal.until("? details")
        draw(terminal, "terminal-question")
        terminal.send("y" + ENTER)
        terminal.until("2 turns")
        terminal.send("/model" + ENTER)
        terminal.until("4 of 4")
        terminal.send("flash")
        terminal.until("2 of 4")
        draw(terminal, "terminal-model", rows=16)
        terminal.send(ESC)
        terminal.until("> /model", gone="2 of 4")
        terminal.send("Run the tests." + ENTER)
        terminal.until("All tests pass.")
        terminal.send("/diff" + ENTER)
        terminal.until("shop.py  +1 -1")
        draw(terminal, "terminal-diff", rows=22)
        terminal.send("/theme" + ENTER)
        terminal.until("20 of 20")
        terminal.send("tokyo")
        terminal.until("1 of 20")
        draw(terminal, "terminal-theme", rows=13)


def draw(terminal: Terminal, name: str, rows: int = 28) -> None:
    """Writes the last rows in view as docs/images/NAME.svg, once they stay as they are."""
    with suppress(pexpect.TIMEOUT):
        while True:
            terminal.take(STILL_S)
    lines = list(terminal.screen.lines)
    while not "".join(lines[-1]).strip():
        lines.pop()
    drawn = picture(lines[-rows:], terminal.screen.columns, DARK)
    (IMAGES / f"{name}.svg").write_text(drawn, encoding="utf-8")


def picture(lines: list[list[str]], columns: int, palette: Palette) -> str:
    """Rows of a screen as SVG."""
    width = MARGIN * 2 + columns * WIDTH
    height = MARGIN * 2 + len(lines) * HEIGHT
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}">',
        f'<rect width="100%" height="100%" rx="8" fill="{palette.ground}"/>',
        f'<g fill="{palette.text}" font-size="{SIZE}" font-family="{FONTS}">',
    ]
    for number, line in enumerate(lines):
        drawn += _row(line, MARGIN + number * HEIGHT, palette)
    return "\n".join([*drawn, "</g></svg>", ""])


def _row(line: list[str], top: float, palette: Palette) -> list[str]:
    drawn: list[str] = []
    at = 0
    for style, cells in groupby(line, lambda cell: cell.style if isinstance(cell, Cell) else ""):
        run = list(cells)
        shown, length = "".join(run).replace(" ", BLANK), len(run) * WIDTH
        left = MARGIN + at * WIDTH
        at += len(run)
        attributes, ground = _looks(style, palette)
        if ground:
            box = f'x="{left:g}" y="{top:g}" width="{length:g}" height="{HEIGHT}"'
            drawn.append(f'<rect {box} fill="{ground}"/>')
        if shown.strip(BLANK):
            where = f'x="{left:g}" y="{top + SIZE:g}" textLength="{length:g}"'
            drawn.append(f"<text {where}{attributes}>{escape(shown)}</text>")
    return drawn


def _looks(parameters: str, palette: Palette) -> tuple[str, str]:
    """Attributes of a text, and its ground, for parameters of `CSI m`."""
    colour = ground = more = ""
    words = pen_style(change_pen(Pen(), parameters)).split() if parameters else []
    for word in words:
        match word.partition(":"):
            case "fg", _, name:
                colour = _shade(name, palette)
            case "bg", _, name:
                ground = _shade(name, palette)
            case "reverse", _, _:
                colour, ground = palette.ground, colour or palette.text
            case "dim", _, _:
                colour = palette.colours[0]
            case _:
                more += ATTRIBUTES.get(word, "")
    return (f' fill="{colour}"' if colour else "") + more, ground


def _shade(name: str, palette: Palette) -> str:
    if name.startswith("#"):
        return name
    return palette.colours[NAMES.index(name.replace("bright", ""))]


def main() -> None:
    """Runs in a home directory and a folder made for it."""
    with tempfile.TemporaryDirectory() as home, ScriptedServer() as server:
        folder = Path(home) / "shop"
        (folder / ".git").mkdir(parents=True)
        (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
        (folder / "shop.py").write_text(SHOP, encoding="utf-8")
        os.chdir(folder)
        sessions(server, HOME=home)


if __name__ == "__main__":
    main()
