"""alhena at a terminal: the prompt painted first, then everything else; signals."""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING

from alhena.config.home import user_settings_path
from alhena.errors import AlhenaError, UsageError
from alhena.frontends.shared.arguments import RunArguments, piped_session_error
from alhena.frontends.shared.streams import is_terminal, write_stdout
from alhena.system.workspace import current_directory

if TYPE_CHECKING:
    from alhena.frontends.terminal.app import TerminalScreen
    from alhena.frontends.terminal.completion.completer import PromptCompleter
    from alhena.frontends.terminal.keys import KeyActions
    from alhena.frontends.terminal.line_screen import LineScreen

INTERRUPTED = 130
SIMPLE = ("", "dumb", "unknown")
"""Values of TERM for terminals that do nothing but lines."""
_OFF = ("1047", "1000", "1002", "1003", "1004", "1006", "2004", "1")
RESTORED = (
    "".join(f"\x1b[?{mode}l" for mode in _OFF)
    + "\x1b>\x1b[r\x1b[999;1H\x1b[?25h\x1b[?7h\x1b[0m\r\n"
)
"""The main screen, no mouse, no bracketed paste, plain keys; all rows, the last one, a cursor,
wrapped lines, no colours. Undoes what a program that is killed has left, too."""


@contextmanager
def signals(target: "KeyActions | LineScreen") -> Generator[list[int]]:
    """Within this SIGTERM and SIGHUP end the session in good order, and a second one at once; the
    terminal is left as it was found in either case. SIGINT is the target's. Signals that are
    ignored stay so. Those that have come to end the session are in the list."""
    caught: list[int] = []
    loop = asyncio.get_running_loop()
    restore = _restoration()

    def end(number: int) -> None:
        if caught:
            target.kill()
            restore()
            os._exit(INTERRUPTED)
        caught.append(number)
        target.leave(f"ended by {signal.Signals(number).name}")

    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    used = [each for each in numbers if signal.getsignal(each) is not signal.SIG_IGN]
    for number in used:
        if number == signal.SIGINT:
            loop.add_signal_handler(number, target.interrupt)
        else:
            loop.add_signal_handler(number, end, number)
    try:
        yield caught
    finally:
        for number in used:
            loop.remove_signal_handler(number)


def _restoration() -> Callable[[], None]:
    """Puts the terminal back to how it is now, where nothing else gets the chance to."""
    import termios

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    simple = os.environ.get("TERM", "") in SIMPLE

    def restore() -> None:
        try:
            termios.tcsetattr(descriptor, termios.TCSANOW, before)
            os.write(sys.stdout.fileno(), b"" if simple else RESTORED.encode("ascii"))
        except (OSError, termios.error):
            return  # the terminal has gone away

    return restore


ROWS, COLUMNS = 24, 80
"""The size of a terminal that does not know its own."""


def run_terminal(arguments: RunArguments) -> int:
    """A session with a person; the exit code is 0, or 130 when a signal or a terminal that is gone
    ended it. Raises what keeps it from beginning."""
    if not is_terminal(sys.stdin):
        raise piped_session_error()
    if not is_terminal(sys.stdout):
        raise UsageError(
            "-i needs a terminal on standard output.", remedy="Use -p for a run without one."
        )
    read_aloud = arguments.screen_reader or _is_read_aloud(arguments)
    simple = read_aloud or os.environ.get("TERM", "") in SIMPLE
    if simple:
        return asyncio.run(_with_lines(arguments, headings=read_aloud))
    return asyncio.run(_with_prompt(arguments))


def _is_read_aloud(arguments: RunArguments) -> bool:
    """True with `ui.accessibility.screenReader`. Only where the user's file has that word, settings
    are loaded before the prompt is painted."""
    try:
        written = user_settings_path(os.environ).read_bytes()
        if b"screenReader" not in written:
            return False
        from alhena.frontends.shared.current_settings import place_here

        place = place_here(
            skip_trust=arguments.skip_trust, told=False, extensions=arguments.extensions
        )
    except (OSError, AlhenaError):  # said when the session begins
        return False
    return place.settings.ui.accessibility.screen_reader


