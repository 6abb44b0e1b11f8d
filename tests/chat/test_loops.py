"""Loop detection: what is a loop, and what is not."""

import random
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from alhena.chat.loops import (
    ERROR_REPEATS,
    MAX_PERIOD,
    REPEATS,
    CalledTool,
    CallLoops,
    Loop,
    LoopKind,
)
from alhena.wire.content import Blob, FunctionResponse, FunctionResponsePart, Part


def tool_call(
    name: str = "read_file",
    result: str = "text",
    *,
    failed: bool = False,
    refused: bool = False,
    call_id: str = "1",
    **args: Any,
) -> CalledTool:
    response = {"error" if failed else "output": result}
    part = Part(function_response=FunctionResponse(id=call_id, name=name, response=response))
    return CalledTool(name, args, (part,), failed, refused)


def feed_turns(*turns: Sequence[CalledTool]) -> list[Loop | None]:
    loops = CallLoops()
    return [loops.feed(turn) for turn in turns]


def first_loop(found: Sequence[Loop | None]) -> int | None:
    """The turn that completes the first loop, from 1; None for none."""
    return next((index for index, loop in enumerate(found, 1) if loop is not None), None)


def test_the_same_call_with_the_same_result_is_a_loop_the_fifth_time():
    found = feed_turns(*([tool_call(path="a", call_id=str(n))] for n in range(7)))
    assert first_loop(found) == REPEATS == 5
    loop = found[4]
    assert loop is not None
    assert loop.kind is LoopKind.CALLS
    assert "`read_file`" in loop.detail


def test_the_same_call_with_another_result_is_progress():
    assert (
        first_loop(feed_turns(*([tool_call(result=f"line {n}", path="a")] for n in range(200))))
        is None
    )


def test_paging_through_a_long_file_is_progress_even_where_all_pages_are_alike():
    assert (
        first_loop(feed_turns(*([tool_call(result="x\n" * 50, offset=n * 50)] for n in range(200))))
        is None
    )


def test_reading_again_after_an_edit_is_progress():
    turns: list[list[CalledTool]] = []
    for n in range(50):
        turns += [
            [tool_call(result=f"version {n}", path="a")],
            [tool_call("replace", "done", path="a", old=f"version {n}", new=f"version {n + 1}")],
            [tool_call("run_shell_command", "1 test failed", command="make test")],
        ]
    assert first_loop(feed_turns(*turns)) is None


def test_edits_that_undo_each_other_are_a_cycle():
    turns: list[list[CalledTool]] = []
    for n in range(10):
        old, new = ("a", "b") if n % 2 == 0 else ("b", "a")
        turns += [
            [tool_call(result=old, path="f")],
            [tool_call("replace", "done", path="f", old=old, new=new)],
        ]
    found = feed_turns(*turns)
    assert first_loop(found) == 4 * REPEATS
    loop = found[-1]
    assert loop is not None
    assert loop.kind is LoopKind.CYCLE
    assert "4 steps (`read_file`, `replace`)" in loop.detail


def test_a_poll_whose_output_grows_is_progress_although_it_is_only_times_that_come():
    turns = [
        [tool_call("read_background_output", "\n".join(f"12:00:{n:02} tick" for n in range(count)))]
        for count in range(1, 60)
    ]
    assert first_loop(feed_turns(*turns)) is None


def test_a_counter_that_moves_is_progress():
    assert (
        first_loop(feed_turns(*([tool_call("poll", f"[{n}/300] building")] for n in range(300))))
        is None
    )


def test_guesses_that_fail_alike_are_a_loop_whatever_they_were():
    found = feed_turns(
        *([tool_call("replace", "0 occurrences found", failed=True, old=f"{n}")] for n in range(12))
    )
    assert first_loop(found) == ERROR_REPEATS > REPEATS
    loop = found[ERROR_REPEATS - 1]
    assert loop is not None
    assert loop.kind is LoopKind.ERRORS


def test_guesses_that_fail_differently_are_none():
    found = feed_turns(
        *(
            [tool_call("read_file", f"no file {n}, but b{n * 7}", failed=True, path=f"{n}")]
            for n in range(30)
        )
    )
    assert first_loop(found) is None


def test_searches_that_find_nothing_are_progress_of_a_kind():
    for name in ("glob", "search_file_content", "mcp_find"):
        turns = [[tool_call(name, "No matches found.", pattern=f"word{n}")] for n in range(200)]
        assert first_loop(feed_turns(*turns)) is None


def test_a_failing_edit_between_reads_of_the_same_text_is_a_cycle():
    turns: list[list[CalledTool]] = []
    for n in range(ERROR_REPEATS):
        turns += [
            [tool_call(path="f")],
            [tool_call("replace", "0 occurrences found", failed=True, old=f"guess {n}")],
        ]
    assert first_loop(feed_turns(*turns)) == 2 * ERROR_REPEATS


