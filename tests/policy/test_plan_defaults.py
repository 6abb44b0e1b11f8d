"""Entering and leaving plan mode under the packaged policies."""

import pytest

from alhena.policy.model import ApprovalMode
from tests.policy.support import ALLOW, ASK, DENY, SHELL
from tests.policy.test_defaults import MODES, decide_by_default, engine

WORKING = [mode for mode in MODES if mode is not ApprovalMode.PLAN]


@pytest.mark.parametrize("mode", WORKING)
def test_a_plan_can_be_begun_but_not_left_outside_plan_mode(mode: ApprovalMode) -> None:
    expected = ALLOW if mode is ApprovalMode.YOLO else ASK
    assert decide_by_default(engine(), "enter_plan_mode", mode).outcome is expected
    left = decide_by_default(engine(), "exit_plan_mode", mode)
    assert left.outcome is DENY
    assert left.deny_message == "Plan mode is not on, so there is nothing to leave."


def test_in_plan_mode_a_person_approves_the_plan() -> None:
    assert decide_by_default(engine(), "exit_plan_mode", ApprovalMode.PLAN).outcome is ASK
    assert decide_by_default(engine(), "enter_plan_mode", ApprovalMode.PLAN).outcome is DENY


@pytest.mark.parametrize("mode", MODES)
def test_without_a_person_there_is_no_way_into_plan_mode_nor_out(mode: ApprovalMode) -> None:
    for tool in ("enter_plan_mode", "exit_plan_mode"):
        assert decide_by_default(engine(), tool, mode, interactive=False).outcome is DENY


def test_the_rules_for_planning_touch_nothing_else() -> None:
    assert decide_by_default(engine(), SHELL, ApprovalMode.YOLO, interactive=False).outcome is ALLOW
