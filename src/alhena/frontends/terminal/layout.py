"""Where things stand at the bottom of the terminal."""

from collections.abc import Callable

import msgspec
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, is_searching
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    ScrollOffsets,
    VerticalAlign,
    VSplit,
    Window,
)
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import (
    AfterInput,
    BeforeInput,
    ConditionalProcessor,
)
from prompt_toolkit.widgets import SearchToolbar

from alhena.frontends.terminal.panel import Panel
from alhena.frontends.terminal.printing import Fragments

PLACEHOLDER = "Type your message or @path/to/file"
INPUT_ROWS = 10
MENU_ROWS = 8
OPTION_ROWS = 3
"""Rows behind the first one of the highlighted option that are in view where there is room."""

Text = Callable[[], Fragments]


class Texts(msgspec.Struct, frozen=True, kw_only=True):
    """What is drawn, as it is now: what still changes, the menu, the foot."""

    live: Text
    menu: Text
    foot: Text


class Placed(msgspec.Struct, frozen=True):
    """The layout and the parts of it that can have the focus."""

    layout: Layout
    input: Window
    menu: Window
    answer: Window


def placed(
    texts: Texts,
    panel: Panel,
    buffers: tuple[Buffer, Buffer],
    keys: tuple[KeyBindings, KeyBindings],
) -> Placed:
    """The layout. `buffers` are the input line's and that of an answer in words; `keys` those of
    the menu and of that answer."""
    (entered, written), (menu_keys, answer_keys) = buffers, keys
    search = SearchToolbar()
    entry = Window(
        BufferControl(
            entered,
            input_processors=[
                ConditionalProcessor(
                    AfterInput(PLACEHOLDER, style="class:dim"),
                    Condition(lambda: not entered.text) & ~is_searching,
                )
            ],
            search_buffer_control=search.control,
            preview_search=True,
            focus_on_click=False,
        ),
        height=Dimension(min=1, max=INPUT_ROWS),
        dont_extend_height=True,
        wrap_lines=True,
        get_line_prefix=lambda number, wrap: [
            ("class:accent", "> " if number == wrap == 0 else "  ")
        ],
    )
    menu = Window(
        FormattedTextControl(texts.menu, focusable=True, key_bindings=menu_keys, show_cursor=False),
        scroll_offsets=ScrollOffsets(bottom=OPTION_ROWS),
        dont_extend_height=True,
        wrap_lines=True,
    )
    answer = Window(
        BufferControl(
            written,
            input_processors=[
                BeforeInput(lambda: [("class:bold", f"{panel.label} ")]),
                ConditionalProcessor(
                    AfterInput(lambda: [("class:dim", panel.placeholder)]),
                    Condition(lambda: not written.text),
                ),
            ],
            key_bindings=answer_keys,
        ),
        dont_extend_height=True,
        wrap_lines=True,
    )
    body = HSplit(
        [
            Window(FormattedTextControl(texts.live), dont_extend_height=True),
            ConditionalContainer(menu, Condition(lambda: panel.menu is not None)),
            ConditionalContainer(answer, Condition(lambda: panel.label is not None)),
            ConditionalContainer(
                HSplit([VSplit([entry]), search, CompletionsMenu(max_height=MENU_ROWS)]),
                Condition(lambda: not panel.open),
            ),
            Window(FormattedTextControl(texts.foot), height=1, dont_extend_height=True),
        ],
        align=VerticalAlign.TOP,
    )
    return Placed(Layout(body, focused_element=entry), entry, menu, answer)
