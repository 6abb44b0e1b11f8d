"""How shells are called."""

import msgspec

from alhena.policy.bash.model import Word
from alhena.policy.bash.options import is_option


class ShellArguments(msgspec.Struct, frozen=True):
    """How a shell is called: `code` is where `-c` stands, `operand` the code or the script."""

    code: int | None = None
    operand: int | None = None
    reads_input: bool = False
    certain: bool = True
    informs: bool = False


def shell_arguments(words: tuple[Word, ...]) -> ShellArguments:
    """The options and the first operand of a shell's call."""
    code: int | None = None
    reads_input, certain = False, True
    at = 1
    while at < len(words):
        word = words[at]
        text = word.text
        if text in {"--version", "--help"} and at == 1:
            return ShellArguments(informs=True)
        if text in {"--", "-"} and word.literal:
            at += 1
            break
        if not is_option(word) and text[:1] != "+":
            break
        certain = certain and word.literal
        if text[:2] == "--" or text.lower() == "-command":
            code = at if text.lower() in {"--command", "-command"} else code
            at += text in {"--rcfile", "--init-file", "--init-command"}
        else:
            code = at if "c" in text and text[0] == "-" else code
            reads_input = reads_input or "s" in text
            at += text.count("o") + text.count("O")
        at += 1
    operand = at if at < len(words) else None
    if operand is not None and not words[operand].literal:
        certain = certain and not words[operand].split
    return ShellArguments(code, operand, reads_input and code is None, certain)
