"""A chat that asks again: what the model is sent, what is shown, what the history keeps."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from alhena.chat.chat import ALONE, AdmittedRequest, Chat, ChatServices, Outlets
from alhena.chat.history import History
from alhena.chat.recovery import NUDGE_CUT, NUDGE_EMPTY, NUDGE_THOUGHTS, TOOLS_DONE
from alhena.chat.turn import InvalidResponseError, ModelTraits
from alhena.errors import AlhenaError, ServerFaultError, StreamCutError
from alhena.events import ContentEvent, Event, RetryEvent, ToolCallRequestEvent, WarningEvent
from alhena.models.errors import RecordingError
from alhena.models.retry import RetryingGenerator, RetryPolicy
from alhena.wire.conformance.check import check_request
from alhena.wire.content import FunctionResponse, Part, text_content
from alhena.wire.errors import Severity
from alhena.wire.request import GenerateContentConfig, GenerateContentRequest
from alhena.wire.response import CUT_CALL, GenerateContentResponse
from tests.support.scripted import Script, ScriptedGenerator
from tests.support.server import call, chunk, text

ENDED = chunk(finish="STOP")
EMPTY = [ENDED]
THOUGHTS = [chunk({"text": "hm", "thought": True}, finish="STOP")]
DOWN = ServerFaultError("down", status=503)


async def no_pause() -> None:
    """Nobody is slower than the model."""


class Talk:
    """A chat over a script that notes its waits and events."""

    def __init__(self, *turns: Script, services: ChatServices = ALONE, **policy: Any) -> None:
        self.model = ScriptedGenerator(*turns)
        self.events: list[Event] = []
        self.waits: list[float] = []
        retrying = RetryingGenerator(
            self.model, RetryPolicy(**policy), sleep=self._wait, chance=lambda: 0
        )

        self.chat = Chat(
            retrying,
            ModelTraits(name="gemini-2.5-pro"),
            GenerateContentConfig(),
            History(),
            Outlets(self.events.append, no_pause),
            services,
        )

    async def _wait(self, seconds: float) -> None:
        self.waits.append(seconds)

    async def say(self, *parts: Part) -> str:
        return (await self.chat.send(parts or (Part(text="hi"),), "p#1")).text

    @property
    def retries(self) -> list[RetryEvent]:
        return [event for event in self.events if isinstance(event, RetryEvent)]

    @property
    def conforming(self) -> bool:
        found = (item for request in self.model.requests for item in check_request(request))
        return not any(item.level is Severity.ERROR for item in found)


@pytest.mark.requirement("CHAT-02", "CHAT-03", "WIRE-18")
async def test_a_cut_answer_is_void_and_the_whole_one_is_recorded_alone():
    half = chunk({"text": "Half of"}, {"text": "why", "thought": True})
    talk = Talk([half, StreamCutError("cut")], [half, text("all.")])
    assert await talk.say() == "Half ofall."
    assert talk.waits == [1]
    shown = [e for e in talk.events if isinstance(e, ContentEvent | RetryEvent)]
    assert shown[0] == ContentEvent(text="Half of")
    assert isinstance(shown[1], RetryEvent)
    assert shown[1].retract
    assert [content.content.role for content in talk.chat.history.contents] == ["user", "model"]
    recorded = talk.chat.history.contents[1].content
    assert recorded == text_content("model", "Half ofall.")
    assert talk.model.seen(0) == talk.model.seen(1)


async def test_calls_of_a_failed_attempt_are_never_announced():
    first = chunk(call("note", {"key": "a"}, id="1"))
    again = chunk(call("note", {"key": "a"}, id="2"), finish="STOP")
    talk = Talk([first, StreamCutError("cut")], [again])
    turn = await talk.chat.send((Part(text="hi"),), "p")
    assert [item.call_id for item in turn.calls] == ["2"]
    assert [e.call_id for e in talk.events if isinstance(e, ToolCallRequestEvent)] == ["2"]


@pytest.mark.requirement("WIRE-18")
@pytest.mark.parametrize(("answer", "nudge"), [(EMPTY, NUDGE_EMPTY), (THOUGHTS, NUDGE_THOUGHTS)])
async def test_a_model_that_said_nothing_is_told_so_and_the_history_is_not(
    answer: Script, nudge: str
):
    talk = Talk(answer, answer, [text("well")])
    assert await talk.say() == "well"
    assert talk.model.seen(0)[0]["parts"] == [{"text": "hi"}]
    assert talk.model.seen(1)[0]["parts"] == [{"text": "hi"}, {"text": nudge}]
    assert talk.model.seen(2) == talk.model.seen(1)
    assert talk.chat.history.contents[0].content == text_content("user", "hi")
    assert talk.waits == [1, 2]
    assert not any(event.retract for event in talk.retries)
    assert talk.conforming


async def test_thoughts_behind_tool_results_are_no_answer_and_nothing_is_merged_into_results():
    asked = [chunk(call("note", {}, id="1"), finish="STOP")]
    talk = Talk(asked, THOUGHTS, [text("so")])
    await talk.say()
    result = FunctionResponse(id="1", name="note", response={"output": "x"})
    assert await talk.say(Part(function_response=result)) == "so"
    told = talk.model.seen(2)[-2:]
    assert told[0] == {"parts": [{"text": TOOLS_DONE}], "role": "model"}
    assert told[1] == {"parts": [{"text": NUDGE_THOUGHTS.strip()}], "role": "user"}
    assert talk.conforming
    assert len(talk.chat.history) == 4


@pytest.mark.parametrize(
    "answer",
    [
        [chunk({"text": "x"}, finish="MALFORMED_FUNCTION_CALL")],
        [chunk({"text": "x"}, finish="MALFORMED_RESPONSE")],
        [chunk(call("note", {}), finish="MALFORMED_RESPONSE")],
        [chunk({"text": "x"}, finish="CONTINUATION")],
        [chunk(call("note", {}), finish="CONTINUATION")],
        [chunk(finish="MAX_TOKENS")],
        [chunk({"text": "no end"})],
        [chunk(call("note", {}), finish="UNEXPECTED_TOOL_CALL")],
    ],
)
async def test_malformed_and_unfinished_answers_are_asked_for_again_as_they_were(answer: Script):
    talk = Talk(answer, [text("fine")])
    assert await talk.say() == "fine"
    assert talk.model.seen(1) == talk.model.seen(0)
    assert len(talk.chat.history) == 2


def cut(*parts: dict[str, Any]) -> Script:
    """An answer that reached its limit in the middle of a call."""
    last = chunk(*parts, finish="MAX_TOKENS", usage={"candidatesTokenCount": 4096})
    last["candidates"][0]["finishMessage"] = f"{CUT_CALL}write_file"
    return [last]


async def test_a_model_whose_call_was_cut_off_is_told_so_and_asked_once_more():
    talk = Talk(cut({"text": "Now:"}), [text("smaller")])
    assert await talk.say() == "smaller"
    said = talk.model.seen(1)[0]["parts"][-1]["text"]
    assert said == NUDGE_CUT.format(name="write_file")
    assert talk.retries[0].retract
    assert (talk.retries[0].attempt, talk.retries[0].max_attempts) == (2, 2)
    assert "its output limit (4096 tokens) in the middle of a call to write_file" in (
        talk.retries[0].reason
    )
    assert talk.chat.history.contents[0].content == text_content("user", "hi")
    assert talk.conforming


async def test_a_model_that_is_cut_off_again_ends_the_run_with_the_limit_named():
    talk = Talk(cut(), cut({"text": "Now:"}), [text("never")])
    with pytest.raises(InvalidResponseError, match=r"output limit \(4096 tokens\)") as caught:
        await talk.say()
    assert "maxOutputTokens" in str(caught.value)
    assert len(talk.model.requests) == 2
    assert talk.model.seen(0) != talk.model.seen(1)
    assert len(talk.chat.history) == 0


async def test_calls_before_one_that_was_cut_off_are_carried_out_and_it_is_said():
    talk = Talk(cut(call("note", {"key": "a"}, id="1")))
    turn = await talk.chat.send((Part(text="hi"),), "p")
    assert [item.call_id for item in turn.calls] == ["1"]
    (warning,) = [event for event in talk.events if isinstance(event, WarningEvent)]
    assert "in the middle of a call to write_file, which was left out" in warning.message


@pytest.mark.parametrize("reason", ["SAFETY", "RECITATION", "PROHIBITED_CONTENT", "SPII", "OTHER"])
async def test_what_was_withheld_for_its_content_is_not_asked_for_again(reason: str):
    talk = Talk([chunk(finish=reason)])
    with pytest.raises(InvalidResponseError):
        await talk.say()
    assert not talk.retries
    assert len(talk.chat.history) == 0


async def test_a_blocked_prompt_is_not_sent_again():
    talk = Talk([{"promptFeedback": {"blockReason": "SAFETY"}}])
    with pytest.raises(InvalidResponseError):
        await talk.say()
    assert len(talk.model.requests) == 1


async def test_a_model_that_never_answers_is_asked_four_times_and_nothing_is_kept():
    talk = Talk(*[EMPTY] * 5)
    with pytest.raises(InvalidResponseError) as caught:
        await talk.say()
    assert caught.value.reason == "empty_response"
    assert len(talk.model.requests) == 4
    assert talk.waits == [1, 2, 4]
    assert len(talk.chat.history) == 0


async def test_failures_of_all_kinds_share_one_limit():
    cut = [chunk({"text": "x"}), StreamCutError("cut")]
    talk = Talk([DOWN], cut, [DOWN], EMPTY, cut, [DOWN], [text("no more")], max_attempts=6)
    with pytest.raises(AlhenaError, match="Tried 6 times"):
        await talk.say()
    assert talk.waits == [5, 1, 10, 2, 4]
    assert [event.attempt for event in talk.retries] == [2, 3, 4, 5, 6]


async def test_a_cancelled_wait_takes_the_prompt_back_and_the_next_one_goes_out():
    talk = Talk([DOWN], [text("later")])
    begun = asyncio.Event()

    async def forever(_seconds: float) -> None:
        begun.set()
        await asyncio.Event().wait()

    retrying = RetryingGenerator(talk.model, sleep=forever)
    chat = Chat(
        retrying,
        ModelTraits(name="m"),
        GenerateContentConfig(),
        History(),
        Outlets(talk.events.append, no_pause),
    )
    task = asyncio.ensure_future(chat.send((Part(text="one"),), "p"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(chat.history) == 0
    assert (await chat.send((Part(text="two"),), "p")).text == "later"
    assert talk.model.seen(1) == [{"parts": [{"text": "two"}], "role": "user"}]


async def test_a_recording_that_ends_at_an_empty_answer_ends_with_that_answer():
    talk = Talk(EMPTY, [RecordingError("no more lines")])
    with pytest.raises(InvalidResponseError) as caught:
        await talk.say()
    assert isinstance(caught.value.__cause__, RecordingError)


class Between:
    """Sees every request; may answer instead of the model, or hold answers back."""

    def __init__(self, answer: Any = None, *, reviews: bool = False) -> None:
        self.reviews_answers = reviews
        self.admitted = 0
        self._answer = answer

    async def admit(self, request: GenerateContentRequest) -> AdmittedRequest:
        self.admitted += 1
        given = self._answer
        return AdmittedRequest(request, given and msgspec.convert(given, GenerateContentResponse))

    async def review(
        self, request: GenerateContentRequest, chunks: Sequence[GenerateContentResponse]
    ) -> Sequence[GenerateContentResponse]:
        del request
        return chunks


async def test_an_answer_that_did_not_come_from_the_model_is_not_asked_for_again():
    between = Between(chunk(finish="STOP"))
    talk = Talk(services=ChatServices(interposer=between))
    with pytest.raises(InvalidResponseError):
        await talk.say()
    assert between.admitted == 1
    assert not talk.retries


async def test_whoever_stands_between_sees_every_attempt_and_of_held_answers_nothing_is_void():
    between = Between(reviews=True)
    broken = [chunk({"text": "half"}), StreamCutError("cut")]
    talk = Talk(broken, [text("whole")], services=ChatServices(interposer=between))
    assert await talk.say() == "whole"
    assert between.admitted == 2
    assert [event.retract for event in talk.retries] == [False]


async def test_a_call_that_a_chunk_repeats_is_one_call_and_another_under_its_id_is_two():
    same = call("note", {"key": "a"}, id="1")
    other = call("note", {"key": "b"}, id="1")
    talk = Talk([chunk(same), chunk(same), chunk(other), chunk(finish="STOP")])
    turn = await talk.chat.send((Part(text="hi"),), "p")
    assert [item.args["key"] for item in turn.calls] == ["a", "b"]
    assert turn.calls[0].call_id == "1"
    assert turn.calls[1].call_id != "1"


def calls_alone(*keys: str) -> list[dict[str, Any]]:
    return [chunk(call("note", {"key": key}, id=f"1-{key}")) for key in keys]


@pytest.mark.requirement("WIRE-18")
async def test_an_answer_that_ends_between_its_calls_is_asked_for_again():
    talk = Talk(calls_alone("a"), [*calls_alone("a", "b"), chunk(finish="STOP")])
    turn = await talk.chat.send((Part(text="hi"),), "p")
    assert [item.args["key"] for item in turn.calls] == ["a", "b"]
    assert [e.call_id for e in talk.events if isinstance(e, ToolCallRequestEvent)] == [
        "1-a",
        "1-b",
    ]
    assert talk.waits == [1]


async def test_a_service_that_never_ends_its_calls_with_a_reason_is_believed_at_last():
    talk = Talk(*[calls_alone("a")] * 4, calls_alone("b"), [text("so")])
    turn = await talk.chat.send((Part(text="hi"),), "p")
    assert [item.args["key"] for item in turn.calls] == ["a"]
    assert talk.waits == [1, 2, 4]
    result = FunctionResponse(id="1-a", name="note", response={"output": "x"})
    turn = await talk.chat.send((Part(function_response=result),), "p")
    assert [item.args["key"] for item in turn.calls] == ["b"]
    assert len(talk.waits) == 3, "what was learned of the service holds"
    assert talk.conforming


async def test_pieces_of_a_call_are_asked_for_again_whole():
    piece = call("note", {}, id="1")
    piece["functionCall"] |= {"willContinue": True}
    talk = Talk([chunk(piece), chunk(finish="STOP")], [*calls_alone("a"), chunk(finish="STOP")])
    turn = await talk.chat.send((Part(text="hi"),), "p")
    assert [item.args for item in turn.calls] == [{"key": "a"}]


async def test_a_retry_says_how_many_attempts_there_are_of_its_kind():
    talk = Talk([half_said], [DOWN], [text("so")])
    await talk.say()
    assert [(e.attempt, e.max_attempts) for e in talk.retries] == [(2, 4), (3, 10)]


half_said = chunk({"text": "no end"})
