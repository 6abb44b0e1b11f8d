"""A look at a run before anything is paid: its sessions are opened without asking a model, and the
first requests of its tasks are estimated."""

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from alhena.agent.between_prompts import find_upcoming
from alhena.agent.toolset.model_list import describe_end
from alhena.agent.toolset.options import RecordOptions, SessionSpec
from alhena.batch.engine import RunConfig
from alhena.batch.errors import TaskFileError
from alhena.batch.limits import require_price
from alhena.batch.tasks import QueuedTask
from alhena.batch.worker import agent_of
from alhena.chat.estimates import config_tokens, content_tokens, text_tokens
from alhena.config.effective_settings import open_place
from alhena.config.home import PROJECT_TEMP
from alhena.display_text import money, one_line
from alhena.models.catalogue import model_name_problem
from alhena.models.errors import CredentialsError
from alhena.models.prices import Prices, Tokens

MOST_OPENED = 20
"""Sessions that are opened for an estimate; further tasks are estimated as the first one."""
MOST_LISTED = 50
"""Tasks that a plan lists."""
_COLUMNS = 40


class FirstRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The model of a session, and the tokens of its first request without the prompt."""

    model: str
    tokens: int


class PlannedTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task that would run. `tokens` are the input of its first request, estimated; `cost` is
    theirs in US dollars, None without a price; `most` is its own limit of cost, if it has one."""

    id: str
    model: str
    cwd: str
    tokens: int
    cost: float | None
    most: float | None


Kind = tuple[str | None, str | None, str | None, str]
"""Model, service tier, approval mode and directory of a task."""


async def require_usable(config: RunConfig, tasks: Iterable[QueuedTask]) -> None:
    """Opens a session for each model, tier and mode of the tasks. Raises what would keep tasks from
    running: ConfigError, CredentialsError, InputError, SharedLimitError."""
    problem = None if config.model is None else model_name_problem(config.model)
    if problem is not None:
        raise TaskFileError(f"--model: {problem}.", remedy="Nothing was started.")
    if config.engine == "ray":
        return  # keys and policies are on the nodes
    prices = _prices(config)
    opened: set[tuple[str | None, ...]] = set()
    for task in tasks:
        kind = _kind(task, config)
        if kind[:3] not in opened:
            opened.add(kind[:3])
            first = await _open_session(config, task)
            require_price(config.shared, prices, first.model)


async def plan_tasks(config: RunConfig, tasks: Sequence[QueuedTask]) -> list[PlannedTask]:
    """The tasks with estimates. Where a cluster has the key, and this machine has none, the
    instructions and tools are not counted. Raises as `require_usable`."""
    prices = _prices(config)
    known: dict[Kind, FirstRequest] = {}
    planned: list[PlannedTask] = []
    for task in tasks:
        kind = _kind(task, config)
        if kind not in known:
            near = next((each for at, each in known.items() if at[:3] == kind[:3]), None)
            full = near is not None and len(known) >= MOST_OPENED
            known[kind] = near if full and near else await _open_session(config, task)
        first = known[kind]
        require_price(config.shared, prices, first.model)
        tokens = first.tokens + round(text_tokens(task.prompt))
        limits = config.limits if task.limits is None else task.limits.fill(config.limits)
        tier = task.service_tier or config.service_tier or ""
        planned.append(
            PlannedTask(
                id=task.id,
                model=first.model,
                cwd=kind[3],
                tokens=tokens,
                cost=prices.cost(first.model, Tokens(prompt=tokens, tier=tier)),
                most=limits.cost,
            )
        )
    return planned


def describe_plan(planned: Sequence[PlannedTask], config: RunConfig) -> str:
    """The plan as text: a line for each task, then sums."""
    lines = [
        f"{one_line(each.id, _COLUMNS):{_COLUMNS}}  {each.tokens:>9,} tokens  "
        f"{money(each.cost):>9}  {each.model}  {one_line(each.cwd)}"
        for each in planned[:MOST_LISTED]
    ]
    if len(planned) > MOST_LISTED:
        lines.append(f"… and {len(planned) - MOST_LISTED:,} more")
    models = Counter(each.model for each in planned)
    named = ", ".join(f"{number:,} with {model}" for model, number in models.most_common())
    tokens = sum(each.tokens for each in planned)
    lines += [
        "",
        f"{len(planned):,} tasks would run, {config.shared.concurrency} at a time: {named}.",
        f"Their first requests: about {tokens:,} tokens of input, {_sum(planned)}.",
        "Answers, and requests after tool calls, which send the conversation again, come on top.",
    ]
    lines += _bounds(planned, config)
    lines += filter(None, map(describe_end, models))
    return "".join(f"{line}\n" for line in (*lines, "Nothing was started."))


def _sum(planned: Sequence[PlannedTask]) -> str:
    known = [each.cost for each in planned if each.cost is not None]
    unpriced = len(planned) - len(known)
    if not known:
        return "cost unknown"
    more = f" without {unpriced:,} of unknown price" if unpriced else ""
    return f"{money(sum(known))}{more}"


def _bounds(planned: Sequence[PlannedTask], config: RunConfig) -> list[str]:
    """A sentence on the most that the run can cost, by its limits."""
    own = [each.most for each in planned]
    bounds = [sum(each for each in own if each is not None)] if None not in own else []
    if config.shared.total_cost is not None:
        bounds.append(config.shared.total_cost)
    if not bounds:
        return ["No limit bounds the cost: --total-cost for all, --max-cost for each task."]
    return [f"The limits stop the run at {money(min(bounds))}."]


def _prices(config: RunConfig) -> Prices:
    return Prices(open_place(Path(config.cwd), os.environ).settings.model.prices)


def _kind(task: QueuedTask, config: RunConfig) -> Kind:
    return task.model, task.service_tier, task.approval_mode, str(config.directory_of(task))


async def _open_session(config: RunConfig, task: QueuedTask) -> FirstRequest:
    """Opens a session as the task would, without record and servers. Raises ConfigError,
    CredentialsError, InputError."""
    agent = agent_of(config, task, config.directory_of(task))
    with tempfile.TemporaryDirectory(prefix="alhena-batch-") as folder:

        def without_traces(options: SessionSpec) -> SessionSpec:
            replace = msgspec.structs.replace
            environ = {**options.place.environ, PROJECT_TEMP: folder}
            fake = options.model.fake_responses or config.fake_responses
            return replace(
                options,
                place=replace(options.place, environ=environ),
                model=replace(options.model, fake_responses=fake),
                tools=replace(options.tools, servers=False),
                record=RecordOptions(enabled=False),
            )

        agent.session.adaptations.append(without_traces)
        try:
            async with agent:
                upcoming = await find_upcoming(agent.session)
                contents = sum(map(content_tokens, upcoming.contents))
                return FirstRequest(
                    model=agent.model, tokens=contents + config_tokens(upcoming.config)
                )
        except CredentialsError:
            if config.engine != "ray":
                raise
            return FirstRequest(model=agent.model, tokens=0)
