import os
from pathlib import Path
from typing import Any

import pytest

from alhena.tools.builtin.plan_mode import EnterPlanMode, ExitPlanMode
from alhena.tools.contract import (
    ExecutionContext,
    ExitPlanModeConfirmation,
    InfoConfirmation,
    ToolFailure,
)
from tests.tools.files import call, failure_type, text_of


class Modes:
    """A switch that remembers nothing but whether it is on."""

    def __init__(self, *, planning: bool, next_mode: str = "default") -> None:
        self.planning = planning
        self.next_mode = next_mode

    def enter_plan_mode(self) -> None:
        self.planning = True

    def leave_plan_mode(self, mode: str | None = None) -> None:
        self.planning = False


@pytest.fixture
def plans(project: Path) -> Path:
    return project / "temp" / "session" / "plans"


async def test_entering_switches_and_says_so() -> None:
    modes = Modes(planning=False)
    result = await call(EnterPlanMode(modes), reason="It is\nlarge.")
    assert text_of(result) == "Switching to Plan mode."
    assert result.display == "Switching to Plan mode: It is large."
    assert modes.planning


async def test_entering_twice_is_an_error_that_says_how_to_go_on() -> None:
    modes = Modes(planning=False)
    tool = EnterPlanMode(modes)
    late = tool.build({})
    assert not isinstance(late, ToolFailure)
    assert isinstance(await late.confirmation(ExecutionContext(Path.cwd())), InfoConfirmation)
    modes.planning = True
    results = [await call(tool), await late.execute(ExecutionContext(Path.cwd()))]
    for result in results:
        assert failure_type(result) == "execution_failed"
        assert "exit_plan_mode" in text_of(result)


@pytest.mark.parametrize(
    ("mode", "said"), [("default", "Default mode"), ("autoEdit", "auto_edit"), ("yolo", "YOLO")]
)
async def test_an_approved_plan_is_stored_and_plan_mode_ends(
    plans: Path, mode: str, said: str
) -> None:
    modes = Modes(planning=True, next_mode=mode)
    result = await call(ExitPlanMode(modes, plans), plan="# Plan\n1. caf\u00e9\n")
    assert text_of(result).startswith(f"Plan approved. Switching to {said}")
    assert text_of(result).endswith(
        f"\n\nThe approved implementation plan is stored at: {plans}/plan-1.md\n"
        "Read and follow the plan strictly during implementation."
    )
    assert (plans / "plan-1.md").read_text(encoding="utf-8") == "# Plan\n1. caf\u00e9\n"
    assert os.stat(plans).st_mode & 0o777 == 0o700
    assert not modes.planning


async def test_plans_do_not_overwrite_each_other(plans: Path) -> None:
    modes = Modes(planning=True)
    tool = ExitPlanMode(modes, plans)
    await call(tool, plan="first")
    modes.enter_plan_mode()
    second = tool.build({"plan": "second"})
    assert not isinstance(second, ToolFailure)
    details = await second.confirmation(ExecutionContext(Path.cwd()))
    assert details == ExitPlanModeConfirmation(
        title="Plan Approval",
        plan_path=f"{plans}/plan-2.md",
        plan="second",
        next_mode="default",
    )
    assert os.listdir(plans) == ["plan-1.md"]
    (plans / "plan-2.md").write_text("somebody else's", encoding="utf-8")
    assert f"{plans}/plan-3.md" in text_of(await second.execute(ExecutionContext(Path.cwd())))
    assert (plans / "plan-2.md").read_text(encoding="utf-8") == "somebody else's"


async def test_a_stored_plan_can_be_presented_by_name(plans: Path) -> None:
    plans.mkdir(parents=True)
    (plans / "mine.md").write_text("stored", encoding="utf-8")
    modes = Modes(planning=True)
    built = ExitPlanMode(modes, plans).build({"plan_filename": "mine.md"})
    assert not isinstance(built, ToolFailure)
    assert built.locations()[0].path == f"{plans}/mine.md"
    details = await built.confirmation(ExecutionContext(Path.cwd()))
    assert isinstance(details, ExitPlanModeConfirmation)
    assert details.plan == "stored"
    assert f"{plans}/mine.md" in text_of(await built.execute(ExecutionContext(Path.cwd())))
    assert os.listdir(plans) == ["mine.md"]


@pytest.mark.parametrize(
    ("params", "kind", "said"),
    [
        ({}, "invalid_tool_params", "Give the plan"),
        ({"plan": " \n"}, "invalid_tool_params", "The plan is empty"),
        ({"plan": "x" * 1_000_001}, "invalid_tool_params", "over the limit"),
        ({"plan_filename": "../../secret.md"}, "invalid_tool_params", "bare name"),
        ({"plan_filename": "/etc/x.md"}, "invalid_tool_params", "bare name"),
        ({"plan_filename": "notes.txt"}, "invalid_tool_params", "bare name"),
        ({"plan_filename": "missing.md"}, "file_not_found", "missing.md"),
        ({"plan_filename": "fifo.md"}, "not_a_regular_file", "FIFO"),
        ({"plan_filename": "link.md"}, "not_a_regular_file", "link"),
        ({"plan_filename": "empty.md"}, "invalid_tool_params", "The plan is empty"),
    ],
)
async def test_what_is_no_plan_is_refused_and_plan_mode_goes_on(
    plans: Path, params: Any, kind: str, said: str
) -> None:
    plans.mkdir(parents=True)
    os.mkfifo(plans / "fifo.md")
    (plans / "link.md").symlink_to("/etc/hostname")
    (plans / "empty.md").touch()
    modes = Modes(planning=True)
    tool = ExitPlanMode(modes, plans)
    built = tool.build(params)
    if not isinstance(built, ToolFailure):
        assert await built.confirmation(ExecutionContext(Path.cwd())) is None
    result = await call(tool, **params)
    assert failure_type(result) == kind
    assert said in text_of(result)
    assert modes.planning


async def test_a_plan_that_cannot_be_stored_leaves_plan_mode_on(project: Path) -> None:
    (project / "file").touch()
    modes = Modes(planning=True)
    result = await call(ExitPlanMode(modes, project / "file" / "plans"), plan="x")
    assert result.error is not None
    assert modes.planning


async def test_there_is_nothing_to_leave_outside_plan_mode(plans: Path) -> None:
    modes = Modes(planning=True)
    late = ExitPlanMode(modes, plans).build({"plan": "x"})
    assert not isinstance(late, ToolFailure)
    modes.planning = False
    for result in (
        await call(ExitPlanMode(modes, plans), plan="x"),
        await late.execute(ExecutionContext(Path.cwd())),
    ):
        assert failure_type(result) == "execution_failed"
    assert not plans.exists()
