import asyncio
import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from alhena.agent.limits import TurnLimitError
from alhena.agent.runner import SessionRunner
from alhena.errors import ConfigError
from alhena.events import (
    Event,
    HookCallEvent,
    ToolCallResponseEvent,
    UserMessageEvent,
)
from tests.agent.kit import agent, conforming, events_of, kinds, warnings
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text


def says(value: Any, *, first: str = "cat >/dev/null") -> str:
    return f"{first}; echo {shlex.quote(json.dumps(value))}"


def agent_with_hooks(
    generator: ScriptedGenerator, /, *, given: Any = None, **events: str | list[str]
) -> SessionRunner:
    """An agent with these commands as hooks of its program."""
    hooks = {
        event: [{"hooks": [{"command": each} for each in ([it] if isinstance(it, str) else it)]}]
        for event, it in events.items()
    }
    return agent(generator, hooks={"hooks": hooks}, **(given or {}))


def texts(generator: ScriptedGenerator, index: int) -> list[list[str]]:
    """The texts of a request's contents behind the opening."""
    return [
        [part["text"] for part in content["parts"] if "text" in part]
        for content in generator.seen(index)[2:]
    ]


def hook_calls(events: list[Event]) -> list[str]:
    return [event.event for event in events if isinstance(event, HookCallEvent)]


@pytest.mark.requirement("HOOK-04")
async def test_a_session_begins_and_ends_once_and_tells_where_it_is(project: Path):
    generator = ScriptedGenerator([text("one")], [text("two")])
    running = agent_with_hooks(
        generator,
        SessionStart="cat >>start; echo >>start",
        SessionEnd="cat >>end; echo >>end",
        BeforeAgent="cat >>before; echo >>before",
        AfterAgent="cat >>after; echo >>after",
    )
    async with running:
        assert await running.ask("first") == "one"
        assert await running.ask("second") == "two"
        session = running.session_id
    told = {
        name: [json.loads(line) for line in (project / name).read_text("utf-8").splitlines()]
        for name in ("start", "end", "before", "after")
    }
    assert [each["source"] for each in told["start"]] == ["startup"]
    assert [each["reason"] for each in told["end"]] == ["exit"]
    assert [each["prompt"] for each in told["before"]] == ["first", "second"]
    assert [
        (each["prompt"], each["prompt_response"], each["stop_hook_active"])
        for each in told["after"]
    ] == [("first", "one", False), ("second", "two", False)]
    for name, event in (("start", "SessionStart"), ("end", "SessionEnd")):
        each = told[name][0]
        assert (each["session_id"], each["cwd"], each["hook_event_name"]) == (
            session,
            str(project),
            event,
        )


@pytest.mark.requirement("HOOK-04")
async def test_contexts_stand_where_they_are_documented():
    generator = ScriptedGenerator([text("one")], [text("two")])
    running = agent_with_hooks(
        generator,
        SessionStart=says({"hookSpecificOutput": {"additionalContext": "start <b>"}}),
        BeforeAgent=says({"hookSpecificOutput": {"additionalContext": "before"}}),
    )
    async with running:
        await running.ask("first")
        await running.ask("second")
    assert texts(generator, 0) == [
        [
            "<hook_context>start &lt;b&gt;</hook_context>\n\nfirst",
            "<hook_context>before</hook_context>",
        ]
    ]
    assert texts(generator, 1)[-1] == ["second", "<hook_context>before</hook_context>"]
    assert conforming(generator)


async def test_a_prompt_that_is_interrupted_during_the_first_hooks_leaves_them_to_the_next(
    project: Path,
):
    wait = "echo >>begun; until [ -e go ]; do sleep 0.05; done"
    command = says({"decision": "deny", "reason": "not here"}, first=wait)
    async with agent_with_hooks(ScriptedGenerator([text("x")]), SessionStart=command) as running:
        first = asyncio.create_task(events_of(running, "first"))
        while not (project / "begun").exists():
            await asyncio.sleep(0.01)
        assert running.interrupt()
        await first
        (project / "go").touch()
        events, _ = await events_of(running, "second")
    assert warnings(events) == ["Agent execution blocked: not here"]
    assert (project / "begun").read_text(encoding="utf-8") == "\n\n"


