"""The limits of runs and sessions: errors that end a run there, model turns, usage.

`budget` has those of tokens, time and money."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from alhena.config.settings import BudgetSettings, PriceSettings
from alhena.errors import AlhenaError, ConfigError
from alhena.events import ApiRequestEvent, ApiResponseEvent, Event, ToolCallResponseEvent
from alhena.values import Limits, Value

if TYPE_CHECKING:
    from asyncio import Lock

    from alhena.tools.builtin.ask_user import Ask


REASONS = frozenset(
    {"turn_limit", "token_limit", "time_limit", "cost_limit", "loop_detected", "interrupted"}
)
"""Kinds of errors that are the `reason` of a run's last event; that of any other is "error"."""


class LimitError(AlhenaError):
    """A run has reached a limit; what it did until then is kept."""

    exit_code = 53
    kind = "limit"
    page = "limits"


class TurnLimitError(LimitError):
    """The model asked for more turns than the limit allows."""

    kind = "turn_limit"


class TokenLimitError(LimitError):
    """The requests of a session took more tokens than they may."""

    kind = "token_limit"


class TimeLimitError(LimitError):
    """A run took longer than it may."""

    kind = "time_limit"


class CostLimitError(LimitError):
    """The requests of a session cost more than they may."""

    kind = "cost_limit"


class LoopError(AlhenaError):
    """The model goes in circles, and went on doing so when it was told."""

    kind = "loop_detected"


class BusyError(AlhenaError):
    """An agent was given a second prompt while it works on the first, or used when closed."""

    kind = "busy"


def read_limits(given: Limits, budget: BudgetSettings) -> Limits:
    """The `given` limits, and where there is none that of the settings. Raises ConfigError for one
    that cannot be kept."""
    found: dict[str, Any] = {
        name: getattr(given, name) or getattr(budget, f"max_{name}")
        for name in ("tokens", "seconds", "cost")
    }
    for name, limit in found.items():
        if limit is not None and not 0 < limit < float("inf"):
            raise ConfigError(
                f"the budget's max {name} is {limit}.", remedy="Give a number above 0, or none."
            )
    return Limits(turns=given.turns, **found)


class TurnLimits:
    """Counts model turns, those of subagents included, against a limit per prompt and one per
    session (-1: none). With `ask`, a reached limit is a question, put once a prompt: a yes allows
    as many turns again."""

    def __init__(
        self, per_prompt: int | None = None, per_session: int = -1, ask: "Ask | None" = None
    ) -> None:
        per_prompt = -1 if per_prompt is None else per_prompt
        self.session_turns = 0
        self.prompt_turns = 0
        self._ask = ask
        self._prompt_step = per_prompt
        self._session_step = per_session
        self._per_prompt = per_prompt
        self._per_session = per_session
        self._ended: LimitError | None = None
        self._turn: Lock | None = None

    def new_prompt(self, taken: int = 0) -> None:
        """Starts counting for a prompt, which has `taken` so many turns before."""
        self.prompt_turns = taken
        self.session_turns += taken
        self._per_prompt = self._prompt_step
        self._ended = None

    def end(self, error: LimitError) -> None:
        """No turn may start any more in this prompt: `error` ended a subagent."""
        self._ended = self._ended or error

    async def check(self) -> None:
        """Returns when a further turn may start. Raises LimitError when none may."""
        if self._turn is None:
            from asyncio import Lock  # not at import: commands that ask no model have no event loop

            self._turn = Lock()
        async with self._turn:  # subagents that work side by side are asked about once
            await self._check()

    async def _check(self) -> None:
        if self._ended is not None:
            raise self._ended
        while 0 <= self._per_session <= self.session_turns:
            await self._beyond(
                TurnLimitError(
                    f"reached the limit of {_turns(self._per_session)} for this session.",
                    remedy="Raise model.maxSessionTurns in settings.json.",
                ),
                self._session_step,
            )
            self._per_session += self._session_step
        while 0 <= self._per_prompt <= self.prompt_turns:
            await self._beyond(
                TurnLimitError(
                    f"reached the limit of {_turns(self._per_prompt)} for one prompt.",
                    remedy="Ask for less at once, or raise --max-turns.",
                ),
                self._prompt_step,
            )
            self._per_prompt += self._prompt_step

    def take(self) -> None:
        """Counts a turn about to start, after `check`."""
        self.session_turns += 1
        self.prompt_turns += 1

    async def _beyond(self, error: TurnLimitError, more: int) -> None:
        ask = self._ask if more else None
        if ask is None or not await wants_more(ask, error.message, _turns(more, " more")):
            self.end(error)
            raise error


