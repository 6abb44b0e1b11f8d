"""Many prompts, some at a time."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator

from alhena.errors import AlhenaError
from alhena.library.agent import Agent, Prompt
from alhena.library.result import Result
from alhena.values import Value


class Outcome(Value, frozen=True, kw_only=True):
    """The end of one prompt of `run_many`: its result, or the error that ended it."""

    task: Prompt
    result: Result[str] | None = None
    error: AlhenaError | None = None


async def run_many(
    tasks: Iterable[Prompt], *, agent: Callable[[], Agent], concurrency: int = 8
) -> AsyncGenerator[Outcome, None]:
    """Runs each prompt with an agent of its own and gives the outcomes as they come.

    Args:
        tasks: the prompts; an iterator is read only as far as there is room for its prompts.
        agent: makes an agent; agents may share a model object.
        concurrency: how many run at a time.

    Leaving the iteration ends what still runs. Only an AlhenaError is an outcome; any other error
    is raised.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency has to be at least 1, not {concurrency}")
    waiting = iter(tasks)
    ended: asyncio.Queue[Outcome | BaseException | None] = asyncio.Queue(concurrency)
    workers = [asyncio.create_task(_work(waiting, agent, ended)) for _ in range(concurrency)]
    left = concurrency
    try:
        while left:
            outcome = await ended.get()
            if isinstance(outcome, BaseException):
                raise outcome
            if outcome is None:
                left -= 1
            else:
                yield outcome
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.wait(workers)


async def _work(
    waiting: Iterator[Prompt],
    agent: Callable[[], Agent],
    ended: "asyncio.Queue[Outcome | BaseException | None]",
) -> None:
    """Runs prompts, as long as there are any."""
    try:
        for task in waiting:
            try:
                outcome = Outcome(task=task, result=await agent().run(task))
            except AlhenaError as error:
                outcome = Outcome(task=task, error=error)
            await ended.put(outcome)
        await ended.put(None)
    except Exception as error:  # noqa: BLE001  raised where the outcomes are awaited
        await ended.put(error)
