"""Limits shared by all tasks of a run, kept in its queue: requests and tokens a minute, money,
seconds, and the waits that the service asks for."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable

import msgspec

from alhena.agent.limits.budget import MeteredGenerator, tokens_of
from alhena.batch.engine import Admission, Charge, LiveLimits, SharedLimits
from alhena.batch.errors import SharedLimitError, UnknownPriceError
from alhena.batch.queue import Queue, boot_id
from alhena.display_text import money
from alhena.errors import AlhenaError
from alhena.models.errors import QuotaError, SpentQuotaError
from alhena.models.generator import ContentGenerator
from alhena.models.prices import Prices, Tokens
from alhena.models.retry import LONGEST_WAIT_S, hint_of
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import GenerateContentResponse, UsageMetadata

WINDOW_S = 60.0
_SHORTEST_S, _LONGEST_S = 0.02, 5.0
"""Bounds of one wait for room; other workers may make some."""
_ROOM_FOR_TOKENS = (
    "WITH sums AS (SELECT at, sum(tokens) OVER (ORDER BY at, n) AS freed FROM requests"
    " WHERE at >= ?) SELECT coalesce("
    "(SELECT at FROM sums WHERE freed >= ? ORDER BY at LIMIT 1), (SELECT max(at) FROM sums))"
)
"""When the request was that has so many tokens with those before it; the last one if none has."""


def pause(wait: float) -> float:
    """Seconds to wait before the next look, where there may be room after `wait`."""
    return min(max(wait, _SHORTEST_S), _LONGEST_S)


def require_price(shared: SharedLimits, prices: Prices, model: str) -> None:
    """Raises UnknownPriceError for a model whose cost could not be counted."""
    if shared.total_cost is not None and prices.of(model) is None:
        raise UnknownPriceError(
            f"the limit of ${shared.total_cost:g} for all tasks cannot be kept: the price of"
            f" {model} is not known.",
            remedy="Give it one under model.prices in settings.json.",
        )


class Limiter:
    """Admits requests of tasks, and counts what they took. `prices` are those of the settings;
    `clock` is a monotonic one of the machine."""

    def __init__(
        self,
        queue: Queue,
        shared: SharedLimits,
        prices: Prices,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._queue = queue
        self._live = LiveLimits(queue, shared)
        self._prices = prices
        self._cleared = False

    @property
    def _shared(self) -> SharedLimits:
        return self._live()

    async def admit(self, model: str, tokens: int) -> int:
        """Returns when a request of about so many tokens may start; its number. Raises
        SharedLimitError."""
        while True:
            number, wait = self.start(model, tokens)
            if number is not None:
                return number
            await self._sleep(pause(wait))

    def charge(self, charge: Charge) -> None:
        """Counts what a request took. The same one may come twice."""
        taken = charge.usage or UsageMetadata()
        tokens = tokens_of(taken)
        cost = self._prices.count_cost(charge.model, charge.answered, tokens)
        with self._queue.transaction() as db:
            reserved = "SELECT cost FROM requests WHERE n = ? AND open"
            found = db.execute(reserved, (charge.number,)).fetchone()
            if found is None:
                return  # charged before
            db.execute(
                "UPDATE facts SET value = value + ? WHERE name = 'spent'",
                ((cost or 0.0) - found[0],),
            )
            db.execute(
                "UPDATE requests SET tokens = ?, cost = ?, open = 0 WHERE n = ?",
                (tokens.prompt + tokens.output, cost or 0.0, charge.number),
            )
            if charge.usage is not None:
                db.execute(
                    "UPDATE tasks SET requests = requests + 1, input_tokens = input_tokens + ?,"
                    " cached_tokens = cached_tokens + ?, output_tokens = output_tokens + ?,"
                    " thought_tokens = thought_tokens + ?,"
                    " cache_write_tokens = cache_write_tokens + ?, cost = cost + ?"
                    " WHERE token = ?",
                    (
                        *(tokens.prompt, tokens.cached, taken.candidates_token_count),
                        *(taken.thoughts_token_count, tokens.written, cost, charge.token),
                    ),
                )

    def delay(self, model: str, seconds: float) -> None:
        """The service wants no request to the model for so long."""
        with self._queue.transaction() as db:
            db.execute(
                "INSERT INTO delays VALUES (?1, ?2, ?3) ON CONFLICT (model) DO UPDATE SET"
                " until = CASE WHEN boot = ?3 THEN max(until, ?2) ELSE ?2 END, boot = ?3",
                (model, self._clock() + seconds, boot_id()),
            )

    def describe_reached_limit(self) -> str | None:
        """The total limit that is reached, as a sentence."""
        limit = self._shared.total_cost
        if limit is not None:
            spent = float(self._queue.fact("spent") or 0.0)
            if spent >= limit:
                return f"reached the limit of ${limit:g} for all tasks ({money(spent)})."
        return self.late()

    def late(self) -> str | None:
        """The limit of time, as a sentence, if it is reached."""
        limit = self._shared.total_seconds
        if limit is None or float(self._queue.fact("elapsed") or 0.0) < limit:
            return None
        return f"reached the limit of {limit:g} seconds for all tasks."

    def require_price(self, model: str) -> None:
        """Raises UnknownPriceError for a model whose cost could not be counted."""
        require_price(self._shared, self._prices, model)

    def start(self, model: str, tokens: int, number: int | None = None) -> tuple[int | None, float]:
        """The number of a request that may start now, or None and the seconds until one may. A
        `number` that is given is known again. Raises SharedLimitError."""
        self.require_price(model)
        shared, boot = self._shared, boot_id()
        estimated = self._prices.cost(model, Tokens(prompt=tokens)) or 0.0
        with self._queue.transaction() as db:
            if db.execute("SELECT 1 FROM requests WHERE n = ?", (number,)).fetchone():
                return number, 0.0
            reason = self.describe_reached_limit()
            if reason is not None:
                raise SharedLimitError(reason, remedy="Resume with a higher limit.")
            now = self._clock()
            wait = 0.0
            delayed = "SELECT until FROM delays WHERE model = ? AND boot = ?"
            for (until,) in db.execute(delayed, (model, boot)).fetchall():
                wait = max(wait, until - now)
            if not self._cleared:
                db.execute("DELETE FROM requests WHERE boot != ?", (boot,))
                self._cleared = True
            # What is under way stays: its estimate is replaced when it ends.
            counted_s = 0.0 if shared.rpm is None and shared.tpm is None else WINDOW_S
            db.execute("DELETE FROM requests WHERE at < ? AND NOT open", (now - counted_s,))
            wait = max(wait, self._room(now, tokens, shared))
            if wait > 0:
                return None, wait
            made = db.execute(
                "INSERT INTO requests (n, at, boot, tokens, cost) VALUES (?, ?, ?, ?, ?)",
                (number, now, boot, tokens, estimated),
            )
            db.execute("UPDATE facts SET value = value + ? WHERE name = 'spent'", (estimated,))
            return made.lastrowid, 0.0

    def _room(self, now: float, tokens: int, shared: SharedLimits) -> float:
        """Seconds until the last minute has room for one more request."""
        wait = 0.0
        if shared.rpm is not None:
            query = "SELECT at FROM requests ORDER BY at DESC LIMIT 1 OFFSET ?"
            for (at,) in self._queue.rows(query, shared.rpm - 1):
                wait = max(wait, at + WINDOW_S - now)
        if shared.tpm is not None:
            query = "SELECT coalesce(sum(tokens), 0) FROM requests WHERE at >= ?"
            over = self._queue.rows(query, now - WINDOW_S)[0][0] + tokens - shared.tpm
            if over > 0:
                (at,) = self._queue.rows(_ROOM_FOR_TOKENS, now - WINDOW_S, over)[0]
                if at is not None:
                    wait = max(wait, at + WINDOW_S - now)
        return wait


class GatedGenerator(MeteredGenerator):
    """Passes requests of the task claimed by `token` on when the limiter admits them. `require`
    raises when the task is held no more; `cache_key` is that of all tasks of the run. Raises
    SharedLimitError, LostLeaseError, too."""

    def __init__(
        self,
        inner: ContentGenerator,
        limiter: Admission,
        token: int,
        require: Callable[[], None],
        cache_key: str = "",
    ) -> None:
        super().__init__(inner)
        self._cache_key = cache_key
        self._limiter = limiter
        self._token = token
        self._require = require

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """The whole answer. Raises what admitting does, too."""
        return await super().generate(self._add_pause(request))

    def stream(
        self, request: GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        """The answer chunk by chunk. Raises what admitting does, too."""
        return super().stream(self._add_pause(request))

    def _add_pause(self, request: GenerateContentRequest) -> GenerateContentRequest:
        """The request with the key of the run, whose answer may make all tasks wait."""

        def pause(seconds: float) -> None:
            if seconds <= LONGEST_WAIT_S:
                self._limiter.delay(request.model, seconds)

        return msgspec.structs.replace(request, pause=pause, cache_key=self._cache_key)

    async def _admit(self, model: str, tokens: Callable[[], int], /) -> int:
        self._require()
        number = await self._limiter.admit(model, round(tokens()))
        self._require()
        return number

    def _charge(
        self, number: int, model: str, usage: UsageMetadata | None, answered: str = "", /
    ) -> None:
        self._limiter.charge(Charge(number, self._token, model, usage, answered))

    def _note_refusal(self, model: str, error: AlhenaError) -> None:
        """Makes all tasks wait as long as the service wants of one."""
        seconds = hint_of(error)
        if isinstance(error, QuotaError) and not isinstance(error, SpentQuotaError) and seconds:
            self._limiter.delay(model, seconds)
