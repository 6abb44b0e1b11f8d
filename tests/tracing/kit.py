"""A session with a denial, an edit, a failed request and a subagent, recorded by the real command;
its journal can be put into other projects."""

import os
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from alhena.config.home import claim_project_temp, project_temp
from alhena.session.records import Header, line_of, record_of, relined
from alhena.session.store import open_store
from tests.support.command import alhena, keyed
from tests.support.server import ScriptedServer, call, chunk, json_reply, sse

SECRET = "AIza" + "Sy1234567890abcdefghijklmnopqrstuvw"[:35]
USAGE = {"promptTokenCount": 1_000, "candidatesTokenCount": 100, "totalTokenCount": 1_100}
BUSY = {"error": {"code": 503, "message": "later", "status": "UNAVAILABLE"}}
MODEL = "gemini-2.5-flash"
PROMPT = "Look <b>around</b>."


def turn(*parts: dict[str, Any]) -> Any:
    """An answer with its token counts."""
    return sse(chunk(*parts, finish="STOP", usage=USAGE))


@cache
def recorded() -> bytes:
    """The journal of the session, recorded in the project of the first test that asks for it."""
    project = Path.cwd()
    (project / "a.txt").write_text(f"hello <script>\nkey {SECRET}\n", encoding="utf-8")
    task = {"agent_name": "generalist", "objective": "List it."}
    edit = {"file_path": "a.txt", "old_string": "hello", "new_string": "goodbye"}
    with ScriptedServer() as server:
        server.reply(
            turn(
                call("read_file", {"absolute_path": "a.txt"}, id="r1"),
                call("run_shell_command", {"command": "curl example.com"}, id="s1"),
            ),
            json_reply(BUSY, 503),
            turn({"text": "Now a change."}, call("replace", edit, id="e1")),
            turn(call("delegate_to_agent", task, id="d1")),
            turn(call("list_directory", {"path": "."}, id="l1")),
            turn(call("complete_task", {"result": "There is a.txt."}, id="f1")),
            turn({"text": "All is <b>done</b>."}),
        )
        options = ("--approval-mode", "auto_edit", "-m", MODEL)
        ran = alhena("-p", PROMPT, *options, **keyed(server))
    assert ran.code == 0, ran.err
    store = open_store(project_temp(os.environ, project))
    path = Path(store.find("latest").path)
    data = path.read_bytes()
    path.unlink()
    return data


def place(data: bytes, project: Path, session_id: str = "s") -> Path:
    """Writes a journal as one of the project's own; its path."""
    header, *lines = data.splitlines()
    first = record_of(header)
    assert isinstance(first, Header)
    own = msgspec.structs.replace(first, session_id=session_id, project=str(project))
    line, chain = line_of(own, 0)
    made = [line]
    for each in lines:
        line, chain = relined(each, chain)
        made.append(line)
    temp = project_temp(os.environ, project)
    claim_project_temp(temp, project)
    path = temp / "sessions" / f"{session_id}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(made))
    return path


def events(data: bytes, kind: str) -> list[dict[str, Any]]:
    """The events of a type in a journal."""
    found = (
        each["event"] for each in map(msgspec.json.decode, data.splitlines()) if "event" in each
    )
    return [event for event in found if event["type"] == kind]
