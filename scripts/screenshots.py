"""Writes the screenshots of docs/terminal.md: real sessions at a terminal, drawn as SVG.

`.venv/bin/python -m scripts.screenshots` writes docs/images/terminal-*.svg.
"""

import os
import tempfile
from contextlib import suppress
from html import escape
from itertools import groupby
from pathlib import Path

import pexpect
from tests.frontends.terminal.session import ENTER, at, calling
from tests.support.server import ScriptedServer, json_reply, sse, text
from tests.support.terminal import Cell, Terminal

STILL_S = 0.5
IMAGES = Path(__file__).parent.parent / "docs" / "images"
SIZE, WIDTH, HEIGHT, MARGIN = 14, 8.4, 19, 12
BLANK = "\u00a0"
FONTS = "ui-monospace,Menlo,Consolas,monospace"
GROUND, TEXT, GRAY = "#1e1e2e", "#cdd6f4", "#7f849c"
COLOURS = (GRAY, "#f38ba8", "#a6e3a1", "#f9e2af", "#89b4fa", "#f5c2e7", "#94e2d5", TEXT)
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
    environ |= {"GEMINI_MODEL": "gemini-3.8-flash"}
    with at(server, columns=84, rows=28, term="xterm-256color", **environ) as terminal:
        terminal.until("default  gemini-3.8-flash")
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


def draw(terminal: Terminal, name: str, rows: int = 28) -> None:
    """Writes the last rows in view as docs/images/NAME.svg, once they stay as they are."""
    with suppress(pexpect.TIMEOUT):
        while True:
            terminal.take(STILL_S)
    lines = terminal.screen.lines[-rows:]
    while not lines[-1]:
        lines.pop()
    width = MARGIN * 2 + terminal.screen.columns * WIDTH
    height = MARGIN * 2 + len(lines) * HEIGHT
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}">',
        f'<rect width="100%" height="100%" rx="8" fill="{GROUND}"/>',
        f'<g fill="{TEXT}" font-size="{SIZE}" font-family="{FONTS}">',
    ]
    for number, line in enumerate(lines):
        drawn += _row(line, MARGIN + number * HEIGHT)
    (IMAGES / f"{name}.svg").write_text("\n".join([*drawn, "</g></svg>", ""]), encoding="utf-8")


def _row(line: list[str], top: float) -> list[str]:
    drawn: list[str] = []
    at = 0
    for style, cells in groupby(line, lambda cell: cell.style if isinstance(cell, Cell) else ""):
        run = list(cells)
        shown, length = "".join(run).replace(" ", BLANK), len(run) * WIDTH
        left = MARGIN + at * WIDTH
        at += len(run)
        attributes, ground = _looks(style.split(";"))
        if ground:
            box = f'x="{left:g}" y="{top:g}" width="{length:g}" height="{HEIGHT}"'
            drawn.append(f'<rect {box} fill="{ground}"/>')
        if shown.strip(BLANK):
            where = f'x="{left:g}" y="{top + SIZE:g}" textLength="{length:g}"'
            drawn.append(f"<text {where}{attributes}>{escape(shown)}</text>")
    return drawn


def _looks(codes: list[str]) -> tuple[str, str]:
    """Attributes of a text, and its ground, for parameters of `CSI m`."""
    colour = ground = more = ""
    for code in codes:
        if code == "1":
            more += ' font-weight="bold"'
        elif code == "2":
            colour = GRAY
        elif code == "3":
            more += ' font-style="italic"'
        elif code == "7":
            colour, ground = GROUND, colour or TEXT
        elif len(code) == 2 and code[0] in "39" and code[1] in "01234567":
            colour = COLOURS[int(code[1])]
    return (f' fill="{colour}"' if colour else "") + more, ground


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
