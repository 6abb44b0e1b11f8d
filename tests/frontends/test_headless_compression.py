"""A compression in a headless run: its line, its warning, and the requests on the wire."""

import json
from pathlib import Path

import pytest

from alhena.events import CompressedEvent
from alhena.frontends.headless.output import output_for
from alhena.frontends.headless.run import Progress
from alhena.frontends.shared.arguments import OutputFormat
from tests.support.command import alhena
from tests.support.server import ScriptedServer, call, chunk, json_reply, sse, text

LOST = CompressedEvent(original_tokens=90, new_tokens=10, status="content_truncated")
DONE = CompressedEvent(original_tokens=90, new_tokens=10, status="compressed")
SNAPSHOT = "<state_snapshot>\nread twice\n</state_snapshot>"


def written(format: OutputFormat, *events: CompressedEvent) -> str:
    pieces: list[str] = []
    output = output_for(format, pieces.append)
    for event in events:
        output.feed(event)
    output.finish(None)
    return "".join(pieces)


def test_each_format_tells_it_in_its_way():
    assert written(OutputFormat.TEXT, LOST, DONE) == ""
    (warning,) = json.loads(written(OutputFormat.JSON, LOST, DONE))["warnings"]
    assert "left out" in warning
    lines = [
        json.loads(line)
        for line in written(OutputFormat.STREAM_JSON, LOST, DONE).split("\n")
        if line
    ]
    assert [line["type"] for line in lines] == ["chat_compressed", "chat_compressed", "result"]
    assert lines[0]["status"] == "content_truncated"
    assert lines[0]["original_tokens"] == 90
    assert lines[0]["new_tokens"] == 10


@pytest.mark.parametrize(("verbose", "count"), [(True, 2), (False, 1)])
def test_what_is_lost_is_said_on_stderr_also_where_nobody_watches(verbose: bool, count: int):
    said: list[str] = []
    progress = Progress(said.append, verbose=verbose)
    progress.feed(LOST)
    progress.feed(DONE)
    assert len(said) == count
    assert said[0].startswith("alhena: Chat history no longer fitted")


@pytest.mark.requirement("CHAT-06")
def test_a_run_is_compressed_over_the_wire_and_says_so(project: Path, server: ScriptedServer):
    (project / "a.txt").write_text("alpha\n" * 1_900, encoding="utf-8")
    for number in range(3):
        read = call("read_file", {"absolute_path": "a.txt", "offset": number}, id=f"c{number}")
        usage = {"promptTokenCount": 700_000} if number == 2 else None
        server.reply(sse(chunk(read, finish="STOP", usage=usage)))
    server.reply(json_reply(text(SNAPSHOT)))
    server.reply(json_reply(text(SNAPSHOT)))
    server.reply(sse(text("done")))
    done = alhena(
        "-p",
        "read it",
        "-o",
        "stream-json",
        GEMINI_API_KEY="x",
        GOOGLE_GEMINI_BASE_URL=server.url,
    )
    assert done.code == 0, done.err
    (line,) = [line for line in done.lines if line["type"] == "chat_compressed"]
    assert line["status"] == "compressed"
    paths = [request.path.partition("?")[0].rpartition(":")[2] for request in server.requests]
    assert paths[3:] == ["generateContent", "generateContent", "streamGenerateContent"]
    asked, checked, sent = (json.loads(request.body) for request in server.requests[3:])
    before = server.requests[2].json
    assert asked["tools"] == before["tools"]
    assert asked["systemInstruction"] == before["systemInstruction"]
    assert asked["contents"][: len(before["contents"])] == before["contents"]
    assert "<task_state>" in asked["contents"][-1]["parts"][-1]["text"]
    assert checked["contents"][: len(asked["contents"])] == asked["contents"]
    assert "read twice" in sent["contents"][2]["parts"][0]["text"]
    assert sent["contents"][4]["parts"] == [{"text": "read it"}]
