"""Attempts that fail on the way to an answer, as a headless run tells of them."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from alhena.events import (
    ApiRequestEvent,
    ContentEvent,
    Event,
    FinishedEvent,
    ModelFallbackEvent,
    RetryEvent,
    RunFinishedEvent,
    ToolCallRequestEvent,
)
from alhena.frontends.headless.output import output_for
from alhena.frontends.headless.run import Progress
from alhena.frontends.shared.arguments import OutputFormat
from alhena.models.catalogue import FLASH, PRO
from tests.support.command import ALHENA, alhena
from tests.support.server import ScriptedServer, chunk, json_reply, sse, text

KEY = "AIzaSyTotallySecretKey-0123456789"
ASKED = ApiRequestEvent(model="pro", prompt_id="p", contents=1)
RETRY = RetryEvent(
    model="pro",
    prompt_id="p",
    attempt=2,
    max_attempts=10,
    delay_s=5.25,
    reason="the service failed (HTTP 503: later)",
    error_type="server_error",
    retract=True,
)
FALLBACK = ModelFallbackEvent(
    model="flash",
    instead_of="pro",
    prompt_id="p",
    reason="no quota.",
    error_type="daily_quota",
    retract=True,
)
DONE = FinishedEvent(finish_reason="STOP")


def call(number: int) -> ToolCallRequestEvent:
    return ToolCallRequestEvent(call_id=str(number), name="t", args={}, prompt_id="p")


def configure(home: Path, settings: dict[str, Any]) -> None:
    folder = home / ".gemini"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")


def shown(form: OutputFormat, *events: Event, watched: bool = False) -> list[str]:
    """Output, one item per write."""
    written: list[str] = []
    output = output_for(form, written.append, watched=watched)
    for event in events:
        output.feed(event)
    output.finish(None)
    return written


@pytest.mark.parametrize("renewal", [RETRY, FALLBACK])
def test_piped_text_holds_nothing_of_an_attempt_that_failed(renewal: Event):
    events = (ASKED, ContentEvent(text="Hal"), renewal, ASKED, ContentEvent(text="All."), DONE)
    assert "".join(shown(OutputFormat.TEXT, *events)) == "All.\n"


def test_watched_text_streams_and_begins_a_line_anew():
    events = (ASKED, ContentEvent(text="Hal"), RETRY, ASKED, ContentEvent(text="All."), DONE)
    assert shown(OutputFormat.TEXT, *events, watched=True) == ["Hal", "\n", "All.", "\n"]


def test_piped_text_comes_turn_by_turn_and_keeps_what_a_failed_run_said_last():
    first = (ASKED, ContentEvent(text="One "), ContentEvent(text="two"), call(1), DONE)
    assert shown(OutputFormat.TEXT, *first) == ["One two", "\n"]
    assert shown(OutputFormat.TEXT, *first, ContentEvent(text="cut")) == [
        "One two",
        "\n",
        "cut",
        "\n",
    ]


def test_text_is_kept_by_a_retry_that_takes_nothing_back():
    kept = replace(RETRY, retract=False)
    events = (ASKED, ContentEvent(text="kept"), kept, DONE)
    assert "".join(shown(OutputFormat.TEXT, *events)) == "kept\n"


def test_stream_json_has_a_line_for_each_attempt_and_each_change_of_model():
    lines = [json.loads(line) for line in shown(OutputFormat.STREAM_JSON, RETRY, FALLBACK)]
    retry, fallback, _ = lines
    assert retry["type"] == "retry"
    assert (retry["attempt"], retry["max_attempts"], retry["delay_s"]) == (2, 10, 5.25)
    assert retry["retract"] is True
    assert fallback["type"] == "model_fallback"
    assert (fallback["model"], fallback["instead_of"]) == ("flash", "pro")
    assert "timestamp" in fallback


def test_json_says_which_model_answers_instead():
    end = RunFinishedEvent(reason="done", text="All.", turns=1, duration_ms=1)
    (document,) = shown(OutputFormat.JSON, RETRY, FALLBACK, end)
    parsed = json.loads(document)
    assert parsed["response"] == "All."
    assert parsed["warnings"] == ["flash answers from here on instead of pro: no quota."]


def test_a_wait_is_one_line_on_stderr():
    written: list[str] = []
    progress = Progress(written.append, verbose=False)
    progress.feed(RETRY)
    progress.feed(FALLBACK)
    again = "trying again in 5 s (attempt 2 of at most 10)"
    assert written == [
        f"alhena: the service failed (HTTP 503: later); {again}.\n",
        "alhena: flash answers from here on instead of pro: no quota.\n",
    ]


@pytest.mark.requirement("WIRE-18")
def test_the_command_takes_a_cut_answer_back_and_prints_the_whole_one(server: ScriptedServer):
    server.reply(sse(chunk({"text": "Half an ans"}), cut=True), sse(text("The whole answer.")))
    ran = alhena("-p", "x", GEMINI_API_KEY="k-secret", GOOGLE_GEMINI_BASE_URL=server.url)
    assert (ran.code, ran.out) == (0, "The whole answer.\n")
    assert ran.err.count("trying again in 1 s (attempt 2 of at most 4)") == 1
    assert "k-secret" not in ran.err
    assert server.requests[0].body == server.requests[1].body


def test_the_command_asks_again_as_often_as_the_settings_say(server: ScriptedServer, home: Path):
    configure(home, {"general": {"maxAttempts": 2}})
    server.reply(sse(), sse())
    ran = alhena("-p", "x", "-o", "json", GEMINI_API_KEY="k", GOOGLE_GEMINI_BASE_URL=server.url)
    assert ran.code == 1
    assert ran.json["error"]["type"] == "stream_cut"
    assert len(server.requests) == 2


@pytest.mark.requirement("WIRE-18")
@pytest.mark.parametrize(
    ("fallback", "model", "code"),
    [
        ("always", PRO, 0),
        ("ask", PRO, 1),
        ("never", PRO, 1),
    ],
)
def test_the_result_says_which_model_answered(
    server: ScriptedServer, home: Path, fallback: str, model: str, code: int
):
    configure(home, {"model": {"fallback": fallback}})
    violations = [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}]
    detail = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": violations}
    error = {"code": 429, "message": "no more today", "details": [detail]}
    server.reply(json_reply({"error": error}, status=429), sse(text("From flash.")))
    asked = ("-p", "x", "-o", "json", "-m", model)
    ran = alhena(*asked, GEMINI_API_KEY=KEY, GOOGLE_GEMINI_BASE_URL=server.url)
    assert ran.code == code
    models = [request.path.rpartition("/")[2].partition(":")[0] for request in server.requests]
    if code:
        assert models == [PRO]
        assert ran.json["error"]["type"] == "daily_quota"
        return
    assert models == [PRO, FLASH]
    assert ran.json["response"] == "From flash."
    counted = ran.json["stats"]["models"]
    assert counted[PRO]["api"]["errorsByType"] == {"daily_quota": 1}
    assert counted[FLASH]["api"]["totalErrors"] == 0
    assert f"{FLASH} answers from here on" in ran.json["warnings"][0]
    assert ran.err == ""


def test_an_exhausted_capacity_ends_a_run_at_once(server: ScriptedServer):
    message = "You have exhausted your capacity on this model"
    error = {"code": 429, "message": f"{message}.", "status": "RESOURCE_EXHAUSTED"}
    server.reply(json_reply({"error": error}, status=429))
    ran = alhena("-p", "x", GEMINI_API_KEY=KEY, GOOGLE_GEMINI_BASE_URL=server.url)
    assert (ran.code, len(server.requests)) == (1, 1)
    assert message in ran.err
    assert "-m" in ran.err


def test_recorded_answers_are_asked_for_again_without_a_wait(project: Path):
    lines = [
        {"method": "generateContentStream", "response": [chunk(finish="STOP")]},
        {"method": "generateContentStream", "response": [text("second")]},
    ]
    recording = "".join(json.dumps(line) + "\n" for line in lines)
    (project / "r.jsonl").write_text(recording, encoding="utf-8")
    ran = alhena("-p", "x", "--fake-responses", "r.jsonl")
    assert (ran.code, ran.out) == (0, "second\n")
    (project / "r.jsonl").write_text(json.dumps(lines[0]) + "\n", encoding="utf-8")
    ran = alhena("-p", "x", "-o", "json", "--fake-responses", "r.jsonl")
    assert ran.json["error"]["type"] == "invalid_response"


def test_an_interrupt_ends_a_wait_at_once(server: ScriptedServer):
    message = f"the key {KEY} comes too early"
    later = json_reply({"error": {"code": 503, "message": message}}, status=503)
    later.headers["retry-after"] = "250"
    server.reply(later)
    environ = {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": server.url}
    with subprocess.Popen(
        [ALHENA, "-p", "x"],
        env=os.environ | environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        assert f"comes too early, {server.url}); trying again in" in said
        assert KEY not in said
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    assert len(server.requests) == 1
