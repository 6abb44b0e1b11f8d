"""The budget of a session in tokens, time and money, one account for all its requests."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

import msgspec

from alhena.agent.limits import (
    CostLimitError,
    LimitError,
    TimeLimitError,
    TokenLimitError,
    wants_more,
)
from alhena.chat.estimates import config_tokens, content_tokens, part_tokens
from alhena.errors import AlhenaError, ConfigError
from alhena.events import Event, RunFinishedEvent, RunStartedEvent, ToolCallUpdateEvent
from alhena.models.generator import ContentGenerator
from alhena.models.prices import Prices, Tokens
from alhena.models.retry import RetryingGenerator
from alhena.tools.contract import Question
from alhena.values import Limits, Value
from alhena.wire.encode import EncodedContent
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import EmbedContentResponse, GenerateContentResponse, UsageMetadata

if TYPE_CHECKING:
    from alhena.tools.builtin.ask_user import Answers, Ask


class TimeWatch:
    """Cancels `driver`, the task of a run, once its time is up; `error` then says so."""

    def __init__(self, ledger: "Ledger", driver: "asyncio.Task[Any]") -> None:
        self.error: LimitError | None = None
        ledger.begin()
        self._watching = asyncio.ensure_future(self._end(ledger, driver))

    def stop(self) -> None:
        """The run is at its end; a question that is open is taken back."""
        self._watching.cancel()

    async def _end(self, ledger: "Ledger", driver: "asyncio.Task[Any]") -> None:
        error = await ledger.overrun()
        if not driver.done() and not driver.cancelling():  # else somebody has ended it already
            self.error = error
            driver.cancel("time limit")


_PRICE_REMEDY = "Give it one under model.prices in settings.json, or set no limit to the cost."


class Spent(Value, frozen=True, kw_only=True):
    """Tokens, seconds and US dollars taken before a session, which count as its own."""

    tokens: int = 0
    seconds: float = 0.0
    cost: float = 0.0


Breach = tuple[str | None, LimitError]
"""The limit that is reached, None for what cannot be raised, and the error for it."""


class Ledger:
    """The account of a session. Tokens and money are those of the session, time is that of a run,
    without the time that people take to answer.

    `admit` is asked before each request, `charge` told of what it took; so the request that goes
    over a limit of tokens or money is the last. `admit_wait` is asked before each wait, and
    `overrun` ends what still runs when the time is up. With `ask`, a reached limit is a question,
    put once: a yes allows as much again. `clock` gives seconds; `spent` counts for the session
    and its first run.
    """

    def __init__(
        self,
        limits: Limits,
        prices: Prices,
        ask: "Ask | None" = None,
        clock: Callable[[], float] = time.monotonic,
        spent: Spent | None = None,
    ) -> None:
        spent = spent or Spent()
        self.tokens = spent.tokens
        self.cost = spent.cost
        self._step = limits
        self._limits = msgspec.structs.asdict(limits)
        self._prices = prices
        self._ask = None if ask is None else self.exclude_time(ask)
        self._clock = clock
        self._since: float | None = None
        self._before = 0.0
        self._earlier = spent.seconds
        self._running = False
        self._waiting: set[str] = set()
        self._asking = 0
        self._refused: LimitError | None = None
        self._turn = asyncio.Lock()
        self._ticking = asyncio.Event()

    @property
    def times(self) -> bool:
        """True when runs have a limit of time."""
        return self._step.seconds is not None

    @property
    def seconds(self) -> float:
        """Seconds the run has taken so far."""
        return self._before + (0.0 if self._since is None else self._clock() - self._since)

    def require_price(self, model: str) -> None:
        """Raises ConfigError for a model whose cost could not be counted."""
        if self._step.cost is not None and self._prices.of(model) is None:
            raise ConfigError(
                f"the limit of ${self._step.cost:g} cannot be kept: the price of {model} is not"
                " known.",
                remedy=_PRICE_REMEDY,
            )

    async def admit(self, model: str) -> None:
        """Returns when a request to `model` may be sent. Raises LimitError."""
        await self._resolve(lambda: self._breach(model))

    async def admit_wait(self, seconds: float, reason: AlhenaError) -> None:
        """Returns when so long a wait, which `reason` calls for, fits into the run's time. Raises
        LimitError."""
        await self._resolve(lambda: self._time_up(seconds, reason))

    async def overrun(self) -> LimitError:
        """Returns when the run's time is up and is not extended."""
        while True:
            await self._ticking.wait()
            left = (self._limits["seconds"] or float("inf")) - self.seconds
            if left > 0:
                await asyncio.sleep(left)  # a clock that stood still meanwhile is looked at again
                continue
            try:
                await self._resolve(self._time_up)
            except LimitError as error:
                return error

    async def _resolve(self, find: Callable[[], Breach | None]) -> None:
        """Returns when `find` finds nothing, or a person chose to continue."""
        if find() is None:
            return
        async with self._turn:
            while (breach := find()) is not None:
                limit, error = breach
                if self._ask is None or self._refused is not None or limit is None:
                    raise error
                if not await wants_more(self._ask, error.message, "as much again"):
                    self._refused = error
                    raise error
                self._limits[limit] += getattr(self._step, limit)

    def charge(self, model: str, usage: UsageMetadata, answered: str = "") -> None:
        """A request to `model` took this; `answered` is the model that the answer names."""
        tokens = tokens_of(usage)
        self.tokens += max(usage.total_token_count, tokens.prompt + tokens.output)
        size = usage.prompt_token_count
        self.cost += self._prices.count_cost(model, answered, tokens, size=size) or 0.0

    def count_earlier(self, *, tokens: int, cost: float, seconds: float) -> None:
        """Counts what the run that begins took before it waited."""
        self.tokens += tokens
        self.cost += cost
        self._earlier = seconds

    def begin(self) -> None:
        """A run begins, unless one has."""
        if not self._running:
            self._running, self._before, self._refused = True, self._earlier, None
            self._earlier = 0.0
            self._limits["seconds"] = self._step.seconds
            self._waiting.clear()
            self._set_clock()

    def feed(self, event: Event) -> None:
        """Takes an event of the session: runs begin and end, people are asked and answer."""
        if isinstance(event, RunStartedEvent):
            self.begin()
        elif isinstance(event, RunFinishedEvent):
            self._running = False
        elif isinstance(event, ToolCallUpdateEvent):
            if event.status == "awaiting_approval":
                self._waiting.add(event.call_id)
            else:
                self._waiting.discard(event.call_id)
        else:
            return
        self._set_clock()

    def exclude_time(self, ask: "Ask") -> "Ask":
        """The same way to ask, on time that does not count."""

        async def ask_untimed(questions: "tuple[Question, ...]") -> "Answers | None":
            self._asking += 1
            self._set_clock()
            try:
                return await ask(questions)
            finally:
                self._asking -= 1
                self._set_clock()

        return ask_untimed

    def _set_clock(self) -> None:
        """Starts the clock with the run and stops it at its end."""
        runs = self._running and not self._waiting and not self._asking
        if runs and self._since is None:
            self._since = self._clock()
            self._ticking.set()
        elif not runs and self._since is not None:
            self._before += self._clock() - self._since
            self._since = None
            self._ticking.clear()

    def _time_up(self, wait: float = 0.0, reason: AlhenaError | None = None) -> Breach | None:
        """As `_breach`, for the time, and for a wait that is about to begin."""
        if self._refused is not None:
            return None, self._refused
        seconds = self._limits["seconds"]
        if seconds is None or self.seconds + wait < seconds:
            return None
        limit = f"the limit of {seconds:g} second{'' if seconds == 1 else 's'} for one run"
        told = f"reached {limit}."
        if reason is not None:
            told = (
                f"would reach {limit}: the request could be sent again in {wait:.1f} seconds"
                f" ({reason.message.removesuffix('.')})."
            )
        return "seconds", TimeLimitError(
            told, remedy="Raise --max-seconds or model.budget.maxSeconds."
        )

    def _breach(self, model: str) -> Breach | None:
        if self._refused is not None:
            return None, self._refused
        tokens, cost = self._limits["tokens"], self._limits["cost"]
        if tokens is not None and self.tokens >= tokens:
            return "tokens", TokenLimitError(
                f"reached the limit of {tokens:,} tokens for this session.",
                remedy="Raise --max-tokens or model.budget.maxTokens.",
            )
        if (late := self._time_up()) is not None or cost is None:
            return late
        if self.cost >= cost:
            return "cost", CostLimitError(
                f"reached the limit of ${cost:g} for this session.",
                remedy="Raise --max-cost or model.budget.maxCost.",
            )
        if self._prices.of(model) is None:
            return None, CostLimitError(
                f"ended before a request to {model}, whose price is not known: the limit of"
                f" ${cost:g} could not be kept.",
                remedy=_PRICE_REMEDY,
            )
        return None


