"""Rules from settings.json and the command line; names of tools that look misspelt.

| source | says | place |
|---|---|---|
| `mcp.excluded` | deny | above all of the user's rules |
| `tools.exclude` | deny | above all of the user's rules |
| `tools.confirmationRequired` | ask | above all of the user's rules |
| policy files of the user, `--policy`, saved approvals | | |
| `tools.allowed`, `--allowed-tools` | allow | below them, above the defaults |
| `mcpServers.NAME.trust` | allow | below `tools.allowed` |
| `mcp.allowed`, `mcp.autoAllowInHeadless` | allow | below `mcpServers.NAME.trust` |

`tools.core` and `mcp.allowed` say, besides, what is there at all: filters (`policy/engine.py`), so
that no rule brings back what they leave out.
"""

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from alhena.config.settings import Settings
from alhena.errors import ConfigError
from alhena.near_names import VERY_NEAR, near_name
from alhena.policy.conditions import names_server, names_tool
from alhena.policy.engine import PolicyFilter
from alhena.policy.load import LoadedPolicies, PolicyProblem, ProblemLevel, RuleReport
from alhena.policy.model import (
    SHELL_NAMES,
    ApprovalMode,
    PolicyCall,
    PolicyOutcome,
    PolicyRule,
    Tier,
    is_shell_name,
)
from alhena.values import Value, fold_name, meant_names


def slip(name: str, known: Collection[str]) -> str | None:
    """The known name that was probably meant, None when the name is known, a wildcard, a server's
    tool or unlike all of them."""
    if (
        not known
        or name in known
        or fold_name(name) in map(fold_name, known)
        or "*" in name
        or "__" in name
        or name.startswith("mcp_")
    ):
        return None
    return near_name(name, known, VERY_NEAR)


def with_slips(loaded: LoadedPolicies, known: Collection[str]) -> LoadedPolicies:
    """The same with a problem for each rule that names no tool there is, but nearly one: an error
    if it denies or asks, since nothing restricts the tool that was meant."""
    reports: list[RuleReport] = []
    found: list[PolicyProblem] = []
    for report in loaded.reports:
        slips = tuple(_missed_names(report, known))
        reports.append(replace(report, problems=(*report.problems, *slips)) if slips else report)
        found += slips
    if not found:
        return loaded
    return replace(loaded, problems=(*loaded.problems, *found), reports=tuple(reports))


def _missed_names(report: RuleReport, known: Collection[str]) -> Iterator[PolicyProblem]:
    rule = report.rule
    if rule is None or rule.mcp_name is not None:
        return
    for name in rule.tool_names:
        near = slip(name, known)
        if near is not None:
            restricting = rule.decision is not PolicyOutcome.ALLOW
            yield PolicyProblem(
                file=report.file,
                table=report.table,
                rule=report.number,
                line=report.line,
                field="toolName",
                message=f"{name!r} is no built-in tool",
                remedy=f"Did you mean {near}?",
                level=_level(name, near, restricting=restricting),
            )


def _level(name: str, near: str, *, restricting: bool) -> ProblemLevel:
    return ProblemLevel.ERROR if restricting and is_typo(name, near) else ProblemLevel.WARNING


def unknown_tools(
    rules: Iterable[PolicyRule], known: Callable[[str], bool], built_in: Collection[str]
) -> Iterator[str]:
    """A warning for each restricting rule for a tool that is not `known`, where no server or
    command brings further ones. Wildcards, tools of servers and names like those of `built_in` ones
    are not judged."""
    for rule in rules:
        if rule.decision is PolicyOutcome.ALLOW or rule.mcp_name is not None:
            continue
        for name in rule.tool_names:
            odd = "*" in name or "__" in name or name.startswith("mcp_")
            if not odd and not known(name) and slip(name, built_in) is None:
                source = rule.source or "a rule of the program"
                yield f"policy: {source}: there is no tool {name!r}, so the rule has no effect."


