"""Conversations that keep every rule, for tests that break them one by one."""

import base64
from typing import Any

from hypothesis import strategies as st

from alhena.wire.content import (
    MODEL,
    USER,
    Blob,
    Content,
    FunctionCall,
    FunctionResponse,
    FunctionResponsePart,
    Part,
    text_content,
)
from alhena.wire.encode import EncodedContent
from alhena.wire.request import (
    FunctionDeclaration,
    GenerateContentConfig,
    GenerateContentRequest,
    ToolDeclarations,
)

NAMES = ("read_file", "replace", "run_shell_command", "mcp.server-tool_1")
PNG = Blob(mime_type="image/png", data="AAAA")

# Drawn from short lists: what the rules look at is how contents follow each other.
texts = st.sampled_from(["a", " ", "two\nlines", "\u2028é😀"])
values = st.sampled_from([None, 0, -1.5, "text", True, [], [{"a": None}], {"b": {"c": [1]}}])
objects = st.dictionaries(texts, values, max_size=2)
signatures = st.sampled_from(
    [base64.b64encode(raw).decode() for raw in (b"\x00", b"\xff\xfe", b"\xfb\xef\xbe", b"abcd")]
)


@st.composite
def answers(draw: st.DrawFn, call: FunctionCall) -> Part:
    """A response to a call."""
    key = draw(st.sampled_from(["output", "error"]))
    media = draw(st.none() | st.just((FunctionResponsePart(inline_data=PNG),)))
    response = FunctionResponse(
        id=call.id, name=call.name, response={key: draw(values)}, parts=media
    )
    return Part(function_response=response)


@st.composite
def steps(draw: st.DrawFn, number: int) -> list[Content]:
    """A model content with calls and the content that answers them all."""
    with_ids = draw(st.booleans())
    calls = [
        FunctionCall(
            id=f"c{number}-{index}" if with_ids else None,
            name=draw(st.sampled_from(NAMES)),
            args=draw(st.none() | objects),
        )
        for index in range(draw(st.integers(1, 3)))
    ]
    spoken = [Part(text=text) for text in draw(st.lists(texts, max_size=1))]
    called = [Part(function_call=call) for call in calls]
    called[0] = Part(function_call=calls[0], thought_signature=draw(signatures))
    beside = [Part(inline_data=PNG)] if draw(st.booleans()) else []
    answered = [draw(answers(call)) for call in calls]
    return [
        Content(role=MODEL, parts=(*spoken, *called)),
        Content(role=USER, parts=(*answered, *beside)),
    ]


@st.composite
def histories(draw: st.DrawFn, min_steps: int = 0) -> list[Content]:
    """Prompts with any number of steps and an answer each, up to a last content of the user's."""
    contents: list[Content] = []
    number = 0
    rounds = draw(st.integers(1, 3))
    for turn in range(rounds):
        contents.append(text_content(USER, *draw(st.lists(texts, min_size=1, max_size=2))))
        last = turn == rounds - 1
        for _ in range(draw(st.integers(min_steps if last else 0, 3))):
            number += 1
            contents += draw(steps(number))
        if not last and draw(st.booleans()):
            signature = draw(st.none() | signatures)
            closing = [Part(text="", thought_signature=signature)] if signature else []
            contents.append(Content(role=MODEL, parts=(Part(text=draw(texts)), *closing)))
        elif not last and contents[-1].parts[0].function_response is None:
            contents.append(text_content(MODEL, draw(texts)))
    return contents


CONFIG = GenerateContentConfig(
    system_instruction=text_content(USER, "be brief"),
    tools=(
        ToolDeclarations(
            function_declarations=tuple(
                FunctionDeclaration(
                    name=name, description="d", parameters_json_schema={"type": "object"}
                )
                for name in NAMES
            )
        ),
    ),
)


def request_of(
    contents: list[Content], config: GenerateContentConfig = CONFIG
) -> GenerateContentRequest:
    return GenerateContentRequest(
        model="m", contents=tuple(map(EncodedContent, contents)), config=config
    )


def user(*parts: Part) -> Content:
    return Content(role=USER, parts=parts)


def model(*parts: Part) -> Content:
    return Content(role=MODEL, parts=parts)


def call(name: str = "read_file", id: str | None = None, **fields: Any) -> Part:
    return Part(function_call=FunctionCall(id=id, name=name, args={}), **fields)


def response(name: str = "read_file", id: str | None = None, **fields: Any) -> Part:
    return Part(
        function_response=FunctionResponse(id=id, name=name, response={"output": ""}), **fields
    )