@pytest.mark.requirement("HOOK-04")
async def test_a_blocked_prompt_is_not_run_and_leaves_no_trace():
    generator = ScriptedGenerator([text("fine")])
    deny = "if grep -q '\"bad\"'; then echo not today >&2; exit 2; fi"
    async with agent_with_hooks(generator, BeforeAgent=deny) as running:
        events, error = await events_of(running, "bad")
        assert error is None
        assert warnings(events) == ["Agent execution blocked: not today"]
        assert events[-1].reason == "blocked"
        assert generator.requests == []
        assert await running.ask("good") == "fine"
    assert texts(generator, 0) == [["good"]]


async def test_a_hook_that_stops_ends_the_run_in_good_order_and_the_prompt_is_kept():
    generator = ScriptedGenerator([text("fine")])
    stop = f"if grep -q '\"one\"'; then {says({'continue': False, 'stopReason': 'enough'})}; fi"
    async with agent_with_hooks(generator, BeforeAgent=stop) as running:
        events, error = await events_of(running, "one")
        assert error is None
        assert warnings(events) == ["Agent execution stopped by hook: enough"]
        assert events[-1].reason == "stopped"
        assert await running.ask("two") == "fine"
    assert texts(generator, 0)[0] == ["one"]
    assert texts(generator, 0)[-1] == ["two"]
    assert conforming(generator)


@pytest.mark.requirement("HOOK-04")
async def test_an_answer_that_is_not_let_pass_is_followed_by_the_reason_as_a_prompt(project: Path):
    generator = ScriptedGenerator([text("half")], [text("whole")])
    script = (
        "cat >input; if grep -q '\"stop_hook_active\":false' input; then echo go on >&2; exit 2; fi"
    )
    async with agent_with_hooks(generator, AfterAgent=script) as running:
        events, error = await events_of(running, "work")
        assert error is None
        assert events[-1].text == "whole"
    assert texts(generator, 1) == [["work"], ["half"], ["go on"]]
    prompts = [event.text for event in events if isinstance(event, UserMessageEvent)]
    assert prompts == ["work", "go on"]
    (warning,) = warnings(events)
    assert "AfterAgent" in warning
    assert warning.endswith(": go on")
    assert hook_calls(events) == ["AfterAgent", "AfterAgent"]


async def test_a_hook_that_never_lets_an_answer_pass_meets_the_turn_limit():
    generator = ScriptedGenerator(*[[text("again")] for _ in range(3)])
    async with agent_with_hooks(generator, given={"max_turns": 3}, AfterAgent="exit 2") as running:
        events, error = await events_of(running, "work")
    assert error is not None
    assert error.exit_code == 53
    assert events[-1].turns == 3


async def test_hooks_send_the_model_back_a_hundred_times_at_most():
    generator = ScriptedGenerator(*[[text(f"answer {n}")] for n in range(102)])
    async with agent_with_hooks(generator, AfterAgent="exit 2") as running:
        events, error = await events_of(running, "work")
    assert isinstance(error, TurnLimitError)
    assert "AfterAgent hooks blocked 101 answers" in error.message
    assert (events[-1].reason, events[-1].turns) == ("turn_limit", 101)


async def test_the_conversation_can_be_cleared_after_an_answer():
    generator = ScriptedGenerator([text("one")], [text("two")])
    clear = says({"hookSpecificOutput": {"clearContext": True}})
    async with agent_with_hooks(generator, AfterAgent=clear) as running:
        await running.ask("first")
        await running.ask("second")
    assert texts(generator, 1) == [["second"]]


@pytest.mark.requirement("HOOK-04")
async def test_a_request_can_be_answered_without_being_sent():
    generator = ScriptedGenerator()
    answer = says(
        {"decision": "deny", "hookSpecificOutput": {"llm_response": {"text": "from the cache"}}}
    )
    async with agent_with_hooks(generator, BeforeModel=answer) as running:
        events, error = await events_of(running, "work")
        assert error is None
        assert events[-1].text == "from the cache"
        assert running.history[-1].parts[0].text == "from the cache"
    assert generator.requests == []
    assert "api_request" not in kinds(events)


async def test_a_blocked_request_is_not_sent_and_the_prompt_taken_back():
    generator = ScriptedGenerator()
    async with agent_with_hooks(generator, BeforeModel="echo no >&2; exit 2") as running:
        before = len(running.history)
        events, error = await events_of(running, "work")
        assert error is None
        assert warnings(events) == ["Agent execution blocked: no"]
        assert events[-1].reason == "blocked"
        assert len(running.history) == before
    assert generator.requests == []


