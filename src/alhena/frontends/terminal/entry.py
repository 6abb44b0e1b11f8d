"""The input line: what is written in it, and long pastes as one word each."""

import re

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer, ThreadedCompleter
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import History

MAX_PASTED_LINES = 10
MAX_PASTED_CHARACTERS = 1_000


class Entry:
    """A `buffer` to write in. A paste that would fill the screen stands there as a mark, such as
    `[pasted 5,000 lines]`; what is sent has the text in its place."""

    def __init__(self, history: History, completer: Completer) -> None:
        self._pasted: dict[str, str] = {}
        self.buffer = Buffer(
            multiline=True,
            history=history,
            completer=ThreadedCompleter(completer),
            complete_while_typing=Condition(self._completes),
            tempfile_suffix=".md",
        )

    def paste(self, text: str) -> None:
        """Inserts a text at the cursor, or its mark."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n") + (not text.endswith("\n"))
        if text.count("\n") >= MAX_PASTED_LINES or len(text) > MAX_PASTED_CHARACTERS:
            text = self._mark(text, lines)
        self.buffer.insert_text(text)

    def mark_before(self) -> str:
        """The mark that the cursor stands behind; "" when there is none."""
        before = self.buffer.document.text_before_cursor
        return next((mark for mark in self._pasted if before.endswith(mark)), "")

    def unfold(self) -> None:
        """Puts what was pasted in the place of its marks."""
        if self._pasted:
            marks = "|".join(map(re.escape, self._pasted))
            whole = re.sub(marks, lambda mark: self._pasted[mark[0]], self.buffer.text)
            if whole != self.buffer.text:
                self.buffer.text = whole
                self.buffer.cursor_position = len(whole)
        self._pasted.clear()

    def take(self) -> str:
        """What is written, with all that was pasted; it becomes history, and the line empty."""
        self.unfold()
        text = self.buffer.text
        self.buffer.append_to_history()
        self.buffer.reset()
        return text

    def clear(self) -> None:
        """Gives up what is written."""
        self._pasted.clear()
        self.buffer.reset()

    def _mark(self, text: str, lines: int) -> str:
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        mark, number = f"[pasted {size}]", 1
        while self._pasted.get(mark, text) != text:
            number += 1
            mark = f"[pasted {size}, {number}]"
        self._pasted[mark] = text
        return mark

    def _completes(self) -> bool:
        text = self.buffer.document.text_before_cursor
        return text.startswith("/") or "@" in text.split("\n")[-1].split(" ")[-1]
