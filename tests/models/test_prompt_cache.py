"""Prompts that Anthropic's service keeps and finds again; keys of OpenAI's."""

import json
from pathlib import Path
from typing import Any

import pytest

from alhena import Agent, ModelSettings, Rule
from alhena.errors import ModelError
from alhena.models import Anthropic, OpenAICompatible
from alhena.models.providers import openai_compatible
from tests.support.caching import PromptCache
from tests.support.command import alhena
from tests.support.server import Received, Reply, ScriptedServer, json_reply, sse

KEY = {"ANTHROPIC_API_KEY": "k"}


class CachingServer(ScriptedServer):
    """Answers with the steps of a script, each a list of calls, and counts as the service does."""

    def __init__(self, *steps: list[tuple[str, dict[str, Any]]], thinks: bool = False) -> None:
        super().__init__()
        self.steps = list(steps)
        self.thinks = thinks
        self.cache = PromptCache()

    def take(self, received: Received) -> Reply:
        self.requests.append(received)
        body = received.json
        calls = self.steps.pop(0) if self.steps else []
        stop = "tool_use" if calls else "end_turn"
        usage = self.cache.usage(body)
        return answer(self.blocks(calls), stop, usage, stream=body.get("stream", False))

    def blocks(self, calls: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
        """The content of the answer with these calls."""
        blocks: list[dict[str, Any]] = []
        number = len(self.requests)
        if self.thinks:
            blocks.append({"type": "thinking", "thinking": "hm", "signature": f"S{number}=="})
        blocks += [
            {"type": "tool_use", "id": f"toolu_{number}_{at}", "name": name, "input": args}
            for at, (name, args) in enumerate(calls)
        ]
        if not calls:
            blocks.append({"type": "text", "text": "done"})
        return blocks


def answer(
    blocks: list[dict[str, Any]], stop: str, usage: dict[str, Any], *, stream: bool
) -> Reply:
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-4-6"}
    if not stream:
        return json_reply({**head, "content": blocks, "stop_reason": stop, "usage": usage})
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**head, "content": [], "usage": usage}}
    ]
    for at, block in enumerate(blocks):
        start, deltas = opened(block)
        events.append({"type": "content_block_start", "index": at, "content_block": start})
        events += [{"type": "content_block_delta", "index": at, "delta": one} for one in deltas]
        events.append({"type": "content_block_stop", "index": at})
    delta = {"stop_reason": stop}
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 10}})
    return sse(*events, {"type": "message_stop"})


