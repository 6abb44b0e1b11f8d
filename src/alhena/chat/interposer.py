"""What may stand between a conversation and its model: sees requests and answers, and may change
them."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import GenerateContentResponse


class Admission(msgspec.Struct, frozen=True):
    """A request as it is to be sent; with an `answer`, nothing is sent."""

    request: GenerateContentRequest
    answer: GenerateContentResponse | None = None


class Interposer(Protocol):
    """Both methods may raise an AlhenaError, which ends the exchange. An answer that is reviewed is
    held back until it is complete."""

    reviews_answers: bool

    async def admit(self, request: GenerateContentRequest) -> Admission:
        """Sees a request before it is sent. The history keeps what was said, whatever is sent."""
        ...

    async def review(
        self, request: GenerateContentRequest, chunks: Sequence[GenerateContentResponse]
    ) -> Sequence[GenerateContentResponse]:
        """Sees a complete answer before anybody else does."""
        ...
