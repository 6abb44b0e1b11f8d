from pathlib import Path
from typing import Any

import pytest

from alhena import tool
from alhena.errors import InputError
from alhena.events import (
    ApiResponseEvent,
    RunFinishedEvent,
    ToolCallRequestEvent,
    ToolCallResponseEvent,
)
from alhena.policy.model import ApprovalMode
from alhena.scheduler.question import ConfirmationRequest
from alhena.tools.contract import Kind, ToolConfirmationOutcome
from tests.agent.kit import agent, conforming, events_of, kinds
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text


@pytest.mark.requirement("CHAT-05")
async def test_a_session_starts_with_the_environment_and_its_acknowledgement(project: Path):
    (project / "src").mkdir()
    (project / "src" / "a.py").write_text("x", encoding="utf-8")
    generator = ScriptedGenerator([text("hello")], [text("again")])
    async with agent(generator) as running:
        assert await running.ask("hi") == "hello"
        assert await running.ask("more") == "again"
    context, acknowledgement, prompt = generator.seen(0)
    assert context["role"] == "user"
    assert str(project) in context["parts"][0]["text"]
    assert "a.py" in context["parts"][0]["text"]
    assert acknowledgement == {
        "role": "model",
        "parts": [{"text": "Got it. Thanks for the context!"}],
    }
    assert prompt == {"role": "user", "parts": [{"text": "hi"}]}
    assert generator.seen(1)[:3] == [context, acknowledgement, prompt]
    assert [content["parts"][0]["text"] for content in generator.seen(1)[3:]] == ["hello", "more"]
    assert conforming(generator)


@pytest.mark.requirement("CHAT-01", "WIRE-15")
async def test_calls_run_and_their_results_are_what_the_model_sees_next(project: Path):
    (project / "a.txt").write_text("alpha", encoding="utf-8")
    generator = ScriptedGenerator(
        [
            chunk(
                {"text": "Reading"},
                call("read_file", {"absolute_path": "a.txt"}, id="1"),
                call("nope", {}, id="2"),
                call("list_directory", {"path": 7}, id="3"),
                finish="STOP",
            )
        ],
        [text("It says alpha.")],
    )
    async with agent(generator) as running:
        events, error = await events_of(running, "read")
    assert error is None
    assert kinds(events)[:2] == ["init", "user_message"]
    requests = [event for event in events if isinstance(event, ToolCallRequestEvent)]
    responses = [event for event in events if isinstance(event, ToolCallResponseEvent)]
    assert [event.call_id for event in requests] == ["1", "2", "3"]
    assert sorted(event.call_id for event in responses) == ["1", "2", "3"]
    results = [part["functionResponse"] for part in generator.seen(1)[-1]["parts"]]
    assert [(result["id"], result["name"]) for result in results] == [
        ("1", "read_file"),
        ("2", "nope"),
        ("3", "list_directory"),
    ]
    assert results[0]["response"] == {"output": "alpha"}
    assert 'Tool "nope" not found' in results[1]["response"]["error"]
    assert "path" in results[2]["response"]["error"]
    assert events[-1] == RunFinishedEvent(
        reason="done",
        text="It says alpha.",
        turns=2,
        duration_ms=events[-1].duration_ms,
        finish_reason="STOP",
    )
    assert conforming(generator)


async def test_what_needs_approval_is_denied_without_a_callback_and_not_declared(project: Path):
    generator = ScriptedGenerator(
        [chunk(call("write_file", {"file_path": "x", "content": "y"}), finish="STOP")],
        [text("no")],
    )
    async with agent(generator) as running:
        events, _ = await events_of(running, "write")
    assert "write_file" not in generator.requests[0].config.function_names()
    assert 'Tool "write_file" not found' in str(generator.seen(1)[-1])
    assert not (project / "x").exists()
    denied = [event for event in events if isinstance(event, ToolCallResponseEvent)]
    assert [event.decision for event in denied] == ["reject"]


