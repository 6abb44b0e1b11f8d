"""Remote agents over A2A: the official package's server on loopback, and what is no such server."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from a2a.types import Part
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from alhena import Agent, Answer, RemoteAgent, Rule, ToolResult
from alhena.agent.subagents import remote_agents
from alhena.agent.subagents.a2a import MAX_ANSWER
from alhena.agent.subagents.remote_agents import RemoteAgents
from alhena.errors import ConfigError
from alhena.events import ToolOutputEvent
from alhena.scheduler.question import ConfirmationRequest
from alhena.testing import Call, TestModel, no_real_requests
from alhena.tools.contract import ExecutionContext
from tests.agent.a2a_server import Stage, answering, serving
from tests.support.each import for_each


class Session:
    """A session with one remote agent called helper."""

    def __init__(self, card: str, **fields: Any) -> None:
        self.live: list[str] = []
        self._agents = RemoteAgents(
            [RemoteAgent(name="helper", card=card, **fields)], {}, Path.cwd()
        )

    async def ask(self, objective: str = "Count.") -> ToolResult:
        context = ExecutionContext(Path.cwd(), update_output=self.live.append)
        return await self._agents.run("helper", objective, context)

    async def error(self) -> str:
        result = await self.ask()
        assert result.error is not None
        return result.error.message


async def counts(stage: Stage) -> None:
    await stage.begin()
    await stage.task.start_work(stage.words("counting"))
    await stage.task.add_artifact([Part(text="one, ")], artifact_id="a")
    await stage.task.add_artifact([Part(text="two")], artifact_id="a", append=True)
    await stage.task.complete(stage.words("done"))


FINISHED = "Subagent 'helper' finished.\nTermination Reason: GOAL\nResult:\n"


@pytest.mark.parametrize(
    "way",
    [{}, {"version": "0.3"}, {"binding": "HTTP+JSON"}, {"streaming": False}],
    ids=["json-rpc", "version-0.3", "http-json", "no-stream"],
)
async def test_a_task_gives_its_artifacts_and_shows_what_happens_meanwhile(way: dict[str, Any]):
    async with serving(counts, **way) as remote:
        session = Session(remote.url)
        result = await session.ask()
    assert result.llm_content == f"{FINISHED}one, two"
    assert result.data is not None
    assert result.data["state"] == "completed"
    assert [said for said, _, _ in remote.asked] == ["Count."]
    streams = way.get("streaming", True)
    assert session.live == (
        ["counting\n", "one, ", "two", "done\n"] if streams else ["one, two", "done\n"]
    )


async def test_an_agent_may_answer_with_a_message_and_no_task():
    async def answers(stage: Stage) -> None:
        await stage.answer("Hello.")

    async with serving(answers) as remote:
        result = await Session(remote.url).ask()
    assert result.llm_content == f"{FINISHED}Hello."


async def test_data_and_files_of_an_artifact_are_told_in_text():
    async def plays(stage: Stage) -> None:
        await stage.begin()
        data = Part()
        data.data.struct_value["total"] = 2
        files = Part(raw=b"abc", filename="a.bin"), Part(url="https://x.example/b", filename="b")
        await stage.task.add_artifact([data, *files], artifact_id="a")
        await stage.task.complete()

    async with serving(plays) as remote:
        result = await Session(remote.url).ask()
    assert result.display == '{"total":2.0}[File a.bin: 3 bytes][File b: https://x.example/b]'


async def test_the_next_call_goes_on_in_the_same_context_and_the_card_is_read_once():
    async with serving(counts) as remote:
        session = Session(remote.url)
        await session.ask("first")
        await session.ask("second")
    (_, task, context), (_, other_task, other_context) = remote.asked
    assert context == other_context
    assert task != other_task
    assert remote.paths == ["/.well-known/agent-card.json", "/a2a", "/a2a"]


async def test_a_question_of_the_agent_is_the_result_and_the_next_call_answers_it():
    async def asks(stage: Stage) -> None:
        await stage.begin()
        if stage.is_new:
            await stage.task.requires_input(stage.words("Up to where?"))
        else:
            await stage.task.complete(stage.words(f"Up to {stage.said}."))

    async with serving(asks) as remote:
        session = Session(remote.url)
        question = await session.ask()
        answer = await session.ask("nine")
        await session.ask("again")
    assert question.error is None
    assert question.display == "Up to where?"
    assert "Call it again with the answer" in str(question.llm_content)
    assert answer.display == "Up to nine."
    first, second, third = (task for _, task, _ in remote.asked)
    assert first == second != third


async def fails(stage: Stage) -> None:
    await stage.task.failed(stage.words("No beans."))


async def rejects(stage: Stage) -> None:
    await stage.task.reject(stage.words("Not my job."))


async def wants_a_sign_in(stage: Stage) -> None:
    await stage.task.requires_auth(stage.words("Sign in at x."))


async def cancels(stage: Stage) -> None:
    await stage.task.cancel()


async def raises(stage: Stage) -> None:
    raise RuntimeError(stage.said)


@pytest.mark.parametrize(
    ("play", "message"),
    [
        (fails, "failed: No beans."),
        (rejects, "failed: it rejected the task. Not my job."),
        (wants_a_sign_in, "failed: it wants the user to sign in first. Sign in at x."),
        (cancels, "failed: the task was cancelled there.\nBefore that it said:"),
        (raises, "failed: "),
    ],
    ids=["failed", "rejected", "sign-in", "cancelled", "raises"],
)
async def test_a_task_that_comes_to_nothing_is_an_error_with_the_cause(
    play: Callable[[Stage], Awaitable[None]], message: str
):
    async def plays(stage: Stage) -> None:
        await stage.begin()
        await stage.task.add_artifact([Part(text="so far")], artifact_id="a")
        await play(stage)

    async with serving(plays) as remote:
        told = await Session(remote.url).error()
    assert told.startswith(f"Remote agent 'helper' {message}")
    assert "so far" in told


async def hangs(stage: Stage) -> None:
    await stage.begin()
    await stage.task.start_work(stage.words("thinking"))
    await asyncio.sleep(60)


async def test_cancelling_the_call_cancels_the_task_there():
    async with serving(hangs) as remote:
        session = Session(remote.url)
        call = asyncio.create_task(session.ask())
        while not session.live:
            await asyncio.sleep(0.001)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert remote.cancelled == [remote.asked[0][1]]


async def test_a_task_that_takes_too_long_is_cancelled_there_and_an_error_here():
    async with serving(hangs) as remote:
        told = await Session(remote.url, time_limit_s=1).error()
    assert "it gave no result within 0.0166667 minutes" in told
    assert "thinking" in told
    assert len(remote.cancelled) == 1


def rpc(result: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": "1", "result": result}


def task(state: str, text: str) -> dict[str, Any]:
    status = {
        "state": f"TASK_STATE_{state}",
        "message": {"messageId": "m", "parts": [{"text": text}]},
    }
    return {"id": "t", "contextId": "c", "status": status}


def card_at(url: str, **fields: Any) -> dict[str, Any]:
    interface = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    streams = {"capabilities": {"streaming": True}}
    return {"name": "x", "version": "1", "supportedInterfaces": [interface], **streams, **fields}


def stream(*events: object) -> Response:
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    return StreamingResponse(iter(lines), media_type="text/event-stream")


async def serve_agent(
    answer: Callable[[Request], Awaitable[Response]], ask: Callable[[str], Awaitable[Any]]
) -> Any:
    """Runs `ask` on the card of an agent whose every answer is `answer`."""
    address: list[str] = []

    async def card(_request: Request) -> Response:
        return Response(json.dumps(card_at(f"{address[0]}/rpc")))

    async with answering({"/card": card, "/rpc": answer}) as url:
        address.append(url)
        return await ask(f"{url}/card")


async def test_separators_of_unicode_in_a_stream_are_text():
    said = "a\u2028b\u2029c\x85d"
    event = json.dumps(rpc({"task": task("COMPLETED", said)}), ensure_ascii=False)

    async def answer(_request: Request) -> Response:
        pieces = (bytes([byte]) for byte in f"data: {event}\n\n".encode())
        return StreamingResponse(pieces, media_type="text/event-stream")

    result = await serve_agent(answer, lambda card: Session(card).ask())
    assert result.display == said


async def test_a_stream_that_ends_early_is_followed_by_questions_about_the_task():
    states = [rpc(task("WORKING", "nearly")), rpc(task("COMPLETED", "There."))]

    async def answer(request: Request) -> Response:
        method = (await request.json())["method"]
        if method == "SendStreamingMessage":
            return stream(rpc({"task": task("WORKING", "begun")}))
        assert method == "GetTask"
        return Response(json.dumps(states.pop(0)))

    session: list[Session] = []

    async def ask(card: str) -> ToolResult:
        session.append(Session(card))
        return await session[0].ask()

    result = await serve_agent(answer, ask)
    assert result.display == "There."
    assert session[0].live == ["begun\n", "nearly\n", "There.\n"]


ANSWERS: dict[str, tuple[Response, str]] = {
    "html": (Response("<html>", media_type="text/html"), "Invalid JSON-RPC response"),
    "list": (Response("[]"), ""),
    "number": (Response(json.dumps(rpc(5))), ""),
    "wrong-types": (Response(json.dumps(rpc({"task": {"id": []}}))), ""),
    "garbage-event": (stream("hi"), ""),
    "broken-event": (Response("data: {\n\n", media_type="text/event-stream"), ""),
    "nothing": (stream(), "it answered nothing"),
    "deep": (Response(b"[" * 100_000), ""),
    "odd-state": (stream(rpc({"task": {"id": "t", "status": {"state": 99}}})), "it gave no reason"),
    "empty-event": (stream(rpc({})), "it answered nothing"),
    "refusal": (
        Response(
            json.dumps({"jsonrpc": "2.0", "id": "1", "error": {"code": -1, "message": "No."}})
        ),
        "No.",
    ),
    "500": (Response("oops", 500), "it answered with HTTP 500."),
    "401": (Response("", 401), "it answered with HTTP 401. Check the auth of its definition."),
    "redirect": (RedirectResponse("/elsewhere"), "it redirects (HTTP 307), which is not followed."),
    "compressed": (Response("x", headers={"content-encoding": "br"}), "compressed"),
    "endless": (Response(b"x" * (MAX_ANSWER + 1)), "has more than 16,777,216 bytes"),
}


@pytest.mark.parametrize("kind", ANSWERS)
async def test_an_answer_that_cannot_be_used_is_an_error_with_the_cause(kind: str):
    answer, cause = ANSWERS[kind]

    async def same(_request: Request) -> Response:
        return answer

    told = await serve_agent(same, lambda card: Session(card).error())
    assert told.startswith("Remote agent 'helper' failed: ")
    assert cause in told


CARDS: dict[str, tuple[Response, str]] = {
    "html": (Response("<html>"), "its agent card cannot be used: "),
    "list": (Response("[]"), "its agent card cannot be used: "),
    "wrong-types": (Response('{"name": {}}'), "its agent card cannot be used: "),
    "odd-schemes": (Response('{"securitySchemes": [1]}'), "its agent card cannot be used: "),
    "deep": (Response(b"[" * 100_000), "its agent card cannot be used: "),
    "nothing": (Response("{}"), "names no interface of JSONRPC or HTTP+JSON"),
    "elsewhere": (
        Response(json.dumps(card_at("https://evil.example/rpc"))),
        "leads to https://evil.example/rpc, not to http://127.0.0.1:",
    ),
    "not-encrypted": (
        Response(json.dumps(card_at("http://example.com/rpc"))),
        "is at http://example.com, which is not encrypted",
    ),
    "large": (Response(b" " * (MAX_ANSWER + 1)), "more than 16,777,216 bytes"),
    "404": (Response("", 404), "it answered with HTTP 404."),
    "redirect": (RedirectResponse("http://127.0.0.1:9/"), "it redirects (HTTP 307)"),
}


@pytest.mark.parametrize("kind", CARDS)
async def test_a_card_that_cannot_be_used_is_an_error_with_the_cause(kind: str):
    answer, cause = CARDS[kind]

    async def same(_request: Request) -> Response:
        return answer

    async with answering({"/card": same}) as url:
        told = await Session(f"{url}/card").error()
    assert cause in told


async def test_an_agent_that_is_not_there_is_an_error():
    told = await Session("http://127.0.0.1:9").error()
    assert "connection" in told


async def test_a_card_in_the_definition_may_lead_anywhere():
    async with serving(counts) as remote:
        result = await Session(json.dumps(card_at(f"{remote.url}/a2a"))).ask()
    assert result.error is None
    assert remote.paths == ["/a2a"]


async def test_no_request_leaves_while_none_may():
    async with serving(counts) as remote:
        with no_real_requests():
            told = await Session(remote.url).error()
    assert "no_real_requests() lets no request leave to 127.0.0.1" in told
    assert remote.paths == []


async def test_without_the_package_the_error_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(remote_agents, "find_spec", lambda _name: None)
    assert "[a2a]" in await Session("https://x.example").error()


def test_the_package_is_loaded_when_a_remote_agent_is_called_and_not_before():
    script = (
        "import sys; from alhena import Agent, RemoteAgent\n"
        "Agent(agents=[RemoteAgent(name='x', card='https://x.example')])\n"
        "print([name for name in ('a2a', 'httpx') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


ASK = Call("delegate_to_agent", agent_name="helper", objective="Count all beans.")


async def response_of_call(model: TestModel, url: str, project: Path, **options: Any) -> str:
    """The answer to the call as the model saw it."""
    helper = RemoteAgent(name="helper", card=url, description="Counts beans.")
    async with Agent(model, agents=[helper], cwd=project, **options) as agent:
        await agent.ask("go")
    return str(model.requests[1]["contents"][-1])


@pytest.mark.requirement("EXT-04")
async def test_a_remote_agent_is_offered_by_the_same_tool_and_asked_about(project: Path):
    requests: list[ConfirmationRequest] = []

    async def approve(request: ConfirmationRequest) -> bool:
        requests.append(request)
        return True

    model = TestModel(ASK, "There are two.")
    async with serving(counts) as remote:
        seen = await response_of_call(model, remote.url, project, approve=approve)
    assert "- helper: Counts beans." in str(model.requests[0]["tools"])
    assert "one, two" in seen
    (request,) = requests
    prompt = getattr(request.details, "prompt", "")
    assert f"{remote.url}/.well-known/agent-card.json" in prompt
    assert "Count all beans." in prompt


@pytest.mark.requirement("EXT-04")
async def test_the_model_sees_what_the_card_says(project: Path):
    card = {
        "description": "Knows birds.",
        "skills": [{"name": "Song", "description": "Hears\nit."}],
    }
    inline = RemoteAgent(name="inline", card=json.dumps(card))
    async with serving(counts) as remote:
        bare = RemoteAgent(name="bare", card=remote.url)
        own = RemoteAgent(name="own", card=remote.url, description="Counts beans.")
        gone = RemoteAgent(name="gone", card="http://127.0.0.1:9/card.json")
        keyed = RemoteAgent(name="keyed", card=remote.url, auth={"type": "apiKey", "key": "k"})
        agents = [inline, bare, own, gone, keyed]
        model = TestModel("Hello.")
        async with Agent(model, agents=agents, cwd=project, approve="always") as agent:
            await agent.ask("go")
        assert all("x-api-key" not in headers for headers in remote.headers)
    (declared,) = [
        each
        for each in model.requests[0]["tools"][0]["functionDeclarations"]
        if each["name"] == "delegate_to_agent"
    ]
    told = declared["description"]
    assert "- bare: Helps.\n  - Counts: Counts." in told
    assert "- own: Counts beans.\n  Its agent card says: Helps.\n  - Counts: Counts." in told
    assert "- inline: Knows birds.\n  - Song: Hears it." in told
    assert "- gone: A remote agent called gone." in told
    assert "- keyed: A remote agent called keyed." in told


@pytest.mark.requirement("EXT-04")
async def test_where_nobody_can_be_asked_nothing_leaves(project: Path):
    async with serving(counts) as remote:
        seen = await response_of_call(TestModel(ASK, "No."), remote.url, project)
    assert "requires user confirmation" in seen
    assert remote.paths == []


@pytest.mark.requirement("EXT-04")
async def test_a_rule_that_names_the_agent_lets_it_run(project: Path):
    async with serving(counts) as remote:
        allow = [Rule.allow("helper")]
        seen = await response_of_call(TestModel(ASK, "Two."), remote.url, project, policy=allow)
    assert "one, two" in seen


async def test_an_agents_failure_is_an_error_response(project: Path):
    async with serving(fails) as remote:
        allow = [Rule.allow("helper")]
        seen = await response_of_call(TestModel(ASK, "So."), remote.url, project, policy=allow)
    assert "'error': \"Remote agent 'helper' failed: " in seen


async def test_always_for_one_remote_agent_is_no_always_for_another(project: Path):
    async def approve(request: ConfirmationRequest) -> Answer:
        asked.append(request.args["agent_name"])
        return Answer.always()

    asked: list[str] = []
    other = Call("delegate_to_agent", agent_name="other", objective="Count.")
    async with serving(counts) as remote:
        agents = [RemoteAgent(name=name, card=remote.url) for name in ("helper", "other")]
        model = TestModel(ASK, ASK, other, "Done.")
        async with Agent(model, agents=agents, cwd=project, approve=approve) as agent:
            await agent.ask("go")
    assert asked == ["helper", "other"]


async def test_a_run_that_is_cancelled_cancels_the_task_there(project: Path):
    begun = asyncio.Event()

    async def listens(agent: Agent[Any]) -> None:
        async for event in agent.run("go"):
            if isinstance(event, ToolOutputEvent):
                begun.set()

    async with serving(hangs) as remote:
        helper = RemoteAgent(name="helper", card=remote.url)
        async with Agent(TestModel(ASK), agents=[helper], cwd=project, approve="always") as agent:
            run = asyncio.create_task(listens(agent))
            await begun.wait()
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
    assert remote.cancelled == [remote.asked[0][1]]


async def test_calls_at_the_same_time_each_have_a_task_of_their_own():
    async with serving(counts) as remote:
        session = Session(remote.url)
        first, second = await asyncio.gather(session.ask("one"), session.ask("two"))
    assert first.error is second.error is None
    assert len({task for _, task, _ in remote.asked}) == 2


@for_each(
    ("fields", "reason"),
    [
        ({"name": "a b"}, "that is no name"),
        ({"card": "http://x.example"}, "is at http://x.example, which is not encrypted"),
        ({"card": "https://u:secret@x.example"}, "must not hold a user name or password"),
        ({"card": "ftp://x.example"}, "is no usable URL"),
        ({"auth": 5}, "auth is invalid"),
        ({"auth": {"type": "magic"}}, "auth is invalid"),
        ({"auth": {"type": "apiKey"}}, "auth is invalid: Object missing required field `key`"),
        ({"auth": {"type": "apiKey", "key": ""}}, "auth has no key"),
        ({"auth": {"type": "apiKey", "key": "secret", "kee": "x"}}, "unknown field `kee`"),
        ({"auth": {"type": "http", "scheme": "Bearer"}}, "auth has no token"),
        ({"auth": {"type": "http", "scheme": "basic", "username": "u"}}, "auth has no password"),
        ({"auth": {"type": "http", "scheme": "Digest"}}, "auth has no value"),
    ],
)
def test_a_wrong_definition_is_refused_with_the_reason(fields: dict[str, Any], reason: str):
    with pytest.raises(ConfigError) as caught:
        RemoteAgent(**{"name": "x", "card": "https://x.example"} | fields)
    assert reason in str(caught.value)
    assert "secret" not in str(caught.value)


def test_two_agents_of_one_name_are_refused():
    helper = RemoteAgent(name="helper", card="https://x.example")
    with pytest.raises(ConfigError, match="there are two of the name 'helper'"):
        Agent("demo", agents=[helper, helper])
