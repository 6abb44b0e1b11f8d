"""What programs look for by themselves in the directory in which they start, or in one that they
are asked to run: as far as they are known by their names. Of one that is not known, a directory
among its words stands for whatever any of them looks for.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from alhena.config.command_words import simple_commands
from alhena.config.programs import (
    BUILD_FILES,
    COMPOSE,
    CONTAINERS,
    ENTRY_FILES,
    FETCHERS,
    IMAGE,
    NODE,
    NODES,
    PACKAGE,
    PLAIN,
    PROJECT,
    PYTHON,
    PYTHONS,
    REGISTRIES,
    SHELLS,
    WRAPPERS,
    program,
    runs_others,
)
from alhena.config.wrapping import outside, wrapped

_FETCHING = frozenset(
    {
        *("-y", "--yes", "-q", "--quiet", "--offline", "--isolated", "--no-cache", "--no-install"),
        *("--prefer-offline", "--prefer-online", "--ignore-existing", "--bun", "--verbose"),
        *("--silent", "--"),
    }
)
_RUNNING = frozenset(
    {
        *("-u", "-B", "-E", "-I", "-s", "-S", "-O", "-OO", "-v", "-b", "-bb", "-d", "-i", "-q"),
        *("--enable-source-maps", "--inspect", "--watch", "--preserve-symlinks", "--no-warnings"),
        *("--no-deprecation", "--trace-warnings", "--trace-deprecation", "--hot", "--bun", "--"),
        *("--experimental-strip-types", "--experimental-transform-types", "-A", "--allow-all"),
    }
)
"""Options that no value comes after, of what fetches programs and of what interprets them; what
comes after others may be one."""
_INLINE = frozenset({"-e", "-p", "-pe", "--eval", "--print"})
_INLINE_PYTHON = re.compile(r"-[bBdEhiIOPqsSuvVx]*[cm].*", re.DOTALL)
"""Options of interpreters with what they run: what comes behind that is for it."""
_MODULE = re.compile(r"-[a-zA-Z]*m|--module|--app|-A")
_GLUED_MODULE = re.compile(r"-[bBdEiIOPqsSuvx]*m([A-Za-z_][\w.]*)|--(?:module|app)=(.+)")
_ATTRIBUTE = re.compile(r"([A-Za-z_][\w.]*):[A-Za-z_]\w*(?:\(.*\))?")
"""How words say which module is run: the next one does, or they do themselves (`srv.main:app`)."""
_BEFORE = re.compile(r"\w+=|[<>{}!]|(then|do|else|if|while)$")
"""What stands before the name of a program in a line."""
_LOCAL = re.compile(
    r"(?:(?:^|@\s*)(?:file|link|portal|git\+file):(?://)?|@\s*(?=\.{1,2}(?:/|$)))(.+)"
)
"""How a package says that it lies in a directory."""
_ELSEWHERE = frozenset({"exec", "x", "dlx"})
_FETCHING_BY = {
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), _ELSEWHERE),
    "pipx": frozenset({"run"}),
    "uv": frozenset({"tool"}),
}
"""What has programs fetch a package that run others, too."""
_MAX_INNER = 12


class Sought(NamedTuple):
    """What the programs of an entry look for: `here` in the directories in which they may start,
    and above; `directories` are words with what is looked for in the directory that each is.
    `unknown`: there is a program that nobody knows, for which its directory may decide, too. `bins`
    are names of programs that are fetched unless the package of the directory has one of that
    name. `words` are such as paths are in, that mean others where they stand."""

    here: frozenset[str]
    directories: tuple[tuple[str, tuple[str, ...]], ...]
    unknown: bool
    bins: frozenset[str]
    words: tuple[str, ...]


def sought(commands: Iterable[Sequence[str]], charge: Callable[[int], None]) -> Sought:
    """What programs look for, of which these are the command lines. `charge` is told how much is
    looked at, and may raise."""
    found = _Found(charge)
    for words in commands:
        found.command(list(words), _MAX_INNER)
    told = ((word, files or ENTRY_FILES) for word, files in found.directories)
    if not found.unknown:
        told = ((word, files) for word, files in found.directories if files)
    return Sought(
        here=frozenset(found.here),
        directories=tuple(dict.fromkeys(told)),
        unknown=found.unknown,
        bins=frozenset(found.bins),
        words=tuple(dict.fromkeys(found.words)),
    )


class _Found:
    def __init__(self, charge: Callable[[int], None]) -> None:
        self._charge = charge
        self._known_to: dict[tuple[str, ...], int] = {}
        self.here: set[str] = set()
        self.bins: set[str] = set()
        self.words: list[str] = []
        self.directories: list[tuple[str, tuple[str, ...]]] = []
        self.unknown = False

    def command(self, words: list[str], depth: int) -> None:
        """Takes note of a command; `depth` is how many more may stand in it."""
        self._charge(1 + len(words) // 4)
        words = words[_begin(words) :]
        key = tuple(words)
        if not words or self._known_to.get(key, -1) >= depth:
            return
        self._known_to[key] = depth
        name, rest = program(words[0]), words[1:]
        self._charge(len(rest) // 4)
        modules = (module.replace(".", "/") for module in _modules(rest))
        self.directories += ((each, PYTHON) for each in modules)
        if depth == 0:
            self._unknown(rest, 0)
        elif name in SHELLS:
            self._shell(rest, depth - 1)
        elif name in WRAPPERS:
            self._wrapper(name, rest, depth - 1)
        elif name == "eval":
            self._lines(" ".join(rest), depth - 1)
        elif name in ("cd", "pushd"):
            self.directories += ((each, ()) for each in rest)
        elif name in CONTAINERS:
            self._container(rest, depth - 1)
        elif not self._known(name, rest, depth - 1) and name not in PLAIN:
            self._unknown(rest, depth - 1)

    def _unknown(self, rest: list[str], depth: int) -> None:
        """A program that nobody knows: what it is told may be run by it."""
        self._charge(len(rest))
        self.unknown = True
        self.directories += ((each, ENTRY_FILES) for each in rest)
        self._told(rest, depth)

    def _told(self, rest: list[str], depth: int) -> None:
        """Words for a program that may run others: a known one among them, with those behind it,
        and one that a line among them begins with."""
        self._charge(len(rest))
        before = ""
        for count, word in enumerate(rest if depth > 0 else ()):
            if re.search(r"\s", word):
                line = re.sub(r"^--?[\w-]+=", "", word)
                self._charge(len(line) // 16)
                for words in simple_commands(line):
                    if any(map(runs_others, words[_begin(words) :][:1])):
                        self.command(words, depth)
            elif runs_others(word) and not (_has_value(before) and count + 1 == len(rest)):
                self.command(rest[count:], depth)
            before = word

    def _shell(self, rest: list[str], depth: int) -> None:
        before = ""
        for count, word in enumerate(rest):
            if re.fullmatch(r"-\w*c", word):
                self._lines(" ".join(rest[count + 1 : count + 2]), depth)
                return
            if not word.startswith(("-", "+")) and before not in ("-o", "+o", "-O", "+O"):
                self.command(rest[count:], depth)
                return
            before = word

    def _wrapper(self, name: str, rest: list[str], depth: int) -> None:
        inner = wrapped(name, rest)
        self.command(inner, depth)
        self._lines(" ".join(each for each in inner[:1] if " " in each), depth)
        self._told(rest, depth)

    def _lines(self, text: str, depth: int) -> None:
        self._charge(len(text) // 16)
        for words in simple_commands(text):
            self.command(words, depth)

    def _container(self, rest: list[str], depth: int) -> None:
        if "compose" in rest:
            self.here.update(COMPOSE)
        if not {"compose", "build", "buildx", "builder", "bake"}.isdisjoint(rest):
            self.here.update(IMAGE)
        meant = outside(rest, self._charge)
        self.words += (each for each, given in zip(meant, rest, strict=True) if each != given)
        parts = (re.match(r"(--entrypoint)=(.*)", each, re.DOTALL) for each in meant)
        told = zip(meant, parts, strict=True)
        self._told([each for word, of in told for each in (of.groups() if of else (word,))], depth)

    def _known(self, name: str, rest: list[str], depth: int) -> bool:
        """Takes note of a program that is known; whether it is."""
        behind = rest if name in FETCHERS else None
        for each in _asked(rest, _FETCHING) if name in _FETCHING_BY else ():
            if rest[each] in _FETCHING_BY[name]:
                behind = rest[each + (2 if name == "uv" else 1) :]
                break
        if behind is not None:
            python = name in ("uv", "uvx", "pipx")
            asked = self._fetched(behind, depth, lines=not python)
            if not python:
                self.here.update(REGISTRIES)
                self.bins.update(asked)
            return True
        if name in PYTHONS or name in NODES:
            self._interpreter(name, rest, depth)
        elif name not in BUILD_FILES:
            return False
        self.here.update(BUILD_FILES.get(name, ()))
        if name in BUILD_FILES:
            self._told(rest, depth)
        if name == "uv" and "run" in rest:
            self._asked(rest[rest.index("run") + 1 :], _RUNNING, (*PROJECT, *PYTHON))
        return True

    def _fetched(self, rest: list[str], depth: int, *, lines: bool) -> list[str]:
        """A program that is fetched, or a package in a directory: the words that may say which.
        `lines`: an option may have a line that is run."""
        asked = self._asked(rest, _FETCHING, PACKAGE)
        for each in asked:
            if lines and rest[each - 1 : each] in (["-c"], ["--call"]):
                self._lines(rest[each], depth)
            package = rest[each].rpartition("@")[0] or rest[each]
            if runs_others(package):
                self.command([package, *rest[each + 1 :]], depth)
        for each in rest[: asked[-1] if asked else None]:
            if lines and each.startswith("--call="):
                self._lines(each.partition("=")[2], depth)
        self._told(rest[asked[0] + 1 :] if asked else [], depth)
        return [rest[each] for each in asked]

    def _interpreter(self, name: str, rest: list[str], depth: int) -> None:
        """What is interpreted: a directory, or a module that is a runner."""
        python = name in PYTHONS
        if "--run" in rest or (name == "deno" and "task" in rest):
            self.here.add("package.json")
        if name in ("bun", "deno", "tsx"):
            rest = [each for each in rest if each not in ("run", "watch")]
        inline = next((count for count, each in enumerate(rest) if _inline(name, each)), len(rest))
        self._asked(rest[:inline], _RUNNING, PYTHON if python else NODE)
        for module in _modules(rest[inline : inline + 2]) if python else ():
            if runs_others(module):
                self.command([module, *rest[inline + 2 :]], depth)
        code = bool(rest[inline:]) and not (python and "m" in rest[inline])
        self._told(rest[:inline] + rest[inline + (2 if code else 1) :], depth)

    def _asked(self, rest: list[str], flags: frozenset[str], files: tuple[str, ...]) -> list[int]:
        """Where what a program is asked to run may stand; `files` are what it looks for there."""
        asked = list(_asked(rest, flags))
        self._charge(len(asked))
        options = rest[: asked[-1] if asked else None]
        told = [rest[each] for each in asked]
        told += (each.partition("=")[2] for each in options if "=" in each)
        self.directories += ((meant, files) for each in told for meant in _places(each))
        return asked


def _begin(words: list[str]) -> int:
    """Where the name of the program stands."""
    return next((count for count, each in enumerate(words) if not _BEFORE.match(each)), len(words))


def _modules(rest: list[str]) -> Iterator[str]:
    """The modules that words may name."""
    for word, after in pairwise([*rest, ""]):
        if _MODULE.fullmatch(word):
            yield after
        elif found := _GLUED_MODULE.fullmatch(word) or _ATTRIBUTE.fullmatch(word):
            yield found[found.lastindex or 0]


def _inline(name: str, word: str) -> bool:
    """Whether an option of an interpreter says itself what is run, or the next word does."""
    if name in PYTHONS:
        return _INLINE_PYTHON.fullmatch(word) is not None
    return word in _INLINE and name != "nodemon"


def _has_value(option: str) -> bool:
    """Whether the word behind this one may be the value of an option."""
    return option.startswith("--") and option != "--" and "=" not in option


def _places(package: str) -> Iterator[str]:
    """The directories that a package may be that is asked for: `file:./srv`, `./srv[all]`."""
    yield package
    found = _LOCAL.search(package)
    plain = re.sub(r"\[[^\[\]]*\]$", "", found[1] if found else package)
    if plain != package:
        yield plain


def _asked(rest: list[str], flags: frozenset[str]) -> Iterator[int]:
    """Where what a program is asked to run may stand: all words up to the first that is certainly
    no value of an option."""
    certain = True
    for count, word in enumerate(rest):
        if word.startswith("-") and word != "-":
            certain = "=" in word or word in flags
            continue
        yield count
        if certain:
            return
        certain = True
