"""Restricts a workspace's own settings.json. It comes with the repository: it may make settings
stricter and set preferences, but never grant permissions or redirect secrets.

Each key of `settings.Settings` is in one of three groups: FREE, the rules below, and those only the
user and the administrator may set.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any, cast

from alhena.config.documents import names_in, union, value_at
from alhena.config.environment import CREDENTIALS
from alhena.config.mcp_servers import COMMAND_SERVER, EVERY, OF_GOOGLE, OF_WORKSPACE
from alhena.config.reference_keys import known_keys

FREE = frozenset(
    {
        *(
            "general.maxAttempts",
            "general.retryFetchErrors",
            "general.stdinTimeout",
            "mcp.startupWait",
            "mcp.toolSearch",
            "output.format",
        ),
        *("context.importFormat", "context.maxImportDepth", "context.discoveryMaxDirs"),
        *("context.loadMemoryFromIncludeDirectories", "context.includeDirectoryTree"),
        *("tools.truncateToolOutputThreshold", "tools.shell.inactivityTimeout"),
        *("tools.shell.enableInteractiveShell", "tools.shell.pty"),
        *("model.compressionThreshold", "model.contextWindow", "model.promptSize"),
        *("tools.shell.pager", "tools.shell.showColor", "tools.useRipgrep"),
        *("tools.truncateToolOutputLines", "model.summarizeToolOutput"),
        *("context.fileFiltering.enableRecursiveFileSearch", "advanced.dnsResolutionOrder"),
        *("context.fileFiltering.enableFuzzySearch", "experimental.jitContext"),
        "agents.overrides",
        "contextManagement.tools.outputMasking.protectLatestTurn",
        "contextManagement.tools.outputMasking.minPrunableThresholdTokens",
        "contextManagement.tools.outputMasking.protectionThresholdTokens",
    }
)
"""Keys that a workspace sets like the user."""
ELSEWHERE = frozenset({"hooks", "hooksConfig"})
"""Read separately (`hooks/gather.py`), because each hook has to be accepted."""
RESTRICTING = frozenset(
    {
        *("tools.core", "tools.exclude", "tools.confirmationRequired", "tools.sandbox"),
        *("tools.sandboxNetworkAccess", "mcp.allowed", "mcp.excluded"),
        *("skills.enabled", "skills.disabled", "agents.maxConcurrent", "agents.maxPerSession"),
        *("general.defaultApprovalMode", "model.maxSessionTurns", "model.disableLoopDetection"),
        *("model.budget.maxTokens", "model.budget.maxSeconds", "model.budget.maxCost"),
        *("security.disableAlwaysAllow", "security.disableYoloMode"),
        "security.environmentVariableRedaction.enabled",
        "security.environmentVariableRedaction.blocked",
        *("privacy.usageStatisticsEnabled", "advanced.excludedEnvVars", "advanced.ignoreLocalEnv"),
    }
)
"""Keys whose rules let a workspace restrict and do nothing else. They hold in an untrusted one."""
REFUSED = object()
"""Returned by a rule for a value that would permit more."""

Rule = Callable[[Any, Any], Any]
"""Combines the value of the other layers (or the default) with the workspace's value: returns
REFUSED, or a value at least as strict as the first."""


Refusal = tuple[tuple[str, ...], str]
"""A key of a workspace that is ignored or restricted, with the reason."""

LAXER = "it would allow more than the settings of the user do"
OWN = "it is for the user and the administrator to say"
_TAKEN = "the user's settings have a server of this name"
_ALIKE = "rules for tools of a server in the user's settings could mean it"
_TRUSTED = "a workspace cannot trust its own servers"
_CREDENTIAL = "it would be given what signs in to a model"
_IDENTITY = "it would be shown who you are at Google, which your own settings alone can ask for"


def restrict_document(
    document: dict[str, Any], holding: dict[str, Any], root: str | None = None
) -> tuple[dict[str, Any], tuple[Refusal, ...]]:
    """The allowed part of a workspace's document, and the refused keys. `holding` has the values of
    all other layers, with the defaults; `root` is the workspace's directory. Unknown keys are
    kept."""
    found: list[Refusal] = []
    log = _own_log(document, holding, root)
    if log:
        telemetry = cast("dict[str, Any]", document["telemetry"])
        rest = {key: value for key, value in telemetry.items() if key not in log}
        document = {**document, "telemetry": rest}
    kept = _restrict_keys(document, holding, (), found)
    if log:
        kept["telemetry"] = {**kept["telemetry"], **log}
    _without_odd_command(kept, holding, found)
    return kept, tuple(found)


def restricting(document: dict[str, Any]) -> dict[str, Any]:
    """The part of a document whose keys can only restrict."""
    kept: dict[str, Any] = {}
    for key in sorted(RESTRICTING):
        *above, last = key.split(".")
        found: Any = document
        for name in above:
            found = cast("dict[str, Any]", found).get(name) if isinstance(found, dict) else None
        if isinstance(found, dict) and last in found:
            place = kept
            for name in above:
                place = place.setdefault(name, {})
            place[last] = found[last]
    return kept


def _own_log(document: dict[str, Any], holding: dict[str, Any], root: str | None) -> dict[str, Any]:
    """The telemetry settings of a workspace that records into a file of its own: allowed if the
    other layers neither turn telemetry off nor say where it goes. Links are refused when the file
    is opened."""
    given, own = document.get("telemetry"), holding.get("telemetry")
    if root is None or not isinstance(given, dict) or not isinstance(own, dict):
        return {}
    wanted, others = cast("dict[str, Any]", given), cast("dict[str, Any]", own)
    elsewhere = others["outfile"] or others["otlpEndpoint"] or others["target"] != "local"
    if elsewhere or others["enabled"] is False or not _is_below(wanted.get("outfile"), root):
        return {}
    log: dict[str, Any] = {"outfile": wanted["outfile"]}
    allowed = (("enabled", (True, False)), ("target", ("local",)), ("logPrompts", (False,)))
    log |= {key: wanted[key] for key, values in allowed if wanted.get(key) in values}
    return log


def _is_below(path: Any, root: str) -> bool:
    """True for the path of a file in the directory `root`, outside its .git, read lexically."""
    if not isinstance(path, str) or path.startswith("~") or "\0" in path:
        return False
    full = os.path.normpath(os.path.join(root, path))
    steps = os.path.relpath(full, root).split("/")
    return steps[0] not in ("..", ".") and ".git" not in steps


def _restrict_keys(
    document: dict[str, Any],
    holding: dict[str, Any],
    path: tuple[str, ...],
    found: list[Refusal],
) -> dict[str, Any]:
    keys = known_keys()
    kept: dict[str, Any] = {}
    for name, value in document.items():
        here = (*path, name)
        key = ".".join(here)
        if key in ELSEWHERE:
            continue
        own = holding.get(name)
        if key == "mcpServers":
            kept[name] = _servers(_all_servers(holding), value, found)
        elif key in keys:
            made = _apply_rule(key, own, value)
            if made is not REFUSED:
                kept[name] = made
            elif not _is_nothing(value) or not _is_nothing(own):
                found.append((here, LAXER if key in RULES else OWN))
        elif isinstance(own, dict) and isinstance(value, dict):
            below, above = cast("dict[str, Any]", own), cast("dict[str, Any]", value)
            kept[name] = _restrict_keys(above, below, here, found)
        else:
            kept[name] = value  # unknown key: ignored
    return kept


def _apply_rule(key: str, own: Any, given: Any) -> Any:
    if key in FREE or given == own:
        return given
    return RULES[key](own, given) if key in RULES else REFUSED


def _is_nothing(value: Any) -> bool:
    """True for what is empty or off: asked for where it is so, it changes nothing."""
    return value is False or value in (None, "", [], {})


def _servers(holding: Any, given: Any, found: list[Refusal]) -> dict[str, Any]:
    """Servers with unused names, none of them trusted: the user's rules refer to servers by name.
    The explicit distrust keeps `mcp.allowed` from allowing their calls."""
    kept: dict[str, Any] = {}
    for name, entry in given.items():
        if name in holding and holding[name] == entry:
            continue
        why = _why_no_server(name, entry, holding)
        if why:
            found.append((("mcpServers", name), why))
            continue
        if isinstance(entry, dict):
            members = cast("dict[str, Any]", entry)
            if members.get("trust"):
                found.append((("mcpServers", name, "trust"), _TRUSTED))
            entry = {**members, **OF_WORKSPACE}
        kept[name] = entry
    return kept


def _all_servers(holding: dict[str, Any]) -> dict[str, Any]:
    """All servers of the other layers, by name."""
    command = value_at(holding, "mcp.serverCommand")
    return {**({} if command is None else {COMMAND_SERVER: command}), **holding["mcpServers"]}


def _why_no_server(name: str, entry: Any, holding: Mapping[str, Any]) -> str:
    """The reason why a workspace cannot define a server of this name; "" if it can. `holding` has
    all servers of the other layers."""
    if name.casefold() in {each.casefold() for each in holding}:
        return _TAKEN
    if any(_is_alike(_in_names(name), _in_names(each)) for each in holding):
        return _ALIKE
    if names_in(entry) & CREDENTIALS:
        return _CREDENTIAL
    members = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
    return _IDENTITY if members.get("authProviderType") in OF_GOOGLE else ""


def _without_odd_command(
    kept: dict[str, Any], holding: dict[str, Any], found: list[Refusal]
) -> None:
    """Removes `mcp.serverCommand` if that server is not allowed."""
    section = kept.get("mcp")
    if not isinstance(section, dict) or value_at(holding, "mcp.serverCommand") is not None:
        return
    command = cast("dict[str, Any]", section).get("serverCommand")
    if isinstance(command, str):
        why = _why_no_server(COMMAND_SERVER, command, holding["mcpServers"])
        if why:
            found.append((("mcp", "serverCommand"), why))
            del section["serverCommand"]


def _in_names(server: str) -> str:
    """The form of a server's name within tool names, case-folded."""
    letters = (
        each if each.isascii() and (each.isalnum() or each in "_.-") else "_" for each in server
    )
    return "".join(letters).casefold()


