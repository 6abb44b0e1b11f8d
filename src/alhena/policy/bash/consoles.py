"""Commands for database shells, editors and debuggers: which ones surely stay inside the program.

The languages are large, so nothing is parsed. Of the program's own commands those that only show
something are known; of SQL, the words without which a statement stays in the database.
"""

from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from alhena.policy.bash.model import Part, Word

if TYPE_CHECKING:
    import re


class Console(msgspec.Struct, frozen=True):
    """The language of a program that reads commands. `refused`: a pattern that no harmless text
    holds. `lines`: a pattern that each line of a harmless text is; the lines are not looked at when
    it is empty. The program does not read its standard input when one of the options `without` is
    there, or as many operands as `operands` says."""

    refused: str = ""
    lines: str = ""
    without: frozenset[str] = frozenset()
    operands: int = 1_000_000


_SQLITE = Console(
    refused=r"(?im)^[ \t]*\.(?!(?:tables?|schema|headers?|mode|dump|indexes|indices|databases|width"
    r"|nullvalue|separator|quit|exit|help|show|stats|timer|echo|changes|bail|fullschema|print"
    r"|explain|eqp|version|dbinfo|lint|sha3sum|limit)(?![\w.]))"
    r"|\b(?:attach|load_extension|writefile|readfile|edit|fsdir|lsmode|zipfile|fts3_tokenizer"
    r"|writable_schema|temp_store_directory|data_store_directory)\b"
    r"|\bvacuum\b(?!\s{0,80}(?:\w{1,80}\s{0,80})?(?:;|\Z))|\bvacuum\s{0,80}into\b",
    operands=2,
)
_PSQL = Console(
    refused=r"(?i)\\(?!(?:d\w*\+?|l\+?|s[fv]\+?|z|x|a|t|q|h|timing|conninfo|encoding|pset|g)(?=[\s;]|$))"
    r"|\\g[ \t]*[^\s\\]|`"
    r"|\bcopy\b(?![^;'\"$/-]{0,400}\b(?:from\s{1,9}stdin|to\s{1,9}stdout)\b)"
    r"|\b(?:program|do|execute|language|extension|dblink\w*|lo_(?:im|ex)port|load"
    r"|pg_(?:read|write|ls|file|stat)\w*|alter\s+system)\b",
    without=frozenset({"c", "command", "f", "file"}),
)
_MYSQL = Console(
    refused=r"(?m)\\[^\\'\"%_0bnZgGqcstuwWph?]"
    r"|(?i:(?:^|[;\n]|\\g)[^\S\n]*(?:system|source|tee|pager|edit|connect|delimiter)\b)"
    r"|(?i:\b(?:outfile|dumpfile|load_file|load|soname|install|prepare|execute)\b)",
    without=frozenset({"e", "execute"}),
)
_VIM = Console(
    lines=r":*[ \t]*(?:[\d$%.,+-]*|/[\w .-]+/?|q(?:a|all|uit)?!?|set? +(?:no)?(?:number|nu|list|ro"
    r"|readonly|wrap|hls|hlsearch|ic|ruler|paste|ff|fenc)\?*|syntax (?:on|off))",
)
_EX = Console(
    lines=r":*[ \t]*(?:[\d$%.,+-]*(?:p|print|=|#|nu|number|l|list|d|delete|j|join)?|/[\w .-]+/?"
    r"|w?q!?|wq!?|w|x)",
)
_ED = Console(refused=r"(?m)!|(?:^|[^a-zA-Z]|'[a-z])[rwWeEf][ \t]+\S")
_GDB = Console(
    lines=r"[ \t]*(?:(?:bt|backtrace|where)(?: +(?:full|-?\d+))*|info +[\w -]+|(?:i|info) +\w+"
    r"|(?:list|l|frame|f|up|down|disassemble|thread) *[\w:.+-]*"
    r"|thread apply (?:all|[\d ]+) +bt(?: full)?"
    r"|set (?:pagination|confirm|width|height|print [\w-]+) +\w+"
    r"|(?:p|print|ptype|whatis)(?:/\w)? +[\w.$*-]+"
    r"|x/\d*\w* +[\w.$*+-]+|q|quit)?[ \t]*",
    without=frozenset({"-batch"}),
)
_SFTP = Console(refused=r"(?m)^[-@ \t]*!", without=frozenset({"b"}))

CONSOLES = {
    "ed": _ED,
    "ex": _EX,
    "gdb": _GDB,
    "mysql": _MYSQL,
    "openssl": Console(lines="version", operands=1),
    "psql": _PSQL,
    "sftp": _SFTP,
    "sqlite3": _SQLITE,
    "vim": _VIM,
}
"""Program -> the language of its commands."""


def stays_inside(name: str, text: str) -> bool:
    """Does this text, as commands for the program, surely run, write and load nothing else?"""
    refused, lines = _patterns(name)
    if refused is not None and refused.search(text):
        return False
    return lines is None or all(lines.fullmatch(line) for line in text.split("\n"))


@lru_cache(maxsize=32)
def _patterns(name: str) -> "tuple[re.Pattern[str] | None, re.Pattern[str] | None]":
    import re

    console = CONSOLES[name]
    refused = re.compile(console.refused) if console.refused else None
    return refused, re.compile(console.lines) if console.lines else None


def fed(part: Part) -> tuple[Word, ...] | None:
    """What a command reads from its standard input, as far as the line shows it; None when it is
    a file's or another command's text."""
    texts: list[Word] = []
    for redirection in part.redirections:
        target = redirection.target
        if redirection.operator.startswith("<<"):
            texts.append(target or Word(redirection.body or ""))
        elif redirection.operator in {"<", "<>", "<&"} and not _nothing(target):
            return None
    return tuple(texts) if texts or not part.stdin_piped else None


def _nothing(target: Word | None) -> bool:
    return target is not None and target.literal and target.text == "/dev/null"
