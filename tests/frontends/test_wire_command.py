"""`alhena wire` and `alhena models` as commands."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import alhena, alhena_reads

TEXT = {"role": "user", "parts": [{"text": "x"}]}
CALL = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}
BROKEN = [TEXT, CALL, {"role": "user", "parts": [{"text": "y", "zz": 1}]}]


def checked(body: Any, *options: str) -> tuple[int, dict[str, Any]]:
    ran = alhena_reads(json.dumps(body).encode(), "wire", "check", *options, "-")
    return ran.code, ran.json


@pytest.mark.parametrize("form", ["plain", "enveloped", "client"])
def test_a_body_is_repaired_in_the_form_it_was_given_in(form: str) -> None:
    body: dict[str, Any] = {"contents": BROKEN}
    if form == "enveloped":
        body = {"model": "m", "project": "p", "request": {**body, "session_id": "s"}}
    elif form == "client":
        body = {"model": "m", **body, "config": {"temperature": 1}}
    assert checked(body)[0] == 1
    code, told = checked(body, "--repair")
    assert (code, told["violations"]) == (0, [])
    assert {item["rule"] for item in told["repairs"]} == {"C4", "F10"}
    repaired = told["body"]
    inner = repaired["request"] if form == "enveloped" else repaired
    assert [content["role"] for content in inner["contents"]] == ["user", "model", "user", "user"]
    assert inner["contents"][3] == {"role": "user", "parts": [{"text": "y"}]}
    assert repaired | {"contents": 0, "request": 0} == body | {"contents": 0, "request": 0}
    assert checked(repaired) == (0, {"violations": []})
    if form == "enveloped":
        assert inner["session_id"] == "s"


def test_what_keeps_the_rules_is_given_back_as_it_is() -> None:
    body = {"contents": [TEXT], "tools": [{"googleSearch": {}}]}
    assert checked(body, "--repair") == (0, {"violations": [], "repairs": [], "body": body})


def test_what_cannot_be_repaired_is_still_told() -> None:
    code, told = checked({"contents": [TEXT], "generationconfig": {}}, "--repair")
    assert code == 1
    assert [item["rule"] for item in told["violations"]] == ["C4"]
    assert checked([], "--repair")[0] == 1
    assert checked({"contents": []}, "--repair")[0] == 1
    assert checked({"request": 7}, "--repair")[0] == 1


def test_the_model_decides_about_signatures() -> None:
    answer = {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]}
    body = {"contents": [TEXT, CALL, answer]}
    assert checked(body) == (0, {"violations": []})
    code, told = checked(body, "--model", "gemini-3-flash-preview")
    assert (code, [item["rule"] for item in told["violations"]]) == (1, ["S1"])
    assert checked({"model": "gemini-3-flash-preview", **body})[0] == 1
    code, told = checked(body, "--model", "gemini-3-flash-preview", "--repair")
    part = told["body"]["contents"][1]["parts"][0]
    assert (code, part["thoughtSignature"]) == (0, "skip_thought_signature_validator")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--json",),
        ("check", "a", "b"),
        ("check", "--model"),
        ("check",),
        ("check", "--repare", "-"),
    ],
)
def test_wrong_words_are_a_usage_error(arguments: tuple[str, ...]) -> None:
    ran = alhena_reads(b"{}", "wire", *arguments)
    assert ran.code == 2
    assert ran.err.count("\n") == 1


ASKED = {
    "model": "m",
    "max_tokens": 9,
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "look"}]},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t1", "name": "see", "input": {"a": 1}}],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "content": [{"type": "text", "text": "x"}],
                }
            ],
        },
    ],
}


def converted(body: Any, *options: str) -> Any:
    ran = alhena_reads(json.dumps(body).encode(), "wire", "convert", *options, "-")
    assert ran.code == 0, ran.err
    return ran.json


def test_a_request_goes_from_dialect_to_dialect_and_back() -> None:
    gemini = converted(ASKED, "--from", "anthropic", "--to", "gemini")
    assert checked(gemini) == (0, {"violations": []})
    openai = converted(gemini, "--from", "gemini", "--to", "openai", "--model", "m")
    assert [message["role"] for message in openai["messages"]] == ["user", "assistant", "tool"]
    assert converted(openai, "--from", "openai", "--to", "anthropic") == ASKED


def test_the_file_may_stand_before_the_options(project: Path) -> None:
    (project / "asked.json").write_text(json.dumps(ASKED), encoding="utf-8")
    ran = alhena("wire", "convert", "asked.json", "--from", "anthropic", "--to", "gemini")
    assert ran.json == converted(ASKED, "--from", "anthropic", "--to", "gemini")


def test_a_request_that_cannot_be_converted_says_where() -> None:
    broken = {**ASKED, "messages": ASKED["messages"][:2]}
    words = ("wire", "convert", "--from", "anthropic", "--to", "openai", "-")
    ran = alhena_reads(json.dumps(broken).encode(), *words)
    assert ran.code == 42
    assert "messages: the results of the calls" in str(ran.err)
    assert alhena("wire", "convert", "--from", "latin", "--to", "openai", "-").code == 2
    words = ("wire", "convert", "--from", "openai", "--to", "gemini", "-")
    assert alhena_reads(b"{", *words).code == 42


def test_a_responses_request_is_converted_and_back() -> None:
    body = {
        "model": "m",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
        ],
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    there = alhena_reads(
        json.dumps(body).encode(), "wire", "convert", "--from", "responses", "--to", "gemini", "-"
    )
    assert there.json["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]
    back = alhena_reads(
        json.dumps(there.json).encode(),
        *("wire", "convert", "--from", "gemini", "--to", "responses", "--model", "m", "-"),
    )
    assert back.json == body
