"""A front end in another process: over pipes and over a socket, alive, dead, slow and hostile."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from alhena.bus.bus import MessageBus
from alhena.bus.link import MAX_LINE, FrontEndLink, encoded
from alhena.bus.messages import (
    AskUserRequest,
    ToolCallsUpdate,
    ToolConfirmationRequest,
    ToolConfirmationResponse,
    ToolPolicyRejection,
    UpdatePolicy,
)
from alhena.events import ToolCallState
from alhena.policy.model import PolicyOutcome
from alhena.scheduler.states import Status
from tests.scheduler.kit import SmallTool, Stage, deciding, request, told
from tests.scheduler.rules import Rules, staged

FRONT_END = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "tool-confirmation-request":
        answer = {
            "type": "tool-confirmation-response",
            "correlationId": message["correlationId"],
            "confirmed": message["args"].get("text") != "no",
            "outcome": message["args"].get("outcome"),
        }
        print(json.dumps(answer), flush=True)
    elif message["type"] == "ask-user-request":
        answers = {str(n): q["question"].upper() for n, q in enumerate(message["questions"])}
        print(json.dumps({"type": "ask-user-response", "correlationId": message["correlationId"],
                          "answers": answers}), flush=True)
    print(line, end="", file=sys.stderr, flush=True)
"""

ASKED = """
import json, sys
def asked():
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "tool-confirmation-request":
            return message["correlationId"]
"""


class Elsewhere:
    """A front end in a process of its own, linked to a bus; `heard` is what it has got."""

    def __init__(self, process: asyncio.subprocess.Process, linked: "asyncio.Task[None]") -> None:
        self.process = process
        self.linked = linked
        self.heard: list[dict[str, Any]] = []

    async def until(self, kind: str) -> dict[str, Any]:
        """Reads what it has got, up to a message of this type."""
        assert self.process.stderr is not None
        while not self.heard or self.heard[-1]["type"] != kind:
            line = await self.process.stderr.readline()
            assert line, self.heard
            self.heard.append(json.loads(line))
        return self.heard[-1]


@asynccontextmanager
async def elsewhere(
    bus: MessageBus, program: str = FRONT_END, max_line: int = MAX_LINE
) -> AsyncIterator[Elsewhere]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdin=pipe, stdout=pipe, stderr=pipe
    )
    assert process.stdin is not None
    assert process.stdout is not None
    link = FrontEndLink(bus, process.stdout, process.stdin, max_line=max_line)
    linked = asyncio.create_task(link.run())
    await asyncio.sleep(0)  # it listens from its first step on
    try:
        yield Elsewhere(process, linked)
    finally:
        linked.cancel()
        await asyncio.wait({linked})
        if process.returncode is None:
            process.kill()
        await process.communicate()


def bare(stage: Stage) -> Stage:
    """The stage with nobody to ask in its own process."""
    stage.bus.__init__(stage.reports.append)
    return stage


def asking(*names: str) -> Stage:
    tools = [SmallTool(name) for name in names]
    return bare(Stage(*tools, decide=deciding(**dict.fromkeys(names, PolicyOutcome.ASK_USER))))


