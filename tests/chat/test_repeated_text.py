"""Texts that say the same over and over, and texts that only look like it."""

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alhena.chat.loops import OCCURRENCES, WINDOW, Chant, Chanting

SENTENCE = "I will now look at the file again to be sure of it. "


def heard(text: str, size: int | None = None) -> Chant | None:
    chanting = Chanting()
    for at in range(0, len(text), size or max(1, len(text))):
        found = chanting.feed(text[at : at + (size or len(text))])
        if found is not None:
            return found
    return None


def prose(length: int, seed: int = 1) -> str:
    chance = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"
    text = ""
    while len(text) < length:
        text += "".join(chance.choices(letters, k=chance.randint(2, 9)))
        text += ".\n\n" if chance.random() < 0.02 else " "
    return text


@pytest.mark.parametrize("unit", ["ok ", SENTENCE, SENTENCE + prose(180), "la\n", "no. \n\n"])
def test_a_text_that_repeats_itself_is_chanting(unit: str):
    assert heard(unit * (2 * WINDOW // len(unit))) is not None


def test_what_is_repeated_may_have_other_words_in_between():
    chance = random.Random(3)
    said = (
        SENTENCE * 2 + chance.choice(["Hm. ", "Well, then. ", "Let me see: yes. "])
        for _ in range(200)
    )
    assert heard("".join(said)) is not None


def test_a_text_that_says_something_is_not():
    assert heard(prose(200_000)) is None


def test_what_came_before_the_chant_is_kept_and_the_chant_once():
    before = prose(3_000)
    found = heard(before + SENTENCE * 100)
    assert found is not None
    kept = (before + SENTENCE * 100)[: found.begins + len(found.text)]
    assert kept.startswith(before)
    assert SENTENCE.strip() in kept + SENTENCE
    assert len(kept) < len(before) + 3 * len(SENTENCE)


@pytest.mark.parametrize(
    "line",
    [
        "| name | value | name | value |",
        "- the same item of a list, once more",
        "  * an inner item that is repeated",
        "12. the same numbered item, once more",
        "## The same heading again and again",
        "> the same quotation again and again",
        "----------------------------------------",
        "+-------+--------+-------+--------+----",
    ],
)
def test_tables_lists_headings_quotations_and_rules_may_repeat_themselves(line: str):
    assert heard(f"{line}\n" * 500) is None


@pytest.mark.parametrize("fence", ["```", "~~~", "  ```python"])
def test_code_may_repeat_itself(fence: str):
    closing = fence.strip()[:3]
    block = f"{fence}\n" + "    0, 0, 0, 0, 0, 0, 0, 0,\n" * 500 + f"{closing}\n"
    assert heard(f"Here it is:\n\n{block}That was it. {prose(3_000)}") is None
    assert heard(f"Here it is:\n\n{block}{SENTENCE * 120}") is not None


def test_a_fence_of_another_kind_or_with_a_language_ends_no_code_block():
    rows = "    0, 0, 0, 0, 0, 0, 0, 0,\n" * 200
    assert heard(f"```\n{rows}~~~\n{rows}```python\n{rows}```\n") is None


def test_prose_behind_a_list_counts_from_the_list_on():
    few = SENTENCE * (OCCURRENCES - 3)
    assert heard(f"{few}\n- an item\n{few}\n- an item\n" * 4) is None


def test_a_line_of_blanks_to_be_filled_in_is_none_and_endless_blanks_are():
    form = "".join(f"Field {n}: {'_' * 100}\n" for n in range(200))
    assert heard(form) is None
    assert heard(" " * 10_000) is not None
    assert heard("\n" * 10_000) is not None


def test_one_line_without_an_end_is_read_by_its_beginning():
    assert heard("| " + "the same cell | " * 1_000) is None
    assert heard("The same cell | " + "the same cell | " * 1_000) is not None


PIECES = st.sampled_from(
    [
        SENTENCE,
        SENTENCE * 6,
        SENTENCE * 30,
        "\n",
        "- item\n",
        "```\n",
        "~~~",
        "| a | b |\n",
        "# H\n",
    ]
)


@given(st.lists(PIECES, max_size=40), st.integers(1, 700), st.integers(0, 2**32))
@example([SENTENCE * 30, "\n```\n", SENTENCE * 30, "```\n", SENTENCE * 30], 499, 0)
def test_how_a_text_is_cut_into_pieces_changes_nothing(parts: list[str], size: int, seed: int):
    chance = random.Random(seed)
    text = "".join(part + prose(chance.randrange(60), seed) for part in parts)
    assert heard(text, size) == heard(text)
