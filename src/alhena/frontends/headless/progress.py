"""What a person at a terminal sees on stderr while a run works: what runs, and how long it took."""

from collections.abc import Callable

from alhena.display_text import one_line
from alhena.events import (
    CompressedEvent,
    Event,
    LoopDetectedEvent,
    ModelFallbackEvent,
    RetryEvent,
    RunStartedEvent,
    ThoughtEvent,
    ToolCallResponseEvent,
    ToolCallUpdateEvent,
    WarningEvent,
)
from alhena.frontends.headless.output import denial_reason, fallback_words

MAX_LINE = 300
MAX_REASON = 200


class Progress:
    """Lines for stderr. With `verbose` false (no terminal) only what went wrong is written."""

    def __init__(self, write: Callable[[str], None], *, verbose: bool) -> None:
        self._write = write
        self._verbose = verbose
        self._described: dict[str, str] = {}
        self._hinted = False

    def feed(self, event: Event) -> None:
        """Writes the line of an event that has one."""
        match event:
            case RunStartedEvent():
                for notice in event.notices:
                    self._line(f"alhena: {notice}")
            case WarningEvent():
                self._line(f"alhena: warning: {event.message}")
            case RetryEvent():
                again = f"trying again in {event.delay_s:.0f} s"
                attempt = f"attempt {event.attempt} of at most {event.max_attempts}"
                reason = one_line(event.reason, MAX_REASON).rstrip(".")
                self._line(f"alhena: {reason}; {again} ({attempt}).")
            case ModelFallbackEvent():
                self._line(f"alhena: {fallback_words(event)}")
            case CompressedEvent():
                self._compressed(event)
            case LoopDetectedEvent():
                self._loop(event)
            case ThoughtEvent() if self._verbose and event.subject:
                self._line(f"· {event.subject}")
            case ToolCallUpdateEvent() if event.status == "executing" and event.pid is None:
                described = f"{event.name} {event.description}".strip()
                self._described[event.call_id] = described
                if self._verbose:
                    self._line(f"→ {described}")
            case ToolCallResponseEvent():
                self._ended(event)
            case _:
                pass

    def _compressed(self, event: CompressedEvent) -> None:
        from alhena.frontends.room_words import compressed_words, is_loss

        if self._verbose or is_loss(event):
            self._line(f"alhena: {compressed_words(event)}")

    def _loop(self, event: LoopDetectedEvent) -> None:
        from alhena.frontends.loop_words import is_news, loop_words

        if is_news(event):
            self._line(f"alhena: warning: {loop_words(event)}")

    def _ended(self, event: ToolCallResponseEvent) -> None:
        described = self._described.pop(event.call_id, event.name)
        if event.status == "success":
            if self._verbose:
                self._line(f"✓ {described} ({_duration(event.duration_ms)})")
            return
        error = event.error or event.status
        self._line(f"Error executing tool {event.name}: {error}")
        if event.denied and (reason := denial_reason(event)) != error:
            self._line(f"alhena: {reason}")
        if event.denied and not self._hinted:
            self._hinted = True
            self._line("alhena: --approval-mode and --policy say what may run without asking.")

    def _line(self, text: str) -> None:
        self._write(f"{one_line(text, MAX_LINE)}\n")


def _duration(milliseconds: float) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"
