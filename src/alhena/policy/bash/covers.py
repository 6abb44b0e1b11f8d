"""How far the prefix of an allow rule has to reach until it says what runs."""

from alhena.policy.bash.inner import ANYTHING, INPUT_IN_ARGUMENTS, inner_command
from alhena.policy.bash.literal import divided_prefix
from alhena.policy.bash.model import Word
from alhena.policy.bash.options import base_name
from alhena.policy.bash.shells import shell_arguments
from alhena.policy.bash.wrappers import (
    CODE_IN_DATA,
    EVALUATORS,
    FIND_ACTIONS,
    FINDERS,
    OPAQUE,
    SHELLS,
)


def useless_prefix(prefix: str) -> str | None:
    """Why an allow rule with this prefix can never allow anything; None when it can."""
    divided = divided_prefix(prefix)
    if divided is None:
        return "it is more than literal words, and only those are compared"
    if not divided.words:
        return f"it names no program, only {' '.join(divided.settings)}"
    return unreached(tuple(Word(text) for text in divided.words), len(divided.words))


def unreached(words: tuple[Word, ...], length: int) -> str | None:
    """Why the first `length` words, all literal, do not yet say what `words` run; None when they
    do."""
    start = 0
    while True:
        rest = words[start:]
        head = rest[0]
        name = base_name(head.text)
        if not head.literal or not head.text or name in EVALUATORS | OPAQUE:
            return f"{name or 'an empty word'} makes later words mean something else"
        if head.text in CODE_IN_DATA - _HARMLESS_BUILTINS:
            return f"{name} can run code hidden in its arguments"
        if name in SHELLS:
            return _shell_reaches(rest, length - start)
        if name in FINDERS:
            return _actions_reach(rest, length - start)
        inner = inner_command(rest)
        if inner is None or inner.alone or inner.wrapper.remote:
            return None
        last = max((at for at, _ in inner.starts), default=len(rest))
        if not inner.certain or last >= length - start:
            return f"{inner.via} runs another command, and the prefix does not name it"
        if len(inner.starts) > 1 or inner.wrapper.code:
            # More than one reading: all of them have to be in the prefix to their end.
            return None if len(rest) == length - start else f"{inner.via} can be read in two ways"
        start += last
        if inner.via in INPUT_IN_ARGUMENTS:
            words = (*words, ANYTHING)


def _actions_reach(words: tuple[Word, ...], length: int) -> str | None:
    """The commands of `find -exec` within the prefix; those behind it are hazards."""
    for at, word in enumerate(words[:length]):
        if word.text in FIND_ACTIONS:
            left = length - at - 1
            found = unreached((*words[at + 1 :], ANYTHING), left)
            if found is not None or left < 1:
                return found or f"{word.text} runs a command that the prefix does not name"
    return None


_HARMLESS_BUILTINS = frozenset({"[", "test", "printf", "wait", "jobs"})


def _shell_reaches(words: tuple[Word, ...], length: int) -> str | None:
    name = base_name(words[0].text)
    found = shell_arguments(words)
    if found.informs and len(words) <= length:
        return None
    if found.operand is None or found.operand >= length or found.reads_input or not found.certain:
        return f"{name} runs any command, and the prefix does not name the script or the code"
    if found.code is not None and len(words) != length:
        return f"{name} -c runs code that may use the words behind it"
    script = words[found.operand].text
    if found.code is None and (script == "-" or script.startswith(("/dev/", "/proc/"))):
        return f"{name} runs what it reads from {script}"
    return None
