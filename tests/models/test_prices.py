"""Costs of requests: the table, the user's own prices, and unknown models."""

import datetime as dt

import pytest

from alhena.config.settings import LONG_PROMPT, PriceSettings, settings_of
from alhena.errors import ConfigError
from alhena.models.catalogue import ALIASES, ARGON, FLASH, FLASH_LITE, PRO
from alhena.models.prices import Prices, Tokens, price_table, rates
from tests.support.each import for_each

KNOWN = Prices({})


def test_the_table_says_where_its_prices_are_from_and_of_which_day() -> None:
    table = price_table()
    assert table.source.startswith("https://ai.google.dev/")
    assert dt.date.fromisoformat(table.date) > dt.date(2026, 1, 1)
    Prices(table.models)  # all of them are amounts of money


@for_each("name", [PRO, FLASH, FLASH_LITE, ARGON, *ALIASES])
def test_the_models_that_are_chosen_by_default_have_a_price(name: str) -> None:
    assert KNOWN.of(name) is not None


def test_a_request_costs_what_its_parts_do() -> None:
    tokens = Tokens(prompt=100_000, cached=40_000, output=10_000)
    expected = (60_000 * 2 + 40_000 * 0.2 + 10_000 * 12) / 1e6
    assert KNOWN.cost(PRO, tokens) == pytest.approx(expected)


def test_a_long_prompt_makes_all_of_a_request_cost_more() -> None:
    at, above = (Tokens(prompt=LONG_PROMPT + more, output=1_000) for more in (0, 1))
    assert KNOWN.cost(PRO, at) == pytest.approx((LONG_PROMPT * 2 + 12_000) / 1e6)
    assert KNOWN.cost(PRO, above) == pytest.approx(((LONG_PROMPT + 1) * 4 + 18_000) / 1e6)
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


@pytest.mark.requirement("TODAY-01")
def test_an_announced_price_holds_from_its_day_on() -> None:
    argon = price_table().models[ARGON]
    assert (argon.on("2026-11-30").input, argon.on("2026-12-01").input) == (2, 4)
