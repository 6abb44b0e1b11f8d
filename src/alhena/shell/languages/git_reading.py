"""Forms and formats of git's subcommands that do more than read."""

import re
from collections.abc import Callable

from alhena.shell.strict_reading import Given, refuse_by_patterns
from alhena.shell.tables import (
    program,
)

GIT = "git"
_LISTING = ("--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")


def searches_as_they_are(key: str) -> bool:
    """Does a subcommand that reads directories read what git does not track, where there is no
    repository?"""
    return key.startswith(f"{GIT} ")


def may_show_remotes(key: str, given: Given) -> bool:
    """May a command that shows addresses of repositories do so with these words?"""
    asked = any("remote" in word.text.casefold() for word in given.operands)
    return asked or key != f"{GIT} config"


def refuse_git(key: str, given: Given) -> str | None:
    """The reason why a subcommand of git that only reads may do more with these words, as one
    clause, or None."""
    check = _FORMS.get(key)
    return _refuse_formats(given) or (check(given) if check else None)


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
