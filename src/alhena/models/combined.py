"""Models made of others: `Fallback` asks the next one when one fails, `Limited` keeps to a rate."""

import asyncio
import copy
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from threading import Lock
from typing import Any, Self, TypeVar, cast

from msgspec.structs import replace

from alhena.errors import AlhenaError, ConfigError, ModelError
from alhena.models.catalogue import bare_name, model_info
from alhena.models.generator import ContentGenerator
from alhena.models.named import ONCE, NamedModel
from alhena.models.providers.select import ChosenGenerator
from alhena.models.retry import RetryingGenerator
from alhena.models.settings import own_settings
from alhena.wire.content import EncodedContent, for_another_model, is_signed
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import EmbedContentResponse, GenerateContentResponse

T = TypeVar("T")
WINDOW_S = 60.0
_BYTES_PER_TOKEN = 4
_LONGEST_S = 5.0


def name_of(model: object) -> str:
    """The name of a model object, "" for one without."""
    return str(getattr(model, "name", ""))


def require_model(argument: str, model: object) -> ContentGenerator:
    """The model. Raises TypeError for what is none."""
    if isinstance(model, type) or not hasattr(model, "stream"):
        raise TypeError(f"{argument} has to be a model object, not {model!r:.60}")
    return cast("ContentGenerator", model)


Failures = list[tuple[str, Exception]]
"""The models that have failed, by name, with their errors."""


def name_failures(failures: Failures) -> Exception:
    """The error of the last of several models, whose message names all of them."""
    error = failures[-1][1]
    if len(failures) == 1 or not isinstance(error, AlhenaError):
        return error
    told = copy.copy(error)
    reasons = (
        f"{name}: {getattr(each, 'message', '') or repr(each)}".rstrip(".")
        for name, each in failures
    )
    told.message = f"all {len(failures)} models failed. {'; '.join(reasons)}."
    told.__cause__ = error
    return told


class OwnModelError(ModelError):
    """A model of the program's own failed with an error of `on`."""

    kind = "own_model"


class Fallback:
    """Asks the first of several models that answers: the next one when one fails with an error of
    `on`, after its own retries.

        Fallback(Gemini("gemini-3.8-flash"), Anthropic("claude-sonnet-5"))

    In an agent each run begins with the first; a ModelFallbackEvent says who takes over, and that
    text shown before is void. Closing it closes its models.
    """

    def __init__(
        self,
        *models: ContentGenerator,
        on: type[Exception] | tuple[type[Exception], ...] = (ModelError,),
    ) -> None:
        if not models:
            raise TypeError("Fallback takes one model or more")
        kinds: tuple[Any, ...] = on if isinstance(on, tuple) else (on,)
        for kind in kinds:
            if not (isinstance(kind, type) and issubclass(kind, Exception)):
                raise TypeError(f"on has to be classes of exceptions, not {kind!r:.60}")
        self.chains = True
        self.on: tuple[type[Exception], ...] = (*kinds, OwnModelError)
        given = (require_model("Fallback", each) for each in models)
        self.models = tuple(
            each if isinstance(each, RetryingGenerator) else _Member(each, kinds) for each in given
        )
        self.name = name_of(self.models[0])
        self.chosen = ChosenGenerator(
            generator=self, model=self.name, speaks_gemini=False, owned=False
        )

    def __repr__(self) -> str:
        return f"Fallback({', '.join(map(repr, self.models))})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Closes the models."""
        await self.aclose()

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """The whole answer of the first model that gives one. Raises the last one's error, which
        names all."""
        return await self._ask_first(lambda model: model.generate(_for_model(request, model)))

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        """The chunks of the first model that begins an answer. Raises the last one's error, which
        names all, and that of an answer which has begun."""
        failures: Failures = []
        for model in self.models:
            begun = False
            answer = model.stream(_for_model(request, model))
            try:
                async for chunk in answer:
                    begun = True
                    yield chunk
                return
            except self.on as error:
                if begun:
                    raise
                failures.append((name_of(model), error))
            finally:
                await answer.aclose()
        raise name_failures(failures)

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        """The tokens, as the first model counts that can."""
        del model
        return await self._ask_first(lambda each: each.count_tokens(contents, model=name_of(each)))

    async def embed(
        self, contents: Sequence[EncodedContent], *, model: str
    ) -> EmbedContentResponse:
        """The vectors of the first model: those of different models cannot be compared."""
        return await self.models[0].embed(contents, model=model)

    async def aclose(self) -> None:
        """Closes the models."""
        for model in self.models:
            await model.aclose()

    async def _ask_first(self, ask: Callable[[ContentGenerator], Awaitable[T]]) -> T:
        failures: Failures = []
        for model in self.models:
            try:
                return await ask(model)
            except self.on as error:
                failures.append((name_of(model), error))
        raise name_failures(failures)


