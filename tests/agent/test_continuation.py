"""Answers that take several requests, in runs: one answer to everybody."""

import json
from pathlib import Path
from typing import Any

import pytest

from alhena import Agent, AgentOptions, Limits, Subagent, tool
from alhena.agent.limits import TokenLimitError
from alhena.chat.history import ENDED_EARLY
from alhena.events import (
    ApiRequestEvent,
    ApiResponseEvent,
    ContentEvent,
    RetryEvent,
    ToolCallRequestEvent,
)
from alhena.models import Gemini
from tests.support.command import alhena, keyed
from tests.support.continuing import PROMPT, ContinuingServer, Drop, piece, words
from tests.support.server import call

MODEL = "gemini-4-argon"


@tool
def note(text: str) -> str:
    """Notes a text."""
    return f"noted {text}"


def gemini(server: ContinuingServer) -> Gemini:
    return Gemini(MODEL, api_key="k", base_url=server.url)


def ask_model(server: ContinuingServer, *arguments: str) -> Any:
    return alhena("-m", MODEL, "-p", "tell", *arguments, **keyed(server))


@pytest.mark.requirement("TODAY-03")
def test_the_command_gives_one_answer_and_the_sum_of_tokens(project: Path):
    with ContinuingServer(words("one ", "two ", "three")) as server:
        ran = ask_model(server, "-o", "json")
    assert (ran.code, ran.err) == (0, "")
    document = ran.json
    assert (document["response"], document["finish_reason"]) == ("one two three", "STOP")
    assert "warnings" not in document
    (model,) = document["stats"]["models"].values()
    assert model["tokens"]["prompt"] == 3 * PROMPT + 30
    assert model["tokens"]["candidates"] == 30
    assert model["api"]["totalRequests"] == 3
    assert server.tokens == [None, "at-1", "at-2"]


@pytest.mark.requirement("TODAY-03")
def test_a_recorded_answer_of_several_requests_is_replayed_as_one(project: Path):
    answers = str(project / "answers.jsonl")
    with ContinuingServer(words("one ", "two ", "three")) as server:
        assert ask_model(server, "--record-responses", answers).out == "one two three\n"
    ran = alhena("-m", MODEL, "-p", "tell", "--fake-responses", answers)
    assert (ran.code, ran.out) == (0, "one two three\n")


@pytest.mark.parametrize("output", ["text", "stream-json"])
@pytest.mark.parametrize("drop", [Drop(1), Drop(2)])
@pytest.mark.requirement("TODAY-03")
def test_a_dropped_stream_goes_on_and_nothing_is_said_twice(project: Path, output: str, drop: Drop):
    answer = words("one ", "two ", "three")
    with ContinuingServer(answer, limit=3, drops={2: drop}) as server:
        ran = ask_model(server, "-o", output)
    assert ran.code == 0
    assert server.tokens == [None, f"at-{drop.token}"]
    if output == "text":
        assert ran.out == "one two three\n"
        return
    said = ""
    for line in ran.lines:
        if line["type"] == "message" and line["role"] == "assistant":
            said += line["content"]
        elif line.get("retract"):
            said = ""
    assert said == "one two three"


@pytest.mark.requirement("TODAY-03")
def test_a_limit_of_tokens_holds_between_the_requests_of_an_answer(project: Path):
    with ContinuingServer(words("one ", "two ", "three")) as server:
        ran = ask_model(server, "-o", "json", "--max-tokens", str(PROMPT + 5))
    assert ran.code == 53
    assert server.tokens == [None]
    error = json.loads(ran.out or ran.err)["error"]
    assert (error["type"], error["code"]) == ("token_limit", 53)


@pytest.mark.requirement("TODAY-03")
async def test_calls_run_once_when_the_answer_has_ended(project: Path):
    first = [
        {"text": "Now. "},
        call("note", {"text": "a"}, id="1"),
        piece("$.text", "b", name="note", id="2"),
        piece("$.text", "c", goes_on=False),
    ]
    with ContinuingServer(first, words("done")) as server:
        async with (
            gemini(server) as model,
            Agent(model, tools=[note], cwd=project) as agent,
        ):
            run = agent.run("go")
            events = [event async for event in run]
            result = await run
            history = agent.history
    assert result.text == "done"
    made = [event for event in events if isinstance(event, ToolCallRequestEvent)]
    assert [(each.call_id, each.args) for each in made] == [
        ("1", {"text": "a"}),
        ("2", {"text": "bc"}),
    ]
    spoken = [content for content in history if content.role == "model"]
    assert [part.text for part in spoken[1].parts if part.text] == ["Now. "]
    assert len(spoken) == 3, "the greeting, the calls, the end"
    requests = [event for event in events if isinstance(event, ApiRequestEvent)]
    assert [each.continues for each in requests] == [False, True, True, True, False]
    contents = [request.json["contents"] for request in server.requests]
    assert contents[0] == contents[1] == contents[3]
    assert "continuationToken" not in server.requests[-1].json
    responses = [part for part in contents[-1][-1]["parts"] if "functionResponse" in part]
    assert [each["functionResponse"]["id"] for each in responses] == ["1", "2"]


