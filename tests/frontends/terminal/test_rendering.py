"""Markdown on the screen: all of the text, without the marks."""

import re
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.syntax import ANSISyntaxTheme

from alhena.display_text import without_controls
from alhena.frontends.terminal.drawing.markdown import (
    MARKS,
    MAX_CODE,
    MAX_CODE_LINE,
    LabelledCode,
    RenderedDocument,
    render_markdown,
)
from tests.support.each import for_each

SGR = re.compile(r"\x1b\[[\d;]*m")
LINK = re.compile(r"\x1b\]8;[^;]*;([^\x07\x1b]*)\x07")


def rows(text: str, columns: int = 80) -> list[str]:
    shown = SGR.sub("", render_markdown(text, columns, colour=True))
    return [row.rstrip() for row in shown.split("\n")[:-1]]


def letters(text: str) -> Counter[str]:
    return Counter(char for char in text if not char.isspace() and char not in MARKS)


@for_each(
    "text",
    [
        "if a<b and c>d then List<int>",
        "<your-name>, std::vector<std::string> <http://x.y> <a@b.c>.",
        "<div>\nx\n</div>",
        "<!-- hidden -->",
        "text <!-- note --> end",
        "[1]: http://x 'title'",
        "[text][1] and [text][] and [text]",
        "&lt; &amp; &#60; &nbsp;",
        "2*3*4, x**2 + y**2, a~~b~~c",
        "__init__.py and __name__ and a/_b_/c",
        "src/*.py tests/*.py **/*.c *.md *.rst",
        r"C:\.config\(x86)\ \d+\.\d+ \(x\) \$5",
        r"\\server\share",
        "Here is the layout:\nsrc/\n  app.py\n    lib.py",
        "| a | b |\n|---|---|\n| 1 | x | y |",
    ],
)
def test_what_is_no_mark_stands_as_it_was_written(text: str):
    assert rows(text) == text.split("\n")


@for_each(
    ("text", "shown"),
    [
        ("# H <T>", ["H <T>"]),
        ("| a<b> | c |\n|--|--|\n| Vec<T> | 1 |", [" a<b>    c", " ─────────", " Vec<T>  1"]),
        ('![alt](http://img "t")', ['alt (http://img "t")']),
        ("![](http://img)", ["(http://img)"]),
        ("[x](<a b> 'it')", ['x (a b "it")']),
        ("[x](http://a/ä?b=1&c\\_d)", ["x (http://a/ä?b=1&c_d)"]),
        ("[http://y](http://y) [a@b.c](mailto:a@b.c)", ["http://y a@b.c"]),
        ("[![b](http://i)](http://h)", ["b (http://i) (http://h)"]),
        ("[**b** `c`](http://h)", ["b c (http://h)"]),
        ("1. one\n1. two\n5) five\n-", [" 1. one", " 1. two", "", " 5) five", "", " •"]),
        ("a\n\n---\n\nb", ["a", "", "─" * 80, "", "b"]),
        (
            "- [ ] **one** [x]\n- [x] two\n- [X]\n1. [ ] three",
            [" ☐ one [x]", " ☑ two", " • [X]", "", " 1. [ ] three"],
        ),
        ("- 👩\u200d👩\u200d👧\n- 🏳️\u200d🌈", [" • 👩\u200d👩\u200d👧", " • 🏳️\u200d🌈"]),
        ("10. ten\n11.\n    - sub\n      more", [" 10. ten", " 11.  • sub", "        more"]),
        ("```foo.py\nx\n```", ["foo.py", "│ x"]),
        ("```python title=x\nx\n```", ["python title=x", "│ x"]),
        ("```python\nx\n```", ["python", "│ x"]),
        ("> a <b>\n> c", ["▌ a <b>", "▌ c"]),
        ("one  \ntwo\\\nthree", ["one", "two", "three"]),
        (r"\*not\* 1\. a\_b", [r"*not* 1\. a_b"]),
        ("**中文**字 and **.gitignore**: *it*", ["中文字 and .gitignore: it"]),
    ],
)
def test_marks_are_drawn_and_what_they_hold_is_kept(text: str, shown: list[str]):
    assert rows(text) == shown


WORDS = st.sampled_from(
    [
        *[(word, word) for word in ("word", "List<int>", "<b>", "&amp;", "2*3*4", "a_b_c", "漢字")],
        *[
            (word, word)
            for word in ("__main__.py", "src/*.py", "x**2", "C:\\new", "f(**kw)", "*.c")
        ],
        *[("**b**", "b"), ("*i*", "i"), ("`<c>`", "<c>"), ("~~s~~", "s"), ("\\*", "*")],
        *[("[x](http://y)", "x (http://y)"), ("![i](j)", "i (j)"), ("[1]: u", "[1]: u")],
    ]
)


@settings(deadline=None)  # the first piece loads what draws it
@given(st.lists(st.lists(WORDS, min_size=1, max_size=6), min_size=1, max_size=4))
def test_lines_stay_lines_and_words_stay_in_their_order(lines: list[list[tuple[str, str]]]):
    text = "\n".join(" ".join(source for source, _ in each) for each in lines)
    assert rows(text, 200) == [" ".join(shown for _, shown in each) for each in lines]


PIECES = st.sampled_from(
    [
        *("\n", "\n\n", "\n", " ", "    ", "\t", "> ", "- ", "* ", "1. ", "12) ", "# ", "=", "---"),
        *("|", "| a | b |\n|---|---|\n", "|-|-|", "```\n", "```rs\n", "```x.y z\n", "~~~\n", "`"),
        *("*", "**", "_", "__", "~~", "[", "](", ")", "![", "]: ", "<", ">", "</b>", "<!--", "-->"),
        *("&amp;", "\\", "http://x", "'t'", '"t"', "word", "longer words", "漢字", "e\u0301", "7"),
    ]
)


