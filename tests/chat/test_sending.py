"""Nothing leaves that breaks a rule: what can be repaired is, the rest is not sent."""

from collections.abc import Sequence

import pytest

from alhena.chat.chat import ALONE, AdmittedRequest, Chat, ChatServices, Outlets
from alhena.chat.history import History
from alhena.chat.turn import ModelTraits
from alhena.events import Event
from alhena.wire.content import Content, FunctionCall, FunctionResponse, Part, text_content
from alhena.wire.encode import EncodedContent
from alhena.wire.errors import ConformanceError
from alhena.wire.request import GenerateContentConfig, GenerateContentRequest
from alhena.wire.response import GenerateContentResponse
from tests.agent.kit import warnings
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text

OPENING = (text_content("user", "hi"), text_content("model", "hello"))


class Sends:
    """Puts other contents in place of those of the first request."""

    reviews_answers = False

    def __init__(self, *contents: Content) -> None:
        self.contents = tuple(map(EncodedContent, contents))
        self.admitted = 0

    async def admit(self, request: GenerateContentRequest) -> AdmittedRequest:
        self.admitted += 1
        if self.admitted > 1:
            return AdmittedRequest(request)
        return AdmittedRequest(
            GenerateContentRequest(
                model=request.model, contents=self.contents, config=request.config
            )
        )

    async def review(
        self, request: GenerateContentRequest, chunks: Sequence[GenerateContentResponse]
    ) -> Sequence[GenerateContentResponse]:
        return chunks


def chatting(
    traits: ModelTraits,
    *answers: str,
    contents: Sequence[Content] = OPENING,
    services: ChatServices = ALONE,
) -> tuple[Chat, ScriptedGenerator, list[Event]]:
    async def pace() -> None:
        pass

    events: list[Event] = []
    generator = ScriptedGenerator(*([text(answer)] for answer in answers))
    chat = Chat(
        generator,
        traits,
        GenerateContentConfig(),
        History(contents),
        Outlets(events.append, pace),
        services,
    )
    return chat, generator, events


async def test_a_request_that_was_changed_for_the_worse_is_repaired_and_said_to_be() -> None:
    calling = Content(role="model", parts=(Part(function_call=FunctionCall(id="1", name="f")),))
    services = ChatServices(interposer=Sends(OPENING[0], calling, OPENING[0]))
    chat, generator, events = chatting(ModelTraits(name="m"), "a", "b", services=services)
    await chat.send((Part(text="go"),), "p")
    assert [content["role"] for content in generator.seen(0)] == ["user", "model", "user", "user"]
    answer = generator.seen(0)[2]["parts"][0]["functionResponse"]
    assert (answer["id"], answer["name"], list(answer["response"])) == ("1", "f", ["error"])
    assert warnings(events) == [
        'the request was repaired before it was sent, at contents[1]: the call of "f" was answered.'
    ]
    assert [entry.content.role for entry in chat.history.contents] == ["user", "model"] * 2
    await chat.send((Part(text="go on"),), "p")
    assert generator.seen(1)[2]["parts"] == [{"text": "go"}]
    assert len(warnings(events)) == 1


async def test_what_cannot_be_repaired_is_not_sent_and_the_prompt_taken_back() -> None:
    services = ChatServices(interposer=Sends())
    chat, generator, _ = chatting(ModelTraits(name="m"), "a", services=services)
    with pytest.raises(ConformanceError):
        await chat.send((Part(text="go"),), "p")
    assert generator.requests == []
    assert len(chat.history) == 2


async def test_a_model_that_refuses_signatures_is_sent_none_and_nobody_is_bothered() -> None:
    signed = Content(role="model", parts=(Part(text="hello", thought_signature="QUJD"),))
    traits = ModelTraits(name="m", takes_signatures=False)
    chat, generator, events = chatting(traits, "a", "b", contents=(OPENING[0], signed))
    for prompt in ("one", "two"):
        await chat.send((Part(text=prompt),), "p")
    for index in (0, 1):
        assert generator.seen(index)[1]["parts"] == [{"text": "hello"}]
    assert warnings(events) == []
    assert chat.history.contents[1].content == signed


@pytest.mark.requirement("CHAT-02")
async def test_a_signature_goes_back_on_the_part_it_came_with_and_on_no_other():
    thought = {"text": "hm", "thought": True, "thoughtSignature": "QUJD"}
    signed = call("f", {}, id="c1", thoughtSignature="REVG")
    said = {"text": "first", "thoughtSignature": "R0hJ"}
    events: list[Event] = []

    async def pace() -> None:
        pass

    script = ScriptedGenerator([chunk(thought, said), chunk(thought, signed)], [text("so")])
    chat = Chat(
        script,
        ModelTraits(name="m", sign_calls=True),
        GenerateContentConfig(),
        History(OPENING),
        Outlets(events.append, pace),
    )
    turn = await chat.send((Part(text="go"),), "p")
    (called,) = turn.calls
    response = FunctionResponse(id=called.call_id, name="f", response={"output": "x"})
    await chat.send((Part(function_response=response),), "p")
    assert script.seen(1)[-2]["parts"] == [said, signed]
    assert warnings(events) == []


@pytest.mark.requirement("WIRE-06")
async def test_what_the_service_called_by_itself_enters_the_history_before_its_answer():
    done = [
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "f", "response": {"output": "x"}}}],
        },
    ]
    events: list[Event] = []

    async def pace() -> None:
        pass

    script = ScriptedGenerator(
        [chunk({"text": "s"}) | {"automaticFunctionCallingHistory": done}, text("o")]
    )
    outlets = Outlets(events.append, pace)
    chat = Chat(script, ModelTraits(name="m"), GenerateContentConfig(), History(), outlets)
    await chat.send((Part(text="go"),), "p")
    kept = [entry.content for entry in chat.history.contents]
    assert [content.role for content in kept] == ["user", "model", "user", "model"]
    assert kept[1].parts[0].function_call == FunctionCall(name="f", args={})
    assert kept[3] == text_content("model", "so")
