"""A person is asked about a command that is not what it looks like."""

import pytest

from alhena.events import ConfirmationRequestEvent, Event, ToolCallUpdateEvent
from alhena.scheduler.question import ConfirmationRequest
from alhena.tools.contract import ExecConfirmation, ToolConfirmationOutcome
from tests.support.agents import scripted_agent
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text

HOSTILE = "npm test" + " " * 300 + "; echo \u202ehi\x1b[8m"
Outcome = ToolConfirmationOutcome


async def asked_about(command: str) -> tuple[ConfirmationRequest, list[Event]]:
    asked: list[ConfirmationRequest] = []

    def refuse(request: ConfirmationRequest) -> bool:
        asked.append(request)
        return False

    called = call("run_shell_command", {"command": command}, id="c")
    generator = ScriptedGenerator([chunk(called, finish="STOP")], [text("done")])
    async with scripted_agent(generator=generator, approve=refuse) as agent:
        events = [event async for event in agent.run("go")]
    (request,) = asked
    return request, events


@pytest.mark.parametrize(("command", "lasts"), [("npm test", True), (HOSTILE, False)])
async def test_no_answer_holds_beyond_a_command_that_may_deceive(command: str, lasts: bool) -> None:
    request, _ = await asked_about(command)
    assert (Outcome.PROCEED_ALWAYS in request.outcomes) == lasts
    assert bool(request.lasting) == lasts
    assert {Outcome.PROCEED_ONCE, Outcome.CANCEL} <= set(request.outcomes)


async def test_the_whole_command_goes_out_raw_for_programs_and_escaped_for_people() -> None:
    request, events = await asked_about(HOSTILE)
    assert isinstance(request.details, ExecConfirmation)
    (event,) = [each for each in events if isinstance(each, ConfirmationRequestEvent)]
    assert event.details["command"] == HOSTILE
    shown = r"npm test\{300 spaces}; echo \u202ehi\x1b[8m"
    assert event.details["commandShown"] == request.details.command_shown == shown
    assert event.details["warnings"] == [
        r"contains a right-to-left override (\u202e) at column 316",
        r"contains an escape character (\x1b) at column 319",
        "has 300 blanks in a row at column 9",
    ]
    updates = [each for each in events if isinstance(each, ToolCallUpdateEvent)]
    assert {each.description for each in updates} <= {"", r"npm test ; echo \u202ehi\x1b[8m"}
