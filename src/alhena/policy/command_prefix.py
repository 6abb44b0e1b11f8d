"""The prefix that "always" saves for a command: the words that its rule begins with."""

import shlex

from alhena.shell.beyond import hazard
from alhena.shell.languages.runners import names_command
from alhena.shell.options import base_name, first_operands, is_option, split_settings
from alhena.shell.parse.model import Analysis, Effect, Part, Word
from alhena.shell.prefix import allows
from alhena.shell.tables import global_options, interpreter, listed, main_name, narrow, wrapper

_NEED_NO_RULE = frozenset({"true", "false", ":", "exit", "break", "continue"})


def always_prefix(part: Part) -> tuple[str, ...] | None:
    """The words a rule would begin with that allows `part` from now on; None when any such rule
    would be too broad, or would not allow it.

    Never an interpreter, a wrapper, a shell, a package runner, or a program with subcommands alone.
    """
    if not part.words or any(r.effect is Effect.WRITE for r in part.redirections):
        return None
    settings: list[str] = []
    for assignment in part.assignments:
        if not assignment.value.literal or _steers(assignment.name):
            return None
        settings.append(f"{assignment.name}={assignment.value.text}")
    count = _length(part.words)
    if count is None or not all(word.literal for word in part.words[:count]):
        return None
    words = (*settings, *(word.text for word in part.words[:count]))
    beginning = Part(text=part.text, words=part.words[:count])
    if hazard(beginning, ()) is not None or hazard(part, words) is not None:
        return None
    if not allows(prefix_text(words), part):
        return None
    return words


def always_prefixes(analysis: Analysis) -> tuple[str, ...] | None:
    """The prefixes that "always" would save for a whole command line, each as a rule's
    `commandPrefix`; None when one of its parts has none, or what runs is in doubt."""
    if not analysis.complete or analysis.doubts:
        return None
    found: dict[str, None] = {}
    for part in analysis.parts:
        if _needs_no_rule(part):
            continue
        words = always_prefix(part)
        if words is None:
            return None
        found.setdefault(prefix_text(words))
    return tuple(found) or None


def prefix_text(words: tuple[str, ...]) -> str:
    """Words as the text of a `commandPrefix`, quoted where they have to be."""
    settings, rest = split_settings(words)
    quoted = [name + "=" + shlex.quote(value) for name, _, value in _divide_settings(settings)]
    return " ".join([*quoted, *(shlex.quote(word) for word in rest)])


def _divide_settings(settings: tuple[str, ...]) -> list[tuple[str, str, str]]:
    return [setting.partition("=") for setting in settings]


def root_commands(analysis: Analysis) -> tuple[str, ...]:
    """The command word of every part as it is written or read, once each, in order of appearance,
    those inside substitutions included."""
    found: dict[str, None] = {}
    for part in analysis.parts:
        if part.words:
            head = part.words[0]
            found.setdefault(head.text if head.literal else head.source or head.text)
    return tuple(found)


def _steers(variable: str) -> bool:
    """Does this variable change which program runs, or how?"""
    beginnings = (
        "LD_",
        "DYLD_",
        "PYTHON",
        "PERL",
        "RUBY",
        "NODE_OPT",
        "NODE_PATH",
        "JAVA_TOOL",
        "_",
    )
    return (
        names_command(variable)
        or variable.startswith(beginnings)
        or variable.endswith(("PATH", "FLAGS", "OPTIONS", "OPTS", "PROXY", "HOME", "CONFIG"))
        or variable in {"IFS", "CC", "CXX", "LD", "AR", "RUSTC", "CDPATH", "SHELLOPTS", "BASHOPTS"}
    )


def _needs_no_rule(part: Part) -> bool:
    if not part.words or part.assignments or not part.words[0].literal:
        return False
    if any(r.effect is Effect.WRITE for r in part.redirections):
        return False
    name = part.words[0].text
    return name in _NEED_NO_RULE or (name == "cd" and all(word.literal for word in part.words))


def _length(words: tuple[Word, ...]) -> int | None:
    """The number of words a narrow prefix of this command has."""
    head = words[0]
    if not head.literal or not head.text:
        return None
    name = base_name(head.text)
    if interpreter(name) is not None:
        texts = [word.text for word in words[1:3]]
        known = listed("modules")
        module = name.startswith("python") and texts[:1] == ["-m"] and texts[-1] in known
        return 3 if module else None
    if _runs_others(name) or name in listed("too_broad") or _compiles(name):
        return None
    if name.startswith(("mkfs", "git-", "qemu-")):
        return None
    if name in listed("single"):
        return 1
    if narrow(main_name(name)) is not None:
        return _with_subcommand(words, main_name(name))
    return _unknown_length(words)


def _compiles(name: str) -> bool:
    """Is it a compiler, perhaps with a version behind or the machine before its name?"""
    return name.rstrip("0123456789.-").rsplit("-", 1)[-1] in listed("compilers")


def _runs_others(name: str) -> bool:
    bare = name.rstrip("0123456789.-")
    lists = ("shells", "code_runners", "evaluators", "opaque", "mentioning", "code_in_data")
    harmless = name in {"[", "test", "printf"}
    listed_there = any(name in listed(each) for each in lists) and not harmless
    return listed_there or bare in listed("code_runners") or wrapper(name) is not None


def _unknown_length(words: tuple[Word, ...]) -> int | None:
    """Of an unknown program: with its first word when that looks like a subcommand, else
    all of its words. Of its name alone only when that is a path: a program of the project."""
    if len(words) == 1:
        return 1 if "/" in words[0].text else None
    first = words[1]
    bare = first.text.replace("-", "").replace(":", "").replace("_", "")
    if first.literal and bare.isalnum() and first.text[:1].isalpha():
        return None if first.text.partition(":")[0] in listed("running") else 2
    return len(words) if all(word.literal for word in words) else None


def _with_subcommand(words: tuple[Word, ...], name: str) -> int | None:
    path, start = name, 0
    while True:
        known = global_options(path)
        found = first_operands(words[start:], known, 1)
        if not found or not words[start + found[0]].literal:
            return None
        start += found[0]
        text = words[start].text
        if name in listed("tasks"):
            return _all_tasks(words, name)
        if not _is_narrow(path, text):
            return None
        path = f"{path} {text}"
        if path.replace(" ", "-") in listed("project_runners"):
            rest = words[start + 1 :]
            inner = _length(rest) if rest and not is_option(rest[0]) else None
            return None if inner is None else start + 1 + inner
        if wrapper(path) is not None:
            return None
        if narrow(path) is None:
            return start + 1


def _is_narrow(path: str, word: str) -> bool:
    """Does a rule stay narrow that ends with this word?"""
    allowed = narrow(path) or frozenset()
    return word in allowed or ("*" in allowed and "=" not in word)


def _all_tasks(words: tuple[Word, ...], name: str) -> int | None:
    """The words up to the last target; none may be more than a target."""
    found = first_operands(words, global_options(name), len(words))
    for at in found:
        if not words[at].literal or not _is_narrow(name, words[at].text):
            return None
    return found[-1] + 1
