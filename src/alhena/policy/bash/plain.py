"""The commonest lines, read without the parser: plain words between `&&`, `||`, `|` and `;`.

Nothing in such a line means anything else to bash; a property test holds what is read here against
what the tree gives, where the tree is certain (it is not of `a | b | c && d`).
"""

import re

from alhena.policy.bash.evaluation import ASSIGNING, RESERVED
from alhena.policy.bash.reading import Findings, Reading, Scope, Shell
from alhena.policy.bash.simple import read_simple
from alhena.policy.bash.source import Source

MAX_LENGTH = 500
"""Characters of a line that is read here; the limits of the parser are far above it."""

_COMMAND = r"[A-Za-z0-9_./-]+(?:[ \t]+[A-Za-z0-9_./:,@%+=-]+)*[ \t]*"
_LINE = re.compile(rf"[ \t]*{_COMMAND}(?:(?:&&|\|\||\||;)[ \t]*{_COMMAND})*;?[ \t]*")
_MEMBER = re.compile(r"([^ \t&|;][^&|;]*?)[ \t]*(&&|\|\||\||;|\Z)")
_FIRST = re.compile(r"[^ \t&|;]+")
_NOT_PLAIN = RESERVED | ASSIGNING


def read_plain(command: str, findings: Findings) -> bool:
    """Adds the parts of a plain line to the findings; False, and nothing added, for any other."""
    if len(command) > MAX_LENGTH or _LINE.fullmatch(command) is None:
        return False
    members = [(*found.span(1), found.group(2)) for found in _MEMBER.finditer(command)]
    for start, _, _ in members:
        first = _FIRST.match(command, start)
        if first is None or first.group() in _NOT_PLAIN:
            return False
    reading = Reading(Source(command, command, ascii=True), None, findings)
    scope = Scope(Shell())
    piped = False
    for start, stop, operator in members:
        if piped or operator == "|":
            read_simple(reading, start, stop, scope.subshell(piped=piped))
        else:
            read_simple(reading, start, stop, scope)
        piped = operator == "|"
    return True
