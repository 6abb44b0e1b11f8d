import asyncio
from typing import Any

import pytest

from alhena.events import ConfirmationRequestEvent
from alhena.policy.model import PolicyOutcome
from alhena.scheduler.question import ConfirmationRequest, Payload
from alhena.scheduler.states import CallStatus, ConfirmationError
from alhena.tools.contract import (
    EditConfirmation,
    ExecutionContext,
    FileDiff,
    Kind,
    ToolConfirmationOutcome,
    ToolErrorType,
    ToolResult,
)
from tests.scheduler.kit import DETAILS, SmallTool, Stage, deciding, response_of

ASK = PolicyOutcome.ASK_USER
ONCE = ToolConfirmationOutcome.PROCEED_ONCE
CANCEL = ToolConfirmationOutcome.CANCEL


def asking(*names: str, **options: Any) -> Stage:
    tools = [SmallTool(name) for name in names]
    return Stage(*tools, decide=deciding(**dict.fromkeys(names, ASK)), **options)


def answering(stage: Stage, words: str = "", **answers: ToolConfirmationOutcome) -> None:
    """Answers each question through `confirm` the moment it is put."""

    def answer(event: object) -> None:
        if isinstance(event, ConfirmationRequestEvent):
            outcome = answers[event.name]
            payload = Payload(reason=words) if words and outcome is CANCEL else None
            stage.scheduler.confirm(event.call_id, outcome, payload)

    stage.on_event = answer


@pytest.mark.requirement("SCHED-03")
async def test_a_call_that_must_be_asked_for_waits_until_it_is_answered():
    stage = asking("write")
    asked = asyncio.Event()
    stage.on_event = lambda event: isinstance(event, ConfirmationRequestEvent) and asked.set()
    running = asyncio.create_task(stage.run("write"))
    await asked.wait()
    assert [call.status for call in stage.scheduler.calls] == [CallStatus.AWAITING_APPROVAL]
    assert stage.questions()[0].details == {
        "type": "info",
        "title": "Really?",
        "prompt": "It will happen.",
        "urls": [],
        "warnings": [],
    }
    assert stage.questions()[0].reason == "rule for write"
    stage.scheduler.confirm("c0", ONCE)
    (done,) = await running
    assert done.status is CallStatus.SUCCESS
    assert stage.statuses("c0") == [
        "validating",
        "awaiting_approval",
        "scheduled",
        "executing",
        "success",
    ]
    assert stage.responses()[0].decision == "accept"


async def test_a_refusal_with_words_ends_that_call_only():
    stage = asking("one", "two")
    answering(stage, words="two will do", one=CANCEL, two=ONCE)
    one, two = await stage.run("one", "two")
    assert one.status is CallStatus.CANCELLED
    error = "[Operation Cancelled] Reason: User did not allow tool call. Feedback: two will do"
    assert response_of(one) == {"error": error}
    assert not one.ends_turn
    assert two.status is CallStatus.SUCCESS
    assert [event.decision for event in stage.responses()] == ["reject", "accept"]


async def test_a_question_shows_the_state_that_earlier_calls_left_behind(project):
    """The second change is asked about only after the first was made."""
    target = project / "a.txt"
    target.write_text("0", encoding="utf-8")
    shown: list[str] = []

    async def bump(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        value = str(int(target.read_text(encoding="utf-8")) + 1)
        target.write_text(value, encoding="utf-8")
        return ToolResult(llm_content=value)

    def approve(asked: ConfirmationRequest) -> bool:
        shown.append(target.read_text(encoding="utf-8"))
        return True

    stage = Stage(
        SmallTool("bump", bump, kind=Kind.EDIT), decide=deciding(bump=ASK), approver=approve
    )
    await stage.run("bump", "bump", "bump")
    assert shown == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("answer", "status"),
    [(True, "success"), (False, "cancelled"), (ONCE, "success"), (CANCEL, "cancelled")],
)
async def test_an_approver_answers_with_a_truth_value_or_an_outcome(answer, status):
    async def approve(asked: ConfirmationRequest) -> object:
        assert asked.details == DETAILS
        return answer

    stage = asking("write", approver=approve)
    (done,) = await stage.run("write")
    assert done.status == status


@pytest.mark.parametrize("answer", [None, "yes", 1, ToolConfirmationOutcome.MODIFY_WITH_EDITOR])
async def test_an_answer_that_is_none_never_runs_the_call(answer):
    stage = asking("write", approver=lambda asked: answer)
    (done,) = await stage.run("write")
    assert done.status is CallStatus.ERROR
    assert response_of(done)["error"].startswith("Tool execution was not approved: ")
    assert "executing" not in stage.statuses("c0")


