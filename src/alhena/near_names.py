"""The known name that a misspelt one means: for "Did you mean …?"."""

from collections.abc import Iterable

NEAR = 0.6
"""Least likeness (`difflib`: 1 for the same name) to a name that is surely wrong."""
VERY_NEAR = 0.75
"""The same for a name that may be right: a prompt of one word, another program's command, a tool
that only a server knows."""


def near_names(name: str, known: Iterable[str], most: int, likeness: float) -> list[str]:
    """The known names that are most like `name`, best first; upper and lower case are the same."""
    from difflib import get_close_matches

    names = {each.casefold(): each for each in known}
    return [names[each] for each in get_close_matches(name.casefold(), names, most, likeness)]


def near_name(name: str, known: Iterable[str], likeness: float = NEAR) -> str | None:
    """The known name that is most like `name`; None if there is none that is so much like it."""
    return next(iter(near_names(name, known, 1, likeness)), None)
