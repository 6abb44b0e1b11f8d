"""The tool-execution boundary: the one place where any exception of a tool's code stops."""

from types import TracebackType
from typing import Self

from alhena.display_text import escaped

MAX_MESSAGE = 500


class Boundary:
    """Runs a block of a tool's code; an exception of that code ends up in `failure`.

    Cancellation, interruption and exit pass through: they are meant for whoever runs the tool.
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
    """An exception in one line of at most 500 characters: its type and what it says."""
    nested = Boundary()
    text = ""
    with nested:
        text = escaped(" ".join(str(error).split()))
    name = type(error).__name__
    if nested.failure is not None:
        return f"{name} (its message cannot be read: {type(nested.failure).__name__})"
    shown = text if len(text) <= MAX_MESSAGE else text[:MAX_MESSAGE] + "…"
    return f"{name}: {shown}" if shown else name
