"""The interface between the loop and model services. Nothing above `models/` knows HTTP."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from alhena.errors import StreamCutError
from alhena.wire.content import Content, Part
from alhena.wire.encode import EncodedContent
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import (
    EmbedContentResponse,
    FinishReason,
    GenerateContentResponse,
    UsageMetadata,
)

if TYPE_CHECKING:
    from alhena.models.continuation import CallPieces, RepeatedParts


class Model(Protocol):
    """Answers requests; methods raise `models.errors.ModelError` or `wire.errors.WireError`."""

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """Returns the whole answer."""
        ...

    def stream(self, request: GenerateContentRequest) -> AsyncIterator[GenerateContentResponse]:
        """Yields the answer in chunks. Closing the iterator (or cancelling) closes the
        connection."""
        ...

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        """Counts the tokens of the contents for this model."""
        ...

    async def embed(
        self, contents: Sequence[EncodedContent], *, model: str
    ) -> EmbedContentResponse:
        """Returns one vector per content."""
        ...

    async def aclose(self) -> None:
        """Releases connections and files; the generator must not be used afterwards."""
        ...


ContentGenerator = Model
"""Its name inside of alhena."""


class WithoutEmbeddings:
    """The missing method of a service that computes no embeddings."""

    async def embed(
        self, contents: Sequence[EncodedContent], *, model: str
    ) -> EmbedContentResponse:
        """Always raises RequestRejectedError."""
        from alhena.models.errors import RequestRejectedError

        del contents, model
        raise RequestRejectedError(
            "this service computes no embeddings.",
            remedy="Use the Gemini API (GEMINI_API_KEY) or Vertex AI for them.",
        )


MAX_REQUESTS = 100
"""Maximum requests of one answer: a window of a million tokens takes 32."""


class ContinuedAnswer:
    """The chunks of one answer, which may take several requests.

    A model that reaches the limit of a request ends it with CONTINUATION and a token: the same
    request with the token brings what follows. A token may come earlier; after a broken connection
    it brings what follows its chunk.

    `chunks` are those so far, as parts of the whole: without tokens and inner finish reasons, with
    whole calls, and with the usage of all requests. `token` is the last one that came, None once
    the answer has ended. `prompt_tokens` is the size of the first prompt, 0 until a second request.
    """

    def __init__(self) -> None:
        self.chunks: list[GenerateContentResponse] = []
        self.token: str | None = None
        self.continues = False  # the request ended in good order, and another brings the rest
        self.prompt_tokens = 0
        self._received: list[GenerateContentResponse] = []
        self._kept = 0  # number of chunks up to the last token
        self._asked: str | None = None
        self._requests = 1
        self._pieces: CallPieces | None = None  # None while nothing partial has come
        self._usage: UsageMetadata | None = None  # of the present request
        self._spent: UsageMetadata | None = None  # of the requests before it
        self._repetition: RepeatedParts | None = None
        self._due: list[Part] = []  # delivered already, to come again after the last token

    @property
    def has_progressed(self) -> bool:
        """True if the last request brought a token that it was not sent with."""
        return self.token is not None and self.token != self._asked

    def feed(self, chunk: GenerateContentResponse) -> GenerateContentResponse:
        """Takes a chunk and returns it as a part of the whole. Raises StreamCutError for one that
        does not repeat what was delivered (`deliver_again`)."""
        self._received.append(chunk)
        self._usage = chunk.usage_metadata or self._usage
        made = chunk
        if self._pieces is not None or chunk.is_partial:
            made = self._join_chunk(chunk)
        self.chunks.append(made)
        return made

    def next_request(self, request: GenerateContentRequest) -> GenerateContentRequest:
        """`request`, or what asks for the rest of its answer. Raises UnusableAnswerError after too
        many requests."""
        if self.token is None:
            return request
        if self._requests == MAX_REQUESTS:
            from alhena.models.errors import UnusableAnswerError

            raise UnusableAnswerError(
                f"the model's answer did not end within {MAX_REQUESTS} requests.",
                remedy="Ask for less at a time.",
            )
        self._requests += 1
        if self._usage is not None:
            from alhena.models.continuation import sum_usage

            self.prompt_tokens = self.prompt_tokens or self._usage.prompt_token_count
            self._spent = sum_usage(self._spent, self._usage)
        self._usage = None
        self._asked, self.continues = self.token, False
        return replace(request, continuation_token=self.token)

    def require_rest(self) -> None:
        """Raises StreamCutError for a request that ended before its answer did."""
        if not self.continues:
            raise StreamCutError(
                "the model's answer ended without a finish reason; it is incomplete.",
                remedy="Run the prompt again.",
            )

    def rewind(self) -> bool:
        """Forgets the chunks after the last token; True if they had content."""
        lost = any(chunk.parts for chunk in self._received[self._kept :])
        del self._received[self._kept :], self.chunks[self._kept :]
        if self._pieces is not None:
            from alhena.models.continuation import CallPieces

            self._pieces = CallPieces()
            for chunk in self._received:
                for part in chunk.parts:
                    self._pieces.take(part)
        return lost

    def deliver_again(self) -> None:
        """As `rewind`, for chunks that cannot be taken back: what came after the last token is
        expected once more, and left out then."""
        from alhena.models.continuation import RepeatedParts

        self._due += [part for chunk in self.chunks[self._kept :] for part in chunk.parts]
        self.rewind()
        self._repetition = RepeatedParts(self._due)

    def _join_chunk(self, chunk: GenerateContentResponse) -> GenerateContentResponse:
        from alhena.models.continuation import CallPieces, sum_usage

        if chunk.usage_metadata is not None:
            chunk = replace(chunk, usage_metadata=sum_usage(self._spent, chunk.usage_metadata))
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
            self.token = None
        if not chunk.candidates:
            return chunk
        self._pieces = self._pieces or CallPieces()
        candidate = chunk.candidates[0]
        reason = candidate.finish_reason
        ends = reason not in (None, FinishReason.CONTINUATION)
        if ends:
            self.token = None
        elif candidate.continuation_token:
            self.token, self._kept = candidate.continuation_token, len(self._received)
        self.continues = reason == FinishReason.CONTINUATION and self.has_progressed
        if self.continues:
            self._kept = len(self._received)
        if reason == FinishReason.CONTINUATION and self.token is not None:
            candidate = replace(candidate, finish_reason=None, finish_message=None)
        parts = tuple(part for each in chunk.parts if (part := self._fresh(each)) is not None)
        if candidate.content is not None and parts != candidate.content.parts:
            candidate = replace(
                candidate, content=Content(role=candidate.content.role, parts=parts)
            )
        candidate = replace(candidate, continuation_token=None)
        if ends:
            candidate = self._pieces.end(candidate)
        if self._kept == len(self._received):
            self._due = [] if self._repetition is None else list(self._repetition.left)
        return replace(chunk, candidates=(candidate, *chunk.candidates[1:]))

    def _fresh(self, part: Part) -> Part | None:
        """The part, a whole call in place of its last piece; None for what is not whole yet, or was
        delivered."""
        whole = part if self._pieces is None else self._pieces.take(part)
        if whole is None or self._repetition is None:
            return whole
        return self._repetition.fresh(whole)


async def whole_answer(
    ask: Callable[[GenerateContentRequest], Awaitable[GenerateContentResponse]],
    request: GenerateContentRequest,
) -> GenerateContentResponse:
    """The answer to `request`, over as many requests as it takes, as one response."""
    response = await ask(request)
    if not response.is_partial:
        return response
    from alhena.models.continuation import merge_chunks

    answer = ContinuedAnswer()
    answer.feed(response)
    while answer.continues:
        answer.feed(await ask(answer.next_request(request)))
    return merge_chunks(answer.chunks)
