"""Writes the answers of another generator to a file that RecordedGenerator plays."""

import os
from collections.abc import AsyncGenerator, Sequence
from stat import S_ISREG
from typing import Any

import msgspec

from alhena.models.errors import RecordingError
from alhena.models.generator import ContentGenerator
from alhena.models.recorded import Method
from alhena.wire.encode import EncodedContent
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import EmbedContentResponse, GenerateContentResponse

_encoder = msgspec.json.Encoder()


class Recorder:
    """Passes everything through and appends one line for each answer.

    Only answers that came to their end are recorded: not what failed, and not a stream that was
    closed or cut. A line reaches the file whole, in one write, or not at all. The file is created
    readable by its owner only: answers quote what the model was shown. Raises RecordingError when
    the file cannot be written.
    """

    def __init__(self, inner: ContentGenerator, path: str | os.PathLike[str]) -> None:
        self._inner = inner
        self._path = os.fspath(path)
        self._file = _open(self._path)

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """The inner generator's answer."""
        response = await self._inner.generate(request)
        self._append(Method.GENERATE, response)
        return response

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        """The inner generator's chunks, as they come."""
        chunks: list[GenerateContentResponse] = []
        stream = self._inner.stream(request)
        try:
            async for chunk in stream:
                chunks.append(chunk)
                yield chunk
        finally:
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()
        self._append(Method.STREAM, chunks)

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        """The inner generator's count."""
        total = await self._inner.count_tokens(contents, model=model)
        self._append(Method.COUNT_TOKENS, {"totalTokens": total})
        return total

    async def embed(
        self, contents: Sequence[EncodedContent], *, model: str
    ) -> EmbedContentResponse:
        """The inner generator's vectors."""
        response = await self._inner.embed(contents, model=model)
        self._append(Method.EMBED, response)
        return response

    async def aclose(self) -> None:
        """Closes the file and the inner generator."""
        try:
            await self._inner.aclose()
        finally:
            descriptor, self._file = self._file, -1
            if descriptor >= 0:
                os.close(descriptor)

    def _append(self, method: Method, response: Any) -> None:
        line = _encoder.encode({"method": method, "response": response}) + b"\n"
        try:
            size = os.fstat(self._file).st_size
            if size and os.pread(self._file, 1, size - 1) != b"\n":
                line = b"\n" + line
            written = os.write(self._file, line)
            if written < len(line):
                # A full disk or a size limit: what went in is no line and is taken back.
                os.ftruncate(self._file, size)
                raise RecordingError(f"{self._path} took only a part of a line: no space left?")
        except OSError as error:
            raise RecordingError(
                f"cannot record to {self._path}: {error.strerror}.",
                remedy="Check the path given to --record-responses.",
            ) from error


def _open(path: str) -> int:
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags, 0o600)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no usable path"
        raise RecordingError(
            f"cannot record to {path!r}: {reason}.",
            remedy="Check the path given to --record-responses.",
        ) from error
    if not S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise RecordingError(f"cannot record to {path}: it is no regular file.")
    return descriptor
