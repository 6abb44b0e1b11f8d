"""Arguments by which git does more than a rule names."""

from alhena.shell.arguments import is_option
from alhena.shell.hazards import Reading, describe_excess, describe_unknown
from alhena.shell.languages.operands import OPERANDS
from alhena.shell.options import first_operands
from alhena.shell.parse.model import Word
from alhena.shell.tables import Effect, global_options, matches, program

_GIT_RUNNERS = {("bisect", "run"), ("submodule", "foreach")}
_WRITING = frozenset({"set", "unset", "rename-section", "remove-section", "edit"})


def _config_hazard(rest: tuple[Word, ...], count: int) -> str | None:
    """`count` words of `rest`, which follow `git config`, are the rule's."""
    beyond = rest[max(count, 0) :]
    options = [word for word in beyond if is_option(word)]
    unsure = next((word for word in beyond if word.split and not word.literal), None)
    if unsure is not None:
        return describe_unknown(unsure, "git config", Effect.ELSEWHERE)
    letters = {letter: word for word in options if word.text[1] != "-" for letter in word.text}
    file = letters.get("f") or next((w for w in options if w.text.startswith("--fi")), None)
    if file is not None:
        return describe_excess(file.text, Effect.ELSEWHERE)
    editing = (word for word in beyond if word.text == "edit" or word.text.startswith("--ed"))
    edited = letters.get("e") or next(editing, None)
    if edited is not None:
        return describe_excess(f"git config {edited.text}", Effect.RUNS)
    keys = [word for word in rest if not is_option(word)]
    verb = keys.pop(0).text if keys and keys[0].text in {"get", "list", *_WRITING} else ""
    gets = verb in {"get", "list"} or any(word.text.startswith("--get") for word in rest)
    if gets or len(keys) < 2:
        return None
    wide = next((word for word in options if word.text[:4] in {"--gl", "--sy"}), None)
    if wide is not None:
        return describe_excess(
            f"git config {wide.text}", "changes the configuration of all repositories"
        )
    table = program("git config set")
    for clause, pattern in table.operand_pattern.items() if table and keys[0] in beyond else ():
        if not matches(pattern, keys[0].text.casefold(), known=keys[0].literal):
            return describe_excess(f"git config {keys[0].source or keys[0].text}", clause)
    return None


def git_hazard(words: tuple[Word, ...], count: int) -> str | None:
    """The effect of an argument of git that the rule, `count` words, does not name, as a sentence.
    Options before the subcommand and after it mean different things."""
    operands = first_operands(words, global_options("git"), 3)
    start = operands[0] if operands else len(words)
    table = program("git")
    if table is not None and (start != 1 or len(words) == 1):
        before = Reading("git", words[: start + (start < len(words))], count, table).hazard()
        if before is not None:
            return before
    if start >= len(words):
        return None
    sub = words[start].text
    if not words[start].literal:
        return None if start < count else describe_unknown(words[start], "git", Effect.RUNS)
    for at, word in enumerate(words[start:], start=start):
        text = word.text
        if at >= count and (text.startswith("ext::") or "=ext::" in text or "://-" in text):
            return describe_excess(text, Effect.RUNS)
    rest = words[start + 1 :]
    for at, word in enumerate(rest, start=start + 1):
        if (sub, word.text) in _GIT_RUNNERS and at + 1 >= count:
            return describe_excess(f"git {sub} {word.text}", Effect.RUNS)
    if sub == "config":
        return _config_hazard(rest, count - start - 1)
    return _subcommand_hazard(f"git {sub}", words[start:], count - start)


HAZARDS = {"git": git_hazard}
"""Programs whose options mean something else behind the subcommand -> the function."""


def _subcommand_hazard(key: str, words: tuple[Word, ...], count: int) -> str | None:
    """The effect of a subcommand or an argument of it; `count` of the words are the rule's."""
    inner = program(key)
    if inner is None or not inner.judged:
        return None
    if inner.always and count <= 0:
        return describe_excess(key, inner.always)
    operand = OPERANDS.get(inner.operand)
    return Reading(key, words, max(count, 0), inner, operand).hazard()
