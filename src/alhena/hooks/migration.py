"""Converts the hooks of Claude Code's settings to ours."""

import re
from collections.abc import Iterator
from typing import Any, cast

from alhena.hooks.model import HookEvent
from alhena.values import Value, meant_names

FILES = (".claude/settings.json", ".claude/settings.local.json")
"""The settings files of a project that are read, the weaker first."""
_EVENTS = {
    "PreToolUse": HookEvent.BEFORE_TOOL,
    "PostToolUse": HookEvent.AFTER_TOOL,
    "UserPromptSubmit": HookEvent.BEFORE_AGENT,
    "Stop": HookEvent.AFTER_AGENT,
    "SubagentStop": HookEvent.AFTER_AGENT,
    "SubAgentStop": HookEvent.AFTER_AGENT,
    "SessionStart": HookEvent.SESSION_START,
    "SessionEnd": HookEvent.SESSION_END,
    "PreCompact": HookEvent.PRE_COMPRESS,
    "Notification": HookEvent.NOTIFICATION,
}
_OF_TOOLS = frozenset({HookEvent.BEFORE_TOOL, HookEvent.AFTER_TOOL})
_OWN = {
    "Edit": ("replace",),
    "Glob": ("glob",),
    "Grep": ("search_file_content",),
    "LS": ("list_directory",),
    "WebFetch": ("web_fetch",),
    "WebSearch": ("google_web_search",),
    "ExitPlanMode": ("exit_plan_mode",),
}
_NAME = re.compile(r"[A-Za-z_]\w*")


class MigratedHooks(Value, frozen=True):
    """The groups of each event, in our form, and what was left out, with the reasons."""

    hooks: dict[str, list[dict[str, Any]]]
    left_out: tuple[str, ...] = ()


def migrate_hooks(document: Any) -> MigratedHooks:
    """The hooks of a settings file of Claude Code."""
    found: dict[str, list[dict[str, Any]]] = {}
    left_out: list[str] = []
    hooks = _object(_object(document).get("hooks"))
    for name, groups in hooks.items():
        event = _EVENTS.get(name)
        if event is None:
            left_out.append(f"{name}: there is no such event here")
            continue
        for group in map(_object, _array(groups)):
            made = list(_hooks(name, group, left_out))
            if made:
                entry: dict[str, Any] = {"hooks": made}
                matcher = group.get("matcher")
                if isinstance(matcher, str) and matcher not in ("", "*"):
                    tools = event in _OF_TOOLS
                    entry = {"matcher": _matcher(matcher) if tools else matcher, **entry}
                found.setdefault(event, []).append(entry)
    return MigratedHooks(found, tuple(left_out))


def _hooks(event: str, group: dict[str, Any], left_out: list[str]) -> Iterator[dict[str, Any]]:
    for hook in map(_object, _array(group.get("hooks"))):
        command, kind = hook.get("command"), hook.get("type", "command")
        if kind != "command" or not isinstance(command, str) or not command.strip():
            left_out.append(f"{event}: a hook of the type {kind!r}, which is no command")
            continue
        made: dict[str, Any] = {"type": "command"}
        made["command"] = command.replace("CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR")
        timeout = hook.get("timeout")
        if isinstance(timeout, int | float) and not isinstance(timeout, bool):
            made["timeout"] = round(timeout * 1000)  # theirs are seconds
        yield made


def _matcher(matcher: str) -> str:
    """A matcher with our names of tools; patterns stay."""

    def ours(found: re.Match[str]) -> str:
        name = found[0]
        if name.startswith("mcp__"):
            return name.removeprefix("mcp__")
        return "|".join(_OWN.get(name) or meant_names(name) or (name,))

    return _NAME.sub(ours, matcher)


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _array(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
