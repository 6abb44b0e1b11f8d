"""Costs of requests: the table, the user's own prices, and unknown models."""

import datetime as dt

import pytest

import alhena.models.prices as prices_module
from alhena.agent.limits import SIZES, size_class
from alhena.config.settings import PriceSettings, settings_of
from alhena.errors import ConfigError
from alhena.models.catalogue import ALIASES, ARGON, FLASH, FLASH_LITE, PRO
from alhena.models.prices import Prices, Tokens, price_table, rates
from tests.support.each import for_each

KNOWN = Prices({})


def test_the_table_says_where_its_prices_are_from_and_of_which_day() -> None:
    table = price_table()
    assert table.source.startswith("genai-prices ")
    assert dt.date.fromisoformat(table.date) > dt.date(2026, 1, 1)
    for prices in table.models.values():  # all of them are amounts of money
        Prices({f"m{at}": price for at, price in enumerate(prices)})


def test_prompts_of_one_class_cost_alike() -> None:
    every = [price for prices in price_table().models.values() for price in prices]
    limits = {price.long_from for price in every if price.long_input is not None}
    assert limits <= set(SIZES)
    for limit in limits:
        assert size_class(limit) <= limit < size_class(limit + 1)


@pytest.mark.requirement("COST-04")
@pytest.mark.parametrize(
    ("model", "day", "expected"),
    [
        ("anthropic:claude-opus-4-6", "2026-11-30", (5, 0.5, 6.25, 10, 25)),
        ("anthropic:claude-sonnet-5-5-20261001", "2026-11-30", (2, 0.1, 2.5, 4, 10)),
        ("openai:gpt-5.4", "2026-11-30", (2.5, 0.25, None, None, 15)),
        ("openai-responses:gpt-5.2", "2026-11-30", (1.75, 0.175, None, None, 14)),
        ("openai:deepseek-chat", "2026-11-30", (0.27, 0.07, None, None, 1.1)),
        ("gemini-3.8-flash", "2026-12-31", (0.75, 0.075, None, None, 3.75)),
        ("gemini-3.8-flash", "2027-01-01", (1.5, 0.15, None, None, 7.5)),
    ],
)
def test_the_prices_of_all_services_are_known_with_their_days(
    monkeypatch: pytest.MonkeyPatch, model: str, day: str, expected: tuple[float | None, ...]
) -> None:
    monkeypatch.setattr(prices_module, "today", lambda: day)
    price = Prices({}).of(model)
    assert price is not None
    found = (price.input, price.cached, price.cache_write, price.cache_write_hour, price.output)
    assert found == expected


@pytest.mark.requirement("COST-04")
def test_each_kind_of_token_has_its_price() -> None:
    tokens = Tokens(prompt=100, cached=50, written=30, written_hour=10, output=7)
    cost = KNOWN.cost("anthropic:claude-opus-4-6", tokens)
    assert cost == pytest.approx((20 * 5 + 50 * 0.5 + 20 * 6.25 + 10 * 10 + 7 * 25) / 1e6)
    without = Prices({"m": PriceSettings(input=2, output=1)})
    assert without.cost("m", Tokens(prompt=10, written=10)) == pytest.approx(10 * 2.5 / 1e6)


@pytest.mark.requirement("COST-04")
def test_a_model_has_its_own_size_of_long_prompts() -> None:
    below, above = (KNOWN.cost("openai:gpt-5.4", Tokens(prompt=at)) for at in (272_000, 272_001))
    assert below == pytest.approx(272_000 * 2.5 / 1e6)
    assert above == pytest.approx(272_001 * 5 / 1e6)


@for_each("name", [PRO, FLASH, FLASH_LITE, ARGON, *ALIASES])
def test_the_models_that_are_chosen_by_default_have_a_price(name: str) -> None:
    assert KNOWN.of(name) is not None


def test_a_request_costs_what_its_parts_do() -> None:
    tokens = Tokens(prompt=100_000, cached=40_000, output=10_000)
    expected = (60_000 * 2 + 40_000 * 0.2 + 10_000 * 12) / 1e6
    assert KNOWN.cost(PRO, tokens) == pytest.approx(expected)


def test_a_long_prompt_makes_all_of_a_request_cost_more() -> None:
    at, above = (Tokens(prompt=200_000 + more, output=1_000) for more in (0, 1))
    assert KNOWN.cost(PRO, at) == pytest.approx((200_000 * 2 + 12_000) / 1e6)
    assert KNOWN.cost(PRO, above) == pytest.approx(((200_000 + 1) * 4 + 18_000) / 1e6)
    flat = KNOWN.cost(FLASH, above), KNOWN.cost(FLASH, at)
    assert flat[0] == pytest.approx(flat[1], rel=1e-4)


@pytest.mark.parametrize("name", [f"models/{PRO}", "pro", f"publishers/google/models/{PRO}"])
def test_a_model_has_one_price_by_whatever_name(name: str) -> None:
    assert KNOWN.of(name) == KNOWN.of(PRO)


@pytest.mark.parametrize("name", ["gemini-2.5-flash-image", "gemini-2.5-pro-preview-tts", "", "m"])
def test_a_name_that_only_begins_alike_has_no_price(name: str) -> None:
    assert KNOWN.of(name) is None
    assert KNOWN.cost(name, Tokens(prompt=1)) is None


def test_own_prices_come_first_and_the_longest_pattern_holds() -> None:
    settings = settings_of(
        {
            "model": {
                "prices": {
                    "openai:*": {"input": 1, "output": 2},
                    "openai:gpt-*": {"input": 3, "output": 4, "cached": 0, "longInput": 6},
                    "gemini-3.1-*": {"input": 9, "output": 9},
                }
            }
        },
        "test",
    )
    prices = Prices(settings.model.prices)
    assert prices.of("openai:local") == PriceSettings(input=1, output=2)
    own = prices.of("openai:gpt-5")
    assert own is not None
    assert rates(own, long=False) == (3, 0, 4)
    assert rates(own, long=True) == (6, 0, 4)
    assert prices.cost(PRO, Tokens(prompt=1_000_000, output=0)) == 9
    assert prices.of(FLASH) == KNOWN.of(FLASH)


def test_without_a_price_of_its_own_what_was_cached_costs_like_the_rest() -> None:
    assert rates(PriceSettings(input=2, output=1, long_input=3), long=False) == (2, 2, 1)
    assert rates(PriceSettings(input=2, output=1, long_input=3), long=True) == (3, 3, 1)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_what_is_no_amount_of_money_is_refused(bad: float) -> None:
    with pytest.raises(ConfigError, match="price of m"):
        Prices({"m": PriceSettings(input=1, output=bad)})


def test_a_process_that_runs_past_midnight_counts_the_new_prices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prices, tokens = Prices({}), Tokens(prompt=1_000_000)
    found: list[float | None] = []
    for day in ("2026-11-30", "2026-12-01"):
        monkeypatch.setattr(prices_module, "today", lambda day=day: day)
        found.append(prices.cost(ARGON, tokens, size=1000))
    assert found == [2, 4]


@pytest.mark.requirement("TODAY-01")
def test_an_announced_price_holds_from_its_day_on() -> None:
    table = price_table()
    days = ("2026-11-30", "2026-12-01")
    found = [table.price(ARGON, day) for day in days]
    assert [each.input for each in found if each] == [2, 4]