def _for_model(request: GenerateContentRequest, model: object) -> GenerateContentRequest:
    """The request under the name of a model, without signatures of another one."""
    name = name_of(model) or request.model
    if bare_name(name) == bare_name(request.model):
        return replace(request, model=name)
    sign = model_info(name).needs_signatures
    contents = tuple(
        EncodedContent(for_another_model(entry.content, sign_calls=sign))
        if is_signed(entry.content) or sign
        else entry
        for entry in request.contents
    )
    return replace(request, model=name, contents=contents)


class _Member(NamedModel):
    """A model of the program's own in a Fallback: errors that are not alhena's become ModelErrors,
    if they are of `on`."""

    def __init__(self, model: ContentGenerator, on: tuple[type[Exception], ...]) -> None:
        super().__init__(name_of(model), _Converted(model, on), ONCE, own_settings(model))
        self._model = model

    def __repr__(self) -> str:
        return repr(self._model)


class _Converted:
    def __init__(self, inner: ContentGenerator, on: tuple[type[Exception], ...]) -> None:
        self._inner = inner
        self._on = on
        self.count_tokens = inner.count_tokens
        self.embed = inner.embed
        self.aclose = inner.aclose

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        try:
            return await self._inner.generate(request)
        except AlhenaError:
            raise
        except self._on as error:
            raise self._make_error(request, error) from error

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        answer = self._inner.stream(request)
        try:
            async for chunk in answer:
                yield chunk
        except AlhenaError:
            raise
        except self._on as error:
            raise self._make_error(request, error) from error
        finally:
            if isinstance(answer, AsyncGenerator):
                await answer.aclose()

    def _make_error(self, request: GenerateContentRequest, error: Exception) -> "OwnModelError":
        return OwnModelError(f"{request.model} failed: {type(error).__name__}: {error}")


class Limited(NamedModel):
    """A model that is sent at most `rpm` requests and `tpm` tokens a minute, and `concurrency`
    requests at a time; others wait. The limits hold for all agents, threads and event loops that
    share the object.

        model = Limited(Gemini("gemini-3.8-flash"), rpm=60, concurrency=8)
    """

    def __init__(
        self,
        model: ContentGenerator,
        *,
        rpm: int | None = None,
        tpm: int | None = None,
        concurrency: int | None = None,
    ) -> None:
        require_model("Limited", model)
        limits = RequestLimits(rpm=rpm, tpm=tpm, concurrency=concurrency)
        retries = isinstance(model, RetryingGenerator)
        inner, policy = (model.inner, model.policy) if retries else (model, ONCE)
        made = LimitedRequests(inner, limits)
        super().__init__(name_of(model), made, policy, own_settings(model))
        chosen: ChosenGenerator | None = getattr(model, "chosen", None)
        if chosen is not None:
            self.chosen = replace(chosen, generator=self)


class _Request:
    """A request and its tokens; `recent`: it is one of the last minute."""

    __slots__ = ("at", "recent", "tokens")

    def __init__(self, at: float, tokens: int, *, recent: bool = False) -> None:
        self.at = at
        self.tokens = tokens
        self.recent = recent


