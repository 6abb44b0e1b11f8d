"""Bad requests, and services that fail: errors in the client's own dialect, and the server goes on."""

from typing import Any

import pytest

from alhena.errors import AlhenaError, NetworkError, ServerFaultError, StreamCutError
from alhena.gateway.faults import FaultKind, fault_of
from alhena.models.errors import (
    CapacityError,
    CredentialsError,
    DailyQuotaError,
    ModelNotFoundError,
    RecordingError,
    RequestRejectedError,
)
from tests.gateway.kit import client, gateway
from tests.gateway.test_streams import CONTENTS
from tests.support.scripted import ScriptedGenerator
from tests.support.server import text

ANTHROPIC, OPENAI = "/v1/messages", "/v1/chat/completions"
GOOGLE = "/v1beta/models/gemini-2.5-flash:generateContent"


def asking(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 9, "messages": list(messages), **more}


USER = {"role": "user", "content": "hi"}
CALLING = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}],
}
TWICE = {**CALLING, "content": [*CALLING["content"], *CALLING["content"]]}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]}
BAD = [
    (ANTHROPIC, b"{", "not valid JSON"),
    (ANTHROPIC, b"\xff\xfe", "not valid JSON"),
    (ANTHROPIC, b"[" * 100_000, "nested too deeply"),
    (GOOGLE, rb'{"a":"\ud83d\ude00\\ud800"', "truncated"),
    (ANTHROPIC, b"[]", "must be an object"),
    (ANTHROPIC, b"", "not valid JSON"),
    (ANTHROPIC, asking(), "contains no message"),
    (ANTHROPIC, asking(USER, {"role": "tool", "content": "x"}), "messages[1].role"),
    (ANTHROPIC, asking(CALLING), "messages[0].role"),
    (ANTHROPIC, asking(USER, RESULT), '"a"'),
    (ANTHROPIC, asking(USER, CALLING, USER), '"a"'),
    (ANTHROPIC, asking(USER, TWICE, RESULT), 'the id "a"'),
    (ANTHROPIC, asking({"role": "user", "content": [{"type": "video"}]}), '"video"'),
    (ANTHROPIC, asking(USER, tools=[{"name": "f", "input_schema": {"type": "array"}}]), '"f"'),
    (OPENAI, asking({"role": "function", "content": "x"}), "messages[0].role"),
    (OPENAI, asking({"role": "tool", "tool_call_id": "zz", "content": "x"}), '"zz"'),
    (OPENAI, asking(USER, n=3), "n"),
    (GOOGLE, {}, "contents"),
    (GOOGLE, {**CONTENTS, "unheardOf": 1}, "unheardOf"),
    (GOOGLE, {"contents": "hi"}, "contents"),
]


@pytest.mark.requirement("NATIVE-06")
@pytest.mark.parametrize(("path", "body", "message"), BAD)
async def test_a_bad_request_is_a_typed_error_and_the_server_goes_on(
    path: str, body: Any, message: str
):
    generator = ScriptedGenerator([text("fine")])
    async with gateway(generator) as running, client(running) as http:
        sent = {"content": body} if isinstance(body, bytes) else {"json": body}
        answer = await http.post(path, **sent)
        assert answer.status_code == 400, answer.text
        error = answer.json()["error"]
        assert message in error["message"]
        if path == GOOGLE:
            assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
        else:
            assert error["type"] == "invalid_request_error"
        assert generator.requests == []
        assert (await http.post(ANTHROPIC, json=asking(USER))).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "field"),
    [
        ("GET", "/", 404, ("type", "invalid_request_error")),
        ("POST", "/v1/completions", 404, ("code", "unknown_url")),
        ("GET", "/v1/chat/completions", 405, ("code", "method_not_supported")),
        ("GET", "/v1/messages", 405, ("type", "invalid_request_error")),
        ("POST", "/v1/messages/batches", 404, ("type", "not_found_error")),
        ("POST", "/v1beta/models/m:predict", 404, ("status", "NOT_FOUND")),
        ("POST", "/v1beta/models/:generateContent", 404, ("status", "NOT_FOUND")),
        ("GET", "/v1beta/models/claude-x", 404, ("status", "NOT_FOUND")),
        ("DELETE", "/v1beta/models/m", 405, ("status", "UNIMPLEMENTED")),
        ("GET", "/v1/models/gpt-unknown", 404, ("code", "model_not_found")),
    ],
)
async def test_what_is_not_there_is_told_in_the_dialect_of_its_path(
    method: str, path: str, status: int, field: tuple[str, str]
):
    async with gateway(ScriptedGenerator()) as running, client(running) as http:
        body = {"json": {}} if method == "POST" else {}
        answer = await http.request(method, path, **body)
    assert answer.status_code == status
    assert answer.json()["error"][field[0]] == field[1]


