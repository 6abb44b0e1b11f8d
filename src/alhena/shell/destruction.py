"""Commands that remove or overwrite what lies beyond the workspace.

A rule without condition does not speak of them. A target has to lie surely inside the workspace,
or below a temporary directory; one that is only known when the command runs does not.
"""

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from glob import escape, iglob
from itertools import islice
from typing import Protocol

from alhena.shell.arguments import operand_words
from alhena.shell.languages.git_commands import git_place
from alhena.shell.languages.interpreters import file_scripts
from alhena.shell.languages.listings import (
    Written,
    cuts_names,
    lists_or_passes,
    search_roots,
    tells_name,
    written_directory,
)
from alhena.shell.languages.sed_awk import files_of_script
from alhena.shell.options import (
    ANYTHING,
    base_name,
    option_values,
)
from alhena.shell.outputs import Removal, removals_of, removing
from alhena.shell.parse.expansion import NAME, PLACE, STAR, UnknownError, Variables
from alhena.shell.parse.model import Effect, Part, Redirection, Word, WordKind
from alhena.shell.reach import Reach, Reached
from alhena.shell.reach import reach as find_commands
from alhena.shell.shell_changes import ShellChanges, redefines
from alhena.shell.tables import Program, listed, main_name, program, removal

_HARMLESS = re.compile(r"/dev/(?:null|stdin|stdout|stderr|tty|fd/\d+)|/dev/shm/.+", re.DOTALL)
_TEMPORARY = ("/tmp/", "/var/tmp/")  # noqa: S108 - what is below is made to be removed
_TOPS = ("/", "/tmp", "/var", "/var/tmp")  # noqa: S108
_MANY = 1000
_FEW = 16
_EXPANSION = re.compile(r"\$\w+|\$\{[^{}]*\}|^\"|\"$")
_FROM_HERE = re.compile(rf"\.{{0,2}}/|\.\.?\Z|{PLACE}")
_GIT_PLACES = ("GIT_WORK_TREE", "GIT_DIR")
_GIT_SETTINGS = ("GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_GLOBAL")
_NOWHERE = "/\ue003"
_HOME = re.compile(r"(?:~|\$HOME|\$\{HOME\})(?:/|\Z)")


class Workspace(Protocol):
    """The directory that a line starts in, and those that it may change: absolute paths."""

    @property
    def cwd(self) -> str:
        """The directory in which commands run unless they say otherwise."""
        ...

    @property
    def roots(self) -> tuple[str, ...]:
        """The directories in which files may be removed and overwritten."""
        ...

    def real(self, path: str) -> str:
        """`path` with symbolic links resolved, as far as it exists."""
        ...


def may_destroy(command: str) -> bool:
    """Does a text that cannot be read hold a redirection, or the name of a program that removes or
    overwrites files?"""
    names = re.findall(r"[\w.+-]+", command)
    return ">" in command or any(removal(name) is not None for name in names)


