"""`alhena mcp serve`, with the official SDK as its client."""

import asyncio
import base64
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from mcp import Client
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, ElicitResult, ImageContent, TextContent

from alhena.frontends.shared.pipes import Incoming, Outgoing
from tests.support.command import ALHENA, at_work
from tests.support.patience import PATIENCE_S

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@asynccontextmanager
async def connected(*arguments: str, **options: Any) -> AsyncIterator[Client]:
    async with at_work("mcp", "serve", *arguments) as end, Client(over(end), **options) as client:
        yield client


@asynccontextmanager
async def over(end: socket.socket) -> AsyncIterator[Any]:
    """The streams of a client, from its end of a connection."""
    reading = Incoming(os.dup(end.fileno()), lambda _error: None)
    writing = Outgoing(os.dup(end.fileno()), lambda _error: None)
    with closing(reading), closing(writing):
        async with stdio_server(cast("Any", reading), cast("Any", writing)) as streams:
            try:
                yield streams
            finally:
                end.shutdown(socket.SHUT_WR)


def words(result: CallToolResult) -> str:
    (block,) = (each for each in result.content if isinstance(each, TextContent))
    return block.text


def answering(said: str, asked: list[str]) -> Any:
    async def elicit(_context: object, params: Any) -> ElicitResult:
        asked.append(params.message)
        if said == "decline":
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content={"answer": said})

    return elicit


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_lists_the_tools_and_calls_them(project: Path, mode: str):
    (project / "a.txt").write_text("alpha\n", encoding="utf-8")
    async with connected(mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"read_file", "glob", "search_file_content"} <= set(tools)
        # there is no person to ask, so what could only be denied is not there
        assert not {"write_file", "ask_user", "enter_plan_mode"} & set(tools)
        assert tools["read_file"].input_schema["required"] == ["absolute_path"]
        annotations = tools["read_file"].annotations
        assert annotations is not None
        assert annotations.read_only_hint is True
        result = await client.call_tool("read_file", {"absolute_path": "a.txt"})
        assert not result.is_error
        assert "alpha" in words(result)


APPROVED = {"write_file", "replace", "save_memory", "web_fetch"}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_tools_that_need_approval_are_listed_if_somebody_can_give_it(
    project: Path, mode: str, capfd: pytest.CaptureFixture[str]
):
    asked: list[str] = []
    async with connected(mode=mode, elicitation_callback=answering("decline", asked)) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} >= APPROVED
    assert "not served" not in capfd.readouterr().err
    async with connected("--allowed-tools", "write_file", mode=mode) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert names & APPROVED == {"write_file"}
        missing = await client.call_tool("replace", {})
        assert missing.is_error
        assert "no elicitation" in words(missing)
        assert "--allowed-tools replace" in words(missing)
        written = await client.call_tool("write_file", {"file_path": "b.txt", "content": "beta"})
        assert not written.is_error
    (line,) = [each for each in capfd.readouterr().err.splitlines() if "not served" in each]
    assert "no elicitation" in line
    assert "write_file" not in line
    assert all(name in line for name in APPROVED - {"write_file"})


async def test_media_come_as_media(project: Path):
    (project / "a.png").write_bytes(PNG)
    async with connected() as client:
        result = await client.call_tool("read_file", {"absolute_path": "a.png"})
    (image,) = (each for each in result.content if isinstance(each, ImageContent))
    assert base64.b64decode(image.data) == PNG
    assert image.mime_type == "image/png"