def is_typo(name: str, near: str) -> bool:
    """True for a name that differs from a known one as slips of the hand do: by case or
    separators, one letter too many, too few or wrong, or two that changed places. A plural is
    likely the tool of a server."""
    one, other = (re.sub("[^a-z0-9]", "", each.lower()) for each in (name, near))
    if one == other:
        return True
    if one in {f"{other}s", other.removesuffix("s")}:
        return False
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    start = len(list(pairs))
    rest, wanted = one[start:], other[start:]
    swapped = rest[:2] == wanted[1::-1] and rest[2:] == wanted[2:]
    return swapped or rest[1:] in (wanted, wanted[1:]) or rest == wanted[1:]


def unknown_server_tools(
    rules: Iterable[PolicyRule], servers: Mapping[str, Collection[str] | None]
) -> Iterator[str]:
    """A warning for each name in a rule that no tool of its MCP server has. `servers` has all names
    of each server's tools; None where the server has not listed them yet."""
    calls = {
        server: PolicyCall(names=tuple(names or ()), args={}, server_name=server)
        for server, names in servers.items()
    }
    for rule in rules:
        for name in rule.tool_names:
            one = replace(rule, tool_names=(name,))
            meant = [server for server, call in calls.items() if names_server(one, call)]
            unsure = any(servers[each] is None for each in meant)
            if not meant or unsure or any(names_tool(one, calls[each]) for each in meant):
                continue
            near = near_name(
                name, {known for each in meant for known in calls[each].names}, VERY_NEAR
            )
            remedy = "" if near is None else f" Did you mean {near}?"
            source = rule.source or "a rule of the program"
            yield (
                f"policy: {source}: no tool of the MCP server {meant[0]!r} is called {name!r}, so "
                f"the rule has no effect there.{remedy}"
            )


_RESTRICTING = (Tier.USER, 999)
# An allowance gives way to the default rules at 999: somebody has to be there for a question.
_ALLOWING = (Tier.DEFAULT, 998)
_SHIELD = 500
_SHELL = 450
_REST = 400

ACTING_MODES = (ApprovalMode.DEFAULT, ApprovalMode.AUTO_EDIT, ApprovalMode.YOLO)
"""The modes in which an approval counts: none reaches into plan mode."""

ALWAYS_THERE = frozenset({"complete_task", "search_tools", "call_tool"})
"""Not subject to `tools.core`: the call that ends a subagent, which runs no tool, and the two that
find and call tools of servers."""


class ToolNames(msgspec.Struct, frozen=True):
    """The names of the built-in tools: as declared, and every other one that is accepted."""

    declared: Collection[str] = ()
    accepted: Collection[str] = ()


class SettingsPolicy(Value, frozen=True):
    """The policy in settings: rules, filters, and problems."""

    rules: tuple[PolicyRule, ...] = ()
    filters: tuple[PolicyFilter, ...] = ()
    problems: tuple[PolicyProblem, ...] = ()


def settings_policy(
    settings: Settings,
    known: ToolNames,
    allowed_tools: Iterable[str] = (),
    *,
    trusted: bool = True,
    foreign: Collection[str] = (),
) -> SettingsPolicy:
    """The policy of the settings and of `--allowed-tools`; its rules come before all others of
    their priority. `trusted`: of the folder, for what a server does may be the folder's doing.
    `foreign` are the entries that extensions wrote.

    Raises ConfigError that names the key and the entry for one that cannot be meant. A name close
    to a built-in tool's is a warning.
    """
    tools, mcp = settings.tools, settings.mcp
    entries = {
        "tools.exclude": tools.exclude,
        "tools.confirmationRequired": tools.confirmation_required,
        "tools.allowed": tools.allowed,
        "--allowed-tools": tuple(allowed_tools),
        "tools.core": tools.core or (),
    }
    reader = _EntryReader(foreign)
    excluded, confirmed, allowed, flagged, core = (
        tuple(reader.entries(key, texts)) for key, texts in entries.items()
    )
    servers = _trusted_servers(settings) if settings.mcp_servers and trusted else ()
    only = _servers("mcp.allowed", mcp.allowed) if mcp.allowed else None
    rules = (
        *_server_rules("mcp.excluded", _servers("mcp.excluded", mcp.excluded), PolicyOutcome.DENY),
        *(_rule(entry, PolicyOutcome.DENY, _RESTRICTING) for entry in excluded),
        *(_rule(entry, PolicyOutcome.ASK_USER, _RESTRICTING) for entry in confirmed),
        *(_rule(entry, PolicyOutcome.ALLOW, _ALLOWING) for entry in (*allowed, *flagged)),
        *_server_rules("mcpServers.NAME.trust", servers, PolicyOutcome.ALLOW),
        *_server_rules(
            "mcp.allowed", _unquestioned_servers(only or (), settings), PolicyOutcome.ALLOW
        ),
        *_headless_rules(settings),
    )
    filters: list[PolicyFilter] = []
    if tools.core is not None:
        filters.append(_core(core, known))
    if only is not None and "*" not in only:
        filters.append(_only_servers(only))
    more = (*allowed, *flagged, *core)
    restricting = _slips((*excluded, *confirmed), known, restricting=True)
    problems = (*reader.problems, *restricting, *_slips(more, known), *_useless(more))
    return SettingsPolicy(rules, tuple(filters), problems)


