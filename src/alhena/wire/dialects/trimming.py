"""Applies settings of a request that Gemini does not have to its answer."""

from msgspec.structs import replace

from alhena.wire.content import MODEL, Content, Part
from alhena.wire.dialects.conversation import DialectRequest
from alhena.wire.response import STOPPED_AT, Candidate, FinishReason, GenerateContentResponse


class AnswerTrimmer:
    """Ends an answer before the first of the request's other stop sequences, and drops calls after
    the first where only one is allowed. `ended`: a stop sequence was found, so that what follows
    is not part of the answer."""

    def __init__(self, asked: DialectRequest) -> None:
        self._stops = asked.stops
        self._single = not asked.parallel_calls
        self._held = ""
        self._called = False
        self.ended = False

    def feed(self, chunk: GenerateContentResponse) -> GenerateContentResponse:
        """The chunk, or the whole answer, as the client gets it. Text that may be the beginning of
        a stop sequence is held back until the next chunk."""
        if not (self._stops or self._single) or not chunk.candidates:
            return chunk
        candidate = chunk.candidates[0]
        parts: list[Part] = []
        stop = ""
        for part in chunk.parts:
            made, stop = self._trim(part)
            parts += made
            if stop:
                break
        self.ended = bool(stop)
        if candidate.finish_reason and not stop:
            parts += self._release()
        return replace(chunk, candidates=(_with_parts(candidate, parts, stop),))

    def _trim(self, part: Part) -> tuple[list[Part], str]:
        """The parts to pass on, and the stop sequence that was found."""
        if part.function_call is not None:
            kept = [] if self._single and self._called else [part]
            self._called = True
            return [*self._release(), *kept], ""
        if part.thought or part.text is None or not self._stops:
            return [*self._release(), part], ""
        text, self._held = self._held + part.text, ""
        found = [(at, stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            at, stop = min(found)
            return _text_of(part, text[:at]), stop
        held = max(_overlap(text, stop) for stop in self._stops)
        self._held = text[len(text) - held :]
        return _text_of(part, text[: len(text) - held]), ""

    def _release(self) -> list[Part]:
        text, self._held = self._held, ""
        return [Part(text=text)] if text else []


def _text_of(part: Part, text: str) -> list[Part]:
    """The part with another text; nothing for an empty one without a signature."""
    return [replace(part, text=text)] if text or part.thought_signature else []


def _overlap(text: str, stop: str) -> int:
    """The length of the longest end of `text` that begins `stop`."""
    longest = min(len(text), len(stop) - 1)
    return next((size for size in range(longest, 0, -1) if text.endswith(stop[:size])), 0)


def _with_parts(candidate: Candidate, parts: list[Part], stop: str) -> Candidate:
    content = Content(role=MODEL, parts=tuple(parts))
    if not stop:
        return replace(candidate, content=content)
    return replace(
        candidate,
        content=content,
        finish_reason=FinishReason.STOP,
        finish_message=f"{STOPPED_AT}{stop}",
    )