@pytest.mark.parametrize(
    "messages", [[], [{"role": "system", "content": "x"}], [{"role": "user", "content": ""}]]
)
async def test_a_hook_that_leaves_a_request_no_messages_has_failed_and_it_is_sent_as_it_was(
    messages: list[Any],
):
    generator = ScriptedGenerator([text("ok")])
    empty = says({"hookSpecificOutput": {"llm_request": {"model": "m2", "messages": messages}}})
    async with agent_with_hooks(generator, BeforeModel=empty) as running:
        events, error = await events_of(running, "work")
    assert error is None
    (warning,) = warnings(events)
    assert warning.startswith("the BeforeModel hook ")
    assert warning.endswith("failed: its llm_request has no messages for the model.")
    (request,) = generator.requests
    assert request.model != "m2"
    assert texts(generator, 0) == [["work"]]


@pytest.mark.requirement("HOOK-04")
async def test_a_changed_request_is_sent_and_the_history_stays_as_it_was(project: Path):
    generator = ScriptedGenerator([text("ok")])
    script = (
        "import json,sys; r=json.load(sys.stdin)['llm_request'];"
        "r['messages'][-1]['content']=r['messages'][-1]['content'].replace('hunter2','***');"
        "r['model']='other'; r['config']['temperature']=0;"
        "print(json.dumps({'hookSpecificOutput':{'llm_request':r}}))"
    )
    async with agent_with_hooks(
        generator, BeforeModel=f"python3 -c {shlex.quote(script)}"
    ) as running:
        assert await running.ask("my password is hunter2") == "ok"
        assert running.history[-2].parts[0].text == "my password is hunter2"
    (request,) = generator.requests
    assert request.model == "other"
    assert texts(generator, 0) == [["my password is ***"]]
    assert request.config.generation_config is not None
    assert request.config.generation_config.temperature == 0
    assert request.config.generation_config.thinking_config is not None


@pytest.mark.requirement("HOOK-04")
async def test_the_choice_of_tools_can_be_narrowed():
    generator = ScriptedGenerator([text("ok")])
    choice = {"toolConfig": {"mode": "ANY", "allowedFunctionNames": ["read_file", "nothing"]}}
    async with agent_with_hooks(
        generator, BeforeToolSelection=says({"hookSpecificOutput": choice})
    ) as running:
        events, _ = await events_of(running, "work")
    tools = generator.requests[0].config.tool_config
    assert tools is not None
    assert tools.function_calling_config is not None
    assert tools.function_calling_config.mode == "ANY"
    assert tools.function_calling_config.allowed_function_names == ("read_file",)
    assert any("nothing" in warning for warning in warnings(events))
    assert conforming(generator)


@pytest.mark.requirement("HOOK-04")
async def test_an_answer_is_changed_before_anybody_sees_it(project: Path):
    turn = [
        chunk({"text": "the password is hun"}),
        chunk({"text": "ter2"}, call("list_directory", {"path": "."}, id="1"), finish="STOP"),
    ]
    generator = ScriptedGenerator(turn, [text("done")])
    redact = (
        "import json,sys; r=json.load(sys.stdin)['llm_response'];"
        "print(json.dumps({'hookSpecificOutput':{'llm_response':"
        "{'text':r['text'].replace('hunter2','***')}}}))"
    )
    async with agent_with_hooks(
        generator, AfterModel=f"python3 -c {shlex.quote(redact)}"
    ) as running:
        events, error = await events_of(running, "work")
        assert error is None
        said = [event.text for event in events if event.__struct_config__.tag == "content"]
        assert said == ["the password is ***", "done"]
    assert "hunter2" not in str(generator.seen(1))
    assert conforming(generator)


async def test_an_answer_that_is_blocked_is_not_kept():
    generator = ScriptedGenerator([text("bad words")], [text("good")])
    script = "if grep -q 'bad words'; then echo rude >&2; exit 2; fi"
    async with agent_with_hooks(generator, AfterModel=script) as running:
        events, error = await events_of(running, "one")
        assert error is None
        assert events[-1].reason == "blocked"
        assert "content" not in kinds(events)
        assert await running.ask("two") == "good"
    assert texts(generator, 1) == [["two"]]


DELEGATE = {"agent_name": "codebase_investigator", "objective": "look"}