@pytest.mark.requirement("TODAY-03")
async def test_the_context_is_as_large_as_the_first_prompt(project: Path):
    with ContinuingServer(words("one ", "two ", "three")) as server:
        async with (
            gemini(server) as model,
            Agent(model, cwd=project, options=AgentOptions(record=True)) as agent,
        ):
            result = await agent.run("go")
            session = agent._runner._require_session()  # pyright: ignore[reportPrivateUsage]
            measured = session.chat.measured
        assert measured is not None
        assert measured[1] == PROMPT
        assert result.usage.input_tokens == 3 * PROMPT + 30
        async with (
            gemini(server) as model,
            Agent(
                model,
                cwd=project,
                options=AgentOptions(record=True),
                resume=result.session_id,
            ) as agent,
        ):
            session = agent._runner._require_session()  # pyright: ignore[reportPrivateUsage]
            assert session.chat.measured == measured


async def test_what_was_said_before_a_limit_stays_in_the_conversation(project: Path):
    with ContinuingServer(words("one ", "two")) as server:
        async with (
            gemini(server) as model,
            Agent(model, cwd=project, limits=Limits(tokens=PROMPT)) as agent,
        ):
            with pytest.raises(TokenLimitError):
                await agent.run("go")
            prompt, answer = agent.history[-2:]
    assert prompt.parts[0].text == "go"
    assert [part.text for part in answer.parts] == ["one ", ENDED_EARLY]


@pytest.mark.requirement("TODAY-03")
async def test_a_limit_between_requests_runs_no_call(project: Path):
    answer = [call("note", {"text": "a"}, id="1"), *words("more")]
    with ContinuingServer(answer) as server:
        async with (
            gemini(server) as model,
            Agent(model, tools=[note], cwd=project, limits=Limits(tokens=PROMPT)) as agent,
        ):
            run = agent.run("go")
            with pytest.raises(TokenLimitError):
                await run
            assert not any(part.function_call for each in agent.history for part in each.parts)
    assert server.tokens == [None]


@pytest.mark.requirement("TODAY-03")
async def test_a_cancelled_answer_asks_no_more(project: Path):
    with ContinuingServer(words(*(f"{n} " for n in range(50)))) as server:
        async with gemini(server) as model, Agent(model, cwd=project) as agent:
            run = agent.run("go")
            async for event in run:
                if isinstance(event, ContentEvent):
                    break
            await run.aclose()
            asked = len(server.requests)
            kept = [part.text for part in agent.history[-1].parts]
    assert len(server.requests) <= asked + 1 < 50, "one may have been on its way"
    assert "interrupted the answer here" in "".join(text or "" for text in kept)


async def test_progress_renews_the_patience_with_a_bad_line(project: Path):
    answer = words(*(f"{n} " for n in range(8)))
    drops = {at: Drop(at) for at in range(1, 7)}
    with ContinuingServer(answer, limit=8, drops=drops) as server:
        async with gemini(server) as model, Agent(model, cwd=project) as agent:
            model._sleep = _at_once  # pyright: ignore[reportPrivateUsage]
            run = agent.run("go")
            events = [event async for event in run]
            assert (await run).text == "0 1 2 3 4 5 6 7 "
    retries = [event for event in events if isinstance(event, RetryEvent)]
    assert [(each.attempt, each.retract) for each in retries] == [(2, False)] * 6
    counted = [event for event in events if isinstance(event, ApiResponseEvent)]
    assert [each.input_tokens for each in counted] == [PROMPT + 10 * at for at in range(7)]
    assert [each.continues for each in counted] == [False] + [True] * 6


async def _at_once(_seconds: float) -> None:
    pass


@pytest.mark.requirement("TODAY-03")
def test_a_hook_that_reviews_answers_sees_one(project: Path, home: Path):
    seen = project / "seen"
    hook = project / "hook.sh"
    hook.write_text(f"cat >>{seen}; echo >>{seen}; echo '{{}}'\n", encoding="utf-8")
    entry = {"hooks": [{"type": "command", "command": f"sh {hook}"}]}
    folder = home / ".gemini"
    folder.mkdir(exist_ok=True)
    settings = {"hooks": {"BeforeModel": [entry], "AfterModel": [entry]}}
    (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    answer = words("one ", "two ", "three")
    with ContinuingServer(answer, limit=2, drops={2: Drop(1)}) as server:
        ran = ask_model(server)
    assert (ran.code, ran.out) == (0, "one two three\n"), ran.err
    assert server.tokens == [None, "at-1"]
    before, after = [json.loads(line) for line in seen.read_text().splitlines() if line]
    assert (before["hook_event_name"], after["hook_event_name"]) == ("BeforeModel", "AfterModel")
    assert "one two three" in json.dumps(after["llm_response"])


@pytest.mark.requirement("TODAY-03")
async def test_a_subagent_has_one_answer_too(project: Path):
    helper = Subagent(name="helper", description="Helps.", instructions="Help.")
    task = call("delegate_to_agent", {"agent_name": "helper", "objective": "x"}, id="1")
    done = [
        {"text": "Well. "},
        piece("$.result", "all ", name="complete_task", id="2"),
        piece("$.result", "done", goes_on=False),
    ]
    with ContinuingServer([task], done, words("end")) as server:
        async with gemini(server) as model, Agent(model, agents=[helper], cwd=project) as agent:
            assert (await agent.run("go")).text == "end"
    assert "all done" in json.dumps(server.requests[-1].json["contents"][-1])
    assert server.tokens == [None, None, "at-1", "at-2", None]
