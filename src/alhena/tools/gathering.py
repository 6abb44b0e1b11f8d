"""Reading many files into one text, as far as there is room for them."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from alhena.system.errors import FileError, from_os_error, printable
from alhena.system.files import open_real
from alhena.system.workspace import Workspace
from alhena.tools.base import real_location
from alhena.tools.contract import ToolFailure
from alhena.wire.content import Part

if TYPE_CHECKING:
    from alhena.system.encoding import TextWindow
    from alhena.tools.reading import FileContent
    from alhena.tools.selecting import Chosen, Selection, Selector

LISTED = 20
_TRUNCATED = (
    "[WARNING: This file was truncated. To view the full content, use the 'read_file' tool on this "
    "specific file.]\n\n"
)
_ENOUGH_OVER = 50
"""Files that did not fit, after which the rest is not even read: there may be 100,000."""


def _nothing(_path: str) -> str:
    return ""


class Gathering:
    """What was read so far: texts and media in order, the files, and those that did not fit.

    There is room for texts that `weigh` as much as `text` in all, and `media` bytes of media.
    `refuse` says of a path why it may not be read, "" where it may.
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        text: int,
        media: int = 0,
        weigh: Callable[[str], int] = len,
        refuse: Callable[[str], str] = _nothing,
    ) -> None:
        self.blocks: list[str | Part] = []
        self.processed: list[str] = []
        self.over: list[str] = []
        self._workspace = workspace
        self._text = text
        self._media = media
        self._weigh = weigh
        self._refuse = refuse

    def read(self, selector: "Selector", cancellation: threading.Event) -> None:
        """Reads what `selector` has selected. Blocks its thread; `cancellation` ends it early."""
        selection = selector.selection
        for chosen in selection.files.values():
            if cancellation.is_set():
                break
            if len(self.over) >= _ENOUGH_OVER:
                self.over.append(chosen.path)
                continue
            refused = self._refuse(chosen.path)
            content = refused or self._content(chosen, selector, cancellation)
            if isinstance(content, str):
                selection.skip(chosen.path, content)
            else:
                self._take(selection, chosen.path, content)

    def told(self, selection: "Selection") -> list[str]:
        """What the model has to know of files that are there and that it does not get, by line."""
        lines = [
            f"{printable(item.path)}: {item.reason}"
            for item in list(selection.skipped.values())[:LISTED]
        ]
        if len(selection.skipped) > LISTED:
            lines.append(f"{len(selection.skipped) - LISTED} more files were skipped.")
        if self.over:
            named = ", ".join(printable(path) for path in self.over[:LISTED])
            more = len(self.over) - LISTED
            lines.append(
                f"{len(self.over)} files did not fit into one result: {named}"
                f"{f', and {more} more' if more > 0 else ''}. Read them with a further call."
            )
        if selection.ignored:
            lines.append(f"{len(selection.ignored)} files are left out by ignore files.")
        return lines + [*dict.fromkeys((*selection.unsearched, *selection.warnings))][:LISTED]

    def joined(self) -> list[str | Part]:
        """The blocks with neighbouring texts made one."""
        joined: list[str | Part] = []
        texts: list[str] = []
        for block in self.blocks:
            if isinstance(block, str):
                texts.append(block)
            else:
                joined += ["".join(texts), block]
                texts = []
        return [*joined, "".join(texts)]

    def _content(
        self, chosen: "Chosen", selector: "Selector", cancellation: threading.Event
    ) -> "FileContent | str":
        """What a file holds, or why it was not read."""
        from alhena.tools.reading import Lines, read_content

        path = Path(chosen.path)
        real = real_location(self._workspace, path)
        if isinstance(real, ToolFailure):
            return "it leads outside the workspace"
        if real != path and selector.gemini_ignores(real):
            return ".geminiignore leaves it out"
        try:
            descriptor = open_real(real)
            try:
                return read_content(
                    descriptor, path.name, Lines(), cancellation, media=chosen.media
                )
            finally:
                os.close(descriptor)
        except FileError as error:
            return error.message
        except OSError as error:
            return from_os_error(error, path).message

    def _take(self, selection: "Selection", path: str, content: "FileContent") -> None:
        from alhena.system.encoding import TextWindow
        from alhena.tools.reading import Binary, Media, UnwantedMedia

        match content:
            case TextWindow():
                block = _block(path, content)
                weight = self._weigh(block)
                if weight > self._text:
                    self.over.append(path)
                    return
                self._text -= weight
                self.blocks.append(block)
            case Media(mime, data):
                if len(data) > self._media:
                    self.over.append(path)
                    return
                self._media -= len(data)
                self.blocks += [f"--- {printable(path)} ---\n\n({mime})\n\n", content.part()]
            case UnwantedMedia(mime):
                reason = f"{mime}; name the file or its extension in `paths` to get it"
                selection.skip(path, reason)
                return
            case Binary():
                selection.skip(path, "a binary file that cannot be shown")
                return
            case _:
                assert_never(content)
        self.processed.append(path)


def _block(path: str, window: "TextWindow") -> str:
    from alhena.tools.reading import encoding_note

    notes = ""
    shown = len(window.lines)
    if shown < window.total or window.long_lines:
        notes = f"{_TRUNCATED}[Showing lines 1-{shown} of {window.total}"
        if window.long_lines:
            notes += f"; {window.long_lines} of them are longer than shown"
        notes += ".]\n\n"
    if note := encoding_note(window):
        notes += f"[{note}]\n\n"
    return f"--- {printable(path)} ---\n\n{notes}{window.content()}\n\n"
