"""Thought signatures go to the model that made them, to no other; refused ones are mended once."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from alhena import Agent, AgentOptions, Subagent, tool
from alhena.agent.between_prompts import switch_model
from alhena.config.settings import CheckpointingSettings, GeneralSettings, Settings
from alhena.events import ToolCallRequestEvent
from alhena.models import Gemini
from alhena.wire.content import Content, Part
from tests.gateway.kit import client, gateway
from tests.support.command import alhena, keyed
from tests.support.server import ScriptedServer, chunk, sse, text
from tests.support.signing import SENTINEL, SigningServer

FIRST, OTHER = "gemini-3.8-flash", "gemini-3.7-flash"
CALLS = ("note", {"text": "a"})


@tool
def note(text: str) -> str:
    """Notes a text."""
    return f"noted {text}"


def gemini(server: ScriptedServer, name: str = FIRST) -> Gemini:
    return Gemini(name, api_key="k", base_url=server.url)


def read_history(agent: Agent, how: str) -> Any:
    return agent.history_json() if how == "json" else agent.history


@pytest.mark.requirement("TODAY-05")
@pytest.mark.parametrize("how", ["json", "contents"])
@pytest.mark.parametrize(
    ("name", "sent"),
    [
        (OTHER, [SENTINEL]),
        ("gemini-2.5-flash-lite", []),
        (FIRST, [FIRST, FIRST]),
        (f"models/{FIRST}", [FIRST, FIRST]),
    ],
)
async def test_another_agent_gets_no_signatures_of_another_model(
    project: Path, how: str, name: str, sent: list[str]
):
    with SigningServer(CALLS, "done", "more") as server:
        async with gemini(server) as model, Agent(model, tools=[note], cwd=project) as agent:
            await agent.run("go")
            history = read_history(agent, how)
        async with (
            gemini(server, name) as model,
            Agent(model, tools=[note], cwd=project, history=history) as agent,
        ):
            assert (await agent.run("on")).text == "more"
    assert len(server.requests) == 3
    assert server.signatures() == sent
    assert "signedBy" not in server.requests[-1].body.decode()


@pytest.mark.requirement("TODAY-05")
async def test_new_contents_say_who_signed_them(project: Path):
    with SigningServer("one", "two") as server:
        async with gemini(server) as model, Agent(model, cwd=project) as agent:
            contents = (await agent.run("go")).new_contents
        async with (
            gemini(server, OTHER) as model,
            Agent(model, cwd=project, history=contents) as agent,
        ):
            await agent.run("on")
    assert server.signatures() == []


@pytest.mark.requirement("TODAY-05")
@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        (FIRST, OTHER, False),
        (FIRST, f"models/{FIRST}", True),
        (FIRST, "flash", True),
        ("gemini-flash-latest", FIRST, True),
        ("gemini-flash-latest", OTHER, False),
    ],
)
async def test_a_switch_keeps_signatures_for_another_name_of_the_model_alone(
    project: Path, first: str, second: str, kept: bool
):
    with SigningServer(CALLS, "done", "more", "again") as server:
        async with gemini(server, first) as model, Agent(model, tools=[note], cwd=project) as agent:
            await agent.run("go")
            await switch_model(agent.session, second)
            await agent.run("on")
            assert server.signatures() == ([FIRST, FIRST] if kept else [SENTINEL])
            await switch_model(agent.session, first)
            await agent.run("back")
    assert len(server.requests) == 4


@pytest.mark.requirement("TODAY-05")
@pytest.mark.parametrize(
    ("first", "second", "sent"),
    [
        (FIRST, OTHER, []),
        (FIRST, f"models/{FIRST}", [FIRST]),
        ("gemini-flash-latest", FIRST, [FIRST]),
        ("gemini-flash-latest", "gemini-flash-latest", [FIRST]),
    ],
)
def test_a_resumed_session_with_another_model_gets_no_signatures(
    project: Path, first: str, second: str, sent: list[str]
):
    with SigningServer("one", "two") as server:
        ran = alhena("-m", first, "-p", "go", **keyed(server))
        assert ran.code == 0
        ran = alhena("-m", second, "--resume", "latest", "-p", "on", **keyed(server))
        assert (ran.code, ran.out) == (0, "two\n")
    assert server.signatures() == sent
    assert len(server.requests) == 2


@pytest.mark.requirement("TODAY-05")
async def test_a_model_that_falls_back_in_a_turn_gets_the_sentinel(project: Path, home: Path):
    (home / ".gemini").mkdir(exist_ok=True)
    settings = {"model": {"fallback": "always"}}
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    with SigningServer(CALLS, "done") as server:
        name = "gemini-3.1-pro-preview"
        async with gemini(server, name) as model, Agent(model, tools=[note], cwd=project) as agent:
            run = agent.run("go")
            async for event in run:
                if isinstance(event, ToolCallRequestEvent):
                    server._busy = (name,)  # pyright: ignore[reportPrivateUsage]
            assert (await run).text == "done"
    assert server.models == [name, name, FIRST]
    assert server.signatures() == [SENTINEL]


@pytest.mark.requirement("TODAY-05")
@pytest.mark.parametrize(
    "words",
    [
        "Corrupted thought signature.",
        "Invalid thought signature",
        "Function call is missing a thought_signature in functionCall parts.",
        "Thought signature is not valid",
    ],
)
async def test_a_refused_signature_is_mended_with_exactly_one_more_request(
    project: Path, words: str
):
    with SigningServer(CALLS, "done", refuses={2: words}) as server:
        async with gemini(server) as model, Agent(model, tools=[note], cwd=project) as agent:
            assert (await agent.run("go")).text == "done"
    assert len(server.requests) == 3
    assert server.signatures(1) == [FIRST]
    assert server.signatures(2) == [SENTINEL]


@pytest.mark.requirement("TODAY-05")
@pytest.mark.parametrize("how", ["refused", "finish"])
def test_a_signature_that_is_refused_again_is_an_error_that_says_so(project: Path, how: str):
    with ScriptedServer() as plain:
        unsigned = sse(chunk(finish="MISSING_THOUGHT_SIGNATURE"))
        plain.reply(unsigned, unsigned, sse(text("never")))
        words = "Corrupted thought signature."
        with SigningServer("never", refuses={1: words, 2: words}) as refusing:
            server: ScriptedServer = plain if how == "finish" else refusing
            ran = alhena("-m", FIRST, "-p", "go", "-o", "json", **keyed(server))
            assert len(server.requests) == 2
    assert ran.code == 1
    assert "signature" in json.loads(ran.out or ran.err)["error"]["message"]


@pytest.mark.requirement("TODAY-04", "TODAY-05")
async def test_a_missing_signature_is_mended_with_the_sentinel(project: Path):
    custom = "an-unknown-model"
    with ScriptedServer() as server:
        call = {"functionCall": {"name": "note", "args": {"text": "a"}, "id": "1"}}
        server.reply(
            sse(chunk(call, finish="STOP")),
            sse(chunk({"text": "well"}, finish="MISSING_THOUGHT_SIGNATURE")),
            sse(text("done")),
        )
        async with (
            gemini(server, custom) as model,
            Agent(model, tools=[note], cwd=project) as agent,
        ):
            assert (await agent.run("go")).text == "done"
        sent = [request.json["contents"] for request in server.requests]
    parts = [part for content in sent[-1] for part in content["parts"] if "functionCall" in part]
    assert [part["thoughtSignature"] for part in parts] == [SENTINEL]
    assert len(sent) == 3


@pytest.mark.requirement("TODAY-05")
async def test_a_subagent_with_another_model_gets_nothing_of_ours(project: Path):
    helper = Subagent(name="helper", description="Helps.", instructions="Help.", model=OTHER)
    task = ("delegate_to_agent", {"agent_name": "helper", "objective": "do it"})
    finished = ("complete_task", {"result": "ok"})
    with SigningServer("one", task, CALLS, finished, "done") as server:
        async with gemini(server) as model, Agent(model, cwd=project) as agent:
            await agent.run("first")
            history = agent.history[-1:]
        helper = replace(helper, tools=(note,))
        async with (
            gemini(server) as model,
            Agent(model, agents=[helper], cwd=project, history=history) as agent,
        ):
            assert (await agent.run("go")).text == "done"
    assert server.models == [FIRST, FIRST, OTHER, OTHER, FIRST]
    assert [server.signatures(at) for at in (2, 3)] == [[], [OTHER]]


@pytest.mark.requirement("TODAY-05")
@pytest.mark.parametrize("stream", [False, True])
async def test_the_gateway_mends_signatures_of_another_model_once(stream: bool):
    model_turn = {
        "role": "model",
        "parts": [
            {
                "functionCall": {"name": "note", "args": {}, "id": "1"},
                "thoughtSignature": "c2lnbmVkIGJ5IG90aGVy",
            }
        ],
    }
    answer = {"functionResponse": {"id": "1", "name": "note", "response": {"output": "x"}}}
    body = {
        "contents": [
            {"role": "user", "parts": [{"text": "go"}]},
            model_turn,
            {"role": "user", "parts": [answer]},
        ],
        "tools": [{"functionDeclarations": [{"name": "note", "description": "Notes."}]}],
    }
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    with Whole("done") as server:
        async with (
            gemini(server) as generator,
            gateway(generator, model=FIRST) as running,
            client(running) as http,
        ):
            answered = await http.post(f"/v1beta/models/{FIRST}:{method}", json=body)
    assert (answered.status_code, "done" in answered.text) == (200, True)
    assert len(server.requests) == 2
    assert server.signatures() == [SENTINEL]


class Whole(SigningServer):
    """As it streams, so it answers whole."""

    def take(self, received: Any) -> Any:
        reply = super().take(received)
        if ":generateContent" in received.path and reply.content_type == "text/event-stream":
            reply.content_type = "application/json"
            reply.pieces = [reply.pieces[0].removeprefix(b"data: ")]
        return reply


def test_who_signed_is_no_field_of_a_request():
    from alhena.wire.conformance.json_body import check_json
    from alhena.wire.content import EncodedContent

    content = Content(role="model", parts=(Part(text="a"),), signed_by=("m",))
    assert b"signedBy" not in bytes(EncodedContent(content).raw)
    found = check_json({"contents": [{"role": "user", "parts": [{"text": "a"}], "signedBy": []}]})
    assert [item.rule for item in found] == ["C4"]


@pytest.mark.requirement("TODAY-05")
async def test_a_checkpoint_of_another_model_is_restored_without_its_signatures(project: Path):
    write = ("write_file", {"file_path": str(project / "x"), "content": "y"})
    options = AgentOptions(record=True, settings=Settings(general=checkpointing()))
    with SigningServer(CALLS, write, "done", "more", "again") as server:
        async with (
            gemini(server) as model,
            Agent(model, tools=[note], cwd=project, approval_mode="yolo", options=options) as agent,
        ):
            await agent.run("go")
            await switch_model(agent.session, OTHER)
            await agent.run("on")
            (name, _), *_ = agent.session.checkpoints.list()
            await agent.session.checkpoints.restore(name)
            await agent.run("back")
    assert server.models[-1] == OTHER
    assert OTHER not in server.signatures()
    assert FIRST not in server.signatures()


def checkpointing() -> GeneralSettings:
    return GeneralSettings(checkpointing=CheckpointingSettings(enabled=True))


@pytest.mark.requirement("TODAY-05")
def test_a_request_that_a_hook_gives_to_another_model_has_no_signatures(project: Path, home: Path):
    changed = {
        "hookSpecificOutput": {"hookEventName": "BeforeModel", "llm_request": {"model": OTHER}}
    }
    hook = project / "hook.sh"
    hook.write_text(f"cat >/dev/null; echo '{json.dumps(changed)}'\n", encoding="utf-8")
    with SigningServer("one", "two") as server:
        assert alhena("-m", FIRST, "-p", "go", **keyed(server)).code == 0
        settings = {
            "hooks": {"BeforeModel": [{"hooks": [{"type": "command", "command": f"sh {hook}"}]}]}
        }
        folder = home / ".gemini"
        folder.mkdir(exist_ok=True)
        (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
        ran = alhena("-m", FIRST, "--resume", "latest", "-p", "on", **keyed(server))
    assert (ran.code, server.models) == (0, [FIRST, OTHER]), ran.err
    assert server.signatures() == []
