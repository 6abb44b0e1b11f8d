"""Errors that repeat the arguments of their call: what else they say is what is compared."""

from typing import Any

import pytest

from alhena.chat.loops import (
    ERROR_REPEATS,
    READ,
    CalledTool,
    LoopKind,
)
from alhena.wire.content import FunctionResponse, Part
from tests.chat.test_loops import feed_turns, first_loop, tool_call


@pytest.mark.parametrize(
    ("say", "guess"),
    [
        (lambda value: f"File not found: /code/p/{value} (ENOENT).", lambda n: f"missing{n}"),
        (lambda value: f"no such file: {value!r}", lambda n: f"it's\n\t{n}\x1b"),
        (lambda value: f"nothing at {' '.join(value.split())}", lambda n: f"a\n  {'b' * n}\nc"),
        (lambda value: f"the first line is {value.splitlines()[0]}", lambda n: f"x{n}\nmore\n"),
        (lambda value: f"cannot enter {value.rpartition('/')[0]}", lambda n: f"d{n}/e/f.txt"),
        (lambda value: f"{value.rpartition('/')[2]}: not in the index", lambda n: f"d/e/f{n}.txt"),
        (lambda value: f"/code/{value[3:]} is no file", lambda n: f"../f{n}.txt"),
    ],
)
def test_what_an_error_repeats_of_its_own_call_makes_it_no_other_error(say: Any, guess: Any):
    found = feed_turns(
        *([tool_call("f", say(guess(n)), failed=True, at=guess(n), n=[n])] for n in range(1, 30))
    )
    assert first_loop(found) == ERROR_REPEATS
    loop = found[ERROR_REPEATS - 1]
    assert loop is not None
    assert loop.kind is LoopKind.ERRORS


def test_a_path_is_one_error_whether_it_is_said_from_the_root_or_not():
    def guess(n: int) -> CalledTool:
        path = f"src/f{n}" if n % 2 else f"/code/p/src/f{n}"
        return tool_call("f", f"File not found: /code/p/src/f{n}.", failed=True, path=path)

    assert first_loop(feed_turns(*([guess(n)] for n in range(30)))) == ERROR_REPEATS


def test_an_error_that_says_something_else_each_time_is_progress_although_it_repeats_its_call():
    steps = [
        [tool_call("f", f"{n}: {2 * n} of 90 lines match, not one", failed=True, old=f"{n}")]
        for n in range(1, 41)
    ]
    assert first_loop(feed_turns(*steps)) is None


def test_an_error_that_is_a_structure_is_looked_through():
    def guess(n: int) -> CalledTool:
        response = {"error": {"path": [f"/d/{n}x"], "code": 7}}
        part = Part(function_response=FunctionResponse(name="f", response=response))
        return CalledTool("f", {"where": {"paths": [f"{n}x"]}}, (part,), failed=True)

    assert first_loop(feed_turns(*([guess(n)] for n in range(30)))) == ERROR_REPEATS


def test_words_of_a_call_are_looked_for_at_both_ends_of_a_long_error():
    middle = "x" * 3 * READ
    found = feed_turns(
        *([tool_call("f", f"g{n} {middle} g{n}", failed=True, at=f"g{n}")] for n in range(30))
    )
    assert first_loop(found) == ERROR_REPEATS
