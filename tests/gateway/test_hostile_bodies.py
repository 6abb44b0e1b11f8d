"""Bodies that nobody would send on purpose: a typed error each time, or a request that conforms."""

import copy
import gzip
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.errors import AlhenaError
from alhena.gateway.faults import FaultKind, fault_of
from alhena.gateway.upstream import ModelNames, Upstream
from alhena.wire.conformance.check import check_request
from alhena.wire.dialects import anthropic, gemini, openai
from alhena.wire.encode import encode_request
from tests.gateway.kit import client, gateway
from tests.support.scripted import ScriptedGenerator
from tests.wire.dialects import conversations

strange = st.one_of(
    conversations.values,
    st.sampled_from(
        [[], {}, [[]], [{}], -1, 1e308, 2**70, "\ud800", "x" * 70, {"type": "text"}, "data:,"]
    ),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    found = [path]
    if isinstance(value, dict):
        for key, item in value.items():
            found += places(item, (*path, key))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            found += places(item, (*path, at))
    return found


def broken(body: Any, data: st.DataObject) -> Any:
    """The body with some values put in the place of others, left out or said twice."""
    body = copy.deepcopy(body)
    for _ in range(data.draw(st.integers(1, 3))):
        where = data.draw(st.sampled_from(places(body)))
        if not where:
            continue
        holder = body
        for step in where[:-1]:
            holder = holder[step]
        how = data.draw(st.sampled_from(["replace", "drop", "twice"]))
        if how == "replace":
            holder[where[-1]] = data.draw(strange)
        elif how == "drop":
            del holder[where[-1]]
        elif isinstance(holder, list):
            holder.append(copy.deepcopy(holder[where[-1]]))
    return body


def judge(body: Any, read: Any, model: str, *, own: bool) -> None:
    upstream = Upstream(ScriptedGenerator(), ModelNames(model))
    fault = None
    try:
        sent = upstream.prepare(read(body), own=own).request
    except AlhenaError as error:
        fault = fault_of(error)
    if fault is not None:
        assert fault.kind is FaultKind.INVALID
        assert fault.message
        return
    found = check_request(sent, needs_signatures=False)
    assert [item for item in found if item.level == "error"] == []
    encode_request(sent)


models = st.sampled_from(["gemini-2.5-pro", "gemini-3.1-pro-preview", "gemma-3-27b-it"])


@pytest.mark.requirement("NATIVE-06")
@given(conversations.anthropic_conversations(), models, st.data())
def test_an_anthropic_body_that_is_broken_anywhere(body: Any, model: str, data: st.DataObject):
    judge(broken(body, data), anthropic.read_request, model, own=False)


@given(conversations.openai_conversations(), models, st.data())
def test_an_openai_body_that_is_broken_anywhere(body: Any, model: str, data: st.DataObject):
    judge(broken(body, data), openai.read_request, model, own=False)


@given(conversations.anthropic_conversations(), models, st.data())
def test_a_gemini_body_that_is_broken_anywhere(body: Any, model: str, data: st.DataObject):
    plain = gemini.write_request(anthropic.read_request(body))
    judge(broken(plain, data), lambda value: gemini.read_request(value, model), model, own=True)


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
async def test_a_compressed_body_is_refused_in_words_about_it(coding: str):
    body = gzip.compress(b'{"model": "gpt-5", "input": "hi"}')
    headers = {"content-type": "application/json", "content-encoding": coding}
    async with gateway(ScriptedGenerator()) as running, client(running) as http:
        got = await http.post("/v1/responses", content=body, headers=headers)
    assert got.status_code == 400
    assert f"content-encoding '{coding}'" in got.json()["error"]["message"]
