"""`alhena models list`: the models that are known by name, and what else may be said for them."""

from typing import Any

from alhena.frontends.arguments import parsed_command
from alhena.frontends.streams import write_json, write_stdout
from alhena.models.catalogue import (
    ALIASES,
    ModelInfo,
    Thinking,
    default_model,
    served_models,
    today,
)
from alhena.models.prices import Prices

USAGE = """\
usage: alhena models list [--json]

Lists the known models that are served: token limits, kind of thinking, price in US dollars for a
million tokens (input / cached / output), announced end; and the aliases. Any other name is sent to
the service unchanged.
"""


def run(argv: list[str]) -> int:
    """Carries out `alhena models ARGV`; returns the exit code."""
    wants_json = parsed_command("alhena models", argv, {"list": "--json"}).json
    models, prices = served_models(today()), Prices({})
    if wants_json:
        write_json(
            {
                "default": default_model(),
                "models": [_as_json(model, prices) for model in models],
                "aliases": ALIASES,
            }
        )
        return 0
    width = max(len(model.name) for model in models)
    lines = [
        f"{model.name:{width}}  {_limits(model)}  {_price(model, prices):22} "
        f"{'; '.join(filter(None, (_thinking(model), _end(model))))}"
        for model in models
    ]
    lines += [f"{alias:{width}}  alias of {name}" for alias, name in ALIASES.items()]
    write_stdout("".join(f"{line.rstrip()}\n" for line in lines))
    return 0


def _as_json(model: ModelInfo, prices: Prices) -> dict[str, Any]:
    price = prices.of(model.name)
    return {
        "name": model.name,
        "tier": model.tier,
        "preview": model.preview,
        "end": model.ends or None,
        "inputTokenLimit": model.input_limit,
        "outputTokenLimit": model.output_limit,
        "thinking": model.thinking,
        "thinkingBudget": model.budgets,
        "thinkingLevels": model.levels,
        "price": price,
    }


def _limits(model: ModelInfo) -> str:
    output = "?" if model.output_limit is None else f"{model.output_limit:,}"
    return f"{model.input_limit:>9,} in {output:>6} out"


def _price(model: ModelInfo, prices: Prices) -> str:
    price = prices.of(model.name)
    if price is None:
        return ""
    cached = "-" if price.cached is None else f"{price.cached:g}"
    return f"${price.input:g} / {cached} / {price.output:g}"


def _end(model: ModelInfo) -> str:
    return f"ends {model.ends}" if model.ends else ""


def _thinking(model: ModelInfo) -> str:
    if model.thinking is Thinking.LEVEL:
        return f"thinks {', '.join(model.levels)}"
    if model.budgets is not None:
        return f"thinks {model.budgets[0]:,} to {model.budgets[1]:,} tokens"
    return ""
