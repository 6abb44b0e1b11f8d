"""A person changes what a call is about to write: in an editor, or in the answer (TOOLS-21)."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alhena.policy.model import Decision, PolicyCall, PolicyOutcome
from alhena.scheduler.bus import ToolConfirmationRequest, ToolConfirmationResponse
from alhena.scheduler.confirmation_flow import MAX_QUESTIONS
from alhena.scheduler.question import Answer, ConfirmationRequest, Payload
from alhena.scheduler.states import CallStatus, CompletedToolCall, ConfirmationError
from alhena.system.workspace import Workspace
from alhena.tools.builtin.edit_files import Replace, WriteFile
from alhena.tools.contract import (
    EditConfirmation,
    ProposedContents,
    ToolConfirmationOutcome,
    ToolErrorType,
    ToolFailure,
)
from alhena.tools.edit.external_editor import edit_externally
from tests.scheduler.kit import Stage, deciding, request, response_of

ASK = PolicyOutcome.ASK_USER
Outcome = ToolConfirmationOutcome
EDITOR, ONCE = Outcome.MODIFY_WITH_EDITOR, Outcome.PROCEED_ONCE


def editing(project: Path, *answers: Answer | Outcome, **options: Any) -> tuple[Stage, list[Any]]:
    """A stage with the editing tools; one question after the other gets these answers."""
    seen: list[ConfirmationRequest] = []
    left = list(answers)

    def approve(asked: ConfirmationRequest) -> Answer | Outcome:
        seen.append(asked)
        return left.pop(0)

    workspace = Workspace(project)
    stage = Stage(
        Replace(workspace),
        WriteFile(workspace),
        **{"decide": deciding(replace=ASK, write_file=ASK), "approver": approve} | options,
    )
    return stage, seen


def leaving(*texts: str | ToolFailure | Exception) -> Callable[[ProposedContents], Any]:
    """An editor in which a person leaves these texts, one after the other."""
    left = list(texts)

    async def edit(contents: ProposedContents) -> str | ToolFailure:
        text = left.pop(0)
        if isinstance(text, Exception):
            raise text
        return text

    return edit


async def replace_call(stage: Stage) -> CompletedToolCall:
    call = request("c0", "replace", file_path="a.txt", old_string="b", new_string="B")
    (done,) = await stage.scheduler.schedule([call])
    return done


@pytest.fixture
def target(project: Path) -> Path:
    path = project / "a.txt"
    path.write_bytes(b"a\nb\nc\n")
    return path


@pytest.mark.requirement("SCHED-04", "TOOLS-21")
async def test_what_was_changed_in_an_editor_is_shown_again_and_then_written(project, target):
    stage, seen = editing(project, EDITOR, ONCE, edit=leaving("a\nmine\nc\n"))
    done = await replace_call(stage)
    assert target.read_bytes() == b"a\nmine\nc\n"
    assert [each.details.new_content for each in seen] == ["a\nB\nc\n", "a\nmine\nc\n"]
    assert "User modified the `new_string` to be: mine" in response_of(done)["output"]
    assert seen[0].outcomes == ("proceed_once", "modify_with_editor", "cancel")
    assert stage.statuses("c0") == [
        "validating",
        *["awaiting_approval"] * 3,  # asked, in the editor, asked again
        "scheduled",
        "executing",
        "success",
    ]
    (response,) = stage.responses()
    assert response.decision == "modify"
    assert response.args is not None
    assert response.args["new_string"] == "a\nmine\nc\n"
    proposed = {"file_path": "a.txt", "old_string": "b", "new_string": "B"}
    assert response.proposed_args == proposed
    assert not seen[1].problem


@pytest.mark.requirement("SCHED-04", "TOOLS-21")
@pytest.mark.parametrize(
    ("outcome", "problem"),
    [
        ("a\nB\nc\n", "The editor left the proposed change as it was."),
        (ToolFailure("The editor vi ended with exit code 1"), "The editor vi ended"),
        (OSError("no terminal"), "OSError: no terminal"),
        ("a\nhalf \ud800\n", "half of a surrogate pair"),
    ],
)
async def test_an_editor_that_comes_to_nothing_has_the_question_asked_again(
    project, target, outcome, problem
):
    stage, seen = editing(project, EDITOR, Outcome.CANCEL, edit=leaving(outcome))
    done = await replace_call(stage)
    assert done.status is CallStatus.CANCELLED
    assert target.read_bytes() == b"a\nb\nc\n"
    assert len(seen) == 2
    assert problem in seen[1].problem
    assert stage.questions()[1].problem == seen[1].problem
    assert seen[1].details == seen[0].details


@pytest.mark.requirement("TOOLS-21")
async def test_a_person_may_go_to_the_editor_again(project, target):
    stage, seen = editing(project, EDITOR, EDITOR, ONCE, edit=leaving("a\none\nc\n", "a\ntwo\nc\n"))
    await replace_call(stage)
    assert target.read_bytes() == b"a\ntwo\nc\n"
    assert len(seen) == 3


@pytest.mark.requirement("TOOLS-21")
async def test_an_editor_that_is_a_program_changes_the_file(project, target):
    script = project / "editor.sh"
    script.write_text('#!/bin/sh\nprintf "a\\nfrom a program\\nc\\n" > "$2"\n', encoding="utf-8")

    def command(old: Path, new: Path) -> list[str]:
        return ["/bin/sh", str(script), str(old), str(new)]

    async def edit(contents: ProposedContents) -> str | ToolFailure:
        return await edit_externally(contents, command, {"PATH": "/usr/bin:/bin"})

    stage, _ = editing(project, EDITOR, ONCE, edit=edit)
    await replace_call(stage)
    assert target.read_bytes() == b"a\nfrom a program\nc\n"


@pytest.mark.requirement("SCHED-04", "TOOLS-21")
async def test_content_that_comes_with_the_answer_is_what_is_written(project, target):
    answer = Answer(ONCE, Payload(new_content="a\ninline\nc\n"))
    stage, seen = editing(project, answer)
    done = await replace_call(stage)
    assert target.read_bytes() == b"a\ninline\nc\n"
    assert "User modified" in response_of(done)["output"]
    assert len(seen) == 1
    assert stage.responses()[0].decision == "modify"


@pytest.mark.requirement("TOOLS-21")
async def test_an_editor_in_an_ide_answers_over_the_bus_with_what_it_holds(project, target):
    """The diff view of an IDE is one more listener, beside a person at a terminal who thinks."""

    async def thinks(asked: ToolConfirmationRequest) -> None:
        await asyncio.Event().wait()

    stage, _ = editing(project, approver=None)
    stage.bus.subscribe(ToolConfirmationRequest, thinks)

    def ide(message: ToolConfirmationRequest) -> None:
        assert message.modifiable
        stage.bus.publish(
            ToolConfirmationResponse(
                correlation_id=message.correlation_id,
                confirmed=True,
                payload={"newContent": message.details.new_content.replace("B", "IDE")},
            )
        )

    stage.bus.subscribe(ToolConfirmationRequest, ide)
    done = await replace_call(stage)
    assert target.read_bytes() == b"a\nIDE\nc\n"
    assert "User modified" in response_of(done)["output"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_content_that_is_what_was_proposed_is_no_change(project, target):
    stage, _ = editing(project, Answer(ONCE, Payload(new_content="a\nB\nc\n")))
    done = await replace_call(stage)
    assert "User modified" not in response_of(done)["output"]
    assert stage.responses()[0].decision == "accept"


@pytest.mark.requirement("SCHED-04")
async def test_content_that_cannot_be_written_has_the_question_asked_again(project, target):
    bad, good = (Answer(ONCE, Payload(new_content=text)) for text in ("\ud800", "ok\n"))
    stage, seen = editing(project, bad, good)
    await replace_call(stage)
    assert "surrogate" in seen[1].problem
    assert target.read_bytes() == b"ok\n"


@pytest.mark.requirement("SCHED-04")
@pytest.mark.parametrize("answer", [EDITOR, Answer(ONCE, Payload(new_content="forbidden\n"))])
async def test_the_policy_is_asked_about_what_a_person_has_made_of_a_call(project, target, answer):
    seen: list[dict[str, Any]] = []

    def decide(call: PolicyCall) -> Decision:
        seen.append(call.args)
        forbidden = "forbidden" in str(call.args)
        return Decision(outcome=PolicyOutcome.DENY if forbidden else ASK, reason="planned")

    stage, asked = editing(project, answer, decide=decide, edit=leaving("forbidden\n"))
    done = await replace_call(stage)
    assert done.response.error_type is ToolErrorType.POLICY_VIOLATION
    assert target.read_bytes() == b"a\nb\nc\n"
    assert len(asked) == 1
    assert seen[-1]["modified_by_user"] is True


@pytest.mark.requirement("SCHED-04")
async def test_why_it_is_asked_is_said_anew_for_what_a_person_has_made_of_a_call(project, target):
    def decide(call: PolicyCall) -> Decision:
        mine = "mine" in str(call.args)
        return Decision(outcome=ASK, reason="mine" if mine else "theirs", parts=("p",) * mine)

    stage, seen = editing(project, EDITOR, ONCE, decide=decide, edit=leaving("a\nmine\nc\n"))
    done = await replace_call(stage)
    assert [(each.reason, each.parts) for each in seen] == [("theirs", ()), ("mine", ("p",))]
    assert done.decision.reason == "mine"


async def test_without_an_editor_none_is_offered(project, target):
    stage, seen = editing(project, Outcome.CANCEL)
    await replace_call(stage)
    assert seen[0].outcomes == ("proceed_once", "cancel")


async def test_a_call_whose_content_nobody_can_change_takes_none(project, target):
    stage, _ = editing(project, approver=None)
    running = asyncio.create_task(replace_call(stage))
    while not stage.questions():
        await asyncio.sleep(0)
    with pytest.raises(ConfirmationError, match='"newContent" does not go with the answer "canc'):
        stage.scheduler.confirm("c0", Outcome.CANCEL, {"newContent": "x"})
    stage.scheduler.confirm("c0", ONCE, {"newContent": "x\n"})
    await running
    assert target.read_bytes() == b"x\n"


async def test_a_program_that_never_tires_of_the_editor_is_stopped(project, target):
    async def edit(contents: ProposedContents) -> ToolFailure:
        return ToolFailure("no")

    stage, seen = editing(project, approver=lambda _: EDITOR, edit=edit)
    done = await replace_call(stage)
    assert done.status is CallStatus.ERROR
    assert len(stage.questions()) == MAX_QUESTIONS
    assert seen == []


async def test_a_call_that_is_cancelled_in_the_editor_ends_and_so_does_the_editor(project, target):
    opened, closed = asyncio.Event(), asyncio.Event()

    async def edit(contents: ProposedContents) -> str:
        opened.set()
        try:
            await asyncio.Event().wait()
        finally:
            closed.set()
        return ""

    stage, _ = editing(project, EDITOR, edit=edit)
    running = asyncio.create_task(replace_call(stage))
    await opened.wait()
    (waiting,) = stage.scheduler.calls
    assert isinstance(waiting.details, EditConfirmation)
    assert waiting.details.is_modifying
    with pytest.raises(ConfirmationError):
        stage.scheduler.confirm("c0", ONCE)
    stage.scheduler.cancel_all()
    assert (await running).status is CallStatus.CANCELLED
    assert closed.is_set()
    assert target.read_bytes() == b"a\nb\nc\n"
    assert asyncio.all_tasks() == {asyncio.current_task()}
