"""What servers want models to know of them, framed and bounded."""

from collections.abc import Iterable

from alhena.display_text import exact

MAX_ONE = 8_000
MAX_ALL = 24_000
"""Characters."""

_OPEN = "---[start of server instructions]---"
_CLOSE = "---[end of server instructions]---"


def framed_instructions(said: Iterable[tuple[str, str]]) -> str:
    """The instructions of servers, by name, each in a frame that it cannot end, with nothing in it
    that a person would not see; "" for none."""
    framed: list[str] = []
    left = MAX_ALL
    for server, text in said:
        told = exact(text.strip()[: MAX_ONE + 1]).replace(_CLOSE, "[end of server instructions]")
        if len(told) > MAX_ONE:
            told = told[:MAX_ONE] + "\n[… the rest is left out]"
        if not told:
            continue
        left -= len(told)
        if left < 0:
            framed.append(f"The instructions of the tool server '{server}' are left out: too long.")
            continue
        framed.append(
            f"The following are instructions provided by the tool server '{exact(server)}':\n"
            f"{_OPEN}\n{told}\n{_CLOSE}"
        )
    return "\n\n".join(framed)
