"""The question whether a folder is trusted, before a session there begins."""

from collections.abc import Awaitable, Callable

import msgspec

from alhena.config.effective_settings import Place, TrustLevel
from alhena.config.home import trusted_commands_path
from alhena.display_text import one_line
from alhena.errors import AlhenaError, ConfigError
from alhena.frontends.shared.consent import pending_lines
from alhena.frontends.shared.folder_trust import (
    accept,
    accept_waiting,
    aside_words,
    find_waiting,
    write_trust,
)
from alhena.frontends.terminal.drawing.lines import Line, line
from alhena.frontends.terminal.drawing.menu import Menu, MenuOption

MAX_NAMES = 200
"""Characters of the names of files."""
MAX_PARENT = 30
"""Characters of the folder above in an answer."""
_LATER = 2
_DATA = 2
"""Indexes of these two answers."""


async def ask_trust(
    place: Place,
    choose: Callable[[Menu], Awaitable[frozenset[int] | None]],
    show: Callable[[list[Line]], None],
) -> bool:
    """Asks about a folder without a trust decision; whether something was
    written down. Dismissed, the session begins without."""
    waits = find_waiting(place)
    words = (
        "These can change how the agent works and can run commands. They are not read until you "
    )
    words += "trust the folder:"
    if not waits.lines:
        words = "It has no settings, commands or hooks now. Those added later are trusted, too."
    show(
        [
            line(one_line(f"? Do you trust the files in {place.cwd}?"), "bold"),
            line(f"  {words}"),
            *(line(f"    {each}", "dim") for each in waits.lines),
        ]
    )
    parent = one_line(str(place.cwd.parent), MAX_PARENT)
    options = (
        MenuOption(label="Yes, trust this folder", key="y", detail="and those in it"),
        MenuOption(label="Yes, trust the parent folder", key="p", detail=parent),
        MenuOption(label="Not now", key="o", detail="the session begins without them"),
        MenuOption(label="No, never", key="n", detail="and do not ask again"),
    )
    title = "Trust this folder?"
    picked = await choose(Menu(title=title, options=options, selected=_LATER, escape="not now"))
    levels = (TrustLevel.TRUST_FOLDER, TrustLevel.TRUST_PARENT, None, TrustLevel.DO_NOT_TRUST)
    level = levels[min(picked)] if picked else None
    if level is None:
        return False
    try:
        file = write_trust(place.environ, place.cwd, level)
        if level is not TrustLevel.DO_NOT_TRUST:
            accept_waiting(place, waits)
    except AlhenaError as error:
        show([line(f"✗ {one_line(str(error))}", "error")])
        return False
    what = "Not trusted" if level is TrustLevel.DO_NOT_TRUST else "Trusted"
    show([line(f"  {what}; saved in {one_line(str(file))}.", "dim")])
    return True


async def ask_changed(
    place: Place,
    choose: Callable[[Menu], Awaitable[frozenset[int] | None]],
    show: Callable[[list[Line]], None],
) -> bool:
    """Asks about the servers and commands of a folder that are not as they were accepted, one by
    one; whether something was written down. Dismissed, the session begins without the rest. Files
    that may be an entry's own data can be called so with the answer."""
    written = False
    redaction = place.settings.security.environment_variable_redaction
    for each in place.pending:
        show(
            [
                line(one_line(f"? What {place.cwd} has run is not what was accepted."), "bold"),
                line("  This may have commands run. Until accepted, it is held back:"),
                *(line(f"    {row}", _style(row)) for row in pending_lines(each, redaction)),
            ]
        )
        options = [
            MenuOption(label="Yes, as it is now", key="y", detail="and ask again when it changes"),
            MenuOption(label="Not now", key="n", detail="the session begins without"),
        ]
        if each.doubtful:
            names = one_line(", ".join(each.doubtful), MAX_NAMES)
            show([line(f"  It may write these files itself: {names}", "dim")])
            label = "Yes, and do not ask again about files it writes"
            options.append(MenuOption(label=label, key="d"))
        title = "Accept this?"
        menu = Menu(title=title, options=tuple(options), selected=1, escape="not now")
        picked = await choose(menu)
        answer = min(picked) if picked else 1
        if answer == 1:
            return written
        data = each.doubtful if answer == _DATA else each.data
        try:
            aside = accept(place, [msgspec.structs.replace(each, data=data)])
        except ConfigError as error:
            show([line(f"✗ {one_line(str(error))}", "error")])
            return written
        if aside is not None:
            moved = (trusted_commands_path(place.environ), aside)
            show([line(f"  {one_line(aside_words(moved))}.", "dim")])
        written = True
    return written


def _style(row: str) -> str:
    return {"+": "added", "-": "removed"}.get(row[4:5], "dim")