async def test_an_approver_that_raises_ends_its_call_as_an_error_and_others_go_on():
    def approve(asked: ConfirmationRequest) -> bool:
        if asked.name == "one":
            raise KeyError("lost")
        return True

    stage = asking("one", "two", approver=approve)
    one, two = await stage.run("one", "two")
    assert one.status is CallStatus.ERROR
    assert response_of(one) == {
        "error": "Tool execution was not approved: the approval callback raised KeyError: 'lost'."
    }
    assert "executing" not in stage.statuses("c0")
    assert two.status is CallStatus.SUCCESS


async def test_an_approver_that_exits_its_thread_is_no_approval():
    def approve(asked: ConfirmationRequest) -> bool:
        raise SystemExit(0)

    stage = asking("write", approver=approve)
    (done,) = await stage.run("write")
    assert done.status is CallStatus.ERROR


async def test_an_approver_that_cancels_itself_is_no_approval():
    async def approve(asked: ConfirmationRequest) -> bool:
        raise asyncio.CancelledError

    stage = asking("write", approver=approve)
    (done,) = await stage.run("write")
    assert done.status is CallStatus.ERROR
    assert "executing" not in stage.statuses("c0")


async def test_confirm_overtakes_an_approver_that_still_thinks():
    stopped = asyncio.Event()

    async def approve(asked: ConfirmationRequest) -> bool:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return False

    stage = asking("write", approver=approve)
    running = asyncio.create_task(stage.run("write"))
    while not stage.questions():
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    stage.scheduler.confirm("c0", ONCE)
    (done,) = await running
    assert done.status is CallStatus.SUCCESS


@pytest.mark.requirement("SCHED-04")
async def test_answers_that_no_call_can_take_are_refused_and_the_call_keeps_waiting():
    stage = asking("write")
    running = asyncio.create_task(stage.run("write"))
    while not stage.questions():
        await asyncio.sleep(0)
    with pytest.raises(ConfirmationError, match="no call 'zzz' waits"):
        stage.scheduler.confirm("zzz", ONCE)
    with pytest.raises(ConfirmationError, match=r"modify_with_editor.* not offered"):
        stage.scheduler.confirm("c0", ToolConfirmationOutcome.MODIFY_WITH_EDITOR)
    with pytest.raises(ConfirmationError, match='"newContent" does not go'):
        stage.scheduler.confirm("c0", ONCE, {"newContent": "x"})
    assert [call.status for call in stage.scheduler.calls] == [CallStatus.AWAITING_APPROVAL]
    stage.scheduler.confirm("c0", CANCEL)
    with pytest.raises(ConfirmationError, match="no call 'c0' waits"):
        stage.scheduler.confirm("c0", ONCE)
    (done,) = await running
    assert done.status is CallStatus.CANCELLED


async def test_earlier_calls_of_a_wave_run_while_a_later_one_is_asked_about():
    stage = Stage(SmallTool("free"), SmallTool("asked"), decide=deciding(asked=ASK))
    ended = asyncio.Event()
    stage.on_event = lambda event: getattr(event, "status", "") == "success" and ended.set()
    running = asyncio.create_task(stage.run("free", "asked"))
    await ended.wait()
    assert stage.statuses("c0")[-1] == "success"
    assert stage.statuses("c1")[-1] == "awaiting_approval"
    stage.scheduler.confirm("c1", ONCE)
    await running


async def test_a_tool_that_cannot_say_what_to_confirm_is_not_run():
    class Mute(SmallTool):
        def build(self, params: dict[str, Any]) -> Any:
            call = super().build(params)

            async def confirmation(context: ExecutionContext) -> None:
                raise RuntimeError("no words")

            call.confirmation = confirmation
            return call

    stage = Stage(Mute("mute"), decide=deciding(mute=ASK))
    (done,) = await stage.run("mute")
    assert done.response.error_type is ToolErrorType.UNHANDLED_EXCEPTION
    assert "RuntimeError: no words" in response_of(done)["error"]
    assert "executing" not in stage.statuses("c0")


async def test_a_refused_edit_keeps_its_diff_for_people():
    edit = EditConfirmation(
        title="Confirm Write: a",
        file_path="/w/a",
        file_name="a",
        file_diff="--- a\n+++ a\n@@ -1 +1,2 @@\n-old\n+new\n+more\n",
        original_content="old\n",
        new_content="new\nmore\n",
        is_new_file=False,
    )
    stage = Stage(
        SmallTool("write", asks=edit), decide=deciding(write=ASK), approver=lambda asked: False
    )
    (done,) = await stage.run("write")
    display = done.response.result_display
    assert isinstance(display, FileDiff)
    assert display.file_diff == edit.file_diff
    assert (display.diff_stat.ai_added_lines, display.diff_stat.ai_removed_lines) == (2, 1)
    assert stage.responses()[0].display["type"] == "file_diff"
