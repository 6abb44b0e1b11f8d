"""Retries of failed requests: classification, limits and waits."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from enum import StrEnum
from typing import TypeVar, assert_never

from alhena.config.settings import GeneralSettings
from alhena.errors import (
    AlhenaError,
    ModelError,
    NetworkError,
    NoServerError,
    ServerFaultError,
    StreamCutError,
)
from alhena.events import RetryEvent
from alhena.models.errors import CapacityError, QuotaError, RequestRejectedError, SpentQuotaError
from alhena.models.generator import ContentGenerator, ContinuedAnswer, whole_answer
from alhena.values import FieldError, Value
from alhena.wire.encode import EncodedContent
from alhena.wire.errors import DecodeError, SseError, WireError
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import EmbedContentResponse, GenerateContentResponse

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

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("max_attempts", "broken_attempts"):
            if getattr(self, name) < 1:
                raise FieldError(f"RetryPolicy.{name} cannot be {getattr(self, name)}: at least 1.")
        times = (self.initial_s, self.max_s, self.broken_s, self.max_wait_s, *self.capacity_s)
        if min(*times, self.jitter) < 0:
            raise FieldError("the times and the jitter of RetryPolicy cannot be below 0.")


REPLAY = RetryPolicy(initial_s=0, max_s=0, broken_s=0, capacity_s=(0, 0), jitter=0)
"""For recorded answers: recorded retries are repeated without waiting."""


def retry_policy(settings: GeneralSettings) -> RetryPolicy:
    """The policy of a session, with at least one attempt."""
    return RetryPolicy(
        max_attempts=max(1, settings.max_attempts), retry_fetch_errors=settings.retry_fetch_errors
    )


MAX_CAUSES = 5
REQUEST_TIMEOUT = 408
PASSING = frozenset({REQUEST_TIMEOUT, 409, 425, 499})
"""Statuses below 500 of requests that the service gave up: timeout, conflict, too early,
cancelled."""
TOO_MANY = 429


class RetryClass(StrEnum):
    """NEVER: a retry fails too, or may do harm. BACKOFF: the service or the network has to recover.
    BROKEN: malformed or truncated answer. CAPACITY: model overloaded."""

    NEVER = "never"
    BACKOFF = "backoff"
    BROKEN = "broken"
    CAPACITY = "capacity"


def manner_of(error: AlhenaError, *, fetch_errors: bool = True) -> RetryClass:
    """Classifies a generator's error. `fetch_errors`: unknown network errors count as transient."""
    found = RetryClass.NEVER
    match error:
        case SpentQuotaError() | NoServerError():
            pass
        case CapacityError():
            found = RetryClass.CAPACITY
        case QuotaError():
            found = RetryClass.BACKOFF
        case ServerFaultError():  # without a status it came in a response with status 200
            found = RetryClass.BROKEN if error.status is None else RetryClass.BACKOFF
        case StreamCutError() | SseError() | DecodeError():
            found = RetryClass.BROKEN
        case NetworkError():
            found = _network(error, fetch_errors=fetch_errors)
        case RequestRejectedError():
            found = RetryClass.BACKOFF if error.status in PASSING else RetryClass.NEVER
        case _:
            pass
    return found


def hint_of(error: AlhenaError) -> float | None:
    """The wait in seconds requested by the service."""
    return error.retry_after_s if isinstance(error, ModelError) else None


def _network(error: NetworkError, *, fetch_errors: bool) -> RetryClass:
    import ssl

    from alhena.http import MalformedResponseError

    if _is_final(error.status):
        return RetryClass.NEVER
    causes = tuple(_causes(error))
    passing = fetch_errors or not causes  # without a cause the peer closed the connection
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return RetryClass.NEVER
        if isinstance(cause, MalformedResponseError):
            return RetryClass.BROKEN
        if isinstance(cause, ssl.SSLError):
            passing = passing or _passes((cause.reason or "").upper())
        elif isinstance(cause, TimeoutError) and cause.errno is None:
            return RetryClass.BROKEN  # a timeout has taken long already: few attempts
        elif isinstance(cause, OSError):
            passing = passing or _is_passing(cause)
    return RetryClass.BACKOFF if passing else RetryClass.NEVER


def _is_final(status: int | None) -> bool:
    """True when a proxy permanently refuses a tunnel with this status."""
    return status is not None and 400 <= status < 500 and status not in {REQUEST_TIMEOUT, TOO_MANY}


def _passes(tls_reason: str) -> bool:
    return tls_reason == "WRONG_VERSION_NUMBER" or tls_reason.endswith("BAD_RECORD_MAC")


