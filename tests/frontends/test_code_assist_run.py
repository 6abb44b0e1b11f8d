"""A whole run, with a tool call, by Code Assist."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.command import alhena
from tests.support.google import GoogleServer, answer
from tests.support.server import sse

STREAM = "/v1internal:streamGenerateContent?alt=sse"


def run(google: GoogleServer, *arguments: str, **environ: str) -> Any:
    given = {
        "CODE_ASSIST_ENDPOINT": google.url,
        "GOOGLE_CLOUD_ACCESS_TOKEN": google.give(),
        "GOOGLE_GENAI_USE_GCA": "true",
    }
    return alhena("-p", "what is in a.txt?", *arguments, **given, **environ)


def calling(google: GoogleServer, path: Path) -> None:
    parts = [
        {"text": "Looking.", "thought": True},
        {
            "functionCall": {"id": "c1", "name": "read_file", "args": {"absolute_path": str(path)}},
            "thoughtSignature": "c2ln",
        },
    ]
    called = {"candidates": [{"content": {"role": "model", "parts": parts}}]}
    replies = [
        sse({"response": called, "traceId": "t1"}, answer("", "STOP")),
        sse(answer("It says hello.")),
    ]
    google.routes["/v1internal:streamGenerateContent"] = lambda _: replies.pop(0)


@pytest.mark.requirement("WIRE-05")
def test_a_tool_call_and_its_result_go_through_the_envelope(
    google: GoogleServer, project: Path
) -> None:
    (project / "a.txt").write_text("hello", encoding="utf-8")
    calling(google, project / "a.txt")
    ran = run(google, "-m", "gemini-2.5-pro")
    assert (ran.code, ran.out) == (0, "It says hello.\n"), ran.err
    first, second = google.posted(STREAM)
    assert first["project"] == second["project"] == "a-project"
    assert first["user_prompt_id"] == second["user_prompt_id"]
    assert first["request"]["session_id"] == second["request"]["session_id"] != ""
    assert set(first["request"]) == {
        "contents",
        "systemInstruction",
        "tools",
        "generationConfig",
        "session_id",
    }
    call, response = second["request"]["contents"][-2:]
    assert [list(part) for part in call["parts"]] == [["functionCall", "thoughtSignature"]]
    assert call["parts"][0]["functionCall"]["id"] == "c1"
    [part] = response["parts"]
    assert part["functionResponse"]["id"] == "c1"
    assert part["functionResponse"]["response"] == {"output": "hello"}
