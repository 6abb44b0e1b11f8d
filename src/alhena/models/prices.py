"""Prices of models: the table of this version and the user's own."""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import msgspec

from alhena.config.settings import LONG_PROMPT, PriceSettings
from alhena.errors import ConfigError
from alhena.models.catalogue import resolved_name, today, with_usual_prefix

_TABLE = Path(__file__).parent / "prices.toml"
_MILLION = 1_000_000


class DatedPrice(PriceSettings, frozen=True, kw_only=True):
    """A price until a day (YYYY-MM-DD), and the one after it, if they are announced."""

    until: str = ""
    then: PriceSettings | None = None

    def on(self, day: str) -> PriceSettings:
        """The price on a day."""
        return self.then if self.then is not None and day > self.until else self


class PriceTable(msgspec.Struct, frozen=True):
    """`prices.toml`: the source and date of the prices, and the prices by model name."""

    source: str
    date: str
    models: dict[str, DatedPrice]


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of tokens. `cached` are part of `prompt`; thinking is part of `output`. `tier` is the
    service tier of their requests, "" for the usual one."""

    prompt: int = 0
    cached: int = 0
    output: int = 0
    tier: str = ""


TIER_FACTORS = {"flex": 0.5, "priority": 2.0}
"""Prices of service tiers as factors of the usual ones. Priority is the documented maximum."""


class Prices:
    """`own` are the user's prices, which override the table. Raises ConfigError for an invalid
    one."""

    def __init__(self, own: Mapping[str, PriceSettings]) -> None:
        for name, price in own.items():
            given = (getattr(price, field) for field in PriceSettings.__struct_fields__)
            if any(number is not None and not 0 <= number < float("inf") for number in given):
                raise ConfigError(
                    f"the price of {name} in model.prices is no amount of money.",
                    remedy="Give US dollars for a million tokens, 0 or more.",
                )
        self._own = own
        self._found: dict[str, PriceSettings | None] = {}

    def of(self, model: str) -> PriceSettings | None:
        """The price of a model; None if unknown."""
        if model not in self._found:
            self._found[model] = self._search(model)
        return self._found[model]

    def _search(self, model: str) -> PriceSettings | None:
        bare = resolved_name(model).rpartition("/")[2]
        for name in (model, with_usual_prefix(model), bare):
            if (found := _longest(self._own, name)) is not None:
                return self._own[found]
        table = price_table().models
        found = _longest(table, bare)
        return None if found is None else table[found].on(today())

    def cost(self, model: str, tokens: Tokens, *, long: bool | None = None) -> float | None:
        """Cost in US dollars; None if the price is unknown. `long`: the prompt had more than
        LONG_PROMPT tokens, if `tokens` cover several requests."""
        price = self.of(model)
        if price is None:
            return None
        fresh, cached, output = rates(price, tokens.prompt > LONG_PROMPT if long is None else long)
        amount = (tokens.prompt - tokens.cached) * fresh + tokens.cached * cached
        amount += tokens.output * output
        return amount * TIER_FACTORS.get(tokens.tier, 1.0) / _MILLION


def rates(price: PriceSettings, long: bool) -> tuple[float, float, float]:
    """Prices of input, cached input and output; of `long` requests with their surcharge."""
    fresh, cached, output = price.input, price.cached, price.output
    if long:
        fresh = fresh if price.long_input is None else price.long_input
        cached = cached if price.long_cached is None else price.long_cached
        output = output if price.long_output is None else price.long_output
    return fresh, fresh if cached is None else cached, output


@cache
def price_table() -> PriceTable:
    """The table included in this version."""
    return msgspec.toml.decode(_TABLE.read_bytes(), type=PriceTable)


def _longest(patterns: Iterable[str], name: str) -> str | None:
    """The longest of the patterns that fit."""
    return max((each for each in patterns if _fits(each, name)), key=len, default=None)


def _fits(pattern: str, name: str) -> bool:
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1])
    return pattern == name
