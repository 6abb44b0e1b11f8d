"""The texts that a word may become when bash expands it, as far as the line itself tells."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from alhena.shell.parse.model import Part, Word, WordKind
from alhena.shell.parse.simple_command import DECLARATIONS, doubt_about, run_here

STAR = "\ue000"
"""Any characters of a file name: a glob that bash expands."""
NAME = "\ue001"
"""A name that is not known, without slashes."""
PLACE = "\ue002"
"""The directory in which the command runs."""
_MAX_TEXTS = 256
_TEMPORARY = "/tmp"  # noqa: S108 - TMPDIR is unset then
_PIECE = re.compile(
    r"""'(?P<single>[^']*)'
    | (?P<double>")
    | \\(?P<escaped>.)
    | \$\(\((?P<number>[^()]*)\)\)
    | \$\((?P<code>(?:[^()"'\\]|"[^"\\()]*"|'[^'()]*')*)\)
    | `(?P<old>[^`\\]*)`
    | \$(?P<name>\w+|[@*\#?$!-])
    | \$\{(?P<braced>\w+|[@*\#?$!-])(?:(?P<operator>:?[-?]|%%?|\#\#?)(?P<operand>[^{}$`"'\\]*))?\}
    | (?P<bracket>\[[^]/'"$`\\]+\])
    | (?P<glob>[*?])
    | (?P<brace>[{},])
    | (?P<plain>\[|[^'"\\$`*?{},()\[]+)""",
    re.VERBOSE | re.DOTALL,
)
_ALONE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_SEQUENCE = re.compile(r"[A-Za-z0-9-]+\.\.[A-Za-z0-9-]+(?:\.\.[0-9-]+)?")
_DEFAULTS = re.compile(r"\$\{!?(\w+)(?:\[[^\]]*\])?:?=")
_SETS = frozenset({"getopts", "let", "mapfile", "printf", "read", "readarray", "wait"})
_SETS_ANY = frozenset({".", "eval", "fc", "source"})
_SETTERS = DECLARATIONS | _SETS | _SETS_ANY | {"builtin", "command", "time"}
_PLAIN_FLAGS = re.compile(r"-[fFgIprx]+")
_NUMBERS = frozenset("?#$!")
_BY_BASH = re.compile(r"_|BASH\w*|DIRSTACK|FUNCNAME|MAPFILE|OLDPWD|OPTARG|REPLY|READLINE\w+")
_PROGRAM = re.compile(r'/[\w.-]+"?\Z')


class UnknownError(Exception):
    """A word may become anything."""


class Variables:
    """The variables of a command line, whose parts are `parts`: each may have any value that some
    part gives it. Not `known`: code that is run in another shell may set them. `substituted` has
    the texts that a substitution may write; `texts` are all code of the line."""

    def __init__(
        self,
        parts: Sequence[Part],
        substituted: Callable[[str], Iterable[str]] | None = None,
        *,
        known: bool = True,
        texts: Iterable[str] = (),
    ) -> None:
        self._substituted = substituted
        self._values: dict[str, list[Word]] = {}
        self._unsure: set[str] = set()
        self._unset: set[str] = set()
        self._any = not known
        self._open: set[str] = set()
        for text in texts:
            self._unsure.update(_DEFAULTS.findall(text))
        heads: list[Sequence[Word]] = []
        for part in parts:
            words = run_here(part.words)
            self._collect(part, words)
            heads += [] if not words or words[0].literal else [words]
        self._any = self._any or any(self.may_run(words, _SETTERS) for words in heads)

    def _collect(self, part: Part, words: Sequence[Word]) -> None:
        head = words[0].text if words else ""
        for each in part.assignments:
            if each.name != "IFS" or head != "read":  # which then holds for `read` alone
                self._assign(each.name, each.value, plain=each.source.startswith(f"{each.name}="))
        for name, values in part.loops:
            self._values.setdefault(name, []).extend(values)
        self._any = self._any or head in _SETS_ANY
        if head in DECLARATIONS:
            self._declare(head, words[1:])
        elif head == "unset":
            self._any = self._any or not all(each.literal for each in words)
            self._unset.update(each.text for each in words)
        elif head in _SETS and (head not in {"printf", "wait"} or doubt_about(words)):
            self._any = self._any or not all(each.literal for each in words)
            for word in words:
                attached = range(len(word.text)) if word.text[:1] == "-" else ()
                self._unsure.update(re.findall(r"\w+", word.text))
                self._unsure.update(word.text[at:] for at in attached)  # `-vNAME`

    def _declare(self, head: str, words: Sequence[Word]) -> None:
        plain = True
        for word in words:
            name, sign, value = word.text.partition("=")
            if name[:1] in {"-", "+"}:
                # A reference (`-n`) may stand for any variable; other flags change values.
                reference = "n" in name and head != "export"
                self._any = self._any or reference or not word.literal
                plain = plain and _PLAIN_FLAGS.fullmatch(name) is not None
            elif not sign and not word.literal:
                self._any = True
            else:
                source = word.source.partition("=")[2]
                self._assign(name, Word(value, word.kind, source), plain=bool(sign) and plain)

    def may_set(self, name: str) -> bool:
        """May the line, or the environment, give this variable a value?"""
        return self._any or self.sets(name) or name in os.environ

    def sets(self, name: str) -> bool:
        """May the line give this variable a value?"""
        return name in self._values or name in self._unsure

    def may_run(self, words: Sequence[Word], names: frozenset[str]) -> bool:
        """May a command be one of these, which the shell itself runs?"""
        for word in words:
            if word.literal:
                return word.text in names
            if not word.split and _PROGRAM.search(word.source):
                return False  # a path is never the shell's own
            try:
                found = [text.split()[:1] for text in self.texts(word)]
            except UnknownError:
                return True
            if any(
                NAME in text or STAR in text or text in names for each in found for text in each
            ):
                return True
            if all(found):
                return False
        return False

    def _assign(self, name: str, value: Word, *, plain: bool) -> None:
        if plain and name.isidentifier():
            self._values.setdefault(name, []).append(value)
        else:
            self._unsure.add(re.split(r"\W", name, maxsplit=1)[0])

    def texts(self, word: Word) -> list[str]:
        """The texts that a word may become. Raises UnknownError."""
        if word.literal:
            return [word.text]
        if word.kind is WordKind.EXPANSION and word.split and self.sets("IFS"):
            raise UnknownError  # it may be split anywhere
        found = list(dict.fromkeys(self._words(word.source)))
        if len(found) > _MAX_TEXTS or not word.source:
            raise UnknownError
        return found

    def values(self, name: str) -> list[Word]:
        """The values that the line gives a variable."""
        return self._values.get(name, [])

    def _words(self, source: str) -> Iterator[str]:
        alone = _ALONE.fullmatch(source)
        if alone:
            for value in self._of(alone[1] or alone[2]):
                yield from map(_unquoted, value.split())
            return
        for pieces in _without_braces(list(self._pieces(source))):
            first = pieces[0] if pieces else ""
            if isinstance(first, str) and first[:1] == "~":
                if "/" not in first and len(pieces) > 1:
                    raise UnknownError
                pieces[0] = _home(first)
            texts = [""]
            for piece in pieces:
                options = [piece] if isinstance(piece, str) else piece
                texts = [text + option.lstrip("\0") for text in texts for option in options]
                if len(texts) > _MAX_TEXTS:
                    raise UnknownError
            yield from texts

    def _pieces(self, source: str) -> Iterator[str | list[str]]:
        """Texts, lists of possible texts, and `\\0{`, `\\0,`, `\\0}` for the marks of braces. A
        text that bash takes as it is begins with `\\0` where it could begin with a tilde."""
        at = 0
        while at < len(source):
            found = _PIECE.match(source, at)
            if found is None:
                raise UnknownError
            at = found.end()
            match found.lastgroup:
                case "double":
                    end = _double_end(source, at)
                    yield "\0"
                    yield from self._quoted(source[at:end])
                    at = end + 1
                case "single" | "escaped":
                    yield "\0"
                    yield from [found[found.lastgroup]] if found[found.lastgroup] != "\n" else []
                case "glob" | "bracket":
                    yield STAR
                case "brace":
                    yield f"\0{found['brace']}"
                case "plain":
                    yield found["plain"]
                case _:
                    values = self._expansion(found)
                    if any(re.search(r"\s", value) for value in values):
                        raise UnknownError
                    yield [_unquoted(value) for value in values]

    def _quoted(self, text: str) -> Iterator[str | list[str]]:
        at = 0
        while at < len(text):
            if text[at] == "\\":
                following = text[at + 1 : at + 2]
                yield following if following in {"$", "`", '"', "\\"} else text[at : at + 2]
                at += 2
            elif text[at] in "$`":
                found = _PIECE.match(text, at)
                if found is None:
                    raise UnknownError
                yield self._expansion(found)
                at = found.end()
            else:
                end = next((i for i in range(at, len(text)) if text[i] in "\\$`"), len(text))
                yield text[at:end]
                at = end

    def _expansion(self, found: re.Match[str]) -> list[str]:
        code = found["code"] if found["code"] is not None else found["old"]
        if found["number"] is not None:
            return [NAME]
        if code is not None:
            if self._substituted is None:
                raise UnknownError
            return list(self._substituted(code))
        name, operator = found["name"] or found["braced"], found["operator"] or ""
        if operator in {":-", "-"}:
            given = [] if name == "TMPDIR" and name not in self._values else self._of(name)
            return [*(value for value in given if value), *self.texts(_default(found["operand"]))]
        if operator in {"#", "##"}:
            if found["operand"] != "*/" or operator == "#":
                raise UnknownError
            return [value.rpartition("/")[2] for value in self._of(name)]
        if operator[:1] == "%" and "/" in found["operand"]:
            raise UnknownError
        return self._of(name)

    def _of(self, name: str) -> list[str]:
        if name in _NUMBERS:
            return [NAME]
        if self._any or name in self._unsure or name.isdigit() or not name.isidentifier():
            raise UnknownError
        words = self._values.get(name, [])
        found = [] if words else _of_environment(name)
        if _BY_BASH.fullmatch(name) or name in self._unset:
            raise UnknownError
        if name in {"HOME", "PWD"}:
            found = [os.path.expanduser("~") if name == "HOME" else PLACE]
        if name in self._open:
            raise UnknownError
        self._open.add(name)
        try:
            for word in words:
                found += self.texts(word) if word.text or word.source else [""]
                alone = _ALONE.fullmatch(word.source)  # an assignment does not split it
                found += self._of(alone[1] or alone[2]) if alone else []
        finally:
            self._open.discard(name)
        return found


def _of_environment(name: str) -> list[str]:
    """The value of a variable that the line does not set; it may be empty."""
    value = os.environ.get(name)
    return ["", NAME] if value is None else [value]


def _default(text: str) -> Word:
    plain = not text.startswith("~") and "*" not in text and "?" not in text
    return Word(text, WordKind.LITERAL if plain else WordKind.PATTERN, text)


def _unquoted(value: str) -> str:
    """A value that bash looks for globs in."""
    if "[" in value:
        raise UnknownError
    return value.replace("*", STAR).replace("?", STAR)


def _double_end(source: str, at: int) -> int:
    while at < len(source) and source[at] != '"':
        if source[at] == "\\":
            at += 2
        elif source[at] in "$`" and (found := _PIECE.match(source, at)):
            at = found.end()
        else:
            at += 1
    if at >= len(source):
        raise UnknownError
    return at


def _home(text: str) -> str:
    name, slash, rest = text.partition("/")
    if name == "~+":
        return f"{PLACE}{slash}{rest}"
    home = os.path.expanduser(name)
    if home == name:
        raise UnknownError
    return f"{home}{slash}{rest}"


def _without_braces(pieces: list[str | list[str]]) -> Iterator[list[str | list[str]]]:
    """The words that a list of braces means; braces without a comma stay as they are."""
    start = next((at for at, each in enumerate(pieces) if each == "\0{"), None)
    depth = 0
    commas: list[int] = []
    for at in range(start, len(pieces)) if start is not None else ():
        depth += {"\0{": 1, "\0}": -1}.get(str(pieces[at]), 0)
        if pieces[at] == "\0," and depth == 1:
            commas.append(at)
        if depth == 0:
            inside = pieces[(start or 0) + 1 : at]
            text = "".join(each for each in inside if isinstance(each, str))
            if commas:
                marks = [start or 0, *commas, at]
                options = [pieces[a + 1 : b] for a, b in pairwise(marks)]
            else:
                options = [[NAME] if _SEQUENCE.fullmatch(text) else ["{", *inside, "}"]]
            for option in options:
                yield from _without_braces([*pieces[:start], *option, *pieces[at + 1 :]])
            return
    yield [each.lstrip("\0") or "\0" if isinstance(each, str) else each for each in pieces]
