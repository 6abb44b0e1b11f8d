"""`alhena models list`: the models that are known by name or served, with limits and prices."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from alhena.config.effective_settings import Place
from alhena.display_text import one_line
from alhena.errors import AlhenaError
from alhena.frontends.shared.arguments import parse_command
from alhena.frontends.shared.current_settings import place_here
from alhena.frontends.shared.streams import write_json, write_stderr, write_stdout
from alhena.models.catalogue import (
    ALIASES,
    ModelInfo,
    ServedModel,
    Thinking,
    default_model,
    model_info,
    served_models,
    today,
)
from alhena.models.prices import Prices

if TYPE_CHECKING:
    from alhena.models.providers.select import ChosenGenerator

USAGE = """\
usage: alhena models list [--json | -o text|json]

Lists the known models that are served: token limits, kind of thinking, price in US dollars for a
million tokens (input / cached / output), announced end; the models that only the list of your
service has; and the aliases. Without a key or network, these are the known models. Any other name
is sent to the service unchanged.
"""
_FROM_SERVICE = "from the service's list"


def run(argv: list[str]) -> int:
    """Carries out `alhena models ARGV`; returns the exit code."""
    words = "--json -o|--output-format=text|json"
    options = parse_command("alhena models", argv, {"list": words})
    place = place_here()
    known, prices = served_models(today()), Prices(place.settings.model.prices)
    served, problem = _list_served(place)
    listed = {model.name for model in known}
    more = sorted((each for each in served if each.name not in listed), key=lambda each: each.name)
    if options.json or options.output_format == "json":
        write_json(
            {
                "default": default_model(),
                "models": [
                    *(_as_json(model, prices) | {"source": "catalogue"} for model in known),
                    *(_served_json(each, prices) for each in more),
                ],
                "aliases": ALIASES,
                "problem": problem or None,
            }
        )
        return 0
    rows = [(model, (model.input_limit, model.output_limit), ()) for model in known]
    rows += [
        (model_info(each.name), (each.input_limit, each.output_limit), _names(each))
        for each in more
    ]
    width = max(len(model.name) for model, _, _ in rows)
    lines = [
        f"{one_line(model.name):{width}}  {_limits(*limits)}  {_price(model, prices):22} "
        f"{'; '.join(filter(None, (_thinking(model), _end(model), *names)))}"
        for model, limits, names in rows
    ]
    lines += [f"{alias:{width}}  alias of {name}" for alias, name in ALIASES.items()]
    write_stdout("".join(f"{line.rstrip()}\n" for line in lines))
    if problem:
        write_stderr(f"alhena: only known models: {problem}\n")
    return 0


def _list_served(place: Place) -> tuple[tuple[ServedModel, ...], str]:
    """The models of the service of a session here, and the reason why there are none."""
    from functools import partial

    from alhena.agent.chat import SessionModels
    from alhena.models.providers.select import ModelChoice, choose_generator, login_files

    environ = place.environ
    try:
        chosen = choose_generator(
            ModelChoice(
                model=SessionModels(None, environ, place.settings).name,
                environ=environ,
                settings=place.settings,
                private_files=partial(login_files, environ),
            )
        )
    except AlhenaError as error:
        return (), error.message
    found = asyncio.run(_ask(chosen, environ))
    return found, "" if found else "the service has not listed its models."


async def _ask(chosen: "ChosenGenerator", environ: Mapping[str, str]) -> tuple[ServedModel, ...]:
    from alhena.agent.toolset.model_access import SessionModelList

    listing = SessionModelList(chosen.generator, environ, lambda _event: None)
    try:
        found = await listing.models()
        if found or chosen.speaks_gemini:
            return found
        prefix = chosen.model.partition(":")[0] + ":"
        return tuple(ServedModel(name=f"{prefix}{name}") for name in await listing.names())
    finally:
        await chosen.generator.aclose()


def _names(model: ServedModel) -> tuple[str, ...]:
    return (_FROM_SERVICE, *((one_line(model.title, 80),) if model.title else ()))


def _served_json(model: ServedModel, prices: Prices) -> dict[str, Any]:
    return _as_json(model_info(model.name), prices) | {
        "source": "service",
        "inputTokenLimit": model.input_limit,
        "outputTokenLimit": model.output_limit,
        "displayName": model.title or None,
    }


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


def _limits(most_input: int | None, most_output: int | None) -> str:
    read, written = ("?" if each is None else f"{each:,}" for each in (most_input, most_output))
    return f"{read:>9} in {written:>6} out"


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
