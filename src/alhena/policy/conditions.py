"""The conditions of rules: names of tools and servers, arguments, commands, paths."""

import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from alhena.policy.model import (
    PatternClock,
    PolicyCall,
    PolicyOutcome,
    PolicyRule,
    stable_json,
    to_word_end,
    to_word_end_in_json,
)

if TYPE_CHECKING:
    from alhena.policy.bash.model import Part
    from alhena.policy.bash.prefix import Match
    from alhena.policy.bash.reach import Command, Reach
    from alhena.policy.surroundings import Surroundings
    from alhena.system.ignore import IgnoreFile


_HOME = "~/"


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
    """The files of one call, as written and where symbolic links lead."""

    def __init__(self, args: Mapping[str, Any], surroundings: "Surroundings | None") -> None:
        roots = surroundings.roots if surroundings else ()
        home = os.path.expanduser("~")
        # For each file its places; for each place the (path, at home) pairs patterns are tried on.
        self._files = [
            [tuple(_views(place, roots, home)) for place in _places(path, surroundings)]
            for _, path in path_arguments(args)
        ]

    def any_covered(self, patterns: tuple[str, ...]) -> bool:
        """Is one of the files meant? Upper and lower case are the same."""
        compiled = _compiled(tuple(pattern.casefold() for pattern in patterns))
        return any(
            _covers_path(compiled[at_home], path.casefold(), or_directory=True)
            for places in self._files
            for views in places
            for path, at_home in views
        )

    def all_covered(self, patterns: tuple[str, ...]) -> bool:
        """Are there files, and is each meant wherever it leads?"""
        compiled = _compiled(patterns)
        return bool(self._files) and all(
            any(_covers_path(compiled[at_home], path) for path, at_home in views)
            for places in self._files
            for views in places
        )


def _places(path: str, surroundings: "Surroundings | None") -> set[str]:
    if surroundings is None:
        return {os.path.normpath(os.path.join("/", path))}
    expanded = os.path.expanduser(path.removeprefix("@"))
    absolute = os.path.normpath(os.path.join(surroundings.cwd, expanded))
    return {absolute, surroundings.real(absolute)}


def _views(place: str, roots: tuple[str, ...], home: str) -> Iterator[tuple[str, bool]]:
    inside = [place[len(root.rstrip("/")) + 1 :] for root in roots if _is_below(place, root)]
    yield from ((path, False) for path in inside or [place.lstrip("/")])
    if _is_below(place, home):
        yield place[len(home.rstrip("/")) + 1 :], True


def _is_below(path: str, top: str) -> bool:
    return path.startswith(top.rstrip("/") + "/")


@lru_cache(maxsize=256)
def _compiled(patterns: tuple[str, ...]) -> tuple["IgnoreFile", "IgnoreFile"]:
    """The patterns for the workspace, and those that begin with `~/`."""
    from alhena.system.ignore import IgnoreFile

    here = [pattern for pattern in patterns if not pattern.startswith(_HOME)]
    home = [f"/{pattern[2:]}" for pattern in patterns if pattern.startswith(_HOME)]
    return IgnoreFile("\n".join(here)), IgnoreFile("\n".join(home))


def _covers_path(patterns: "IgnoreFile", path: str, *, or_directory: bool = False) -> bool:
    """Is the path, or a directory above it, meant? `or_directory`: it may be a directory, too."""
    names = path.encode("utf-8", "surrogatepass").decode("latin-1").split("/")
    prefix = ""
    for index, name in enumerate(names):
        inner = index < len(names) - 1
        if patterns.verdict(prefix, name, inner or or_directory):
            return True
        prefix += f"{name}/"
    return False


SHELL_FIELDS = ("command", "directory", "dir_path")
"""The arguments of a shell call that an `argsPattern` can allow by: where and what runs, not what
the model says about it."""


_BEFORE_COMMAND = '{"command":"'


def looks_at_arguments(rule: PolicyRule) -> bool:
    """Does the rule depend on the arguments at all?"""
    return bool(rule.args_pattern or rule.paths or rule.when or looks_at_commands(rule))


def looks_at_commands(rule: PolicyRule) -> bool:
    """Does the rule speak of shell commands, and so of no other tool?"""
    return bool(rule.command_prefixes or rule.command_regex or rule.command_class)


