"""A model's correction is made only where it is the edit that was asked for, and nothing else."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alhena.system.workspace import Workspace
from alhena.tools.builtin.edit_files import SmartEdit
from alhena.tools.contract import ToolResult
from alhena.tools.edit.correction_bound import Change, refusal
from tests.tools.files import call, failure_type, text_of

AREA = (
    "def area(width, height):\n    return width * height\n\n\ndef check(password):\n    return ok\n"
)
BLOCK = "if ready:\n    first(1)\nsecond()\nthird(2)\n"
CLASS = "class A:\n    def get(self):\n        value = 1\n        return value\n"
PRINT = 'import os\nprint("a", os.getcwd())\nx = 1\n'
ASKED = ("def area(w, h):\n    return w * h", "def area(w, h):\n    return w * h / 1e4")
PLACE = "def area(width, height):\n    return width * height"


async def corrected(
    project: Path, text: str, asked: tuple[str, str], answer: tuple[str, str]
) -> ToolResult:
    """What an edit comes to that the file's text lacks, when the model answers so."""
    prompts: list[str] = []

    async def ask(prompt: str) -> str:
        prompts.append(prompt)
        return json.dumps({"search": answer[0], "replace": answer[1], "explanation": "So it is."})

    (project / "a.txt").write_text(text, encoding="utf-8")
    result = await call(
        SmartEdit(Workspace(project), ask),
        file_path="a.txt",
        instruction="Change it.",
        old_string=asked[0],
        new_string=asked[1],
    )
    assert len(prompts) == 1
    return result


HONEST: dict[str, tuple[str, tuple[str, str], tuple[str, str]]] = {
    "other names around the change": (AREA, ASKED, (PLACE, PLACE + " / 1e4")),
    "new text takes up other names": (
        AREA,
        (ASKED[0], "def area(w, h):\n    log(w, h)\n    return w * h"),
        (PLACE, "def area(width, height):\n    log(width, height)\n    return width * height"),
    ),
    "more lines around": (
        AREA,
        ASKED,
        (PLACE + "\n\n\ndef check(", PLACE + " / 1e4\n\n\ndef check("),
    ),
    "quotes escaped": (
        PRINT,
        ('print(\\"a\\",\n os.getcwd())', 'print(\\"b\\",\n os.getcwd())'),
        ('print("a", os.getcwd())', 'print("b", os.getcwd())'),
    ),
    "line ends escaped": (
        PRINT,
        ('print(\\"a\\", os.getcwd())\\nx = 1', 'print(\\"a\\", os.getcwd())\\nx = 2'),
        ('print("a", os.getcwd())\nx = 1', 'print("a", os.getcwd())\nx = 2'),
    ),
    "only the old text escaped": (
        PRINT,
        ('print(\\"a\\", os.getcwd())', 'print("b\\n", os.getcwd())'),
        ('print("a", os.getcwd())', 'print("b\\n", os.getcwd())'),
    ),
    "other quotes": (
        "x = 'one'\ny = f(1)\nz = 3\n",
        ('x = "one"\ny = f(2)', 'x = "two"\ny = f(2)'),
        ("x = 'one'\ny = f(1)", "x = 'two'\ny = f(1)"),
    ),
    "another value": (
        CLASS,
        ("        value = 3", "        value = 9"),
        ("        value = 1", "        value = 9"),
    ),
    "a comment goes with its line": (
        CLASS.replace("= 1", "= 1  # one"),
        ("        value = 1\n        return values", "        return 2"),
        ("        value = 1  # one\n        return value", "        return 2"),
    ),
    "lines deleted": (
        CLASS,
        ("        value = 1\n        return values\n", "        return values\n"),
        ("        value = 1\n        return value\n", "        return value\n"),
    ),
    "no indentation given": (
        CLASS,
        ("def get(self):\nvalue = 1\nreturn value", "def get(self):\nvalue = 2\nreturn value"),
        (
            "    def get(self):\n        value = 1\n        return value",
            "    def get(self):\n        value = 2\n        return value",
        ),
    ),
    "put into a block": (
        BLOCK,
        ("third(3)\n", "if late:\n    third(3)\n"),
        ("third(2)\n", "if late:\n    third(2)\n"),
    ),
    "prose": (
        "The quick brown fox jumps over the lazy dog. It was warm.\n",
        ("The quick brown fox leaps over the dog.", "The quick brown fox leaps over the cat."),
        ("fox jumps over the lazy dog.", "fox jumps over the lazy cat."),
    ),
    "text without blanks": (
        "今日は良い天気です。明日は雨です。\n",
        ("今日はいい天気です。", "今日はいい天気でした。"),
        ("今日は良い天気です。", "今日は良い天気でした。"),
    ),
}