class MeteredGenerator:
    """Passes requests on to `inner` when they are admitted, and charges what they took, also of
    answers that break off: as the service says, and where it does not, as estimated. Subclasses
    admit and charge."""

    def __init__(self, inner: ContentGenerator) -> None:
        self.inner = inner

    async def _admit(self, model: str, tokens: Callable[[], int], /) -> int:
        """Returns when a request of about so many tokens may start; its number."""
        raise NotImplementedError

    def _charge(
        self, number: int, model: str, usage: UsageMetadata | None, answered: str = "", /
    ) -> None:
        """The request took this; None: nothing, the service refused it. `answered`: the model that
        the answer names."""
        raise NotImplementedError

    def _note_refusal(self, model: str, error: AlhenaError) -> None:
        """A request to the model has failed."""

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """The whole answer in one piece. Raises what admitting does, too."""
        number = await self._admit(request.model, lambda: _estimate_tokens(request))
        usage: UsageMetadata | None = None
        answered = ""
        try:
            response = await self.inner.generate(request)
            answered = response.model_version or ""
            output = sum(map(part_tokens, response.parts))
            usage = usage_of(request, response.usage_metadata, output)
        except asyncio.CancelledError:
            usage = usage_of(request, None)
            raise
        except AlhenaError as error:
            self._note_refusal(request.model, error)
            raise
        finally:
            self._charge(number, request.model, usage, answered)
        return response

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        """The answer chunk by chunk. Raises what admitting does, too."""
        number = await self._admit(request.model, lambda: _estimate_tokens(request))
        usage: UsageMetadata | None = None
        output = 0.0
        answered = ""
        taken = whole = False
        stream = self.inner.stream(request)
        try:
            async for chunk in stream:
                taken = True
                usage = chunk.usage_metadata or usage
                answered = chunk.model_version or answered
                output += sum(map(part_tokens, chunk.parts))
                yield chunk
            taken = whole = True
        except asyncio.CancelledError:
            taken = True  # it is on its way, and nobody will say what it took
            raise
        except AlhenaError as error:
            self._note_refusal(request.model, error)
            raise
        finally:
            used = usage_of(request, usage, output, whole=whole) if taken else None
            self._charge(number, request.model, used, answered)
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        """The number of tokens the contents take, which costs nothing."""
        return await self.inner.count_tokens(contents, model=model)

    async def embed(
        self, contents: Sequence[EncodedContent], *, model: str
    ) -> EmbedContentResponse:
        """One vector per content. Raises what admitting does, too."""
        tokens = sum(content_tokens(entry.content) for entry in contents)
        number = await self._admit(model, lambda: tokens)
        usage: UsageMetadata | None = None
        try:
            response = await self.inner.embed(contents, model=model)
            usage = UsageMetadata(prompt_token_count=tokens)
        finally:
            self._charge(number, model, usage)
        return response

    async def aclose(self) -> None:
        """Closes the inner generator."""
        await self.inner.aclose()


