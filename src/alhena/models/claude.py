"""What is known of Anthropic's models by their names."""

import re

import msgspec

_NAME = re.compile(r"claude-(?:([a-z]+)-)?(\d{1,2})(?:[.-](\d{1,2}))?(?![\d.])(?:-([a-z]+))?")
LEAST_OUTPUT = 8192
"""What to ask for of a model of which nothing is known, or behind a question that leaves no room
for more."""
_USUAL = 32_000


class ClaudeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A model of Anthropic's, or of a server that speaks as it does.

    `most_output` is the limit of output in tokens, thinking included, None where it is not known;
    `default_output` what to ask for where nobody set a limit, which the service demands. `thinks`
    and `schemas`: it can be told how much to think, and to which schema an answer keeps.
    """

    most_output: int | None = None
    default_output: int = LEAST_OUTPUT
    thinks: bool = True
    schemas: bool = True


def claude_info(name: str) -> ClaudeInfo:
    """What is known of a model, by its version. More output than 32,000 tokens is asked for only
    where somebody set such a limit: with the question it has to fit in the window."""
    found = _NAME.search(name.lower())
    if found is None:
        return ClaudeInfo()
    family = found[1] or found[4] or ""
    version = int(found[2]), int(found[3] or 0)
    most = _most_output(family, version)
    return ClaudeInfo(
        most_output=most,
        default_output=min(most or _USUAL, _USUAL),
        thinks=version >= (3, 7),
        schemas=version >= ((4, 1) if family == "opus" else (4, 5)),
    )


def _most_output(family: str, version: tuple[int, int]) -> int | None:
    if version < (3, 5):
        return 4096
    if version < (3, 7):
        return 8192
    if version > (4, 5):
        return None
    return 32_000 if family == "opus" and version in {(4, 0), (4, 1)} else 64_000
