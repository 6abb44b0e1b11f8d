"""The paths of a command that only reads: inside the workspace, and no secrets."""

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from glob import has_magic, iglob
from itertools import islice

import msgspec

from alhena.policy.bash.model import Effect, Part, Word, WordKind
from alhena.policy.bash.options import base_name
from alhena.policy.surroundings import Surroundings

_PATTERN_FIRST = frozenset({"grep", "egrep", "fgrep", "rg", "sed", "awk", "gawk", "mawk", "jq"})
"""Programs whose first operand is a pattern or script, unless an option gives that."""
_SECRETS = frozenset({".env", ".netrc", ".ssh", ".aws", ".gnupg", ".git-credentials", ".pgpass"})
_SAMPLES = frozenset({".env.example", ".env.sample", ".env.template", ".env.dist"})
_TAKE_TEXT = frozenset({"basename", "dirname", "echo", "printf", "seq"})
"""Programs that open none of their operands."""
_KNOWN = {"HOME": "~", "PWD": ".", "USER": "", "SHELL": "", "LANG": "", "TERM": ""}
_SUBSTITUTION = re.compile(r"`[^`]*`|[$<]\(.*\)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\w+|\{\w+\})")
_UNQUOTED = str.maketrans("", "", "\"'")
_DEVICES = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"})
_MANY = 1000
_NAMES = frozenset({"find", "fd", "ls"})
_FILTERS = frozenset({"sort", "uniq", "head", "tail"})


def leaves_workspace(
    part: Part, parts: Sequence[Part], places: set[str] | None, facts: Surroundings | None
) -> str | None:
    """The reason why a part of a command line may read outside the workspace, or a secret; None
    when it does not. `places` are the directories it may run in, None where they are not known."""
    if places is None:
        return "it runs in a directory that is outside the workspace or not known"
    runs_on_input = part.words and base_name(part.words[0].text) == "xargs"
    if runs_on_input and not all(each is part or _lists_names(each) for each in parts):
        return "xargs reads the files that its input names"
    only_text = bool(part.words) and base_name(part.words[0].text) in _TAKE_TEXT
    for word in _files(part):
        for text in _texts(word, part, only_text or _listing(parts)):
            if text is None:
                return f"{word.source} is only known when it runs"
            refusal = None if only_text else _refusal(text, places, facts)
            if refusal is not None:
                return f"{word.source or word.text} {refusal}"
    return None


def _files(part: Part) -> Iterator[Word]:
    """The words that may name files."""
    words = part.words[1:]
    if part.words and base_name(part.words[0].text) in _PATTERN_FIRST and not _gives(words):
        first = next((i for i, each in enumerate(words) if each.text[:1] != "-"), None)
        words = tuple(each for i, each in enumerate(words) if i != first)
    yield from words
    yield from (r.target for r in part.redirections if r.effect is not Effect.NONE and r.target)


def _gives(words: Sequence[Word]) -> bool:
    """True when an option may give the pattern or script, or name the file that holds it."""
    return any(
        each.text.startswith(("--e", "--f", "--r"))
        or (each.text[:1] == "-" and each.text[:2] != "--" and set(each.text) & set("ef"))
        for each in words
    )


def _texts(word: Word, part: Part, listed: bool) -> Iterator[str | None]:
    """The texts of a word that may be paths; None for one that is not known. `listed`: what
    substitutions write is no path, or one inside the workspace."""
    texts = [word.text if word.literal else word.source]
    if word.kind is WordKind.EXPANSION:
        if not listed and ("$(" in word.source or "`" in word.source):
            yield None
            return
        bare = _SUBSTITUTION.sub("", word.source).translate(_UNQUOTED)
        texts = [bare]
        for name in {each.strip("${}") for each in _VARIABLE.findall(bare)}:
            values = _values(name, part, listed)
            texts = [_put(text, name, value) for text in texts for value in values][:_MANY]
    for text in texts:
        yield None if word.kind is WordKind.EXPANSION and "$" in text else text
        if text[:1] == "-":
            yield from (text[2:], text.partition("=")[2])


def _values(name: str, part: Part, listed: bool) -> list[str]:
    """What a variable may stand for; `$` for what is not known."""
    words = dict(part.loops).get(name)
    if words is None:
        return [_KNOWN.get(name, "$")]
    values: list[str] = []
    for word in words:
        texts = _texts(word, msgspec.structs.replace(part, loops=()), listed)
        values += ["$" if text is None else text for text in texts]
    return values


def _put(text: str, name: str, value: str) -> str:
    return re.sub(rf"\$(?:\{{{re.escape(name)}\}}|{re.escape(name)}\b)", lambda _: value, text)


def _refusal(text: str, places: set[str], facts: Surroundings | None) -> str | None:
    path = os.path.expanduser(text)
    if text[:1] == "~" and path == text:
        return "is outside the workspace"
    if any(_may_hold_secrets(name) for name in path.split("/")):
        return "may hold secrets"
    if path in _DEVICES:
        return None
    climbs = ".." in path.split("/")
    if facts is None or (climbs and "{" in path):
        return "is outside the workspace" if climbs or path[:1] == "/" else None
    for place in places:
        target = os.path.join(place, path.partition("{")[0])
        files = islice(iglob(target), _MANY) if has_magic(path) else (target,)
        # What is not there cannot be read: patterns and scripts often look like paths.
        if any(not facts.contains(each) and (climbs or os.path.lexists(each)) for each in files):
            return "is outside the workspace"
    return None


def _may_hold_secrets(name: str) -> bool:
    if name[:1] == "." and has_magic(name):
        return any(fnmatchcase(each, name) for each in _SECRETS)
    if name.startswith(".env."):
        return name not in _SAMPLES
    return name in _SECRETS or name.startswith("id_rsa")


def _listing(parts: Sequence[Part]) -> bool:
    """True when all that stands in substitutions lists names of files of the workspace."""
    return all(_lists_names(each) for each in parts if each.nested)


def _lists_names(part: Part) -> bool:
    """True when a part writes nothing but names of files below where it runs, or what it is fed."""
    name = base_name(part.words[0].text) if part.words else ""
    texts = [each.text for each in part.words[1:]]
    if name in _FILTERS:
        return part.stdin_piped and all(each[:1] == "-" or each.isdigit() for each in texts)
    if name == "git":
        return texts[:1] == ["ls-files"]
    return name in _NAMES and not any("printf" in each for each in texts)
