"""The engine of one machine: tasks in this process, or in worker processes."""

import asyncio
import os
import subprocess
import threading
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec

from alhena.batch.engine import LiveLimits, RunConfig
from alhena.batch.errors import QueueError, RunDirectoryError
from alhena.batch.overview import holders, release_dead
from alhena.batch.queue import EndedTask, Queue
from alhena.batch.store import held_lock
from alhena.batch.worker import FATAL, AgentRuns, MakeAgent, Worker, worker_of
from alhena.errors import AlhenaError
from alhena.system.environment import shield_memory
from alhena.system.own_programs import python_command
from alhena.threads import wait_until_done

TICK_S = 0.05
END_S = 3.0
"""Seconds that worker processes have to give back their tasks."""
_LOOK_S, _GRACE_S = 0.5, 5.0
MAX_DEATHS = 5
"""So many workers in a row may die without a result between them."""


class WorkerError(AlhenaError):
    """Worker processes cannot run."""

    kind = "worker"


def engine_error(exit_code: int, message: str, remedy: str | None) -> WorkerError:
    """The error of another process, for which no task can run."""
    return type("WorkerError", (WorkerError,), {"exit_code": exit_code})(message, remedy=remedy)


class LocalEngine:
    """Runs the tasks in `queue`: in this process with agents of `make`, or, where the
    configuration wants them, in worker processes."""

    def __init__(
        self,
        queue: Queue,
        config: RunConfig,
        make: MakeAgent | AgentRuns | None = None,
    ) -> None:
        self.place = queue.place
        self._directory = queue.directory
        self._queue = queue
        self._config = config
        self._make = make
        self._inside: asyncio.Task[None] | None = None
        self._worker: Worker | None = None
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._hold = ExitStack()
        self._stopping = False
        self._made = 0
        self._deaths = 0
        self._at_death = -1
        self._over = threading.Event()

    def resume(self) -> None:
        """Starts the tasks that have no result; those of workers that have died go back into the
        queue at once. Raises ConfigError."""
        self._take_back()
        self._queue.note("fatal", None)
        (self._directory / "workers").mkdir(exist_ok=True)
        if self._config.workers:
            for _ in range(self._config.workers):
                self._start_process()
            threading.Thread(target=self._kill_stopped, daemon=True).start()
            return
        holder = self._name()
        self._hold.enter_context(held_lock(self._lock(holder)))
        self._worker = worker_of(self._queue, self._config, holder, self._make)
        work = self._worker.work(LiveLimits(self._queue, self._config.shared))
        self._inside = asyncio.ensure_future(work)

    async def events(self, after: int = 0) -> AsyncGenerator[tuple[EndedTask, ...], None]:
        """Results behind the one of this number, as they come; nothing runs any more at the end.
        Raises AlhenaError."""
        try:
            while True:
                over = self._is_over()
                found = tuple(self._queue.results_after(after))
                after = found[-1].place if found else after
                yield found
                if over and not found:
                    break
                if not found:
                    await self._tick()
            if self._inside is not None:
                self._inside.result()
        finally:
            await self._end()

    def cancel(self, *, running: bool) -> None:
        """Starts no further task; with `running` also gives back those that run."""
        self._stopping = True
        if self._worker is not None:
            self._worker.stop(running=running)
        self._tell_processes(b"c" if running else b"s")

    def end_attempts(self, tokens: Sequence[int]) -> None:
        """Ends what runs under tokens that hold no task any more, at once."""
        del tokens  # the workers ask the queue
        if self._worker is not None:
            self._worker.look_again()
        self._tell_processes(b"r")

    def _tell_processes(self, word: bytes) -> None:
        for process in self._processes.values():
            if process.stdin is not None:
                with suppress(OSError):
                    process.stdin.write(word)

    def _kill_stopped(self) -> None:
        """Kills workers that are stopped for longer than their lease: they may lock the queue."""
        since: dict[int, float] = {}
        while not self._over.wait(_LOOK_S):
            for process in tuple(self._processes.values()):
                with suppress(ChildProcessError):
                    look = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
                    if os.waitid(os.P_PID, process.pid, look) is None:
                        since.pop(process.pid, None)
                        continue
                    now = time.monotonic()
                    if now - since.setdefault(process.pid, now) > self._config.lease + _GRACE_S:
                        process.kill()

    async def _tick(self) -> None:
        if self._inside is not None:
            await asyncio.wait({self._inside}, timeout=TICK_S)
        else:
            await asyncio.sleep(TICK_S)
        for holder, process in list(self._processes.items()):
            if process.poll() is not None:
                self._handle_exit(holder, process)
        self._take_back()

    def _is_over(self) -> bool:
        if self._inside is not None:
            return self._inside.done()
        return not self._processes or self._queue.is_over()  # a worker may be stopped for good

    def _handle_exit(self, holder: str, process: "subprocess.Popen[bytes]") -> None:
        """A worker process has ended. Raises AlhenaError."""
        del self._processes[holder]
        if process.stdin is not None:
            process.stdin.close()
        if process.returncode == FATAL:
            raise engine_error(*msgspec.json.decode(self._queue.fact("fatal") or b'[1, "", null]'))
        self._take_back()
        if self._stopping or self._queue.is_over():
            return
        if process.returncode:
            ended = self._queue.rows("SELECT coalesce(max(place), 0) FROM tasks")[0][0]
            self._deaths = self._deaths + 1 if ended == self._at_death else 1
            self._at_death = ended
            if self._deaths > MAX_DEATHS * max(2, self._config.shared.concurrency):
                log = self._directory / "workers" / f"{holder}.log"
                raise WorkerError(
                    "worker processes keep ending without a result.", remedy=f"See {log}."
                )
        self._start_process()

    def _take_back(self) -> None:
        """Puts tasks of dead workers back."""
        for holder in holders(self._queue):
            if holder in self._processes or self._inside is not None:
                continue
            try:
                with held_lock(self._lock(holder)):
                    release_dead(self._queue, holder)
            except RunDirectoryError:
                continue  # it is at work, or will find its lease over

    def _start_process(self) -> None:
        holder = self._name()
        workers = max(1, self._config.workers)
        log = (self._directory / "workers" / f"{holder}.log").open("ab")
        command = python_command("alhena.batch.worker", str(self._directory), holder, str(workers))
        shield_memory()
        with log:
            self._processes[holder] = subprocess.Popen(
                command.argv,
                env=command.env,
                bufsize=0,  # nothing is left to write to a worker that has died
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _name(self) -> str:
        self._made += 1
        return f"{os.getpid()}-{os.urandom(3).hex()}-{self._made}"

    def _lock(self, holder: str) -> Path:
        return self._directory / "workers" / f"{holder}.lock"

    async def _end(self) -> None:
        """Ends what runs, and waits for it."""
        self._over.set()
        self.cancel(running=True)
        try:
            if self._inside is not None:
                await wait_until_done(self._inside)
            await self._end_processes()
        finally:
            self._hold.close()

    async def _end_processes(self) -> None:
        killed: list[str] = []
        for holder, process in self._processes.items():
            try:
                await asyncio.to_thread(process.wait, END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                killed.append(holder)
            if process.stdin is not None:
                process.stdin.close()
        self._processes.clear()
        with suppress(QueueError):  # the next command takes them back
            for holder in killed:
                release_dead(self._queue, holder, crashed=False)
