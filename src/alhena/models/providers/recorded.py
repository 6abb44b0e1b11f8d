"""Records answers to a file and replays them: JSON lines of method, response and, for comparing,
request."""

import os
from collections.abc import AsyncGenerator, Callable, Sequence
from enum import StrEnum
from functools import partial
from stat import S_ISREG
from typing import Any, BinaryIO

import msgspec

from alhena.models.errors import RecordingError, RequestDetails
from alhena.models.generator import ContentGenerator
from alhena.models.status import api_error
from alhena.values import Value
from alhena.wire.encode import (
    EncodedContent,
    decode_count_tokens,
    decode_embed,
    decode_response,
    encode_count_tokens,
    encode_embed,
    encode_request,
)
from alhena.wire.errors import DecodeError
from alhena.wire.json_values import excerpt
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import EmbedContentResponse, GenerateContentResponse

_BOM = b"\xef\xbb\xbf"


class Method(StrEnum):
    """The methods of a ContentGenerator, named as in recordings."""

    GENERATE = "generateContent"
    STREAM = "generateContentStream"
    COUNT_TOKENS = "countTokens"
    EMBED = "embedContent"


class RecordedAnswer(Value, frozen=True):
    """One recorded answer; `response` is a list of chunks for a stream. Recordings for comparing
    also have the `request` to `model`, and the working directory `cwd` that both may name."""

    method: Method
    response: msgspec.Raw
    request: msgspec.Raw = msgspec.Raw(b"")
    model: str = ""
    cwd: str = ""


class RecordedGenerator:
    """Replays the answers of a file, each once.

    `strict`: in file order, and a request whose method differs from the next line's is an error.
    Otherwise each request takes the first unused line of its method. A recorded `{"error": …}` is
    raised like a live one. Methods raise RecordingError naming file and line.
    """

    def __init__(self, path: str | os.PathLike[str], *, strict: bool = True) -> None:
        self._path = os.fspath(path)
        self._strict = strict
        with _open(self._path) as file:
            lines = enumerate(file.read().removeprefix(_BOM).splitlines(), 1)
        self._left = [(number, raw) for number, raw in lines if raw.strip()]
        self._end = self._left[-1][0] + 1 if self._left else 1

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """The next recorded answer."""
        number, raw = self.take(Method.GENERATE, request.model, partial(encode_request, request))
        return self._decode(raw, number, request.model)

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        """The chunks of the next recorded stream."""
        number, raw = self.take(Method.STREAM, request.model, partial(encode_request, request))
        try:
            chunks = msgspec.json.decode(raw, type=list[msgspec.Raw])
        except msgspec.DecodeError as error:
            raise self._line_error(
                number, "the response of a stream is a list of chunks"
            ) from error
        for chunk in chunks:
            yield self._decode(bytes(chunk), number, request.model)

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        """The next recorded count."""
        number, raw = self.take(Method.COUNT_TOKENS, model, partial(encode_count_tokens, contents))
        try:
            return decode_count_tokens(raw).total_tokens
        except DecodeError as error:
            raise self._fault(raw, number, model, error) from error

    async def embed(
        self, contents: Sequence[EncodedContent], *, model: str
    ) -> EmbedContentResponse:
        """The next recorded vectors."""
        number, raw = self.take(Method.EMBED, model, partial(encode_embed, contents, model))
        try:
            return decode_embed(raw)
        except DecodeError as error:
            raise self._fault(raw, number, model, error) from error

    async def aclose(self) -> None:
        """Does nothing: no file is open."""

    def take(self, method: Method, model: str, body: Callable[[], bytes]) -> tuple[int, bytes]:
        """The next answer by `method` and the number of its line, whatever the request to `model`
        with this body is."""
        del model, body
        for at, (number, raw) in enumerate(self._left):
            line = self._parse(raw, number)
            if line.method is method:
                del self._left[at]
                return number, bytes(line.response)
            if self._strict:
                raise RecordingError(
                    f"{self._path}, line {number}: expected an answer to {method}, "
                    f"got one to {line.method}.",
                    remedy="Record the session again, or use --fake-responses-non-strict.",
                )
        raise RecordingError(
            f"{self._path}, line {self._end}: expected an answer to {method}, "
            "got the end of the file.",
            remedy="Record a longer session.",
        )

    def lines(self) -> list[tuple[int, RecordedAnswer]]:
        """All lines that are left, with their numbers."""
        return [(number, self._parse(raw, number)) for number, raw in self._left]

    def _parse(self, raw: bytes, number: int) -> RecordedAnswer:
        try:
            return msgspec.json.decode(raw, type=RecordedAnswer)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._line_error(number, f'{error}, in "{excerpt(raw, 80)}"') from error

    def _decode(self, raw: bytes, number: int, model: str) -> GenerateContentResponse:
        try:
            return decode_response(raw)
        except DecodeError as error:
            raise self._fault(raw, number, model, error) from error

    def _fault(self, raw: bytes, number: int, model: str, error: DecodeError) -> Exception:
        """The recorded API error, else the error that the line has no answer."""
        recorded = api_error(raw, RequestDetails(model, self._path))
        return recorded or self._line_error(number, error.message.rstrip("."))

    def _line_error(self, number: int, reason: str) -> RecordingError:
        return RecordingError(
            f"{self._path}, line {number}: {reason}.",
            remedy='Each line is {"method": "…", "response": …}.',
        )


