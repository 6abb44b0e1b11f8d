"""A session with a denial, an edit, a failed request and a subagent, recorded by the real command;
its journal can be put into other projects."""

import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from alhena.config.home import claim_project_temp, project_temp
from alhena.events import (
    ApiResponseEvent,
    ToolCallRequestEvent,
    ToolCallResponseEvent,
    ToolCallUpdateEvent,
    UserMessageEvent,
    timestamp,
)
from alhena.models.prices import Prices
from alhena.session.records import Header, KnownRecord, line_of, record_of, reseal_line
from alhena.session.replay import JournalRecorder
from alhena.session.store import open_store
from alhena.telemetry.records import Redaction
from alhena.tracing.page import as_page
from alhena.tracing.timeline import read_timeline
from alhena.wire.content import (
    USER,
    Content,
    EncodedContent,
    FunctionCall,
    FunctionResponse,
    Part,
    text_content,
)
from tests.support.command import alhena, keyed
from tests.support.server import ScriptedServer, call, chunk, json_reply, sse

SECRET = "AIza" + "Sy1234567890abcdefghijklmnopqrstuvw"[:35]
USAGE = {"promptTokenCount": 1_000, "candidatesTokenCount": 100, "totalTokenCount": 1_100}
CROWDED = {
    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
    "reason": "MODEL_CAPACITY_EXHAUSTED",
}
BUSY = {
    "error": {
        "code": 429,
        "message": "later",
        "status": "RESOURCE_EXHAUSTED",
        "details": [CROWDED | {"domain": "cloudcode-pa.googleapis.com"}],
    }
}
MODEL = "gemini-2.5-flash"
PROMPT = "Look <b>around</b>."


def turn(*parts: dict[str, Any]) -> Any:
    """An answer with its token counts."""
    return sse(chunk(*parts, finish="STOP", usage=USAGE))


@cache
def record_journal() -> bytes:
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
            json_reply(BUSY, 429),
            turn({"text": "Now a change."}, call("replace", edit, id="e1")),
            turn(call("delegate_to_agent", task, id="d1")),
            turn(call("list_directory", {"path": "."}, id="l1")),
            turn(call("complete_task", {"result": "There is a.txt."}, id="f1")),
            turn({"text": "All is <b>done</b>."}),
        )
        options = ("--approval-mode", "auto_edit", "--skip-trust", "-m", MODEL)
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
        line, chain = reseal_line(each, chain)
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


def exported_page(journal: Path) -> bytes:
    """The page of `alhena sessions export --format html`."""
    timeline = read_timeline(journal, Prices({}))
    return as_page(timeline, Redaction({}), view="conversation")


def data_of(page: bytes) -> Any:
    """The data in a page."""
    found = re.search(rb'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return msgspec.json.decode(found[1])


def long_journal(path: Path, calls: int, result: str = "") -> Path:
    """A journal with so many calls, each with a result of `result` or of 300 characters."""
    clock = iter(range(10**9))

    def now() -> str:
        return timestamp(1_769_860_800_000_000_000 + 5_000_000 * next(clock))

    header = Header(at=now(), version=1, session_id=path.stem, project="/p", writer="1")
    line, chain = line_of(header, 0)
    lines = [line]

    def append(record: KnownRecord) -> None:
        nonlocal chain
        line, chain = line_of(record, chain)
        lines.append(line)

    recorder = JournalRecorder(append, now)
    recorder.event(UserMessageEvent(prompt_id="s#1", text="Read everything."))
    recorder.history(0, [EncodedContent(text_content(USER, "Read everything."))])
    reason = "allowed by the default policy (reading.toml:6, rule 1)"
    for index in range(calls):
        call_id, args = f"c{index}", {"absolute_path": f"src/module_{index}.py"}
        output = result or f"{index} line of text\n" * 15
        parts = (
            Part(
                function_response=FunctionResponse(
                    id=call_id, name="read_file", response={"output": output}
                )
            ),
        )
        asked = Part(function_call=FunctionCall(id=call_id, name="read_file", args=args))
        for event in (
            ApiResponseEvent(
                model=MODEL, prompt_id="s#1", duration_ms=9.0, input_tokens=1_000, output_tokens=50
            ),
            ToolCallRequestEvent(call_id=call_id, name="read_file", args=args, prompt_id="s#1"),
        ):
            recorder.event(event)
        recorder.history(2 * index + 1, [EncodedContent(Content(role="model", parts=(asked,)))])
        for status in ("scheduled", "executing"):
            recorder.event(ToolCallUpdateEvent(call_id=call_id, name="read_file", status=status))
        recorder.event(
            ToolCallResponseEvent(
                call_id=call_id,
                name="read_file",
                status="success",
                display="Read it",
                duration_ms=4.0,
                reason=reason,
                rule="default (reading.toml:6, rule 1)",
                parts=parts,
            )
        )
        recorder.history(2 * index + 2, [EncodedContent(Content(role=USER, parts=parts))])
    path.write_bytes(b"".join(lines))
    return path
