"""Makes the shipped table of prices from the package genai-prices (a development dependency).

    .venv/bin/python scripts/prices.py

Prints what the table leaves out. The list names a model by a pattern with `*` and `?`; the one with
the most other characters holds (`alhena.models.prices`).
"""

import datetime as dt
import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from genai_prices.data import providers

TABLE = Path(__file__).parent.parent / "src/alhena/models/prices.json"
SERVICES = (
    *("anthropic", "openai", "google", "deepseek", "mistral", "x-ai", "moonshotai", "zai"),
    *("cohere", "minimax", "perplexity", "meta"),
)
"""Those that make models; of a name that several have, the first one's price holds."""
FIELDS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cached": "cache_read_mtok",
    "cacheWrite": "cache_write_mtok",
    "cacheWriteHour": "cache_write_1h_mtok",
}
LONG = {"input": "longInput", "output": "longOutput", "cached": "longCached"}
USUAL_LONG = 200_000
OTHER = re.compile(r"image|tts|live|audio|realtime|transcribe|voice")
"""Models whose tokens are not those of text."""
ROUTED = {"gemini-3.5-flash": "gemini-3.6-flash"}
"""Models that are gone and answered by others, at their prices (https://ai.google.dev)."""
_WILD = ((r"\d{8}", "?" * 8), (r"\d{4}", "?" * 4), (r"\d{2}", "??"), (r"[-@]", "?"), (r"\.", "."))


def patterns(clause: Any) -> Iterator[str | None]:
    """The patterns of a clause; None for what no pattern says."""
    match type(clause).__name__:
        case "ClauseOr":
            for each in clause.or_:
                yield from patterns(each)
        case "ClauseAnd":  # a beginning without some endings, which have entries of their own
            yield from patterns(clause.and_[0])
        case "ClauseEquals":
            yield clause.equals
        case "ClauseStartsWith":
            yield f"{clause.starts_with}*"
        case "ClauseContains":
            yield f"*{clause.contains}*"
        case "ClauseEndsWith":
            yield f"*{clause.ends_with}"
        case "ClauseRegex":
            yield of_regex(clause.regex)
        case _:
            yield None


def of_regex(regex: str) -> str | None:
    """The pattern of a regular expression for a name with a date."""
    text = regex.removeprefix("^")
    for wild, plain in _WILD:
        text = text.replace(wild, plain)
    text = text[:-1] if text.endswith("$") else f"{text.replace(chr(92) + 'd', '?')}*"
    return text if re.fullmatch(r"[\w.:?*/-]+", text) and regex.startswith("^") else None


def entry(prices: Any) -> dict[str, float | int]:
    """One price. Raises ValueError without one of text."""
    made: dict[str, float | int] = {}
    for key, field in FIELDS.items():
        price = getattr(prices, field, None)
        if price is None:
            continue
        tiers = getattr(price, "tiers", None)
        made[key] = float(price.base if tiers else price)
        if tiers and key in LONG:
            made[LONG[key]] = float(tiers[0].price)
            if round(tiers[0].start, -3) != USUAL_LONG:
                made["longFrom"] = tiers[0].start
    if "input" not in made or "output" not in made:
        raise ValueError("it has no price of text")
    return made


def dated(prices: Any) -> list[dict[str, Any]]:
    """The prices of a model with the days from which they hold. Where they depend on the time of
    day, the highest ones. Raises ValueError."""
    if not isinstance(prices, list):
        return [entry(prices)]
    found: dict[str, dict[str, Any]] = {}
    for each in prices:
        since = getattr(each.constraint, "start_date", None)
        day = since.isoformat() if isinstance(since, dt.date) else ""
        made = entry(each.prices)
        if day not in found or made["input"] > found[day]["input"]:
            found[day] = made
    made = [{"since": day, **found[day]} if day else found[day] for day in sorted(found)]
    return [each for at, each in enumerate(made) if not at or bare(each) != bare(made[at - 1])]


def bare(price: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in price.items() if key != "since"}


def main() -> None:
    by_id = {provider.id: provider for provider in providers}
    models: dict[str, list[dict[str, Any]]] = {}
    for service in SERVICES:
        for model in by_id[service].models:
            try:
                prices = [] if OTHER.search(model.id) else dated(model.prices)
            except ValueError as error:
                print(f"{service} {model.id}: {error}", file=sys.stderr)
                continue
            for pattern in (model.id, *patterns(model.match)):
                if pattern is None:
                    print(f"{service} {model.id}: a name no pattern says", file=sys.stderr)
                else:
                    models.setdefault(pattern, prices)
    models |= {name: models[other] for name, other in ROUTED.items()}
    rows = [f"  {json.dumps(name)}: {json.dumps(models[name])}" for name in sorted(models)]
    head = {
        "source": f"genai-prices {version('genai-prices')}",
        "date": f"{dt.datetime.now(dt.UTC):%Y-%m-%d}",
    }
    text = json.dumps(head)[:-1] + ', "models": {\n' + ",\n".join(rows) + "\n}}\n"
    TABLE.write_text(text, encoding="utf-8")
    print(f"{len(models)} names in {TABLE.name}")


if __name__ == "__main__":
    main()