class Destruction:
    """Judges the parts of one command line by the paths that they remove or overwrite. `start` is
    the directory that the line begins in."""

    def __init__(self, changes: ShellChanges, facts: Workspace | None, start: str) -> None:
        self._changes = changes
        self._parts = changes.parts
        self._facts = facts
        self._start = os.path.normpath(os.path.join(facts.cwd if facts else _NOWHERE, start))
        self._home = os.path.expanduser("~")
        self._unknown = Variables((), self._written_by, known=False)
        self._variables: Variables | None = None
        self._lost: dict[bool, bool] = {}
        self._part: Part | None = None
        self._words: set[int] = set()
        self._places: set[str] | None = None
        self._absolute: set[str] = set()  # the places that the line spells from the root

    def of(self, part: Part, reach: Reach) -> str | None:
        """The reason why a part, which may come down to `reach`, destroys something beyond the
        workspace or may do so; None when it does not."""
        changed = self._changes.changes_meaning(part)
        if changed is not None:
            return changed
        self._part = part
        self._words = {id(word) for word in (*part.words, *part.directories)}
        self._words |= {id(each.target) for each in part.redirections}
        self._places = self._follow_directories(part.directories)
        for redirection in (*part.redirections, *reach.redirections):
            refusal = self._judge_redirection(redirection)
            if refusal is not None:
                return refusal
        for command in reach.commands:
            self._places = self._follow_directories(command.directories)
            refusal = self._of_command(command, part, reach)
            if refusal is not None:
                return refusal
        return None

    def _judge_redirection(self, redirection: Redirection) -> str | None:
        target = redirection.target
        if redirection.effect is not Effect.WRITE or target is None or redirection.operator == "<":
            return None
        return self._refuse_path(target, redirection.source, "writes to")

    def _of_command(self, command: Reached, part: Part, reach: Reach) -> str | None:
        words = self._with_options(command.words)
        if not command.sure:
            words = tuple(map(_expanded, words))
        if words[0].literal:
            return self._of_words(words, command, part, reach)
        refusal = self._of_unknown(words)
        for begun in self._possible_heads(words[0]) if refusal is None else ():
            inner = Part(text=part.text, words=(*begun, *words[1:]), stdin_piped=part.stdin_piped)
            for each in find_commands(inner).commands:
                known = each.words[0].literal
                refusal = refusal or (
                    self._of_words(each.words, each, part, reach) if known else None
                )
        return refusal

    def _possible_heads(self, word: Word) -> Iterator[tuple[Word, ...]]:
        """The words that a command may begin with in place of one that is not literal."""
        try:
            texts = self._texts(word)[:_FEW]
        except UnknownError:
            return
        for at in range(len(texts)):
            yield tuple(map(Word, texts[at:]))

    def _with_options(self, words: tuple[Word, ...]) -> tuple[Word, ...]:
        """The words, with the options that variables are known to hold."""
        found: list[Word] = []
        for word in words:
            try:
                texts = [] if word.literal or word.text else self._texts(word)
            except UnknownError:
                texts = []
            dashed = any(text[:1] == "-" for text in texts)
            found += map(Word, texts) if dashed else [word]
        return tuple(found)

    def _of_words(
        self, words: tuple[Word, ...], command: Reached, part: Part, reach: Reach
    ) -> str | None:
        redefined = redefines(words) if command.sure else None
        if redefined is not None:
            return redefined
        name = main_name(base_name(words[0].text))
        key, behind = self._key(name, words)
        known = removals_of(name, key)
        spoils = any(each.operands != "none" for each in known)  # more than by an option
        if spoils and command.words is not part.words:
            refusal = self._run_by(key, command, reach)
            if refusal is not None:
                return refusal
        for each in known:
            refusal = self._judge_removal(each, key, behind, command, (part, reach))
            if refusal is not None:
                return refusal
        return self._of_script(name, words) or (self._judge_links(words) if spoils else None)

    def _of_script(self, name: str, words: tuple[Word, ...]) -> str | None:
        """The reason why a script of sed or awk writes beyond the workspace."""
        for script in file_scripts(name, words):
            try:
                texts = self._texts(script)
            except UnknownError:
                texts = [_EXPANSION.sub(NAME, script.source)]
            for file in (file for text in texts for file in files_of_script(name, text)):
                if file is None:
                    return f"{name} writes to a file that is only known when it runs"
                refusal = self._refuse_path(Word(file), name, "writes to")
                if refusal is not None:
                    return refusal
        return None

    def _run_by(self, key: str, command: Reached, reach: Reach) -> str | None:
        """The reason why what is removed is not known, going by what runs the command."""
        if reach.unread:
            return f"{key} is run by code that is only known when it runs ({reach.unread[0]})"
        via = command.via.split(" ")[0]
        if via not in listed("finders"):
            return None
        for each in reach.commands:
            if base_name(each.words[0].text) == via:
                refusal = self._judge_search(each.words, f"{key} in {via}")
                if refusal is not None:
                    return refusal
        return None

    def _judge_search(self, words: tuple[Word, ...], shown: str) -> str | None:
        if any(word.text in {"-L", "-follow", "--follow"} for word in words):
            return f"{shown} follows links, wherever they lead"
        refusals = (self._refuse_path(root, shown, "reaches") for root in search_roots(words))
        return next(filter(None, refusals), None)

    def _of_unknown(self, words: tuple[Word, ...]) -> str | None:
        for word in words[1:]:
            shown = word.source or word.text
            try:
                if any(self._holds(path) for path, _ in self._paths(word)):
                    return f"{shown} contains more than the workspace"
            except UnknownError:
                continue
        return None

    def _key(self, name: str, words: tuple[Word, ...]) -> tuple[str, tuple[Word, ...]]:
        """The program with its subcommands, as far as it is known to destroy with them, and the
        words from there; for git, the place becomes the one that it works in."""
        if name in listed("options_before"):
            given = [each for of in _GIT_PLACES for each in self._known_variables.values(of)]
            self._places = self._follow_moves((*git_place(words), *given))
            if any(map(self._known_variables.sets, _GIT_SETTINGS)):
                self._places = None
        return removing(name, words)

    def _judge_removal(
        self,
        known: Removal,
        key: str,
        words: tuple[Word, ...],
        command: Reached,
        around: tuple[Part, Reach],
    ) -> str | None:
        uses = known.read(words)
        if not known.applies(uses):
            return None
        if known.operands == "always":
            return f"{key} changes more than files of the workspace"
        if known.operands == "roots" and not known.here:
            return self._judge_search(words, key)
        for word in (each for each in known.targets(uses) if each.text != "-"):
            entry = known.entries and not word.source.endswith(("/", "/.", '/"', "/'"))
            refusal = self._target(word, key, command, around, entry=entry)
            if refusal is not None:
                return refusal
        return self._moved_away(key, uses.operands) if known.away else None

    def _target(
        self, word: Word, key: str, command: Reached, around: tuple[Part, Reach], *, entry: bool
    ) -> str | None:
        part, reach = around
        via = command.via.split(" ")[0]
        if not word.literal and (word is ANYTHING or "{" in word.source):
            if via in listed("adds_input") and not self._lists(part, reach):
                return f"{key} removes what it reads the names of, which are not known"
            if via in listed("adds_input") or via in listed("finders"):
                return self._beside_found(word, key)
        if key.rsplit(" ", maxsplit=1)[-1] in listed("copies_remotely") and re.match(
            r"[^/]*:", word.text
        ):
            deletes = key in listed("mirrors") and any(
                w.text.startswith("--del") for w in command.words
            )
            return f"{key} removes files at {word.text}" if deletes else None
        return self._refuse_path(word, key, "removes or overwrites", entry=entry)

    def _beside_found(self, word: Word, key: str) -> str | None:
        """The reason why a word that holds the name of a found file leads away from it."""
        before, mark, after = word.source.partition("{")
        if ".." in after.split("/"):
            return f"{key} removes {word.source}, which is only known when it runs"
        return (
            self._refuse_path(Word(f"{before}{NAME}"), key, "removes") if mark and before else None
        )

    def _moved_away(self, key: str, operands: list[Word]) -> str | None:
        """The reason why a command takes away more than a file of the user's own."""
        for word in operands[:-1]:
            shown = word.source or word.text
            try:
                paths = self._paths(word)
            except UnknownError:
                continue
            for path, spelled in paths:
                own = f"{path}/".startswith(f"{self._home}/") and "/." not in path
                if self._is_outside(path, spelled, entry=True) and (
                    not own or os.path.isdir(path) or STAR in path
                ):
                    return f"{key} takes away {shown}, outside the workspace"
        return None

    def _judge_links(self, words: tuple[Word, ...]) -> str | None:
        """A link that the line makes may lead what is removed elsewhere."""
        for each in self._changes.commands:
            name = base_name(each[0].text)
            if name in listed("links") and each != words:
                operands = operand_words(program(name) or Program(), each)
                for target in operands[:-1] or each[1:]:
                    if self._refuse_path(target, name, "links") is not None:
                        shown = target.source or target.text
                        return f"the line links to {shown}, outside the workspace"
        return None

    def _refuse_path(self, word: Word, shown: str, does: str, *, entry: bool = False) -> str | None:
        written = word.source or word.text
        if shown.endswith(written):
            shown = shown.removesuffix(written).strip() or shown
        try:
            paths = self._paths(word)
        except UnknownError:
            unknown = "in a directory that" if word.literal else "which"
            return f"{shown} {does} {written}, {unknown} is only known when it runs"
        for path, spelled in paths:
            if self._is_outside(path, spelled, entry=entry):
                return f"{shown} {does} {written}, outside the workspace"
        return None

    def _texts(self, word: Word) -> list[str]:
        variables = self._known_variables if id(word) in self._words else self._unknown
        return variables.texts(word)

    def _paths(self, word: Word) -> list[tuple[str, str]]:
        """The paths that a word may become, and how the line spells each. Raises UnknownError."""
        inside = id(word) not in self._words
        found: list[tuple[str, str]] = []
        for text in self._texts(word):
            if os.path.isabs(text):
                found.append((text, text))
            elif self._places is None or self._is_lost(inside=inside):
                raise UnknownError
            else:
                for place in self._places:
                    path = os.path.join(place, text.replace(PLACE, place))
                    found.append((path, path if place in self._absolute else text))
        if len(found) > _MANY:
            raise UnknownError
        return found

    @property
    def _known_variables(self) -> Variables:
        if self._variables is None:
            self._variables = self._unknown  # to a substitution that decides which command runs
            self._variables = self._changes.variables(self._written_by)
        return self._variables

    def _is_lost(self, *, inside: bool) -> bool:
        part = self._part
        if part is not None and inside not in self._lost:
            self._lost[inside] = True  # to a substitution that decides which command runs
            self._lost[inside] = self._changes.hides_directory(
                part, self._known_variables, inside=inside
            )
        return self._lost.get(inside, False)

    def _is_outside(self, path: str, spelled: str, *, entry: bool) -> bool:
        names = path.split("/")
        path = "/".join(".." if _may_climb(name) else name for name in names)
        if entry:
            above, _, last = path.rstrip("/").rpartition("/")
            there = os.path.join(self._real(above or "/"), last)
            if STAR not in above and last not in {"..", ".", "", STAR}:
                return self._lies_outside(there, spelled) or self._may_match_above(there)
        if self._lies_outside(self._real(path.replace(STAR, NAME)), spelled):
            return True
        if STAR not in path:
            return False
        globs, slash, rest = path[: path.rindex(STAR) + 1], "", path[path.rindex(STAR) + 1 :]
        name, slash, rest = rest.partition("/")
        there = list(islice(iglob("*".join(map(escape, f"{globs}{name}".split(STAR)))), _MANY))
        return len(there) == _MANY or any(
            self._is_outside(f"{each}{slash}{rest}", spelled, entry=entry) for each in there
        )

    def _lies_outside(self, real: str, spelled: str) -> bool:
        if _HARMLESS.fullmatch(real) or _HARMLESS.fullmatch(spelled):
            return False
        if self._contains(real) and not (STAR in spelled and real in self._roots):
            return False
        climbs = not os.path.isabs(spelled) or ".." in spelled.split("/")
        temporary = not climbs and f"{real}/".startswith(_TEMPORARY)
        if not temporary or f"{real}/" in _TEMPORARY or self._holds(real):
            return True
        besides = [self._home, *map(os.path.dirname, self._roots)]
        return any(f"{real}/".startswith(f"{top}/") for top in besides if top not in _TOPS)

    @property
    def _roots(self) -> tuple[str, ...]:
        return self._facts.roots if self._facts is not None else (_NOWHERE,)

    def _contains(self, real: str) -> bool:
        return any(f"{real}/".startswith(f"{top.rstrip('/')}/") for top in self._roots)

    def _real(self, path: str) -> str:
        return self._facts.real(path) if self._facts is not None else os.path.normpath(path)

    def _holds(self, path: str) -> bool:
        """True when a path is the home directory, or above it or above the workspace."""
        below = f"{os.path.normpath(path).rstrip('/')}/"
        return any(f"{each}/".startswith(below) for each in (self._home, *self._roots))

    def _may_match_above(self, pattern: str) -> bool:
        """May a glob match the home directory, the workspace or a directory above them?"""
        if STAR not in pattern:
            return False
        count, glob = pattern.count("/"), pattern.replace("[", "[[]").replace(STAR, "*")
        tops = ("/".join(each.split("/")[: count + 1]) for each in (self._home, *self._roots))
        return any(fnmatchcase(top, glob) for top in tops)

    def _follow_directories(self, directories: tuple[Word, ...]) -> set[str] | None:
        """The directories a shell may be in after these changes, None when they are not known."""
        self._places = {self._start}
        self._places = self._follow_moves(directories)
        return self._places

    def _follow_moves(self, directories: tuple[Word, ...]) -> set[str] | None:
        for word in directories:
            here = self._places
            try:
                spelled = self._paths(word)
            except UnknownError:
                return None
            paths = [path for path, _ in spelled]
            self._absolute |= {os.path.normpath(p) for p, text in spelled if os.path.isabs(text)}
            unsure = word.text == "-" or any(STAR in path for path in paths)
            if unsure or any(map(self._is_searched, self._texts(word))):
                return None
            # A shell keeps the links in its directory, or with `-P` does not.
            after = {os.path.normpath(path) for path in paths} | set(map(self._real, paths))
            if not all(map(os.path.isdir, after)):
                if here is None:
                    return None
                after |= here  # the change may fail, and what follows runs here
            if len(after) > _MANY:
                return None
            self._places = after
        return self._places

    def _is_searched(self, target: str) -> bool:
        """May `cd` find a directory elsewhere, in CDPATH or behind a name that is not known?"""
        if _FROM_HERE.match(target) is not None:
            return False
        return NAME in target or self._known_variables.may_set("CDPATH")

    def _written_by(self, code: str) -> list[str]:
        """The texts that a substitution may write. Raises UnknownError."""
        from alhena.shell.parse.analysis import analyse

        found = analyse(code)
        words = found.parts[0].words if found.parts else ()
        unsure = found.doubts or self._changes.defines_functions() or ".." in code
        if not found.complete or unsure or not words:
            raise UnknownError
        texts = [word.text for word in words if word.literal]
        if len(found.parts) == 1:
            written = written_directory(texts)
            if written is Written.PLACE:
                return [PLACE]
            if written is Written.REPOSITORY:
                return list(map(self._top, self._places or set()))
            if written is Written.TEMPORARY:
                return [f"{_TEMPORARY[0]}{NAME}"]
            if self._writes_name(words):
                return [NAME]
        if all(self._lists_inside(part) for part in found.parts):
            return [NAME]
        raise UnknownError

    def _writes_name(self, words: tuple[Word, ...]) -> bool:
        """True when a command surely writes a name without slashes that is not `..`."""
        if cuts_names(words):
            given = (text for word in words[1:] for text in self._known_variables.texts(word))
            return not any(".." in text or text == "/" for text in given)
        return tells_name(words)

    def _top(self, place: str) -> str:
        while not os.path.lexists(os.path.join(place, ".git")):
            place, before = os.path.dirname(place), place
            if place == before:
                raise UnknownError
        return place

    def _lists(self, part: Part, reach: Reach) -> bool:
        """True when what the part reads can only be names of files of the workspace."""
        for each in reach.commands:
            if any(True for _ in option_values(each.words, "a", "arg-file")):
                return False
        if any(each.operator.startswith("<") for each in part.redirections):
            return False
        own = [at for at, each in enumerate(self._parts) if each == part]
        earlier = self._parts[: own[-1]] if own else ()
        return not part.stdin_piped or (bool(earlier) and all(map(self._lists_inside, earlier)))

    def _lists_inside(self, part: Part) -> bool:
        """True when a part writes nothing but names of files of the workspace, or what it reads."""
        found = lists_or_passes(part)
        if found is not None:
            return found
        words, name = part.words, base_name(part.words[0].text)
        before, self._places = self._places, {self._start}
        self._places = self._follow_moves(part.directories)
        roots = search_roots(words)
        found = all(self._refuse_path(root, name, "reaches") is None for root in roots)
        self._places = before
        return found


def _expanded(word: Word) -> Word:
    """A guessed word that names the home directory, as the shell that gets it expands it."""
    leads = word.literal and _HOME.match(word.text)
    return Word("", WordKind.EXPANSION, word.text) if leads else word


def _may_climb(name: str) -> bool:
    """May a pattern match the directory above? Old versions of bash look for it, too."""
    return STAR in name and name[0] == "." and fnmatchcase("..", name.replace(STAR, "*"))