@pytest.mark.parametrize(
    ("answer", "written"),
    [
        (True, True),
        (ToolConfirmationOutcome.PROCEED_ONCE, True),
        (False, False),
        (ToolConfirmationOutcome.CANCEL, False),
        ("yes", False),
        (RuntimeError("the callback broke"), False),
    ],
)
async def test_the_approval_callback_decides_and_silence_is_never_consent(
    project: Path, answer: object, written: bool
):
    asked: list[ConfirmationRequest] = []

    def approve(request: ConfirmationRequest) -> Any:
        asked.append(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    generator = ScriptedGenerator(
        [chunk(call("write_file", {"file_path": "x", "content": "y"}), finish="STOP")],
        [text("done")],
    )
    async with agent(generator, approve=approve) as running:
        await running.ask("write")
    assert [request.tool_name for request in asked] == ["write_file"]
    assert asked[0].decision.reason
    assert (project / "x").exists() is written
    if answer in (False, ToolConfirmationOutcome.CANCEL):  # the next word is the person's
        assert len(generator.requests) == 1
        return
    assert ("error" in generator.seen(1)[-1]["parts"][0]["functionResponse"]["response"]) is (
        not written
    )


async def test_always_holds_for_the_rest_of_the_session_and_for_such_commands_only(project: Path):
    asked: list[str] = []

    async def approve(request: ConfirmationRequest) -> ToolConfirmationOutcome:
        asked.append(request.args["command"])
        return ToolConfirmationOutcome.PROCEED_ALWAYS

    def shell(command: str) -> list[dict[str, Any]]:
        return [chunk(call("run_shell_command", {"command": command}), finish="STOP")]

    generator = ScriptedGenerator(
        shell("touch one"), shell("touch two"), shell("touch a && mkdir b"), [text("done")]
    )
    async with agent(generator, approve=approve) as running:
        await running.ask("go")
    assert asked == ["touch one", "touch a && mkdir b"]
    assert (project / "two").exists()
    assert (project / "b").is_dir()


async def test_python_functions_are_tools_behind_the_same_gate():
    ran: list[str] = []

    @tool(confirm=True)
    def asks(word: str) -> str:
        """Says a word."""
        ran.append(word)
        return word.upper()

    @tool(kind=Kind.READ)
    async def free(count: int) -> list[int]:
        """Counts."""
        return list(range(count))

    calls = chunk(call("asks", {"word": "a"}), call("free", {"count": 2}), finish="STOP")
    generator = ScriptedGenerator([calls], [text("done")])
    async with agent(generator, tools=[asks, free]) as running:
        await running.ask("go")
    results = [part["functionResponse"] for part in generator.seen(1)[-1]["parts"]]
    assert "error" in results[0]["response"]
    assert results[1]["response"] == {"output": "[0,1]"}
    assert ran == []
    generator = ScriptedGenerator([calls], [text("done")])
    async with agent(generator, tools=[asks, free], approve=lambda _: True) as running:
        await running.ask("go")
    results = [part["functionResponse"] for part in generator.seen(1)[-1]["parts"]]
    assert results[0]["response"] == {"output": "A"}
    assert ran == ["a"]


async def test_a_programs_own_tool_runs_without_asking_unless_a_rule_wants_a_person_asked(
    project: Path,
):
    ran: list[str] = []

    @tool
    def lookup(word: str) -> str:
        """Look a word up."""
        ran.append(word)
        return word.upper()

    def script() -> ScriptedGenerator:
        return ScriptedGenerator(
            [chunk(call("lookup", {"word": "a"}), finish="STOP")], [text("done")]
        )

    async with agent(script(), tools=[lookup]) as unattended:
        await unattended.ask("go")
    assert ran == ["a"]
    rules = project / "rules.toml"
    rules.write_text(
        '[[rule]]\ntoolName = "lookup"\ndecision = "ask_user"\npriority = 100\n', encoding="utf-8"
    )
    asked: list[str] = []

    def approve(request: ConfirmationRequest) -> bool:
        asked.append(request.tool_name)
        return False

    async with agent(script(), tools=[lookup], policy=[rules], approve=approve) as attended:
        await attended.ask("go")
    assert (ran, asked) == (["a"], ["lookup"])


@pytest.mark.parametrize("name", ["lookup", "write_todos", "read_file", "complete_task"])
@pytest.mark.parametrize("mode", [ApprovalMode.DEFAULT, ApprovalMode.PLAN])
async def test_a_programs_own_tool_that_asks_is_asked_about_whatever_its_name(
    name: str, mode: ApprovalMode
):
    ran: list[str] = []

    @tool(name=name, confirm=True)
    def own() -> str:
        """Does something of the program's."""
        ran.append(name)
        return "did it"

    generator = ScriptedGenerator([chunk(call(name, {}), finish="STOP")], [text("done")])
    asked: list[str] = []

    def approve(request: ConfirmationRequest) -> bool:
        asked.append(request.tool_name)
        return False

    async with agent(generator, tools=[own], approve=approve, approval_mode=mode) as running:
        await running.ask("go")
    assert ran == []
    assert asked == ([name] if mode is ApprovalMode.DEFAULT else [])


async def test_a_workspace_that_is_not_there_is_named(project: Path):
    (project / "file").write_text("x", encoding="utf-8")
    for cwd in ("/nope/x", project / "file"):
        with pytest.raises(InputError, match=str(cwd)):
            async with agent(ScriptedGenerator(), cwd=cwd):
                pass


@pytest.mark.requirement("WIRE-08")
async def test_every_token_count_of_the_service_reaches_the_events():
    usage = {
        "promptTokenCount": 1,
        "candidatesTokenCount": 2,
        "cachedContentTokenCount": 3,
        "thoughtsTokenCount": 4,
        "toolUsePromptTokenCount": 5,
        "totalTokenCount": 15,
    }
    generator = ScriptedGenerator([chunk({"text": "x"}, finish="STOP", usage=usage)])
    async with agent(generator) as running:
        events, _ = await events_of(running, "go")
    (answered,) = (event for event in events if isinstance(event, ApiResponseEvent))
    assert (
        answered.input_tokens,
        answered.output_tokens,
        answered.cached_tokens,
        answered.thoughts_tokens,
        answered.tool_tokens,
        answered.total_tokens,
    ) == (1, 2, 3, 4, 5, 15)


async def test_a_history_can_be_carried_into_another_session():
    first = ScriptedGenerator([text("one")])
    async with agent(first) as running:
        await running.ask("hi")
        history = running.history
    second = ScriptedGenerator([text("two")])
    async with agent(second, history=history) as running:
        await running.ask("more")
    assert second.seen(0)[:-1] == [*first.seen(0), {"role": "model", "parts": [{"text": "one"}]}]