@settings(deadline=None)
@example("> " * 60 + "deep", 10)
@example("- " * 60 + "deep", 10)
@example("1. " * 30 + "deep\n" + "> " * 12 + "```\ncode 漢字\n```", 10)
@example("| " + " | ".join("abcdefgh") + " |\n" + "|-" * 8 + "|\n" + "| 漢字words " * 8 + "|", 10)
@example("| head |\n|---|\n| " + "x" * 200 + " |", 40)
@example("*[" * 40 + "x" + "](y)*" * 40, 20)
@given(st.lists(PIECES, max_size=40).map("".join) | st.text(max_size=80), st.integers(1, 60))
def test_nothing_but_marks_is_missing_from_the_screen(text: str, columns: int):
    text = without_controls(text)
    shown = rows(text, columns)
    missing = letters(text) - letters("\n".join(shown))
    missing -= Counter("rs" * text.count("```rs\n"))  # a language, which colours tell
    missing -= Counter("http//x" * text.count("http://x"))  # a link's text and address, said once
    assert not missing
    if text.isascii():
        assert max(map(len, shown), default=0) <= max(columns, 10)


def test_a_table_that_is_too_narrow_is_written_as_text():
    head, rule, row = "| a | b | c |", "|---|---|---|", "| one word | two words | three |"
    assert rows(f"{head}\n{rule}\n{row}", 20) == ["a | b | c", "one word | two words", "| three"]


def test_long_words_in_a_table_go_on_in_the_next_row():
    text = "| a | b |\n|---|---|\n| " + "x" * 30 + " | y |"
    shown = rows(text, 20)
    assert "…" not in "".join(shown)
    assert "".join(shown).count("x") == 30


def test_an_address_hides_nothing():
    assert rows("[bank](http://b.example/\u202egpj.exe\u200b) **x**") == [
        "bank (http://b.example/\\u202egpj.exe\\u200b) x"
    ]
    assert rows("[a\u200bb](a\u200bb)") == ["a\u200bb (a\\u200bb)"]


def test_no_hyperlink_hides_where_it_leads():
    assert "\x1b]8" not in render_markdown("[x](http://y) http://z", 40, colour=True)


@for_each(
    ("text", "beside", "alone"),
    [
        ("[the docs](https://a.org/b?c=d)", "the docs (https://a.org/b?c=d)", "the docs"),
        ("[a.org](https://b.org)", "a.org (https://b.org)", "a.org (https://b.org)"),
        ("[](https://b.org)", "(https://b.org)", "(https://b.org)"),
    ],
)
def test_a_terminal_that_opens_links_gets_them(text: str, beside: str, alone: str):
    for links, words in (("beside", beside), ("alone", alone)):
        shown = render_markdown(text, 60, colour=True, links=links)
        assert SGR.sub("", LINK.sub("", shown)) == f"{words}\n"
        starts = [each for each in LINK.findall(shown) if each]
        assert len(starts) == ("](" in text and "[]" not in text)


@for_each("address", ["javascript:alert(1)", "https://a.org/\N{LATIN SMALL LETTER E WITH ACUTE}"])
def test_only_plain_web_addresses_are_links_of_the_terminal(address: str):
    shown = render_markdown(f"[x]({address})", 60, colour=True, links="alone")
    assert "\x1b]8" not in shown
    assert address in SGR.sub("", shown)


def test_a_heading_does_not_look_like_a_link():
    shown = render_markdown("# A\n\n[A](https://b.org)", 60, colour=True)
    heading, link = (SGR.findall(part)[0] for part in shown.split("\n\n"))
    assert heading == "\x1b[1;36m"
    assert link == "\x1b[4m"


def fenced(code: str, language: str) -> str:
    return f"```{language}\n{code}\n```"


def is_coloured(code: str, language: str) -> bool:
    drawn = [render_markdown(fenced(code, each), 80, colour=True) for each in ("text", language)]
    plain, shown = (text.partition("\n")[2] for text in drawn)
    return shown != plain


@pytest.mark.parametrize(
    ("code", "language", "coloured"),
    [
        ("int x = 1;\n" * 2_000, "java", True),
        ("key: [value, two]\n" * 2_000, "yaml", True),
        ("return 1;\n" + "a " * 1_000 + "\n", "java", True),
        ("return 1;\n" + "a b\n" * MAX_CODE, "java", False),
        ("return 1;\n" + "a<" * MAX_CODE_LINE, "java", False),
        ("x = 1; " * MAX_CODE_LINE, "python", False),
    ],
)
def test_code_is_coloured_unless_that_might_take_long(code: str, language: str, coloured: bool):
    assert is_coloured(code, language) == coloured
    shown = SGR.sub("", render_markdown(fenced(code, language), 80, colour=True))
    label, _, rest = shown.partition("\n")
    assert label == language
    assert letters(rest.replace("│", "")) == letters(code)


def test_no_colours_are_made_out_where_there_are_none():
    for colour, lexer in ((True, "java"), (False, "text")):
        document = RenderedDocument(
            fenced("int x;", "java"), colour=colour, code_colours=ANSISyntaxTheme({}), links="none"
        )
        made = LabelledCode.create(document, document.parsed[0])
        assert made.lexer_name == lexer
