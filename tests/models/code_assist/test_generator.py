"""Answers of Code Assist over HTTP."""

import asyncio
from typing import Any

import pytest

from alhena.errors import ConfigError, ModelError, ServerFaultError, StreamCutError
from alhena.models.auth.tokens import AccessToken, RenewedTokens
from alhena.models.errors import CredentialsError, RequestRejectedError, ValidationRequiredError
from alhena.models.providers.code_assist import code_assist
from alhena.wire.content import text_content
from alhena.wire.encode import EncodedContent
from tests.models.asking import chunks, texts
from tests.models.code_assist.kit import MODEL, PROMPT, SESSION, asked, bearer, generator
from tests.support.google import GoogleServer, answer
from tests.support.server import Reply, json_reply, sse

STREAM = "/v1internal:streamGenerateContent?alt=sse"
LOAD = "/v1internal:loadCodeAssist"
CONTENTS = (EncodedContent(text_content("user", "hi")),)


@pytest.mark.requirement("WIRE-05")
async def test_a_stream_is_asked_for_in_an_envelope_with_a_bearer(google: GoogleServer) -> None:
    ask = generator(google)
    assert texts(await chunks(ask, asked())) == ["hello"]
    await ask.aclose()
    assert google.paths() == [LOAD, STREAM]
    sent = google.requests[1]
    assert sent.method == "POST"
    assert sent.headers["authorization"] == "Bearer ya29.token-1-very-secret"
    assert sent.headers["content-type"] == "application/json"
    assert f"/{MODEL} (" in sent.headers["user-agent"]
    assert "x-goog-api-key" not in sent.headers
    assert sent.json == {
        "model": MODEL,
        "project": "a-project",
        "user_prompt_id": PROMPT,
        "request": {
            "contents": [{"parts": [{"text": "hi"}], "role": "user"}],
            "session_id": SESSION,
        },
    }


