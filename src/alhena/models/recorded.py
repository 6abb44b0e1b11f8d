"""Answers read from a file: one JSON object per line, `{"method": …, "response": …}`."""

import os
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from enum import StrEnum
from stat import S_ISREG
from typing import BinaryIO

import msgspec

from alhena.models.errors import RecordingError
from alhena.models.status import Asked, api_error
from alhena.values import Value
from alhena.wire.decode import decode_count_tokens, decode_embed, decode_response
from alhena.wire.encode import EncodedContent
from alhena.wire.errors import DecodeError
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import EmbedContentResponse, GenerateContentResponse
from alhena.wire.text import excerpt


class Method(StrEnum):
    """The methods of a ContentGenerator as recordings name them."""

    GENERATE = "generateContent"
    STREAM = "generateContentStream"
    COUNT_TOKENS = "countTokens"
    EMBED = "embedContent"


class Line(Value, frozen=True):
    """One recorded answer; `response` is a list of chunks when the method is the stream."""

    method: Method
    response: msgspec.Raw


class _Place(msgspec.Struct, frozen=True):
    """Where a line stands: its number, from 1, and the file offset of its first byte."""

    number: int
    offset: int


class RecordedGenerator:
    """Plays the answers of a file, each once.

    `strict`: in the file's order, and a request of another method than the next line's is an
    error. Otherwise each request takes the first unused line of its method. The file is read as
    far as it is needed and never held in memory. A recorded `{"error": …}` is raised like a live
    one. Methods raise RecordingError naming file and line.
    """

    def __init__(self, path: str | os.PathLike[str], *, strict: bool = True) -> None:
        self._path = os.fspath(path)
        self._strict = strict
        _open(self._path).close()  # What cannot be read is told before the first request.
        self._file: BinaryIO | None = None
        self._closed = False
        self._next = _Place(1, 0)
        self._passed: dict[Method, deque[_Place]] = {method: deque() for method in Method}

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """The next recorded answer."""
        place, raw = self._take(Method.GENERATE)
        return self._decode(raw, place, request.model)

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        """The chunks of the next recorded stream."""
        place, raw = self._take(Method.STREAM)
        try:
            chunks = msgspec.json.decode(raw, type=list[msgspec.Raw])
        except msgspec.DecodeError as error:
            raise self._malformed(place, "the response of a stream is a list of chunks") from error
        for chunk in chunks:
            yield self._decode(bytes(chunk), place, request.model)

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        """The next recorded count, whatever the contents."""
        del contents
        place, raw = self._take(Method.COUNT_TOKENS)
        try:
            return decode_count_tokens(raw).total_tokens
        except DecodeError as error:
            raise self._fault(raw, place, model, error) from error

    async def embed(
        self, contents: Sequence[EncodedContent], *, model: str
    ) -> EmbedContentResponse:
        """The next recorded vectors, whatever the contents."""
        del contents
        place, raw = self._take(Method.EMBED)
        try:
            return decode_embed(raw)
        except DecodeError as error:
            raise self._fault(raw, place, model, error) from error

    async def aclose(self) -> None:
        """Closes the file."""
        file, self._file, self._closed = self._file, None, True
        if file is not None:
            file.close()

    def _take(self, method: Method) -> tuple[_Place, bytes]:
        passed = self._passed[method]
        if passed:
            place = passed.popleft()
            return place, bytes(self._line_at(place).response)
        while True:
            place, line = self._advance(method)
            if line.method is method:
                return place, bytes(line.response)
            if self._strict:
                raise RecordingError(
                    f"{self._path}, line {place.number}: expected an answer to {method}, "
                    f"got one to {line.method}.",
                    remedy="Record the session again, or use --fake-responses-non-strict.",
                )
            self._passed[line.method].append(place)

    def _advance(self, method: Method) -> tuple[_Place, Line]:
        """The next line that is not blank, read past."""
        while True:
            place = self._next
            raw = self._read(place)
            if not raw:
                raise RecordingError(
                    f"{self._path}, line {place.number}: expected an answer to {method}, "
                    f"got the end of the file.",
                    remedy="Record a longer session.",
                )
            self._next = _Place(place.number + 1, place.offset + len(raw))
            if raw.strip(b" \t\r\n\xef\xbb\xbf"):
                return place, self._parse(raw, place)

    def _line_at(self, place: _Place) -> Line:
        return self._parse(self._read(place), place)

    def _read(self, place: _Place) -> bytes:
        if self._closed:
            raise RecordingError(f"the recorded responses in {self._path} are closed.")
        if self._file is None:
            self._file = _open(self._path)
        try:
            self._file.seek(place.offset)
            return self._file.readline()
        except OSError as error:
            raise RecordingError(f"cannot read {self._path}: {error.strerror}.") from error

    def _parse(self, raw: bytes, place: _Place) -> Line:
        try:
            return msgspec.json.decode(raw.removeprefix(b"\xef\xbb\xbf"), type=Line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._malformed(place, f'{error}, in "{excerpt(raw, 80)}"') from error

    def _decode(self, raw: bytes, place: _Place, model: str) -> GenerateContentResponse:
        try:
            return decode_response(raw)
        except DecodeError as error:
            raise self._fault(raw, place, model, error) from error

    def _fault(self, raw: bytes, place: _Place, model: str, error: DecodeError) -> Exception:
        """The recorded API error, else the complaint that the line holds no answer."""
        recorded = api_error(raw, Asked(model, self._path))
        return recorded or self._malformed(place, error.message.rstrip("."))

    def _malformed(self, place: _Place, reason: str) -> RecordingError:
        return RecordingError(
            f"{self._path}, line {place.number}: {reason}.",
            remedy='Each line is {"method": "…", "response": …}.',
        )


def _open(path: str) -> BinaryIO:
    """Opens a regular file; a FIFO or device would wait or never end."""
    try:
        if not S_ISREG(os.stat(path).st_mode):
            raise RecordingError(f"{path} holds no recorded responses: it is no regular file.")
        return open(path, "rb")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no usable path"
        raise RecordingError(
            f"cannot read the recorded responses in {path!r}: {reason}.",
            remedy="Check the path given to --fake-responses.",
        ) from error