async def test_requests_of_a_subagent_have_the_same_hooks(project: Path):
    report = {"summary_of_findings": "x", "exploration_trace": [], "relevant_locations": []}
    generator = ScriptedGenerator(
        [chunk(call("delegate_to_agent", DELEGATE, id="1"), finish="STOP")],
        [chunk(call("complete_task", {"result": report}, id="2"), finish="STOP")],
        [text("done")],
    )
    script = says({"hookSpecificOutput": {"llm_request": {"config": {"topK": 7}}}})
    async with agent_with_hooks(generator, BeforeModel=f"echo >>requests; {script}") as running:
        assert await running.ask("work") == "done"
    assert (project / "requests").read_text("utf-8") == "\n" * 3
    settings = [request.config.generation_config for request in generator.requests]
    assert [each and each.top_k for each in settings] == [7, 7, 7]


async def test_a_hook_that_stops_a_subagent_ends_the_run(project: Path):
    generator = ScriptedGenerator(
        [chunk(call("delegate_to_agent", DELEGATE, id="1"), finish="STOP")]
    )
    stop = says({"continue": False, "stopReason": "enough"}, first="cat >in")
    script = f"if [ -e in ]; then {stop}; else cat >in; fi"
    async with agent_with_hooks(generator, BeforeModel=script) as running:
        events, error = await events_of(running, "work")
    assert error is None
    assert len(generator.requests) == 1
    (answer,) = [event for event in events if isinstance(event, ToolCallResponseEvent)]
    assert answer.error_type == "stop_execution"
    assert answer.error is not None
    assert "enough" in answer.error


async def test_a_blocked_request_of_a_subagent_fails_its_call_and_the_run_goes_on(project: Path):
    generator = ScriptedGenerator(
        [chunk(call("delegate_to_agent", DELEGATE, id="1"), finish="STOP")], [text("done")]
    )
    script = 'if [ "$(ls n | wc -l)" = 1 ]; then touch n/2; echo no >&2; exit 2; else touch n/1; fi'
    (project / "n").mkdir()
    async with agent_with_hooks(generator, BeforeModel=script) as running:
        events, error = await events_of(running, "work")
    assert error is None
    assert (events[-1].reason, events[-1].text) == ("done", "done")
    (answer,) = [event for event in events if isinstance(event, ToolCallResponseEvent)]
    assert answer.status == "error"
    assert answer.error is not None
    assert "Agent execution blocked: no" in answer.error


async def test_leaving_a_run_ends_its_hooks(project: Path):
    os.mkfifo("ready")
    generator = ScriptedGenerator()
    async with agent_with_hooks(
        generator, BeforeModel="echo $$ >pid; echo >ready; sleep 60"
    ) as running:
        run = running.run("work")
        async for event in run:
            if isinstance(event, UserMessageEvent):
                break
        await asyncio.to_thread(Path("ready").read_text)
        await run.aclose()
        with pytest.raises(ProcessLookupError):
            os.kill(int((project / "pid").read_text("utf-8")), 0)


async def test_the_users_hooks_run_and_a_projects_wait_to_be_trusted(project: Path, home: Path):
    (home / ".gemini").mkdir()
    (project / ".gemini").mkdir()

    def configure(place: Path, command: str) -> None:
        hooks = {"BeforeAgent": [{"hooks": [{"type": "command", "command": command}]}]}
        (place / ".gemini" / "settings.json").write_text(json.dumps({"hooks": hooks}), "utf-8")

    configure(home, "touch users")
    configure(project, "touch projects")
    for skip in (False, True):
        async with agent(ScriptedGenerator([text("ok")]), skip_trust=skip) as running:
            events, _ = await events_of(running, "x")
            assert (project / "users").exists()
            assert not (project / "projects").exists()
        notices = [notice for event in events for notice in getattr(event, "notices", ())]
        assert any("not trusted and will not run" in each for each in notices) is skip


async def test_hooks_that_cannot_be_read_end_it_before_anything_runs(home: Path):
    bad = {"hooks": {"BeforeTool": [{"hooks": [{"command": [1], "onFailure": "block"}]}]}}
    with pytest.raises(ConfigError, match="hooks"):
        async with agent(ScriptedGenerator(), hooks=bad):
            pass


async def test_without_hooks_nothing_of_them_is_there():
    async with agent(ScriptedGenerator([text("ok")]), hooks={"hooks": {}}) as running:
        assert await running.ask("x") == "ok"
        session = running._session
        assert session is not None
        assert session.bench.hooks is None
        assert session.prompt_hooks is None
        assert session.chat.services.interposer is None
