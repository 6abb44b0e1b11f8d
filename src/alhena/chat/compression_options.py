"""How room in a model's window is made: what is wanted, what is needed from outside, and what an
attempt can come to."""

from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import Literal

import msgspec

from alhena.chat.compression_request import Ask
from alhena.chat.masking import Keep, MaskingLimits
from alhena.events import Event
from alhena.wire.encoded import EncodedContent

Trigger = Literal["manual", "auto"]
Count = Callable[[Sequence[EncodedContent]], Awaitable[int]]
"""How many tokens contents take, as the service counts. Raises AlhenaError."""


class CompressionStatus(StrEnum):
    """What became of an attempt to make room."""

    COMPRESSED = "compressed"
    FAILED_INFLATED = "failed_inflated"
    FAILED_EMPTY = "failed_empty_summary"
    FAILED_REQUEST = "failed_request"
    NOOP = "noop"
    TRUNCATED = "content_truncated"


class CompressionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`threshold` is the share of the window from which a conversation is compressed; 0 or less for
    never, and what does not fit is left out then. `masking` None: results are not masked before
    that. `role` is whose conversation it is, for events."""

    threshold: float = 0.5
    masking: MaskingLimits | None = MaskingLimits()
    role: str = "main"


class CompressionServices(msgspec.Struct, frozen=True, kw_only=True):
    """What is needed from outside. `limit` is the window of a model by its name, in tokens.
    `before` is awaited before a summary is asked for, `after` called when contents are gone.
    `aside` does what the next request need not wait for."""

    ask: Ask
    keep: Keep
    limit: Callable[[str], int]
    emit: Callable[[Event], None]
    count: Count | None = None
    before: Callable[[Trigger], Awaitable[None]] | None = None
    after: Callable[[], None] = lambda: None
    aside: Callable[[Callable[[], None]], object] = lambda work: work()