def _turns(count: int, more: str = "") -> str:
    return f"{count}{more} turn{'' if count == 1 else 's'}"


class Usage(Value, frozen=True, kw_only=True):
    """Requests sent to models, the tokens they took, and tool calls. `input_tokens` include those
    read from a cache (`cached_tokens`) and written to one (`cache_write_tokens`). `cost_usd` is
    None when the price of a model is not known."""

    requests: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    thought_tokens: int = 0
    tool_calls: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return self._with(other, 1)

    def __sub__(self, other: "Usage") -> "Usage":
        return self._with(other, -1)

    def _with(self, other: "Usage", sign: int) -> "Usage":
        mine, theirs = self.cost_usd, other.cost_usd
        counts = {
            name: getattr(self, name) + sign * getattr(other, name)
            for name in self.__struct_fields__
            if name != "cost_usd"
        }
        cost = None if mine is None or theirs is None else mine + sign * theirs
        return Usage(cost_usd=cost, **counts)


SIZES = (100_000, 128_000, 199_999, 200_000, 272_000, 512_000)
"""Sizes of prompts above which some models cost more."""


def size_class(prompt_tokens: int, sizes: Sequence[int] = SIZES) -> int:
    """A number of tokens that costs as a prompt of this size does, the same for many sizes."""
    at = bisect_left(sizes, prompt_tokens)
    return sizes[at - 1] + 1 if at else 0


class Spending:
    """Adds up the requests, tokens and tool calls of a session, its subagents included. `own` are
    the user's prices."""

    def __init__(self, own: Mapping[str, PriceSettings]) -> None:
        self._own = own
        self._sizes = sorted({*SIZES, *(price.long_from for price in own.values())})
        self._used: dict[tuple[str, str, int, str], tuple[int, int, int, int, int]] = {}
        self._uncounted = False
        self._requests = self._calls = self._thoughts = 0

    def feed(self, event: Event) -> None:
        """Takes an event."""
        if isinstance(event, ApiRequestEvent):
            self._requests += 1
        elif isinstance(event, ToolCallResponseEvent):
            self._calls += event.status != "pending"
        if not isinstance(event, ApiResponseEvent):
            return
        self._thoughts += event.thoughts_tokens
        if not event.input_tokens:
            self._uncounted = True
        size = size_class(event.input_tokens, self._sizes)
        key = event.model, event.asked_model, size, event.service_tier
        prompt, cached, output, written, hour = self._used.get(key, (0, 0, 0, 0, 0))
        self._used[key] = (
            prompt + event.input_tokens + event.tool_tokens,
            cached + event.cached_tokens,
            output + event.output_tokens + event.thoughts_tokens,
            written + event.cache_write_tokens,
            hour + event.cache_write_hour_tokens,
        )

    def usage(self) -> Usage:
        """The usage so far."""
        prompt, cached, output, written, _hour = (
            sum(each) for each in zip((0, 0, 0, 0, 0), *self._used.values(), strict=True)
        )
        return Usage(
            requests=self._requests,
            input_tokens=prompt,
            cached_tokens=cached,
            output_tokens=output - self._thoughts,
            thought_tokens=self._thoughts,
            tool_calls=self._calls,
            cache_write_tokens=written,
            cost_usd=self.cost(),
        )

    def cost(self) -> float | None:
        """US dollars by the table of prices; None where that of a model is not known, or how many
        tokens an answer took."""
        if self._uncounted:
            return None
        from alhena.models.prices import Prices, Tokens

        prices, total = Prices(self._own), 0.0
        for (model, asked, size, tier), used in self._used.items():
            prompt, cached, output, written, hour = used
            tokens = Tokens(
                prompt=prompt,
                cached=min(cached, prompt),
                output=output,
                tier=tier,
                written=written,
                written_hour=hour,
            )
            cost = prices.cost(model, tokens, size=size, asked=asked)
            if cost is None:
                return None
            total += cost
        return total


async def wants_more(ask: "Ask", what: str, more: str) -> bool:
    """Asks whether to continue although `what` is the case; `more` says for how long."""
    from alhena.tools.builtin.ask_user import agrees
    from alhena.tools.contract import QuestionOption

    return await agrees(
        ask,
        f"The run {what} Continue?" if what[:1].islower() else f"{what} Continue?",
        "Limit",
        QuestionOption(label="Continue", description=more),
        QuestionOption(label="Stop", description="The run ends here; what was done is kept."),
    )
