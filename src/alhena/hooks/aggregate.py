"""What the hooks of one event say together, and what the next of a sequence is told. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from alhena.hooks.model import SILENT, HookEvent, HookVerdict

_T = TypeVar("_T")

_MODES = ("NONE", "ANY", "AUTO")


def aggregate(verdicts: Sequence[HookVerdict]) -> HookVerdict:
    """One stop stops, one block blocks, one ask asks, in this order of weight; an allow takes none
    of them back. Reasons, messages and contexts are joined by newlines. Of values the last counts:
    of `tool_input` and `llm_request` for each key by itself. Of tool configurations, NONE goes
    before ANY before AUTO, and the names of all are allowed together.
    """
    if not verdicts:
        return SILENT
    stops = [each.stop for each in verdicts if each.stop is not None]
    blocks = [each.block for each in verdicts if each.block is not None]
    asks = [each for each in verdicts if each.ask]
    contexts = [each.additional_context for each in verdicts if each.additional_context]
    settled = bool(stops or blocks)
    return HookVerdict(
        stop="\n".join(stops) if stops else None,
        block="\n".join(blocks) if blocks and not stops else None,
        ask=bool(asks) and not settled,
        reason="" if settled else "\n".join(each.reason for each in asks if each.reason),
        system_messages=tuple(item for each in verdicts for item in each.system_messages),
        additional_context="\n".join(contexts) if contexts else None,
        tool_input=_overlaid(each.tool_input for each in verdicts),
        tail_call=_last(each.tail_call for each in verdicts),
        llm_request=_overlaid(each.llm_request for each in verdicts),
        llm_response=_last(each.llm_response for each in verdicts),
        tool_config=_tool_config([each.tool_config for each in verdicts if each.tool_config]),
        clear_context=any(each.clear_context for each in verdicts),
        suppress_output=any(each.suppress_output for each in verdicts),
    )


def chained(event: HookEvent, fields: Mapping[str, Any], said: HookVerdict) -> dict[str, Any]:
    """What the next hook of a sequence is told, after the one before has said this."""
    following = dict(fields)
    if event is HookEvent.BEFORE_TOOL and said.tool_input is not None:
        following["tool_input"] = {**fields.get("tool_input", {}), **said.tool_input}
    elif event is HookEvent.BEFORE_AGENT and said.additional_context is not None:
        following["prompt"] = f"{fields.get('prompt', '')}\n\n{said.additional_context}"
    elif event is HookEvent.BEFORE_MODEL and said.llm_request is not None:
        following["llm_request"] = {**fields.get("llm_request", {}), **said.llm_request}
    return following


def _overlaid(values: Iterable[dict[str, Any] | None]) -> dict[str, Any] | None:
    given = [value for value in values if value is not None]
    return {key: item for value in given for key, item in value.items()} if given else None


def _last(values: Iterable[_T | None]) -> _T | None:
    found: _T | None = None
    for value in values:
        found = found if value is None else value
    return found


def _tool_config(configs: list[dict[str, Any]]) -> dict[str, Any] | None:
    if not configs:
        return None
    modes = {config.get("mode") or "AUTO" for config in configs}
    names = {name for config in configs for name in config.get("allowedFunctionNames") or ()}
    joined: dict[str, Any] = {"mode": next(mode for mode in _MODES if mode in modes)}
    if names and joined["mode"] != "NONE":
        joined["allowedFunctionNames"] = sorted(names)
    return joined
