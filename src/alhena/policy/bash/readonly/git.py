"""git: its global options, and the subcommands and forms that only read."""

import re
from collections.abc import Callable, Sequence

from alhena.policy.bash.model import Word
from alhena.policy.bash.readonly.grammar import Given, listed, read_words
from alhena.policy.programs import program

_GLOBAL_FLAGS = listed(
    "--no-pager --no-optional-locks --literal-pathspecs --glob-pathspecs --noglob-pathspecs "
    "--icase-pathspecs --no-replace-objects"
)
_GLOBAL_REASONS = {
    "-c": "sets configuration, which can name programs to run",
    "--config-env": "sets configuration, which can name programs to run",
    "--exec-path": "names the programs that git runs",
    "--git-dir": "names configuration, which can name programs to run",
    "--work-tree": "changes which files are meant",
    "-p": "starts a pager",
    "--paginate": "starts a pager",
    "--help": "starts a viewer of manuals",
}
_LISTING = ("--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")
_VERSION = listed("--version -v version")
_NETWORK = listed("clone fetch ls-remote pull push remote-http send-pack")


def refuse_git(words: Sequence[Word]) -> str | None:
    """The reason why the words after `git` may do more than read, as one clause, or None."""
    at = 0
    while at < len(words) and words[at].literal and words[at].text[:1] == "-":
        text = words[at].text
        if text in _VERSION and len(words) == at + 1:
            return None
        if text == "-C":
            at += 1
            if at >= len(words) or not words[at].literal:
                return "the directory after git -C is not known"
        elif text not in _GLOBAL_FLAGS:
            name = text.partition("=")[0]
            return f"git {name} {_GLOBAL_REASONS.get(name, 'is not a known global option')}"
        at += 1
    if at >= len(words):
        return "git needs a subcommand"
    if not words[at].literal:
        return f"{words[at].source} could be any subcommand of git"
    return _refuse_subcommand(words[at].text, words[at + 1 :])


def tells_version(words: Sequence[Word]) -> bool:
    """Do these words, `git` first, only make it tell its version, whatever the directory?"""
    return len(words) == 2 and words[1].literal and words[1].text in _VERSION


def _refuse_subcommand(name: str, words: Sequence[Word]) -> str | None:
    table = None
    if words and words[0].literal:
        table = program(f"git {name} {words[0].text}")
    if table is not None and table.reads:
        name, words = f"{name} {words[0].text}", words[1:]
    else:
        table = program(f"git {name}")
    if table is None or not table.reads:
        if name in _NETWORK:
            return f"git {name} uses the network"
        return f"git {name} is not in the list of subcommands that only read"
    given = read_words(table, f"git {name}", words)
    if isinstance(given, str):
        return given
    check = _FORMS.get(name)
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
    """Reading forms: `--list`, `--get… NAME [PATTERN]`, `NAME`, and the later `list`, `get NAME`
    (to an older git a name without a dot is an error)."""
    texts = [word.text for word in given.operands]
    if given.has("-l", "--list"):
        reads = not texts
    elif given.has("--get", "--get-all", "--get-regexp", "--get-urlmatch"):
        reads = bool(texts)
    elif len(texts) == 2:
        reads = texts[0] == "get" and given.operands[0].literal and "." in texts[1]
    else:
        reads = len(texts) == 1 and ("." in texts[0] or texts[0] == "list")
    return None if reads else "git config in this form may change the configuration"


_FORMS: dict[str, Callable[[Given], str | None]] = {
    "branch": _refuse_branch,
    "tag": _refuse_tag,
    "config": _refuse_config,
}