@pytest.mark.requirement("SCHED-09")
async def test_another_process_answers_what_is_asked():
    stage = asking("look")
    async with elsewhere(stage.bus) as other:
        yes, no = await stage.run(
            request("c0", "look", text="yes"), request("c1", "look", text="no")
        )
        first = await other.until("tool-confirmation-request")
    assert told(yes) == {"output": "got yes"}
    assert told(no) == {"error": "[Operation Cancelled] Reason: User did not allow tool call"}
    assert (first["toolName"], first["args"], first["reason"]) == (
        "look",
        {"text": "yes"},
        "rule for look",
    )
    assert first["details"]["prompt"] == "It will happen."
    assert first["outcomes"] == ["proceed_once", "cancel"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.requirement("SCHED-09", "SCHED-10")
async def test_another_process_approves_for_good_and_hears_of_the_rule():
    rules = Rules()
    stage = bare(staged(rules, SmallTool("look")))
    stage.bus.subscribe(UpdatePolicy, lambda message: rules.allow(message.tool_name))
    async with elsewhere(stage.bus) as other:
        done = await stage.run(request("c0", "look", outcome="proceed_always"), "look", "look")
        update = await other.until("update-policy")
    assert [call.status for call in done] == [Status.SUCCESS] * 3
    assert (update["callId"], update["rule"]["toolName"]) == ("c0", "look")


@pytest.mark.requirement("SCHED-09")
async def test_another_process_answers_questions_over_a_socket(tmp_path: Path):
    bus = MessageBus()
    path = tmp_path / "front-end.sock"
    links: list[asyncio.Task[None]] = []
    joined = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        links.append(asyncio.create_task(FrontEndLink(bus, reader, writer).run()))
        await asyncio.sleep(0)
        joined.set()

    connect = f"""
import os, socket
s = socket.socket(socket.AF_UNIX); s.connect({str(path)!r})
os.dup2(s.fileno(), 0); os.dup2(s.fileno(), 1)
"""
    server = await asyncio.start_unix_server(serve, path)
    async with server:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", connect + FRONT_END, stderr=asyncio.subprocess.DEVNULL
        )
        await joined.wait()
        question = {"question": "which?", "header": "h", "type": "text"}
        response = await bus.request(
            AskUserRequest(correlation_id=bus.new_id(), questions=(question,))
        )
        assert (response.answers, response.cancelled) == ({"0": "WHICH?"}, False)
        process.send_signal(signal.SIGTERM)
        await process.wait()
        await links[0]  # the other end has closed
    assert not bus.has(AskUserRequest)


@pytest.mark.requirement("SCHED-09")
async def test_a_front_end_that_dies_while_it_is_asked_is_no_approval_and_the_run_goes_on():
    stage = asking("look")
    stage.registry.register(SmallTool("free"))
    dies = ASKED + "asked(); import os; os.kill(os.getpid(), 9)"
    async with elsewhere(stage.bus, dies) as other:
        look, free = await stage.run("look", "free")
        await other.linked
    assert told(look) == {"error": "Tool execution was not approved: whoever was asked has gone."}
    assert "executing" not in stage.statuses("c0")
    assert free.status is Status.SUCCESS
    (late,) = await stage.run("look")  # and by now nobody is there at all
    assert "requires user confirmation" in told(late)["error"]


@pytest.mark.requirement("SCHED-09")
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("garbage", "what it sent is no response"),
        ('{"type": "tool-confirmation-response", "correlationId": 1}', "no response"),
        ('{"type": "update-policy", "callId": "c", "toolName": "t", "outcome": "o"}', "no resp"),
        ('{"type": "tool-confirmation-request"}', "no response"),
        ("[" * 100_000, "no response"),
        ('{"type": "ask-user-response", "correlationId": "ID"}', "AskUserResponse is no answer"),
        ("\\xff\\xfe", "no response"),
    ],
)
async def test_a_front_end_that_sends_what_is_no_answer_is_cut_off(line, reason):
    stage = asking("look")
    program = f"""
line = {line!r}.replace("ID", asked())
sys.stdout.buffer.write(line.encode("latin-1") + b"\\n")
sys.stdout.flush()
sys.stdin.read()
"""
    async with elsewhere(stage.bus, ASKED + program) as other:
        (done,) = await stage.run("look")
        await other.linked
    assert told(done) == {"error": "Tool execution was not approved: whoever was asked has gone."}
    (report,) = stage.reports
    assert report.startswith("a front end was cut off: ")
    assert reason in report


async def test_a_line_without_an_end_is_cut_off():
    stage = asking("look")
    flood = "print('x' * 1_000_000, flush=True)"
    async with elsewhere(stage.bus, flood, max_line=100_000) as other:
        await other.linked
    assert "longer than 100,000 bytes" in stage.reports[0]


