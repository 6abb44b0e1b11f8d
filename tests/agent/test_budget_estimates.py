"""Budgets where the service does not say what a request took."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from alhena.agent.limits import CostLimitError, TokenLimitError
from alhena.agent.limits.budget import BudgetedGenerator, Ledger
from alhena.errors import NetworkError
from alhena.models.prices import Prices
from alhena.values import Limits
from alhena.wire.content import USER, EncodedContent, text_content
from alhena.wire.request import GenerateContentConfig, GenerateContentRequest
from alhena.wire.response import GenerateContentResponse
from tests.agent.kit import agent, events_of
from tests.support.scripted import Script, ScriptedGenerator
from tests.support.server import call, chunk

PRO = "gemini-2.5-pro"
REQUEST = GenerateContentRequest(
    model=PRO,
    contents=(EncodedContent(text_content(USER, "x" * 4_000)),),
    config=GenerateContentConfig(system_instruction=text_content(USER, "y" * 2_000)),
)
"""About 1,500 tokens."""


def answer(usage: dict[str, int] | None, finish: str | None = "STOP") -> dict[str, Any]:
    made = chunk({"text": "z" * 400}, finish=finish)
    return made if usage is None else made | {"usageMetadata": usage}


def limit_budget(inner: ScriptedGenerator) -> tuple[BudgetedGenerator, Ledger]:
    ledger = Ledger(Limits(tokens=1_000_000), Prices({}))
    return BudgetedGenerator(inner, ledger), ledger


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {"promptTokenCount": 0, "totalTokenCount": 0},
        {"promptTokenCount": -100_000, "candidatesTokenCount": -9, "totalTokenCount": -100_009},
    ],
)
@pytest.mark.parametrize("streams", [True, False])
async def test_what_is_not_counted_is_charged_as_estimated(
    usage: dict[str, int] | None, streams: bool
):
    generator, ledger = limit_budget(ScriptedGenerator([answer(usage)]))
    if streams:
        async for _ in generator.stream(REQUEST):
            pass
    else:
        await generator.generate(REQUEST)
    assert ledger.tokens == 1_600
    assert ledger.cost == pytest.approx((1_500 * 1.25 + 100 * 10) / 1e6)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [(None, 1_600), ({"promptTokenCount": 7}, 107), ({"totalTokenCount": 0}, 1_600)],
)
async def test_an_answer_that_breaks_off_is_charged_as_far_as_it_came(
    usage: dict[str, int] | None, tokens: int
):
    broken: Script = [answer(usage, None), NetworkError("gone")]
    generator, ledger = limit_budget(ScriptedGenerator(broken))
    with pytest.raises(NetworkError):
        async for _ in generator.stream(REQUEST):
            pass
    assert ledger.tokens == tokens


class Silent(ScriptedGenerator):
    """Takes requests, and never answers."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError("it was cancelled")

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncIterator[GenerateContentResponse]:
        yield await self.generate(request)


@pytest.mark.parametrize("streams", [True, False])
async def test_a_request_that_is_cancelled_before_its_answer_is_charged(streams: bool):
    inner = Silent()
    generator, ledger = limit_budget(inner)
    asking = generator.stream(REQUEST).__anext__() if streams else generator.generate(REQUEST)
    waiting = asyncio.ensure_future(asking)
    await inner.asked.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ledger.tokens == 1_500


async def test_a_request_that_is_refused_costs_nothing():
    generator, ledger = limit_budget(ScriptedGenerator([NetworkError("no")], [NetworkError("no")]))
    with pytest.raises(NetworkError):
        await anext(generator.stream(REQUEST))
    with pytest.raises(NetworkError):
        await generator.generate(REQUEST)
    assert (ledger.tokens, ledger.cost) == (0, 0.0)


async def test_embeddings_are_charged_by_what_was_sent():
    generator, ledger = limit_budget(ScriptedGenerator())
    await generator.embed(REQUEST.contents, model=PRO)
    assert ledger.tokens == 1_000


@pytest.mark.parametrize(
    ("limit", "error"),
    [({"max_tokens": 9_000}, TokenLimitError), ({"max_cost": 0.02}, CostLimitError)],
)
async def test_limits_hold_where_nothing_is_counted_and_no_cost_is_told(
    project: Path, limit: dict[str, Any], error: type[Exception]
):
    look = [
        [chunk(call("list_directory", {"path": ".", "n": n}), finish="STOP")] for n in range(40)
    ]
    generator = ScriptedGenerator(*look)
    async with agent(generator, model=PRO, **limit) as running:
        _, problem = await events_of(running, "go")
        spending = running.toolset.spending
        assert spending.cost() is None
    assert isinstance(problem, error)
    assert 1 <= len(generator.requests) < 20
