"""The engine of a Ray cluster. The head has the queue and answers the calls of attempts; a driver
process, which may be lost, starts the tasks."""

import asyncio
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

import msgspec

from alhena.batch.engine import Charge, LiveLimits, RunConfig
from alhena.batch.errors import ClusterLostError, SharedLimitError
from alhena.batch.limits import Limiter
from alhena.batch.local import TICK_S, engine_error
from alhena.batch.overview import usage_of_task
from alhena.batch.queue import Claim, EndedTask
from alhena.batch.ray.driver import AttemptReport, DriverOrder
from alhena.batch.ray.nodes import (
    Finished,
    RemoteAnswer,
    RemoteCall,
    Successor,
    require_ray,
)
from alhena.batch.results import set_usage
from alhena.batch.stored_queue import StoredQueue
from alhena.batch.worker import limiter_of
from alhena.errors import AlhenaError, ConfigError
from alhena.system.environment import shield_memory
from alhena.system.own_programs import python_command

SILENCE_S = 90.0
"""So long the cluster may not answer, also while its actors start on other nodes."""
_ENDLESS_S, _END_S = 1e9, 10.0


class AttemptCalls:
    """Answers the calls of attempts from the queue and its limiter. `claim_next` gives the next
    task of the process whose attempt, known by its token, has written a result."""

    def __init__(
        self,
        queue: StoredQueue,
        limiter: Limiter,
        lease_s: float,
        claim_next: Callable[[int], Claim | None] = lambda _token: None,
    ) -> None:
        self._queue = queue
        self._limiter = limiter
        self._lease_s = lease_s
        self._claim_next = claim_next
        self._answered: dict[str, tuple[int, Finished]] = {}
        self._spent = False
        self.finished: set[int] = set()
        """Tokens of attempts that have written a result; their processes may not have ended."""
        self.begun: set[int] = set()
        """Tokens of attempts that have a process."""
        self._methods: dict[str, tuple[Callable[..., Any], Any]] = {
            "begin": (self._begin, tuple[int, str]),
            "renew": (partial(queue.renew, lease_s=lease_s), tuple[tuple[int, ...]]),
            "finish": (
                self._finish,
                tuple[int, str, str | None, msgspec.Raw, tuple[Charge, ...], str],
            ),
            "release": (self._release, tuple[int, str | None, tuple[Charge, ...]]),
            "admit": (self._admit, tuple[int, str, int, tuple[Charge, ...]]),
            "charge": (self._charge, tuple[tuple[Charge, ...]]),
            "delay": (limiter.delay, tuple[str, float]),
        }

    def answer(self, calls: Iterable[RemoteCall]) -> list[RemoteAnswer]:
        """The answers; what was changed is written when they are returned. Raises QueueError, also
        when another process has taken over the run."""
        self._queue.require_latest()
        answers: list[RemoteAnswer] = []
        for call in calls:
            method, kind = self._methods[call.method]
            value = method(*msgspec.json.decode(call.arguments, type=kind))
            answers.append(RemoteAnswer(call.id, msgspec.Raw(msgspec.json.encode(value))))
            self._spent |= method == self._limiter.delay
        if self._spent:
            self._queue.save()
            self._spent = False
        return answers

    def _finish(
        self,
        token: int,
        status: str,
        kind: str | None,
        result: msgspec.Raw,
        charges: tuple[Charge, ...],
        holder: str,
    ) -> Finished:
        """Writes a result. The same call may come twice."""
        self._charge(charges)
        answered = self._answered.get(holder)
        if answered is not None and answered[0] == token:
            return answered[1]
        line = set_usage(result, usage_of_task(self._queue, token))
        found = Finished(kept=self._queue.finish(token, status, kind, line))
        if found.kept:
            self.finished.add(token)
            found = Finished(kept=True, successor=self._begin_next(token, holder))
        self._answered[holder] = (token, found)
        return found

    def _begin(self, token: int, holder: str) -> dict[str, Any] | None:
        """An attempt has a process; what its task has taken so far, None if it may not start."""
        self.begun.add(token)
        return self._queue.begin(token, holder, self._lease_s)

    def forget(self, token: int) -> None:
        """The process of an attempt has ended, or has another one."""
        self.finished.discard(token)
        self.begun.discard(token)

    def _begin_next(self, token: int, holder: str) -> Successor | None:
        """Begins the next task of a process; None if it gets none."""
        claim = self._claim_next(token)
        taken = None if claim is None else self._begin(claim.token, holder)
        return None if claim is None or taken is None else Successor(claim, taken)

    def _release(self, token: int, limit: str | None, charges: tuple[Charge, ...]) -> None:
        """Gives a task back unfinished."""
        self._charge(charges)
        self._queue.release(token, limit)

    def _admit(
        self, number: int, model: str, tokens: int, charges: tuple[Charge, ...]
    ) -> tuple[float, tuple[str, str | None] | None]:
        """Seconds to wait until the request may be tried again, 0 when it may start; or why it may
        not."""
        self._charge(charges)
        try:
            started, wait = self._limiter.start(model, tokens, number)
        except SharedLimitError as error:
            return 0.0, (error.message, error.remedy)
        self._spent |= started is not None
        return (0.0 if started is not None else wait), None

    def _charge(self, charges: tuple[Charge, ...]) -> None:
        """Counts what requests took. The same ones may come twice."""
        for each in charges:
            self._limiter.charge(each)
            self._spent = True