async def test_answers_that_come_too_late_or_to_nothing_are_ignored():
    stage = asking("look")
    program = """
def say(number):
    print(json.dumps({"type": "tool-confirmation-response", "correlationId": number,
                      "confirmed": True}), flush=True)
say("nobody-1")
number = asked()
say(number); say(number); print(flush=True); say(number)
for line in sys.stdin: print(line, end="", file=sys.stderr, flush=True)
"""
    async with elsewhere(stage.bus, ASKED + program) as other:
        (done,) = await stage.run("look")
        update = ToolCallsUpdate(calls=(ToolCallState(call_id="c", name="n", status="last"),))
        stage.bus.publish(update)
        while (await other.until("tool-calls-update"))["calls"][0]["status"] != "last":
            other.heard.clear()
        assert not other.linked.done()
    assert done.status is Status.SUCCESS
    assert stage.reports == []


async def test_a_question_that_was_settled_elsewhere_is_closed_for_the_front_end():
    stage = asking("look")
    async with elsewhere(
        stage.bus, FRONT_END.replace("print(json.dumps(answer), flush=True)", "pass")
    ) as other:
        running = asyncio.create_task(stage.run("look"))
        asked = await other.until("tool-confirmation-request")
        stage.scheduler.confirm("c0", "proceed_once")
        assert (await running)[0].status is Status.SUCCESS
        closed = await other.until("request-closed")
    assert closed["correlationId"] == asked["correlationId"]


async def test_a_front_end_that_does_not_read_holds_nobody_up_and_gets_the_last_state():
    """What it has missed of a batch's states is not kept for it."""
    stage = asking("look")
    program = """
import sys
sys.stdin.readline()
print("read", file=sys.stderr, flush=True)
sys.stdin.readline()
last = ""
for line in sys.stdin:
    if "tool-calls-update" in line: last = line
    if "tool-policy-rejection" in line: break
for line in sys.stdin:
    last = line
    break
print(last, end="", file=sys.stderr, flush=True)
"""
    async with elsewhere(stage.bus, program) as other:
        bulk = ToolCallState(call_id="c", name="n" * 100_000, status="s")
        for _ in range(50):
            stage.bus.publish(ToolCallsUpdate(calls=(bulk,)))
            await asyncio.sleep(0)
        rejection = ToolPolicyRejection(call_id="c", name="t", tool_name="t", message="no")
        stage.bus.publish(rejection)
        last = ToolCallState(call_id="c", name="n", status="last")
        stage.bus.publish(ToolCallsUpdate(calls=(last,)))
        assert other.process.stderr is not None
        assert await other.process.stderr.readline() == b"read\n"
        end = msgspec.json.decode(await other.process.stderr.readline(), type=ToolCallsUpdate)
    assert end.calls == (last,)


async def test_a_link_that_is_cancelled_leaves_the_bus_and_refuses_what_is_open():
    bus = MessageBus()
    async with elsewhere(bus, "import sys; sys.stdin.read()") as other:
        message = ToolConfirmationRequest(
            correlation_id=bus.new_id(), call_id="c", name="t", tool_name="t", args={}, details={}
        )
        asked = asyncio.create_task(bus.request(message, None))
        await asyncio.sleep(0)
        other.linked.cancel()
        response = await asked
        assert (response.confirmed, response.requires_user_confirmation) == (False, True)
    assert not bus.has(ToolConfirmationRequest)


def test_messages_with_names_that_are_no_unicode_are_still_sent():
    name = os.fsdecode(b"caf\xe9")
    message = ToolConfirmationResponse(
        correlation_id=name, confirmed=True, payload={name: [name, 1, None]}
    )
    shown = "caf\ufffd"
    assert json.loads(encoded(message)) == {
        "type": "tool-confirmation-response",
        "correlationId": shown,
        "confirmed": True,
        "outcome": None,
        "payload": {shown: [shown, 1, None]},
        "requiresUserConfirmation": False,
        "reason": "",
    }
