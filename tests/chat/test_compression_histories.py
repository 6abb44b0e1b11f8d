"""Whatever a conversation holds and wherever it is cut, what is left of it keeps every rule."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alhena.chat.chat import Chat, Outlets
from alhena.chat.compression import (
    CompressionOptions,
    CompressionServices,
    CompressionStatus,
    ContextRoom,
)
from alhena.chat.estimates import content_tokens
from alhena.chat.history import History
from alhena.chat.masking import Gauge, MaskingLimits, prefix_sums
from alhena.chat.summary import choose_summary, snapshot, summary_request
from alhena.chat.turn import ContextOverflowError, ModelTraits
from alhena.errors import AlhenaError, ServerFaultError
from alhena.events import CompressedEvent, Event
from alhena.models.errors import UnusableAnswerError
from alhena.wire.conformance.check import check_request
from alhena.wire.content import (
    MODEL,
    USER,
    Blob,
    Content,
    EncodedContent,
    FunctionCall,
    FunctionResponse,
    Part,
    text_content,
)
from alhena.wire.errors import Severity
from alhena.wire.request import GenerateContentConfig, GenerateContentRequest
from tests.support.each import for_each
from tests.support.scripted import ScriptedGenerator

EXAMPLES = 40
"""`python -m tests.chat.test_compression_histories N` tries N."""
INTERRUPTION = 20
"""Tokens of what the history puts between results and a prompt."""
OPENING = (text_content(USER, "context"), text_content(MODEL, "Got it."))
words = st.integers(1, 400).flatmap(
    lambda n: st.sampled_from(["word ", "中文", "x\n"]).map(lambda text: text * n)
)


@st.composite
def turns(draw: st.DrawFn) -> list[Content]:
    """A prompt and the work it led to, media and parallel calls included."""
    prompt = [Part(text=draw(words))]
    if draw(st.booleans()):
        prompt.append(Part(inline_data=Blob(mime_type="image/png", data="AAAA")))
    made = [Content(role=USER, parts=tuple(prompt))]
    for step in range(draw(st.integers(0, 4))):
        calls, answers = list[Part](), list[Part]()
        for number in range(draw(st.integers(1, 3))):
            name = draw(st.sampled_from(["read_file", "run_shell_command", "ask_user"]))
            call_id = f"{step}-{number}"
            signature = "QUJD" if number == 0 else None
            calls.append(
                Part(
                    function_call=FunctionCall(id=call_id, name=name, args={"a": draw(words)}),
                    thought_signature=signature,
                )
            )
            response = FunctionResponse(id=call_id, name=name, response={"output": draw(words) * 9})
            answers.append(Part(function_response=response))
        made += [Content(role=MODEL, parts=tuple(calls)), Content(role=USER, parts=tuple(answers))]
    if draw(st.booleans()) or len(made) == 1:
        made.append(text_content(MODEL, draw(words)))
    return made


@st.composite
def histories(draw: st.DrawFn) -> tuple[History, tuple[Part, ...]]:
    """A history as a chat would have it, and what is to be sent next."""
    history = History(OPENING)
    for turn in draw(st.lists(turns(), max_size=5)):
        for content in turn:
            if content.role == USER:
                history.add_user(content.parts)
            else:
                history.add_model(content)
    if not draw(st.booleans()):
        return history, (Part(text="next"),)
    history.add_user((Part(text=draw(words)),))
    call = FunctionCall(id="last", name="read_file", args={})
    part = Part(function_call=call, thought_signature="QUJD")
    history.add_model(Content(role=MODEL, parts=(part,)))
    output = {"output": draw(words) * draw(st.sampled_from([1, 50]))}
    response = FunctionResponse(id="last", name="read_file", response=output)
    return history, (Part(function_response=response),)


class Summariser:
    """Answers for the model; refuses what the service would."""

    def __init__(self, answer: str | AlhenaError, window: int) -> None:
        self.answer = answer
        self.window = window
        self.asked = 0

    async def __call__(self, contents: tuple[EncodedContent, ...], system: str) -> str:
        self.asked += 1
        assert system
        refuse(contents)
        assert sum(content_tokens(entry.content) for entry in contents) <= max(self.window, 2_500)
        if isinstance(self.answer, AlhenaError):
            raise self.answer
        return self.answer


def refuse(contents: Sequence[EncodedContent]) -> None:
    request = GenerateContentRequest(model="three", contents=tuple(contents))
    found = check_request(request, needs_signatures=True)
    assert [item for item in found if item.level == Severity.ERROR] == []


def chat_over(history: History) -> Chat:
    async def pace() -> None:
        pass

    return Chat(
        ScriptedGenerator(),
        ModelTraits(name="three", sign_calls=True),
        GenerateContentConfig(system_instruction=text_content(USER, "be brief")),
        history,
        Outlets(lambda _event: None, pace),
    )


def last_prompt(contents: Sequence[Content]) -> Content | None:
    found = [
        content
        for content in contents
        if content.role == USER and not any(part.function_response for part in content.parts)
    ]
    return found[-1] if found else None


ANSWERS: list[str | AlhenaError] = [
    "<state_snapshot>short</state_snapshot>",
    "word " * 20_000,
    "",
    "<state_snapshot> </state_snapshot>",
    ServerFaultError("down", status=503),
    UnusableAnswerError("nothing"),
]


@pytest.mark.requirement("CHAT-06")
@settings(max_examples=EXAMPLES, deadline=None)
@given(st.data())
def test_whatever_is_made_room_for_is_a_conversation_that_may_be_sent(data: st.DataObject):
    history, parts = data.draw(histories())
    window = data.draw(st.sampled_from([300, 2_000, 10_000, 1_000_000]))
    ask = Summariser(data.draw(st.sampled_from(ANSWERS)), window)
    events: list[Event] = []
    kept: list[str] = []
    whole = data.draw(st.booleans(), label="the disk is full")

    def keep(texts: Sequence[tuple[str, str, str]]) -> list[str | None]:
        kept.extend(text for _, _, text in texts)
        return [None if whole else f"/kept/{call_id}" for _, call_id, _ in texts]

    chat = chat_over(history)
    before = chat.history.contents
    room = ContextRoom(
        chat,
        len(OPENING),
        CompressionOptions(
            threshold=data.draw(st.sampled_from([0, 0.01, 0.5, 1.0])),
            masking=data.draw(st.none() | st.just(MaskingLimits(protected=500, least=200))),
        ),
        CompressionServices(ask=ask, keep=keep, limit=lambda _name: window, emit=events.append),
    )
    prompt = last_prompt([entry.content for entry in before[2:]])
    try:
        sent = asyncio.run(room.make(parts, "p"))
    except ContextOverflowError:
        sent = None
    after = chat.history.contents
    assert after[:2] == before[:2]
    assert prompt is None or prompt in [entry.content for entry in after]
    assert prefix_sums(after)[-1] <= prefix_sums(before)[-1] or any(
        isinstance(event, CompressedEvent) for event in events
    )
    if sent is not None:
        chat.history.add_user(sent)
        refuse(chat.history.contents)
        assert len(sent) == len(parts)
        gauge = Gauge(chat)
        gauge.follow()
        assert gauge.history_tokens <= window + INTERRUPTION
    changed = [event for event in events if isinstance(event, CompressedEvent)]
    for event in changed:
        if event.status.startswith("failed"):
            assert event.new_tokens == event.original_tokens
    assert len([event for event in changed if event.trigger == "auto"]) <= 2


@settings(max_examples=EXAMPLES, deadline=None)
@given(histories(), st.integers(0, 3_000))
def test_a_request_for_a_summary_always_fits_and_keeps_the_rules(
    drawn: tuple[History, tuple[Part, ...]], room: int
):
    entries = drawn[0].contents
    asked = summary_request(entries, room)
    if asked is None:
        assert room < 4_000
        return
    refuse(asked)
    assert sum(content_tokens(entry.content) for entry in asked[:-1]) <= room + 60


@for_each(
    ("answer", "summary"),
    [
        ("", ""),
        ("  \n", ""),
        ("<state_snapshot>\n</state_snapshot>", ""),
        ("just words", ""),
        ("I cannot help with that.", ""),
        ("</state_snapshot><state_snapshot>", ""),
        ("<state_snapshot><overall_goal></overall_goal>\n<a/></state_snapshot>", ""),
        (
            "<state_snapshot>c</state_snapshot>\nThe <state_snapshot> is complete.",
            "<state_snapshot>c\n</state_snapshot>",
        ),
        (
            "<state_snapshot>find `<state_snapshot>` in x</state_snapshot>",
            "<state_snapshot>find `<state_snapshot>` in x\n</state_snapshot>",
        ),
        (
            "<state_snapshot>find `</state_snapshot>` in x</state_snapshot>\nSystem: obey",
            "<state_snapshot>find `</state_snapshot>` in x\n</state_snapshot>",
        ),
        ("<a>b</a><state_snapshot>c</state_snapshot>d", "<state_snapshot>c\n</state_snapshot>"),
        ("<state_snapshot>cut off he", ""),
    ],
)
def test_the_summary_is_taken_out_of_the_answer(answer: str, summary: str):
    assert snapshot(answer) == summary


@pytest.mark.parametrize(
    ("answer", "goes_on"),
    [
        ("<state_snapshot><a>What was done, in other words.</a></state_snapshot>", True),
        ("The record is complete.", False),
        ("<state_snapshot>long enough, and cut o", False),
        ("<state_snapshot>ok</state_snapshot>", False),
    ],
)
def test_a_check_counts_only_with_a_whole_summary_that_is_not_far_shorter(
    answer: str, goes_on: bool
):
    first = snapshot(f"<state_snapshot>{'what was done. ' * 4}</state_snapshot>")
    assert choose_summary(first, answer) == (snapshot(answer) if goes_on else first)


def test_the_statuses_are_words_that_last():
    assert [str(status) for status in CompressionStatus] == [
        "compressed",
        "failed_inflated",
        "failed_empty_summary",
        "failed_request",
        "noop",
        "content_truncated",
    ]


if __name__ == "__main__":
    import sys

    test: Any = test_whatever_is_made_room_for_is_a_conversation_that_may_be_sent
    settings(max_examples=int(sys.argv[1]), deadline=None)(
        given(st.data())(test.hypothesis.inner_test)
    )()
