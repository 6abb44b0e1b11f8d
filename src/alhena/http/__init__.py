"""The HTTP/1.1 client: connections, exchanges, proxies."""

from typing import NamedTuple

import msgspec

MAX_HEAD_BYTES = 128 * 1024


MOST_INTERIM = 32
"""Maximum interim answers (1xx) to one request."""


class MalformedResponseError(Exception):
    """The bytes of the peer are no HTTP response."""


class ResponseHead(NamedTuple):
    """The head of a response; names of headers are in lower case."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    reason: bytes


class Timeouts(msgspec.Struct, frozen=True):
    """Timeouts in seconds: for connecting, and without data on a connection."""

    connect: float = 10.0
    idle: float = 300.0