UPSTREAM = [
    (DailyQuotaError("none left", status=429), (429, 429, 429)),
    (CapacityError("full", status=429), (529, 503, 503)),
    (ServerFaultError("failed", status=500), (502, 502, 502)),
    (ServerFaultError("failed", status=503), (529, 503, 503)),
    (ServerFaultError("failed", status=504), (504, 504, 504)),
    (CredentialsError("refused", status=401), (502, 502, 502)),
    (ModelNotFoundError("no such model", status=404), (404, 404, 404)),
    (RequestRejectedError("wrong", status=400), (400, 400, 400)),
    (RequestRejectedError("large", status=413), (413, 413, 413)),
    (NetworkError("gone"), (502, 502, 502)),
    (StreamCutError("cut"), (502, 502, 502)),
]


@pytest.mark.parametrize(("error", "statuses"), UPSTREAM, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_failure_of_the_service_has_a_fitting_status(
    error: AlhenaError, statuses: tuple[int, ...], stream: bool
):
    generator = ScriptedGenerator([error], [error], [error])
    body = asking(USER, stream=stream)
    google = GOOGLE.replace(":generate", ":streamGenerate") if stream else GOOGLE
    async with gateway(generator) as running, client(running) as http:
        answers = [
            await http.post(ANTHROPIC, json=body),
            await http.post(OPENAI, json=body),
            await http.post(google, json=CONTENTS),
        ]
    assert tuple(answer.status_code for answer in answers) == statuses
    inner = isinstance(error, CredentialsError | NetworkError)
    told = "the model service " if inner else error.message
    assert all(answer.json()["error"]["message"].startswith(told) for answer in answers)


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_that_does_not_say_how_it_ends_is_none(stream: bool):
    generator = ScriptedGenerator([text("", None)])
    async with gateway(generator) as running, client(running) as http:
        answer = await http.post(OPENAI, json=asking(USER, stream=stream))
    assert "finish reason" in answer.text
    assert "[DONE]" not in answer.text
    assert answer.status_code == (200 if stream else 502)


async def test_a_spent_quota_tells_clients_not_to_try_again():
    generator = ScriptedGenerator([DailyQuotaError("none left")])
    async with gateway(generator) as running, client(running) as http:
        answer = await http.post(OPENAI, json=asking(USER))
    assert answer.headers["x-should-retry"] == "false"
    assert answer.json()["error"]["code"] == "insufficient_quota"


async def test_googles_details_go_through_to_googles_clients():
    error = RequestRejectedError("wrong", status=400, details=({"reason": "BECAUSE"},))
    async with gateway(ScriptedGenerator([error])) as running, client(running) as http:
        answer = await http.post(GOOGLE, json=CONTENTS)
    assert answer.json()["error"]["details"] == [{"reason": "BECAUSE"}]


async def test_a_defect_is_told_as_one_and_the_server_goes_on():
    generator = ScriptedGenerator([ZeroDivisionError("a defect")], [text("fine")])
    async with gateway(generator) as running, client(running) as http:
        answer = await http.post(ANTHROPIC, json=asking(USER))
        assert answer.status_code == 500
        assert answer.json()["error"]["type"] == "api_error"
        assert "a defect" not in answer.text
        defect = next(line for line in await running.logged(2) if "traceback" in line)
        assert "ZeroDivisionError: a defect" in defect["traceback"]
        assert (await http.post(ANTHROPIC, json=asking(USER))).status_code == 200


def test_advice_for_whoever_runs_the_gateway_is_not_given_to_its_clients():
    error = CredentialsError("the key was refused", remedy="Set GEMINI_API_KEY.")
    fault = fault_of(error)
    assert fault.kind == FaultKind.UPSTREAM
    assert fault.message == "the model service refuses the gateway's own credentials."
    assert fault.detail == "the key was refused"


async def test_clients_do_not_read_addresses_and_files_of_the_gateway_and_the_log_says_them():
    errors = [
        NetworkError("http://10.0.0.9:81 cannot be reached: refused."),
        ServerFaultError("https://inner.example:81 failed (HTTP 500: see docs)", status=500),
        RecordingError("/home/me/answers.jsonl contains no more answers."),
        CredentialsError("/home/me/key.json cannot be read."),
        StreamCutError("the answer of http://10.0.0.9:81 ended before its end."),
    ]
    async with gateway(ScriptedGenerator(*([one] for one in errors))) as running:
        async with client(running) as http:
            answers = [await http.post(OPENAI, json=asking(USER)) for _ in errors]
        logged = await running.logged(len(errors))
    assert [answer.status_code for answer in answers] == [502] * len(errors)
    texts = [answer.json()["error"]["message"] for answer in answers]
    assert not [text for text in texts if any(word in text for word in ("://", "/home", "10.0"))]
    assert texts[1] == "the model service failed (HTTP 500: see docs)"
    assert [entry["detail"] for entry in logged] == [error.message for error in errors]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/", 404), ("DELETE", "/v1/messages", 405), ("GET", "/healthz", 200)],
)
async def test_every_answer_bears_its_id_in_the_log(method: str, path: str, status: int):
    async with gateway(ScriptedGenerator()) as running, client(running) as http:
        answer = await http.request(method, path)
        entry = (await running.logged())[0]
    assert answer.status_code == status
    assert answer.headers["x-request-id"] == answer.headers["request-id"] == entry["id"]
