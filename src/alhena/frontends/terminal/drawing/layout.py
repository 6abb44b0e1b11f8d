"""The layout of the screen: what is drawn above the input line, and below it."""

from collections.abc import Callable

from prompt_toolkit.application.current import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, has_completions, is_searching
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
from prompt_toolkit.layout.processors import (
    AfterInput,
    BeforeInput,
    ConditionalProcessor,
    PasswordProcessor,
)
from prompt_toolkit.search import SearchDirection, SearchState
from prompt_toolkit.widgets import SearchToolbar

from alhena.frontends.terminal.dialogs.panel import Panel
from alhena.frontends.terminal.drawing.graphemes import JoinSigns, measure_by_sign
from alhena.frontends.terminal.drawing.lines import clip_line, line, plain, width
from alhena.frontends.terminal.drawing.printing import Fragments
from alhena.frontends.terminal.entry import EchoLexer

PLACEHOLDER = "Type your message or @path/to/file"
INPUT_ROWS = 10
MENU_ROWS = 8
OPTION_ROWS = 3
"""Rows behind the first one of the highlighted option that are in view where there is room."""

Text = Callable[[], Fragments]


Placed = tuple[Layout, Window, Window, Window]
"""The layout, and the parts of it that can have the focus: input line, menu, answer."""


def build_layout(
    texts: tuple[Text, Text, Text, Text],
    panel: Panel,
    buffers: tuple[Buffer, Buffer],
    keys: tuple[KeyBindings, KeyBindings],
) -> Placed:
    """The layout. `texts` draw the live region, the menu, the list of completions and the footer;
    `buffers` are the input line's and that of an answer in words; `keys` those of the menu and of
    that answer."""
    measure_by_sign()
    (live, menu_text, offered, foot), (entered, written), (menu_keys, answer_keys) = (
        texts,
        buffers,
        keys,
    )
    wanted = Buffer()
    search = SearchToolbar(
        wanted,
        text_if_not_searching="",
        forward_search_prompt=_search_label(entered, wanted),
        backward_search_prompt=_search_label(entered, wanted),
    )
    entry = _input_window(entered, panel, search)
    menu = Window(
        FormattedTextControl(menu_text, focusable=True, key_bindings=menu_keys, show_cursor=False),
        scroll_offsets=ScrollOffsets(bottom=OPTION_ROWS),
        dont_extend_height=True,
        wrap_lines=True,
    )
    answer = _answer_window(written, panel, answer_keys)
    listed = has_completions | Condition(lambda: entered.text == "?")
    offers = Window(FormattedTextControl(offered), dont_extend_height=True)
    body = HSplit(
        [
            Window(FormattedTextControl(live), dont_extend_height=True),
            ConditionalContainer(menu, Condition(lambda: panel.menu is not None)),
            ConditionalContainer(answer, Condition(lambda: panel.label is not None)),
            ConditionalContainer(
                HSplit([VSplit([entry]), search, ConditionalContainer(offers, listed)]),
                Condition(lambda: panel.asking or not panel.open or bool(entered.text)),
            ),
            ConditionalContainer(
                Window(FormattedTextControl(foot), height=1, dont_extend_height=True),
                Condition(lambda: not panel.open or get_app().output.get_size().rows > OPTION_ROWS),
            ),
        ],
        align=VerticalAlign.TOP,
    )
    return Layout(body, focused_element=entry), entry, menu, answer


def _search_label(entered: Buffer, typed: Buffer) -> Callable[[], str]:
    """The label of a search in earlier prompts, which says when there is no match of what is
    `typed`."""

    def label() -> str:
        ways = (SearchDirection.BACKWARD, SearchDirection.FORWARD)
        found = (entered.document_for_search(SearchState(typed.text, way)).text for way in ways)
        known = any(typed.text in each for each in found)
        return "Search history: " if known else "Search history (no match): "

    return label


def _input_window(entered: Buffer, panel: Panel, search: SearchToolbar) -> Window:
    """The window of the input line."""
    return Window(
        BufferControl(
            entered,
            lexer=EchoLexer(),
            input_processors=[
                ConditionalProcessor(
                    AfterInput(f" {PLACEHOLDER}", style="class:dim"),
                    Condition(lambda: not entered.text and not panel.open) & ~is_searching,
                ),
                JoinSigns(),
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


def _answer_window(written: Buffer, panel: Panel, answer_keys: KeyBindings) -> Window:
    """The window of an answer in words."""
    return Window(
        BufferControl(
            written,
            lexer=EchoLexer(),
            input_processors=[
                ConditionalProcessor(PasswordProcessor(), Condition(lambda: panel.secret)),
                BeforeInput(lambda: [("class:bold", f"{panel.label} ")]),
                ConditionalProcessor(
                    AfterInput(lambda: [("class:dim", _clip_hint(panel))]),
                    Condition(lambda: not written.text),
                ),
                JoinSigns(),
            ],
            key_bindings=answer_keys,
        ),
        dont_extend_height=True,
        wrap_lines=True,
    )


def _clip_hint(panel: Panel) -> str:
    """The hint behind the label of an answer, as far as it fits into its row."""
    room = get_app().output.get_size().columns - width(f"{panel.label} ") - 1
    return plain([clip_line(line(panel.placeholder), max(room, 1))])
