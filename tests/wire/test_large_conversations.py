"""Conversations with very many of something take time in proportion, and come to the same."""

from typing import Any

from hypothesis import strategies as st

from alhena.wire.conformance import ConformanceFindings
from alhena.wire.conformance.check import check_calling, check_request
from alhena.wire.conformance.history import HistoryWalk, read_content
from alhena.wire.conformance.repair import repair
from alhena.wire.content import (
    MODEL,
    USER,
    Content,
    EncodedContent,
    FunctionCall,
    FunctionResponse,
    Part,
)
from alhena.wire.request import GenerateContentRequest

MANY = 4_000

ids = st.sampled_from([None, "", "1", "2", "3"])
names = st.sampled_from(["f", "g", "h"])
responses = st.lists(st.builds(FunctionResponse, id=ids, name=names), max_size=10)


class Counted(str):
    """A text that counts how often it is compared with another."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


def make_request(*contents: Content) -> GenerateContentRequest:
    return GenerateContentRequest(model="m", contents=tuple(map(EncodedContent, contents)))


def broken(contents: tuple[Content, ...]) -> set[str]:
    walk, findings = HistoryWalk(), ConformanceFindings()
    for index, content in enumerate(contents):
        walk.feed(read_content(index, content, findings), findings)
    walk.finish(findings, needs_signatures=False, takes_signatures=True)
    return {item.rule for item in findings.violations}


def step(order: range, **fields: Any) -> tuple[Content, Content, Content]:
    """As many calls, each of its own name and id, and their responses in this order."""
    called = [
        Part(function_call=FunctionCall(id=Counted(f"i{n}"), name=Counted(f"f{n}"), args={}))
        for n in sorted(order)
    ]
    answers = [
        Part(
            function_response=FunctionResponse(
                id=Counted(f"i{n}"), name=Counted(f"f{n}"), response={"output": ""}
            )
        )
        for n in order
    ]
    return (
        Content(role=USER, parts=(Part(text="go"),)),
        Content(role=MODEL, parts=tuple(called)),
        Content(role=USER, parts=tuple(answers)),
    )


def test_thousands_of_calls_answered_backwards_are_put_in_order_in_proportionate_time():
    Counted.compared = 0
    contents = step(range(MANY - 1, -1, -1))
    assert broken(contents) == {"F7"}
    mended = repair(contents).contents
    assert broken(mended) == set()
    given_order = [part.function_response for part in mended[2].parts]
    assert [item.id for item in given_order if item is not None] == [f"i{n}" for n in range(MANY)]
    assert Counted.compared < 40 * MANY


def test_thousands_of_calls_with_one_id_get_ids_of_their_own():
    parts = tuple(Part(function_call=FunctionCall(id="i", name="f", args={})) for _ in range(MANY))
    done = repair((Content(role=USER, parts=(Part(text="go"),)), Content(role=MODEL, parts=parts)))
    called = [part.function_call for part in done.contents[1].parts]
    assert len({call.id for call in called if call is not None}) == MANY
    assert check_request(make_request(*done.contents)) == ()


def test_thousands_of_allowed_names_are_looked_up_and_not_searched_for():
    Counted.compared = 0
    names = tuple(Counted(f"f{n}") for n in range(MANY))
    findings = ConformanceFindings()
    check_calling("ANY", [Counted(name) for name in names], names, findings)
    assert findings.violations == []
    assert Counted.compared < 10 * MANY