class RequestLimits:
    """The limits of requests in the last minute, and of those under way. `clock` gives seconds.
    Raises ConfigError for a limit below 1."""

    def __init__(
        self,
        *,
        rpm: int | None = None,
        tpm: int | None = None,
        concurrency: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        for name, limit in (("rpm", rpm), ("tpm", tpm), ("concurrency", concurrency)):
            if limit is not None and not isinstance(cast("object", limit), int | float):
                raise TypeError(f"{name} has to be a number, not {limit!r:.60}")
            if limit is not None and not limit >= 1:
                raise ConfigError(f"{name} cannot be {limit!r}.", remedy="Give a number from 1.")
        self._rpm = rpm
        self._tpm = tpm
        self._clock = clock
        self._sleep = sleep
        self._lock = Lock()
        self._recent: deque[_Request] = deque()
        self._tokens = 0
        self._places = None if concurrency is None else Places(concurrency)

    @asynccontextmanager
    async def admit(self, tokens: int) -> AsyncGenerator[Callable[[int], None]]:
        """Waits until a request of about so many tokens may start, and keeps its place; gives what
        takes the tokens that it came to."""
        if self._places is not None:
            await self._places.enter()
        try:
            entry, wait = self._reserve(tokens)
            while entry is None:
                await self._sleep(min(max(wait, 0.01), _LONGEST_S))
                entry, wait = self._reserve(tokens)
            yield partial(self._charge, entry)
        finally:
            if self._places is not None:
                self._places.leave()

    def _charge(self, entry: _Request, tokens: int) -> None:
        """Sets the tokens that a request came to."""
        with self._lock:
            if entry.recent:
                self._tokens += tokens - entry.tokens
                entry.tokens = tokens

    def _reserve(self, tokens: int) -> tuple[_Request | None, float]:
        """The entry of a request that may start now; None, and the seconds until one may."""
        if self._rpm is None and self._tpm is None:
            return _Request(0.0, tokens), 0.0
        with self._lock:
            now = self._clock()
            recent = self._recent
            while recent and recent[0].at <= now - WINDOW_S:
                gone = recent.popleft()
                gone.recent = False
                self._tokens -= gone.tokens
            wait = 0.0
            if self._rpm is not None and len(recent) >= self._rpm:
                wait = recent[-self._rpm].at + WINDOW_S - now
            if self._tpm is not None:
                over = self._tokens + tokens - self._tpm
                for each in recent:  # one above the limit alone waits for an empty minute
                    if over <= 0:
                        break
                    wait = max(wait, each.at + WINDOW_S - now)
                    over -= each.tokens
            if wait > 0:
                return None, wait
            entry = _Request(now, tokens, recent=True)
            recent.append(entry)
            self._tokens += tokens
            return entry, 0.0


class Places:
    """A number of places, across threads and event loops, given in the order of asking."""

    def __init__(self, count: int) -> None:
        self._lock = Lock()
        self._free = count
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()

    async def enter(self) -> None:
        """Returns when there is a place, which is taken then."""
        with self._lock:
            if self._free:
                self._free -= 1
                return
            loop = asyncio.get_running_loop()
            turn = loop.create_future()
            self._waiting.append((loop, turn))
        try:
            await turn
        except asyncio.CancelledError:
            with self._lock:
                waits = (loop, turn) in self._waiting
                if waits:
                    self._waiting.remove((loop, turn))
            if not waits and turn.done() and not turn.cancelled():
                self.leave()
            raise

    def leave(self) -> None:
        """Gives a place back, to who waits longest."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._free += 1
                    return
                loop, turn = self._waiting.popleft()
            try:
                loop.call_soon_threadsafe(self._give, turn)
            except RuntimeError:  # its loop was closed
                continue
            return

    def _give(self, turn: "asyncio.Future[None]") -> None:
        if turn.done():  # given up meanwhile
            self.leave()
        else:
            turn.set_result(None)


class LimitedRequests:
    """Sends requests to `inner` within the limits."""

    def __init__(self, inner: ContentGenerator, limits: RequestLimits) -> None:
        self.inner = inner
        self._limits = limits

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """The whole answer."""
        async with self._limits.admit(_estimate(request)) as charge:
            response = await self.inner.generate(request)
            _charge(charge, response)
            return response

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        """The answer chunk by chunk."""
        async with self._limits.admit(_estimate(request)) as charge:
            answer = self.inner.stream(request)
            try:
                async for chunk in answer:
                    _charge(charge, chunk)
                    yield chunk
            finally:
                if isinstance(answer, AsyncGenerator):
                    await answer.aclose()

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        """The tokens of the contents; it counts as a request."""
        async with self._limits.admit(0):
            return await self.inner.count_tokens(contents, model=model)

    async def embed(
        self, contents: Sequence[EncodedContent], *, model: str
    ) -> EmbedContentResponse:
        """One vector per content."""
        async with self._limits.admit(sum(map(len, contents)) // _BYTES_PER_TOKEN):
            return await self.inner.embed(contents, model=model)

    async def aclose(self) -> None:
        """Closes the inner model."""
        await self.inner.aclose()


def _estimate(request: GenerateContentRequest) -> int:
    return sum(entry.size for entry in request.contents) // _BYTES_PER_TOKEN


def _charge(charge: Callable[[int], None], response: GenerateContentResponse) -> None:
    usage = response.usage_metadata
    if usage is not None:
        output = usage.candidates_token_count + usage.thoughts_token_count
        charge(max(usage.total_token_count, usage.prompt_token_count + output))
