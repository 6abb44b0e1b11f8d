"""The files that a command which only reads may show: those of the workspace, but no secrets."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from glob import has_magic, iglob
from itertools import islice

import msgspec

from alhena.policy.surroundings import Surroundings
from alhena.policy.trees import DIVIDING, TreeExtent, tree_refusal
from alhena.shell.command import FILES, Role, operands_of, options_of, plays
from alhena.shell.languages.git_reading import GIT, may_show_remotes, searches_as_they_are
from alhena.shell.languages.listings import lists_names, lists_tracked, names_found
from alhena.shell.options import ANYTHING, base_name
from alhena.shell.parse.model import Effect, Part, Word, WordKind
from alhena.shell.readonly import (
    Arguments,
    add_input,
    adds_input,
    is_inert,
    not_read_only,
    read_strictly,
)
from alhena.shell.secret_files import may_match_secret
from alhena.shell.tables import FileRole, listed, main_name

_KNOWN = {"HOME": "~", "?": "", "#": ""}
_SHOWN = {**_KNOWN, **dict.fromkeys(("USER", "SHELL", "LANG", "TERM", "PATH"), "")}
"""Variables that may be shown, but whose value is no known name of a file."""
_VARIABLE = re.compile(r"\$(?:\w+|[?#]|\{\w+\})")
_UNQUOTED = str.maketrans("", "", "\"'")
_DEVICES = re.compile(r"/dev/(?:null|stdin|stdout|stderr|fd/\d+)")
_SYSTEM = ("/proc/", "/dev/")
"""Places whose files are no files: environments of processes, devices without an end."""
_PLAIN_GLOB = re.compile(r"[\w.*?-]+")
_MANY = 10_000
_MAX_UNKNOWN = 256
_MAX_WORD = 4096
_TEXTS = frozenset({Role.PATTERN, Role.SCRIPT})


def leaves_workspace(
    part: Part,
    parts: Sequence[Part],
    places: set[str] | None,
    facts: Surroundings | None,
    arguments: Arguments | None = None,
) -> str | None:
    """The reason why a part of a command line may read outside the workspace, or a secret; None
    when it does not. `places` are the directories it may run in, None where they are not known;
    `arguments` those of the part, where they are read already."""
    if places is None:
        return "it runs in a directory that is outside the workspace or not known"
    if not adds_input(part):
        return _FilesRead(part, parts, places, facts, arguments).refusal()
    name, *words = part.words
    added = add_input(main_name(base_name(name.text)), words)
    lists = _listing_parts(part, parts)
    if isinstance(added, str) or not lists:
        return f"{name.text} has the files named by a list or by the input"
    # As if bash put the names in: `wc -l $(find …)`.
    source = f"$({' | '.join(each.text for each in lists)})"
    names = Word("", WordKind.EXPANSION, source, split=True)
    command = tuple(names if word is ANYTHING else word for word in added.words)
    nested = [each for each in parts if each.nested]
    nested += [msgspec.structs.replace(each, nested=True) for each in lists]
    read = _FilesRead(msgspec.structs.replace(part, words=command), nested, places, facts)
    read.dividing = added.dividing
    return read.refusal()


def _listing_parts(part: Part, parts: Sequence[Part]) -> list[Part]:
    """The parts that may write what a part reads from a pipe; none when that is not known."""
    own = [at for at, each in enumerate(parts) if each == part]
    fed = any(each.operator.startswith("<") for each in part.redirections)
    if not own or not part.stdin_piped or fed:
        return []
    before = [each for each in parts[: own[-1]] if not (each.nested or is_inert(each))]
    return before if all(each.directories == part.directories for each in before) else []


def file_words(part: Part) -> list[Word] | None:
    """The words of a part that may name files; None when it may do more than read, so that any of
    its words may."""
    if not_read_only(part) is not None or adds_input(part):
        return None
    read = _FilesRead(part, (), set(), None)
    if read.has(FileRole.LISTS):
        return None
    return [] if read.only_text else [word for word, _ in read.words()]


def searched_secrets(
    part: Part, parts: Sequence[Part], places: set[str], facts: Surroundings
) -> str | None:
    """The reason why a part that only reads may show secrets in directories that it searches."""
    read = _FilesRead(part, parts, places, facts)
    return read.refuse_trees([word for word, _ in read.words()])


class _FilesRead:
    """The files that one part reads. `start` are the directories of the shell, `places` those of
    the program, which differ with `git -C`."""

    def __init__(
        self,
        part: Part,
        parts: Sequence[Part],
        start: set[str],
        facts: Surroundings | None,
        arguments: Arguments | None = None,
    ) -> None:
        self.part, self.parts, self.start, self.facts = part, parts, start, facts
        self.arguments = arguments or read_strictly(part)
        self.name = base_name(part.words[0].text) if part.words else ""
        self.only_text = self.name in listed("takes_text")
        self.dividing = DIVIDING
        self.places = start
        for move in self.arguments.moves if self.arguments else ():
            joined = {os.path.join(place, move) for place in self.places}
            self.places = {facts.real(each) if facts else each for each in joined}

    def refusal(self) -> str | None:
        for each in self.part.redirections:
            quoted = set(each.source) & {"'", '"', "\\"}
            shown = each.source if each.operator == "<<<" else "" if quoted else each.body or ""
            if each.operator.startswith("<<") and "$" in shown:
                return f"{each.source} may show variables"
        words = list(self.words())
        unknown = [word for word, _ in words if not word.literal]
        if len(unknown) > _MAX_UNKNOWN or any(len(word.source) > _MAX_WORD for word in unknown):
            return "there are very many patterns and expansions"
        for role, clause in (
            (FileRole.LISTS, "has the files named by a list or by the input"),
            (FileRole.SHOWS, "may show secrets"),
        ):
            if self.has(role):
                return f"{self.name} {clause}"
        credentials = self._shown_credentials()
        if credentials is not None:
            return f"{self.name} may show the credentials in {credentials}"
        for word, free in words:
            refusal = self._refuse(word, free=free)
            if refusal is not None:
                return refusal
        return self.refuse_trees([word for word, _ in words]) or self._refuse_listed(unknown)

    def has(self, role: FileRole) -> bool:
        return self.arguments is not None and plays(self.arguments, role)

    def _shown_credentials(self) -> str | None:
        """The file with credentials of git that the command may show."""
        given = self.arguments
        if given is None or self.facts is None or not self.has(FileRole.ADDRESSES):
            return None
        if not may_show_remotes(given.key, given.given):
            return None
        return next(filter(None, map(self.facts.address_credentials, self.places)), None)

    @cached_property
    def content(self) -> bool:
        """Does the program read contents, not only names?"""
        given = self.arguments
        if given is None:
            return self.name not in listed("asks_names") and not self.only_text
        return (
            not self.only_text and "names" not in given.table.form and not self.has(FileRole.NAMES)
        )

    def words(self) -> Iterator[tuple[Word, bool]]:
        """The words that may name files, each with: may bash make options of it?"""
        if self.arguments is None:
            yield from ((word, False) for word in self.part.words[1:])
        else:
            yield from self._of_table(self.arguments)
        for each in self.part.redirections:
            if each.effect is not Effect.NONE and each.target:
                yield each.target, False

    def _of_table(self, arguments: Arguments) -> Iterator[tuple[Word, bool]]:
        given, form = arguments.given, arguments.table.form
        for at, operand in enumerate(operands_of(arguments)):
            if operand.role not in _TEXTS:
                yield operand.word, at < given.ended and "guarded" not in form
        for option in options_of(arguments):
            if option.value is not None and option.role in FILES:
                yield option.value, not option.sure
        yield from ((value, False) for value in given.late)

    def _refuse(self, word: Word, *, free: bool) -> str | None:
        texts = self._texts(word)
        if texts is None:
            return f"{word.source} is only known when it runs"
        if self.only_text:
            # A glob may show names of files beyond a link.
            globs = [] if word.literal else [os.path.dirname(e) for e in texts if has_magic(e)]
            refusal = self._refuse_paths(word, globs)
            return refusal and f"{word.source} {refusal}"
        shown = word.source or word.text
        marks = "-" if free and not word.literal else ""
        if self.arguments is not None and self.arguments.table.at_files:
            marks += "@"
        for text in texts:
            if self._may_begin(text, marks):
                return f"{shown} could be an option"
        refusal = self._refuse_paths(word, [each for text in texts for each in _paths(text)])
        return refusal and f"{shown} {refusal}"

    def _may_begin(self, text: str, marks: str) -> bool:
        """May a text, expanded in the file system as it is, begin with one of these marks?"""
        if not marks or text == "-":
            return False
        if text and text[0] in marks:
            return True
        if self.facts is None or text[:1] not in {"*", "?", "["}:
            return False
        top = _superset(text.partition("/")[0])
        return any(
            name[:1] in marks
            for place in self.start
            for name in _names(place)
            if fnmatchcase(name, top)
        )

    def _texts(self, word: Word) -> list[str] | None:
        """The texts that bash may make of a word, its globs left as they are; None when these are
        not known."""
        if word.literal:
            return [word.text]
        source = word.source
        listed_names = ("$(" in source or "`" in source) and not self.only_text
        dashed = word.text[:1] == "-" and not self.only_text
        if dashed or (listed_names and not all(lists_names(e) for e in self.parts if e.nested)):
            return None
        if word.kind is WordKind.PATTERN:
            return None if "{" in source else [_unquoted(source)]
        bare = _without_substitutions(source)
        if bare is None:
            return None
        if not self.only_text and (
            "\\" in bare or "'" in bare or (bare.strip('"') and bare != source)
        ):
            return None
        texts = [bare.translate(_UNQUOTED)]
        for name in {each.strip("${}") for each in _VARIABLE.findall(texts[0])}:
            values = self._values(name)
            texts = [_put(text, name, value) for text in texts for value in values]
            if len(texts) > _MANY:
                return None
        if any("$" in text for text in texts):
            return None
        return [each for text in texts for each in text.split()] if word.split else texts

    def _values(self, name: str) -> list[str]:
        """The possible values of a variable; `$` for an unknown one."""
        loops = dict(self.part.loops)
        if name not in loops:
            if name == "PWD":
                return sorted(self.start) if self.facts else ["."]
            return [(_SHOWN if self.only_text else _KNOWN).get(name, "$")]
        inner = msgspec.structs.replace(self.part, loops=())
        outer = _FilesRead(inner, self.parts, self.start, self.facts)
        found = [outer._texts(word) for word in loops[name]]
        return [value for values in found for value in (["$"] if values is None else values)]

    def _refuse_paths(self, word: Word, paths: Iterable[str]) -> str | None:
        facts = self.facts
        if word.kind is WordKind.PATTERN and word.text[:1] == "/":
            # What it matches now says nothing of what it matches when it runs.
            top = facts and facts.real(word.text)
            if facts is None or top == "/" or not facts.contains(word.text):
                return "is outside the workspace"
        for text in paths:
            path = os.path.expanduser(text)
            if not path or _DEVICES.fullmatch(path):
                continue
            if text[:1] == "~" and path == text:
                return "is outside the workspace"
            if self.content and _is_secret(path):
                return "may hold secrets"
            refusal = self._refuse_path(word, path)
            if refusal is not None:
                return refusal
        return None

    def _refuse_path(self, word: Word, path: str) -> str | None:
        facts, content = self.facts, self.content
        climbs = ".." in path.split("/")
        if facts is None:
            return "is outside the workspace" if climbs or path[:1] == "/" else None
        if os.path.isabs(path) and not facts.contains(path) and _lies_somewhere(path):
            return "is outside the workspace"
        for place in self.places:
            found = self._matches(place, path)
            if len(found) > _MANY:
                return "matches very many files"
            divided = [each for each in found if word.split and word.kind is WordKind.EXPANSION]
            if any(set(os.path.relpath(each, place)) & DIVIDING for each in divided[1:]):
                return "may be a name with blanks, which bash divides; quote it"
            for each in found:
                # What is not there cannot be read: patterns and scripts often look like paths.
                there = os.path.lexists(each)
                if not (climbs or there or "/proc" in each or "/dev" in each):
                    continue
                real = facts.real(each)
                outside = (climbs or there) and not facts.contains(real)
                if outside or f"{real}/".startswith(_SYSTEM) or (content and real == "/"):
                    return "is outside the workspace"
                if content and there and any(map(may_match_secret, _below(real, place))):
                    return "leads to what may hold secrets"
        return None

    def _matches(self, place: str, path: str) -> Sequence[str]:
        """The paths that a text may mean in a place, as the file system is now; itself first. A
        glob is the shell's, or that of git."""
        target = os.path.join(place, path)
        if not has_magic(path):
            return (target,)
        tops = dict.fromkeys((place, *self.start))
        found = [e for top in tops for e in islice(iglob(_superset(path), root_dir=top), _MANY + 1)]
        return (target, *(os.path.join(top, each) for each in found for top in tops))

    def refuse_trees(self, words: Sequence[Word]) -> str | None:
        """The reason why directories may not be read with all that is below."""
        facts, given = self.facts, self.arguments
        if facts is None or given is None:
            return None
        trees = self.has(FileRole.TREES)
        if not trees and FileRole.TREES in given.table.files and searches_as_they_are(given.key):
            # Where there is no repository, git compares and searches directories as they are.
            trees = not all(map(facts.repository, self.places))
        if not trees:
            return self._refuse_tracked() if self.has(FileRole.TRACKED) else None
        only, without = self._selection(given)
        reach = TreeExtent(
            content=self.content,
            hidden=self.has(FileRole.HIDDEN),
            follows=self.has(FileRole.FOLLOWS),
            only=only,
            without=without,
        )
        if not (reach.content or reach.follows):
            return None
        paths = [text for word in words for text in self._texts(word) or ()]
        found = [
            each
            for place in self.places
            for path in paths
            for each in self._matches(place, os.path.expanduser(path))
            if path and os.path.lexists(each)
        ]
        tops = [each for each in found if os.path.isdir(each)]
        if self._may_begin_here(given, found):
            tops += self.places
        refusal = tree_refusal(tops, reach, facts)
        return refusal and f"{self.name} goes through directories, and {refusal}"

    def _may_begin_here(self, given: Arguments, found: Sequence[str]) -> bool:
        """May the program go through the working directory, no other being named?"""
        files = given.table.files
        operands = [each.word for each in operands_of(given) if each.role not in _TEXTS]
        if FileRole.TRACKED in files or ("expression" in given.table.form and not found):
            return True
        # The first word that is not literal may be the pattern, and one that may be nothing counts
        # for none.
        pattern = FileRole.PATTERN in files and not given.given.has(*files[FileRole.PATTERN])
        sure = sum(word.kind is not WordKind.EXPANSION or not word.split for word in operands)
        return sure <= (pattern and len(operands) == len(given.given.operands))

    def _selection(self, given: Arguments) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names that options choose and leave out; where both are given, the order would
        decide, and nothing is left out."""
        files = given.table.files
        only: list[str] = []
        without: list[str] = []
        for option in options_of(given):
            if option.value is None:
                continue
            plain = self._glob(option.value).removeprefix("!")
            if option.name in files.get(FileRole.WITHOUT, ()) or option.value.text[:1] == "!":
                without.append(plain)
            elif option.name in files.get(FileRole.ONLY, ()):
                name = plain.rpartition("/")[2]
                only.append(name if _PLAIN_GLOB.fullmatch(name) else "*")
        if only:
            return ("*",) if without else tuple(only), ()
        return (), tuple(each for each in without if _PLAIN_GLOB.fullmatch(each))

    def _glob(self, value: Word) -> str:
        """The text of a glob that bash leaves to the program; empty when it may be another."""
        if value.literal:
            return value.text
        names = [name for place in self.start for name in _names(place)]
        left = value.kind is WordKind.PATTERN and not any(name[:1] == "-" for name in names)
        return value.source if left else ""

    def _refuse_tracked(self) -> str | None:
        given, facts = self.arguments, self.facts
        if given is None or facts is None:
            return None
        operands = given.given.operands
        if operands and not given.given.has(*given.table.files.get(FileRole.PATTERN, ())):
            operands = operands[1:]
        return _refuse_tracked(self.places, operands, facts)

    def _refuse_listed(self, unknown: Iterable[Word]) -> str | None:
        """The reason why names of files that substitutions list may not be read."""
        loops = [word for _, words in self.part.loops for word in words]
        sources = [word.source for word in (*unknown, *loops)]
        if self.only_text or not any("$(" in each or "`" in each for each in sources):
            return None
        for part in self.parts:
            name = base_name(part.words[0].text) if part.words else ""
            if part.nested and self.facts is not None and name not in listed("sorts_names"):
                refusal = self._refuse_list(part, self.facts)
                if refusal is not None:
                    return f"among the names that {part.text} lists, {refusal}"
        return None

    def _refuse_list(self, part: Part, facts: Surroundings) -> str | None:
        if lists_tracked(part):
            return _refuse_tracked(self.start, part.words[2:], facts, words=self.dividing)
        names = names_found(part)
        reach = TreeExtent(
            content=self.content,
            follows=True,
            only=names.only,
            words=self.dividing,
            dashes=names.below,
        )
        texts = [word.text for word in part.words[1:] if word.literal]
        tops = [os.path.join(place, text) for place in self.start for text in (".", *texts)]
        return tree_refusal(filter(os.path.isdir, tops), reach, facts)


def _refuse_tracked(
    places: Iterable[str],
    operands: Sequence[Word],
    facts: Surroundings,
    words: frozenset[str] = frozenset(),
) -> str | None:
    """The reason why the files that git tracks below a place may not be read, as far as the
    operands choose them. With `words`: through links, too, and by their names as words."""
    reach = TreeExtent(follows=bool(words), words=words)
    for place in places:
        tracked = facts.tracked_files(place)
        if tracked is None:
            return f"{GIT} tracks files that are not known"
        here = f"{facts.real(place)}/"
        for path in tracked:
            chosen = path.startswith(here) and _may_mean(path[len(here) :], place, operands)
            refusal = reach.refuse(path, facts, path[len(here) :]) if chosen else None
            if refusal is not None:
                return refusal
    return None


def _may_mean(relative: str, place: str, operands: Sequence[Word]) -> bool:
    """May the operands of git mean this file? All files, unless each of them is a plain path."""
    for word in operands:
        text = word.text.rstrip("/")
        if not word.literal or text[:1] in {"-", ":"} or text in {"", "."} or ".." in text:
            return True
        if has_magic(text):
            if not _PLAIN_GLOB.fullmatch(text.replace("/", "")) or fnmatchcase(relative, text):
                return True
        elif not os.path.lexists(os.path.join(place, text)) or f"{relative}/".startswith(
            f"{text}/"
        ):
            return True
    return not operands


def _paths(text: str) -> Iterator[str]:
    """The paths that a text may name: itself, and PATH in git's REVISION:PATH."""
    yield text
    if ":" in text:
        yield from text.split(":")[1:]


