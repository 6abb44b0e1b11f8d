"""The real command at a terminal, with a scripted model."""

from typing import Any

from tests.support.server import ScriptedServer, call, chunk, sse
from tests.support.terminal import Terminal

PLACEHOLDER = "Type your message or @path/to/file"
ESC, ENTER, CTRL_C, CTRL_D, CTRL_E, CTRL_R = "\x1b", "\r", "\x03", "\x04", "\x05", "\x12"
SHOWN_CURSOR = "25"
BRACKETED_PASTE = "2004"


def at(server: ScriptedServer, *arguments: str, **options: Any) -> Terminal:
    """A session with a scripted model, for tests whose subject is not how it starts."""
    return start_fresh(server, *arguments, fork=True, **options)


def start_fresh(server: ScriptedServer, *arguments: str, **options: Any) -> Terminal:
    """A session with a scripted model, of a command that starts as it does for a person."""
    environ = {"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": server.url, "GEMINI_MODEL": "m"}
    return Terminal(*arguments, **(environ | options))


def calling(name: str, args: dict[str, Any]) -> Any:
    return sse(chunk(call(name, args, id="1"), finish="STOP"))


def answer(terminal: Terminal, keys: str) -> None:
    """Presses keys at a question, once they count."""
    terminal.until("↑/↓ select")
    terminal.send(keys)


def leave(terminal: Terminal) -> None:
    terminal.send(CTRL_D)
    assert terminal.ended() == 0
    assert_restored(terminal)


def leave_at_once(terminal: Terminal) -> None:
    terminal.send(CTRL_C * 4)  # a question, the draft, twice
    assert terminal.ended() == 0
    assert_restored(terminal)


def assert_restored(terminal: Terminal) -> None:
    assert SHOWN_CURSOR in terminal.screen.modes
    assert BRACKETED_PASTE not in terminal.screen.modes
    assert PLACEHOLDER not in terminal.screen.text
    assert "Traceback" not in terminal.screen.text
