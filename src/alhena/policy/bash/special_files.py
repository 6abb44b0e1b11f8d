"""Places that are more than files: devices may have no end, processes hold environments.

What a word names is taken from how it is written; a name that a variable or another command gives
is taken for a file's.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from posixpath import normpath

from alhena.policy.bash.model import Word, WordKind
from alhena.policy.bash.readonly_words import listed

_OPEN_PLACES = frozenset({"/dev/null", "/dev/stdin"})
_OPEN_PROC = listed(
    "cgroups cmdline cpuinfo diskstats filesystems loadavg meminfo modules mounts net partitions "
    "stat swaps sys uptime version vmstat"
)
_PROCESSES = ("self", "thread-self", "1", "4242")
_ENDLESS = listed("zero full random urandom tty ptmx console kmsg mem port")
_MAX_SPELLINGS = 64
_MAX_STEPS = 256
_MAX_DEPTH = 8
_MAX_WORD = 4096
_MAX_NAME = 256
_ANYWHERE = "/*/*/*"
_INNERMOST = r"\{([^{}]*)\}"
_EXPANSION = (
    r"\$\(\([^()]*\)\)|\$\([^()]*\)|`[^`]*`|\$\{[^{}]*\}|\$[A-Za-z_][A-Za-z0-9_]*|\$[0-9@*#?$!-]"
)
_WITHIN = r"/[^\s\"'`;|&()<>{}:]*"


def closed_place(word: Word) -> str | None:
    """The reason why reading what this word names, or an option in it, is more than reading a file,
    as one clause, else None."""
    text = word.text
    if word.literal:
        if "dev" not in text and "proc" not in text:
            return None
        return _refusal(_names(text), word)
    source = word.source
    if "/" not in source:
        return None
    if len(source) > _MAX_WORD:
        return "a very long word could name a device"
    for spelling in _spellings(word):
        refusal = _refusal(spelling, word)
        if refusal is not None:
            return refusal
    return None


def reads_all(word: Word) -> bool:
    """Does a search in what this word names come by every process and device?"""
    return word.literal and word.text[:1] == "/" and normpath(word.text).strip("/") == ""


def _names(text: str) -> str:
    """The path in a word: behind a short option or a `=`, or all of it."""
    start = text.find("/")
    before = text[: max(start, 0)]
    if before.endswith("=") or (len(before) == 2 and before[0] == "-"):
        return text[start:]
    return text


def _spellings(word: Word) -> Iterator[str]:
    """Possible names in a word that is not all known, its expansions left out and by themselves."""
    bare = re.sub(r"""["'\\]""", "", word.source)
    if word.kind is WordKind.EXPANSION:
        within = ""
        for _ in range(_MAX_DEPTH):  # from the inside out
            found = _expansion().findall(bare)
            if not found:
                break
            within += " ".join(found)
            bare = _expansion().sub("", bare)
        else:
            yield _ANYWHERE
        yield from _within().findall(within)
    yield from map(_names, _unbraced(bare))


def _unbraced(text: str) -> list[str]:
    """The words that a brace list becomes, innermost first; more than a few are taken for a
    pattern."""
    done: list[str] = []
    waiting = [text]
    steps = 0
    while waiting:
        steps += 1
        if len(waiting) + len(done) > _MAX_SPELLINGS or steps > _MAX_STEPS:
            return [_ANYWHERE]
        each = waiting.pop()
        match = _innermost().search(each)
        if match is None:
            done.append(each)
            continue
        before, inner, after = each[: match.start()], match[1], each[match.end() :]
        options = inner.split(",") if "," in inner else ["*" if ".." in inner else inner]
        waiting += [before + option + after for option in options]
    return done


def _refusal(path: str, word: Word) -> str | None:
    shown = word.source or word.text
    absolute = path[:1] == "/"
    parts = normpath(path.lstrip("/") if absolute else path).split("/")
    climbs = not absolute and parts[0] == ".."
    parts = parts[next((at for at, part in enumerate(parts) if part != ".."), len(parts)) :]
    if not parts:
        return None
    if absolute:
        if parts[0] == "proc" and (len(parts) == 1 or parts[1] not in _OPEN_PROC):
            return f"{shown} may show the environment of a process"
        if parts[0] == "dev" and not _is_open_device("/" + "/".join(parts)):
            return f"{shown} names a device"
    # Only at the top can a pattern be what is told here; further down it would lead through a
    # symbolic link.
    top = absolute or climbs
    for at in range(len(parts) - 2):
        if _is_named(parts[at], "proc", pattern=top and at == 0) and _is_process(parts[at + 1]):
            return f"{shown} may show the environment of a process"
    in_dev = len(parts) > 1 and _is_named(parts[-2], "dev", pattern=top and len(parts) == 2)
    if in_dev and any(_fits(parts[-1], device) for device in _ENDLESS):
        return f"{shown} names a device"
    return None


def _is_open_device(path: str) -> bool:
    return path in _OPEN_PLACES or path.startswith("/dev/fd/")


def _is_named(part: str, name: str, *, pattern: bool) -> bool:
    return part == name or (pattern and _fits(part, name))


def _is_process(part: str) -> bool:
    return part.isdecimal() or any(_fits(part, process) for process in _PROCESSES)


def _fits(pattern: str, name: str) -> bool:
    """Could a glob be this name? A bracket counts as any character, and extended patterns as any
    text: never too strict."""
    if "(" in pattern or len(pattern) > _MAX_NAME:
        return True
    at = start = resume = 0
    star = -1
    pattern = re.sub(r"\[\]?[^\]]*\]", "?", pattern) if "[" in pattern else pattern
    for _ in range((len(pattern) + 1) * (len(name) + 1)):
        if start == len(name):
            return not pattern[at:].strip("*")
        if at < len(pattern) and pattern[at] == "*":
            star, resume = at, start
            at += 1
        elif at < len(pattern) and pattern[at] in ("?", name[start]):
            at, start = at + 1, start + 1
        elif star >= 0:
            resume += 1
            at, start = star + 1, resume
        else:
            return False
    return True


@lru_cache(maxsize=1)
def _innermost() -> "re.Pattern[str]":
    return re.compile(_INNERMOST)


@lru_cache(maxsize=1)
def _expansion() -> "re.Pattern[str]":
    return re.compile(_EXPANSION)


@lru_cache(maxsize=1)
def _within() -> "re.Pattern[str]":
    return re.compile(_WITHIN)
