"""From a login to an account: tiers, projects, signing up."""

import asyncio
from typing import Any

import pytest

from alhena.errors import ModelError
from alhena.models.errors import CredentialsError, RequestRejectedError, ValidationRequiredError
from alhena.models.providers.code_assist_setup import IneligibleAccountError, ProjectRequiredError
from alhena.wire.errors import DecodeError
from tests.models.asking import chunks, texts
from tests.models.code_assist.kit import Slept, asked, generator
from tests.support.google import TIER, GoogleServer
from tests.support.server import Received, Reply, json_reply

LOAD = "/v1internal:loadCodeAssist"
ONBOARD = "/v1internal:onboardUser"
METADATA = {
    "ideType": "IDE_UNSPECIFIED",
    "platform": "PLATFORM_UNSPECIFIED",
    "pluginType": "GEMINI",
}
FREE = {
    "id": "free-tier",
    "name": "Gemini Code Assist for individuals",
    "isDefault": True,
    "privacyNotice": {"showNotice": True, "noticeText": "We read along."},
}
PAID = {"id": "standard-tier", "isDefault": True, "userDefinedCloudaicompanionProject": True}
INELIGIBLE = [
    {"reasonCode": "RESTRICTED_AGE", "reasonMessage": "You are too young.", "tierId": "free-tier"},
    {"reasonCode": "OTHER", "reasonMessage": "And too far away."},
]


def onboards(google: GoogleServer, *states: dict[str, Any]) -> None:
    """onboardUser gives the first state of an operation, its look-ups the others."""
    google.routes[ONBOARD] = lambda _: json_reply(states[0])
    waiting = list(states[1:])
    google.routes["/v1internal/operations/o1"] = lambda _: json_reply(waiting.pop(0))


DONE = {
    "name": "operations/o1",
    "done": True,
    "response": {"cloudaicompanionProject": {"id": "given-project", "name": "x"}},
}
RUNNING = {"name": "operations/o1"}


@pytest.mark.requirement("WIRE-16")
async def test_a_user_with_a_tier_needs_no_signing_up(google: GoogleServer) -> None:
    ask = generator(google)
    account = await ask.account()
    await ask.aclose()
    assert (account.project, account.tier) == ("a-project", "standard-tier")
    assert google.posted(LOAD) == [{"metadata": METADATA}]
    assert google.paths() == [LOAD]


@pytest.mark.parametrize("variable", ["GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_PROJECT_ID"])
async def test_the_users_project_goes_with_the_question(
    google: GoogleServer, variable: str
) -> None:
    google.load = {"currentTier": TIER}
    ask = generator(google, **{variable: " mine "})
    assert (await ask.account()).project == "mine"
    await ask.aclose()
    assert google.posted(LOAD) == [
        {"cloudaicompanionProject": "mine", "metadata": METADATA | {"duetProject": "mine"}}
    ]


async def test_the_paid_tier_is_the_one_that_counts(google: GoogleServer) -> None:
    google.load |= {"paidTier": {"id": "g1-pro-tier", "name": "Pro"}}
    ask = generator(google)
    account = await ask.account()
    await ask.aclose()
    assert (account.tier, account.tier_name) == ("g1-pro-tier", "Pro")


@pytest.mark.requirement("WIRE-16")
async def test_a_new_user_is_signed_up_and_waited_for_and_told(google: GoogleServer) -> None:
    google.load = {"allowedTiers": [{"id": "other"}, FREE], "currentTier": None}
    onboards(google, RUNNING, RUNNING, RUNNING | {"done": False}, DONE)
    slept, told = Slept(), list[str]()
    ask = generator(google, sleep=slept, GOOGLE_CLOUD_PROJECT="mine", tell=told.append)
    assert texts(await chunks(ask, asked())) == ["hello"]
    account = await ask.account()
    await ask.aclose()
    assert (account.project, account.tier) == ("given-project", "free-tier")
    # The free tier gives a project of its own: none is sent.
    assert google.posted(ONBOARD) == [{"tierId": "free-tier", "metadata": METADATA}]
    polls = [one for one in google.requests if one.method == "GET"]
    assert [one.path for one in polls] == ["/v1internal/operations/o1"] * 3
    assert all("authorization" in one.headers for one in polls)
    assert slept.seconds == [5.0] * 3
    assert told == ["We read along."]
    assert google.requests[-1].json["project"] == "given-project"


