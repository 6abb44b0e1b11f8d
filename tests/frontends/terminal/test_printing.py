"""Finished blocks on their way to a terminal: rendered, coloured or not, nothing acting on it."""

import io
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_toolkit.data_structures import Size
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output

from alhena.display_text import without_controls
from alhena.frontends.terminal.drawing.lines import Block, Lines, Markdown, width
from alhena.frontends.terminal.drawing.printing import Printer, links_of
from tests.support.each import for_each

SGR = re.compile(r"\x1b\[(?:[\d;]*m|\?7h)")
"""Colours, and that lines wrap."""


def written(block: Block, *, columns: int = 40, colour: bool = True) -> str:
    stream = io.StringIO()
    depth = None if colour else ColorDepth.DEPTH_1_BIT
    output = Vt100_Output(
        stream, lambda: Size(rows=24, columns=columns), term="xterm", default_color_depth=depth
    )
    printer = Printer(output)
    printer.write(printer.prepare(block))
    output.flush()
    return stream.getvalue()


def bare(text: str) -> str:
    return SGR.sub("", text).replace("\r", "")


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("Some **bold** words.", "Some bold words.\n"),
        ("```python\nx = 1\n```", "python\n│ x = 1\n"),
        ("1. one\n2. two", " 1. one\n 2. two\n"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", " a  b\n ────\n 1  2\n"),
        ("", ""),
        ("[name](https://example.com)", "name (https://example.com)\n"),
    ],
)
def test_markdown_is_rendered_without_blank_rows_around_it(markdown: str, shown: str):
    lines = bare(written(Markdown(markdown))).split("\n")
    assert "\n".join(line.rstrip() for line in lines) == shown


def test_markdown_keeps_to_the_width_of_the_terminal():
    text = bare(written(Markdown("many words that do not fit 漢字漢字 " * 5), columns=20))
    assert max(map(width, text.split("\n"))) <= 20


def test_markdown_brings_no_control_sequence_of_its_own():
    evil = "[x](\x1b]8;;http://e\x07) \x1b[2J \x9b1A `\x1b[31m`\n\n```\n\x1b[2J\n```"
    block = Markdown(re.sub(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", "", evil))
    rest = SGR.sub("", written(block))
    assert "\x1b" not in rest
    assert "\x9b" not in rest


def test_lines_have_the_colours_of_their_styles_unless_there_are_none():
    block = Lines(((("error", "bad"), ("", " plain")),))
    assert bare(written(block)) == "bad plain\n"
    assert "31" in written(block)
    assert not re.search(r"\x1b\[(?:\d+;)*3[0-7]", written(block, colour=False))
    assert not re.search(r"\x1b\[(?:\d+;)*3[0-7]", written(Markdown("`code`"), colour=False))


def test_only_lines_that_are_to_be_clipped_are_clipped():
    long = ((("", "x" * 50),),)
    assert bare(written(Lines(long, clip=True))) == "x" * 39 + "…\n"
    assert bare(written(Lines(long))) == "x" * 50 + "\n"


def test_folded_lines_go_on_below_their_text():
    long = ((("", "- "), ("bold", "word " * 12)),)
    assert bare(written(Lines(long, fold=True))) == (
        "- word word word word word word word\n  word word word word word\n"
    )


def test_headings_stand_at_the_margin():
    assert bare(written(Markdown("# One\n\ntext\n\n## Two"))) == "One\n\ntext\n\nTwo\n"


MARKS = "\n\t|_`[]()*#>-漢\u202e\\"
MORE = [
    "word",
    "1.",
    "```",
    "**",
    "---",
    "](",
    "http://x",
    "<b>",
    "&amp;",
    "![",
    "[/red]",
    "[bold]",
]
WORDS = st.sampled_from([*MARKS, *MORE, " ", "\n\n", "    "])


@settings(deadline=None)  # the first piece loads what draws it
@given(st.lists(WORDS, max_size=25).map("".join) | st.text(max_size=60))
def test_whatever_a_model_writes_can_be_printed(text: str):
    text = without_controls(text)
    shown = bare(written(Markdown(text), columns=12))
    assert shown == "" or shown.endswith("\n")
    assert "\x1b" not in shown


@for_each(
    ("environ", "wanted", "links"),
    [
        ({"TERM": "xterm-256color"}, None, "beside"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, None, "alone"),
        ({"TERM": "xterm-256color", "VTE_VERSION": "7600"}, None, "alone"),
        ({"TERM": "xterm-256color", "VTE_VERSION": "4205"}, None, "beside"),
        ({"TERM": "xterm-256color", "WT_SESSION": "1"}, None, "alone"),
        ({"TERM": "xterm-kitty"}, None, "alone"),
        ({"TERM": "tmux-256color", "TMUX": "1", "KITTY_WINDOW_ID": "1"}, None, "beside"),
        ({"TERM": "xterm-kitty"}, False, "none"),
        ({"TERM": "xterm"}, True, "alone"),
        ({"TERM": "linux"}, True, "none"),
        ({"TERM": "dumb", "TERM_PROGRAM": "vscode"}, None, "none"),
        ({"TERM": "eterm-color"}, None, "none"),
        ({}, None, "none"),
    ],
)
def test_links_are_sent_to_terminals_that_open_them(
    environ: dict[str, str], wanted: bool | None, links: str
):
    assert links_of(environ, wanted) == links
