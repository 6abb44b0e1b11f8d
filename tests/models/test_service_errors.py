"""Error responses of a service, and the exceptions they become."""

import json
import traceback
from typing import Any

import pytest

from alhena.errors import AlhenaError, ModelError, ServerFaultError, StreamCutError
from alhena.models.errors import (
    CredentialsError,
    ModelNotFoundError,
    QuotaError,
    RequestDetails,
    RequestRejectedError,
)
from alhena.wire.errors import DecodeError, SseError
from tests.models.asking import KEY, MODEL, api, asked, chunks, contents, event, texts
from tests.support.server import Reply, ScriptedServer, json_reply, sse, text


def error(code: int, message: str, status: str = "", **extra: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status} | extra}


BAD_KEY = [
    {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"},
]

REFUSALS = [
    (401, error(401, "Request had invalid credentials.", "UNAUTHENTICATED"), CredentialsError, 41),
    (403, error(403, "Permission denied.", "PERMISSION_DENIED"), CredentialsError, 41),
    (400, error(400, "Bad key", "INVALID_ARGUMENT", details=BAD_KEY), CredentialsError, 41),
    (400, error(400, "API key not valid. Please pass a valid API key."), CredentialsError, 41),
    (400, error(400, "contents is not specified", "INVALID_ARGUMENT"), RequestRejectedError, 1),
    (404, error(404, "models/x is not found for API version v1beta"), ModelNotFoundError, 1),
    (413, error(413, "Payload too large"), RequestRejectedError, 1),
    (429, error(429, "Quota exceeded", "RESOURCE_EXHAUSTED"), QuotaError, 1),
    (500, error(500, "Internal error", "INTERNAL"), ServerFaultError, 1),
    (503, [error(503, "The model is overloaded.")], ServerFaultError, 1),
]


@pytest.mark.parametrize(("status", "body", "kind", "exit_code"), REFUSALS)
async def test_a_status_becomes_its_error_with_the_servers_message(
    server: ScriptedServer, status: int, body: Any, kind: type[ModelError], exit_code: int
):
    server.reply(*(json_reply(body, status=status) for _ in range(4)))
    generator = api(server.url)
    said = (body[0] if isinstance(body, list) else body)["error"]["message"]
    for ask in (
        chunks(generator),
        generator.generate(asked()),
        generator.count_tokens(contents("a"), model=MODEL),
        generator.embed(contents("a"), model=MODEL),
    ):
        with pytest.raises(ModelError) as caught:
            await ask
        assert type(caught.value) is kind
        assert caught.value.status == status
        assert caught.value.exit_code == exit_code
        assert said.rstrip(".") in str(caught.value)
        assert "\n" not in str(caught.value)
    await generator.aclose()


@pytest.mark.parametrize(("status", "body", "kind", "_exit_code"), REFUSALS)
async def test_an_error_inside_a_stream_is_the_error_of_its_code(
    server: ScriptedServer, status: int, body: Any, kind: type[ModelError], _exit_code: int
):
    server.reply(sse(text("so far", None), body))
    generator = api(server.url)
    stream = generator.stream(asked())
    assert texts([await anext(stream)]) == ["so far"]
    with pytest.raises(ModelError) as caught:
        await anext(stream)
    await generator.aclose()
    assert type(caught.value) is kind
    assert caught.value.status == status


@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream", "text/plain"])
async def test_a_json_error_where_a_stream_was_due_is_the_error_of_its_code(
    server: ScriptedServer, content_type: str
):
    body = json.dumps(error(429, "Slow down", "RESOURCE_EXHAUSTED"), indent=2).encode()
    server.reply(Reply(content_type=content_type, pieces=[body[:7], body[7:]]))
    generator = api(server.url)
    with pytest.raises(QuotaError, match="Slow down"):
        await chunks(generator)
    await generator.aclose()


@pytest.mark.parametrize(
    "body",
    [b"<!doctype html>\n<title>Sign in</title>", b"Sign in, please.", b'{"message": "Sign in"}'],
)
async def test_a_body_that_is_no_stream_is_quoted(server: ScriptedServer, body: bytes):
    server.reply(Reply(content_type="text/html", pieces=[body]))
    generator = api(server.url)
    with pytest.raises(SseError, match="Sign in") as caught:
        await chunks(generator)
    await generator.aclose()
    assert "\n" not in str(caught.value)


async def test_a_page_instead_of_an_error_body_is_quoted_on_one_line(server: ScriptedServer):
    page = b"<html>\n<h1>Bad\r\n Gateway</h1>\x1b[31m" + b"x" * 2_000_000
    server.reply(Reply(status=502, content_type="text/html", pieces=[page]))
    generator = api(server.url)
    with pytest.raises(ServerFaultError, match="Bad Gateway") as caught:
        await chunks(generator)
    await generator.aclose()
    assert len(str(caught.value)) < 400
    assert str(caught.value).isprintable()


async def test_an_error_without_a_body_still_says_its_status(server: ScriptedServer):
    server.reply(Reply(status=500), Reply(status=404))
    generator = api(server.url)
    with pytest.raises(ServerFaultError, match="HTTP 500"):
        await chunks(generator)
    with pytest.raises(ModelNotFoundError, match=r"gemini-2\.5-pro"):
        await chunks(generator)
    await generator.aclose()


async def test_a_missing_model_is_named_with_the_remedy(server: ScriptedServer):
    server.reply(json_reply(error(404, "nope"), status=404))
    generator = api(server.url)
    with pytest.raises(ModelNotFoundError, match=r"Model gemini-9-ultra not found .*-m") as caught:
        await chunks(generator, asked(model="gemini-9-ultra"))
    await generator.aclose()
    assert server.url in str(caught.value)


async def test_a_redirect_is_not_followed(server: ScriptedServer):
    server.reply(Reply(status=307, headers={"location": server.url}))
    generator = api(server.url)
    with pytest.raises(RequestRejectedError, match="GOOGLE_GEMINI_BASE_URL"):
        await chunks(generator)
    await generator.aclose()
    assert len(server.requests) == 1


async def test_a_stream_cut_inside_its_last_event_is_an_error_of_its_own(server: ScriptedServer):
    whole = event("two").rstrip()
    server.reply(Reply(content_type="text/event-stream", pieces=[event("one", None), whole[:-9]]))
    generator = api(server.url)
    stream = generator.stream(asked())
    assert texts([await anext(stream)]) == ["one"]
    with pytest.raises(StreamCutError):
        await anext(stream)
    await generator.aclose()


async def test_a_last_event_without_its_blank_line_is_delivered(server: ScriptedServer):
    server.reply(Reply(content_type="text/event-stream", pieces=[event("whole").rstrip()]))
    generator = api(server.url)
    assert texts(await chunks(generator)) == ["whole"]
    await generator.aclose()


async def test_a_stream_without_finish_reason_yields_what_came(server: ScriptedServer):
    server.reply(sse(text("half", None)), Reply(content_type="text/event-stream"))
    generator = api(server.url)
    [response] = await chunks(generator)
    assert (response.parts[0].text, response.finish_reason) == ("half", None)
    assert await chunks(generator) == []
    await generator.aclose()


async def test_json_of_another_shape_is_a_decode_error(server: ScriptedServer):
    server.reply(sse({"candidates": 7}), json_reply([1]), json_reply({"candidates": "x"}))
    generator = api(server.url)
    for ask in (
        chunks(generator),
        generator.count_tokens(contents("a"), model=MODEL),
        generator.generate(asked()),
    ):
        with pytest.raises(DecodeError):
            await ask
    await generator.aclose()


@pytest.mark.parametrize("key", [KEY, "x"])
async def test_no_secret_shows_even_when_the_server_repeats_it(server: ScriptedServer, key: str):
    said = f"Consumer 'api_key:{key}' with X-Team hush-hush of quiet/1 has been suspended."
    server.reply(
        json_reply(error(403, said), status=403),
        Reply(status=500, pieces=[f"<p>{said}".encode()]),
        sse(error(400, said)),
        Reply(pieces=[f"<p>{said}".encode()]),
        sse({"candidates": said}),
    )
    headers = "X-Team: hush-hush, User-Agent: quiet/1"
    generator = api(server.url, key=key, GEMINI_CLI_CUSTOM_HEADERS=headers)
    for _ in range(5):
        with pytest.raises(AlhenaError) as caught:
            await chunks(generator)
        everything = str(caught.value) + repr(caught.value)
        everything += "".join(traceback.format_exception_only(caught.value))
        assert f":{key}'" not in everything
        assert "hush-hush" not in everything
        assert "quiet/1" not in everything
        assert "has been suspended" in everything
    await generator.aclose()


def test_a_short_secret_does_not_garble_other_words():
    assert RequestDetails(MODEL, "here", ["x"]).clean("x explains 'x' next") == (
        "[redacted] explains '[redacted]' next"
    )
