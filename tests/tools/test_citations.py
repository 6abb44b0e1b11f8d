"""Citations stand where the service says, counted in UTF-8 bytes."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.tools.builtin.google_web_search import WebSource, answer_of, insert_citations
from alhena.wire.response import GenerateContentResponse
from tests.tools.web import response

TEXT = st.text(st.characters(exclude_characters="[]", exclude_categories=["Cs"]))
MARKS = st.lists(
    st.tuples(st.integers(-5, 200), st.lists(st.integers(1, 30), min_size=1, max_size=4))
)


@pytest.mark.requirement("TOOLS-18")
@given(TEXT, MARKS)
def test_citing_keeps_the_text_and_splits_no_character(
    text: str, marks: list[tuple[int, list[int]]]
) -> None:
    found = insert_citations(text, marks)
    assert re.sub(r"\[\d+\]", "", found) == text
    assert "\ufffd" not in found or "\ufffd" in text
    assert {int(number) for number in re.findall(r"\[(\d+)\]", found)} == {
        number for _, numbers in marks for number in numbers
    }


@given(TEXT, st.data())
def test_a_mark_stands_at_its_byte_when_that_is_between_characters(
    text: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(text)))
    index = len(text[:at].encode())
    assert insert_citations(text, [(index, [7])]) == f"{text[:at]}[7]{text[at:]}"


@pytest.mark.requirement("TOOLS-18")
def test_marks_count_bytes_of_their_part_and_thoughts_count_for_nothing() -> None:
    answer = answer_of(
        response(
            {"text": "hidden", "thought": True},
            "Grüße 🎉. ",
            "日本は島国です。",
            groundingMetadata={
                "groundingChunks": [
                    {"web": {"uri": "https://a.example/", "title": "A\npage"}},
                    "malformed",
                    {"web": {"uri": "https://c.example/"}},
                ],
                "groundingSupports": [
                    {
                        "segment": {"partIndex": 1, "endIndex": len("Grüße 🎉.".encode())},
                        "groundingChunkIndices": [2, 0, 0],
                    },
                    {
                        "segment": {"partIndex": 2, "endIndex": len("日本".encode()) + 1},
                        "groundingChunkIndices": [1, 99, -1],
                    },
                    {"segment": {"partIndex": 0, "endIndex": 3}, "groundingChunkIndices": [0]},
                    {"segment": {"partIndex": 1}, "groundingChunkIndices": [0]},
                    {"segment": {"partIndex": 1, "endIndex": "x"}},
                    None,
                ],
            },
        )
    )
    assert answer.text == "Grüße 🎉.[1][3] 日本は[2]島国です。"
    assert answer.sources == (
        WebSource("A page", "https://a.example/"),
        WebSource("Untitled", "no address"),
        WebSource("Untitled", "https://c.example/"),
    )
    assert str(answer).endswith(
        "\n\nSources:\n[1] A page (https://a.example/)\n[2] Untitled (no address)\n"
        "[3] Untitled (https://c.example/)"
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
)


@given(st.dictionaries(st.sampled_from(["groundingChunks", "groundingSupports"]), JSON))
def test_grounding_of_another_shape_costs_no_text(grounding: dict[str, object]) -> None:
    assert answer_of(response("some text", groundingMetadata=grounding)).text == "some text"


def test_an_answer_without_candidates_is_empty() -> None:
    answer = answer_of(GenerateContentResponse())
    assert (str(answer), answer.sources) == ("", ())