def _trusted_servers(settings: Settings) -> tuple[str, ...]:
    from alhena.config.mcp_servers import names_with_trust

    return names_with_trust(settings.mcp_servers, trust=True)


def _unquestioned_servers(allowed: tuple[str, ...], settings: Settings) -> tuple[str, ...]:
    """Of the servers that these names mean, those whose calls need no question: not those whose
    entries say that they are not trusted, as all entries of a workspace do."""
    if not (allowed and settings.mcp_servers):
        return allowed
    from alhena.config.mcp_servers import COMMAND_SERVER, names_with_trust

    questioned = names_with_trust(settings.mcp_servers, trust=False)
    names = (*settings.mcp_servers, COMMAND_SERVER) if "*" in allowed else allowed
    return tuple(name for name in dict.fromkeys(names) if name not in questioned)


def _headless_rules(settings: Settings) -> Iterator[PolicyRule]:
    """`mcp.autoAllowInHeadless`: calls need no approval where no person can be asked."""
    if settings.mcp.auto_allow_in_headless:
        names = _unquestioned_servers(("*",), settings)
        for rule in _server_rules("mcp.autoAllowInHeadless", names, PolicyOutcome.ALLOW):
            yield msgspec.structs.replace(rule, interactive=False)


class _ToolEntry(msgspec.Struct, frozen=True):
    """`name` or `name(prefix)` of a list of tools. `names` are all that it means; `exact`: the
    prefix is the whole command."""

    key: str
    name: str
    prefix: str | None = None
    names: tuple[str, ...] = ()
    exact: bool = False

    @property
    def source(self) -> str:
        """The place of the entry, for people."""
        return self.key if self.key.startswith("--") else f"settings: {self.key}"


class _EntryReader:
    """Reads lists of tools. An entry that cannot be meant is an error where leaving it out would
    allow more, unless an extension wrote it (`foreign`); elsewhere it is a problem."""

    def __init__(self, foreign: Collection[str]) -> None:
        self._foreign = foreign
        self.problems: list[PolicyProblem] = []

    def entries(self, key: str, texts: Iterable[str]) -> Iterator[_ToolEntry]:
        """The entries of a list. Raises ConfigError."""
        for text in texts:
            try:
                yield _entry(key, text)
            except ConfigError as error:
                if key not in _WIDENING and text not in self._foreign:
                    raise
                self.problems.append(
                    PolicyProblem(
                        file=key if key.startswith("--") else f"settings: {key}",
                        message=error.message.partition(": ")[2]
                        .removeprefix(f"{key}: ")
                        .rstrip("."),
                        remedy="It is ignored",
                        level=ProblemLevel.WARNING,
                        weakens=False,
                    )
                )


_WIDENING = frozenset({"tools.allowed", "tools.core"})
"""Lists whose entries allow something."""