async def test_a_paid_tier_is_joined_with_the_users_project(google: GoogleServer) -> None:
    google.load = {"allowedTiers": [PAID]}
    onboards(google, {"done": True, "response": {}})
    ask = generator(google, GOOGLE_CLOUD_PROJECT="mine")
    assert (await ask.account()).project == "mine"
    await ask.aclose()
    assert google.posted(ONBOARD) == [
        {
            "tierId": "standard-tier",
            "cloudaicompanionProject": "mine",
            "metadata": METADATA | {"duetProject": "mine"},
        }
    ]


async def test_without_a_default_tier_it_is_the_legacy_one(google: GoogleServer) -> None:
    google.load = {"allowedTiers": [{"id": "x"}]}
    onboards(google, DONE)
    ask = generator(google, GOOGLE_CLOUD_PROJECT="mine")
    assert (await ask.account()).tier == "legacy-tier"
    await ask.aclose()
    assert google.posted(ONBOARD)[0]["tierId"] == "legacy-tier"


@pytest.mark.parametrize("load", [{"currentTier": TIER}, {"allowedTiers": [PAID]}, {}])
async def test_an_account_that_needs_a_project_says_how_to_set_one(
    google: GoogleServer, load: dict[str, Any]
) -> None:
    google.load = load
    ask = generator(google)
    with pytest.raises(ProjectRequiredError, match=r"GOOGLE_CLOUD_PROJECT.*goo\.gle") as caught:
        await chunks(ask, asked())
    await ask.aclose()
    assert caught.value.exit_code == 41
    assert google.paths() == [LOAD]


@pytest.mark.parametrize("load", [{"currentTier": TIER}, {"allowedTiers": []}])
async def test_an_account_that_is_not_taken_hears_all_reasons(
    google: GoogleServer, load: dict[str, Any]
) -> None:
    google.load = load | {"ineligibleTiers": INELIGIBLE}
    ask = generator(google)
    with pytest.raises(IneligibleAccountError, match=r"too young\., And too far away"):
        await ask.account()
    await ask.aclose()


async def test_an_account_to_be_verified_is_told_where_before_anything_else(
    google: GoogleServer,
) -> None:
    tier = {
        "reasonCode": "VALIDATION_REQUIRED",
        "reasonMessage": "Check your age.",
        "validationUrl": "https://accounts.example/v",
        "validationLearnMoreUrl": "https://support.example/l",
    }
    google.load = {"allowedTiers": [FREE], "ineligibleTiers": [tier]}
    ask = generator(google)
    with pytest.raises(ValidationRequiredError, match="Check your age") as caught:
        await ask.account()
    await ask.aclose()
    assert caught.value.link == "https://accounts.example/v"
    assert "https://accounts.example/v" in str(caught.value)
    assert google.paths() == [LOAD]


@pytest.mark.parametrize("url", ["javascript:alert(1)", "http://a", "https://a\x1b[31m", "", None])
async def test_a_link_that_is_no_plain_address_is_not_shown(
    google: GoogleServer, url: str | None
) -> None:
    tier = {"reasonCode": "VALIDATION_REQUIRED", "reasonMessage": "No.", "validationUrl": url}
    google.load = {"ineligibleTiers": [tier]}
    ask = generator(google)
    with pytest.raises(IneligibleAccountError, match=r"No\."):
        await ask.account()
    await ask.aclose()


def refused(reason: str, code: int = 403) -> Reply:
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}]
    return json_reply({"error": {"code": code, "message": "no", "details": details}}, code)


async def test_a_perimeter_that_hides_the_tier_leaves_the_standard_one(
    google: GoogleServer,
) -> None:
    google.reply(refused("SECURITY_POLICY_VIOLATED"))
    ask = generator(google, GOOGLE_CLOUD_PROJECT="mine")
    account = await ask.account()
    await ask.aclose()
    assert (account.project, account.tier) == ("mine", "standard-tier")


