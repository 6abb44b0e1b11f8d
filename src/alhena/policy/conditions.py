"""The conditions of rules on any tool: names of tools and servers, arguments, paths; the rules of a
tool by the programs that they are about."""

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from alhena.policy.model import (
    PatternClock,
    PolicyCall,
    PolicyOutcome,
    PolicyRule,
    stable_json,
)
from alhena.values import Value, fold_name, fold_names

if TYPE_CHECKING:
    from alhena.policy.surroundings import Surroundings
    from alhena.shell.parse.model import Part
    from alhena.system.ignore import IgnoreFile


_HOME = "~/"
SECRETS = "@secrets"
"""The pattern in `paths` for files that may hold secrets (`shell.secret_files`)."""


def path_arguments(args: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The (key, path) pairs of a call: strings, and strings in lists, under keys that speak of a
    path, a directory or a file, or are called source or destination; nested keys as `a.b`, at any
    depth and also in lists."""
    for name, key, text in text_arguments(args):
        if _speaks_of_a_path(key):
            yield name, text


def text_arguments(args: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Every string of a call, in order: its dotted name, the last key of it, and the string."""
    left: list[tuple[str, str, Any]] = [("", "", args)]
    while left:
        name, key, value = left.pop()
        if isinstance(value, str):
            yield name, key, value
        elif isinstance(value, Mapping):
            above = f"{name}." if name else ""
            entries = cast("Mapping[Any, Any]", value).items()
            left += reversed([(f"{above}{inner}", str(inner), item) for inner, item in entries])
        elif isinstance(value, list | tuple):
            items = cast("list[Any] | tuple[Any, ...]", value)
            left += reversed([(name, key, item) for item in items])


def _speaks_of_a_path(key: str) -> bool:
    lowered = key.lower()
    return (
        "path" in lowered
        or "file" in lowered
        or "director" in lowered
        or lowered in {"dir", "source", "destination"}
    )


class TouchedPaths:
    """Files, as written and where symbolic links lead. `starts`: the directories that relative
    paths may begin in, by default the working directory."""

    def __init__(
        self,
        paths: Iterable[str],
        surroundings: "Surroundings | None",
        starts: Iterable[str] = (".",),
    ) -> None:
        roots = surroundings.roots if surroundings else ()
        home = os.path.expanduser("~")
        # For each file its places; for each place the (path, at home) pairs patterns are tried on.
        self._files = [
            [tuple(_views(place, roots, home)) for place in _places(path, start, surroundings)]
            for path in paths
            for start in starts
        ]

    def any_covered(self, patterns: tuple[str, ...]) -> bool:
        """Is one of the files meant? Upper and lower case are the same."""
        if SECRETS in patterns:
            if any(
                map(_secret, (view for places in self._files for views in places for view in views))
            ):
                return True
            patterns = tuple(pattern for pattern in patterns if pattern != SECRETS)
            if not patterns:
                return False
        compiled = _compile_patterns(tuple(pattern.casefold() for pattern in patterns))
        return any(
            _covers_path(compiled[at_home], path.casefold(), or_directory=True)
            for places in self._files
            for views in places
            for path, at_home in views
        )

    def all_covered(self, patterns: tuple[str, ...]) -> bool:
        """Are there files, and is each meant wherever it leads?"""
        secrets = SECRETS in patterns
        compiled = _compile_patterns(tuple(pattern for pattern in patterns if pattern != SECRETS))
        return bool(self._files) and all(
            any(
                _covers_path(compiled[at_home], path) or (secrets and _secret((path, at_home)))
                for path, at_home in views
            )
            for places in self._files
            for views in places
        )


def _places(path: str, start: str, surroundings: "Surroundings | None") -> set[str]:
    if surroundings is None:
        return {os.path.normpath(os.path.join("/", start, path))}
    expanded = os.path.expanduser(path.removeprefix("@"))
    absolute = os.path.normpath(os.path.join(surroundings.cwd, start, expanded))
    return {absolute, surroundings.real(absolute)}


def _views(place: str, roots: tuple[str, ...], home: str) -> Iterator[tuple[str, bool]]:
    inside = [place[len(root.rstrip("/")) + 1 :] for root in roots if _is_below(place, root)]
    yield from ((path, False) for path in inside or [place.lstrip("/")])
    if _is_below(place, home):
        yield place[len(home.rstrip("/")) + 1 :], True


def _secret(view: tuple[str, bool]) -> bool:
    from alhena.shell.secret_files import may_hold_secrets

    return not view[1] and may_hold_secrets(view[0])


def _is_below(path: str, top: str) -> bool:
    return path.startswith(top.rstrip("/") + "/")


@lru_cache(maxsize=256)
def _compile_patterns(patterns: tuple[str, ...]) -> tuple["IgnoreFile", "IgnoreFile"]:
    """The patterns for the workspace, and those that begin with `~/`."""
    from alhena.system.ignore import IgnoreFile

    here = [pattern for pattern in patterns if not pattern.startswith(_HOME)]
    home = [f"/{pattern[2:]}" for pattern in patterns if pattern.startswith(_HOME)]
    return IgnoreFile("\n".join(here)), IgnoreFile("\n".join(home))


def _covers_path(patterns: "IgnoreFile", path: str, *, or_directory: bool = False) -> bool:
    """Is the path, or a directory above it, meant? `or_directory`: it may be a directory, too,
    which is meant where all within it is (`x` by `x/**`)."""
    names = path.encode("utf-8", "surrogatepass").decode("latin-1").split("/")
    prefix = ""
    for index, name in enumerate(names):
        inner = index < len(names) - 1
        if patterns.verdict(prefix, name, inner or or_directory):
            return True
        prefix += f"{name}/"
    return or_directory and bool(patterns.verdict(prefix, "\0", False))


class Conditions:
    """The conditions of rules on the arguments of one call.

    A pattern that cannot be run to its end within the time for one decision counts as matching
    where it would restrict, and as not matching where it would allow.
    """

    __slots__ = ("_call", "_json", "_surroundings", "clock")

    def __init__(self, call: PolicyCall, surroundings: "Surroundings | None" = None) -> None:
        self._call = call
        self._surroundings = surroundings
        self.clock = PatternClock()
        self._json: str | None = None

    def hold(self, rule: PolicyRule, *, allow: bool) -> bool:
        """`argsPattern` and `paths`, on the arguments as they are."""
        if rule.paths and not self.touches(rule.paths, allow=allow):
            return False
        return rule.args_pattern is None or self.arguments_match(rule.args_pattern, allow=allow)

    def touches(self, patterns: tuple[str, ...], *, allow: bool) -> bool:
        """`paths`: does the call touch such files (for an allow: only such)?"""
        paths = TouchedPaths(
            (path for _, path in path_arguments(self._call.args)), self._surroundings
        )
        return paths.all_covered(patterns) if allow else paths.any_covered(patterns)

    def arguments_match(self, pattern: str, *, allow: bool) -> bool:
        """`argsPattern` on the arguments as they are."""
        try:
            self._json = self._json or stable_json(self._call.args)
        except ValueError:
            return not allow
        found = self.clock.search(pattern, self._json)
        return (not allow) if found is None else found


def names_tool(rule: PolicyRule, call: PolicyCall) -> bool:
    """Do the rule's `tool_names` and `mcp_name` cover the tool of this call?

    An allow by bare name does not reach a server's tool of that name: what a server calls its
    tools is the server's choice, so such an allow has to name the server.
    """
    if rule.mcp_name is not None:
        return _of_server(rule.mcp_name, call) and (
            not rule.tool_names or any(_server_tool(rule, name, call) for name in rule.tool_names)
        )
    if not rule.tool_names:
        return True
    allow = rule.decision is PolicyOutcome.ALLOW
    return any(_covers(name, call, allow=allow) for name in rule.tool_names)


def names_server(rule: PolicyRule, call: PolicyCall) -> bool:
    """Does the rule name tools (no wildcards) of the MCP server of this call?"""
    if not rule.tool_names or any("*" in name for name in rule.tool_names):
        return False
    if rule.mcp_name not in (None, "*"):
        return rule.mcp_name in _spellings(call.server_name or "")
    return rule.mcp_name is None and rule.tool_names[0].startswith(_prefixes(call))


def _covers(name: str, call: PolicyCall, *, allow: bool) -> bool:
    if name == "*":
        return True
    if name.endswith("*"):
        return _wildcard(name, call, allow=allow)
    if call.server_name is None:
        return name in call.names or fold_name(name) in fold_names(call.names)
    if name not in call.names:
        return not allow and name.lstrip("_") in {each.lstrip("_") for each in call.names}
    return not allow or name in _qualified_names(call)


def _wildcard(pattern: str, call: PolicyCall, *, allow: bool) -> bool:
    stem = pattern[:-1]
    server = call.server_name
    if server is None:
        return any(name.startswith(stem) for name in call.names)
    if pattern == "mcp_*":
        return True
    if stem.endswith("__") and stem[:-2] in _spellings(server):
        return True
    if stem.startswith("mcp_") and stem.endswith("_") and stem[4:-1] in _spellings(server):
        return True
    return not allow and any(name.startswith(stem) for name in call.names)


def _of_server(server: str, call: PolicyCall) -> bool:
    if call.server_name is not None:
        return server == "*" or server in _spellings(call.server_name)
    if server == "*":
        return any("__" in name or name.startswith("mcp_") for name in call.names)
    return any(name.startswith((f"{server}__", f"mcp_{server}_")) for name in call.names)


def _server_tool(rule: PolicyRule, tool: str, call: PolicyCall) -> bool:
    if tool == "*" or tool in call.names:
        return True
    servers = _spellings(call.server_name) if call.server_name else {rule.mcp_name or ""}
    for server in servers:
        if {f"{server}__{tool}", f"mcp_{server}_{tool}"} & set(call.names):
            return True
        for prefix in (f"{server}__", f"mcp_{server}_"):
            if tool.startswith(prefix) and tool[len(prefix) :] in call.names:
                return True
    return False


def _qualified_names(call: PolicyCall) -> set[str]:
    prefixes = _prefixes(call)
    return {name for name in call.names if name.startswith(prefixes)}


def _prefixes(call: PolicyCall) -> tuple[str, ...]:
    """The beginnings of the qualified names of its server's tools."""
    return tuple(
        prefix
        for server in sorted(_spellings(call.server_name or ""))
        for prefix in (f"{server}__", f"mcp_{server}_")
    )


def _spellings(server: str) -> set[str]:
    """A server's name as configured, and as part of tool names."""
    return {
        server,
        "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "_" for c in server),
    }


MAX_KNOWN = 1024
"""Programs, and tools, whose rules are remembered: a model can make up names without end."""


class RuleCandidate(Value, frozen=True):
    """A rule, the programs that its prefixes are about (None: perhaps any) and the words that have
    to follow for it to allow something (None: perhaps none)."""

    rule: PolicyRule
    programs: frozenset[str | None]
    following: frozenset[str] | None

    def may_speak_of(self, programs: frozenset[str | None]) -> bool:
        """Could the rule mean a command of one of these programs, going by their names?"""
        return not self.programs or None in self.programs or not self.programs.isdisjoint(programs)


class _ProgramRules:
    """The rules that could be meant for a program, and which are left by the word after it."""

    __slots__ = ("_by_word", "_words", "candidates")

    def __init__(self, candidates: list[RuleCandidate]) -> None:
        self.candidates = candidates
        self._words = frozenset[str]().union(*(each.following or () for each in candidates))
        self._by_word: dict[str | None, list[PolicyRule]] = {}

    def rules_deciding(self, word: str | None) -> list[PolicyRule]:
        known = word if word in self._words else None
        found = self._by_word.get(known)
        if found is None:
            found = self._by_word[known] = [
                each.rule
                for each in self.candidates
                if each.rule.decision is not PolicyOutcome.ALLOW
                or each.following is None
                or known in each.following
            ]
        return found


class ActiveRules:
    """`rules`, the strongest first. Which of them can speak of a command is looked up once for
    each program."""

    __slots__ = ("_candidates", "_spoken", "rules", "with_predicates")

    def __init__(self, rules: list[PolicyRule]) -> None:
        self.rules = rules
        self.with_predicates = any(rule.when is not None for rule in rules)
        self._candidates: list[RuleCandidate] | None = None
        self._spoken: dict[frozenset[str | None], _ProgramRules] = {}

    def candidates_for(self, programs: frozenset[str | None]) -> list[RuleCandidate]:
        """The rules that could be meant for a command that runs these programs (None: any), the
        strongest first: all but those for prefixes of other programs."""
        return self._of(programs).candidates

    def rules_deciding(self, programs: frozenset[str | None], part: "Part") -> list[PolicyRule]:
        """Those of them that can decide about the part: all but allow rules for other words."""
        words = part.words
        return self._of(programs).rules_deciding(words[1].text if len(words) > 1 else None)

    def _of(self, programs: frozenset[str | None]) -> _ProgramRules:
        found = self._spoken.get(programs)
        if found is None:
            if len(self._spoken) >= MAX_KNOWN:
                self._spoken.clear()
            found = self._spoken[programs] = _ProgramRules(self._speaking(programs))
        return found

    def _speaking(self, programs: frozenset[str | None]) -> list[RuleCandidate]:
        if self._candidates is None:
            self._candidates = [_candidate(rule) for rule in self.rules]
        if None in programs:
            return self._candidates
        return [each for each in self._candidates if each.may_speak_of(programs)]


def _candidate(rule: PolicyRule) -> RuleCandidate:
    from alhena.shell.prefix import divided_prefix, prefix_name

    only_prefixes = rule.command_prefixes and not (rule.paths or rule.command_class)
    following: set[str] | None = set() if only_prefixes else None
    for prefix in rule.command_prefixes:
        divided = divided_prefix(prefix)
        if divided is None or len(divided.words) < 2:
            following = None
            break
        if following is not None:
            following.add(divided.words[1])
    return RuleCandidate(
        rule,
        frozenset(map(prefix_name, rule.command_prefixes)),
        None if following is None else frozenset(following),
    )