class BudgetedGenerator(MeteredGenerator):
    """Passes requests on as far as the `ledger` admits them. A request that the service refuses
    costs nothing. Raises LimitError for one that is not admitted."""

    def __init__(self, inner: ContentGenerator, ledger: Ledger) -> None:
        super().__init__(inner)
        self._ledger = ledger

    async def _admit(self, model: str, _tokens: Callable[[], int], /) -> int:
        await self._ledger.admit(model)
        return 0

    def _charge(
        self, _number: int, model: str, usage: UsageMetadata | None, answered: str = "", /
    ) -> None:
        if usage is not None:
            self._ledger.charge(model, usage, answered)


def tokens_of(usage: UsageMetadata) -> Tokens:
    """The tokens that have a price."""
    prompt = usage.prompt_token_count + usage.tool_use_prompt_token_count
    output = usage.candidates_token_count + usage.thoughts_token_count
    cached = min(usage.cached_content_token_count, prompt)
    return Tokens(
        prompt=prompt,
        cached=cached,
        output=output,
        tier=usage.service_tier or "",
        written=usage.cache_write_token_count,
        written_hour=usage.cache_write_hour_token_count,
    )


def usage_of(
    request: GenerateContentRequest,
    usage: UsageMetadata | None,
    output: float = 0.0,
    *,
    whole: bool = True,
) -> UsageMetadata:
    """Usage of a request: as reported, with estimates for what the service left out or reported as
    zero. `output`: tokens of the answer received; not `whole`: the answer was cut off, so some may
    not be counted."""
    came = ceil(output)
    usage = usage or UsageMetadata()
    tier = request.config.service_tier
    if tier is not None and usage.service_tier is None:
        usage = msgspec.structs.replace(usage, service_tier=tier)
    said = usage.candidates_token_count + usage.thoughts_token_count
    if not usage.prompt_token_count:
        rest = usage.total_token_count - said - usage.tool_use_prompt_token_count
        prompt = rest if rest > 0 else _estimate_tokens(request)
        usage = msgspec.structs.replace(usage, prompt_token_count=prompt)
        if rest <= 0 and not said:
            usage = msgspec.structs.replace(usage, candidates_token_count=came)
            said = came
    missing = came - said
    if whole or missing <= 0:
        return usage
    return msgspec.structs.replace(
        usage, candidates_token_count=usage.candidates_token_count + missing
    )


def _estimate_tokens(request: GenerateContentRequest) -> int:
    contents = sum(content_tokens(entry.content) for entry in request.contents)
    return contents + config_tokens(request.config)


def limit_generator(generator: ContentGenerator, ledger: Ledger) -> ContentGenerator:
    """The generator within the ledger's limits; each attempt of one that asks again is a
    request."""
    if isinstance(generator, RetryingGenerator):
        return generator.over(BudgetedGenerator(generator.inner, ledger), ledger.admit_wait)
    return BudgetedGenerator(generator, ledger)
