"""Writes share/man/man1/alhena.1 from the help texts of the command."""

import re
from pathlib import Path

from alhena.frontends.cli.completion import help_of
from alhena.frontends.main import COMMANDS
from alhena.frontends.shared.arguments import run_parser

PAGE = Path(__file__).parent.parent / "share" / "man" / "man1" / "alhena.1"
FILES = (
    ("~/.gemini/settings.json", "your settings"),
    ("~/.gemini/policies/*.toml", "your policies"),
    ("~/.gemini/GEMINI.md, GEMINI.md", "memory that each session begins with"),
    (".gemini/settings.json", "settings of a workspace, read once its folder is trusted"),
)
CODES = (
    ("0", "success"),
    ("1, 2", "failure; wrong arguments"),
    ("41, 42, 44", "credentials; input; sandbox"),
    ("52, 53, 54, 55", "settings; turn limit; a tool; a folder that is not trusted"),
    ("130", "interrupted"),
)


def escaped(text: str) -> str:
    """A text as roff takes it literally."""
    found = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", found, flags=re.MULTILINE)


def man_page() -> str:
    """The manual page."""
    parser = run_parser()
    lines = [
        '.TH ALHENA 1 "" "alhena" "User Commands"',
        ".SH NAME",
        escaped("alhena - an agent for Gemini models that works in your files"),
        ".SH SYNOPSIS",
        *(".B alhena", escaped("[options] [PROMPT ...]"), ".br"),
        *(".B alhena", escaped("COMMAND [arguments]")),
        ".SH DESCRIPTION",
        escaped(
            "Without a prompt, alhena begins a session at the terminal; with one it carries the "
            "prompt out and prints the result."
        ),
        ".SH OPTIONS",
    ]
    for action in parser.actions:
        names = ", ".join(action.option_strings) or str(action.metavar)
        value = action.metavar or ("|".join(action.choices) if action.choices else "")
        shown = f"{names} {value}" if action.option_strings and value else names
        lines += [".TP", f".B {escaped(shown)}", escaped(action.help or "")]
    lines.append(".SH COMMANDS")
    for name in sorted(COMMANDS):
        text = help_of(name).strip("\n")
        lines += [f".SS alhena {name}", ".nf", escaped(text), ".fi"]
    for title, rows in (("FILES", FILES), ("EXIT STATUS", CODES)):
        lines.append(f".SH {title}")
        for name, text in rows:
            lines += [".TP", f".B {escaped(name)}", escaped(text)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(man_page(), encoding="utf-8")
