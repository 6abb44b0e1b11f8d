"""One line that two sides changed, each in its own places."""

import re

from alhena.tools.diffing import Opcode, opcodes

_WORDS_AND_BLANKS = r"\w+|\s+|[^\w\s]"


def merged(base: str, theirs: str, ours: str) -> str:
    """`base` with the changes of both; where they meet, ours are made and theirs are not."""
    tokens, here, new = (re.findall(_WORDS_AND_BLANKS, line) for line in (base, theirs, ours))
    mine = [code for code in opcodes(tokens, new) if code[0] != "equal"]
    changes = [(i1, i2, new[j1:j2]) for _, i1, i2, j1, j2 in mine]
    changes += [
        (i1, i2, here[j1:j2])
        for tag, i1, i2, j1, j2 in opcodes(tokens, here)
        if tag != "equal" and not _met(i1, i2, mine)
    ]
    out: list[str] = []
    at = 0
    for start, end, tokens_there in sorted(changes):
        out += [*tokens[at:start], *tokens_there]
        at = end
    return "".join([*out, *tokens[at:]])


def _met(start: int, end: int, changes: list[Opcode]) -> bool:
    """Whether a change of the tokens from `start` to `end` has any in common with others."""
    return any(
        (first < end and start < last) or first == last == start == end
        for _, first, last, _, _ in changes
    )
