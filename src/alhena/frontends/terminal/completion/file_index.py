"""All paths below a directory, in memory, and a fuzzy search in them.

The search of 200,000 paths has to answer within a few hundredths of a second, in Python, beside a
screen that is drawn: it looks for the text in one long string of all paths, near the top of the
tree first, and goes through paths one by one only where that finds too few.
"""

import os
import subprocess
import threading
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, islice
from pathlib import Path

from alhena.config.settings import FileFilteringSettings

MAX_PATHS = 500_000
OFFERED = 50
FEW = 10
"""Paths with the word in them from which on others are not looked for."""
CANDIDATES = 400
"""Matches of one kind that are compared; there is no need to have them all."""
STALE_S = 5.0
"""Age from which on the paths are read again, in the background, when they are asked for."""
SHARE = 20
"""Times that reading them took, which is their least age then."""
HIDDEN = 35
"""The loss of what lies in a hidden place."""
GIT_S = 20.0
"""Seconds that git may take to list its files."""
_LIST = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
_BOUNDARIES = frozenset("/_-. \n")
Names = tuple[list[str], str, list[int], list[int]]


class FileIndex:
    """The paths below `cwd` that git and .geminiignore do not leave out, as `filtering` says.
    Directories end in a slash. `find` never waits: paths are read in a thread of its own, which
    calls `when_read` once they are known."""

    def __init__(self, cwd: Path, when_read: Callable[[], object] = lambda: None) -> None:
        self._when_read = when_read
        self.filtering = FileFilteringSettings()
        self._cwd = cwd
        self._lock = threading.Lock()
        self._names: Names | None = None
        self._read_at = self._took = 0.0
        self._reading: threading.Thread | None = None
        self._last: tuple[Names | None, str, Sequence[int]] = (None, "", ())

    @property
    def ready(self) -> bool:
        """True once the paths are known."""
        return self._names is not None

    def refresh(self) -> None:
        """Begins to read the paths, unless that was done a moment ago, or is under way."""
        with self._lock:
            if self._reading is not None:
                return
            age = time.monotonic() - self._read_at
            if self._names is not None and age < max(STALE_S, SHARE * self._took):
                return
            self._reading = threading.Thread(target=self._read, name="file index", daemon=True)
            self._reading.start()

    def wait(self) -> None:
        """Waits until the reading that is under way has ended."""
        reading = self._reading
        if reading is not None:
            reading.join()

    def find(self, word: str) -> list[str]:
        """The best paths for a word, the best first; none before the paths are known."""
        names, (known, of, numbers) = self._names, self._last
        if names is None:
            return []
        wanted = fold_word(word)
        among = numbers if known is names and of and wanted.startswith(of) else None
        found, numbers = search(names, wanted, among)
        if numbers is not None:
            self._last = names, wanted, numbers
        return found

    def _read(self) -> None:
        start = time.monotonic()
        try:
            names = index_of(list_paths(self._cwd, self.filtering))
        finally:
            self._reading = None
        self._took = time.monotonic() - start
        first = self._names is None
        self._read_at, self._names = time.monotonic(), names
        if first:
            self._when_read()


def list_paths(cwd: Path, filtering: FileFilteringSettings) -> Iterator[str]:
    """The files and directories below `cwd`, relative, directories with a slash: those of git's
    index and work tree where there is one, else what a walk finds."""
    from alhena.system.ignore import IgnoreRules
    from alhena.system.walk import walk

    git, gemini = filtering.respect_git_ignore, filtering.respect_gemini_ignore
    custom = filtering.custom_ignore_file_paths
    listed = _git_files(cwd) if git else None
    if listed is None:
        rules = IgnoreRules(cwd, git=git, gemini=gemini, environ=os.environ, custom=custom)
        start = len(str(cwd).rstrip("/")) + 1
        listed = (entry.path[start:] for entry in walk(cwd, rules))
    elif custom or (gemini and (cwd / ".geminiignore").is_file()):
        rules = IgnoreRules(cwd, git=False, gemini=gemini, environ=os.environ, custom=custom)
        listed = (each for each in listed if not rules.is_ignored(cwd / each, is_dir=False))
    known: set[str] = set()
    for path in islice(listed, MAX_PATHS):
        yield path
        folder = path.rfind("/")
        while folder > 0 and (name := path[: folder + 1]) not in known:
            known.add(name)
            yield name
            folder = path.rfind("/", 0, folder)


def _git_files(cwd: Path) -> Iterator[str] | None:
    """The files of the repository around `cwd` that lie below it; None where there is none."""
    from alhena.system.environment import shield_memory
    from alhena.system.errors import ProcessStartError
    from alhena.system.own_programs import repository_command

    try:
        command = repository_command(cwd, os.environ, _LIST)
        shield_memory()
        done = subprocess.run(
            command.argv,
            cwd=cwd,
            env=command.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_S,
            check=False,
        )
    except (ProcessStartError, OSError, subprocess.SubprocessError):
        return None
    if done.returncode:
        return None
    names = done.stdout.decode("utf-8", "surrogateescape").split("\0")
    return (each for each in names if each and not each.endswith("/"))


