import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.events import Event
from alhena.scheduler.errors import TransitionError
from alhena.scheduler.states import Status
from alhena.scheduler.track import TrackedCall
from alhena.scheduler.transitions import TERMINAL, TRANSITIONS, advance
from alhena.tools.contract import ToolErrorType
from tests.scheduler.kit import request

DRAWN = {
    (None, "validating"),
    (None, "error"),
    (None, "cancelled"),
    ("validating", "scheduled"),
    ("validating", "awaiting_approval"),
    ("validating", "error"),
    ("validating", "cancelled"),
    ("awaiting_approval", "scheduled"),
    ("awaiting_approval", "error"),
    ("awaiting_approval", "cancelled"),
    ("scheduled", "executing"),
    ("scheduled", "cancelled"),
    ("executing", "executing"),
    ("executing", "success"),
    ("executing", "error"),
    ("executing", "cancelled"),
}


@pytest.mark.requirement("SCHED-01")
def test_there_are_seven_states_and_only_the_drawn_transitions():
    assert {str(status) for status in Status} == {
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
@given(st.lists(st.sampled_from(Status), max_size=12))
def test_a_walk_goes_on_exactly_as_long_as_its_steps_are_drawn(walk):
    state = None
    for step in walk:
        if (state, str(step)) in DRAWN:
            state = advance(state, step)
            assert state is step
        else:
            with pytest.raises(TransitionError, match=f"cannot go from .* to {step}"):
                advance(state, step)


def test_nothing_follows_a_terminal_state_and_something_follows_every_other():
    for status in Status:
        assert bool(TRANSITIONS[status]) == (status not in TERMINAL)


@pytest.mark.requirement("SCHED-01")
async def test_a_call_refuses_a_step_that_is_not_drawn_and_stays_where_it_is():
    events: list[Event] = []
    call = TrackedCall(request("c0", "any"), events.append, lambda: 0.0)
    call.fail("no", ToolErrorType.EXECUTION_FAILED)
    count = len(events)
    with pytest.raises(TransitionError, match="cannot go from error to success"):
        call.succeed((), "", None)
    assert call.status is Status.ERROR
    assert len(events) == count