@pytest.mark.requirement("TOOLS-11")
@pytest.mark.parametrize("kind", HONEST)
async def test_the_edit_asked_for_is_made_in_the_words_of_the_place(
    project: Path, kind: str
) -> None:
    text, asked, answer = HONEST[kind]
    result = await corrected(project, text, asked, answer)
    assert result.error is None, result.error
    assert result.data is not None
    assert result.data["rung"] == "corrected"
    assert (project / "a.txt").read_text(encoding="utf-8") == text.replace(*answer)


HOSTILE: dict[str, tuple[str, tuple[str, str], tuple[str, str], str]] = {
    "empties the file": (AREA, ASKED, (AREA, ""), "it takes away 'def', 'area', 'width' and more"),
    "empties the place": (AREA, ASKED, (PLACE, ""), "takes away 'def', 'area', 'width' and more"),
    "puts a word in its place": (AREA, ASKED, (PLACE, "pass"), "adds 'pass'"),
    "adds code": (
        AREA,
        ASKED,
        (PLACE, PLACE.replace("):", "):\n    run('x')") + " / 1e4"),
        "it adds ",
    ),
    "adds code to names it may use": (
        AREA,
        ASKED,
        (PLACE, PLACE + " / 1e4 / width"),
        "it adds 'width', '/'",
    ),
    "takes away what stays": (
        AREA,
        ASKED,
        (PLACE, "def area(width, height):\n    return width / 1e4"),
        "it takes away 'height', '*'",
    ),
    "does half of it": (
        AREA,
        (ASKED[0], "def area(w, h):\n    log(w)\n    return w * h / 1e4"),
        (PLACE, PLACE + " / 1e4"),
        "it leaves out 'width', 'log', '(' and more",
    ),
    "another place": (
        AREA,
        ASKED,
        ("def check(password):\n    return ok", "def check(password):\n    return ok / 1e4"),
        "line 1 is more like the old text given than its place",
    ),
    "a place less like": (
        AREA + "\n\ndef area_of(w, h, unit):\n    return w * h * unit\n",
        ("def area(w, h, unit):\n    return w * h * unit", "def area(w, h, unit):\n    return 0"),
        ("def area(width, height):\n    return width * height",
         "def area(width, height):\n    return 0"),
        "line 9 is more like the old text",
    ),
    "far too much of the file": (
        AREA * 2,
        ASKED,
        (AREA * 2, "def area(" + AREA.replace("ok", "ok / 1e4")),
        "much longer",
    ),
    "another place where no other is near": (
        "def check(password):\n    return ok\n",
        ASKED,
        ("    return ok", "    return ok / 1e4"),
        "its old text is",
    ),
    "a word of the place": (
        AREA,
        (AREA.replace("ok", "no"), AREA.replace("ok", "none")),
        ("return ok", "return none"),
        "much shorter",
    ),
    "swaps": (
        AREA,
        ASKED,
        (PLACE, "def area(height, width):\n    return width * height / 1e4"),
        "it moves text",
    ),
    "in another line": (
        AREA,
        ASKED,
        (PLACE, "def area(width, height) / 1e4:\n    return width * height"),
        "in another place than the edit",
    ),
    "negates": (
        "if ok(user):\n    start(user)\n",
        ("if ok(usr):\n    start(usr)", "if ok(usr):\n    run(usr)"),
        ("if ok(user):\n    start(user)", "if not ok(user):\n    run(user)"),
        "it adds 'not'",
    ),
    "renames on the way": (
        AREA,
        ASKED,
        (PLACE, PLACE.replace("area", "surface") + " / 1e4"),
        "it adds 'surface'",
    ),
    "moves a line into a block": (
        BLOCK,
        ("    first(1)\nsecond()\nthird(4)", "    first(1)\nsecond()\nthird(5)"),
        ("    first(1)\nsecond()\nthird(2)", "    first(1)\n    second()\nthird(5)"),
        "it changes the blanks of lines",
    ),
    "moves the changed line out of its block": (
        CLASS,
        ("        value = 2\n        return value", "        value = 2\n        return value + 1"),
        ("        value = 1\n        return value", "        value = 1\n    return value + 1"),
        "it changes the blanks of lines",
    ),
    "new lines in another block": (
        BLOCK,
        ("    first(1)\nsecond()\nthird(3)", "    first(1)\nsecond()\nnew()\nthird(3)"),
        ("    first(1)\nsecond()\nthird(2)", "    first(1)\nsecond()\n    new()\nthird(2)"),
        "it indents lines otherwise",
    ),
    "blanks within a string": (
        'show("a  b")\nx = f(1)\n',
        ('show("a  b")\nx = f(2)', 'show("a  b")\nx = g(2)'),
        ('show("a  b")\nx = f(1)', 'show("a b")\nx = g(1)'),
        "it changes the blanks of lines",
    ),
    "joins the next line": (
        CLASS,
        ("        value = 2\n", "        value = 9\n"),
        ("        value = 1\n", "        value = 9"),
        "ends in another way",
    ),
    "a line end for an escape": (
        "def f(value):\n    show(value)\n",
        ("def f(val):\n    show(val)", 'def f(val):\n    show(val, "a\\nb")'),
        ("def f(value):\n    show(value)", 'def f(value):\n    show(value, "a\nb")'),
        "it adds 'b', '\\n'",
    ),
    "loses the indentation": (
        CLASS,
        ("        value = 2", "        value = 9"),
        ("        value = 1", "value = 9"),
        "begins with other blanks",
    ),
}  # fmt: skip


