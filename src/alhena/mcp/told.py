"""What people are told of servers, a few lines whatever these do."""

from collections.abc import Iterator, Mapping, Sequence

from alhena.display_text import escaped
from alhena.mcp.server import Offer

MAX_NAMED = 3
"""Tools that one line names, and lines on what is one matter."""


def offer_lines(offer: Offer) -> Iterator[str]:
    """What is wrong with what a server has."""
    if offer.is_empty and not offer.left_out and not offer.problems:
        yield "No prompts, tools, or resources found on the server."
    yield from some(tuple(_left_out(offer.left_out)), "reasons to leave out tools")
    for problem in offer.problems:
        yield f"{problem}."


def some(lines: Sequence[str], what: str) -> Iterator[str]:
    """The first of these lines, and how many `what` there are beside them."""
    yield from lines[:MAX_NAMED]
    if len(lines) > MAX_NAMED:
        yield f"there are {len(lines) - MAX_NAMED:,} more {what}."


def _left_out(left_out: Mapping[str, str]) -> Iterator[str]:
    """A line for each reason."""
    tools: dict[str, list[str]] = {}
    for tool, reason in left_out.items():
        tools.setdefault(reason, []).append(f"'{escaped(tool[:100])}'")
    for reason, names in tools.items():
        more = len(names) - MAX_NAMED
        named = ", ".join(names[:MAX_NAMED]) + (f" and {more:,} more" if more > 0 else "")
        subject = "the tool" if len(names) == 1 else "the tools"
        verb = "is" if len(names) == 1 else "are"
        yield f"{subject} {named} {verb} left out: {reason}."
