"""Whatever a model says and whatever happens to its calls, the next request keeps every rule."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alhena.chat.chat import Chat, ChatServices, Outlets
from alhena.chat.history import History
from alhena.chat.recovery import Substitute
from alhena.chat.turn import AnswerCollector, InvalidResponseError, ModelTraits
from alhena.errors import AlhenaError, ModelError, StreamCutError
from alhena.models.errors import DailyQuotaError, QuotaError
from alhena.models.retry import RetryingGenerator
from alhena.tools.response import cancelled_parts, error_parts, join_responses, response_parts
from alhena.wire.conformance.check import check_request
from alhena.wire.conformance.history import slice_history
from alhena.wire.conformance.json_body import check_json
from alhena.wire.content import Blob, Content, Part, text_content
from alhena.wire.encode import encode_request
from alhena.wire.errors import Severity
from alhena.wire.request import (
    FunctionDeclaration,
    GenerateContentConfig,
    GenerateContentRequest,
    ToolDeclarations,
)
from tests.support.scripted import ScriptedGenerator
from tests.support.server import chunk

EXAMPLES = 30
"""Each is a conversation of up to eight prompts. `make soak` tries 20,000."""

NAMES = ["read_file", "replace", "gone"]
CONFIG = GenerateContentConfig(
    system_instruction=text_content("user", "be brief"),
    tools=(
        ToolDeclarations(
            function_declarations=tuple(
                FunctionDeclaration(
                    name=name, description="d", parameters_json_schema={"type": "object"}
                )
                for name in NAMES[:2]
            )
        ),
    ),
)
signatures = st.sampled_from([None, "QUJD", "AAAA", "sig-1"])
texts = st.sampled_from(["", " ", "a", "two\nlines", "\ud800"])


@st.composite
def parts(draw: st.DrawFn) -> dict[str, Any]:
    """A part as a service may send it, proxies' oddities included."""
    kind = draw(st.sampled_from(["text", "thought", "call", "call", "call", "media", "odd"]))
    signature = draw(signatures)
    part: dict[str, Any] = {"thoughtSignature": signature} if signature else {}
    if kind == "text":
        part["text"] = draw(texts)
    elif kind == "thought":
        part |= {"text": draw(texts), "thought": True}
    elif kind == "media":
        part["inlineData"] = {"mimeType": "image/png", "data": "AAAA"}
    elif kind == "call":
        call: dict[str, Any] = {"name": draw(st.sampled_from(NAMES))}
        if draw(st.booleans()):
            call["id"] = draw(st.sampled_from(["1", "2", ""]))
        if draw(st.booleans()):
            call["args"] = {"a": draw(st.sampled_from([None, float("nan"), "\udfff", 1]))}
        part["functionCall"] = call
        if draw(st.booleans()):
            part["text"] = ""
    return part


@st.composite
def answers(draw: st.DrawFn) -> list[Any]:
    """The chunks of an answer; it may break off."""
    made: list[Any] = [
        chunk(*draw(st.lists(parts(), max_size=3))) for _ in range(draw(st.integers(0, 3)))
    ]
    ends = ["STOP", "STOP", "STOP", "MAX_TOKENS", "SAFETY", None, "cut", "spent"]
    end = draw(st.sampled_from(ends))
    if end == "cut":
        return [*made, StreamCutError("the connection broke.")]
    if end == "spent":
        return [*made, DailyQuotaError("nothing left for today.", status=429)]
    return [*made, chunk(*draw(st.lists(parts(), max_size=1)), finish=end)]


class Service(ScriptedGenerator):
    """Answers what is drawn, and refuses whatever the real one would."""

    def __init__(self, data: st.DataObject, model: str) -> None:
        super().__init__()
        self.data = data
        self.model = model
        self.checked = 0

    async def stream(self, request: GenerateContentRequest) -> AsyncIterator[Any]:
        self.refuse(request)
        self.turns = [self.data.draw(answers())]
        async for response in super().stream(request):
            yield response

    def refuse(self, request: GenerateContentRequest) -> None:
        options = {
            "needs_signatures": self.model == "three",
            "takes_signatures": self.model != "gemma",
        }
        found = check_request(request, **options)
        assert [item for item in found if item.level == Severity.ERROR] == []
        sent = [part for entry in request.contents for part in entry.content.parts]
        assert not any(part.thought for part in sent)
        body = json.loads(encode_request(request))
        found = check_json(body, **options)
        assert [item for item in found if item.level == Severity.ERROR and item.rule != "S3"] == []
        self.checked += 1


