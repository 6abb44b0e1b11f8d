"""One answer from several requests (CONTINUATION), and one call from its pieces."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.chat.turn import AnswerCollector, model_content
from alhena.errors import StreamCutError
from alhena.http.addresses import parse_endpoint
from alhena.models.errors import UnusableAnswerError
from alhena.models.generator import MAX_REQUESTS, ContinuedAnswer, whole_answer
from alhena.models.providers.gemini_api import GeminiApi, GeminiService
from alhena.models.retry import RetryingGenerator, RetryPolicy
from alhena.wire.content import CallIds, text_content
from alhena.wire.encode import EncodedContent
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import CUT_CALL, GenerateContentResponse
from tests.support.continuing import PROMPT, ContinuingServer, Drop, piece, words
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk

REQUEST = GenerateContentRequest(
    model="gemini-4-argon", contents=(EncodedContent(text_content("user", "hi")),)
)


@asynccontextmanager
async def asking(server: ContinuingServer) -> AsyncIterator[RetryingGenerator]:
    service = GeminiService(api_key="k", endpoint=parse_endpoint(server.url, "URL"))

    async def wait(_seconds: float) -> None:
        pass

    api = RetryingGenerator(GeminiApi(service), RetryPolicy(), sleep=wait, chance=lambda: 0)
    try:
        yield api
    finally:
        await api.aclose()


async def streamed(api: RetryingGenerator) -> list[GenerateContentResponse]:
    return [chunk async for chunk in api.stream(REQUEST)]


def said(chunks: list[GenerateContentResponse]) -> str:
    return "".join(part.text or "" for chunk in chunks for part in chunk.parts)


def reasons(chunks: list[GenerateContentResponse]) -> list[str]:
    return [chunk.finish_reason for chunk in chunks if chunk.finish_reason]


def tokens(chunks: list[GenerateContentResponse]) -> list[str]:
    return [
        one.continuation_token for c in chunks for one in c.candidates if one.continuation_token
    ]


@pytest.mark.requirement("TODAY-03")
@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_a_whole_answer_is_one_response_with_the_sum_of_usage(limit: int):
    with ContinuingServer(words("one ", "two ", "three"), limit=limit) as server:
        async with asking(server) as api:
            response = await api.generate(REQUEST)
    assert said([response]) == "one two three"
    assert (response.finish_reason, response.candidates[0].continuation_token) == ("STOP", None)
    usage = response.usage_metadata
    assert usage is not None
    begun = range(0, 3, limit)
    assert usage.prompt_token_count == sum(PROMPT + 10 * at for at in begun)
    assert usage.candidates_token_count == 30
    assert server.tokens == [None, *(f"at-{at}" for at in begun if at)]


@pytest.mark.requirement("TODAY-03")
async def test_a_streamed_answer_shows_nothing_of_its_requests():
    with ContinuingServer(words("one ", "two ", "three")) as server:
        async with asking(server) as api:
            chunks = await streamed(api)
    assert (said(chunks), reasons(chunks), tokens(chunks)) == ("one two three", ["STOP"], [])
    counted = [chunk.usage_metadata for chunk in chunks]
    assert [each and each.prompt_token_count for each in counted] == [100, 210, 330]


@pytest.mark.requirement("TODAY-03")
@pytest.mark.parametrize(("covered", "at"), [(1, 1), (1, 2), (2, 2), (1, 3), (2, 3), (3, 3)])
async def test_a_dropped_stream_goes_on_from_its_last_token(covered: int, at: int):
    answer = words("one ", "two ", "three ", "four")
    with ContinuingServer(answer, limit=4, drops={at: Drop(covered)}) as server:
        async with asking(server) as api:
            chunks = await streamed(api)
    assert (said(chunks), reasons(chunks)) == ("one two three four", ["STOP"])
    assert server.tokens == [None, f"at-{covered}"]


async def test_a_stream_that_is_dropped_again_and_again_repeats_nothing():
    answer = words(*(f"{n} " for n in range(9)))
    drops = {2: Drop(1), 4: Drop(2), 5: Drop(3), 7: Drop(6)}
    with ContinuingServer(answer, limit=9, drops=drops) as server:
        async with asking(server) as api:
            chunks = await streamed(api)
    assert said(chunks) == "0 1 2 3 4 5 6 7 8 "
    assert server.tokens == [None, "at-1", "at-2", "at-3", "at-6"]


async def test_a_stream_without_a_token_that_was_delivered_in_part_is_cut():
    with ContinuingServer(words("one ", "two "), limit=2, drops={1: Drop()}) as server:
        async with asking(server) as api:
            with pytest.raises(StreamCutError):
                await streamed(api)
    assert server.tokens == [None]


async def test_an_answer_that_goes_on_in_other_words_after_a_drop_is_cut():
    generator = ScriptedGenerator(
        [token(chunk({"text": "a"}), "t"), chunk({"text": "bc"}), StreamCutError("cut")],
        [chunk({"text": "xy"}, finish="STOP")],
    )
    retrying = RetryingGenerator(generator, RetryPolicy(broken_attempts=2), sleep=_at_once)
    with pytest.raises(StreamCutError, match="same words"):
        await streamed(retrying)


async def test_a_prompt_that_is_blocked_between_requests_is_not_sent_again():
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}}
    generator = ScriptedGenerator(
        [token(chunk({"text": "a"}, finish="CONTINUATION"), "t")], [blocked]
    )
    chunks = await streamed(RetryingGenerator(generator, RetryPolicy(), sleep=_at_once))
    assert chunks[-1].prompt_feedback is not None
    assert len(generator.requests) == 2


async def test_a_failed_request_for_the_rest_is_repeated_alone():
    from alhena.errors import ServerFaultError

    generator = ScriptedGenerator(
        [token(chunk({"text": "a"}, finish="CONTINUATION"), "t")],
        [ServerFaultError("down", status=503)],
        [chunk({"text": "b"}, finish="STOP")],
    )
    retrying = RetryingGenerator(generator, RetryPolicy(), sleep=_at_once)
    response = await retrying.generate(REQUEST)
    assert [part.text for part in response.parts] == ["ab"]
    assert [each.continuation_token for each in generator.requests] == [None, "t", "t"]


@pytest.mark.requirement("TODAY-03")
async def test_an_answer_that_never_ends_is_given_up():
    class Endless(ScriptedGenerator):
        async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
            self.requests.append(request)
            made = token(chunk({"text": "x"}, finish="CONTINUATION"), f"t{len(self.requests)}")
            return msgspec.convert(made, GenerateContentResponse)

    endless = Endless()
    with pytest.raises(UnusableAnswerError, match="did not end"):
        await whole_answer(endless.generate, REQUEST)
    assert len(endless.requests) == MAX_REQUESTS


async def _at_once(_seconds: float) -> None:
    pass


def token(made: dict[str, Any], name: str) -> dict[str, Any]:
    made["candidates"][0]["continuationToken"] = name
    return made


def joined(*chunks: dict[str, Any]) -> list[GenerateContentResponse]:
    answer = ContinuedAnswer()
    return [answer.feed(msgspec.convert(each, GenerateContentResponse)) for each in chunks]


def calls(chunks: list[GenerateContentResponse]) -> list[tuple[str, Any]]:
    found = (part.function_call for chunk in chunks for part in chunk.parts)
    return [(each.name, each.args) for each in found if each is not None]


@pytest.mark.requirement("TODAY-03")
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_call_in_pieces_has_the_signature_of_any_of_them(place: int):
    made = [piece("$.a", "x", name="f"), piece("$.a", "y"), {"functionCall": {}}]
    made[place]["thoughtSignature"] = "c2ln"
    (part,) = (part for each in joined(*map(chunk, made)) for part in each.parts)
    assert part.thought_signature == "c2ln"
    assert part.function_call is not None
    assert part.function_call.args == {"a": "xy"}


@pytest.mark.requirement("TODAY-03")
@pytest.mark.parametrize(
    ("pieces", "args"),
    [
        (
            [piece("$.path", "a", name="f"), piece("$.path", ".py", goes_on=False)],
            {"path": "a.py"},
        ),
        (
            [
                {"functionCall": {"name": "f", "willContinue": True}},
                piece("$.path", "a"),
                {"functionCall": {}},
            ],
            {"path": "a"},
        ),
        (
            [
                piece("$.files[0].text", "x", name="f", id="1"),
                piece("$.files[0].text", "y", id="1"),
                piece("$['a b']", "z", id="1", goes_on=False),
            ],
            {"files": [{"text": "xy"}], "a b": "z"},
        ),
        (
            [
                {
                    "functionCall": {
                        "name": "f",
                        "willContinue": True,
                        "partialArgs": [
                            {"jsonPath": "$.n", "numberValue": 5},
                            {"jsonPath": "$.b", "boolValue": False},
                            {"jsonPath": "$.z", "nullValue": "NULL_VALUE"},
                        ],
                    }
                },
                {"functionCall": {"args": {"more": 1}}},
            ],
            {"n": 5, "b": False, "z": None, "more": 1},
        ),
        ([piece("$.only", "one", name="f", goes_on=False)], {"only": "one"}),
    ],
)
def test_the_pieces_of_a_call_become_the_call(pieces: list[Any], args: dict[str, Any]):
    chunks = joined(*(chunk(each) for each in pieces), chunk(finish="STOP"))
    assert calls(chunks) == [("f", args)]
    assert calls(joined(chunk(*pieces, finish="STOP"))) == [("f", args)]
    assert reasons(chunks) == ["STOP"]


def test_calls_in_pieces_side_by_side_stay_apart():
    chunks = joined(
        chunk(piece("$.a", "1", name="f", id="x"), piece("$.a", "2", name="g", id="y")),
        chunk(call("h", {"k": 1}, id="z")),
        chunk(piece("$.a", "3", id="x", goes_on=False), piece("$.a", "4", id="y", goes_on=False)),
        chunk(finish="STOP"),
    )
    assert calls(chunks) == [("h", {"k": 1}), ("f", {"a": "13"}), ("g", {"a": "24"})]


def test_the_signature_of_a_call_in_pieces_is_the_calls():
    first = piece("$.a", "1", name="f") | {"thoughtSignature": "c2ln"}
    chunks = joined(chunk(first), chunk(piece("$.a", "2", goes_on=False), finish="STOP"))
    (part,) = (part for each in chunks for part in each.parts)
    assert part.thought_signature == "c2ln"


@pytest.mark.parametrize(
    "path", ["$.a[7]", "a", "$", "$.a.b", "$.a[", "$..a", "$[x]", "$.a[99999]"]
)
def test_pieces_that_make_no_whole_are_a_malformed_call(path: str):
    pieces = [piece("$.a", "1", name="f"), piece(path, "2", goes_on=False)]
    chunks = joined(*(chunk(each) for each in pieces), chunk(finish="STOP"))
    assert reasons(chunks) == ["MALFORMED_FUNCTION_CALL"]


def test_a_call_without_its_last_piece_is_malformed_or_cut_and_never_a_call():
    chunks = joined(chunk(piece("$.a", "1", name="f")), chunk(finish="STOP"))
    assert (calls(chunks), reasons(chunks)) == ([], ["MALFORMED_FUNCTION_CALL"])
    chunks = joined(chunk(piece("$.a", "1", name="f")), chunk(finish="MAX_TOKENS"))
    assert (calls(chunks), reasons(chunks)) == ([], ["MAX_TOKENS"])
    assert chunks[-1].candidates[0].finish_message == f"{CUT_CALL}f"


def test_a_token_beside_a_last_reason_is_not_followed():
    answer = ContinuedAnswer()
    made = token(chunk({"text": "a"}, finish="MAX_TOKENS"), "t")
    shown = answer.feed(msgspec.convert(made, GenerateContentResponse))
    assert (answer.token, answer.continues, shown.finish_reason) == (None, False, "MAX_TOKENS")
    assert tokens([shown]) == []


texts = st.text("ab \n\U0001f600", min_size=1, max_size=6)
parts = st.one_of(
    st.builds(lambda said: {"text": said}, texts),
    st.builds(lambda said: {"text": said, "thought": True}, texts),
    st.builds(lambda name, value: call(name, {"v": value}), st.sampled_from(["f", "g"]), texts),
)


def split(part: dict[str, Any], places: list[int]) -> list[dict[str, Any]]:
    """The part in pieces, as a service may send it."""
    if "text" in part:
        said = part["text"]
        ends = sorted({0, len(said), *(min(at, len(said)) for at in places)})
        return [part | {"text": said[a:b]} for a, b in pairwise(ends)]
    function = part["functionCall"]
    value = function["args"]["v"]
    ends = sorted({0, len(value), *(min(at, len(value)) for at in places)})
    made = [piece("$.v", value[a:b]) for a, b in pairwise(ends)]
    made[0]["functionCall"] |= {"name": function["name"], "id": function["id"]}
    del made[-1]["functionCall"]["willContinue"]
    return made


@pytest.mark.requirement("TODAY-03")
@given(st.data())
def test_an_answer_split_anywhere_is_the_turn_of_the_unsplit_one(data: st.DataObject):
    whole = data.draw(st.lists(parts, min_size=1, max_size=4))
    for number, part in enumerate(whole):
        if "functionCall" in part:
            part["functionCall"]["id"] = f"c{number}"
    pieces = [
        each for part in whole for each in split(part, data.draw(st.lists(st.integers(1, 5))))
    ]
    answer, turn = ContinuedAnswer(), AnswerCollector("p", CallIds("t"), lambda _event: None)
    request = REQUEST
    for number, each in enumerate(pieces):
        if number and data.draw(st.booleans()):
            ended = token(chunk(finish="CONTINUATION"), f"t{number}")
            turn.feed(answer.feed(msgspec.convert(ended, GenerateContentResponse)))
            assert answer.continues
            request = answer.next_request(REQUEST)
            assert request.continuation_token == f"t{number}"
            turn.begin_request()
        turn.feed(answer.feed(msgspec.convert(chunk(each), GenerateContentResponse)))
    turn.feed(answer.feed(msgspec.convert(chunk(finish="STOP"), GenerateContentResponse)))
    plain = AnswerCollector("p", CallIds("t"), lambda _event: None)
    plain.feed(msgspec.convert(chunk(*whole, finish="STOP"), GenerateContentResponse))
    assert model_content(turn.parts, sign_calls=True) == model_content(plain.parts, sign_calls=True)
    assert (turn.text, turn.calls, turn.finish_reason) == (plain.text, plain.calls, "STOP")
