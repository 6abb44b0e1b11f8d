"""Tool calls and text cut off by the output limit: the model and the person are told."""

import pytest

from alhena.chat.chat import Chat, ChatServices
from alhena.chat.history import History
from alhena.chat.recovery import NUDGE_CUT, NUDGE_CUT_BEHIND, TOOLS_DONE
from alhena.errors import AlhenaError
from alhena.events import WarningEvent
from alhena.models.errors import RequestRejectedError
from alhena.wire.content import FunctionResponse, Part
from alhena.wire.response import NO_REASON
from tests.chat.test_recovery import DOWN, Talk, cut
from tests.support.scripted import Script
from tests.support.server import call, chunk, text

RESULT = Part(function_response=FunctionResponse(id="1", name="note", response={"output": "x"}))


async def test_a_model_is_told_once_of_a_call_that_was_cut_off_behind_others():
    done = chunk(call("note", {"key": "b"}, id="2"), finish="STOP")
    talk = Talk(cut(call("note", {"key": "a"}, id="1")), [DOWN], [done], [text("so")])
    await talk.chat.send((Part(text="hi"),), "p")
    await talk.chat.send((RESULT,), "p")
    for attempt in (1, 2):
        *_, waited, told = talk.model.seen(attempt)
        assert waited["parts"] == [{"text": TOOLS_DONE}]
        assert told["parts"] == [{"text": NUDGE_CUT_BEHIND.format(name="write_file").lstrip()}]
    again = FunctionResponse(id="2", name="note", response={"output": "y"})
    await talk.chat.send((Part(function_response=again),), "p")
    assert "output limit" not in str(talk.model.seen(3))
    assert "output limit" not in str([entry.content for entry in talk.chat.history.contents])
    assert talk.conforming


async def test_a_conversation_that_makes_room_meanwhile_loses_no_word_and_a_new_one_has_none():
    def one(key: str) -> Script:
        return cut(call("note", {"key": key}, id=key))

    class Shortening:
        async def make(
            self, chat: Chat, parts: tuple[Part, ...], prompt_id: str
        ) -> tuple[Part, ...]:
            del prompt_id
            chat.history = History(tuple(entry.content for entry in chat.history.contents))
            return parts

        async def refit(self, chat: Chat, error: AlhenaError) -> bool:
            del chat, error
            return False

    services = ChatServices(room=Shortening())
    talk = Talk(one("1"), one("2"), [text("so")], services=services)
    await talk.chat.send((Part(text="hi"),), "p")
    await talk.chat.send((RESULT,), "p")
    assert "output limit" in str(talk.model.seen(1)[-1])
    talk.chat.history = History()
    await talk.chat.send((Part(text="hi"),), "p")
    assert "output limit" not in str(talk.model.seen(2))


async def test_a_request_that_was_made_smaller_is_tried_again_like_any_other():
    class Shortening:
        async def make(
            self, chat: Chat, parts: tuple[Part, ...], prompt_id: str
        ) -> tuple[Part, ...]:
            del chat, prompt_id
            return parts

        async def refit(self, chat: Chat, error: AlhenaError) -> bool:
            del chat
            return isinstance(error, RequestRejectedError)

    services, large = ChatServices(room=Shortening()), RequestRejectedError("too large", status=400)
    talk = Talk([large], [DOWN], [text("so")], services=services)
    assert await talk.say() == "so"
    assert len(talk.retries) == 1
    with pytest.raises(RequestRejectedError):
        await Talk([large], [DOWN], [large], services=services).say()


async def test_another_failure_does_not_make_the_word_about_a_cut_call_forgotten():
    talk = Talk(cut(), [DOWN], [text("smaller")])
    assert await talk.say() == "smaller"
    said = NUDGE_CUT.format(name="write_file")
    assert [talk.model.seen(at)[0]["parts"][-1]["text"] for at in (1, 2)] == [said, said]


@pytest.mark.parametrize(("message", "warned"), [(NO_REASON, True), (None, False)])
async def test_words_that_ended_without_a_reason_are_taken_with_a_warning(
    message: str | None, warned: bool
):
    last = text("half of")
    last["candidates"][0]["finishMessage"] = message
    talk = Talk([last])
    assert await talk.say() == "half of"
    warnings = [event.message for event in talk.events if isinstance(event, WarningEvent)]
    assert any("without a finish reason" in said for said in warnings) is warned
