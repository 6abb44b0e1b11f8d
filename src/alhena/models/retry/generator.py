"""A generator that sends again what failed in passing, within stated limits."""

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
    from alhena.models.retry.manner import Patience

LONGEST_WAIT_S = 300.0
"""A service that asks for more than these seconds has no quota left for this run."""


class RetryPolicy(Value, frozen=True, kw_only=True):
    """Times are seconds.

    A request that the service or the network refuses is sent up to `max_attempts` times, behind
    waits that double from `initial_s` to `max_s`. An answer that breaks off, cannot be read or says
    nothing is asked for `broken_attempts` times in all, behind waits that double from `broken_s`. A
    model without room is first asked again behind `capacity_s`. All waits of a request together
    take no longer than `max_wait_s`.

    A wait is never shorter than what the service asks for; chance makes it longer by up to
    `jitter` (a share), so that clients do not come back all at once. `retry_fetch_errors`: also
    network errors that have no known cause count as passing.
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
"""For recorded answers: what was asked for again then is asked for again now, without a wait."""


def retry_policy(settings: GeneralSettings) -> RetryPolicy:
    """The policy of a session; fewer than one attempt there cannot be."""
    return RetryPolicy(
        max_attempts=max(1, settings.max_attempts), retry_fetch_errors=settings.retry_fetch_errors
    )


T = TypeVar("T")

Sleep = Callable[[float], Awaitable[object]]
Tell = Callable[[RetryEvent], None]
Admits = Callable[[float, AlhenaError], Awaitable[None]]
"""Returns when so long a wait for such an error may begin; raises what is to end it all instead."""


class RetryingGenerator:
    """Passes requests on to `inner`, again and again as `policy` has it.

    A stream is begun again only before its first chunk: what has been handed out cannot be taken
    back from here. A `Chat` can (its front ends are told), so it goes to `inner` itself and keeps
    to the policy. `tell` hears of each wait before it begins, and `admits` is asked before that;
    cancelled, a wait ends at once.
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
        """The same generator for a part of the program that wants to hear of its own waits."""
        return self._alike(self.inner, tell)

    def over(self, inner: ContentGenerator) -> "RetryingGenerator":
        """The same manner of asking again, of another generator."""
        return self._alike(inner, self._tell)

    def _alike(self, inner: ContentGenerator, tell: Tell | None) -> "RetryingGenerator":
        alike = RetryingGenerator(
            inner, self.policy, sleep=self._sleep, chance=self._chance, tell=tell
        )
        alike.admits = self.admits
        return alike

    async def admit(self, seconds: float, error: AlhenaError) -> None:
        """Returns when a wait after `error` may begin. Raises LimitError where it does not fit."""
        if self.admits is not None:
            await self.admits(seconds, error)

    async def pause(self, seconds: float) -> None:
        """Waits before the next attempt."""
        from asyncio import sleep

        await (self._sleep or sleep)(seconds)

    def patience(self) -> "Patience":
        """The account of a request that has failed for the first time."""
        from random import random

        from alhena.models.retry.manner import Patience

        return Patience(self.policy, self._chance or random)

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """The whole answer in one piece."""
        asked = request.model, request.prompt_id
        return await self._carry(lambda: self.inner.generate(request), asked)

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        """The answer chunk by chunk."""
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
        """The number of tokens the contents take in this model's prompt."""
        return await self._carry(
            lambda: self.inner.count_tokens(contents, model=model), (model, "")
        )

    async def embed(
        self, contents: Sequence[EncodedContent], *, model: str
    ) -> EmbedContentResponse:
        """One vector per content."""
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
    """The event of a wait that is about to begin."""
    return RetryEvent(
        model=model,
        prompt_id=prompt_id,
        attempt=patience.attempts,
        max_attempts=patience.limit,
        delay_s=round(wait, 3),
        reason=error.message,
        error_type=error.kind,
    )
