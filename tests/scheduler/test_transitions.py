import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import alhena
from alhena.events import Event
from alhena.scheduler.states import TERMINAL, TRANSITIONS, CallStatus, TransitionError, advance
from alhena.scheduler.tracked_call import TrackedCall
from alhena.tools.contract import ToolErrorType
from tests.scheduler.kit import request

ARCHITECTURE = Path(alhena.__file__).parents[2] / "ARCHITECTURE.md"


def drawn_arrows() -> set[tuple[str | None, str]]:
    """The arrows of the picture in ARCHITECTURE.md; None is the beginning."""
    text = ARCHITECTURE.read_text(encoding="utf-8")
    (picture,) = re.findall(r"```mermaid\nstateDiagram-v2\n(.*?)```", text, re.DOTALL)
    arrows = re.findall(r"^    (\S+) --> ([a-z_]+|\[\*\])(?::.*)?$", picture, re.MULTILINE)
    assert len(arrows) == picture.count("-->") == len(picture.splitlines())
    return {(None if old == "[*]" else old, new) for old, new in arrows}


DRAWN = {(old, new) for old, new in drawn_arrows() if new != "[*]"}


@pytest.mark.requirement("SCHED-01")
def test_there_are_seven_states_and_only_the_drawn_transitions():
    assert {str(status) for status in CallStatus} == {
        "validating",
        "awaiting_approval",
        "scheduled",
        "executing",
        "success",
        "error",
        "cancelled",
    }
    assert {(old, str(new)) for old, news in TRANSITIONS.items() for new in news} == DRAWN


@pytest.mark.requirement("SCHED-01")
@given(st.lists(st.sampled_from(CallStatus), max_size=12))
def test_a_walk_goes_on_exactly_as_long_as_its_steps_are_drawn(walk):
    state = None
    for step in walk:
        if (state, str(step)) in DRAWN:
            state = advance(state, step)
            assert state is step
        else:
            with pytest.raises(TransitionError, match=f"cannot go from .* to {step}"):
                advance(state, step)


@pytest.mark.requirement("SCHED-01")
def test_the_picture_of_the_states_ends_where_the_table_does():
    assert {old for old, new in drawn_arrows() if new == "[*]"} == {str(each) for each in TERMINAL}


def test_nothing_follows_a_terminal_state_and_something_follows_every_other():
    for status in CallStatus:
        assert bool(TRANSITIONS[status]) == (status not in TERMINAL)


@pytest.mark.requirement("SCHED-01")
async def test_a_call_refuses_a_step_that_is_not_drawn_and_stays_where_it_is():
    events: list[Event] = []
    call = TrackedCall(request("c0", "any"), events.append, lambda: 0.0)
    call.fail("no", ToolErrorType.EXECUTION_FAILED)
    count = len(events)
    with pytest.raises(TransitionError, match="cannot go from error to success"):
        call.enter(call.make_success((), "", None))
    assert call.status is CallStatus.ERROR
    assert len(events) == count