def _is_alike(one: str, other: str) -> bool:
    """True when `mcp_SERVER_TOOL` is ambiguous between the two."""
    return one == other or one.startswith(f"{other}_") or other.startswith(f"{one}_")


def _order_rule(*order: Any) -> Rule:
    """A rule that returns the earlier of two values; other values are refused."""

    def rule(own: Any, given: Any) -> Any:
        laxer = given not in order or own not in order or order.index(given) > order.index(own)
        return REFUSED if laxer else given

    return rule


def _all(own: Any, given: Any) -> Any:
    return union([*own, *given])


def _some(own: Any, given: Any) -> Any:
    """The intersection; the workspace's list if the user has none."""
    if given is None:
        return REFUSED
    if own is None:
        return given
    kept = [entry for entry in given if entry in own or entry.partition("(")[0] in own]
    return kept or REFUSED


def _some_of(own: Any, given: Any) -> Any:
    """Like `_some`, but the user's list must exist: an entry also permits something. An empty list
    is no restriction."""
    if given == []:
        return own
    return REFUSED if own is None else given if EVERY in own else _some(own, given)


def _fewer(own: Any, given: Any) -> Any:
    """The smaller number; negative means no limit."""
    return REFUSED if given < 0 or 0 <= own < given else given


def _less(own: Any, given: Any) -> Any:
    """The smaller amount; null means no limit."""
    return REFUSED if given is None or (own is not None and given > own) else given


