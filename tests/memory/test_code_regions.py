"""`@path` as an import or inside code, by the rules of Markdown."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.memory.imports import places_in_text
from tests.memory.kit import import_file, put
from tests.support.each import for_each

CODE = [
    "`@./x.md`",
    "`` ` @./x.md ` ``",
    "a ` @./x.md\nb ` c",
    "```\n@./x.md\n```",
    "`````md\n````\n@./x.md\n`````",
    "````md\n```\n@./x.md\n```\n````",
    "~~~\n@./x.md\n~~~",
    "~~~\n```\n@./x.md",
    "    @./x.md",
    "\t@./x.md",
    "- item\n\n  ```\n  @./x.md\n  ```",
    "- a\n  - b\n\n        @./x.md",
    "> ```\n> @./x.md\n> ```",
    "> > 1. ~~~\n> >    @./x.md",
    "``` @./x.md\ncode\n```",
    "<!-- @./x.md -->",
    "text <!-- @./x.md --> text",
    "<pre>\n@./x.md\n</pre>",
    "a <code> @./x.md </code>",
    "a <code> <kbd>b</kbd> @./x.md </code>",
    "[x]: @./x.md",
    '<a title=" @./x.md">',
    "\\@./x.md",
    "**@./x.md**",
    "me@./x.md",
    "(@./x.md)",
]
TEXT = [
    "@./x.md",
    "a\t@./x.md\tb",
    "# Heading @./x.md",
    "Heading\n===\n@./x.md\n---",
    "- @./x.md",
    "1. a\n   @./x.md",
    "> @./x.md",
    "` @./x.md",
    "a `b` @./x.md `c`",
    "\\` @./x.md `",
    "``` ` @./x.md",
    "```\ncode\n```\n@./x.md",
    "para\n    @./x.md",
    "*emphasised @./x.md* text",
    "| a | @./x.md |\n|---|---|",
    "<details>\n\n@./x.md\n\n</details>",
    "<details>\n@./x.md\n</details>",
    "<!-- note --> @./x.md",
    "<code>a</code> @./x.md",
    "a\r\n@./x.md\r\nb",
    "[a b](c) @./x.md",
    "&amp; @./x.md",
]


@pytest.mark.requirement("MEM-05")
@pytest.mark.parametrize("text", CODE)
def test_what_is_code_or_not_shown_is_left_as_it_is(project: Path, text: str):
    put(project, "x.md", "IMPORTED")
    path = project / "GEMINI.md"
    path.write_bytes(text.encode())
    assert import_file(path).content == text.replace("\r\n", "\n")


@pytest.mark.requirement("MEM-05")
@pytest.mark.parametrize("text", TEXT)
def test_what_is_text_is_imported_at_its_place(project: Path, text: str):
    put(project, "x.md", "IMPORTED")
    path = project / "GEMINI.md"
    path.write_bytes(text.encode())
    framed = "<!-- Imported from: ./x.md -->\nIMPORTED\n<!-- End of import from: ./x.md -->"
    assert import_file(path).content == text.replace("\r\n", "\n").replace("@./x.md", framed)


@pytest.mark.requirement("MEM-05")
def test_an_unbalanced_backtick_hides_no_import_behind_it(project: Path):
    put(project, "x.md", "IMPORTED")
    text = "a stray ` here\n\n@./x.md\n\nand ` there\n"
    assert "IMPORTED" in import_file(put(project, "GEMINI.md", text)).content


def test_a_text_that_uses_private_characters_is_read_all_the_same():
    text = "\ue000 @./a.md \ue001 `@./b.md` \ue0000\ue000"
    assert places_in_text(text, [2, 13]) == {2}


def test_a_text_with_every_private_character_has_no_imports():
    text = "".join(map(chr, range(0xE000, 0xF900))) + " @./a.md"
    assert places_in_text(text, [len(text) - 7]) == frozenset()


@given(st.lists(st.sampled_from(["`", "``", "```", "~~~", "\n", "    ", "> ", "- ", "@./x.md", " ", "<!--", "-->", "*", "[", "](", ")", "\\", "\t", "<pre>", "word", "&#64;"]), max_size=24))  # fmt: skip
def test_marks_change_nothing_of_what_the_parser_sees(pieces: list[str]):
    """A text's own places are those of the same text with a word in place of each `@`."""
    text = "".join(pieces)
    places = [at for at, char in enumerate(text) if char == "@"]
    found = places_in_text(text, places)
    assert found <= set(places)
    words = text.replace("@", "w")
    assert places_in_text(words, places) == found


@for_each(
    "text",
    [
        "a" + "`" * 100_000,
        "".join("`" * n + " " for n in range(400)),
        "[" * 100_000,
        "![](" * 50_000,
        "> " * 30_000 + "a",
        "<a " * 100_000,
        "<!-" * 100_000,
        "*a _b " * 10_000,
        "- " * 30_000,
        "&" * 50_000,
        "@a " * 30_000,
    ],
)
def test_hostile_markdown_hides_nothing_behind_it_and_ends_in_time(text: str):
    text += "\n\n @./x.md"
    assert places_in_text(text, [len(text) - 7]) == {len(text) - 7}


def test_texts_without_imports_need_no_parser(project: Path):
    (project / "plain.py").write_text(
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.memory.kit import import_file, put\n"
        "text = 'me@example.org @param @someone @org/team \\\\@./a.md'\n"
        "assert import_file(put(Path.cwd(), 'GEMINI.md', text)).content == text\n"
        "assert 'markdown_it' not in sys.modules\n"
        "put(Path.cwd(), 'someone', 'I am a file')\n"
        "assert 'I am a file' in import_file(Path.cwd() / 'GEMINI.md').content\n"
        "assert 'markdown_it' in sys.modules\n",
        encoding="utf-8",
    )
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    subprocess.run([sys.executable, "plain.py"], env=environ, cwd=project, check=True)
