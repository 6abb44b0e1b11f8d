"""`alhena models list`: the models that are known by name or served, with limits and prices."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from alhena.config.effective_settings import Place
from alhena.display_text import one_line
from alhena.errors import AlhenaError
from alhena.frontends.shared.arguments import parse_command
from alhena.frontends.shared.current_settings import place_here
from alhena.frontends.shared.streams import write_json, write_stderr, write_stdout
from alhena.models.catalogue import (
    ALIASES,
    OLLAMA,
    OPENAI,
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
    from alhena.models.providers.openai_compatible import OpenAiCompatible
    from alhena.models.providers.select import ChosenGenerator

USAGE = """\
usage: alhena models list [-m MODEL] [--json | -o text|json]

Lists the known models that are served: token limits, kind of thinking, price in US dollars for a
million tokens (input / cached / output), announced end; the models that only the list of your
service has; and the aliases. Without a key or network, these are the known models. Any other name
is sent to the service unchanged. The service is that of MODEL, else of the model of a session here;
the servers of OPENAI_BASE_URL and OLLAMA_HOST are asked too.
"""
MOST_WINDOWS = 20
"""Models of a private server whose windows are asked for."""
_SERVERS = {"OPENAI_BASE_URL": OPENAI, "OLLAMA_HOST": OLLAMA}
"""Variables that name private servers, with the prefixes of their models."""
_FROM_SERVICE = "from the service's list"


def run(argv: list[str]) -> int:
    """Carries out `alhena models ARGV`; returns the exit code."""
    words = "--json -o|--output-format=text|json -m|--model="
    options = parse_command("alhena models", argv, {"list": words})
    place = place_here()
    known, prices = served_models(today()), Prices(place.settings.model.prices)
    served, problem = _list_all_served(place, options.model)
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


def _list_all_served(place: Place, model: str | None) -> tuple[tuple[ServedModel, ...], str]:
    """The models of the service of `model`, or of a session here, and of the servers that variables
    name; and the reasons why there are none of some."""
    from alhena.agent.chat import SessionModels

    names = [SessionModels(model, place.environ, place.settings).name]
    for variable, prefix in _SERVERS.items():
        if place.environ.get(variable, "").strip() and not names[0].startswith(prefix):
            names.append(f"{prefix}any")
    found: list[ServedModel] = []
    problems: list[str] = []
    for name in names:
        served, problem = _list_served(place, name)
        found += served
        problems += (problem,) if problem else ()
    return tuple(found), " ".join(problems)


def _list_served(place: Place, model: str) -> tuple[tuple[ServedModel, ...], str]:
    """The models of the service of `model`, and the reason why there are none."""
    from functools import partial

    from alhena.models.providers.select import ModelChoice, choose_generator, login_files

    environ = place.environ
    try:
        chosen = choose_generator(
            ModelChoice(
                model=model,
                environ=environ,
                settings=place.settings,
                private_files=partial(login_files, environ),
            )
        )
    except AlhenaError as error:
        return (), error.message
    try:
        found = asyncio.run(_ask(chosen, environ))
    except AlhenaError as error:
        return (), error.message
    return found, "" if found else "the service has not listed its models."


async def _ask(chosen: "ChosenGenerator", environ: Mapping[str, str]) -> tuple[ServedModel, ...]:
    from itertools import zip_longest

    from alhena.agent.toolset.model_access import SessionModelList

    listing = SessionModelList(chosen.generator, environ, lambda _event: None)
    try:
        found = await listing.models()
        if found or chosen.speaks_gemini:
            return found
        prefix = chosen.model.partition(":")[0] + ":"
        if not chosen.private:
            return tuple(ServedModel(name=f"{prefix}{name}") for name in await listing.names())
        server = cast("OpenAiCompatible", chosen.generator)
        names = [f"{prefix}{name}" for name in await server.models()]
        windows = [await server.window(name) for name in names[:MOST_WINDOWS]]
        return tuple(
            ServedModel(name=name, input_limit=window)
            for name, window in zip_longest(names, windows)
        )
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