def _is_passing(cause: OSError) -> bool:
    import errno
    import socket

    if isinstance(cause, ConnectionError | TimeoutError | socket.gaierror):
        return True
    known = {errno.EPROTO, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN}
    return cause.errno in known


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The causes of an error, nearest first."""
    cause = error.__cause__ or error.__context__
    for _ in range(MAX_CAUSES):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__ or cause.__context__


class RetryBudget:
    """The retry budget of one request. `chance` gives random numbers from 0 to 1."""

    def __init__(self, policy: RetryPolicy, chance: Callable[[], float]) -> None:
        self.policy = policy
        self.attempts = 1
        self.waited_s = 0.0
        self.limit = policy.max_attempts  # attempts in all, for the class of the last failure
        self._chance = chance
        self._backoffs = 0
        self._broken = 0
        self._crowded = 0

    @property
    def capacity_spent(self) -> bool:
        """True when an overloaded model should not be retried again at once."""
        return self._crowded >= len(self.policy.capacity_s)

    @property
    def broken_spent(self) -> bool:
        """True when another truncated answer is not retried."""
        return (
            self._broken >= self.policy.broken_attempts - 1
            or self.attempts >= self.policy.max_attempts
        )

    def is_long(self, error: AlhenaError) -> bool:
        """True when the service asks for a longer wait than any of ours."""
        return (hint_of(error) or 0.0) > self.policy.max_s

    def manner(self, error: AlhenaError) -> RetryClass:
        """The retry class of `error` for this request."""
        return manner_of(error, fetch_errors=self.policy.retry_fetch_errors)

    def after(self, error: AlhenaError, manner: RetryClass | None = None) -> float | None:
        """Seconds until the next attempt, which is counted now; None to give up. `manner` defaults
        to the class of the error."""
        manner = self.manner(error) if manner is None else manner
        wait = None
        if self.attempts < self.policy.max_attempts:
            wait = self._wait(manner, hint_of(error))
        left = self.policy.max_wait_s - self.waited_s
        if wait is None or wait > left:
            if isinstance(error, ModelError):
                error.attempts = self.attempts
                error.too_long = wait is not None and (hint_of(error) or 0.0) > left
            return None
        # Jitter lengthens a wait within the limit.
        wait = min(wait * (1 + self.policy.jitter * self._chance()), left)
        self.attempts += 1
        self.waited_s += wait
        self.limit = self.policy.max_attempts
        if manner is RetryClass.BROKEN:
            more = self.policy.broken_attempts - 1 - self._broken
            self.limit = min(self.limit, self.attempts + more)
        return wait

    def _wait(self, manner: RetryClass, hint: float | None) -> float | None:
        policy = self.policy
        match manner:
            case RetryClass.NEVER:
                return None
            case RetryClass.BROKEN:
                if self._broken >= policy.broken_attempts - 1:
                    return None
                base = policy.broken_s * 2**self._broken
                self._broken += 1
            case RetryClass.CAPACITY if not self.capacity_spent:
                base = policy.capacity_s[self._crowded]
                self._crowded += 1
            case RetryClass.CAPACITY | RetryClass.BACKOFF:
                base = min(policy.initial_s * 2**self._backoffs, policy.max_s)
                self._backoffs += 1
            case _:
                assert_never(manner)
        return max(base, hint or 0.0)


T = TypeVar("T")

Sleep = Callable[[float], Awaitable[object]]
Tell = Callable[[RetryEvent], None]
Admits = Callable[[float, AlhenaError], Awaitable[None]]
"""Returns when a wait of this length after such an error may begin; raises an error to stop
instead."""


class RetryingGenerator:
    """Sends requests to `inner`, with retries according to `policy`.

    A stream is only restarted before its first chunk, or continues from its last token: delivered
    chunks cannot be withdrawn here. A
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

    def over(self, inner: ContentGenerator, admits: "Admits | None" = None) -> "RetryingGenerator":
        """The same retry policy for another generator; `admits` is asked before each wait."""
        alike = self._alike(inner, self._tell)
        alike.admits = admits or self.admits
        return alike

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

    def patience(self) -> RetryBudget:
        """A new retry account for a request that failed for the first time."""
        from random import random

        return RetryBudget(self.policy, self._chance or random)

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """Returns the whole answer."""
        asked = request.model, request.prompt_id

        def ask(each: GenerateContentRequest) -> Awaitable[GenerateContentResponse]:
            return self._carry(lambda: self.inner.generate(each), asked)

        return await whole_answer(ask, request)

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        """Yields the answer in chunks."""
        patience: RetryBudget | None = None
        answer = ContinuedAnswer()
        while True:
            begun, wait = False, None
            stream = self.inner.stream(answer.next_request(request))
            try:
                async for chunk in stream:
                    begun = True
                    yield answer.feed(chunk)
                if answer.token is None:
                    return
                answer.require_rest()
            except (ModelError, WireError) as error:
                patience = None if answer.has_progressed else patience
                patience = patience or self.patience()
                wait = None if begun and answer.token is None else patience.after(error)
                if wait is None:
                    raise
                await self._announce(error, patience, wait, (request.model, request.prompt_id))
                answer.deliver_again()
            finally:
                if isinstance(stream, AsyncGenerator):
                    await stream.aclose()
            if wait is not None:
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
        patience: RetryBudget | None = None
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
        self, error: AlhenaError, patience: RetryBudget, wait: float, asked: tuple[str, str]
    ) -> None:
        await self.admit(wait, error)
        if self._tell is not None:
            model, prompt_id = asked
            self._tell(retry_event(error, patience, wait, model=model, prompt_id=prompt_id))


def split_retries(
    generator: ContentGenerator,
) -> tuple[RetryingGenerator | None, ContentGenerator]:
    """The generator with its retries, if it has any, and the one that sends each request once."""
    if isinstance(generator, RetryingGenerator):
        return generator, generator.inner
    return None, generator


def wrap_attempts(
    generator: ContentGenerator, wrap: Callable[[ContentGenerator], ContentGenerator]
) -> ContentGenerator:
    """The generator with each attempt of a request passing what `wrap` puts around the service."""
    if isinstance(generator, RetryingGenerator):
        return generator.over(wrap(generator.inner))
    return wrap(generator)


def retry_event(
    error: AlhenaError, patience: RetryBudget, wait: float, *, model: str, prompt_id: str
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
