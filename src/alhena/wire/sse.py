"""Decodes server-sent events incrementally, from bytes to payloads (WIRE-07).

Line endings and fields follow the HTML standard's event stream format, with two differences. A last
event without its blank line is delivered. Other content (an HTML page, a JSON error body) raises a
typed error, where the standard would ignore it line by line.
"""

from alhena.wire.errors import SseError
from alhena.wire.json_values import excerpt

MAX_EVENT_BYTES = 64 * 1024 * 1024
BODY_LIMIT = 64 * 1024
"""Bytes of a body that is not an event stream kept for the error."""

END_MARKER = b"[DONE]"
"""The payload with which OpenAI's services, and proxies of others, end a stream."""

_BOM = b"\xef\xbb\xbf"
_LONGEST_PREFIX = len(b"data: ")
_JUDGED_BYTES = 4096
_IGNORED_FIELDS = (b"event", b"id", b"retry")
_FOREIGN_STARTS = (b"{", b"[", b"<")
_REMEDY = "Check the address of the service, and that no proxy rewrites its answers."


class SseDecoder:
    """Takes bytes in any chunking, returns the payloads of complete events, each once.

    A payload is an event's `data` lines joined with LF. Comments, other fields and events without
    data are skipped. Time is linear in the input.

    `feed` and `finish` raise SseError when an event exceeds `max_event_bytes` or the bytes are not
    an event stream; payloads of events before that point are returned first.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        self._line: list[bytes] = []  # the pieces of an incomplete line
        self._line_bytes = 0
        self._line_judged = False
        self._data: list[bytes] = []  # the data lines of the current event
        self._data_bytes = 0
        self._events: list[bytes] = []
        self._after_cr = False
        self._at_start = True
        self._recognised = False  # a comment or a standard field has been seen
        self._foreign = False  # a line impossible in an event stream has been seen
        self._strange = bytearray()  # possibly not an event stream
        self._failure: SseError | None = None

    def feed(self, data: bytes) -> list[bytes]:
        """The payloads of events completed by `data`."""
        sole = self._sole_event(data)
        if sole:
            return [sole]
        if self._after_cr and data:
            self._after_cr = False
            if data.startswith(b"\n"):
                data = data[1:]
        # bytes.splitlines splits at LF, CR and CRLF only, unlike str.splitlines.
        for piece in data.splitlines(keepends=True):
            if self._failure is not None:
                break
            if piece.endswith((b"\n", b"\r")):
                self._end_line(piece)
            else:
                self._hold(piece)
        self._after_cr = data.endswith(b"\r") or (self._after_cr and not data)
        return self._take_events()

    def finish(self) -> list[bytes]:
        """The payload of a last event without a blank line. The input ends here."""
        if self._line:
            self._end_line(b"")
        self._end_event()
        if self._failure is None and (self._foreign or (self._strange and not self._recognised)):
            self._fail_foreign()
        return self._take_events()

    def _sole_event(self, data: bytes) -> bytes:
        """The payload of bytes that are exactly one single-line event, the usual case; a fast path.
        b"" for other input."""
        if not data.startswith(b"data: ") or not data.endswith(b"\n"):
            return b""
        if self._line or self._data or self._after_cr or self._foreign or self._failure is not None:
            return b""
        lines = data.splitlines()
        if len(lines) != 2 or lines[1] or len(lines[0]) > self._max:
            return b""
        self._at_start = False
        self._recognised = True
        return lines[0][6:]

    def _take_events(self) -> list[bytes]:
        events, self._events = self._events, []
        if self._failure is not None and not events:
            raise self._failure
        return events

    def _hold(self, piece: bytes) -> None:
        if self._foreign:
            self._keep_strange(piece)
            return
        self._line.append(piece)
        self._line_bytes += len(piece)
        if not self._line_judged:
            self._judge_start()
        if self._line_bytes > self._max + _LONGEST_PREFIX + len(_BOM):
            self._end_line(b"")

    def _judge_start(self) -> None:
        """Detects foreign content by the first byte of an unfinished line, whatever the
        chunking."""
        head = b"".join(self._line)
        if self._at_start:
            if len(head) < len(_BOM) and _BOM.startswith(head):
                return
            head = head.removeprefix(_BOM)
        start = head.lstrip(b" \t")
        self._line_judged = bool(start) or len(head) > _JUDGED_BYTES
        if start.startswith(_FOREIGN_STARTS):
            self._end_line(b"")

    def _end_line(self, piece: bytes) -> None:
        if self._foreign:
            self._keep_strange(piece)
            return
        if self._line:
            self._line.append(piece)
            piece = b"".join(self._line)
            self._line = []
            self._line_bytes = 0
            self._line_judged = False
        if self._at_start:
            self._at_start = False
            piece = piece.removeprefix(_BOM)
        line = piece.rstrip(b"\r\n")
        if not line:
            self._end_event()
        elif line.startswith(b"data:"):
            self._add_data(line[6:] if line.startswith(b" ", 5) else line[5:])
        else:
            self._take_other(line, piece)

    def _take_other(self, line: bytes, piece: bytes) -> None:
        name = line.split(b":", 1)[0]
        if name == b"data":
            self._add_data(b"")
        elif not name or name in _IGNORED_FIELDS:
            self._recognised = True
        elif line.lstrip(b" \t").startswith(_FOREIGN_STARTS):
            self._end_event()
            self._foreign = True
            self._strange.clear()
            self._keep_strange(piece)
        elif not self._recognised:
            self._keep_strange(piece)
        if not self._foreign and len(line) > self._max + _LONGEST_PREFIX:
            self._fail_size()

    def _add_data(self, value: bytes) -> None:
        self._recognised = True
        self._data.append(value)
        self._data_bytes += len(value) + 1
        if self._data_bytes > self._max + 1:
            self._fail_size()

    def _end_event(self) -> None:
        if self._data and self._failure is None:
            payload = b"\n".join(self._data)
            if payload:
                self._events.append(payload)
        self._data = []
        self._data_bytes = 0

    def _keep_strange(self, piece: bytes) -> None:
        self._strange += piece[: BODY_LIMIT - len(self._strange)]
        if len(self._strange) >= BODY_LIMIT and self._foreign:
            self._fail_foreign()

    def _fail_foreign(self) -> None:
        body = bytes(self._strange)
        self._failure = SseError(
            f'the answer is no event stream: it holds "{excerpt(body)}".',
            remedy=_REMEDY,
            body=body,
        )

    def _fail_size(self) -> None:
        self._data = []
        self._failure = SseError(
            f"an event of the answer is larger than {self._max} bytes.",
            remedy="Ask for less in one answer.",
        )
