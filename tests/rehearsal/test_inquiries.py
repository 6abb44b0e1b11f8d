"""What the rehearsal looks for when a report is due, and how it finds its way in documents."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.models.rehearsal.docs_steps import Section, nearest, sections
from alhena.models.rehearsal.handover import findings, is_last_call
from alhena.models.rehearsal.inquiry import terms
from alhena.models.rehearsal.toolbox import Call, Outcome

PAGE = "lead\n\n# One\n\na\n\n    # no heading\n\n```sh\n# nor this\n```\n\n## Two #\nb\n"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("Why does `run_prompt` stop when maxTurns is reached?", ("run_prompt", "maxTurns")),
        ('Who prints "not found" in loop.py?', ("not found", "loop.py")),
        ("How is the HTTP body decoded", ("HTTP",)),
        ("How does the scheduler decide what runs together?", ("scheduler", "decide", "together")),
        ("What is this?", ()),
        ("", ()),
    ],
)
def test_names_are_looked_for_before_plain_words(words: str, found: tuple[str, ...]) -> None:
    assert terms(words) == found


@given(st.text(max_size=300))
def test_there_are_never_more_than_three_and_all_stand_in_the_words(words: str) -> None:
    found = terms(words)
    assert len(found) <= 3
    assert all(term.strip() and term in (words.lower() + words) for term in found)


def test_a_page_falls_into_its_sections_and_code_has_no_headings() -> None:
    assert list(sections("p.md", PAGE)) == [
        Section("p.md", "", "lead"),
        Section("p.md", "One", "a\n\n    # no heading\n\n```sh\n# nor this\n```"),
        Section("p.md", "Two", "b"),
    ]


@given(st.lists(st.sampled_from(["# a", "## b ##", "```", "~~~", "text", "", "    # c"])))
def test_no_line_of_a_page_is_lost(lines: list[str]) -> None:
    kept = [
        line
        for section in sections("p", "\n".join(lines))
        for line in (section.heading, *section.body.splitlines())
    ]
    told = [line.strip("# ") for line in lines if line.strip("# ")]
    assert [line.strip("# ") for line in kept if line.strip("# ")] == told


def test_rare_words_and_headings_weigh_more() -> None:
    found = [
        Section("a.md", "Output", "exit codes are told elsewhere; the output is text"),
        Section("b.md", "Exit codes", "0 is done"),
        Section("c.md", "Other", "the output of tools"),
        Section("d.md", "Nothing", "of that"),
    ]
    assert nearest("Which exit codes are there?", found)[0] == found[1]
    assert nearest("output", found)[0] == found[0]
    assert nearest("Who is it?", found) == []
    assert nearest("zebra", found) == []
    assert nearest("x", []) == []


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("This is your last turn. Call `complete_task` now, and nothing else.", True),
        ("call complete_task now", True),
        ("Where is complete_task called?", False),
        ("Do not recall complete_task nowadays.", False),
    ],
)
def test_only_being_told_to_finish_asks_for_the_result(text: str, asks: bool) -> None:
    assert is_last_call(text) is asks


def test_a_file_seen_twice_is_one_place_with_both_reasons() -> None:
    seen = [
        Outcome(
            Call("list_directory", {"path": "."}),
            output="Directory listing for /w:\na.py (9 bytes)",
        ),
        Outcome(
            Call("search_file_content", {"pattern": "f"}),
            output="Found 1 match:\n---\nFile: a.py\nL1: def f(): ...\n---\n",
        ),
        Outcome(
            Call("read_file", {"absolute_path": "./a.py"}), output="def f(): ...\nclass G: 1\n"
        ),
        Outcome(Call("read_file", {"absolute_path": "/v/b"}), error="File not found: /v/b\nTry"),
        Outcome(
            Call("read_file", {"absolute_path": "x.bin"}),
            output="Cannot display content of binary file: x.bin",
        ),
    ]
    found = findings("text", seen)
    (place,) = found.locations
    assert place.path == "/w/a.py"
    assert place.reason == "1 line matches `f`; read: 2 lines"
    assert place.symbols == ("f", "G")
    assert found.trace[3] == "read_file(absolute_path='/v/b') failed: File not found: /v/b"
    assert len(found.trace) == 5