async def test_what_the_policy_denies_is_an_error_that_says_why(project: Path):
    rules = project / "rules.toml"
    rules.write_text(
        '[[rule]]\ntoolName = "write_file"\ndecision = "allow"\npriority = 10\n'
        '[[rule]]\ntoolName = "read_file"\nargsPattern = "secret"\ndecision = "deny"\n'
        'priority = 20\ndeny_message = "not that one"\n',
        encoding="utf-8",
    )
    async with connected("--policy", str(rules)) as client:
        denied = await client.call_tool("read_file", {"absolute_path": "secret.txt"})
        assert denied.is_error
        assert "not that one" in words(denied)
        wrong = await client.call_tool("read_file", {})
        assert wrong.is_error
        assert "absolute_path" in words(wrong)
        unknown = await client.call_tool("reed_file", {})
        assert unknown.is_error
        assert "read_file" in words(unknown)
        outside = await client.call_tool("write_file", {"file_path": "/x", "content": "x"})
        assert outside.is_error
        written = await client.call_tool("write_file", {"file_path": "b.txt", "content": "beta"})
        assert not written.is_error
    assert (project / "b.txt").read_text(encoding="utf-8") == "beta"


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_person_behind_the_client_is_asked(project: Path, mode: str):
    asked: list[str] = []
    client = connected(mode=mode, elicitation_callback=answering("Allow once", asked))
    async with client as running:
        result = await running.call_tool("run_shell_command", {"command": "touch made"})
        assert not result.is_error
    assert (project / "made").exists()
    (message,) = asked
    assert "touch made" in message


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("said", ["Do not allow", "decline", "something else"])
async def test_an_answer_that_is_no_consent_runs_nothing(project: Path, mode: str, said: str):
    asked: list[str] = []
    async with connected(mode=mode, elicitation_callback=answering(said, asked)) as client:
        result = await client.call_tool("run_shell_command", {"command": "touch made"})
        assert result.is_error
        assert len(asked) == 1
    assert not (project / "made").exists()


async def test_consent_for_later_holds_for_the_next_call(project: Path):
    asked: list[str] = []
    async with connected(elicitation_callback=answering("Allow from now on", asked)) as client:
        for name in ("one", "two"):
            result = await client.call_tool("run_shell_command", {"command": f"touch {name}"})
            assert not result.is_error
    assert len(asked) == 1
    assert (project / "two").exists()


async def test_live_output_comes_as_progress(project: Path):
    os.mkfifo(project / "gate")
    told: list[str] = []

    async def progress(_done: float, _total: float | None, message: str | None) -> None:
        if "one" in (message or "") and "one" not in "".join(told):
            (project / "gate").write_bytes(b"")  # it waits for that
        told.append(message or "")

    async with connected("--approval-mode", "yolo", "--skip-trust") as client:
        command = "echo one; : <gate; echo two"
        result = await client.call_tool(
            "run_shell_command", {"command": command}, progress_callback=progress
        )
    assert "two" in words(result)
    assert "one" in "".join(told)


async def test_a_call_that_is_given_up_ends_its_process(project: Path):
    async with connected("--approval-mode", "yolo", "--skip-trust") as client:
        command = "echo $$ > pid; exec sleep 600"
        call = asyncio.ensure_future(client.call_tool("run_shell_command", {"command": command}))
        while not (project / "pid").exists() or not (project / "pid").read_text("utf-8").strip():
            await asyncio.sleep(0.01)
        pid = int((project / "pid").read_text(encoding="utf-8"))
        call.cancel()
        await gone(pid)


async def gone(pid: int) -> None:
    while True:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        await asyncio.sleep(0.01)


async def test_hooks_stand_around_the_calls(home: Path, project: Path):
    (home / ".gemini").mkdir()
    hook = {"type": "command", "command": "cat > seen.json"}
    settings = {"hooks": {"BeforeTool": [{"matcher": "read_file", "hooks": [hook]}]}}
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    (project / "a.txt").write_text("alpha\n", encoding="utf-8")
    async with connected() as client:
        await client.call_tool("read_file", {"absolute_path": "a.txt"})
    assert json.loads((project / "seen.json").read_text(encoding="utf-8"))["tool_name"]


@contextmanager
def serving(*arguments: str) -> "Iterator[subprocess.Popen[bytes]]":
    with subprocess.Popen(
        [ALHENA, "mcp", "serve", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield server


def say(server: "subprocess.Popen[bytes]", data: bytes) -> None:
    assert server.stdin is not None
    server.stdin.write(data)
    server.stdin.flush()


def hear(server: "subprocess.Popen[bytes]") -> Any:
    assert server.stdout is not None
    return json.loads(server.stdout.readline())


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    },
}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, None])
def test_it_ends_with_a_signal_and_with_its_client(number: signal.Signals | None):
    with serving() as server:
        say(server, json.dumps(HELLO).encode() + b"\n")
        assert hear(server)["result"]["serverInfo"]["name"] == "alhena"
        if number is not None:
            server.send_signal(number)
        elif server.stdin is not None:
            server.stdin.close()
        assert server.wait(timeout=PATIENCE_S) == 0