async def _with_prompt(arguments: RunArguments) -> int:
    from prompt_toolkit.data_structures import Size
    from prompt_toolkit.output import ColorDepth
    from prompt_toolkit.output.vt100 import Vt100_Output

    from alhena.frontends.terminal.app import TerminalScreen
    from alhena.frontends.terminal.completion.completer import PromptCompleter
    from alhena.frontends.terminal.entry import PromptHistory
    from alhena.frontends.terminal.looks.theme import BackgroundInput

    cwd = current_directory()

    def size() -> Size:
        found = os.get_terminal_size(sys.stdout.fileno())
        return Size(rows=found.lines or ROWS, columns=found.columns or COLUMNS)

    def warn(message: str) -> None:
        screen.warn(message)

    completer = PromptCompleter(cwd)
    screen = TerminalScreen(
        BackgroundInput(sys.stdin),
        Vt100_Output(
            sys.stdout,
            size,
            term=os.environ.get("TERM"),
            default_color_depth=ColorDepth.from_env(),  # knows NO_COLOR
            enable_cpr=False,
        ),
        history=PromptHistory(os.environ, cwd, warn),
        completer=completer,
        prepare=completer.prepare,
    )
    loop = asyncio.get_running_loop()

    def complete_path() -> None:
        with suppress(RuntimeError):  # the session has ended
            loop.call_soon_threadsafe(screen.complete_path)

    completer.when_read = complete_path
    with signals(screen.hands) as caught:
        code = await _sit(arguments, screen, completer)
    return INTERRUPTED if caught else code


async def _sit(
    arguments: RunArguments, screen: "TerminalScreen", completer: "PromptCompleter"
) -> int:
    """Draws the screen, and after it begins the session and carries it on to its end."""
    drawing = asyncio.create_task(screen.run())
    painted = asyncio.create_task(screen.painted.wait())
    await asyncio.wait({drawing, painted}, return_when=asyncio.FIRST_COMPLETED)
    if painted.cancel():
        return await _wait_closed(drawing)
    from prompt_toolkit.application.application import attach_winch_signal_handler

    # In a thread, so that what is typed meanwhile is seen.
    await asyncio.to_thread(import_module, "alhena.frontends.terminal.session_start")
    from alhena.frontends.terminal.console import SharedConsole, UseOf
    from alhena.frontends.terminal.conversation import Conversation
    from alhena.frontends.terminal.session_start import connect_soon, converse

    gc.freeze()  # what is loaded is looked at no more: keys are not kept waiting for that
    gc.enable()
    hands = screen.hands

    def console(use: UseOf) -> SharedConsole:
        files = (sys.stdin.fileno(), sys.stdout.fileno())
        return SharedConsole(screen, use, *files, attach_winch_signal_handler)

    def attach(conversation: Conversation) -> None:
        completer.session = conversation
        completer.filtering = conversation.folder.place.settings.context.file_filtering
        screen.pager.pages = conversation.pages
        hands.attach(conversation)
        screen.pause.ended = lambda: connect_soon(arguments, conversation, conversation.agent.model)

    work = asyncio.create_task(
        converse(arguments, screen, attach, console=console), context=screen.context
    )
    await asyncio.wait({drawing, work}, return_when=asyncio.FIRST_COMPLETED)
    screen.close()
    try:
        return await _wait_closed(drawing)
    finally:
        # The session ends in good order also where its terminal has gone away.
        hands.leave()
        if not hands.attached:
            work.cancel()
        await asyncio.wait({work})
        if not work.cancelled():
            work.result()


async def _wait_closed(drawing: "asyncio.Task[None]") -> int:
    """Waits for the screen's end; not 0 when its terminal has gone away."""
    try:
        await drawing
    except (EOFError, OSError):
        return INTERRUPTED
    return 0


async def _with_lines(arguments: RunArguments, *, headings: bool) -> int:
    from alhena.frontends.terminal.line_screen import LineScreen
    from alhena.frontends.terminal.session_start import converse

    gc.enable()
    screen = LineScreen(sys.stdin.fileno(), write_stdout, headings=headings)
    with signals(screen) as caught:
        await converse(arguments, screen, screen.attach)
    return INTERRUPTED if caught else 0