class Conditions:
    """The conditions of rules on the arguments of one call.

    A pattern that cannot be run to its end within the time for one decision counts as matching
    where it would restrict, and as not matching where it would allow.
    """

    __slots__ = ("_call", "_clock", "_json", "_surroundings")

    def __init__(self, call: PolicyCall, surroundings: "Surroundings | None" = None) -> None:
        self._call = call
        self._surroundings = surroundings
        self._clock = PatternClock()
        self._json: str | None = None

    def hold(self, rule: PolicyRule, *, allow: bool) -> bool:
        """`argsPattern` and `paths`, on the arguments as they are."""
        if rule.paths and not self._touches(rule.paths, allow=allow):
            return False
        return rule.args_pattern is None or self._arguments_match(rule.args_pattern, allow=allow)

    def named_by(self, rule: PolicyRule, part: "Part") -> tuple[str, ...] | None:
        """The words of a part that an allow rule names, when all its conditions hold for the part;
        None when they do not. Of a pattern, what it spells out counts as named: it has to spell
        out assignments, and the command inside a wrapper."""
        if rule.command_prefixes:
            from alhena.policy.bash.prefix import allows, prefix_words

            for prefix in rule.command_prefixes:
                if allows(prefix, part):
                    return prefix_words(prefix) if self._pattern_allows(rule, part) else None
            return None
        if rule.command_regex is not None:
            if not self._clock.starts(to_word_end(rule.command_regex), part.text):
                return None
        elif rule.args_pattern is not None and not self._speaks_of(rule.args_pattern, part):
            return None
        if not self._pattern_allows(rule, part):
            return None
        if rule.command_regex is None and rule.args_pattern is None:
            return ()
        patterns = f"{rule.command_regex or ''} {rule.args_pattern or ''}".replace("\\", "")
        return _spelled_out(patterns, part)

    def restricts(self, rule: PolicyRule, part: "Part", reach: "Reach") -> "Match":
        """Could a deny or ask rule be meant for a part of a command, however it is written?"""
        from alhena.policy.bash.prefix import Match

        if not looks_at_arguments(rule):
            return Match.YES
        best = Match.NO if reach.complete else Match.MAYBE
        for number, command in enumerate(reach.commands):
            found = self._command_match(rule, command, part if number == 0 else None)
            if found is Match.YES and not command.sure:
                found = Match.MAYBE
            best = max(best, found)
            if best is Match.YES:
                break
        if best is not Match.YES and not reach.commands:
            best = max(best, self._text_match(rule, part.text))
        return best

    def _touches(self, patterns: tuple[str, ...], *, allow: bool) -> bool:
        paths = TouchedPaths(self._call.args, self._surroundings)
        return paths.all_covered(patterns) if allow else paths.any_covered(patterns)

    def _arguments_match(self, pattern: str, *, allow: bool) -> bool:
        try:
            self._json = self._json or stable_json(self._call.args)
        except ValueError:
            return not allow
        found = self._clock.search(pattern, self._json)
        return (not allow) if found is None else found

    def _pattern_allows(self, rule: PolicyRule, part: "Part") -> bool:
        """The pattern has to hold for what runs, too, not only for what is beside it, and for
        each part of the command by itself."""
        pattern = rule.args_pattern
        if pattern is None:
            return True
        args = self._call.args
        fields = {key: args[key] for key in SHELL_FIELDS if key in args}
        try:
            texts = (stable_json({**fields, "command": part.text}), stable_json(fields))
        except ValueError:
            return False
        return self._arguments_match(pattern, allow=True) and all(
            self._clock.search(pattern, text) for text in texts
        )

    def _speaks_of(self, pattern: str, part: "Part") -> bool:
        """Does the pattern match the part from its beginning? What matches behind the program, in
        its arguments, or beside the command alone, says nothing of what runs."""
        try:
            text = stable_json({"command": part.text})
        except ValueError:
            return False
        return bool(self._clock.reaches(to_word_end_in_json(pattern), text, len(_BEFORE_COMMAND)))

    def _command_match(self, rule: PolicyRule, command: "Command", part: "Part | None") -> "Match":
        """All conditions of the rule on one command; `part` is given for the part itself."""
        from alhena.policy.bash.prefix import Match

        if rule.paths and not self._touches(rule.paths, allow=False):
            return Match.NO
        found = Match.YES
        if rule.command_class is not None:
            found = min(found, _in_class(part))
        if rule.command_prefixes:
            found = min(found, max(self._prefix(p, command, part) for p in rule.command_prefixes))
        if found and rule.command_regex:
            found = min(found, self._regex(rule.command_regex, command, part))
        if found and rule.args_pattern:
            found = min(found, self._pattern(rule.args_pattern, command, part))
        return found

    def _prefix(self, prefix: str, command: "Command", part: "Part | None") -> "Match":
        from alhena.policy.bash.prefix import Match, prefix_words, restricts

        if prefix_words(prefix) is not None:
            return restricts(prefix, command)
        normal = " ".join(prefix.split())
        whole = str(self._call.args.get("command", "")) if part else ""
        texts = (" ".join(whole.split()), part.text if part else "", _text(command))
        return Match.YES if any(text.startswith(normal) for text in texts) else Match.NO

    def _regex(self, pattern: str, command: "Command", part: "Part | None") -> "Match":
        from alhena.policy.bash.prefix import Match

        text = _text(command)
        texts = [text]
        if part is not None:
            whole = str(self._call.args.get("command", ""))
            texts += [part.text, whole.strip(), whole]
        if any(self._clock.starts(pattern, each) is not False for each in texts):
            return Match.YES
        could = _dynamic(command) and self._clock.could_start(pattern, text) is not False
        return Match.MAYBE if could else Match.NO

    def _pattern(self, pattern: str, command: "Command", part: "Part | None") -> "Match":
        from alhena.policy.bash.prefix import Match

        if part is not None and self._arguments_match(pattern, allow=False):
            return Match.YES
        try:
            text = stable_json({**self._call.args, "command": _text(command)})
            begun = stable_json({"command": _text(command)})[:-2]
        except ValueError:
            return Match.YES
        if self._clock.search(pattern, text) is not False:
            return Match.YES
        could = _dynamic(command) and self._clock.could_search(pattern, begun) is not False
        return Match.MAYBE if could else Match.NO

    def _text_match(self, rule: PolicyRule, text: str) -> "Match":
        """For a text without a single word: nothing runs, but a pattern may speak of it."""
        from alhena.policy.bash.prefix import Match

        if rule.command_prefixes or rule.command_class:
            return Match.NO
        if rule.command_regex and self._clock.starts(rule.command_regex, text) is False:
            return Match.NO
        return Match.YES if self.hold(rule, allow=False) else Match.NO


