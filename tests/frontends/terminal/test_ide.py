"""The editor around the terminal: a companion of the published protocol, and the real command."""

import asyncio
import json
import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from alhena.frontends.terminal import ide
from alhena.frontends.terminal.drawing.lines import plain
from alhena.mcp.connection import McpConnectError
from alhena.mcp.ide import find_companion
from alhena.system.workspace import Workspace
from tests.frontends.terminal.session import ENTER, ESC, PLACEHOLDER, answer, at, calling, leave
from tests.support.server import ScriptedServer, sse, text

TOKEN = "a-token"
NAME = "Test Editor"


class Companion(ThreadingHTTPServer):
    """An editor's companion, in the older form of the protocol that they speak."""

    daemon_threads = True

    def __init__(self, folder: Path, temporary: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.calls: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
        self.events: queue.Queue[tuple[str, Any] | None] = queue.Queue()
        self.left = ""
        self.refuses = False
        self.answers = threading.Event()
        self.answers.set()
        self.sockets: list[Any] = []
        announce(temporary, self.server_port, str(folder))

    def process_request(self, request: Any, client_address: Any) -> None:
        self.sockets.append(request)
        super().process_request(request, client_address)

    def vanish(self) -> None:
        self.shutdown()
        self.server_close()
        for each in self.sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def tell(self, method: str, params: Any) -> None:
        self.events.put((method, params))

    def opens(self, *files: dict[str, Any]) -> None:
        self.tell("ide/contextUpdate", {"workspaceState": {"openFiles": list(files)}})

    def called(self, name: str) -> dict[str, Any]:
        said, arguments = self.calls.get(timeout=30)
        assert said == name
        return arguments


def announce(temporary: Path, port: int, workspace: str, pid: int | None = None) -> Path:
    folder = temporary / "gemini" / "ide"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"gemini-ide-server-{pid or os.getpid()}-{port}.json"
    info = {"name": "test", "displayName": NAME}
    told = {"port": port, "workspacePath": workspace, "authToken": TOKEN, "ideInfo": info}
    file.write_text(json.dumps(told), encoding="utf-8")
    return file


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def companion(self) -> Companion:
        assert isinstance(self.server, Companion)
        return self.server

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing on standard error."""

    def _answer(self, status: int, body: Any = None, kind: str = "application/json") -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("mcp-session-id", "one")
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.companion.answers.wait(30)
        if self.headers.get("authorization") != f"Bearer {TOKEN}":
            return self._answer(401)
        if "id" not in message:
            return self._answer(202)
        method, params = message["method"], message.get("params") or {}
        result: dict[str, Any] = {}
        if method == "initialize":
            info = {"name": "companion", "version": "1"}
            result = {"protocolVersion": "2025-03-26", "capabilities": {}, "serverInfo": info}
        elif method == "tools/call":
            name, arguments = params["name"], params["arguments"]
            self.companion.calls.put((name, arguments))
            said = json.dumps({"content": self.companion.left}) if name == "closeDiff" else "shown"
            result = {
                "content": [{"type": "text", "text": said}],
                "isError": self.companion.refuses,
            }
        return self._answer(200, {"jsonrpc": "2.0", "id": message["id"], "result": result})

    def do_DELETE(self) -> None:
        self._answer(200)

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        while (event := self.companion.events.get()) is not None:
            message = {"jsonrpc": "2.0", "method": event[0], "params": event[1]}
            self.wfile.write(f"event: message\ndata: {json.dumps(message)}\n\n".encode())
        self.close_connection = True


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    (tmp_path / "tmp").mkdir()
    return tmp_path / "tmp"


@contextmanager
def companion_of(folder: Path, temporary: Path) -> Iterator[Companion]:
    with Companion(folder, temporary) as companion:
        threading.Thread(target=companion.serve_forever, daemon=True).start()
        try:
            yield companion
        finally:
            companion.events.put(None)
            companion.shutdown()


@pytest.fixture
def companion(home: Path, project: Path, temporary: Path) -> Iterator[Companion]:
    settings = home / ".gemini" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text('{"ide": {"enabled": true}}', encoding="utf-8")
    with companion_of(project, temporary) as running:
        yield running


def writing(content: str = "one\n") -> Any:
    return calling("write_file", {"file_path": "a.txt", "content": content})


def connected(terminal: Any) -> None:
    terminal.until(PLACEHOLDER)
    terminal.until(f"Connected to {NAME}.")


@pytest.mark.requirement("CLI-05")
def test_the_model_hears_what_is_open_once_and_again_when_it_changes(
    server: ScriptedServer, companion: Companion, project: Path, temporary: Path
):
    (project / ".gitignore").write_text("secret.txt\n", encoding="utf-8")
    for name in ("app.py", "other.py", "secret.txt"):
        (project / name).write_text("x", encoding="utf-8")
    active = {"path": str(project / "app.py"), "timestamp": 3, "isActive": True}
    active |= {"cursor": {"line": 7, "character": 2}, "selectedText": "s" * 20_000}
    secret = {"path": str(project / "secret.txt"), "timestamp": 4, "selectedText": "hush"}
    elsewhere = {"path": "/etc/passwd", "timestamp": 5}
    server.reply(*(sse(text(f"answer {number}")) for number in range(3)))
    with at(server, TMPDIR=str(temporary)) as terminal:
        connected(terminal)
        companion.tell("ide/contextUpdate", {"workspaceState": {"openFiles": [{"path": 1}]}})
        companion.opens(elsewhere, secret, {"path": str(project / "other.py")}, active)
        while "other.py" not in terminal.screen.text:
            terminal.send("/ide status" + ENTER)
            terminal.until(
                f"Connected to {NAME}.", times=terminal.screen.text.count("Connected") + 1
            )
        for number in range(3):
            if number == 2:
                companion.opens({"path": str(project / "other.py"), "isActive": True})
                terminal.send("/clear" + ENTER)
                terminal.until("/clear")
            terminal.send(f"prompt {number}" + ENTER)
            terminal.until(f"answer {number}")
        leave(terminal)
    first, second, third = (request.body.decode() for request in server.requests[:3])
    for part in ("app.py", "other.py", "activeFile", "s" * 16_384 + "... [TRUNCATED]"):
        assert part in first
    assert "s" * 16_385 not in first
    assert "hush" not in first
    assert "passwd" not in first
    assert second.count("activeFile") == 1
    assert third.count("activeFile") == 1


@pytest.mark.requirement("CLI-05")
def test_an_edit_is_answered_in_the_editor_as_the_person_leaves_it(
    server: ScriptedServer, companion: Companion, project: Path, temporary: Path
):
    server.reply(writing(), writing("two\n"), sse(text("**Done.**")))
    path = str(project / "a.txt")
    with at(server, TMPDIR=str(temporary)) as terminal:
        connected(terminal)
        terminal.send("write" + ENTER)
        assert companion.called("openDiff") == {"filePath": path, "newContent": "one\n"}
        companion.tell("ide/diffAccepted", {"filePath": path, "content": "mine\n"})
        terminal.until(f"Accepted in {NAME}.")
        assert companion.called("openDiff") == {"filePath": path, "newContent": "two\n"}
        assert (project / "a.txt").read_text(encoding="utf-8") == "mine\n"
        companion.tell("ide/diffRejected", {"filePath": path})
        terminal.until(f"Rejected in {NAME}.")
        terminal.until("■ Stopped. What should be done instead?")
        leave(terminal)
    assert (project / "a.txt").read_text(encoding="utf-8") == "mine\n"
    assert companion.calls.empty()
    assert len(server.requests) == 2


@pytest.mark.requirement("CLI-05")
def test_an_edit_is_answered_at_the_terminal_and_the_diff_is_closed(
    server: ScriptedServer, companion: Companion, project: Path, temporary: Path
):
    server.reply(writing(), writing("two\n"), sse(text("**Done.**")))
    close = {"filePath": str(project / "a.txt"), "suppressNotification": True}
    companion.left = "as left in the editor\n"
    with at(server, TMPDIR=str(temporary)) as terminal:
        connected(terminal)
        terminal.send("write" + ENTER)
        companion.called("openDiff")
        answer(terminal, "y")
        assert companion.called("closeDiff") == close
        companion.called("openDiff")
        assert (project / "a.txt").read_text(encoding="utf-8") == companion.left
        terminal.send(ESC)
        assert companion.called("closeDiff") == close
        terminal.until("■ Stopped. What should be done instead?")
        leave(terminal)
    assert (project / "a.txt").read_text(encoding="utf-8") == companion.left


@pytest.mark.requirement("CLI-05")
def test_an_editor_that_refuses_or_vanishes_leaves_the_question_to_the_terminal(
    server: ScriptedServer, companion: Companion, project: Path, temporary: Path
):
    server.reply(writing(), writing("two\n"), sse(text("**Done.**")))
    companion.refuses = True
    with at(server, TMPDIR=str(temporary)) as terminal:
        connected(terminal)
        terminal.send("write" + ENTER)
        terminal.until(f"Not shown in {NAME}: shown")
        answer(terminal, "y")
        companion.called("openDiff")
        companion.refuses = False
        companion.called("openDiff")
        companion.vanish()
        terminal.until("+ two")
        answer(terminal, "y")
        terminal.until("has gone away")
        terminal.until("Done.")
        terminal.send("/ide" + ENTER)
        terminal.until(f"No editor is connected: {NAME} has gone away")
        leave(terminal)
    assert (project / "a.txt").read_text(encoding="utf-8") == "two\n"


@pytest.mark.requirement("CLI-05")
def test_ide_says_why_there_is_none_and_is_switched_on_and_off(
    server: ScriptedServer, home: Path, project: Path, temporary: Path
):
    settings = home / ".gemini" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text('{\n  // mine\n  "ui": {}\n}', encoding="utf-8")
    with at(server, TMPDIR=str(temporary)) as terminal:
        terminal.until(PLACEHOLDER)
        for said, told in (
            ("/ide", "ide.enabled is not set"),
            ("/ide enable", "no editor has announced itself"),
            ("/ide install", "Install the Gemini CLI companion extension"),
            ("/ide no", "Usage: /ide status"),
        ):
            terminal.send(said + ENTER)
            terminal.until(told)
        with companion_of(project, temporary):
            terminal.send("/ide enable" + ENTER)
            terminal.until(f"Connected to {NAME}.")
            terminal.send("/ide disable" + ENTER)
            terminal.until("ide.enabled is false")
        leave(terminal)
    written = settings.read_text(encoding="utf-8")
    assert "// mine" in written
    assert '"enabled": false' in written


async def test_an_editor_that_does_not_answer_in_time_ends_no_session(
    home: Path, project: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(ide, "ENABLING_S", 0.1)
    shown: list[str] = []
    link = ide.EditorLink(lambda lines: shown.extend(map(str, lines)))
    link.begin(Workspace(project), enabled=False)
    with companion_of(project, temporary) as companion:
        companion.answers.clear()
        (told,) = await link.command("enable")
        assert plain([told]) == "No editor is connected: connecting"
        companion.answers.set()
        while not shown:
            await asyncio.sleep(0.01)
        assert f"Connected to {NAME}." in shown[0]
        await link.stop()


@contextmanager
def listeners(count: int) -> Iterator[list[int]]:
    """Ports on which this process listens."""
    opened = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        yield [each.getsockname()[1] for each in opened]
    finally:
        for each in opened:
            each.close()


def refused(temporary: Path, project: Path, why: str, **more: str) -> None:
    with pytest.raises(McpConnectError, match=why):
        find_companion({"TMPDIR": str(temporary)} | more, project)


def test_the_companion_is_the_one_that_has_this_directory_open(project: Path, temporary: Path):
    environ = {"TMPDIR": str(temporary)}
    with listeners(4) as (first, second, third, fourth):
        refused(temporary, project, "no editor has announced itself")
        announce(temporary, first, str(project), pid=2**30)  # no such process
        announce(temporary, second, str(project)).write_text("{", encoding="utf-8")
        (temporary / "gemini" / "ide" / "gemini-ide-server-x-3.json").write_text("")
        refused(temporary, project, "no editor has announced itself")
        announce(temporary, first, "")
        refused(temporary, project, f"{NAME} has no folder open")
        announce(temporary, second, f"/elsewhere{os.pathsep}{project.parent}")
        os.utime(announce(temporary, third, str(project)), (1, 1))
        assert find_companion(environ, project).port == second
        environ |= {"GEMINI_CLI_IDE_SERVER_PORT": str(third)}
        assert find_companion(environ, project).port == third
        own = {"GEMINI_CLI_IDE_SERVER_PORT": str(fourth), "GEMINI_CLI_IDE_AUTH_TOKEN": "t"}
        found = find_companion({**own, "GEMINI_CLI_IDE_WORKSPACE_PATH": str(project)}, project)
        assert (found.port, found.token) == (fourth, "t")
        assert "t'" not in repr(found)


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files to others")
@pytest.mark.parametrize("which", ["file", "ide", "gemini"])
def test_another_users_announcement_is_refused(project: Path, temporary: Path, which: str):
    with listeners(1) as (port,):
        file = announce(temporary, port, str(project))
        paths = {"file": file, "ide": file.parent, "gemini": file.parent.parent}
        os.chown(paths[which], 12345, -1)
        refused(temporary, project, "belongs to another user")


@pytest.mark.parametrize("which", ["file", "ide", "gemini"])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_an_announcement_that_others_can_write_is_refused(
    project: Path, temporary: Path, which: str, mode: int
):
    with listeners(1) as (port,):
        file = announce(temporary, port, str(project))
        path = {"file": file, "ide": file.parent, "gemini": file.parent.parent}[which]
        path.chmod(path.stat().st_mode | mode)
        refused(temporary, project, "chmod go-w")


@pytest.mark.parametrize("which", ["file", "ide", "gemini"])
def test_an_announcement_behind_a_link_is_refused(project: Path, temporary: Path, which: str):
    with listeners(1) as (port,):
        file = announce(temporary, port, str(project))
        path = {"file": file, "ide": file.parent, "gemini": file.parent.parent}[which]
        elsewhere = temporary / "elsewhere"
        path.rename(elsewhere)
        path.symlink_to(elsewhere)
        refused(temporary, project, "is a link")


CHILD = """
import os, socket, sys
if len(sys.argv) > 1:
    os.setuid(int(sys.argv[1]))
print(socket.create_server(("127.0.0.1", 0)).getsockname()[1], flush=True)
held = socket.create_server(("127.0.0.1", 0))
print(held.getsockname()[1], flush=True)
sys.stdin.read()
"""


@contextmanager
def child(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], int, int]]:
    """A process that listens; a port that it has closed, and the one it listens on."""
    pipe = subprocess.PIPE
    argv = [sys.executable, "-c", CHILD, *arguments]
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) as process:
        closed, port = (int(process.stdout.readline()) for _ in range(2))
        yield process, closed, port
        process.stdin.close()


def test_the_process_that_listens_is_the_announced_one_or_its_child(project: Path, temporary: Path):
    with child() as (announced, closed, port), child() as (_, _, others), listeners(1) as (mine,):
        announce(temporary, others, str(project), pid=announced.pid)
        refused(temporary, project, "another one listens there")
        announce(temporary, mine, str(project), pid=announced.pid)
        refused(temporary, project, "another one listens there")
        announce(temporary, closed, str(project))
        refused(temporary, project, "not trusted")
        announce(temporary, port, str(project), pid=os.getpid())  # of a child
        assert find_companion({"TMPDIR": str(temporary)}, project).port == port


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes another user")
def test_a_listener_of_another_user_is_refused(project: Path, temporary: Path):
    with child("12345") as (process, _, port):
        announce(temporary, port, str(project), pid=process.pid)
        refused(temporary, project, "a process of another user listens")
        (temporary / "gemini" / "ide" / f"gemini-ide-server-{process.pid}-{port}.json").unlink()
        refused(
            temporary, project, "a process of another user", GEMINI_CLI_IDE_SERVER_PORT=str(port)
        )
