"""What the words say that come behind programs that run others: options and their values taken
away, and paths within a container as they are outside of it."""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from alhena.config.command_words import simple_commands

_VALUED: dict[str, tuple[str, frozenset[str]]] = {
    "env": ("uCP", frozenset({"--unset", "--chdir"})),
    "sudo": (
        "ughpCrtTDRU",
        frozenset(
            {
                *("--user", "--group", "--host", "--prompt", "--close-from", "--role", "--type"),
                *("--command-timeout", "--chdir", "--chroot", "--other-user"),
            }
        ),
    ),
    "doas": ("uCa", frozenset()),
    "nice": ("n", frozenset({"--adjustment"})),
    "ionice": ("cnpPu", frozenset({"--class", "--classdata", "--pid", "--pgid", "--uid"})),
    "timeout": ("ks", frozenset({"--kill-after", "--signal"})),
    "time": ("fo", frozenset({"--format", "--output"})),
    "stdbuf": ("ioe", frozenset({"--input", "--output", "--error"})),
    "exec": ("a", frozenset()),
    "caffeinate": ("tw", frozenset()),
    "chrt": ("TPD", frozenset({"--sched-runtime", "--sched-period", "--sched-deadline"})),
}
"""Of programs that run others: the letters of options that have a value, and such as are words."""
_LINE = re.compile(r"-[i0v]*S(.*)|--split-string(?:=(.*))?", re.DOTALL)
_MOUNTED = re.compile(r"(?:-v|--volume)(?:=(.*))?|-v(.+)", re.DOTALL)
_SOURCES, _TARGETS = ("source", "src"), ("target", "destination", "dst")


def wrapped(name: str, rest: list[str]) -> list[str]:
    """The command that comes after the name of a program that runs others, and its options."""
    letters, options = _VALUED.get(name, ("", frozenset[str]()))
    words = _with_line(rest) if name == "env" else rest
    value = False
    for count, word in enumerate(words):
        if value:
            value = False
        elif word.startswith("-") and word != "-":
            value = word in options or _ends_valued(word, letters)
        elif "=" not in word and not re.fullmatch(r"[\d.]+[a-z]?", word):
            return words[count:]
    return []


def outside(rest: list[str], charge: Callable[[int], None]) -> list[str]:
    """The words that come after the name of a program of containers, with the paths in directories
    that it mounts as they are outside. `charge` is told how much is looked at, and may raise."""
    charge(len(rest))
    mounts = {target: source for source, target in _mounts(rest)}
    if not mounts:
        return rest
    told = "|".join(map(re.escape, sorted(mounts, key=len, reverse=True)))
    within = re.compile(rf"(?<![\w./-])(?:{told})(?![\w.-])")

    def as_outside(found: re.Match[str]) -> str:
        source = mounts[found[0]]
        charge(1 + len(source) // 8)
        return source

    charge(len(mounts) * sum(1 + len(each) // 64 for each in rest))
    return [within.sub(as_outside, each) for each in rest]


def _with_line(rest: list[str]) -> list[str]:
    """The words of `env` with the line in its place that -S has it take apart."""
    for count, word in enumerate(rest):
        if found := _LINE.fullmatch(word):
            line, behind = found[1] or found[2], rest[count + 1 :]
            if not line:
                line, behind = "".join(behind[:1]), behind[1:]
            told = (each for words in simple_commands(line) for each in words)
            return [*rest[:count], *told, *behind]
    return rest


def _ends_valued(word: str, letters: str) -> bool:
    """Whether the next word is the value of the last of these options of a letter."""
    found = re.fullmatch(r"-([^-].*)", word, re.DOTALL)
    valued = [count for count, each in enumerate(found[1]) if each in letters] if found else []
    return bool(found and valued and valued[0] == len(found[1]) - 1)


def _mounts(rest: list[str]) -> Iterator[tuple[str, str]]:
    """The directories outside that are mounted, each with its path within."""
    for word, after in pairwise([*rest, ""]):
        if found := _MOUNTED.fullmatch(word):
            source, _, target = (found[1] or found[2] or after).partition(":")
            target = target.partition(":")[0]
        elif word == "--mount" or word.startswith("--mount="):
            told = word.partition("=")[2] or after
            pairs = (each.partition("=") for each in told.split(","))
            members = {name: value for name, _, value in pairs}
            source = next((members[each] for each in _SOURCES if each in members), "")
            target = next((members[each] for each in _TARGETS if each in members), "")
        else:
            continue
        # What has no slash is the name of a volume.
        if target.strip("/") and target.startswith("/") and re.search(r"^[.~]|[/$]", source):
            yield source.rstrip("/") or "/", target.rstrip("/")