def _put(text: str, name: str, value: str) -> str:
    return re.sub(rf"\$(?:\{{{re.escape(name)}\}}|{re.escape(name)}(?!\w))", lambda _: value, text)


def _unquoted(source: str) -> str:
    """A glob as bash reads it, with what is quoted as brackets of one character."""
    found: list[str] = []
    quote = ""
    at = 0
    while at < len(source):
        mark = source[at]
        if mark in {"'", '"'} and quote in {"", mark}:
            quote = "" if quote else mark
        elif mark == "\\" and quote != "'":
            at += 1
            found.append(_escaped(source[at : at + 1]))
        else:
            found.append(_escaped(mark) if quote else mark)
        at += 1
    return "".join(found)


def _escaped(mark: str) -> str:
    return f"[{mark}]" if mark in {"*", "?", "["} else mark


def _superset(pattern: str) -> str:
    """A glob of Python that matches at least what bash's matches: brackets differ."""
    parts = pattern.split("/")
    return "/".join(part.partition("[")[0] + "*" if "[" in part else part for part in parts)


def _without_substitutions(source: str) -> str | None:
    """A word without its substitutions; None when their ends are not known."""
    found: list[str] = []
    at = 0
    while at < len(source):
        if source.startswith(("$(", "<(", ">("), at):
            depth, at = 1, at + 2
            while depth and at < len(source):
                depth += {"(": 1, ")": -1}.get(source[at], 0)
                at += 1
            if depth:
                return None
        elif source[at] == "`":
            at = source.find("`", at + 1) + 1
            if not at:
                return None
        else:
            found.append(source[at])
            at += 1
    return None if {"(", ")"} & set(found) else "".join(found)


def _names(place: str) -> list[str]:
    try:
        return os.listdir(place)
    except OSError:
        return []


def _is_secret(path: str) -> bool:
    names = path.split("/")
    return any(map(may_match_secret, names)) or names[-2:] == [".git", "config"]


def _lies_somewhere(path: str) -> bool:
    """True when a whole path begins in a directory of this machine."""
    first = path.lstrip("/").partition("/")[0]
    return not first or os.path.isdir(f"/{first}")


def _below(real: str, place: str) -> list[str]:
    return os.path.relpath(real, os.path.realpath(place)).split("/")