def _if_unset(own: Any, given: Any) -> Any:
    return given if own is None and given else REFUSED


def _model(_own: Any, given: Any) -> Any:
    """Accepts a model of the same service; only the user may name another service."""
    return REFUSED if given is None or ":" in given or "/" in given else given


def _memory_names(own: Any, given: Any) -> Any:
    """Adds names to the user's own. They also apply to the user's home, which contains other files,
    so only some are allowed."""
    names = [own] if isinstance(own, str) else list(own or ())
    more = [given] if isinstance(given, str) else list(given)
    if any(PurePosixPath(name).suffix.lower() not in {".md", ".mdc", ".txt"} for name in more):
        return REFUSED
    if any("/" in name or "\\" in name for name in more):
        return REFUSED
    return union([*names, *more])


RULES: dict[str, Rule] = {
    "general.defaultApprovalMode": _order_rule("plan", "default", "auto_edit"),
    "general.checkpointing.enabled": _order_rule(True, False),
    "general.previewFeatures": lambda _own, given: False if given is False else REFUSED,
    "model.name": _model,
    "model.maxSessionTurns": _fewer,
    "model.budget.maxTokens": _less,
    "model.budget.maxSeconds": _less,
    "model.budget.maxCost": _less,
    "model.disableLoopDetection": _order_rule(False, True),
    "model.fallback": _order_rule("never", "ask", "always"),
    "context.fileName": _memory_names,
    "context.fileFiltering.respectGitIgnore": _order_rule(True, False),
    "context.fileFiltering.respectGeminiIgnore": _order_rule(True, False),
    "context.fileFiltering.customIgnoreFilePaths": _all,
    "tools.core": _some,
    "tools.confirmationRequired": _all,
    "tools.exclude": _all,
    "agents.enabled": _order_rule(False, True),
    "agents.maxConcurrent": _fewer,
    "agents.maxPerSession": _fewer,
    "skills.enabled": _order_rule(False, True),
    "skills.disabled": _all,
    "extensions.disabled": _all,
    "experimental.extensionManagement": _order_rule(False, True),
    "tools.sandbox": _order_rule(True, False),
    "tools.sandboxNetworkAccess": lambda _own, given: False if given is False else REFUSED,
    "tools.discoveryCommand": _if_unset,
    "tools.callCommand": _if_unset,
    "mcp.allowed": _some_of,
    "mcp.excluded": _all,
    "mcp.serverCommand": _if_unset,
    "mcp.skipUntyped": _order_rule(True, False),
    "security.environmentVariableRedaction.enabled": _order_rule(True, False),
    "security.environmentVariableRedaction.blocked": _all,
    "security.disableAlwaysAllow": _order_rule(True, False),
    "security.disableYoloMode": _order_rule(True, False),
    "privacy.usageStatisticsEnabled": _order_rule(False, True),
    "advanced.excludedEnvVars": _all,
    "advanced.ignoreLocalEnv": _order_rule(True, False),
}
"""Rules by key for values that a workspace can make stricter."""
