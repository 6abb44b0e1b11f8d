"""A generator that retries transient failures within limits."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from alhena.config.settings import GeneralSettings
from alhena.errors import AlhenaError, ModelError
from alhena.events import RetryEvent
from alhena.models.generator import ContentGenerator
from alhena.values import Value
from alhena.wire.encode import EncodedContent
from alhena.wire.errors import WireError
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import EmbedContentResponse, GenerateContentResponse

if TYPE_CHECKING:
    from alhena.models.retry.retry_class import Patience

LONGEST_WAIT_S = 300.0
"""Requested waits longer than this many seconds count as an exhausted quota."""


class RetryPolicy(Value, frozen=True, kw_only=True):
    """Limits of retries. Times are in seconds.

    A refused request is sent up to `max_attempts` times, with backoff that doubles from `initial_s`
    to `max_s`. A truncated, unreadable or empty answer is requested `broken_attempts` times in
    total, with backoff that doubles from `broken_s`. An overloaded model is first retried after
    `capacity_s`. All waits of a request together take at most `max_wait_s`.

    A wait is never shorter than the service asks; a random share up to `jitter` is added, so that
    clients do not retry all at once. `retry_fetch_errors`: unknown network errors also count as
    transient.
    """

    max_attempts: int = 10
    initial_s: float = 5.0
    max_s: float = 30.0
    broken_attempts: int = 4
    broken_s: float = 1.0
    capacity_s: tuple[float, ...] = (1.0, 3.0)
    max_wait_s: float = LONGEST_WAIT_S
    jitter: float = 0.2
    retry_fetch_errors: bool = True


REPLAY = RetryPolicy(initial_s=0, max_s=0, broken_s=0, capacity_s=(0, 0), jitter=0)
"""For recorded answers: recorded retries are repeated without waiting."""


def retry_policy(settings: GeneralSettings) -> RetryPolicy:
    """The policy of a session, with at least one attempt."""
    return RetryPolicy(
        max_attempts=max(1, settings.max_attempts), retry_fetch_errors=settings.retry_fetch_errors
    )


T = TypeVar("T")

Sleep = Callable[[float], Awaitable[object]]
Tell = Callable[[RetryEvent], None]
Admits = Callable[[float, AlhenaError], Awaitable[None]]
"""Returns when a wait of this length after such an error may begin; raises an error to stop
instead."""


class RetryingGenerator:
    """Sends requests to `inner`, with retries according to `policy`.

    A stream is only restarted before its first chunk: delivered chunks cannot be withdrawn here. A
    `Chat` can do that (it notifies its front ends), so it calls `inner` directly and applies the
    policy. `tell` is called before each wait, and `admits` before that; cancellation ends a wait at
    once.
    """

    def __init__(
        self,
        inner: ContentGenerator,
        policy: RetryPolicy | None = None,
        *,
        sleep: Sleep | None = None,
        chance: Callable[[], float] | None = None,
        tell: Tell | None = None,
    ) -> None:
        self.inner = inner
        self.policy = policy or RetryPolicy()
        self._sleep = sleep
        self._chance = chance
        self._tell = tell
        self.admits: Admits | None = None

    def telling(self, tell: Tell) -> "RetryingGenerator":
        """The same generator with another receiver of retry events."""
        return self._alike(self.inner, tell)

    def over(self, inner: ContentGenerator) -> "RetryingGenerator":
        """The same retry policy for another generator."""
        return self._alike(inner, self._tell)

    def _alike(self, inner: ContentGenerator, tell: Tell | None) -> "RetryingGenerator":
        alike = RetryingGenerator(
            inner, self.policy, sleep=self._sleep, chance=self._chance, tell=tell
        )
        alike.admits = self.admits
        return alike

    async def admit(self, seconds: float, error: AlhenaError) -> None:
        """Returns when a wait after `error` may begin. Raises LimitError if it exceeds a limit."""
        if self.admits is not None:
            await self.admits(seconds, error)

    async def pause(self, seconds: float) -> None:
        """Waits before the next attempt."""
        from asyncio import sleep

        await (self._sleep or sleep)(seconds)

    def patience(self) -> "Patience":
        """A new retry account for a request that failed for the first time."""
        from random import random

        from alhena.models.retry.retry_class import Patience

        return Patience(self.policy, self._chance or random)

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """Returns the whole answer."""
        asked = request.model, request.prompt_id
        return await self._carry(lambda: self.inner.generate(request), asked)

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        """Yields the answer in chunks."""
        patience: Patience | None = None
        while True:
            begun = False
            stream = self.inner.stream(request)
            try:
                async for chunk in stream:
                    begun = True
                    yield chunk
                return
            except (ModelError, WireError) as error:
                patience = patience or self.patience()
                wait = None if begun else patience.after(error)
                if wait is None:
                    raise
                await self._announce(error, patience, wait, (request.model, request.prompt_id))
            finally:
                if isinstance(stream, AsyncGenerator):
                    await stream.aclose()
            await self.pause(wait)

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        """Counts the tokens of the contents for this model."""
        return await self._carry(
            lambda: self.inner.count_tokens(contents, model=model), (model, "")
        )

    async def embed(
        self, contents: Sequence[EncodedContent], *, model: str
    ) -> EmbedContentResponse:
        """Returns one vector per content."""
        return await self._carry(lambda: self.inner.embed(contents, model=model), (model, ""))

    async def aclose(self) -> None:
        """Closes the inner generator."""
        await self.inner.aclose()

    async def _carry(self, ask: Callable[[], Awaitable[T]], asked: tuple[str, str]) -> T:
        patience: Patience | None = None
        while True:
            try:
                return await ask()
            except (ModelError, WireError) as error:
                patience = patience or self.patience()
                wait = patience.after(error)
                if wait is None:
                    raise
                await self._announce(error, patience, wait, asked)
            await self.pause(wait)

    async def _announce(
        self, error: AlhenaError, patience: "Patience", wait: float, asked: tuple[str, str]
    ) -> None:
        await self.admit(wait, error)
        if self._tell is not None:
            model, prompt_id = asked
            self._tell(retry_event(error, patience, wait, model=model, prompt_id=prompt_id))


def retry_event(
    error: AlhenaError, patience: "Patience", wait: float, *, model: str, prompt_id: str
) -> RetryEvent:
    """The event of a retry about to wait."""
    return RetryEvent(
        model=model,
        prompt_id=prompt_id,
        attempt=patience.attempts,
        max_attempts=patience.limit,
        delay_s=round(wait, 3),
        reason=error.message,
        error_type=error.kind,
    )
