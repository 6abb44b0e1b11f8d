"""`alhena models list`: the models that are known by name, and what else may be said for them."""

from typing import Any

from alhena.frontends.arguments import parsed_command
from alhena.frontends.streams import write_json, write_stdout
from alhena.models.catalogue import ALIASES, MODELS, SUCCESSORS, ModelInfo, Thinking, default_model

USAGE = """\
usage: alhena models list [--json]

Lists the known models with their token limits, their kind of thinking, and their aliases. Any other
name is sent to the service unchanged.
"""


def run(argv: list[str]) -> int:
    """Carries out `alhena models ARGV`; returns the exit code."""
    if parsed_command("alhena models", argv, {"list": "--json"}).json:
        write_json(
            {
                "default": default_model(),
                "models": [_as_json(model) for model in MODELS],
                "aliases": ALIASES | SUCCESSORS,
            }
        )
        return 0
    width = max(len(model.name) for model in MODELS)
    lines = [f"{model.name:{width}}  {_limits(model)}  {_thinking(model)}" for model in MODELS]
    lines += [f"{alias:{width}}  alias of {name}" for alias, name in (ALIASES | SUCCESSORS).items()]
    write_stdout("".join(f"{line.rstrip()}\n" for line in lines))
    return 0


def _as_json(model: ModelInfo) -> dict[str, Any]:
    return {
        "name": model.name,
        "tier": model.tier,
        "preview": model.preview,
        "inputTokenLimit": model.input_limit,
        "outputTokenLimit": model.output_limit,
        "thinking": model.thinking,
        "thinkingBudget": model.budgets,
        "thinkingLevels": model.levels,
    }


def _limits(model: ModelInfo) -> str:
    output = "?" if model.output_limit is None else f"{model.output_limit:,}"
    return f"{model.input_limit:>9,} in {output:>6} out"


def _thinking(model: ModelInfo) -> str:
    if model.thinking is Thinking.LEVEL:
        return f"thinks {', '.join(model.levels)}"
    if model.budgets is not None:
        return f"thinks {model.budgets[0]:,} to {model.budgets[1]:,} tokens"
    return ""