class RayEngine:
    """Runs the tasks in `queue` on the cluster of the configuration, or on one that it starts on
    this machine."""

    def __init__(self, queue_: StoredQueue, config: RunConfig) -> None:
        self.place = queue_.place
        self._queue = queue_
        self._config = config
        self._shared = LiveLimits(queue_, config.shared)
        limiter = limiter_of(queue_, config)
        self._desk = AttemptCalls(queue_, limiter, config.lease, self._claim_next)
        self._successors: dict[int, Claim] = {}
        self._reported = asyncio.Event()
        self._driver: subprocess.Popen[bytes] | None = None
        self._reports: queue.SimpleQueue[AttemptReport] = queue.SimpleQueue()
        self._running: dict[int, Claim] = {}
        self._stopping = False
        self._heard = 0.0
        self._connected = False

    def resume(self) -> None:
        """Connects to the cluster; attempts of an earlier process end with their leases. Raises
        ConfigError where Ray is not installed, QueueError."""
        require_ray()
        self._queue.take_over(self._config.lease)
        descriptor, self._log = tempfile.mkstemp(prefix="alhena-ray-", suffix=".log")
        shield_memory()
        module, address = "alhena.batch.ray.driver", self._config.address or "local"
        command = python_command(module, str(self.place), address)
        with open(descriptor, "wb") as log:
            self._driver = subprocess.Popen(
                command.argv,
                env=command.env,
                cwd=os.sep,  # Ray's processes import from the driver's working directory
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self._heard = time.monotonic()
        heard = (self._driver.stdout, asyncio.get_running_loop())
        threading.Thread(target=self._listen, args=heard, daemon=True).start()

    async def events(self, after: int = 0) -> AsyncGenerator[tuple[EndedTask, ...], None]:
        """Results behind the one of this number, as they come; nothing runs any more at the end.
        Raises AlhenaError."""
        looked = 0.0
        try:
            while True:
                self._take_reports()
                self._fill()
                over = self._queue.is_over() or (self._stopping and not self._running)
                # A look counts all tasks; attempts wait for their answers meanwhile.
                if over or time.monotonic() - looked > TICK_S:
                    found = tuple(self._queue.results_after(after))
                    after = found[-1].place if found else after
                    yield found
                    if over and not found:
                        break
                    looked = time.monotonic()
                if not over:
                    self._require_cluster()
                    await self._wait()
        finally:
            await self._end()

    def cancel(self, *, running: bool) -> None:
        """Starts no further task; with `running` also gives back those that run."""
        self._stopping = True
        if running:
            self._order(DriverOrder(stop=True))

    def end_attempts(self, tokens: Sequence[int]) -> None:
        """Ends what runs under tokens that hold no task any more, at once."""
        self._order(DriverOrder(cancel=tuple(tokens)))

    def _listen(self, stdout: IO[bytes], loop: asyncio.AbstractEventLoop) -> None:
        decode = msgspec.json.Decoder(AttemptReport).decode
        with open(stdout.fileno(), "rb", closefd=False) as lines, stdout:
            for line in lines:
                self._reports.put(decode(line))
                with suppress(RuntimeError):  # the command is at its end
                    loop.call_soon_threadsafe(self._reported.set)

    async def _wait(self) -> None:
        """Waits for a report, not long."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._reported.wait(), TICK_S)
        self._reported.clear()

    def _order(self, order: DriverOrder) -> None:
        driver = self._driver
        if driver is not None and driver.stdin is not None:
            with suppress(BrokenPipeError):  # that it has died is seen elsewhere
                driver.stdin.write(msgspec.json.encode(order) + b"\n")

    def _fill(self) -> None:
        """Starts what there is room for."""
        while claims := self._claim(sys.maxsize):
            for claim in claims:
                self._start(claim)

    def _start(self, claim: Claim) -> None:
        self._running[claim.token] = claim
        self._order(DriverOrder(claim=claim))

    def _claim(self, most: int) -> Sequence[Claim]:
        """Up to `most` tasks for which there is room."""
        shared = self._shared()
        room = 0 if shared.paused or self._stopping else shared.concurrency
        free = min(most, room - len(self._running.keys() - self._desk.finished))
        return self._queue.claim("", free, room, _ENDLESS_S) if free > 0 else ()

    def _claim_next(self, token: int) -> Claim | None:
        """The next task of the process that had the one claimed by `token`. None where others wait
        for a process, and for one that may not have removed its worktree yet."""
        ended = self._running.get(token)
        if ended is None or self._config.worktree or ended.task.repo is not None:
            return None
        if self._running.keys() - self._desk.begun:
            return None
        for claim in self._claim(1):
            if claim.attempt > 1:  # another node may have its worktree
                self._start(claim)
                continue
            del self._running[token]
            self._desk.forget(token)
            self._running[claim.token] = self._successors[token] = claim
            return claim
        return None

    def _take_reports(self) -> None:
        """Takes what the driver reports. Raises AlhenaError."""
        while not self._reports.empty():
            report = self._reports.get()
            self._heard = time.monotonic()
            if report.fatal is not None:
                raise engine_error(*report.fatal)
            self._connected = True
            if report.calls:
                answers = tuple(self._desk.answer(report.calls))
                self._order(DriverOrder(answers=answers, successors=self._successors))
                self._successors.clear()
                self._stopping |= self._queue.fact("limit") is not None
            if report.token is not None:
                self._desk.forget(report.token)
                ended = self._running.pop(report.token, None)
                if ended is not None:  # else it has a successor
                    self._queue.end_attempt(ended, report.how)

    def _require_cluster(self) -> None:
        """Raises ClusterLostError, or ConfigError where there never was a cluster."""
        dead = self._driver is None or self._driver.poll() is not None
        if dead and self._reports.empty() and not self._connected:
            raise ConfigError(
                f"Ray cannot be used: {self._last_words()}.",
                remedy=f"See {self._log}. Then: alhena batch resume {self.place}",
                page="batch",
            )
        if (dead and self._reports.empty()) or time.monotonic() - self._heard > SILENCE_S:
            raise ClusterLostError(
                f"the Ray cluster is lost; its driver's log is {self._log}.",
                remedy=f"Resume with: alhena batch resume {self.place}",
            )

    def _last_words(self) -> str:
        """The last line of the driver's log."""
        lines = Path(self._log).read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it has ended")

    async def _end(self) -> None:
        """Ends what runs, and waits for it: attempts give their tasks back."""
        driver = self._driver
        if driver is None:
            return
        self._stopping = True
        self._order(DriverOrder(stop=True, over=self._queue.is_over()))
        end = time.monotonic() + _END_S
        while driver.poll() is None and time.monotonic() < end:
            await self._wait()
            with suppress(AlhenaError):  # the first one is the reason of this end
                self._take_reports()
        if driver.poll() is None:
            driver.kill()
        driver.wait()
        if driver.stdin is not None:
            driver.stdin.close()
        if driver.returncode == 0:
            os.unlink(self._log)