@pytest.mark.requirement("WIRE-06")
async def test_answers_are_taken_out_of_their_envelope(google: GoogleServer) -> None:
    called = [{"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}]
    usage = {"promptTokenCount": 7, "thoughtsTokenCount": 2}
    google.routes["/v1internal:streamGenerateContent"] = lambda _: sse(
        answer("one", None),
        {"response": {"automaticFunctionCallingHistory": called}},
        {"traceId": "trace-9", "consumedCredits": [], "remainingCredits": None},
        {"response": {"candidates": [{"finishReason": "STOP"}], "usageMetadata": usage}},
    )
    ask = generator(google)
    found = await chunks(ask, asked())
    await ask.aclose()
    assert texts(found) == ["one"]
    assert found[0].response_id == "trace-1"
    assert found[1].automatic_function_calling_history[0].parts[0].function_call is not None
    assert (found[2].response_id, found[2].candidates) == ("trace-9", ())
    assert found[3].finish_reason == "STOP"
    assert found[3].usage_metadata is not None
    assert found[3].usage_metadata.thoughts_token_count == 2


async def test_an_answer_in_one_piece_and_a_count(google: GoogleServer) -> None:
    google.routes["/v1internal:generateContent"] = lambda _: json_reply(answer("whole"))
    google.routes["/v1internal:countTokens"] = lambda _: json_reply({"totalTokens": 31})
    ask = generator(google)
    whole = await ask.generate(asked())
    assert texts([whole]) == ["whole"]
    assert whole.response_id == "trace-1"
    assert await ask.count_tokens(CONTENTS, model=MODEL) == 31
    google.routes["/v1internal:countTokens"] = lambda _: json_reply({})
    assert await ask.count_tokens(CONTENTS, model=MODEL) == 0
    await ask.aclose()
    assert google.posted("/v1internal:generateContent")[0]["project"] == "a-project"
    counted = google.posted("/v1internal:countTokens")[0]
    assert counted == {
        "request": {
            "model": f"models/{MODEL}",
            "contents": [{"parts": [{"text": "hi"}], "role": "user"}],
        }
    }


async def test_embeddings_are_refused_with_where_they_are_to_be_had(google: GoogleServer) -> None:
    ask = generator(google)
    with pytest.raises(RequestRejectedError, match="GEMINI_API_KEY"):
        await ask.embed(CONTENTS, model=MODEL)
    assert google.requests == []


async def test_the_account_is_looked_up_once_for_all_requests(google: GoogleServer) -> None:
    ask = generator(google)
    answers = await asyncio.gather(*(chunks(ask, asked()) for _ in range(5)))
    assert [texts(found) for found in answers] == [["hello"]] * 5
    await chunks(ask, asked())
    await ask.aclose()
    assert google.paths().count(LOAD) == 1
    assert google.paths().count(STREAM) == 6


async def test_a_look_up_that_fails_is_made_again_for_the_next_request(
    google: GoogleServer,
) -> None:
    google.reply(json_reply({"error": {"code": 503, "message": "busy"}}, 503))
    ask = generator(google)
    with pytest.raises(ServerFaultError):
        await chunks(ask, asked())
    assert texts(await chunks(ask, asked())) == ["hello"]
    await ask.aclose()


async def test_a_token_that_is_refused_is_renewed_once(google: GoogleServer) -> None:
    renewals: list[str] = []

    async def renew() -> AccessToken:
        renewals.append(google.give())
        return AccessToken(renewals[-1])

    ask = code_assist(google.environ, bearer(RenewedTokens(renew)))
    assert texts(await chunks(ask, asked())) == ["hello"]
    google.access_tokens.clear()
    assert texts(await chunks(ask, asked())) == ["hello"]
    google.routes["/v1internal:streamGenerateContent"] = lambda received: json_reply(
        {"error": {"code": 401, "message": f"bad: {received.headers['authorization']}"}}, 401
    )
    with pytest.raises(CredentialsError, match="alhena auth login") as caught:
        await chunks(ask, asked())
    await ask.aclose()
    assert len(renewals) == 3
    assert "very-secret" not in str(caught.value)
    assert caught.value.exit_code == 41


async def test_an_account_that_has_to_be_verified_is_told_where(google: GoogleServer) -> None:
    link = "https://accounts.example/verify?x=1"
    error = {
        "code": 403,
        "message": "Verify your account.",
        "status": "PERMISSION_DENIED",
        "details": [
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "VALIDATION_REQUIRED",
                "domain": "cloudcode-pa.googleapis.com",
                "metadata": {"validation_link": link},
            }
        ],
    }
    google.routes["/v1internal:streamGenerateContent"] = lambda _: json_reply({"error": error}, 403)
    ask = generator(google)
    with pytest.raises(ValidationRequiredError) as caught:
        await chunks(ask, asked())
    await ask.aclose()
    assert caught.value.link == link
    assert link in str(caught.value)
    assert caught.value.exit_code == 41


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (sse(answer("a", None), {"error": {"code": 500, "message": "broke"}}), ServerFaultError),
        (sse(answer("a", None), cut=True), StreamCutError),
        (json_reply([{"error": {"code": 503, "message": "busy"}}]), ServerFaultError),
    ],
)
async def test_a_stream_that_fails_is_its_error(
    google: GoogleServer, reply: Reply, kind: type[ModelError]
) -> None:
    google.routes["/v1internal:streamGenerateContent"] = lambda _: reply
    ask = generator(google)
    with pytest.raises(kind):
        await chunks(ask, asked())
    await ask.aclose()


async def test_endpoint_version_and_headers_are_those_of_the_environment(
    google: GoogleServer,
) -> None:
    google.routes["/p/v9:loadCodeAssist"] = lambda _: json_reply(google.load)
    google.routes["/p/v9:streamGenerateContent"] = lambda _: sse(answer("hello"))
    ask = generator(
        google,
        CODE_ASSIST_ENDPOINT=f"{google.url}/p/",
        CODE_ASSIST_API_VERSION="v9",
        GEMINI_CLI_CUSTOM_HEADERS="X-Team: a, X-Secret: hidden-value-1",
    )
    assert texts(await chunks(ask, asked())) == ["hello"]
    await ask.aclose()
    assert all(request.headers["x-team"] == "a" for request in google.requests)


@pytest.mark.parametrize(
    "environ",
    [
        {"CODE_ASSIST_ENDPOINT": "nowhere"},
        {"CODE_ASSIST_API_VERSION": "../v1"},
        {"GOOGLE_CLOUD_PROJECT": "123456789012"},
        {"GOOGLE_CLOUD_PROJECT_ID": "42"},
        {"GOOGLE_CLOUD_PROJECT": "my project"},
    ],
)
def test_what_cannot_be_used_is_a_configuration_error(
    google: GoogleServer, environ: dict[str, Any]
) -> None:
    [name] = environ
    with pytest.raises(ConfigError, match=name):
        generator(google, **environ)


async def test_the_quota_is_asked_for_the_project(google: GoogleServer) -> None:
    ask = generator(google)
    [bucket] = await ask.quota()
    await ask.aclose()
    assert (bucket.model_id, bucket.remaining_fraction) == ("gemini-2.5-pro", 0.75)
    assert google.posted("/v1internal:retrieveUserQuota") == [{"project": "a-project"}]
