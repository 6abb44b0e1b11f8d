"""Does a git command only read?"""

import re
from collections.abc import Callable, Sequence

from alhena.shell.parse.model import Word
from alhena.shell.strict_reading import Given, read_words, refuse_by_patterns
from alhena.shell.tables import (
    Program,
    program,
)

_LISTING = ("--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")
_NETWORK = frozenset(["clone", "fetch", "ls-remote", "pull", "push", "remote-http", "send-pack"])


def refuse_git(words: Sequence[Word]) -> str | None:
    """The reason why the words after `git` may do more than read, as one clause, or None."""
    table = program("git")
    given = read_words(table, "git", words) if table else "git is not known"
    if isinstance(given, str):
        return given
    if not all(word.literal for word in given.values("-C")):
        return "the directory after git -C is not known"
    if given.has("--version", "-v"):
        return None
    if not given.operands:
        return "git needs a subcommand"
    key, table, words = git_table(given.operands)
    if table is None or not table.reads:
        if key.removeprefix("git ") in _NETWORK:
            return f"{key} uses the network"
        return f"{key} is not in the list of subcommands that only read"
    given = read_words(table, key, words)
    if isinstance(given, str):
        return given
    check = _FORMS.get(key)
    refusal = refuse_by_patterns(table, given) or _refuse_formats(given)
    return refusal or (check(given) if check else None)


def git_table(words: Sequence[Word]) -> tuple[str, Program | None, Sequence[Word]]:
    """The subcommand at the head of `words`, with its table and what follows."""
    key = f"git {words[0].text}"
    if len(words) > 1 and words[1].literal:
        longer = f"{key} {words[1].text}"
        table = program(longer)
        if table is not None and table.reads:
            return longer, table, words[2:]
    return key, program(key), words[1:]


def _refuse_formats(given: Given) -> str | None:
    for value in given.values("--format", "--pretty", "--sort"):
        if not value.literal:
            return f"{value.source} could ask for signatures, for which git runs gpg"
        if "signature" in value.text or re.search(r"%[-+ ]?G", value.text):
            return "signatures make git run gpg"
    return None


def _refuse_branch(given: Given) -> str | None:
    if not given.operands or given.has(*_LISTING):
        return None
    patterns = all(word.literal and set("*?[") & set(word.text) for word in given.operands)
    if given.has("-l") and patterns:
        return None
    return "git branch with a name makes a branch; --list lists"


def _refuse_tag(given: Given) -> str | None:
    if not given.operands or given.has("-l", *_LISTING):
        return None
    return "git tag with a name makes a tag; --list lists"


def _refuse_config(given: Given) -> str | None:
    """Reading forms: `--get… NAME [PATTERN]`, `NAME`, and the later `get NAME` (to an older git a
    name without a dot is an error). `git config get` has the names that hold no secret."""
    texts = [word.text for word in given.operands]
    keys = given.operands
    if given.has("--get", "--get-all"):
        reads = bool(texts)
    elif len(texts) == 2:
        reads = texts[0] == "get" and given.operands[0].literal and "." in texts[1]
        keys = keys[1:]
    else:
        reads = len(texts) == 1 and "." in texts[0]
    if not reads:
        if texts == ["list"]:
            return "git config list may show secrets"
        return "git config in this form may change the configuration"
    table = program("git config get")
    return refuse_by_patterns(table, Given([], keys[:1], 0, [])) if table else "no names are known"


_FORMS: dict[str, Callable[[Given], str | None]] = {
    "git branch": _refuse_branch,
    "git config": _refuse_config,
    "git tag": _refuse_tag,
}
