"""Corrections of edits of this repository's own sources: the true one is made, no changed one is."""

import random
import re
from collections.abc import Callable, Iterator

import pytest

from alhena.tools.edit.correction_bound import Change, refusal
from tests.support.edit_cases import Block, pick, sources

PLACES = 12
"""Blocks of each source."""

Slip = Callable[[str], str]
"""What the model makes of text that it does not remember well."""


def blocks() -> Iterator[tuple[str, Block, random.Random]]:
    for path in sources():
        rng = random.Random(path.name)
        lines = path.read_text(encoding="utf-8").split("\n")
        text = "\n".join(lines)
        for block in filter(None, (pick(lines, rng) for _ in range(PLACES))):
            if text.count("\n".join(block.old)) == 1:
                yield text, block, rng


def other_name(old: str, rng: random.Random) -> Slip:
    name = rng.choice(re.findall(r"[A-Za-z_]{3,}", old))
    return lambda text: re.sub(rf"\b{name}\b", f"{name}_of_it", text)


def other_quotes(old: str, rng: random.Random) -> Slip:
    return lambda text: text.replace('"', "'")


def other_numbers(old: str, rng: random.Random) -> Slip:
    return lambda text: re.sub(r"\b\d+\b", lambda found: str(int(found[0]) + 1), text)


def escaped_quotes(old: str, rng: random.Random) -> Slip:
    return lambda text: text.replace('"', '\\"')


SLIPS = {"name": other_name, "quotes": other_quotes, "numbers": other_numbers,
         "escapes": escaped_quotes}  # fmt: skip


def without_a_word(text: str, rng: random.Random) -> str:
    word = rng.choice(list(re.finditer(r"\w+|[^\w\s]", text)))
    return text[: word.start()] + text[word.end() :]


def with_a_word(text: str, rng: random.Random) -> str:
    word = rng.choice(list(re.finditer(r"\w+", text)))
    return f"{text[: word.end()]} {rng.choice(['not', '+', 'password'])} {text[word.end() :]}"


def with_another_word(text: str, rng: random.Random) -> str:
    word = rng.choice(list(re.finditer(r"\w+", text)))
    return f"{text[: word.start()]}anything{text[word.end() :]}"


def swapped(text: str, rng: random.Random) -> str:
    words = re.findall(r"\w+|\W+", text)
    one, other = rng.choices([index for index, word in enumerate(words) if word[0].isalnum()], k=2)
    words[one], words[other] = words[other], words[one]
    return "".join(words)


def without_a_line(text: str, rng: random.Random) -> str:
    lines = text.split("\n")
    del lines[rng.randrange(len(lines))]
    return "\n".join(lines)


HOSTILE = (without_a_word, with_a_word, with_another_word, swapped, without_a_line)


@pytest.mark.requirement("TOOLS-11")
@pytest.mark.parametrize("kind", SLIPS)
def test_the_true_correction_is_made_and_none_that_changes_a_word_of_it(kind: str) -> None:
    made = refused = others = 0
    for text, block, rng in blocks():
        here, then = "\n".join(block.old), "\n".join(block.new)
        slip = SLIPS[kind](here, rng)
        asked = Change(slip(here), slip(then))
        if asked.old in text:
            continue
        span = (text.index(here), text.index(here) + len(here))
        if refusal(text, span, asked, Change(here, then)) is None:
            made += 1
        else:
            refused += 1
        for hostile in HOSTILE:
            changed = hostile(then, rng)
            if "".join(changed.split()) != "".join(then.split()):
                others += 1
                assert refusal(text, span, asked, Change(here, changed)) is not None, changed
    assert made >= 10
    assert refused <= made // 10
    assert others >= 4 * made
