"""`alhena` at a terminal: the prompt is painted first, everything else is loaded behind it."""

import asyncio
import gc
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from alhena.errors import InputError, UsageError
from alhena.frontends.cli.arguments import RunArguments
from alhena.frontends.streams import is_terminal, write_stdout
from alhena.frontends.terminal.signals import INTERRUPTED, SIMPLE, signals
from alhena.system.workspace import current_directory

if TYPE_CHECKING:
    from alhena.frontends.terminal.app import TerminalScreen

ROWS, COLUMNS = 24, 80
"""The size of a terminal that does not know its own."""


def run_terminal(arguments: RunArguments) -> int:
    """A session with a person; the exit code is 0, or 130 when a signal or a terminal that is gone
    ended it. Raises what keeps it from beginning."""
    if not is_terminal(sys.stdin):
        raise InputError(
            "The --prompt-interactive flag cannot be used when input is piped from stdin.",
            remedy="Use -p for a run without a terminal.",
        )
    if not is_terminal(sys.stdout):
        raise UsageError(
            "-i needs a terminal on standard output.", remedy="Use -p for a run without one."
        )
    gc.disable()  # until all is loaded, which stays
    simple = os.environ.get("TERM", "") in SIMPLE
    return asyncio.run(_with_lines(arguments) if simple else _with_prompt(arguments))


async def _with_prompt(arguments: RunArguments) -> int:
    from prompt_toolkit.data_structures import Size
    from prompt_toolkit.input.vt100 import Vt100Input
    from prompt_toolkit.output import ColorDepth
    from prompt_toolkit.output.vt100 import Vt100_Output

    from alhena.frontends.terminal.app import TerminalScreen
    from alhena.frontends.terminal.completion import PromptCompleter
    from alhena.frontends.terminal.history import PromptHistory

    cwd = current_directory()

    def size() -> Size:
        found = os.get_terminal_size(sys.stdout.fileno())
        return Size(rows=found.lines or ROWS, columns=found.columns or COLUMNS)

    def warn(message: str) -> None:
        screen.warn(message)

    screen = TerminalScreen(
        Vt100Input(sys.stdin),
        Vt100_Output(
            sys.stdout,
            size,
            term=os.environ.get("TERM"),
            default_color_depth=ColorDepth.from_env(),  # knows NO_COLOR
            enable_cpr=False,
        ),
        history=PromptHistory(os.environ, cwd, warn),
        completer=PromptCompleter(cwd),
    )
    with signals(screen.hands) as caught:
        code = await _sit(arguments, screen)
    return INTERRUPTED if caught else code


async def _sit(arguments: RunArguments, screen: "TerminalScreen") -> int:
    """Draws the screen, and behind it begins the session and carries it on to its end."""
    drawing = asyncio.create_task(screen.run())
    painted = asyncio.create_task(screen.painted.wait())
    await asyncio.wait({drawing, painted}, return_when=asyncio.FIRST_COMPLETED)
    if painted.cancel():
        return await _closed(drawing)
    # In a thread, so that what is typed meanwhile is seen.
    await asyncio.to_thread(import_module, "alhena.frontends.terminal.sitting")
    from alhena.frontends.terminal.sitting import converse

    gc.freeze()  # what is loaded is looked at no more: keys are not kept waiting for that
    gc.enable()
    hands = screen.hands
    work = asyncio.create_task(converse(arguments, screen, hands.attach), context=screen.context)
    await asyncio.wait({drawing, work}, return_when=asyncio.FIRST_COMPLETED)
    screen.close()
    try:
        return await _closed(drawing)
    finally:
        # The session ends in good order also where its terminal has gone away.
        hands.leave()
        if not hands.attached:
            work.cancel()
        await asyncio.wait({work})
        if not work.cancelled():
            work.result()


async def _closed(drawing: "asyncio.Task[None]") -> int:
    """Waits for the screen's end; not 0 when its terminal has gone away."""
    try:
        await drawing
    except (EOFError, OSError):
        return INTERRUPTED
    return 0


async def _with_lines(arguments: RunArguments) -> int:
    from alhena.frontends.terminal.line_screen import LineScreen
    from alhena.frontends.terminal.sitting import converse

    gc.enable()
    screen = LineScreen(sys.stdin.fileno(), write_stdout)
    with signals(screen) as caught:
        await converse(arguments, screen, screen.attach)
    return INTERRUPTED if caught else 0