def index_of(paths: Iterator[str]) -> Names:
    """The paths in an order in which the first ones are the likeliest: their texts in lower case
    in one string, where each begins, and the characters that each has."""
    levels: defaultdict[int, list[str]] = defaultdict(list)
    for path in paths:
        levels[path.count("/", 0, -1)].append(path)
    found: list[str] = []
    for level in sorted(levels):  # a level at a time: sorting keeps keys waiting
        found += sorted(levels[level])
    folded = [each.casefold() for each in found]
    starts = [0, *accumulate(len(each) + 1 for each in folded)]
    return found, "\n".join(["", *folded, ""]), starts, [_characters(each) for each in folded]


def _characters(text: str) -> int:
    """A number with a bit for each character, as far as 30 bits tell."""
    bits = 0
    for char in set(text):
        bits |= 1 << (ord(char) % 30)
    return bits


def fold_word(word: str) -> str:
    """A word as it is searched."""
    return word.casefold().replace("\\", "")


def search(
    names: Names, wanted: str, among: Sequence[int] | None = None
) -> tuple[list[str], Sequence[int] | None]:
    """The paths that a folded word means, the best first: whose name begins with it, has it, whose
    path has it, or, where these are few, has its characters in order, at beginnings of words
    rather than in them. Also all that have these (None: they were not looked for), `among` which
    are those of a longer word."""
    paths, text, starts, _ = names
    if not wanted:
        return paths[:OFFERED], None
    in_order: Sequence[int] | None = None

    def loss(number: int) -> int:
        hidden = text.find("/.", starts[number], starts[number + 1]) >= 0
        hidden = hidden or text.startswith(".", starts[number] + 1)
        return HIDDEN if hidden and not wanted.startswith(".") else 0

    ranked: dict[int, tuple[float, int]] = {}
    for at in _occurrences(text, wanted):
        number = bisect_right(starts, at - 1) - 1
        score = _score_part(text, at, wanted, starts[number + 1]) - loss(number)
        if number not in ranked or score > ranked[number][0]:
            ranked[number] = (score, number)
    if len(ranked) < FEW and len(wanted) > 1:
        in_order = _in_order(names, wanted, among)
        for number in in_order:
            if number not in ranked:
                path = text[starts[number] + 1 : starts[number + 1]]
                ranked[number] = (_score_letters(path, wanted) - loss(number), number)
    best = sorted(ranked.values(), key=lambda each: (-each[0], each[1]))
    if in_order is not None and len(in_order) == CANDIDATES:
        in_order = None  # not all of them
    return [paths[number] for _, number in best[:OFFERED]], in_order


def _occurrences(text: str, wanted: str) -> Iterator[int]:
    """Offsets of the word in the paths: at the beginning of names, then anywhere."""
    for begun in (f"\n{wanted}", f"/{wanted}", wanted):
        at, count, skip = text.find(begun), 0, len(begun) - len(wanted)
        while at >= 0 and count < CANDIDATES:
            yield at + skip
            count += 1
            at = text.find(begun, at + 1)


def _score_part(text: str, at: int, wanted: str, end: int) -> float:
    """The worth of a word that a path has as it is; `end` is the path's end."""
    start = text.rfind("\n", 0, at) + 1
    name = text.rfind("/", start, end - 1) + 1 or start
    before = text[at - 1]
    score = 100.0 if at >= name else 60.0 if before in "/\n" else 40.0
    score += 40 if at == name else 20 if before in _BOUNDARIES else 0
    rest = text[at + len(wanted) : end].rstrip("/")
    if at >= name and not rest.partition(".")[0]:
        score += 30
    if not rest:
        score += 20 if at >= name else 0
    if at == start and not rest:
        score += 200  # the path itself
    return score - (end - start) / 100


def _in_order(names: Names, wanted: str, among: Iterable[int] | None) -> list[int]:
    """Numbers of the first CANDIDATES paths that have the characters of a word in order."""
    _, text, starts, characters = names
    bits = _characters(wanted)
    if among is None:
        among = (number for number, has in enumerate(characters) if has & bits == bits)
    find = text.find
    found: list[int] = []
    for number in among:
        at, end = starts[number], starts[number + 1]
        for char in wanted:
            at = find(char, at + 1, end)
            if at < 0:
                break
        else:
            found.append(number)
            if len(found) == CANDIDATES:
                break
    return found


def _score_letters(path: str, wanted: str) -> float:
    """The worth of characters in order: more at beginnings of words and next to each other."""
    at, score, last = 0, 0.0, -2
    name = path.rstrip("/").rfind("/") + 1
    for char in wanted:
        begins = next(
            (
                each
                for each in _positions(path, char, at)
                if each in (0, name) or path[each - 1] in _BOUNDARIES
            ),
            -1,
        )
        plain = path.find(char, at)
        if plain < 0:
            return score - 20
        place = plain if plain == last + 1 or begins < 0 else begins
        score += 3 if place == last + 1 else 5 if place == begins else 0
        score += 1 if place >= name else 0
        last, at = place, place + 1
    return score - len(path) / 100


def _positions(path: str, char: str, start: int) -> Iterator[int]:
    at = path.find(char, start)
    while at >= 0:
        yield at
        at = path.find(char, at + 1)
