"""Checks of the reference's interactive integration tests, driven as those drive a terminal: they
type a character once the one before is echoed, and read the output without its control sequences.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest

from alhena.frontends.terminal.dialogs.approval import REASON
from tests.frontends.terminal.session import (
    CTRL_C,
    CTRL_D,
    PLACEHOLDER,
    answer,
    assert_restored,
    at,
    calling,
    leave,
)
from tests.mcp.kit import odd, tool
from tests.support.server import ScriptedServer, call, chunk, json_reply, sse, text
from tests.support.terminal import Terminal
from tests.telemetry.reading import Observed

SEQUENCE = re.compile(
    r"\x1b\[[0-9;?<=>]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][0-9A-B]"
)
SNAPSHOT = "<state_snapshot><overall_goal>foxes</overall_goal></state_snapshot>"


class Run:
    """A session with the settings of those tests, in the home directory and the workspace."""

    def __init__(self, server: ScriptedServer, home: Path, project: Path, **more: Any) -> None:
        self.log = home / "telemetry.log"
        settings = {
            "general": {"disableAutoUpdate": True},
            "telemetry": {"enabled": True, "target": "local", "outfile": str(self.log)},
            "security": {
                "auth": {"selectedType": "gemini-api-key"},
                "folderTrust": {"enabled": False},
            },
            "ui": {"useAlternateBuffer": True},
            "sandbox": False,
            "ide": {"enabled": False, "hasSeenNudge": True},
        } | more
        for folder in (home, project):
            (folder / ".gemini").mkdir()
            (folder / ".gemini" / "settings.json").write_text(json.dumps(settings), "utf-8")
        self.server = server

    def start(self, *arguments: str, **options: Any) -> Terminal:
        terminal = at(self.server, *arguments, **options)
        expect(terminal, "Type your message")
        return terminal

    def logged(self, name: str) -> list[dict[str, Any]]:
        """Attributes of the records of this name."""
        return Observed(self.log).of(name)


def expect(terminal: Terminal, words: str, times: int = 1) -> None:
    """Reads until the output contains the words, in upper or lower case."""
    _read_until(
        terminal, lambda output: output.lower().count(words.lower()) >= times, f"no {words!r}"
    )


def keys(terminal: Terminal, words: str) -> None:
    """Types, each character once those before are in the output one after the other."""
    typed = ""
    for char in words:
        terminal.send(char)
        typed += char
        _read_until(terminal, re.compile(re.escape(typed)).search, f"{typed!r} is not echoed")


def _read_until(terminal: Terminal, met: Callable[[str], object], problem: str) -> None:
    while not met(output := SEQUENCE.sub("", terminal.raw)):
        try:
            terminal.take()
        except (pexpect.TIMEOUT, pexpect.EOF) as error:
            raise AssertionError(f"{problem} in:\n{output[-3_000:]}") from error


def enter(terminal: Terminal, words: str) -> None:
    keys(terminal, words)
    terminal.send("\r")


def hook(project: Path, name: str, says: str = "", **more: Any) -> list[Any]:
    """A hook that keeps what it gets in a file of its name, one line each time, and says this."""
    script = project / f"{name}.sh"
    script.write_text(f"cat >> {project}/{name}.jsonl; echo >> {project}/{name}.jsonl\n{says}\n")
    return [{"hooks": [{"type": "command", "command": f"sh {script}", "timeout": 5000}], **more}]


def told(project: Path, name: str) -> list[dict[str, Any]]:
    """The inputs of a hook."""
    lines = (project / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line]


@pytest.mark.requirement("CLI-02")
def test_what_is_typed_is_echoed_as_text_and_the_second_ctrl_c_leaves(
    server: ScriptedServer, home: Path, project: Path
):
    server.reply(sse(text("Hello there.")))
    with Run(server, home, project).start() as terminal:
        enter(terminal, "Say hello, please")
        expect(terminal, "Hello there.")
        expect(terminal, "1 turn")
        terminal.until(PLACEHOLDER)
        terminal.send(CTRL_C)
        expect(terminal, "Press Ctrl")
        terminal.send(CTRL_C)
        assert terminal.ended() == 0


def test_a_start_hook_is_shown_and_its_context_sent(
    server: ScriptedServer, home: Path, project: Path
):
    says = {
        "decision": "allow",
        "systemMessage": "Message of the start",
        "hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "A Jedi."},
    }
    hooks = {
        "SessionStart": hook(project, "start", f"echo '{json.dumps(says)}'", matcher="startup")
    }
    run = Run(server, home, project, hooks=hooks, hooksConfig={"enabled": True})
    server.reply(sse(text("Hello.")))
    with run.start() as terminal:
        expect(terminal, "Message of the start")
        enter(terminal, "Hello")
        expect(terminal, "Hello.")
        leave(terminal)
    assert "A Jedi." in server.requests[0].body.decode()
    (request,) = run.logged("api_request")
    assert "A Jedi." in request["request_text"]
    (called,) = run.logged("hook_call")
    assert called["hook_event_name"] == "SessionStart"


def test_clear_ends_one_session_and_starts_another_for_hooks(
    server: ScriptedServer, home: Path, project: Path
):
    hooks = {
        "SessionStart": hook(project, "start", matcher="*", sequential=True),
        "SessionEnd": hook(project, "end", matcher="*", sequential=True),
    }
    server.reply(*(sse(text(f"Answer {number}.")) for number in range(3)))
    with Run(server, home, project, hooks=hooks).start() as terminal:
        for number in range(3):
            enter(terminal, f"Say {number}")
            expect(terminal, f"Answer {number}.")
            expect(terminal, "1 turn", times=number + 1)
            enter(terminal, "/clear")
            expect(terminal, "Started a new conversation", times=number + 1)
        leave(terminal)
    assert [each["source"] for each in told(project, "start")] == ["startup", *["clear"] * 3]
    assert [each["reason"] for each in told(project, "end")] == [*["clear"] * 3, "exit"]


def test_a_hook_that_asks_is_asked_about_even_in_yolo_mode(
    server: ScriptedServer, home: Path, project: Path
):
    says = {"decision": "ask", "systemMessage": "FORCED BY A HOOK"}
    hooks = {"BeforeTool": hook(project, "ask", f"echo '{json.dumps(says)}'", matcher="write_file")}
    args = {"file_path": "ask.txt", "content": "Hello Ask"}
    server.reply(calling("write_file", args), sse(text("Written successfully.")))
    with Run(server, home, project, hooks=hooks).start("--yolo", "--skip-trust") as terminal:
        enter(terminal, "Create a file")
        expect(terminal, "FORCED BY A HOOK")
        expect(terminal, "Allow")
        assert not (project / "ask.txt").exists()
        terminal.until("↑/↓ select")
        enter(terminal, "y")
        expect(terminal, "successfully")
        leave(terminal)
    assert (project / "ask.txt").read_text(encoding="utf-8") == "Hello Ask"


@pytest.mark.requirement("WORLD-04")
def test_answers_to_the_question_of_a_hook_have_their_usual_numbers(
    server: ScriptedServer, home: Path, project: Path
):
    says = {"decision": "ask", "systemMessage": "FORCED BY A HOOK"}
    hooks = {"BeforeTool": hook(project, "ask", f"echo '{json.dumps(says)}'")}
    args = {"file_path": "ask.txt", "content": "Hello Ask"}
    server.reply(calling("write_file", args), calling("run_shell_command", {"command": "true"}))
    server.reply(sse(text("All done.")))
    with Run(server, home, project, hooks=hooks).start("--yolo", "--skip-trust") as terminal:
        enter(terminal, "Create a file")
        expect(terminal, "4/n No")
        terminal.until("↑/↓ select")
        enter(terminal, "4")
        terminal.until(REASON)
        terminal.send("\r")
        expect(terminal, "Stopped. What should be done instead?")
        assert not (project / "ask.txt").exists()
        terminal.until(PLACEHOLDER)
        enter(terminal, "Run it")
        expect(terminal, "4/n No", times=2)
        terminal.until("↑/↓ select")
        enter(terminal, "1")
        expect(terminal, "All done.")
        leave(terminal)


def test_an_after_agent_hook_gets_each_answer(server: ScriptedServer, home: Path, project: Path):
    hooks = {"AfterAgent": hook(project, "after", 'echo \'{"systemMessage": "Seen."}\'')}
    server.reply(sse(text("Response 1")), sse(text("Response 2")))
    with Run(server, home, project, hooks=hooks).start() as terminal:
        for number in (1, 2):
            enter(terminal, f"Hello {number}")
            expect(terminal, f"Response {number}")
            expect(terminal, "Seen.", times=number)
        leave(terminal)
    assert [each["prompt_response"] for each in told(project, "after")] == [
        "Response 1",
        "Response 2",
    ]


@pytest.mark.requirement("CLI-02")
def test_compression_succeeds_fails_or_has_nothing_to_do(
    server: ScriptedServer, home: Path, project: Path
):
    long = " ".join(f"Word {number} of a long answer." for number in range(300))
    summaries = [SNAPSHOT] * 2 + [SNAPSHOT.replace("foxes", long * 3)] * 2
    server.reply(*[sse(text(long))] * 2, *(json_reply(text(each)) for each in summaries))
    run = Run(server, home, project)
    with run.start() as terminal:
        enter(terminal, "/compress")
        expect(terminal, "Nothing to compress.")
        for number in (1, 2):
            enter(terminal, f"Initial prompt {number}")
            expect(terminal, "1 turn", times=number)
        enter(terminal, "/compress")
        expect(terminal, "Chat history compressed")
        enter(terminal, "/compress")
        expect(terminal, "compression was not beneficial")
        leave(terminal)
    assert len(run.logged("chat_compression")) == 2


def test_servers_are_listed_with_their_tools(server: ScriptedServer, home: Path, project: Path):
    servers = {"test-server": odd(project, {"tools": [tool("hello"), tool("goodbye")]})}
    with Run(server, home, project, mcpServers=servers).start() as terminal:
        enter(terminal, "/mcp list")
        expect(terminal, "test-server")
        expect(terminal, "2 tools")
        expect(terminal, "hello")
        expect(terminal, "goodbye")
        leave(terminal)


def test_a_background_command_is_listed_and_read(server: ScriptedServer, home: Path, project: Path):
    command = {"command": "echo from behind; sleep 60", "is_background": True}
    server.reply(
        calling("run_shell_command", command),
        sse(text("Started it.")),
        calling("list_background_processes", {}),
        sse(text("Listed it.")),
    )
    run = Run(server, home, project)
    with run.start("--yolo", "--skip-trust") as terminal:
        enter(terminal, "Run it behind")
        expect(terminal, "Started it.")
        (pid,) = re.findall(r"PID: (\d+)", server.requests[1].body.decode())
        server.reply(calling("read_background_output", {"pid": int(pid)}), sse(text("Read it.")))
        enter(terminal, "List them")
        expect(terminal, "Listed it.")
        enter(terminal, "Read the output")
        expect(terminal, "Read it.")
        terminal.send(CTRL_D)
        expect(terminal, "End 1 command and leave?")
        answer(terminal, "y")
        assert terminal.ended() == 0
        assert_restored(terminal)
    assert "sleep 60" in server.requests[3].body.decode()
    assert "from behind" in str(server.requests[5].json["contents"][-1])
    assert [each["success"] for each in run.logged("tool_call")] == [True] * 3


def test_calls_of_one_answer_run_in_waves_with_one_approval(
    server: ScriptedServer, home: Path, project: Path
):
    for number in range(1, 5):
        (project / f"file{number}.txt").write_text(f"c{number}", encoding="utf-8")
    wanted: list[tuple[str, dict[str, Any]]] = [
        *(("read_file", {"file_path": f"file{number}.txt"}) for number in (1, 2)),
        ("write_file", {"file_path": "output.txt", "content": "wave2"}),
        *(("read_file", {"file_path": f"file{number}.txt"}) for number in (3, 4)),
    ]
    parts = [call(name, args, id=str(at)) for at, (name, args) in enumerate(wanted)]
    server.reply(sse(chunk(*parts, finish="STOP")), sse(text("All waves completed successfully.")))
    run = Run(server, home, project, tools={"core": ["read_file", "write_file"]})
    with run.start() as terminal:
        enter(terminal, "ok")
        expect(terminal, "Allow")
        terminal.until("↑/↓ select")
        enter(terminal, "y")
        expect(terminal, "All waves completed successfully.")
        leave(terminal)
    assert (project / "output.txt").read_text(encoding="utf-8") == "wave2"
    calls = [(each["function_name"], each["success"]) for each in run.logged("tool_call")]
    assert calls == [(name, True) for name, _ in wanted]


def test_a_file_is_read_then_changed(server: ScriptedServer, home: Path, project: Path):
    (project / "version.txt").write_text("1.0.0", encoding="utf-8")
    change = {"file_path": "version.txt", "old_string": "1.0.0", "new_string": "1.0.1"}
    server.reply(
        calling("read_file", {"file_path": "version.txt"}),
        sse(text("It is 1.0.0.")),
        calling("replace", change),
        sse(text("Changed.")),
    )
    with Run(server, home, project).start("--yolo", "--skip-trust") as terminal:
        enter(terminal, "Read the version")
        expect(terminal, "It is 1.0.0.")
        enter(terminal, "Make it 1.0.1")
        expect(terminal, "Changed.")
        leave(terminal)
    assert (project / "version.txt").read_text(encoding="utf-8") == "1.0.1"


def test_a_long_answer_does_not_flicker(server: ScriptedServer, home: Path, project: Path):
    lines = [f"- fact {number} of many" for number in range(60)]
    server.reply(sse(*(text(f"{each}\n", None) for each in lines), text("\nThat is all.")))
    with Run(server, home, project).start(rows=12) as terminal:
        enter(terminal, "Tell me a fact")
        expect(terminal, "That is all.")
        terminal.until("1 turn")
        leave(terminal)
    shown = terminal.screen.text
    assert [shown.count(f"fact {number} of many") for number in range(60)] == [1] * 60
    assert not re.search(r"\x1b\[[23]J|\x1b\[\?1049h", terminal.raw)
