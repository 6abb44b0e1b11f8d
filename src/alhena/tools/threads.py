"""Runs a tool's code that may block or fail: in a thread, in a boundary that turns failures into
values."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from alhena.display_text import escaped

P = ParamSpec("P")
T = TypeVar("T")


async def run_blocking(
    cancellation: threading.Event, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Returns the result of `work(*args)`, run in a thread.

    Cancellation sets the event, which `work` has to check, and awaits the thread before it raises
    CancelledError: when a call has ended, none of its work continues.
    """
    import asyncio  # not at the top: listing the tools needs no event loop

    running = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        cancellation.set()
        await asyncio.wait({running})
        if not running.cancelled():
            running.exception()
        raise


MAX_MESSAGE = 500


class Boundary:
    """Runs a block of a tool's code; an exception of that code is stored in `failure`.

    Cancellation, interruption and exit pass through: they are meant for the caller.
    """

    __slots__ = ("failure",)

    def __init__(self) -> None:
        self.failure: Exception | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> bool:
        if isinstance(error, Exception):
            self.failure = error
            return True
        return False


def one_line(error: BaseException) -> str:
    """Formats an exception in one line of at most 500 characters: its type and message."""
    nested = Boundary()
    text = ""
    with nested:
        text = escaped(" ".join(str(error).split()))
    name = type(error).__name__
    if nested.failure is not None:
        return f"{name} (its message cannot be read: {type(nested.failure).__name__})"
    shown = text if len(text) <= MAX_MESSAGE else text[:MAX_MESSAGE] + "…"
    return f"{name}: {shown}" if shown else name
