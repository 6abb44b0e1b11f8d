"""Can a browser be opened here, and opening it."""

import asyncio
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from threading import Thread

_TEXT_BROWSERS = frozenset({"www-browser", "lynx", "links", "links2", "elinks", "w3m"})
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "MIR_SOCKET")


def has_browser(environ: Mapping[str, str], platform: str = sys.platform) -> bool:
    """Whether a page can be shown to the person at this terminal.

    Not with NO_BROWSER, in CI, with a browser that would take the terminal over, without a display
    on Linux, or at the far end of an ssh session elsewhere.
    """
    if environ.get("NO_BROWSER") or environ.get("CI"):
        return False
    if environ.get("DEBIAN_FRONTEND") == "noninteractive":
        return False
    if environ.get("BROWSER", "").rpartition("/")[2] in _TEXT_BROWSERS:
        return False
    if platform == "linux":
        return any(environ.get(name) for name in _DISPLAYS)
    return not environ.get("SSH_CONNECTION")


async def open_browser(url: str) -> bool:
    """Shows a page; false when no browser could be started.

    Some browsers keep their starter until they are closed: it is waited for on a thread that does
    not keep the program from ending.
    """
    loop = asyncio.get_running_loop()
    started: asyncio.Future[bool] = loop.create_future()

    def settle(*, opened: bool) -> None:
        if not started.done():
            started.set_result(opened)

    def start() -> None:
        opened = _open(url)
        with suppress(RuntimeError):  # the loop has been closed: nobody waits any more
            loop.call_soon_threadsafe(partial(settle, opened=opened))

    Thread(target=start, daemon=True).start()
    return await started


def _open(url: str) -> bool:
    import webbrowser

    try:
        return webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return False
