"""The common part of transports to services of other dialects."""

import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from itertools import count
from typing import Any, Protocol, TypeVar

import msgspec

from alhena.errors import StreamCutError
from alhena.http.addresses import Endpoint, is_loopback
from alhena.models.errors import CredentialsError
from alhena.wire.dialects.conversation import ToolNameMap, service_names
from alhena.wire.dialects.fields import DialectError
from alhena.wire.encode import decode_error
from alhena.wire.errors import DecodeError
from alhena.wire.json_values import as_object, decode_json, excerpt, is_token
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import GenerateContentResponse
from alhena.wire.sse import END_MARKER

E = TypeVar("E")


class ChunkReader(Protocol):
    """Converts events of a dialect to chunks (`wire.dialects.*.EventReader`)."""

    def feed(self, event: object, /) -> list[GenerateContentResponse]:
        """Converts one event to chunks."""
        ...

    @property
    def is_counted(self) -> bool:
        """True when text and the tokens of the answer have come, and no call."""
        ...

    def finish(self) -> list[GenerateContentResponse]:
        """Returns the final chunks."""
        ...


def foreign_key(environ: Mapping[str, str], variable: str, endpoint: Endpoint, page: str) -> str:
    """The key of a service, "" if a local server needs none. Raises CredentialsError, which does
    not quote it."""
    key = environ.get(variable, "").strip()
    if key and not is_token(key):
        raise CredentialsError(
            f"{variable} contains blanks, line breaks or characters that no key has.",
            remedy=f"Copy the key again ({page}).",
        )
    if not key and not is_loopback(endpoint.host):
        raise CredentialsError(
            f"{variable} is not set, which {endpoint.place} wants.",
            remedy=f"Set it ({page}), or let {endpoint.source} name a server of this machine.",
        )
    return key


def decode_object(payload: bytes) -> dict[str, Any]:
    """Decodes an answer, or one event of it. Raises DecodeError, also for an error object."""
    if b'"error"' in payload:
        status = decode_error(payload)
        if status is not None:
            raise DecodeError(f'the answer is an error: "{excerpt(status.message)}".')
    try:
        value = as_object(decode_json(payload))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(f'the answer cannot be read, in "{excerpt(payload)}".') from error
    if value is None:
        raise DecodeError(f'the answer is no object: "{excerpt(payload)}".')
    return value


def decode_event(payload: bytes) -> dict[str, Any] | None:
    """Decodes an event of a stream; None for the end marker."""
    return None if payload.strip() == END_MARKER else decode_object(payload)


def tool_names(request: GenerateContentRequest) -> ToolNameMap:
    """The names of tools as a service gets them."""
    return service_names(request.config, (entry.content for entry in request.contents))


async def answer_chunks(
    events: AsyncGenerator[E, None],
    reader: ChunkReader,
    place: str,
    *,
    is_last: Callable[[E], bool],
    is_whole: Callable[[E], bool] = lambda _event: False,
) -> AsyncGenerator[GenerateContentResponse, None]:
    """Yields the chunks of a streamed answer. Reading stops after the event marked by `is_last`;
    `is_whole` marks one that completes the answer although more may follow. A text with its counts
    needs no end but that of the stream. Raises StreamCutError when the stream of the service at
    `place` ends before the answer, DecodeError for a violation of the dialect."""
    ended = False
    try:
        async with aclosing(events):
            async for event in events:
                if is_last(event):
                    ended = True
                    break
                ended = ended or is_whole(event)
                for chunk in reader.feed(event):
                    yield chunk
        if not ended and not reader.is_counted:
            raise StreamCutError(
                f"the answer of {place} ended before its end.", remedy="Run again."
            )
        for chunk in reader.finish():
            yield chunk
    except DialectError as error:
        raise unreadable(error) from error


def unreadable(error: DialectError) -> DecodeError:
    """The error for an answer that violates its dialect."""
    return DecodeError(f"the answer is not as the dialect has it: {error.message}")


def ids_for_calls() -> Callable[[str], str]:
    """Generates ids for calls without one, unique within and across sessions."""
    token = secrets.token_hex(6)
    numbers = count(1)
    return lambda _name: f"call_{token}_{next(numbers)}"


def numbered_ids() -> Callable[[str], str]:
    """Generates ids for calls of a request that have none: the same each time that the conversation
    is sent, so that a service finds the prompt it has kept."""
    numbers = count(1)
    return lambda _name: f"call_{next(numbers)}"
