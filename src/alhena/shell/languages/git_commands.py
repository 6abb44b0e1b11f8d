"""The commands that a call of git may run, and the places it works in."""

from collections.abc import Iterator

from alhena.shell.options import ANYTHING, Runs, first_operands, option_values
from alhena.shell.parse.model import Word
from alhena.shell.tables import Program, global_options, table_of_values

_GIT_CODE = ("x", "upload-pack receive-pack exec extcmd open-files-in-pager sendmail-cmd to-cmd")


def git_runs(words: tuple[Word, ...]) -> Iterator[Runs]:
    """The commands a call of git may run, hooks and the user's own settings aside."""
    known = global_options("git")
    operands = first_operands(words, known, 1)
    start = operands[0] if operands else len(words)
    sub = words[start].text if operands else ""
    for value in (*option_values(words[:start], "c", ""), *_git_settings(words, start, sub)):
        key, _, setting = value.text.partition("=")
        name = key.lower().removeprefix("alias.")
        code = Word(setting.removeprefix("!"), value.kind, value.source, value.split)
        if key.lower().startswith("alias.") and not setting.startswith("!"):
            yield Runs(via="git alias", words=(words[0], *_split(code), *words[start + 1 :]))
        else:
            yield Runs(via=f"git -c {key}", code=(code,), sure=key != name and name == sub.lower())
    behind = words[start:]
    for value in option_values(behind, *_GIT_CODE):
        yield Runs(via=f"git {sub}", code=(value,), sure=sub in {"rebase", "difftool"})
    if sub == "grep":
        for value in option_values(behind, "O", ""):
            yield Runs(via="git grep -O", code=(value,))
    for word in behind:
        if word.text.startswith("ext::"):
            yield Runs(
                via="git ext::",
                code=(Word(word.text.removeprefix("ext::"), word.kind, word.source, word.split),),
            )
    if any(w.text.startswith("--config-env") for w in words[:start]):
        yield Runs(via="git --config-env")
    if sub in _COMING_DOWN:
        yield from _git_as(words, start)
    if words[0].text.endswith("hub"):
        yield Runs(via="hub", words=(Word("git"), *words[1:]))
    if sub == "filter-branch":
        yield Runs(via="git filter-branch", mentions=words[start + 1 :], sure=False)


_SENDING = (
    ("send-pack",),
    ("http-push",),
    ("lfs", "push"),
    ("subtree", "push"),
    ("svn", "dcommit"),
    ("p4", "submit"),
)
"""Other subcommands of git that push."""

_COMING_DOWN = frozenset({"for-each-repo", *(path[0] for path in _SENDING)})


def _git_as(words: tuple[Word, ...], start: int) -> Iterator[Runs]:
    """Subcommands that come down to others."""
    head, sub, behind = words[:1], words[start].text, words[start:]
    if sub == "for-each-repo":
        found = first_operands(behind, table_of_values("", "config"), 1)
        if found:
            yield Runs(via="git for-each-repo", words=(*head, *behind[found[0] :]))
    else:
        found = first_operands(behind, Program(), 1)
        second = behind[found[0]] if found else Word("")
        rest = behind[found[0] + 1 :] if found else ()
        push = (*head, Word("push"))
        if (sub,) in _SENDING:
            yield Runs(via=f"git {sub}", words=(*push, *behind[1:]))
        elif (sub, second.text) in _SENDING or not second.literal:
            yield Runs(via=f"git {sub}", words=(*push, *rest), sure=second.literal)


def _git_settings(words: tuple[Word, ...], start: int, sub: str) -> Iterator[Word]:
    """`git config KEY VALUE` and `git clone -c KEY=VALUE`, as KEY=VALUE."""
    if sub == "clone":
        yield from option_values(words[start:], "c", "config")
    if sub == "config":
        for key, value in zip(words[start + 1 :], words[start + 2 :], strict=False):
            if "." in key.text and key.literal:
                yield Word(f"{key.text}={value.text}", value.kind, value.source, value.split)


_WORK_TREE = "core.worktree"


def git_place(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The directories that git goes to, and the work tree that it is given."""
    start = next(iter(first_operands(words, global_options("git"), 1)), len(words))
    settings = option_values(words[:start], "c", "")
    given = (value.text.partition("=") for value in settings)
    trees = [Word(value) for key, _, value in given if key.casefold() == _WORK_TREE]
    follows = zip(words[start:], words[start + 1 :], strict=False)
    trees += [value for key, value in follows if key.text.casefold() == _WORK_TREE]
    return (*option_values(words[:start], "C", "work-tree git-dir"), *trees)


def _split(word: Word) -> tuple[Word, ...]:
    texts = word.text.split()
    if word.literal:
        return tuple(Word(text) for text in texts)
    return (*(Word(text) for text in texts), ANYTHING)