def _entry(key: str, text: str) -> _ToolEntry:
    name, bracket, rest = (part.strip() for part in text.strip().partition("("))
    if not name:
        raise _wrong(key, text, "names no tool", "Write a tool's name.")
    if "*" in name[:-1]:
        reason = "has a wildcard that is not at its end"
        raise _wrong(key, text, reason, "Name the tools, or use SERVER__*.")
    meant = None if is_shell_name(name) else meant_names(name)
    names = (name, *(meant or ()))
    if not bracket:
        if ")" in name or any(c.isspace() for c in name):
            raise _wrong(key, text, "is no tool's name", "Write one name an entry.")
        return _ToolEntry(key, name, names=names)
    if not any(map(is_shell_name, names)):
        reason = f"gives {name} a prefix, which only run_shell_command takes"
        raise _wrong(key, text, reason, f"Write {name}, or run_shell_command(PREFIX).")
    if not rest.endswith(")") or not rest[:-1].strip():
        reason = "has no prefix between two brackets"
        raise _wrong(key, text, reason, "Write run_shell_command(PREFIX), or no brackets.")
    inside = rest[:-1].strip()
    prefix = inside.removesuffix("*").rstrip().removesuffix(":").rstrip()
    if "*" in prefix and (meant or prefix != inside):
        reason = "has a wildcard that is not at its end"
        raise _wrong(key, text, reason, "Write run_shell_command(PREFIX), or a policy file.")
    exact = bool(meant) and prefix == inside and key in _WIDENING
    return _ToolEntry(key, name, prefix or None, names, exact)


def _wrong(key: str, entry: str, reason: str, remedy: str) -> ConfigError:
    source = key if key.startswith("--") else f"settings: {key}"
    return ConfigError(f"{source}: the entry {entry!r} {reason}.", remedy=remedy)


def _servers(key: str, names: Iterable[str]) -> tuple[str, ...]:
    kept = tuple(names)
    for name in kept:
        if not name.strip():
            raise _wrong(key, name, "names no server", "Write a name of mcpServers.")
    return kept


def _rule(entry: _ToolEntry, decision: PolicyOutcome, strength: tuple[Tier, int]) -> PolicyRule:
    tier, priority = strength
    return PolicyRule(
        decision=decision,
        priority=priority,
        tier=tier,
        tool_names=entry.names
        if entry.prefix is None
        else tuple(filter(is_shell_name, entry.names)),
        command_prefixes=() if entry.prefix is None or entry.exact else (entry.prefix,),
        command_regex=f"^{re.escape(entry.prefix or '')}$" if entry.exact else None,
        modes=ACTING_MODES if decision is PolicyOutcome.ALLOW else (),
        source=entry.source,
        layer="user",
    )


def _server_rules(
    key: str, servers: Iterable[str], decision: PolicyOutcome
) -> Iterator[PolicyRule]:
    deny = decision is PolicyOutcome.DENY
    tier, priority = _RESTRICTING if deny else _ALLOWING
    for server in servers:
        yield PolicyRule(
            decision=decision,
            priority=priority,
            tier=tier,
            mcp_name=server,
            modes=() if deny else ACTING_MODES,
            source=f"settings: {key.replace('NAME', server)}",
            layer="user",
        )


def rules_for_own(rules: Iterable[PolicyRule], trusted: Iterable[str]) -> tuple[PolicyRule, ...]:
    """The rules for an agent's own MCP servers, of which these are trusted. What the settings
    allow by the name of a server is about the servers in them."""
    return (
        *(each for each in rules if not _allows_server_of_settings(each)),
        *_server_rules("mcp_servers.NAME.trust", trusted, PolicyOutcome.ALLOW),
    )


def _allows_server_of_settings(rule: PolicyRule) -> bool:
    allows = rule.decision is PolicyOutcome.ALLOW and rule.mcp_name is not None
    return allows and rule.file is None and rule.source.startswith("settings: mcp")


