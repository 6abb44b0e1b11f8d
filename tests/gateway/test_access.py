"""Access to the gateway."""

import asyncio
import json

import pytest

from alhena.gateway.app import Guard
from alhena.gateway.faults import GatewayRefusalError
from tests.gateway.kit import client, gateway
from tests.gateway.test_streams import ANTHROPIC, GOOGLE, OPENAI
from tests.support.scripted import ScriptedGenerator
from tests.support.server import text

KEY = "a-key-of-the-gateway"


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {KEY}"},
        {"authorization": f"bearer {KEY}"},
        {"x-api-key": KEY},
        {"x-goog-api-key": KEY},
        {"x-api-key": KEY, "authorization": "Bearer another"},
    ],
)
def test_the_key_may_be_shown_in_each_clients_own_way(headers: dict[str, str]):
    Guard(KEY).check({"host": "gateway.example", **headers})


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": f"Basic {KEY}"},
        {"authorization": KEY},
        {"x-api-key": KEY[:-1]},
        {"x-api-key": KEY + "x"},
        {"x-api-key": "kéy"},
        {"cookie": KEY},
    ],
)
def test_without_the_key_nobody_is_let_in(headers: dict[str, str]):
    with pytest.raises(GatewayRefusalError) as refused:
        Guard(KEY).check({"host": "127.0.0.1", **headers})
    assert refused.value.fault.kind == "unauthenticated"


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8080", "localhost", "[::1]:99", "127.8.8.8", "LOCALHOST:1"]
)
def test_without_a_key_this_machine_is_let_in_under_its_own_names(host: str):
    Guard().check({"host": host})
    Guard().check({"host": host, "content-type": "application/json; charset=utf-8"}, "POST")
    Guard().check({"host": host, "sec-fetch-site": "none"})


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": ""},
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example"},
        {"host": "localhost@evil.example"},
        {"host": "[::1"},
        {"host": "10.0.0.1:8080"},
        {"host": "127.0.0.1", "origin": "https://evil.example"},
        {"host": "127.0.0.1", "origin": "null"},
        {"host": "127.0.0.1", "origin": ""},
        {"host": "127.0.0.1:8080", "origin": "http://127.0.0.1:8080"},
        {"host": "localhost:8080", "origin": "http://localhost:3000"},
        {"host": "127.0.0.1", "sec-fetch-site": "cross-site"},
        {"host": "127.0.0.1", "sec-fetch-site": "same-site"},
    ],
)
def test_without_a_key_every_page_is_kept_out(headers: dict[str, str]):
    with pytest.raises(GatewayRefusalError) as refused:
        Guard().check(headers)
    assert refused.value.fault.kind == "forbidden"
    assert "with a key" in refused.value.fault.message


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "text/plain;charset=UTF-8",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
    ],
)
def test_without_a_key_no_body_is_taken_that_a_page_sends_unasked(kind: str):
    headers = {"host": "127.0.0.1", "content-type": kind}
    with pytest.raises(GatewayRefusalError) as refused:
        Guard().check(headers, "POST")
    assert "content-type: application/json" in refused.value.fault.message
    Guard(KEY).check({**headers, "x-api-key": KEY}, "POST")


async def test_a_preflight_is_granted_nothing():
    generator = ScriptedGenerator()
    for key in ("", KEY):
        async with gateway(generator, key=key) as running, client(running) as http:
            asked = {
                "origin": "http://localhost:3000",
                "access-control-request-method": "POST",
                "access-control-request-headers": "content-type, x-api-key",
                "access-control-request-private-network": "true",
            }
            answer = await http.options(ANTHROPIC[0], headers=asked)
            shown = {"origin": "http://localhost:3000", "x-api-key": KEY}
            listed = await http.get("/v1/models", headers=shown)
        assert answer.status_code == 405
        assert listed.status_code == (200 if key else 403)
        for each in (answer, listed):
            assert not [name for name in each.headers if name.startswith("access-control")]


async def test_refusals_speak_the_dialect_and_say_nothing_of_the_key():
    generator = ScriptedGenerator()
    async with gateway(generator, key=KEY) as running, client(running) as http:
        answers = [await http.post(path, json=body) for path, body in (ANTHROPIC, OPENAI, GOOGLE)]
        models = await http.get("/v1/models")
        health = await http.get("/healthz")
    assert [answer.status_code for answer in answers] == [401, 401, 401]
    assert answers[0].json()["error"]["type"] == "authentication_error"
    assert answers[1].json()["error"]["code"] == "invalid_api_key"
    assert answers[2].json()["error"]["status"] == "UNAUTHENTICATED"
    assert models.status_code == 401
    assert health.status_code == 200
    assert health.json() == {"status": "ok"}
    assert KEY not in "".join(answer.text for answer in answers)
    assert generator.requests == []


async def test_a_page_that_rebinds_its_name_to_this_machine_is_refused():
    generator = ScriptedGenerator()
    async with gateway(generator) as running, client(running) as http:
        host = {"host": f"rebound.example:{running.port}"}
        answer = await http.post(ANTHROPIC[0], json=ANTHROPIC[1], headers=host)
        cross = await http.post(
            ANTHROPIC[0],
            content=json.dumps(ANTHROPIC[1]),
            headers={"origin": "https://page.example", "content-type": "text/plain"},
        )
    assert (answer.status_code, cross.status_code) == (403, 403)
    assert answer.json()["error"]["type"] == "permission_error"
    assert not [name for name in cross.headers if name.startswith("access-control")]
    assert generator.requests == []


async def test_the_log_has_a_line_for_each_request_without_keys_and_words():
    generator = ScriptedGenerator([text("a secret answer")], [text("a secret answer")])
    async with gateway(generator, key=KEY) as running, client(running) as http:
        shown = {"x-api-key": KEY}
        await http.post(f"{ANTHROPIC[0]}?key={KEY}", json=ANTHROPIC[1], headers=shown)
        await http.post(PLAIN[0], json=PLAIN[1], headers=shown)
        await http.get("/nothing")
        lines = await running.logged(3)
    first, second, third = lines
    assert (first["method"], first["path"]) == ("POST", "/v1/messages")
    assert (first["dialect"], first["model"]) == ("anthropic", "c")
    assert (first["servedBy"], first["stream"]) == ("gemini-2.5-flash", True)
    assert first["status"] == 200
    assert first["bytesOut"] > 0
    assert first["bytesIn"] == len(json.dumps(ANTHROPIC[1], separators=(",", ":")))
    assert second["dialect"] == "openai"
    assert (third["status"], third["outcome"]) == (404, "not_found")
    told = json.dumps(lines)
    assert KEY not in told
    assert "secret answer" not in told
    assert len({line["id"] for line in lines}) == 3


PLAIN = (OPENAI[0], {**OPENAI[1], "stream": False})


async def test_the_request_has_one_id_in_headers_and_log():
    async with gateway(ScriptedGenerator([text("x")])) as running, client(running) as http:
        answer = await http.post(PLAIN[0], json=PLAIN[1])
        await asyncio.sleep(0)
        entry = (await running.logged())[0]
    assert answer.headers["x-request-id"] == answer.headers["request-id"] == entry["id"]
