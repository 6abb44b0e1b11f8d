"""The end of an answer, as scripts and clients are told: words, exit codes, stop reasons."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from alhena.wire.dialects import anthropic, openai
from alhena.wire.dialects.conversation import ToolNameMap
from alhena.wire.dialects.fields import InexpressibleAnswerError
from alhena.wire.finish_reasons import ENDINGS
from alhena.wire.response import FinishReason, GenerateContentResponse
from tests.support.command import alhena, keyed
from tests.support.server import ScriptedServer, call, chunk, sse

ERRORS = {
    "MALFORMED_FUNCTION_CALL": (1, "a call that cannot be read"),
    "UNEXPECTED_TOOL_CALL": (1, "a call that was not expected"),
    "MALFORMED_RESPONSE": (1, "an answer that cannot be read"),
    "CONTINUATION": (1, "without a continuation token"),
    "MISSING_THOUGHT_SIGNATURE": (1, "misses a thought signature"),
    "TOO_MANY_TOOL_CALLS": (1, "more calls than one answer may have"),
    "ESCALATION": (1, "escalation rule"),
    "MODEL_ARMOR": (1, "Model Armor"),
    "PUP_LIMITED_DISABLED": (41, "account is limited"),
    "IMAGE_SAFETY": (1, "the image was withheld"),
    "IMAGE_PROHIBITED_CONTENT": (1, "the image was withheld"),
    "IMAGE_RECITATION": (1, "the image was withheld"),
    "IMAGE_OTHER": (1, "the image could not be made"),
    "NO_IMAGE": (1, "made no image"),
}
"""Exit code and words of each reason that ends a run, also after some text."""
CUT = ("SAFETY", "RECITATION", "LANGUAGE", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII")
TEXT = {"text": "as far as"}


@pytest.fixture
def once(home: Path) -> None:
    """Settings with which nothing is asked for again, except to mend it."""
    folder = home / ".gemini"
    folder.mkdir(exist_ok=True)
    settings = {"general": {"maxAttempts": 1}}
    (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")


def ended(server: ScriptedServer, *parts: Any, reason: str, output: str = "json") -> Any:
    reply = sse(chunk(*parts, finish=reason))
    server.reply(reply, reply)
    return alhena("-p", "hi", "-o", output, **keyed(server))


def test_each_reason_has_its_meaning():
    assert ENDINGS.keys() == set(FinishReason)
    assert {name for name, found in ENDINGS.items() if found.is_error} == ERRORS.keys()


@pytest.mark.requirement("TODAY-04")
@pytest.mark.usefixtures("once")
@pytest.mark.parametrize("parts", [[], [TEXT], [call("read_file", {"file_path": "x"})]])
@pytest.mark.parametrize("reason", ERRORS)
def test_a_reason_that_is_no_end_of_an_answer_ends_the_run_with_its_words(
    server: ScriptedServer, reason: str, parts: list[Any]
):
    ran = ended(server, *parts, reason=reason)
    code, words = ERRORS[reason]
    error = json.loads(ran.out or ran.err)["error"]
    assert (ran.code, error["code"]) == (code, code)
    assert words in error["message"]
    assert f"({reason})" in error["message"]
    assert "cut" not in error["message"]
    assert len(server.requests) == (2 if reason == "MISSING_THOUGHT_SIGNATURE" else 1)


@pytest.mark.requirement("TODAY-04")
@pytest.mark.usefixtures("once")
@pytest.mark.parametrize("output", ["text", "stream-json"])
@pytest.mark.parametrize("reason", ["MODEL_ARMOR", "PUP_LIMITED_DISABLED", "MALFORMED_RESPONSE"])
def test_every_form_of_output_tells_of_it(server: ScriptedServer, reason: str, output: str):
    ran = ended(server, TEXT, reason=reason, output=output)
    code, words = ERRORS[reason]
    assert ran.code == code
    if output == "text":
        assert words in ran.err
        return
    (result,) = ran.of_type("result")
    assert (result["status"], result["error"]["code"]) == ("error", code)
    assert result["finish_reason"] == reason


@pytest.mark.requirement("TODAY-04")
@pytest.mark.usefixtures("once")
@pytest.mark.parametrize("reason", [*CUT, "SOMETHING_NEW"])
def test_a_text_that_was_cut_is_an_answer_and_nothing_is_an_error(
    server: ScriptedServer, reason: str
):
    ran = ended(server, TEXT, reason=reason)
    assert (ran.code, ran.json["response"], ran.json["finish_reason"]) == (0, "as far as", reason)
    assert f"({reason})" in ran.json["warnings"][0]


@pytest.mark.requirement("TODAY-04")
@pytest.mark.parametrize("reason", [*CUT, "SOMETHING_NEW"])
@pytest.mark.usefixtures("once")
def test_an_answer_that_was_withheld_whole_is_an_error(server: ScriptedServer, reason: str):
    ran = ended(server, reason=reason)
    error = json.loads(ran.out or ran.err)["error"]
    assert (ran.code, error["type"]) == (1, "invalid_response")
    assert "withheld" in error["message"]
    assert f"({reason})" in error["message"]


def written(reason: str, *parts: Any) -> tuple[str, str]:
    """The stop reason and the finish reason that clients of the gateway get."""
    response = msgspec.convert(chunk(*parts, finish=reason), GenerateContentResponse)
    names = ToolNameMap()
    message = anthropic.write_response(response, model="m", names=names, new_id=lambda _: "i")
    completion = openai.write_response(
        response, model="m", names=names, new_id=lambda _: "i", created=0
    )
    return message["stop_reason"], completion["choices"][0]["finish_reason"]


@pytest.mark.requirement("TODAY-04")
@pytest.mark.parametrize("parts", [[], [TEXT], [call("f", {})]])
@pytest.mark.parametrize("reason", sorted(FinishReason))
def test_clients_of_the_gateway_get_a_refusal_or_an_error(reason: str, parts: list[Any]):
    if ENDINGS[reason].withheld:
        assert written(reason, *parts) == ("refusal", "content_filter")
    elif ENDINGS[reason].is_error:
        with pytest.raises(InexpressibleAnswerError) as caught:
            written(reason, *parts)
        assert ERRORS[reason][1] in caught.value.message
    else:
        assert written(reason, *parts)[0] in {"end_turn", "max_tokens", "tool_use"}
