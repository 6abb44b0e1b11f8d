"""Questions of servers: forms and links, in both revisions of the protocol."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from alhena.mcp.elicitation import ServerQuestions
from alhena.tools.contract import Question
from tests.mcp.kit import called, kitchen, odd, rigged, tool
from tests.support.patience import PATIENCE_S
from tests.support.steady import skip

MODERN = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "ttlMs": 0,
    "cacheScope": "private",
}
LISTED = {"": {"tools": [tool("t")], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}}
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
FORM = {"mode": "form", "message": "Who are you?", "requestedSchema": NAME}
LINK = {"mode": "url", "message": "Pay first.", "url": "https://pay.example.com/x?y=1"}


class Person:
    """Answers rounds of questions as scripted, and remembers them."""

    def __init__(self, *rounds: Mapping[int, str] | None) -> None:
        self.rounds = list(rounds)
        self.asked: list[tuple[Question, ...]] = []

    async def __call__(self, questions: tuple[Question, ...]) -> Mapping[int, str] | None:
        self.asked.append(questions)
        return self.rounds.pop(0)


def asks(**requests: dict[str, Any]) -> dict[str, Any]:
    """A result that requires input."""
    wrapped = {
        key: {"method": "elicitation/create", "params": params} for key, params in requests.items()
    }
    return {"resultType": "input_required", "inputRequests": wrapped}


def says(text: str) -> dict[str, Any]:
    return {"resultType": "complete", "content": [{"type": "text", "text": text}]}


def modern(project: Path, *results: dict[str, Any]) -> dict[str, Any]:
    """A server of the revision 2026-07-28 that gives these results, and what it hears."""
    does = {"t": {"do": "steps", "results": results}}
    script = {"modern": MODERN, "tools": LISTED, "does": does, "heard": str(project / "heard")}
    return {"odd": odd(project, script)}


def older(project: Path, params: dict[str, Any]) -> dict[str, Any]:
    script = {
        "tools": [tool("t")],
        "does": {"t": {"do": "ask", "params": params}},
        "heard": str(project / "heard"),
    }
    return {"odd": odd(project, script)}


def heard(project: Path, method: str) -> list[dict[str, Any]]:
    """The parameters of the requests that a server got."""
    lines = (project / "heard").read_text(encoding="utf-8").splitlines()
    messages = [json.loads(line) for line in lines]
    return [each["params"] for each in messages if each.get("method") == method]


async def test_a_question_in_a_result_is_asked_and_the_call_sent_again_with_its_answer(
    project: Path,
):
    person = Person({0: "Ada"})
    first = asks(who=FORM) | {"requestState": " opaque\n✓"}
    async with rigged(modern(project, first, says("Hello.")), project, ask=person) as rig:
        assert (await called(rig, "t", {"a": 1})).display == "Hello."
    [[question]] = person.asked
    assert "'odd'" in question.question
    assert "Who are you?" in question.question
    sent = heard(project, "tools/call")
    assert "inputResponses" not in sent[0]
    assert sent[1]["arguments"] == {"a": 1}
    assert sent[1]["requestState"] == " opaque\n✓"
    assert sent[1]["inputResponses"]["who"]["action"] == "accept"
    assert sent[1]["inputResponses"]["who"]["content"] == {"name": "Ada"}
    capabilities = sent[0]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
    assert "elicitation" in capabilities


async def test_a_server_may_ask_again_and_a_state_alone_is_sent_back_at_once(project: Path):
    results = (
        {"resultType": "input_required", "requestState": "one"},
        asks(a=FORM, b=LINK) | {"requestState": "two"},
        asks(c=FORM),
        says("Done."),
    )
    person = Person({0: "Ada"}, {0: "Yes"}, {0: "Bea"})
    async with rigged(modern(project, *results), project, ask=person) as rig:
        assert (await called(rig, "t")).display == "Done."
    sent = heard(project, "tools/call")
    assert [each.get("requestState") for each in sent] == [None, "one", "two", None]
    assert [sorted(each.get("inputResponses", {})) for each in sent] == [[], [], ["a", "b"], ["c"]]
    assert "content" not in sent[2]["inputResponses"]["b"]
    assert "pay.example.com" in person.asked[1][0].question


async def test_a_server_that_asks_without_end_is_given_up(project: Path):
    again = {"resultType": "input_required", "requestState": "again"}
    async with rigged(modern(project, again), project) as rig:
        result = await called(rig, "t")
    assert result.error is not None
    assert "more input 20 times" in result.error.message
    assert len(heard(project, "tools/call")) == 20


@pytest.mark.parametrize(
    "odd_result",
    [
        {"resultType": "input_required"},
        {"resultType": "someday", "content": []},
        {"resultType": "input_required", "inputRequests": {"a": {"method": "sampling/x"}}},
    ],
)
async def test_a_result_that_is_not_understood_is_an_error(
    project: Path, odd_result: dict[str, Any]
):
    async with rigged(modern(project, odd_result), project) as rig:
        assert (await called(rig, "t")).error is not None


async def test_where_nobody_can_answer_it_is_declined_and_the_model_reads_who_asked_what(
    project: Path,
):
    async with rigged(modern(project, asks(who=FORM), says("Then not.")), project) as rig:
        shown = (await called(rig, "t")).display
    assert isinstance(shown, str)
    assert shown.startswith("Then not.\n[The MCP server 'odd' asked the user: “Who are you?”")
    sent = heard(project, "tools/call")
    assert sent[1]["inputResponses"]["who"]["action"] == "decline"
    assert "elicitation" not in sent[0]["_meta"]["io.modelcontextprotocol/clientCapabilities"]


async def test_an_older_server_is_declined_where_nobody_can_answer(project: Path):
    async with rigged(older(project, FORM), project) as rig:
        shown = (await called(rig, "t")).display
    assert isinstance(shown, str)
    assert shown.startswith('{"action": "decline"}\n[The MCP server \'odd\' asked the user')
    assert "elicitation" not in heard(project, "initialize")[0]["capabilities"]


async def test_an_older_servers_question_is_asked(project: Path):
    person = Person({0: "Ada"})
    async with rigged(older(project, FORM), project, ask=person) as rig:
        shown = (await called(rig, "t")).display
    assert json.loads(str(shown)) == {"action": "accept", "content": {"name": "Ada"}}
    assert "elicitation" in heard(project, "initialize")[0]["capabilities"]


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        (
            {0: "4", 1: "No", 2: "fish", 3: "quiet"},
            'accept {"seats":4,"window":false,"meal":"fish","note":"quiet"}',
        ),
        ({0: "4", 1: "Yes"}, 'accept {"seats":4,"window":true,"meal":"beans","note":""}'),
        (None, "cancel"),
    ],
)
async def test_a_server_of_the_sdk_asks_in_a_call(
    project: Path, answers: dict[int, str] | None, outcome: str
):
    person = Person(answers)
    async with rigged({"kitchen": kitchen()}, project, ask=person) as rig:
        assert (await called(rig, "book")).display == outcome
    assert [each.type for each in person.asked[0]] == ["text", "yesno", "choice", "text"]
    assert all("'kitchen'" in each.question for each in person.asked[0])


async def test_a_call_does_not_time_out_while_a_person_thinks(project: Path):
    asked, answered = asyncio.Event(), asyncio.Event()

    async def slow(_questions: tuple[Question, ...]) -> dict[int, str]:
        asked.set()
        await answered.wait()
        return {0: "Ada"}

    async with rigged(older(project, FORM), project, ask=slow) as rig:
        calling = asyncio.create_task(called(rig, "t"))
        await asked.wait()
        skip(2 * PATIENCE_S)
        done, _ = await asyncio.wait({calling}, timeout=0.5)
        assert not done
        answered.set()
        assert "Ada" in str((await calling).display)


async def test_a_question_ends_with_its_call(project: Path):
    asked, withdrawn = asyncio.Event(), asyncio.Event()

    async def slow(_questions: tuple[Question, ...]) -> dict[int, str]:
        asked.set()
        try:
            return await asyncio.Future()
        finally:
            withdrawn.set()

    async with rigged(older(project, FORM), project, ask=slow) as rig:
        calling = asyncio.create_task(called(rig, "t"))
        await asked.wait()
        calling.cancel()
        await withdrawn.wait()


async def test_a_password_is_asked_as_such_and_a_server_that_repeats_it_is_not_recorded(
    project: Path,
):
    schema = {
        "type": "object",
        "properties": {"apiKey": {"type": "string"}, "user": {"type": "string"}},
        "required": ["apiKey"],
    }
    form = FORM | {"requestedSchema": schema}
    results = (asks(a=form), says("Key k-12345 of ada."))
    async with rigged(
        modern(project, *results), project, ask=Person({0: "k-12345", 1: "ada"})
    ) as rig:
        assert (await called(rig, "t")).display == "Key [hidden] of ada."
    assert heard(project, "tools/call")[1]["inputResponses"]["a"]["content"] == {
        "apiKey": "k-12345",
        "user": "ada",
    }


async def asked_for(schema: dict[str, Any], *rounds: Mapping[int, str] | None, **more: bool) -> Any:
    """The reply to a form of one field, and the questions."""
    person = Person(*rounds)
    form = {"type": "object", "properties": {"f": schema}}
    if more.get("required", True):
        form["required"] = ["f"]
    reply = await ServerQuestions("s", person).reply({"message": "m", "requestedSchema": form})
    return reply.result, [each[0] for each in person.asked]


@pytest.mark.parametrize(
    ("schema", "answer", "value"),
    [
        ({"type": "string"}, " a b ", "a b"),
        ({"type": "integer", "minimum": 1, "maximum": 9}, "7", 7),
        ({"type": "number"}, "2.5", 2.5),
        ({"type": "number"}, "2", 2),
        ({"type": "boolean"}, "No", False),
        ({"type": "string", "enum": ["a", "b"]}, "b", "b"),
        ({"type": "string", "enum": ["a", "b"], "enumNames": ["Ah", "Bee"]}, "Bee", "b"),
        ({"type": "string", "oneOf": [{"const": "a", "title": "Ah"}]}, "Ah", "a"),
        ({"type": "array", "items": {"enum": ["a", "b", "c"]}}, "a, c", ["a", "c"]),
        (
            {"type": "array", "items": {"anyOf": [{"const": "x", "title": "One, two"}]}},
            "One, two",
            ["x"],
        ),
        ({"type": "string", "default": "d"}, "", "d"),
        ({"type": "boolean", "default": True}, "", True),
        ({"type": "string", "format": "date"}, "2026-11-29", "2026-11-29"),
        ({"type": "string", "format": "email"}, "a@example.com", "a@example.com"),
    ],
)
async def test_an_answer_has_the_type_of_its_field(schema: dict[str, Any], answer: str, value: Any):
    result, _ = await asked_for(schema, {0: answer} if answer else {})
    assert result == {"action": "accept", "content": {"f": value}}
    assert type(result["content"]["f"]) is type(value)


@pytest.mark.parametrize(
    ("schema", "answer", "problem"),
    [
        ({"type": "integer"}, "2.5", "it is not a whole number"),
        ({"type": "integer", "minimum": 3}, "2", "has to be at least 3"),
        ({"type": "number", "maximum": 3}, "4", "may be at most 3"),
        ({"type": "number"}, "nan", "it is not a number"),
        ({"type": "string", "minLength": 3}, "ab", "at least 3 characters"),
        ({"type": "string", "maxLength": 1}, "ab", "at most 1 characters"),
        ({"type": "string", "enum": ["a", "b"]}, "c", "one of the choices"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, "a, c", "some of the choices"),
        (
            {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 2},
            "a",
            "has to be at least 2",
        ),
        ({"type": "string"}, "", "an answer is required"),
        ({"type": "string", "format": "date"}, "tomorrow", "2026-11-29"),
        ({"type": "string", "format": "uri"}, "nowhere", "https://"),
    ],
)
async def test_an_answer_that_does_not_fit_is_asked_for_again(
    schema: dict[str, Any], answer: str, problem: str
):
    result, asked = await asked_for(schema, *[{0: answer} if answer else {}] * 3)
    assert result == {"action": "cancel"}
    assert problem not in asked[0].question
    assert problem in asked[1].question


async def test_an_optional_field_may_be_left_empty():
    result, asked = await asked_for({"type": "string"}, {}, required=False)
    assert result == {"action": "accept", "content": {}}
    assert "optional" in asked[0].question


@pytest.mark.parametrize(
    ("schema", "secret"),
    [
        ({"type": "string", "title": "Your password"}, True),
        ({"type": "string", "description": "The API key of the service"}, True),
        ({"type": "string", "format": "password"}, True),
        ({"type": "string", "title": "Access-Token"}, True),
        ({"type": "string", "title": "Spinning wheel"}, False),
        ({"type": "boolean", "title": "Rotate the password?"}, False),
    ],
)
async def test_fields_for_passwords_and_keys_are_recognised(schema: dict[str, Any], secret: bool):
    _, asked = await asked_for(schema, {0: "yes"})
    assert asked[0].secret is secret
    assert ("looks like a password" in asked[0].question) is secret


@pytest.mark.parametrize(
    ("url", "action", "shown"),
    [
        ("https://pay.example.com/x", "accept", "host pay.example.com"),
        ("http://pay.example.com/x", "accept", "not encrypted"),
        ("https://good.example@evil.example/", "accept", "host evil.example"),
        ("https://xn--pypal-4ve.com/", "accept", "look like others"),
        ("javascript:alert(1)", "decline", ""),
        ("file:///etc/passwd", "decline", ""),
        ("https://[", "decline", ""),
        ("https://a.example/\u202egpj", "decline", ""),
    ],
)
async def test_a_link_is_shown_with_its_host(url: str, action: str, shown: str):
    person = Person({0: "Yes"})
    reply = await ServerQuestions("s", person).reply({"mode": "url", "message": "m", "url": url})
    assert reply.result == {"action": action}
    assert all(shown in each[0].question for each in person.asked)
    assert bool(person.asked) is (action == "accept")


@pytest.mark.parametrize(("answers", "action"), [({0: "No"}, "decline"), (None, "cancel")])
@pytest.mark.parametrize("params", [LINK, {"message": "Delete all?"}])
async def test_a_no_is_a_no(params: dict[str, Any], answers: dict[int, str] | None, action: str):
    reply = await ServerQuestions("s", Person(answers)).reply(params)
    assert reply.result == {"action": action}