async def test_the_project_of_cloud_shell_is_refused_with_the_remedy(google: GoogleServer) -> None:
    google.reply(refused("ACCESS_DENIED"), refused("ACCESS_DENIED"))
    ask = generator(google, GOOGLE_CLOUD_PROJECT="cloudshell-gca")
    with pytest.raises(CredentialsError, match=r"Cloud Shell.*GOOGLE_CLOUD_PROJECT"):
        await ask.account()
    await ask.aclose()
    other = generator(google, GOOGLE_CLOUD_PROJECT="mine")
    with pytest.raises(CredentialsError, match=r"refused \("):
        await other.account()
    await other.aclose()


async def test_an_account_that_is_refused_is_told_which_accounts_work(google: GoogleServer) -> None:
    google.load = {"ineligibleTiers": INELIGIBLE}
    ask = generator(google)
    with pytest.raises(IneligibleAccountError, match=r"2026-06-18.*Enterprise.*GEMINI_API_KEY"):
        await ask.account()
    await ask.aclose()


async def test_a_sign_up_that_fails_says_why(google: GoogleServer) -> None:
    google.load = {"allowedTiers": [FREE]}
    onboards(google, RUNNING, {"done": True, "error": {"code": 7, "message": "Not you."}})
    ask = generator(google)
    with pytest.raises(CredentialsError, match=r"Not you\."):
        await ask.account()
    await ask.aclose()


async def test_a_sign_up_without_a_project_is_told(google: GoogleServer) -> None:
    google.load = {"allowedTiers": [FREE], "ineligibleTiers": INELIGIBLE}
    onboards(google, {"done": True})
    ask = generator(google)
    with pytest.raises(IneligibleAccountError):
        await ask.account()
    await ask.aclose()


async def test_a_sign_up_that_does_not_end_is_not_waited_for_without_end(
    google: GoogleServer,
) -> None:
    google.load = {"allowedTiers": [FREE]}
    onboards(google, *[RUNNING] * 100)
    slept = Slept()
    ask = generator(google, sleep=slept)
    with pytest.raises(CredentialsError, match="300 s"):
        await ask.account()
    await ask.aclose()
    assert sum(slept.seconds) == 300


async def test_a_service_without_the_method_is_no_missing_model(google: GoogleServer) -> None:
    google.reply(json_reply({"error": {"code": 404, "message": "nope"}}, 404))
    ask = generator(google)
    with pytest.raises(RequestRejectedError, match=r"loadCodeAssist.*CODE_ASSIST_ENDPOINT"):
        await ask.account()
    await ask.aclose()


async def test_a_wait_that_is_cancelled_ends_and_the_next_request_begins_anew(
    google: GoogleServer,
) -> None:
    google.load = {"allowedTiers": [FREE]}
    onboards(google, RUNNING, DONE)
    waiting = asyncio.Event()

    async def sleep(_seconds: float) -> None:
        waiting.set()
        await asyncio.sleep(3600)

    ask = generator(google, sleep=sleep)
    task = asyncio.create_task(ask.account())
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    onboards(google, DONE)
    assert (await ask.account()).project == "given-project"
    await ask.aclose()


async def test_the_name_of_an_operation_cannot_lead_elsewhere(google: GoogleServer) -> None:
    google.load = {"allowedTiers": [FREE]}
    seen: list[str] = []

    def any_operation(received: Received) -> Reply:
        seen.append(received.path)
        return json_reply(DONE)

    onboards(google, {"name": "/a b?x=1#y\r\nX: 1"})
    google.routes["/v1internal/a%20b%3Fx%3D1%23y%0D%0AX%3A%201"] = any_operation
    ask = generator(google)
    assert (await ask.account()).project == "given-project"
    await ask.aclose()
    assert len(seen) == 1


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b'{"currentTier": 5}', b'{"error": "x"}'])
async def test_an_answer_that_is_none_is_a_typed_error(google: GoogleServer, body: bytes) -> None:
    google.reply(Reply(pieces=[body] if body else []))
    ask = generator(google)
    with pytest.raises((DecodeError, ModelError)) as caught:
        await ask.account()
    await ask.aclose()
    assert "\n" not in str(caught.value)