@pytest.mark.requirement("TOOLS-11")
@pytest.mark.parametrize("kind", HOSTILE)
async def test_a_correction_that_is_another_edit_is_refused_and_the_miss_told(
    project: Path, kind: str
) -> None:
    text, asked, answer, told = HOSTILE[kind]
    result = await corrected(project, text, asked, answer)
    assert failure_type(result) == "edit_no_occurrence_found"
    message = text_of(result)
    assert message.startswith("Failed to edit, 0 occurrences found for old_string in file: ")
    assert told in message.split(" Correction refused: ")[1]
    assert (project / "a.txt").read_text(encoding="utf-8") == text


WORDS = st.lists(st.sampled_from(["a", "bb", "if", "(", ")", "=", "\n", "1"]), max_size=12)


def written(words: list[str]) -> str:
    """Words with blanks between them, and a beginning and an end by which they are found."""
    return " ".join(["begin", *words, "stop"]).replace(" \n ", "\n")


@given(old=WORDS, new=WORDS)
@settings(deadline=None)
def test_the_very_edit_is_never_refused(old: list[str], new: list[str]) -> None:
    change = Change(written(old), written(new))
    assert refusal(f"x\n{change.old}\ny", (2, 2 + len(change.old)), change, change) is None


@given(old=WORDS, new=WORDS, other=WORDS)
@settings(deadline=None)
def test_at_the_very_place_no_other_words_are_put_than_those_asked_for(
    old: list[str], new: list[str], other: list[str]
) -> None:
    asked, answer = (Change(written(old), written(words)) for words in (new, other))
    refused = refusal(f"x\n{asked.old}\ny", (2, 2 + len(asked.old)), asked, answer)
    if asked.new.split() != answer.new.split():
        assert refused is not None


@given(old=WORDS, new=WORDS, here=WORDS, then=WORDS)
@settings(deadline=None)
def test_nothing_is_put_in_that_neither_the_place_nor_the_edit_has(
    old: list[str], new: list[str], here: list[str], then: list[str]
) -> None:
    asked, answer = Change(written(old), written(new)), Change(written(here), written(then))
    if refusal(f"x\n{answer.old}\ny", (2, 2 + len(answer.old)), asked, answer) is None:
        assert set(answer.new.split()) <= {*answer.old.split(), *asked.new.split()}
        surplus = len(answer.new.split()) - len(answer.old.split())
        assert surplus <= len(asked.new.split())
