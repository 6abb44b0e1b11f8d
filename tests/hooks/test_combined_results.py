import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.hooks.model import HookEvent, HookVerdict, TailCall
from alhena.hooks.output import aggregate, next_input

SOME = st.none() | st.text(min_size=1, max_size=3)


@st.composite
def verdicts(draw: Any) -> HookVerdict:
    stop, block = draw(SOME), draw(SOME)
    ask = draw(st.booleans()) and stop is None and block is None
    return HookVerdict(
        stop=stop,
        block=None if stop is not None else block,
        ask=ask,
        reason="why" if ask else "",
        system_messages=tuple(draw(st.lists(st.text(max_size=2), max_size=2))),
        additional_context=draw(SOME),
        tool_input=draw(st.none() | st.dictionaries(st.sampled_from("ab"), st.integers())),
    )


@given(st.lists(verdicts(), max_size=4))
def test_stop_goes_before_block_before_ask_and_no_allow_takes_them_back(given: list[HookVerdict]):
    together = aggregate(given)
    stops = [each.stop for each in given if each.stop is not None]
    blocks = [each.block for each in given if each.block is not None]
    assert together.stop == ("\n".join(stops) if stops else None)
    assert together.block == ("\n".join(blocks) if blocks and not stops else None)
    assert together.ask == (any(each.ask for each in given) and not stops and not blocks)
    assert together.system_messages == tuple(
        itertools.chain.from_iterable(each.system_messages for each in given)
    )
    contexts = [each.additional_context for each in given if each.additional_context]
    assert together.additional_context == ("\n".join(contexts) or None)


@given(verdicts())
def test_one_verdict_stays_what_it_is(alone: HookVerdict):
    assert aggregate([alone]) == alone
    assert aggregate([alone, HookVerdict()]) == alone


@pytest.mark.requirement("HOOK-04")
def test_of_values_the_last_counts_for_each_key():
    together = aggregate(
        [
            HookVerdict(
                tool_input={"a": 1, "b": 1},
                llm_request={"model": "m", "config": {"topK": 1}},
                llm_response={"text": "1"},
                tail_call=TailCall("one", {}),
            ),
            HookVerdict(
                tool_input={"b": 2},
                llm_request={"messages": []},
                clear_context=True,
                suppress_output=True,
            ),
            HookVerdict(llm_response={"text": "2"}, tail_call=TailCall("two", {})),
        ]
    )
    assert together == HookVerdict(
        tool_input={"a": 1, "b": 2},
        llm_request={"model": "m", "config": {"topK": 1}, "messages": []},
        llm_response={"text": "2"},
        tail_call=TailCall("two", {}),
        clear_context=True,
        suppress_output=True,
    )


def config(*configs: dict[str, Any]) -> dict[str, Any] | None:
    return aggregate([HookVerdict(tool_config=each) for each in configs]).tool_config


@pytest.mark.requirement("HOOK-04")
def test_tools_are_chosen_by_none_before_any_before_auto_and_names_together():
    assert config() is None
    assert config({"mode": "AUTO"}, {"mode": "ANY"}) == {"mode": "ANY"}
    assert config({"mode": "ANY", "allowedFunctionNames": ["a"]}, {"mode": "NONE"}) == {
        "mode": "NONE"
    }
    assert config(
        {"mode": "ANY", "allowedFunctionNames": ["b", "a"]}, {"allowedFunctionNames": ["c"]}
    ) == {"mode": "ANY", "allowedFunctionNames": ["a", "b", "c"]}


@pytest.mark.requirement("HOOK-04")
def test_the_next_of_a_sequence_is_told_what_was_changed():
    assert next_input(
        HookEvent.BEFORE_AGENT, {"prompt": "p"}, HookVerdict(additional_context="c")
    ) == {"prompt": "p\n\nc"}
    assert next_input(
        HookEvent.BEFORE_MODEL,
        {"llm_request": {"model": "a", "messages": [1]}},
        HookVerdict(llm_request={"model": "b"}),
    ) == {"llm_request": {"model": "b", "messages": [1]}}
    assert next_input(HookEvent.AFTER_TOOL, {"x": 1}, HookVerdict(tool_input={"y": 1})) == {"x": 1}