def test_garbage_is_answered_or_passed_over_and_the_server_goes_on():
    with serving() as server:
        say(server, b"{nonsense\n\xff\xfe\n[]\n" + json.dumps(HELLO).encode() + b"\n")
        while hear(server).get("id") != 1:
            pass


def test_settings_that_cannot_be_used_are_told_before_a_client_waits(project: Path):
    (project / "bad.toml").write_text("[[rule", encoding="utf-8")
    with serving("--policy", "bad.toml") as server:
        _, err = server.communicate(timeout=PATIENCE_S)
    assert server.returncode == 52
    assert b"bad.toml" in err


def test_nothing_of_the_sdk_is_loaded_without_it():
    shown = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import alhena.frontends.cli.mcp.serve"],
        capture_output=True,
        check=True,
    )
    assert b"mcp_types" not in shown.stderr


def test_an_answer_to_a_form_that_is_none_means_no(project: Path):
    able = json.loads(json.dumps(HELLO))
    able["params"]["capabilities"] = {"elicitation": {}}
    calling = {"name": "run_shell_command", "arguments": {"command": "touch made"}}
    with serving() as server:
        for message in (
            able,
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": calling},
        ):
            say(server, json.dumps(message).encode() + b"\n")
        while (heard := hear(server)).get("method") != "elicitation/create":
            assert heard.get("id") == 1
        odd = {"jsonrpc": "2.0", "id": heard["id"], "result": {"action": "whatever", "content": 3}}
        say(server, json.dumps(odd).encode() + b"\n")
        assert hear(server)["result"]["isError"] is True
    assert not (project / "made").exists()


async def test_a_question_shows_all_of_a_command_and_where_it_runs(project: Path):
    (project / "below").mkdir()
    asked: list[str] = []
    command = "true " + "a" * 30_000 + "; touch made"
    arguments = {"command": command, "directory": "below", "is_background": False}
    async with connected(elicitation_callback=answering("Allow once", asked)) as client:
        result = await client.call_tool("run_shell_command", arguments)
    assert not result.is_error
    assert (project / "below" / "made").exists()
    (message,) = asked
    assert f"\nIn the directory below\n{command}\n" in message


async def test_a_question_shows_all_that_is_sent_elsewhere(project: Path):
    del project
    asked: list[str] = []
    prompt = "Read http://127.0.0.1:9/a " + "x" * 30_000 + " and http://127.0.0.1:9/b"
    async with connected(elicitation_callback=answering("Do not allow", asked)) as client:
        assert (await client.call_tool("web_fetch", {"prompt": prompt})).is_error
    (message,) = asked
    assert prompt in message
    assert "\nhttp://127.0.0.1:9/b" in message


async def test_a_long_difference_is_shown_whole(project: Path):
    asked: list[str] = []
    content = "# first\n" + "# line\n" * 3_000 + "# last\n"
    call = {"file_path": "a.py", "content": content}
    async with connected(
        "--skip-trust", elicitation_callback=answering("Allow from now on", asked)
    ) as client:
        assert not (await client.call_tool("write_file", call)).is_error
    (message,) = asked
    assert message.count("+# line\n") == 3_000
    assert "+# last" in message
    assert "From now on: " in message
    assert (project / "a.py").read_text(encoding="utf-8") == content


async def test_two_requests_at_once_ask_for_tools_that_come_late_only_once(
    home: Path, project: Path
):
    listed = [{"name": "shout", "description": "Says it loudly."}]
    (project / "list.json").write_text(json.dumps(listed), encoding="utf-8")
    command = "sh -c 'echo >>asked; until [ -e go ]; do sleep 0.05; done; cat list.json'"
    tools = {"discoveryCommand": command, "callCommand": "cat"}
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(json.dumps({"tools": tools}), encoding="utf-8")
    async with connected("--skip-trust", "--allowed-tools", "discovered_tool_shout") as client:
        both = [asyncio.ensure_future(client.list_tools()) for _ in range(2)]
        await asyncio.sleep(0.5)  # the second one has come meanwhile
        (project / "go").touch()
        for listing in both:
            assert "discovered_tool_shout" in {tool.name for tool in (await listing).tools}
    assert (project / "asked").read_text(encoding="utf-8") == "\n"