def _in_class(part: "Part | None") -> "Match":
    """Is the part one that only reads? What a wrapper runs is not asked about."""
    from alhena.policy.bash.prefix import Match
    from alhena.policy.bash.readonly import not_read_only

    return Match.YES if part is not None and not_read_only(part) is None else Match.NO


def _text(command: "Command") -> str:
    """The words up to the first that is not literal, one space between."""
    texts: list[str] = []
    for word in command.words:
        texts.append(word.text)
        if not word.literal:
            break
    return " ".join(texts)


def _dynamic(command: "Command") -> bool:
    return any(not word.literal for word in command.words)


def _spelled_out(patterns: str, part: "Part") -> tuple[str, ...] | None:
    """The words of a part that stand in patterns as they are; None when an assignment, or a word
    that decides what runs, does not."""
    from alhena.policy.bash.prefix import unreached

    if any(assignment.source not in patterns for assignment in part.assignments):
        return None
    named = [word.text for word in part.words if word.literal and word.text in patterns]
    leading = 0
    while leading < min(len(part.words), len(named)) and named[leading] == part.words[leading].text:
        leading += 1
    if part.words and unreached(part.words, leading) is not None:
        return None
    return tuple(named)


SHELL_NAMES = frozenset({"run_shell_command", "ShellTool", "shell"})
"""Every name of the one tool whose `command` argument rules can look at."""


def is_shell(call: PolicyCall) -> bool:
    """Is this a call of the built-in shell tool? A server's tool never is, whatever its name."""
    return call.server_name is None and not SHELL_NAMES.isdisjoint(call.names)


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
    if name not in call.names:
        return False
    return not (allow and call.server_name is not None) or name in _qualified(call)


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


def _qualified(call: PolicyCall) -> set[str]:
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