def _open(path: str) -> BinaryIO:
    """Opens a regular file; a FIFO or device could block or never end."""
    try:
        if not S_ISREG(os.stat(path).st_mode):
            raise RecordingError(f"{path} has no recorded responses: it is not a regular file.")
        return open(path, "rb")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no usable path"
        raise RecordingError(
            f"cannot read the recorded responses in {path!r}: {reason}.", remedy="Check the path."
        ) from error


class AnswerRecorder:
    """Delegates everything and appends one line for each answer, with its request if the working
    directory `cwd` is given.

    Only complete answers are recorded: not failed ones, and not a stream that was closed or cut. A
    line is written completely or not at all. The file is readable by its owner only: answers quote
    what the model was shown. Raises RecordingError when the file cannot be written.
    """

    def __init__(
        self, inner: ContentGenerator, path: str | os.PathLike[str], *, cwd: str | None = None
    ) -> None:
        self.inner = inner
        self._path = os.fspath(path)
        self._cwd = cwd
        self._file = _open_recorder(self._path)

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """Returns the inner generator's answer."""
        response = await self.inner.generate(request)
        self._append(Method.GENERATE, response, request.model, partial(encode_request, request))
        return response

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        """Yields the inner generator's chunks."""
        chunks: list[GenerateContentResponse] = []
        stream = self.inner.stream(request)
        try:
            async for chunk in stream:
                chunks.append(chunk)
                yield chunk
        finally:
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()
        self._append(Method.STREAM, chunks, request.model, partial(encode_request, request))

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        """Returns the inner generator's count."""
        total = await self.inner.count_tokens(contents, model=model)
        answer = {"totalTokens": total}
        self._append(Method.COUNT_TOKENS, answer, model, partial(encode_count_tokens, contents))
        return total

    async def embed(
        self, contents: Sequence[EncodedContent], *, model: str
    ) -> EmbedContentResponse:
        """Returns the inner generator's vectors."""
        response = await self.inner.embed(contents, model=model)
        self._append(Method.EMBED, response, model, partial(encode_embed, contents, model))
        return response

    async def aclose(self) -> None:
        """Closes the file and the inner generator."""
        try:
            await self.inner.aclose()
        finally:
            self.close_file()

    def close_file(self) -> None:
        """Closes the file and not the inner generator, which belongs to someone else."""
        descriptor, self._file = self._file, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _append(self, method: Method, response: Any, model: str, body: Callable[[], bytes]) -> None:
        record: dict[str, Any] = {"method": method, "response": response}
        if self._cwd is not None:
            record |= {"request": msgspec.Raw(body()), "model": model, "cwd": self._cwd}
        line = msgspec.json.encode(record) + b"\n"
        try:
            size = os.fstat(self._file).st_size
            if size and os.pread(self._file, 1, size - 1) != b"\n":
                line = b"\n" + line
            written = os.write(self._file, line)
            if written < len(line):
                # A full disk or a size limit: remove the partial line.
                os.ftruncate(self._file, size)
                raise RecordingError(f"{self._path} took only a part of a line: no space left?")
        except OSError as error:
            raise RecordingError(
                f"cannot record to {self._path}: {error.strerror}.", remedy="Check the path."
            ) from error


def _open_recorder(path: str) -> int:
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags, 0o600)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no usable path"
        raise RecordingError(
            f"cannot record to {path!r}: {reason}.", remedy="Check the path."
        ) from error
    if not S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise RecordingError(f"cannot record to {path}: it is not a regular file.")
    return descriptor
