"""The places that a command line works in: the workspace, or beyond it."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from glob import has_magic, iglob
from itertools import islice, pairwise
from typing import TYPE_CHECKING

import msgspec

from alhena.policy.bash.model import Effect, Part, Word, WordKind
from alhena.policy.bash.options import base_name, first_operands, global_options, option_values
from alhena.policy.bash.reach import Command
from alhena.policy.bash.readonly import not_read_only, refuse_git
from alhena.policy.model import PolicyCall
from alhena.policy.programs import tells_version
from alhena.policy.surroundings import GitUse, Surroundings
from alhena.system.secret_files import NAMES as SECRET_NAMES
from alhena.system.secret_files import is_secret_name, may_hold_secrets

if TYPE_CHECKING:
    from alhena.policy.bash.reach import Reach

_PATTERN_FIRST = frozenset({"grep", "egrep", "fgrep", "rg", "sed", "awk", "gawk", "mawk", "jq"})
"""Programs whose first operand is a pattern or script, unless an option gives that."""
_RESPONSE_FILES = frozenset({"nm", "objdump", "readelf", "size", "strings", "c++filt", "addr2line"})
"""Programs that take more arguments, plugins among them, from a file by `@FILE`."""
_FOLLOWS = {"grep": "R", "egrep": "R", "fgrep": "R", "rg": "L", "find": "L", "tree": "l", "ls": "L"}
"""Letters by which a program goes through links, wherever these lead."""
_SEARCHES = {"grep": "rR", "egrep": "rR", "fgrep": "rR", "rg": "u."}
"""Letters by which a search reads hidden files, too."""
_TAKE_TEXT = frozenset({"basename", "dirname", "echo", "printf", "seq"})
"""Programs that open none of their operands."""
_NAME_ONLY = frozenset({"ls", "stat", "test", "["})
"""Programs that read no content of files."""
_KNOWN = {
    "HOME": "~",
    "PWD": ".",
    **dict.fromkeys(("USER", "SHELL", "LANG", "TERM", "PATH", "?", "#"), ""),
}
_SUBSTITUTION = re.compile(r"`[^`]*`|[$<]\(.*\)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\w+|[?#]|\{\w+\})")
_UNQUOTED = str.maketrans("", "", "\"'")
_DEVICES = re.compile(r"/dev/(?:null|stdin|stdout|stderr|fd/\d+)")
_SYSTEM = ("/proc/", "/dev/")
"""Places whose files are no files: environments of processes, devices without an end."""
_MANY = 1000
_MAX_UNKNOWN = 256
_MAX_WORD = 4096
_NAMES = frozenset({"find", "fd", "ls"})
_FILTERS = frozenset({"sort", "uniq", "head", "tail"})


def leaves_workspace(
    part: Part, parts: Sequence[Part], places: set[str] | None, facts: Surroundings | None
) -> str | None:
    """The reason why a part of a command line may read outside the workspace, or a secret; None
    when it does not. `places` are the directories it may run in, None where they are not known."""
    if places is None:
        return "it runs in a directory that is outside the workspace or not known"
    files = tuple(_files(part))
    unknown = [word for word in files if not word.literal]
    if len(unknown) > _MAX_UNKNOWN or any(len(word.source) > _MAX_WORD for word in unknown):
        return "there are very many patterns and expansions"
    name = base_name(part.words[0].text) if part.words else ""
    if name == "xargs" and not all(each is part or _lists_names(each) for each in parts):
        return "xargs reads the files that its input names"
    found = _by_options(name, part.words[1:], places)
    if found is not None:
        return found
    for each in part.redirections:
        quoted = set(each.source) & {"'", '"', "\\"}
        shown = each.source if each.operator == "<<<" else "" if quoted else each.body or ""
        if each.operator.startswith("<<") and "$" in shown:
            return f"{each.source} may show variables"
    only_text = name in _TAKE_TEXT
    listed = only_text or _listing(parts)
    for word in files:
        texts = list(_texts(word, part, listed))
        if None in texts:
            return f"{word.source} is only known when it runs"
        refusal = None if only_text else _refusal(word, texts, places, facts, name)
        if refusal is not None:
            return f"{word.source or word.text} {refusal}"
    return None


def _by_options(name: str, words: Sequence[Word], places: set[str]) -> str | None:
    """The reason why the options of a program may have it read more than its words name."""
    letters = {
        letter for each in words if each.text[:1] == "-" != each.text[1:2] for letter in each.text
    }
    long = {each.text.partition("=")[0] for each in words if each.text[:2] == "--"}
    if name in _RESPONSE_FILES and any(each.text[:1] == "@" for each in words):
        return "an @file may name plugins"
    if letters & set(_FOLLOWS.get(name, "")) or (
        name in _FOLLOWS and long & {"--follow", "--dereference-recursive"}
    ):
        return f"{name} follows links, wherever they lead"
    if name == "git" and any(each.text == "config" for each in words[:3]):
        named = long & {"--global", "--system", "--list", "--blob", "--file"}
        if named or letters & set("lf"):
            return "the configuration may hold secrets"
    hidden = letters & set(_SEARCHES.get(name, "")) or "--recursive" in long or "--hidden" in long
    globs = name == "rg" and ("g" in letters or long & {"--glob", "--iglob", "--no-ignore"})
    if name in _SEARCHES and (hidden or globs):
        for place in places:
            with suppress(OSError):
                secret = next((each for each in os.listdir(place) if _may_hold_secrets(each)), None)
                if secret is not None:
                    return f"the search may read {secret}"
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
    texts = [word.text if word.literal else word.source.translate(_UNQUOTED)]
    if word.kind is WordKind.PATTERN and "{" in word.source:
        yield None
        return
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
        if text[:1] == "-":  # a value may be attached, behind any number of letters
            yield from (text[2:], text.partition("=")[2])
            yield from (text[at:] for at in range(2, len(text)) if text[at] in "/~.")
        if ":" in text:  # REVISION:PATH of git
            yield from text.split(":")[1:]


def _values(name: str, part: Part, listed: bool) -> list[str]:
    """The possible values of a variable; `$` for an unknown one."""
    words = dict(part.loops).get(name)
    if words is None:
        return [_KNOWN.get(name, "$")]
    values: list[str] = []
    for word in words:
        texts = _texts(word, msgspec.structs.replace(part, loops=()), listed)
        values += ["$" if text is None else text for text in texts]
    return values


def _put(text: str, name: str, value: str) -> str:
    return re.sub(rf"\$(?:\{{{re.escape(name)}\}}|{re.escape(name)}(?!\w))", lambda _: value, text)


def _refusal(
    word: Word, texts: Iterable[str | None], places: set[str], facts: Surroundings | None, name: str
) -> str | None:
    """The reason why a program of this name may not read one of the paths in a word."""
    if word.kind is WordKind.PATTERN and word.text[:1] == "/":
        # What it matches now says nothing of what it matches when it runs.
        top = facts and facts.real(word.text)
        if facts is None or top == "/" or not facts.contains(word.text):
            return "is outside the workspace"
    content = name not in _NAME_ONLY
    for text in texts:
        path = os.path.expanduser(text or "")
        if not path or _DEVICES.fullmatch(path):
            continue
        if text and text[:1] == "~" and path == text:
            return "is outside the workspace"
        if content and (may_hold_secrets(path) or any(map(_may_hold_secrets, path.split("/")))):
            return "may hold secrets"
        refusal = _of_path(path, places, facts, content=content)
        if refusal is not None:
            return refusal
    return None


def _of_path(
    path: str, places: set[str], facts: Surroundings | None, *, content: bool
) -> str | None:
    climbs = ".." in path.split("/")
    if facts is None:
        return "is outside the workspace" if climbs or path[:1] == "/" else None
    if os.path.isabs(path) and not facts.contains(path) and _lies_somewhere(path):
        return "is outside the workspace"
    for place in places:
        target = os.path.join(place, path)
        for each in islice(iglob(target), _MANY) if has_magic(path) else (target,):
            # What is not there cannot be read: patterns and scripts often look like paths.
            there = os.path.lexists(each)
            if not (climbs or there or "/proc" in each or "/dev" in each):
                continue
            real = facts.real(each)
            outside = (climbs or there) and not facts.contains(real)
            if outside or f"{real}/".startswith(_SYSTEM) or (content and real == "/"):
                return "is outside the workspace"
            if content and there and any(map(_may_hold_secrets, _below(real, place))):
                return "leads to what may hold secrets"
    return None


def _lies_somewhere(path: str) -> bool:
    """True when a whole path begins in a directory of this machine."""
    first = path.lstrip("/").partition("/")[0]
    return not first or os.path.isdir(f"/{first}")


def _below(real: str, place: str) -> list[str]:
    return os.path.relpath(real, os.path.realpath(place)).split("/")


def _may_hold_secrets(name: str) -> bool:
    if name[:1] == "." and has_magic(name):
        return any(fnmatchcase(each, name) for each in SECRET_NAMES)
    return is_secret_name(name)


def _listing(parts: Sequence[Part]) -> bool:
    """True when all substitutions list names of files of the workspace."""
    return all(_lists_names(each) for each in parts if each.nested)


def _lists_names(part: Part) -> bool:
    """True when a part writes nothing but names of files below where it runs, or what it is fed."""
    name = base_name(part.words[0].text) if part.words else ""
    texts = [each.text for each in part.words[1:]]
    if name in _FILTERS:
        return part.stdin_piped and all(each[:1] == "-" or each.isdigit() for each in texts)
    flags = {letter for each in texts if each[:1] == "-" != each[1:2] for letter in each}
    if name == "git":
        return texts[:1] == ["ls-files"]
    if name == "find":
        wanted = [v for o, v in pairwise(texts) if o in {"-name", "-iname"}]
        plain = wanted and not any(fnmatchcase(each, v) for each in SECRET_NAMES for v in wanted)
        return bool(plain) and not any("printf" in each for each in texts)
    return name in _NAMES and not flags & set("aAHu") and not any("hidden" in e for e in texts)


_REMOVES = frozenset({"rm", "rmdir", "shred", "truncate", "unlink"})
_RECURSIVE = frozenset({"chgrp", "chmod", "chown"})
_FORMATS = frozenset(
    {"blkdiscard", "fdisk", "mke2fs", "mkswap", "parted", "sfdisk", "sgdisk", "wipefs"}
)
_WRITES = frozenset({"cp", "dd", "install", "mv", "tee"})
_FINDERS = frozenset({"fd", "find", "locate", "ls"})
_HOME = re.compile(r"^\$(HOME\b|\{HOME\})")
_ONLY_VARIABLES = re.compile(r"(\$\w+|\$\{\w+\}|/|\*)+")
_HARMLESS = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/fd/", "/dev/shm/")  # noqa: S108
_TEMPORARY = ("/tmp/", "/var/tmp/")  # noqa: S108 - what is below is made to be removed


def destroys(
    commands: Iterable[Command],
    part: Part,
    parts: Sequence[Part],
    place: str | None,
    facts: Surroundings | None,
) -> str | None:
    """The reason why commands would destroy something beyond the workspace, None when they surely
    or probably do not. `parts` is the whole line; `place` is where `part` runs, None where that is
    outside or unknown."""
    for each in part.redirections:
        if each.effect is Effect.WRITE and each.target and _is_device(each.target.text):
            return f"{each.source} writes to a device"
    values = {each.name: each.value for item in parts for each in item.assignments}
    for command in commands:
        name = base_name(command.words[0].text) if command.words else ""
        if name in _FORMATS or name.startswith("mkfs"):
            return f"{name} formats a device"
        targets = (each.text.removeprefix("of=") for each in command.words[1:])
        if name in _WRITES and any(map(_is_device, targets)):
            return f"{name} writes to a device"
        for word in _removed(name, command, parts):
            known = values.get(word.source.strip('"${}'), word)
            if _is_outside(known, place, facts):
                return f"{name} removes {word.source or word.text}, outside the workspace"
            if "/" in word.source and _ONLY_VARIABLES.fullmatch(word.source.replace('"', "")):
                return f"{name} removes everything if the variable in {word.source} is empty"
        unknown = command.words and not command.words[0].literal
        for word in command.words[1:] if unknown else command.words[1:-1] if name == "mv" else ():
            if _is_outside(word, place, facts) and _holds(word.text or "~", place):
                return f"{word.source or word.text} contains more than the workspace"
    return None


def _removed(name: str, command: Command, parts: Sequence[Part]) -> Sequence[Word]:
    """The words of a command that name what it removes or changes with everything below."""
    words = command.words[1:]
    texts = {each.text for each in words}
    operands = [each for each in words if each.text[:1] != "-"]
    letters = {letter for each in texts if each[:1] == "-" != each[1:2] for letter in each}
    if name in _REMOVES:
        if command.via.startswith("xargs"):
            found = (each.words for each in parts if each.words)
            return [word for each in found if base_name(each[0].text) in _FINDERS for word in each]
        return operands
    if name in _RECURSIVE:
        return operands if letters & {"R"} or "--recursive" in texts else ()
    if name == "find":
        return words[:1] if texts & {"-delete", "rm"} else ()
    if name == "rsync":
        return operands[-1:] if any(each.startswith("--del") for each in texts) else ()
    if name == "tar":
        return operands if "--remove-files" in texts else ()
    if name == GIT:
        return list(option_values(command.words, "C", "")) if "clean" in texts else ()
    return ()


def _holds(text: str, place: str | None) -> bool:
    """True when a path is the home directory, or above it or above the place."""
    path = os.path.normpath(os.path.join(place or "/", os.path.expanduser(text)))
    below = f"{path.rstrip('/')}/"
    return any(f"{each}/".startswith(below) for each in (place, os.path.expanduser("~")) if each)


def _is_device(text: str) -> bool:
    return text.startswith("/dev/") and not text.startswith(_HARMLESS)


def _is_outside(word: Word, place: str | None, facts: Surroundings | None) -> bool:
    text = word.text
    if word.source.startswith("~") or not text:
        text = _HOME.sub("~", word.source.strip('"'))
    if "{" in word.source and word.kind is WordKind.PATTERN:
        inner = re.split(r"[{},]", word.source)
        return any(_is_outside(Word(each, source=each), place, facts) for each in inner if each)
    if not text or "$" in text:  # known only when it runs
        return False
    path = os.path.expanduser(text)
    if place is None and not os.path.isabs(path):
        return True
    path = os.path.normpath(os.path.join(place or "/", path))
    if facts is not None and facts.contains(path):
        return False
    if f"{path}/".startswith(_TEMPORARY) and f"{path}/" not in _TEMPORARY:
        return _holds(path, place)
    return facts is not None or os.path.isabs(text) or text[:1] == "~" or ".." in text.split("/")


MAX_PLACES = 16
CHANGES_DIRECTORY = "cd"
GIT = "git"
TRUST = "to trust it: alhena trust"
_WRITE_NOTHING = frozenset({CHANGES_DIRECTORY, "[[", "exit", "break", "continue"})
_GIT_WRITES = frozenset(
    {
        *("add", "branch", "checkout", "commit", "fetch", "merge", "pull", "push", "reset"),
        *("restore", "rm", "stash", "switch", "tag"),
    }
)
_WRITES_INDEX = frozenset({"add", "diff", "rm", "status"})
"""Subcommands of git that run no hook but post-index-change."""


class Places:
    """The directories of one call, whose command line has these `parts`. Without surroundings
    nothing is known but that the call begins in the working directory."""

    def __init__(
        self, call: PolicyCall, surroundings: "Surroundings | None", parts: Sequence[Part]
    ) -> None:
        self.surroundings = surroundings
        self._parts = parts
        given = call.args.get("directory") or call.args.get("dir_path")
        self._given = given if isinstance(given, str) else None

    def changes_within(self, part: Part) -> bool:
        """Is this a `cd` to a directory of the workspace, wherever it may begin?"""
        words = part.words
        if len(words) != 2 or not all(word.literal for word in words):
            return False
        return self._reached((*part.directories, words[1])) is not None

    def objection(self, part: Part, reach: "Reach") -> str | None:
        """The reason why a rule cannot speak for this part, which may come down to `reach`, where
        it runs; None when the place is no matter."""
        if part.directories and self._reached(part.directories) is None:
            return "it runs in a directory that is outside the workspace or not known"
        for command in reach.commands:
            words = command.words
            if _uses_git(words):
                refusal = self._of_git(part, words)
                if refusal is not None:
                    return refusal
        return None

    def leaves(self, part: Part) -> str | None:
        """The reason why a part that only reads may read outside the workspace, or secrets."""
        reached = self._reached(part.directories)
        return leaves_workspace(part, self._parts, reached, self.surroundings)

    def destroys(self, part: Part, reach: "Reach") -> str | None:
        """The reason why a rule for any command does not speak for this part: what lies beyond the
        workspace would be destroyed, or git would run what a repository names."""
        facts, reached = self.surroundings, self._reached(part.directories)
        place = None if not reached else min(reached)
        refusal = destroys(reach.commands, part, self._parts, place, facts)
        if refusal is not None or facts is None or not reached:
            return refusal
        for command in reach.commands:
            words = command.words
            if _uses_git(words):
                targets = [
                    os.path.join(at, to) for at in reached for to in _git_directories(words) or []
                ]
                named = _named_program(facts, set(targets) or reached, words)
                if named is not None:
                    return named
        return None

    def _of_git(self, part: Part, words: tuple[Word, ...]) -> str | None:
        own = _git_directories(words)
        if own is None:
            return "git's -C is not plain"
        facts = self.surroundings
        if facts is None:
            moved = bool(part.directories) or self._given is not None
            unknown = "it runs git in a directory whose repository is not known"
            return unknown if moved or own else None
        reached = self._reached(part.directories)
        for target in own:  # git follows symbolic links before `..`, a shell's cd does not
            reached = reached and {facts.real(os.path.join(place, target)) for place in reached}
        if not reached or not all(map(facts.contains, reached)):
            return "it runs git outside the workspace"
        named = _named_program(facts, reached, words)
        if named is not None or facts.trusted:
            return named
        moved = bool(part.directories or own)
        if any(_may_write(each, moved=moved) for each in self._parts if each is not part):
            return (
                "git runs what a repository names, the folder is not trusted, and what runs "
                f"beside it may make or change one; {TRUST}"
            )
        return None

    def _reached(self, targets: tuple[Word, ...]) -> set[str] | None:
        """The directories a shell may be in after these changes; None when a target is not plain
        or lies outside the workspace."""
        if any(not word.literal or word.text.startswith("-") for word in targets):
            return None
        facts = self.surroundings
        here = {os.path.normpath(os.path.join(facts.cwd if facts else "/", self._given or "."))}
        if facts is None:
            # Only what cannot leave the directory that the call begins in.
            inside = all(_stays_below(word.text) for word in targets)
            return here if inside else None
        for word in targets:
            after: set[str] = set()
            for place in here:
                target = os.path.normpath(os.path.join(place, word.text))
                after.add(target)
                if not facts.is_directory(target):
                    after.add(place)  # the change may fail, and what follows runs here
            here = after
            if len(here) > MAX_PLACES or not all(map(facts.contains, here)):
                return None
        return here


def _uses_git(words: tuple[Word, ...]) -> bool:
    """Is this a call of git that looks for a repository?"""
    if not words or base_name(words[0].text) != GIT:
        return False
    return not (len(words) == 2 and words[1].literal and tells_version(GIT, words[1].text))


def _stays_below(target: str) -> bool:
    return not target.startswith("/") and ".." not in target.split("/") and target != ""


def _may_write(part: Part, *, moved: bool) -> bool:
    """May the part change what a repository names? Subcommands of git that write but its index,
    references and tracked files may do so only for a git that then runs `moved` elsewhere."""
    texts = [word.text if word.literal else "" for word in part.words[:2]]
    harmless = texts[0] in _WRITE_NOTHING if texts else False
    if not moved and len(texts) > 1 and texts[0] == GIT and texts[1] in _GIT_WRITES:
        harmless = not part.assignments
    if harmless:
        return any(item.effect is Effect.WRITE for item in part.redirections)
    return not_read_only(part) is not None


def _named_program(
    facts: "Surroundings", directories: set[str], words: tuple[Word, ...]
) -> str | None:
    """The reason why git may run an unapproved program: the repository it would use in
    one of the directories names it. The workspace's own counts as the folder does."""
    own = facts.repository(facts.cwd) if facts.trusted else None
    for directory in sorted(directories):
        if facts.trusted and facts.repository(directory) in {None, own}:
            continue
        named = facts.named_program(directory, _use(words))
        if named is None:
            continue
        if facts.trusted:
            return f"git would use another repository there, which names what it runs ({named})"
        return (
            f"git runs what the repository names ({named}), and the folder is not trusted; {TRUST}"
        )
    return None


def _use(words: tuple[Word, ...]) -> GitUse:
    """The subcommand and the hooks that git may run for it. Commands that only read write the index
    at most."""
    found = first_operands(words, global_options(GIT), 1)
    sub = words[found[0]] if found else None
    name = sub.text if sub is not None and sub.literal else None
    if name in _WRITES_INDEX:
        return GitUse(name, frozenset({"post-index-change"}))
    return GitUse(name, frozenset() if refuse_git(words[1:]) is None else None)


def _git_directories(words: tuple[Word, ...]) -> list[str] | None:
    """The operands of git's own `-C`; None when one is not literal."""
    if len(words) > 1 and words[1].literal and words[1].text[:1] != "-":
        return []
    start = next(iter(first_operands(words, global_options(GIT), 1)), len(words))
    found = list(option_values(words[:start], "C", ""))
    return [word.text for word in found] if all(word.literal for word in found) else None
