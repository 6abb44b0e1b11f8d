"""Which key does what. What is not bound here does what it does in any prompt_toolkit program."""

from collections.abc import Callable
from typing import Protocol

from prompt_toolkit.application.current import get_app
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from alhena.frontends.terminal.panel import Panel

CONTINUED = "\\"
_MENU_KEYS = {
    "up": "up",
    "down": "down",
    "c-p": "up",
    "c-n": "down",
    "tab": "down",
    "s-tab": "up",
    "enter": "enter",
    " ": "space",
    "escape": "escape",
}


class Actions(Protocol):
    """What keys lead to."""

    def send(self) -> None:
        """The input is complete."""
        ...

    def stop(self) -> bool:
        """Stops what runs; False when nothing does."""
        ...

    def stop_or_leave(self) -> None:
        """Stops what runs, or clears the input; the second time it leaves."""
        ...

    def leave(self) -> None:
        """Ends the program."""
        ...

    def next_mode(self) -> None:
        """To the next approval mode."""
        ...

    def toggle_yolo(self) -> None:
        """Everything runs without asking, or not any more."""
        ...


def input_keys(actions: Actions, panel: Panel) -> KeyBindings:
    """The keys of the input line, and those that always count."""
    keys = KeyBindings()
    writing = Condition(lambda: not panel.open)
    empty = Condition(lambda: not get_app().current_buffer.text)

    @keys.add("enter", filter=writing)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        state = buffer.complete_state
        if state is not None and state.current_completion is not None:
            buffer.apply_completion(state.current_completion)
        elif buffer.document.current_line_before_cursor.endswith(CONTINUED):
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
        else:
            actions.send()

    @keys.add("escape", "enter", filter=writing)
    @keys.add("c-j", filter=writing)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    @keys.add("escape", filter=writing)
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.complete_state is not None:
            event.current_buffer.cancel_completion()
        else:
            actions.stop()

    @keys.add("c-d", filter=writing & empty)
    def _(_event: KeyPressEvent) -> None:
        actions.leave()

    @keys.add("s-tab", filter=writing & ~has_completions)
    def _(_event: KeyPressEvent) -> None:
        actions.next_mode()

    @keys.add("c-y", filter=writing)
    def _(_event: KeyPressEvent) -> None:
        actions.toggle_yolo()

    @keys.add("c-z", filter=writing)
    def _(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()

    @keys.add("c-c")
    @keys.add("<sigint>")
    def _(_event: KeyPressEvent) -> None:
        actions.stop_or_leave()

    return keys


def menu_keys(panel: Panel) -> KeyBindings:
    """The keys of a menu: those that move, and characters."""
    keys = KeyBindings()

    def bound(name: str) -> Callable[[KeyPressEvent], None]:
        return lambda _event: panel.key(name)

    for key, name in _MENU_KEYS.items():
        keys.add(key)(bound(name))

    @keys.add(Keys.Any)
    def _(event: KeyPressEvent) -> None:
        panel.key(event.data)

    @keys.add(Keys.BracketedPaste)
    def _(_event: KeyPressEvent) -> None:
        """What is pasted is no answer."""

    return keys


def answer_keys(panel: Panel) -> KeyBindings:
    """The keys of a line that is written for a question."""
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        panel.accept(event.current_buffer.text)

    @keys.add("escape")
    def _(_event: KeyPressEvent) -> None:
        panel.dismiss()

    return keys
