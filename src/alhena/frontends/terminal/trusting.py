"""The question whether a folder is trusted, before a session there begins."""

from collections.abc import Awaitable, Callable

from alhena.config.errors import ConfigError
from alhena.config.place import Place
from alhena.config.trust import TrustLevel
from alhena.display_text import one_line
from alhena.frontends.terminal.lines import Line, line
from alhena.frontends.terminal.menu import Menu, Option
from alhena.frontends.trusting import say_trust, waiting

MAX_SHOWN = 30
"""Lines about what waits that are shown."""
_LATER = 2


async def ask_trust(
    place: Place,
    choose: Callable[[Menu], Awaitable[frozenset[int] | None]],
    show: Callable[[list[Line]], None],
) -> bool:
    """Asks about a folder of which nobody has said whether it is trusted; whether something was
    written down. Dismissed, the session begins without."""
    shown = waiting(place)
    more = len(shown) - MAX_SHOWN
    rest = [f"and {more} lines more; see alhena trust --status"] if more > 0 else []
    show(
        [
            line(one_line(f"? Do you trust the files in {place.cwd}?"), "bold"),
            line("  These say how the agent works, and may have commands run. Until you trust"),
            line("  the folder they are not read:"),
            *(line(f"    {each}", "dim") for each in (*shown[:MAX_SHOWN], *rest)),
        ]
    )
    parent = one_line(str(place.cwd.parent), 60)
    options = (
        Option(label="Yes, this folder", key="y", detail="and those in it"),
        Option(label="Yes, the one it is in", key="p", detail=parent),
        Option(label="Not now", key="o", detail="the session begins without them"),
        Option(label="No, never", key="n", detail="and do not ask again"),
    )
    picked = await choose(Menu(title="Trust this folder?", options=options, selected=_LATER))
    levels = (TrustLevel.TRUST_FOLDER, TrustLevel.TRUST_PARENT, None, TrustLevel.DO_NOT_TRUST)
    level = levels[min(picked)] if picked else None
    if level is None:
        return False
    try:
        file = say_trust(place.environ, place.cwd, level)
    except ConfigError as error:
        show([line(f"✗ {one_line(str(error))}", "error")])
        return False
    show([line(f"  {level} is written to {one_line(str(file))}.", "dim")])
    return True
