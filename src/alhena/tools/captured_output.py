"""Where the output of one command goes: its two ends to memory, and all of it to the store."""

from collections.abc import Callable

from alhena.system.spool import TextSpool
from alhena.system.terminal_text import CapturedText, LiveOutput, OutputCapture
from alhena.tools.contract import SpilledText
from alhena.tools.output_store import OutputStore
from alhena.tools.truncation import ends


def live_output(update: Callable[[str], None]) -> LiveOutput:
    """Passes output on while it comes, by the clock of the running loop."""
    import asyncio

    loop = asyncio.get_running_loop()
    return LiveOutput(update, clock=loop.time, call_later=loop.call_later)


class CapturedOutput:
    """Feed `capture` with the bytes. `size` characters are kept in memory; of more the whole goes
    to a file of `store` that begins with `prefix` and has at most `most` bytes (0: any number), the
    end of the text apart. `on_text` receives the text as it comes."""

    tool = "run_shell_command"
    """What the file is named after."""

    def __init__(
        self,
        store: OutputStore | None,
        call_id: str,
        *,
        prefix: str,
        size: int,
        most: int = 0,
        on_text: Callable[[str], None] | None = None,
    ) -> None:
        self.spool: TextSpool | None = None
        if store is not None:
            self.spool = store.spool(self.tool, call_id, prefix=prefix, keep=size, most=most)
        self.line_breaks = 0
        self._prefix = prefix
        self._most = most
        self._on_text = on_text
        head, tail = ends(size)
        self.capture = OutputCapture(head=head, tail=tail, on_text=self._take)

    def spilled(self, captured: CapturedText, suffix: str) -> SpilledText | None:
        """The whole text with `suffix` (from a line break on) behind the output, when it is longer
        than memory keeps. Ends the file; without anything to keep there is none."""
        spool = self.spool
        if spool is None:
            return None
        if captured.binary or not captured.omitted:
            spool.discard()
            return None
        # The output's own last line break and the one before the suffix are one.
        broken = captured.tail.endswith("\n")
        saved = spool.saved
        spool.finish(suffix.removeprefix("\n") if broken else suffix, tail=captured.tail)
        length = len(captured.head) + captured.omitted + len(captured.tail) - broken
        return SpilledText(
            head=self._prefix + captured.head,
            tail=captured.tail.removesuffix("\n") + suffix,
            characters=len(self._prefix) + length + len(suffix),
            path=None if spool.path is None else str(spool.path),
            problem=spool.problem or self._limit(),
            saved=saved if spool.full else spool.saved,
        )

    def _limit(self) -> str:
        if self.spool is None or not self.spool.full:
            return ""
        return f"the file has at most {self._most:,} bytes and the end of the output"

    def discard(self) -> None:
        """Nobody will be told of it."""
        if self.spool is not None:
            self.spool.discard()

    def _take(self, text: str) -> None:
        self.line_breaks += text.count("\n")
        if self.spool is not None:
            self.spool.add(text)
        if self._on_text is not None:
            self._on_text(text)