def draw_responses(draw: st.DrawFn, turn: AnswerCollector) -> tuple[Part, ...]:
    """Draws responses to the calls of a turn."""
    done: list[tuple[Part, ...]] = []
    for call in turn.calls:
        way = draw(st.sampled_from(["text", "failed", "cancelled", "media", "odd media"]))
        if way == "failed":
            done.append(error_parts(call.name, call.call_id, "no \ud800"))
        elif way == "cancelled":
            done.append(cancelled_parts(call.name, call.call_id, "enough", "half"))
        elif way == "text":
            done.append(response_parts(call.name, call.call_id, "ok"))
        else:
            mime = "image/png" if way == "media" else "application/zip"
            blob = Part(inline_data=Blob(mime_type=mime, data="AAAA"))
            done.append(response_parts(call.name, call.call_id, blob))
    return join_responses(done)


async def at_once(_seconds: float) -> None:
    """Nobody waits."""


def traits_of(model: str) -> ModelTraits:
    return ModelTraits(name=model, sign_calls=model == "three", takes_signatures=model != "gemma")


class AnyOther:
    """Whatever fails, another model takes over, or none."""

    def __init__(self, conversation: "Conversation") -> None:
        self.conversation = conversation

    def takes(self, error: AlhenaError) -> bool:
        return isinstance(error, ModelError)

    def offers(self, model: str, error: AlhenaError) -> bool:
        return isinstance(error, QuotaError)

    async def instead_of(self, model: str, error: AlhenaError) -> Substitute | None:
        others = {"three": "two", "two": "gemma"}
        if not self.offers(model, error) or model not in others:
            return None
        self.conversation.service.model = others[model]
        return Substitute(traits=traits_of(others[model]), config=GenerateContentConfig())


class Conversation:
    """A session that goes on whatever happens: it is resumed, cut, cancelled, and its model
    changed."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.services: list[Service] = []
        self.chat = self.opened((), "two")

    def opened(self, contents: tuple[Content, ...], model: str) -> Chat:
        self.service = Service(self.data, model)
        self.services.append(self.service)

        async def pace() -> None:
            pass

        traits = traits_of(model)
        outlets = Outlets(lambda _event: None, pace)
        retrying = RetryingGenerator(self.service, sleep=at_once, chance=lambda: 0)
        services = ChatServices(fallback=AnyOther(self))
        return Chat(retrying, traits, CONFIG, History(contents), outlets, services)

    async def prompt(self) -> None:
        pending: tuple[Part, ...] = (Part(text="go"),)
        for _ in range(3):
            try:
                turn = await self.chat.send(pending, "p")
            except (InvalidResponseError, ModelError):
                return
            if not turn.calls:
                return
            pending = draw_responses(self.data.draw, turn)
            if self.data.draw(st.booleans(), label="interrupted"):
                break
        if self.data.draw(st.booleans(), label="recorded"):
            self.chat.record_responses(pending)

    def resume(self) -> None:
        """From what of it was kept: all, a part that ends anywhere, or a slice."""
        contents = tuple(entry.content for entry in self.chat.history.contents)
        kept = self.data.draw(st.integers(0, len(contents)))
        way = self.data.draw(st.sampled_from(["all", "start", "end", "slice"]))
        if way == "start":
            contents = contents[:kept]
        elif way == "end":
            contents = contents[kept:]
        elif way == "slice":
            lead = self.data.draw(st.none() | st.just(text_content("user", "[left out]")))
            contents = slice_history(contents, kept, lead=lead)
        model = self.data.draw(st.sampled_from(["two", "three", "gemma"]))
        self.chat = self.opened(contents, model)


def converse(data: st.DataObject) -> int:
    """Sends a drawn conversation and counts its requests. Raises AssertionError at the first one
    that breaks a rule."""

    async def talk() -> int:
        conversation = Conversation(data)
        for _ in range(data.draw(st.integers(1, 8))):
            await conversation.prompt()
            if data.draw(st.booleans(), label="resumed"):
                conversation.resume()
        return sum(service.checked for service in conversation.services)

    return asyncio.run(talk())


@pytest.mark.requirement("CHAT-02")
@settings(max_examples=EXAMPLES, deadline=None)
@given(st.data())
def test_every_request_of_a_generated_conversation_keeps_the_rules(data: st.DataObject) -> None:
    assert converse(data) > 0