def _core(entries: Sequence[_ToolEntry], known: ToolNames) -> PolicyFilter:
    """Only these of the built-in tools. Tools of servers and programs are not meant."""
    source = "settings: tools.core"
    shields = [
        msgspec.structs.replace(_rule(entry, PolicyOutcome.ALLOW, (Tier.USER, _SHIELD)), modes=())
        for entry in entries
    ]
    commands = ", ".join(entry.prefix for entry in entries if entry.prefix)
    rest = PolicyRule(
        decision=PolicyOutcome.DENY,
        priority=_REST,
        tool_names=tuple(sorted({*known.declared, *known.accepted} - ALWAYS_THERE)),
        deny_message="Only some tools are there: this one is left out by the setting tools.core.",
        source=source,
        layer="user",
    )
    shell = msgspec.structs.replace(
        rest,
        priority=_SHELL,
        tool_names=tuple(sorted(SHELL_NAMES)),
        deny_message=f"Only these shell commands are there: {commands}.",
    )
    servers = PolicyRule(decision=PolicyOutcome.ALLOW, priority=_SHIELD, mcp_name="*")
    return PolicyFilter(source, (*shields, servers, *((shell,) if commands else ()), rest))


def restrict_shell(owner: str, texts: Iterable[str]) -> PolicyFilter | None:
    """Only the shell commands that a list of tools of the `owner` names, as `run_shell_command(ls)`
    or `Bash(git:*)`; None if it names no commands, or the whole tool."""
    found: list[_ToolEntry] = []
    for text in texts:
        if text == "*":
            return None
        with suppress(ConfigError):  # it means no tool
            entry = _entry("tools.core", text)
            if any(map(is_shell_name, entry.names)):
                found.append(entry)
    if not found or any(entry.prefix is None for entry in found):
        return None
    commands = ", ".join(dict.fromkeys(entry.prefix or "" for entry in found))
    rest = PolicyRule(
        decision=PolicyOutcome.DENY,
        priority=_SHELL,
        tool_names=tuple(sorted(SHELL_NAMES)),
        deny_message=f"Only these shell commands are there for {owner}: {commands}.",
        source=f"the tools of {owner}",
        layer="user",
    )
    shields = [
        msgspec.structs.replace(
            _rule(entry, PolicyOutcome.ALLOW, (Tier.USER, _SHIELD)), modes=(), source=rest.source
        )
        for entry in found
    ]
    return PolicyFilter(rest.source, (*shields, rest))


def _only_servers(servers: Iterable[str]) -> PolicyFilter:
    source = "settings: mcp.allowed"
    shields = [
        PolicyRule(decision=PolicyOutcome.ALLOW, priority=_SHIELD, mcp_name=server, layer="user")
        for server in servers
    ]
    rest = PolicyRule(
        decision=PolicyOutcome.DENY,
        priority=_REST,
        mcp_name="*",
        deny_message="This server is not among those of the setting mcp.allowed.",
        source=source,
        layer="user",
    )
    return PolicyFilter(source, (*shields, rest))


def _slips(
    entries: Iterable[_ToolEntry], known: ToolNames, *, restricting: bool = False
) -> Iterator[PolicyProblem]:
    """Warnings for names that look like slips of the pen; any name may be a program's tool. Where
    entries are `restricting`, what surely is a slip is an error."""
    names = {*known.declared, *known.accepted}
    for entry in entries:
        if meant_names(entry.name) is not None:
            continue
        near = slip(entry.name, names)
        if near is not None:
            yield PolicyProblem(
                file=entry.source,
                message=f"{entry.name!r} is no built-in tool",
                remedy=f"Did you mean {near}?",
                level=_level(entry.name, near, restricting=restricting),
            )


def _useless(entries: Iterable[_ToolEntry]) -> Iterator[PolicyProblem]:
    """Warnings for prefixes that let nothing through."""
    for entry in entries:
        if entry.prefix is None:
            continue
        from alhena.shell.prefix import useless_prefix

        reason = useless_prefix(entry.prefix)
        if reason is not None:
            yield PolicyProblem(
                file=entry.source,
                message=f"{entry.name}({entry.prefix}) allows nothing: {reason}",
                level=ProblemLevel.WARNING,
                quiet=True,
            )
