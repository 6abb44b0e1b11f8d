"""An answer that is interrupted: what a person has read of it, the model knows of, too."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from alhena.chat.chat import Chat, Outlets
from alhena.chat.history import CUT_OFF, History
from alhena.chat.turn import ModelTraits
from alhena.wire.content import Part
from alhena.wire.request import GenerateContentConfig, GenerateContentRequest
from alhena.wire.response import GenerateContentResponse
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text


class Stalling(ScriptedGenerator):
    """Its first answer comes to a halt behind the chunks given."""

    def __init__(self, *begun: dict[str, Any]) -> None:
        super().__init__([text("later")])
        self.begun = begun
        self.halted = asyncio.Event()

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncIterator[GenerateContentResponse]:
        if self.halted.is_set():
            async for response in super().stream(request):
                yield response
            return
        for item in self.begun:
            yield msgspec.convert(item, GenerateContentResponse)
        self.halted.set()
        await asyncio.Event().wait()


async def after_an_interruption(*begun: dict[str, Any]) -> list[Any]:
    """Contents sent with the prompt after an interruption."""

    async def pace() -> None:
        pass

    generator = Stalling(*begun)
    history = History()
    traits = ModelTraits(name="m")
    outlets = Outlets(lambda _: None, pace)
    chat = Chat(generator, traits, GenerateContentConfig(), history, outlets)
    sending = asyncio.ensure_future(chat.send((Part(text="one"),), "p"))
    await generator.halted.wait()
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    await chat.send((Part(text="shorter"),), "q")
    return [
        (content["role"], [part.get("text") for part in content["parts"]])
        for content in generator.seen(0)
    ]


async def test_words_that_came_stay_with_their_prompt():
    thought = chunk({"text": "hm", "thought": True})
    sent = await after_an_interruption(thought, chunk({"text": "Half "}), chunk({"text": "an"}))
    assert sent == [
        ("user", ["one"]),
        ("model", ["Half an", CUT_OFF]),
        ("user", ["shorter"]),
    ]


async def test_a_prompt_without_a_word_of_an_answer_is_taken_back():
    assert await after_an_interruption() == [("user", ["shorter"])]
    thought = chunk({"text": "hm", "thought": True})
    assert await after_an_interruption(thought) == [("user", ["shorter"])]


async def test_a_call_that_never_ran_is_not_kept_as_one():
    sent = await after_an_interruption(chunk({"text": "I look."}), chunk(call("f", {})))
    assert sent[1] == ("model", ["I look.", CUT_OFF])