def test_the_same_call_that_fails_is_a_loop_as_soon_as_one_that_does_not():
    turns = [[tool_call("fetch", "rate limited", failed=True, url="u")] for _ in range(7)]
    found = feed_turns(*turns)
    assert first_loop(found) == REPEATS
    loop = found[REPEATS - 1]
    assert loop is not None
    assert loop.kind is LoopKind.ERRORS


def test_different_proposals_that_are_refused_are_no_loop_and_the_same_one_is():
    def shell_calls(command: str) -> list[CalledTool]:
        return [tool_call("shell", "refused", failed=True, refused=True, command=command)]

    assert first_loop(feed_turns(*(shell_calls(f"make {n}") for n in range(60)))) is None
    assert first_loop(feed_turns(*(shell_calls("make") for _ in range(60)))) == REPEATS


def test_a_cycle_of_five_steps_is_found_and_one_of_six_is_not():
    def rounds(length: int) -> list[Loop | None]:
        return feed_turns(*([tool_call(path=str(n % length))] for n in range(12 * length)))

    assert first_loop(rounds(5)) == 5 * REPEATS
    assert first_loop(rounds(6)) is None


def test_the_order_of_keys_and_of_calls_in_a_turn_says_nothing():
    turns = [
        [tool_call(a=1, b={"c": 2, "d": 3}), tool_call("glob", "x")]
        if n % 2
        else [tool_call("glob", "x"), tool_call(b={"d": 3, "c": 2}, a=1)]
        for n in range(REPEATS)
    ]
    assert first_loop(feed_turns(*turns)) == REPEATS


def test_many_equal_calls_in_one_turn_are_one_step():
    turns = [[tool_call(path="a")] * 40 for _ in range(REPEATS - 1)]
    assert first_loop(feed_turns(*turns)) is None


def test_another_call_beside_it_makes_a_turn_another():
    turns = [[tool_call(path="same"), tool_call(path=f"{n}", result=f"{n}")] for n in range(50)]
    assert first_loop(feed_turns(*turns)) is None


def test_media_and_structure_of_results_count():
    def picture(data: str) -> CalledTool:
        blob = Part(inline_data=Blob(mime_type="image/png", data=data))
        return CalledTool("read_file", {"path": "p.png"}, (blob,))

    assert first_loop(feed_turns(*([picture(f"{n:04}")] for n in range(20)))) is None
    assert first_loop(feed_turns(*([picture("AAAA")] for _ in range(20)))) == REPEATS


def test_media_within_a_response_count():
    def picture(data: str) -> CalledTool:
        blob = FunctionResponsePart(inline_data=Blob(mime_type="image/png", data=data))
        response = FunctionResponse(name="f", response={"output": "a picture"}, parts=(blob,))
        return CalledTool("f", {}, (Part(function_response=response),))

    assert first_loop(feed_turns(*([picture(f"{n:04}")] for n in range(20)))) is None
    assert first_loop(feed_turns(*([picture("AAAA")] for _ in range(20)))) == REPEATS


def test_arguments_that_have_no_json_form_are_told_apart():
    lone = "\ud800"
    assert first_loop(feed_turns(*([tool_call(path=lone)] for _ in range(9)))) == REPEATS
    assert first_loop(feed_turns(*([tool_call(path=lone * n)] for n in range(1, 30)))) is None


def test_after_a_reset_nothing_counts_that_came_before():
    loops = CallLoops()
    for _ in range(REPEATS - 1):
        assert loops.feed([tool_call(path="a")]) is None
    loops.reset()
    for _ in range(REPEATS - 1):
        assert loops.feed([tool_call(path="a")]) is None
    assert loops.feed([tool_call(path="a")]) is not None


def test_a_turn_without_calls_is_no_step():
    assert CallLoops().feed([]) is None


def naive(steps: Sequence[int], repeats: int, longest: int) -> int:
    """The oracle: cut the end into blocks and compare them."""
    for period in range(1, longest + 1):
        tail = list(steps)[-period * repeats :]
        if len(tail) == period * repeats:
            blocks = [tail[at : at + period] for at in range(0, len(tail), period)]
            if all(block == blocks[0] for block in blocks):
                return period
    return 0


@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=3), max_size=120))
def test_any_script_of_calls_is_found_to_loop_exactly_where_its_steps_repeat(
    script: list[list[int]],
):
    turns = [[tool_call(result=f"r{n % 2}", path=f"{n // 2}") for n in turn] for turn in script]
    steps = [hash(frozenset(turn)) for turn in script]
    expected = [naive(steps[: at + 1], REPEATS, MAX_PERIOD) > 0 for at in range(len(steps))]
    assert [loop is not None for loop in feed_turns(*turns)] == expected


def test_a_long_session_of_progress_is_never_taken_for_a_loop():
    chance = random.Random(7)
    turns = [
        [tool_call(result=str(chance.random()), path=f"{chance.randrange(5)}")]
        for _ in range(5_000)
    ]
    assert first_loop(feed_turns(*turns)) is None
