"""Errors that are about the project that requests count to: what a person is advised."""

from typing import Any

import pytest

from alhena.errors import ModelError
from alhena.models.errors import CapacityError, CredentialsError, QuotaError
from alhena.models.quota import SHARED
from tests.models.asking import api
from tests.models.asking import asked as asked_of_api
from tests.models.code_assist.kit import asked, generator
from tests.support.google import GoogleServer
from tests.support.server import ScriptedServer, json_reply

INFO = "type.googleapis.com/google.rpc.ErrorInfo"
VERTEX = "aiplatform.googleapis.com"
LINK = "https://console.developers.google.com/apis/api/aiplatform.googleapis.com/overview"


def refusal(code: int, reason: str, domain: str = "googleapis.com", **metadata: Any) -> Any:
    detail = {"@type": INFO, "reason": reason, "domain": domain, "metadata": metadata}
    body = {"error": {"code": code, "message": "No.", "details": [detail]}}
    return json_reply(body, status=code)


async def failure(google: GoogleServer, reply: Any, **environ: str) -> ModelError:
    """Error of a request to Code Assist."""
    google.routes["/v1internal:generateContent"] = lambda _: reply
    ask = generator(google, **environ)
    with pytest.raises(ModelError) as caught:
        await ask.generate(asked())
    await ask.aclose()
    return caught.value


SPENT = refusal(429, "QUOTA_EXHAUSTED", "cloudcode-pa.googleapis.com")


@pytest.mark.requirement("WIRE-18")
async def test_a_quota_of_a_shared_project_is_told_with_the_way_out_of_it(
    google: GoogleServer,
) -> None:
    error = await failure(google, SPENT)
    assert isinstance(error, QuotaError)
    assert SHARED in str(error)
    assert "GOOGLE_CLOUD_PROJECT" in SHARED
    assert "choose another model" in str(error).lower()


@pytest.mark.parametrize("name", ["GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_PROJECT_ID"])
async def test_who_has_a_project_is_not_advised_to_set_one(google: GoogleServer, name: str) -> None:
    error = await failure(google, SPENT, **{name: "mine"})
    assert isinstance(error, QuotaError)
    assert SHARED not in str(error)


async def test_no_room_for_a_model_is_no_matter_of_projects(google: GoogleServer) -> None:
    full = refusal(429, "MODEL_CAPACITY_EXHAUSTED", "cloudcode-pa.googleapis.com")
    error = await failure(google, full)
    assert isinstance(error, CapacityError)
    assert SHARED not in str(error)


@pytest.mark.parametrize(
    ("reason", "metadata", "advice"),
    [
        (
            "SERVICE_DISABLED",
            {"consumer": "projects/764086051850", "service": VERTEX},
            ("GOOGLE_CLOUD_QUOTA_PROJECT", "set-quota-project"),
        ),
        (
            "SERVICE_DISABLED",
            {"consumer": "projects/123", "service": VERTEX, "activationUrl": LINK},
            (f"Enable {VERTEX} in the project 123 ({LINK})",),
        ),
        (
            "SERVICE_DISABLED",
            {"consumer": "projects/1\x1b[2J", "activationUrl": "javascript:x"},
            ("Enable the API in the project 1", "or use credentials of another project."),
        ),
        (
            "USER_PROJECT_DENIED",
            {"consumer": "projects/other"},
            ("serviceUsageConsumer in the project other", "GOOGLE_CLOUD_QUOTA_PROJECT"),
        ),
        ("BILLING_DISABLED", {"consumer": "projects/123"}, ("billing for the project 123",)),
        ("CONSUMER_INVALID", {}, ("(no name)", "GOOGLE_CLOUD_PROJECT")),
    ],
)
async def test_a_refusal_over_a_project_names_it_and_what_to_do(
    server: ScriptedServer, reason: str, metadata: dict[str, str], advice: tuple[str, ...]
) -> None:
    server.reply(refusal(403, reason, **metadata))
    ask = api(server.url)
    with pytest.raises(CredentialsError) as caught:
        await ask.generate(asked_of_api())
    await ask.aclose()
    told = str(caught.value)
    assert caught.value.exit_code == 41
    assert all(words in told for words in advice), told
    assert "\x1b" not in told
    assert "javascript" not in told


async def test_another_refusal_keeps_the_advice_about_the_key(server: ScriptedServer) -> None:
    server.reply(refusal(403, "IAM_PERMISSION_DENIED", consumer="projects/1"))
    ask = api(server.url)
    with pytest.raises(CredentialsError, match="GEMINI_API_KEY"):
        await ask.generate(asked_of_api())
    await ask.aclose()
