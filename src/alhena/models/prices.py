"""Prices of models: the table of this version and the user's own."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path

import msgspec

from alhena.config.settings import PriceSettings
from alhena.errors import ConfigError
from alhena.models.catalogue import (
    foreign_name,
    is_foreign_model,
    resolved_name,
    today,
    with_usual_prefix,
)

_TABLE = Path(__file__).parent / "prices.json"
_MILLION = 1_000_000


class DatedPrice(PriceSettings, frozen=True, kw_only=True):
    """A price from a day (YYYY-MM-DD) on."""

    since: str = ""


class PriceTable(msgspec.Struct, frozen=True):
    """`prices.json`, which `scripts/prices.py` makes: the source and date of the prices, and the
    prices by pattern of model names, each with those that follow it; none for models of images and
    sound, whose tokens cost differently."""

    source: str
    date: str
    models: dict[str, tuple[DatedPrice, ...]]

    def price(self, pattern: str, day: str) -> PriceSettings | None:
        """The price on a day."""
        return next((each for each in reversed(self.models[pattern]) if each.since <= day), None)


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of tokens. `cached` and `written` (to a cache, `written_hour` of them for an hour)
    are part of `prompt`; thinking is part of `output`. `tier` is the service tier of their
    requests, "" for the usual one."""

    prompt: int = 0
    cached: int = 0
    output: int = 0
    tier: str = ""
    written: int = 0
    written_hour: int = 0


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
                    page="limits",
                )
        self._own = own
        self._found: dict[tuple[str, str, str], PriceSettings | None] = {}

    def of(self, model: str, asked: str = "") -> PriceSettings | None:
        """The price of a model today; None if unknown. `asked`: the name in the request, if the
        answer has another: its price counts if it means the same model."""
        key = model, asked, today()
        if key not in self._found:
            self._found[key] = self._search(*key)
        return self._found[key]

    def _search(self, model: str, asked: str, day: str) -> PriceSettings | None:
        # Servers of other services answer with names without the prefix that a user's price has.
        means_same = is_foreign_model(asked) or is_same(asked, model)
        return (
            self._find_own(model)
            or (self._find_own(asked) if asked and means_same else None)
            or _find_in_table(model, day)
        )

    def _find_own(self, model: str) -> PriceSettings | None:
        for name in (model, with_usual_prefix(model), _without_folders(model)):
            if (found := _longest(self._own, name)) is not None:
                return self._own[found]
        return None

    def cost(
        self, model: str, tokens: Tokens, *, size: int | None = None, asked: str = ""
    ) -> float | None:
        """Cost in US dollars; None if the price is unknown. `size`: the tokens of each prompt, if
        `tokens` cover several requests. `asked`: as in `of`."""
        price = self.of(model, asked)
        if price is None:
            return None
        size = tokens.prompt if size is None else size
        fresh, cached, output = rates(price, long=size > price.long_from)
        written, hour = write_rates(price, fresh)
        amount = max(0, tokens.prompt - tokens.cached - tokens.written) * fresh
        amount += tokens.cached * cached + tokens.output * output
        amount += (tokens.written - tokens.written_hour) * written + tokens.written_hour * hour
        return amount * TIER_FACTORS.get(tokens.tier, 1.0) / _MILLION

    def count_cost(
        self, asked: str, answered: str, tokens: Tokens, *, size: int | None = None
    ) -> float | None:
        """The cost that a limit counts, as `cost`: that of the model that `answered`, if the answer
        names one whose price is known, else that of the model that was `asked`."""
        cost = self.cost(answered, tokens, size=size, asked=asked) if answered else None
        return self.cost(asked, tokens, size=size) if cost is None else cost


def is_same(asked: str, answered: str) -> bool:
    """True if both names mean one model: a version number may follow (gemini-3.8-flash-001)."""
    bare, other = (name.rpartition("/")[2].lower() for name in (asked, answered))
    rest = other.removeprefix(bare).removeprefix("-").replace("-", "")
    return other.startswith(bare) and (not rest or rest.isdigit())


def rates(price: PriceSettings, *, long: bool) -> tuple[float, float, float]:
    """Prices of input, cached input and output; of `long` requests with their surcharge."""
    fresh, cached, output = price.input, price.cached, price.output
    if long:
        fresh = fresh if price.long_input is None else price.long_input
        cached = cached if price.long_cached is None else price.long_cached
        output = output if price.long_output is None else price.long_output
    return fresh, fresh if cached is None else cached, output


def write_rates(price: PriceSettings, fresh: float) -> tuple[float, float]:
    """Prices of input written to a cache, for five minutes and for an hour, where input costs
    `fresh`; a long request raises them as much."""
    raised = fresh / price.input if price.input else 1.0
    short = 1.25 * price.input if price.cache_write is None else price.cache_write
    hour = 2 * price.input if price.cache_write_hour is None else price.cache_write_hour
    return short * raised, hour * raised


@cache
def price_table() -> PriceTable:
    """The table included in this version."""
    return msgspec.json.decode(_TABLE.read_bytes(), type=PriceTable)


def _find_in_table(model: str, day: str) -> PriceSettings | None:
    found = _table_pattern(_without_folders(model))
    return None if found is None else price_table().price(found, day)


def _without_folders(model: str) -> str:
    return foreign_name(resolved_name(model)).rpartition("/")[2]


@lru_cache(maxsize=256)
def _table_pattern(name: str) -> str | None:
    """The pattern of the table for a name. To compare it with all of them takes a good part of a
    millisecond, and each agent of a program asks."""
    return _longest(price_table().models, name)


def _longest(patterns: Iterable[str], name: str) -> str | None:
    """The pattern that fits and says most of the name."""
    fitting = (each for each in patterns if fnmatchcase(name, each))
    return max(fitting, key=lambda each: len(each.translate(_WILD)), default=None)


_WILD = str.maketrans("", "", "*?")