def opened(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match block["type"]:
        case "thinking":
            return {**block, "thinking": "", "signature": ""}, [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        case "tool_use":
            given = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            return {**block, "input": {}}, [given]
        case "redacted_thinking":
            return block, []
        case _:
            return {**block, "text": ""}, [{"type": "text_delta", "text": block["text"]}]


def reads(count: int, first: int = 0) -> list[tuple[str, dict[str, Any]]]:
    return [("read_file", {"file_path": f"f{first + at}.txt"}) for at in range(count)]


def files(project: Path, count: int) -> None:
    for at in range(count):
        (project / f"f{at}.txt").write_text(f"line {at}\n" * 60)


def run(
    server: ScriptedServer, *arguments: str, model: str = "claude-opus-4-6", **more: str
) -> Any:
    return alhena(
        "-m",
        f"anthropic:{model}",
        "--approval-mode",
        "yolo",
        "--skip-trust",
        "--output-format",
        "json",
        *arguments,
        ANTHROPIC_BASE_URL=server.url,
        **KEY,
        **more,
    )


def marks(body: dict[str, Any]) -> list[str]:
    found: list[str] = []
    for key in ("tools", "system"):
        found += [key for block in body.get(key) or [] if "cache_control" in block]
    for at, message in enumerate(body["messages"]):
        found += [str(at) for block in message["content"] if "cache_control" in block]
    return found


@pytest.mark.requirement("COST-01")
@pytest.mark.parametrize("thinks", [False, True], ids=["plain", "with thoughts"])
def test_a_session_costs_little_more_than_the_least_possible(project: Path, thinks: bool):
    """Forty calls: one turn of thirty, ten turns of one."""
    files(project, 40)
    steps = [reads(30), *(reads(1, 30 + at) for at in range(10))]
    with CachingServer(*steps, thinks=thinks) as server:
        ran = run(server, "-p", "read all")
    assert ran.code == 0, ran.err
    cache = server.cache
    assert len(cache.counts) == 12
    assert cache.cost <= 1.15 * cache.least_cost
    ends = [fresh + written + read for fresh, written, read in cache.counts]
    for before, (_, _, read) in zip(ends, cache.counts[1:], strict=False):
        assert read >= 0.95 * before
    for received in server.requests:
        assert len(marks(received.json)) <= 4


@pytest.mark.requirement("COST-01")
def test_a_session_that_is_resumed_reads_what_it_wrote_before(project: Path):
    files(project, 4)
    with CachingServer(reads(2), reads(2, 2)) as server:
        ran = run(server, "-p", "one")
        first = len(server.cache.counts)
        streamed = run(server, "--resume", "latest", "-p", "two", "-o", "stream-json")
    written = [each for _, each, _ in server.cache.counts]
    (model,) = json.loads(ran.out)["stats"]["models"].values()
    assert model["tokens"]["cacheWrite"] == sum(written[:first]) > 0
    stats = json.loads(streamed.out.splitlines()[-1])["stats"]
    assert stats["cache_write"] == sum(written[first:]) > 0
    counts = server.cache.counts
    before = sum(counts[-2])
    assert counts[-1][2] >= 0.95 * before


@pytest.mark.requirement("COST-01")
def test_a_subagent_reads_the_tools_of_its_predecessor(project: Path):
    files(project, 1)
    task = ("delegate_to_agent", {"agent_name": "codebase_investigator", "objective": "look"})
    report = {"summary_of_findings": "x", "exploration_trace": [], "relevant_locations": []}
    first = [("complete_task", {"result": report})]
    with CachingServer([task], first, [task], first) as server:
        ran = run(server, "-p", "go")
    assert ran.code == 0, ran.err
    bodies = [received.json for received in server.requests]
    agents = [
        counts
        for body, counts in zip(bodies, server.cache.counts, strict=True)
        if any(tool["name"] == "complete_task" for tool in body["tools"])
    ]
    assert len(agents) == 2
    assert agents[1][2] > 0.5 * sum(agents[1])


@pytest.mark.requirement("COST-01")
async def test_the_library_marks_its_requests_too(project: Path):
    with CachingServer(reads(1), reads(1, 1)) as server:
        files(project, 2)
        model = Anthropic("claude-opus-4-6", api_key="k", base_url=server.url)
        async with model, Agent(model, cwd=project, policy=[Rule.allow("*")]) as agent:
            result = await agent.run("go")
    assert result.usage.cached_tokens == sum(read for _, _, read in server.cache.counts)
    assert result.usage.cache_write_tokens == sum(each for _, each, _ in server.cache.counts)
    assert server.cache.cost <= 1.15 * server.cache.least_cost


@pytest.mark.requirement("COST-01")
@pytest.mark.parametrize(
    ("time", "control"),
    [("5m", {"type": "ephemeral"}), ("1h", {"type": "ephemeral", "ttl": "1h"}), ("off", None)],
)
def test_the_setting_chooses_how_long_prompts_are_kept(
    project: Path, home: Path, time: str, control: Any
):
    settings = home / ".gemini/settings.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(json.dumps({"model": {"promptCache": time}}))
    with CachingServer() as server:
        assert run(server, "-p", "hi").code == 0
    body = server.requests[0].json
    assert body["messages"][-1]["content"][-1].get("cache_control") == control
    assert len(marks(body)) == (0 if control is None else 4)


@pytest.mark.requirement("COST-01")
async def test_a_small_request_has_no_mark():
    with CachingServer() as server:
        model = Anthropic("claude-opus-4-6", api_key="k", base_url=server.url)
        async with Agent(model, isolated=True, builtin_tools=(), instructions="Be brief.") as agent:
            await agent.ask("hi")
    assert marks(server.requests[0].json) == []


@pytest.mark.parametrize(
    "extra",
    [
        {"system": "Be brief. " * 1000},
        {"system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}] * 2},
        {"tools": []},
        {"messages": [{"role": "user", "content": "Go. " * 2000}]},
    ],
    ids=["a text", "marks", "no tools", "messages"],
)
async def test_what_a_program_puts_into_the_body_itself_stays_as_it_is(extra: dict[str, Any]):
    with ScriptedServer() as server:
        said, usage = {"type": "text", "text": "done"}, {"input_tokens": 1, "output_tokens": 1}
        server.reply(answer([said], "end_turn", usage, stream=True))
        settings = ModelSettings(extra=extra)
        model = Anthropic("claude-opus-4-6", api_key="k", base_url=server.url, settings=settings)
        async with Agent(model, isolated=True) as agent:
            assert await agent.ask("hi" * 4000) == "done"
    sent = server.requests[0].json
    assert {key: sent[key] for key in extra} == extra
    assert json.dumps(sent).count("cache_control") <= 4


class RefusingServer(CachingServer):
    """A compatible server that does not know the field."""

    def take(self, received: Received) -> Reply:
        if marks(received.json):
            self.requests.append(received)
            return json_reply({"error": {"message": "Extra inputs are not permitted"}}, status=400)
        return super().take(received)


@pytest.mark.requirement("COST-01")
@pytest.mark.parametrize("status", [400, 403, 413, 500, 501])
def test_a_server_that_names_the_field_in_its_error_gets_it_once(project: Path, status: int):
    class Server(CachingServer):
        def take(self, received: Received) -> Reply:
            if marks(received.json):
                self.requests.append(received)
                message = "messages.0.content.0.cache_control: Extra inputs are not permitted"
                return json_reply({"error": {"message": message}}, status=status)
            return super().take(received)

    files(project, 1)
    with Server(reads(1)) as server:
        ran = run(server, "-p", "go")
    assert ran.code == 0, ran.err
    marked = [bool(marks(received.json)) for received in server.requests]
    assert marked == [True, False, False]


@pytest.mark.requirement("COST-01")
def test_a_server_that_refuses_the_field_gets_it_once(project: Path):
    files(project, 3)
    with RefusingServer(reads(1), reads(1, 1), reads(1, 2)) as server:
        ran = run(server, "-p", "go")
    assert ran.code == 0, ran.err
    marked = [bool(marks(received.json)) for received in server.requests]
    assert marked == [True, False, False, False, False]


@pytest.mark.requirement("COST-01")
def test_the_tasks_of_a_batch_send_the_field_once_to_a_server_that_refuses_it(project: Path):
    tasks = [json.dumps({"id": f"t{at}", "prompt": f"task {at}"}) for at in range(3)]
    (project / "tasks.jsonl").write_text("\n".join(tasks))
    with RefusingServer() as server:
        options = ("--out", "r.jsonl", "-m", "anthropic:claude-opus-4-6", "--skip-trust")
        environ = {**KEY, "ANTHROPIC_BASE_URL": server.url}
        ran = alhena("batch", "tasks.jsonl", *options, "--concurrency", "1", **environ)
    assert ran.code == 0, ran.err
    marked = [bool(marks(received.json)) for received in server.requests]
    assert marked == [True, False, False, False]


async def test_a_request_that_is_refused_for_another_reason_stays_refused():
    class Server(ScriptedServer):
        def take(self, received: Received) -> Reply:
            self.requests.append(received)
            return json_reply({"error": {"message": "bad tool"}}, status=400)

    with Server() as server:
        model = Anthropic("claude-opus-4-6", api_key="k", base_url=server.url)
        async with Agent(model, isolated=True) as agent:
            with pytest.raises(ModelError, match="bad tool"):
                await agent.ask("hi" * 4000)
    assert [bool(marks(received.json)) for received in server.requests] == [True, False]


@pytest.mark.parametrize("model", ["openai:gpt-4o", "openai-responses:gpt-5.2"])
@pytest.mark.parametrize("own", [True, False], ids=["OpenAI", "a compatible server"])
def test_openai_alone_gets_the_key_of_a_conversation(
    project: Path, monkeypatch: pytest.MonkeyPatch, model: str, own: bool
):
    if own:
        monkeypatch.setattr(openai_compatible, "_OWN_DOMAINS", ("127.0.0.1",))
    with ScriptedServer() as server:
        server.reply(*[json_reply({}, status=400)] * 4)
        for arguments in (["-p", "one"], ["--resume", "latest", "-p", "two"]):
            alhena("-m", model, *arguments, OPENAI_BASE_URL=f"{server.url}/v1", OPENAI_API_KEY="k")
        bodies = [received.json for received in server.requests]
    assert len(bodies) == 2
    keys = [body.get("prompt_cache_key") for body in bodies]
    assert keys[0] == keys[1]
    assert bool(keys[0]) is own


@pytest.mark.parametrize("moves", [False, True], ids=["stays", "moves to the Responses API"])
async def test_a_server_of_openai_that_refuses_the_key_gets_it_once(
    monkeypatch: pytest.MonkeyPatch, moves: bool
):
    monkeypatch.setattr(openai_compatible, "_OWN_DOMAINS", ("127.0.0.1",))

    class Server(ScriptedServer):
        def take(self, received: Received) -> Reply:
            self.requests.append(received)
            message = "bad tool"
            if "prompt_cache_key" in received.json:
                message = "Unrecognized request argument supplied: prompt_cache_key"
            elif moves and received.path.endswith("/completions"):
                message = "This is not a chat model."
            return json_reply({"error": {"message": message}}, status=400)

    with Server() as server:
        for _ in range(2):
            model = OpenAICompatible("gpt-4o", api_key="k", base_url=f"{server.url}/v1")
            async with Agent(model, isolated=True) as agent:
                with pytest.raises(ModelError, match="bad tool"):
                    await agent.ask("hi")
    sent = [(each.path[3:], "prompt_cache_key" in each.json) for each in server.requests]
    chat, last = "/chat/completions", "/responses" if moves else "/chat/completions"
    refused = [(chat, True), (chat, False)]
    assert sent == [*refused, *[(last, False)] * (2 if moves else 1)]


def test_the_tasks_of_a_batch_have_one_key(project: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(openai_compatible, "_OWN_DOMAINS", ("127.0.0.1",))
    tasks = [json.dumps({"id": f"t{at}", "prompt": f"task {at}"}) for at in range(3)]
    (project / "tasks.jsonl").write_text("\n".join(tasks))
    with ScriptedServer() as server:
        server.reply(*[json_reply({}, status=400)] * 3)
        options = ("--out", "r.jsonl", "-m", "openai:gpt-4o", "--skip-trust")
        environ = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "k"}
        ran = alhena("batch", "tasks.jsonl", *options, **environ)
        keys = {received.json.get("prompt_cache_key") for received in server.requests}
    assert len(server.requests) == 3, ran.err
    assert len(keys) == 1
    assert None not in keys
