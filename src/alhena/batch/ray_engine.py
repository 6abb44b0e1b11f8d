"""The engine of a Ray cluster. Its queue is a mirror of the run directory; a driver process, which
may be lost, starts the tasks."""

import asyncio
import os
import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import IO

import msgspec

from alhena.batch.engine import RunConfig
from alhena.batch.errors import ClusterLostError
from alhena.batch.local import TICK_S, engine_error
from alhena.batch.mirror import Mirror, count_usage
from alhena.batch.overview import release_dead
from alhena.batch.queue import Ended
from alhena.batch.ray_driver import Order, Report
from alhena.batch.ray_nodes import load_ray
from alhena.batch.results import TaskResult
from alhena.system.environment import shield_memory
from alhena.system.own_programs import python_command

SILENCE_S = 90.0
"""So long the cluster may not answer, also while its actors start on other nodes."""
_ENDLESS_S, _END_S = 1e9, 10.0


class RayEngine:
    """Runs the tasks in `queue` on the cluster of the configuration, or on one that it starts on
    this machine."""

    def __init__(self, queue_: Mirror, config: RunConfig) -> None:
        self.place = queue_.place
        self._queue = queue_
        self._config = config
        self._driver: subprocess.Popen[bytes] | None = None
        self._reports: queue.SimpleQueue[Report] = queue.SimpleQueue()
        self._running: set[int] = set()
        self._stopping = False
        self._heard = 0.0

    def resume(self) -> None:
        """Connects to the cluster; attempts of an earlier process end with their leases. Raises
        ConfigError where Ray is not installed."""
        load_ray()
        descriptor, self._log = tempfile.mkstemp(prefix="alhena-ray-", suffix=".log")
        shield_memory()
        module, address = "alhena.batch.ray_driver", self._config.address or "local"
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
        threading.Thread(target=self._listen, args=(self._driver.stdout,), daemon=True).start()

    async def events(self, after: int = 0) -> AsyncGenerator[tuple[Ended, ...], None]:
        """Results behind the one of this number, as they come; nothing runs any more at the end.
        Raises AlhenaError."""
        try:
            while True:
                self._take_reports()
                self._fill()
                over = self._queue.is_over() or (self._stopping and not self._running)
                found = tuple(self._queue.ended_after(after))
                after = found[-1].place if found else after
                yield found
                if over and not found:
                    break
                if not found:
                    self._require_cluster()
                    await asyncio.sleep(TICK_S)
        finally:
            await self._end()

    def cancel(self, *, running: bool) -> None:
        """Starts no further task; with `running` also gives back those that run."""
        self._stopping = True
        if running:
            self._order(Order(stop=True))

    def _listen(self, stdout: IO[bytes]) -> None:
        decode = msgspec.json.Decoder(Report).decode
        with open(stdout.fileno(), "rb", closefd=False) as lines, stdout:
            for line in lines:
                self._reports.put(decode(line))

    def _order(self, order: Order) -> None:
        driver = self._driver
        if driver is not None and driver.stdin is not None:
            with suppress(BrokenPipeError):  # that it has died is seen elsewhere
                driver.stdin.write(msgspec.json.encode(order) + b"\n")

    def _fill(self) -> None:
        """Starts what there is room for."""
        room = self._config.shared.concurrency
        while not self._stopping and len(self._running) < room:
            holder = f"task-{len(self._running)}-{os.urandom(4).hex()}"
            claims = self._queue.claim(holder, 1, room, _ENDLESS_S)
            if not claims:
                return
            (claim,) = claims
            self._running.add(claim.token)
            self._order(Order(claim=claim))

    def _take_reports(self) -> None:
        """Takes what the driver reports. Raises AlhenaError."""
        while not self._reports.empty():
            report = self._reports.get()
            self._heard = time.monotonic()
            if report.fatal is not None:
                raise engine_error(*report.fatal)
            if report.spent is not None:
                self._queue.note("spent", report.spent)
                self._order(Order(elapsed=float(self._queue.fact("elapsed") or 0.0)))
            elif report.lost:
                query = "SELECT holder FROM tasks WHERE token = ?"
                release_dead(self._queue, self._queue.rows(query, report.token)[0][0])
            elif report.result is not None:
                self._finish(report.token, report.result)
            else:
                self._stopping |= report.limit is not None
                self._queue.release(report.token, report.limit)
            self._running.discard(report.token)

    def _finish(self, token: int, result: TaskResult) -> None:
        data = msgspec.json.encode(result)
        with self._queue.transaction() as db:
            count_usage(db, result)
        self._queue.finish(token, result.status, result.kind, data)

    def _require_cluster(self) -> None:
        """Raises ClusterLostError."""
        dead = self._driver is None or self._driver.poll() is not None
        if (dead and self._reports.empty()) or time.monotonic() - self._heard > SILENCE_S:
            raise ClusterLostError(
                f"the Ray cluster is lost; its driver's log is {self._log}.",
                remedy=f"Resume with: alhena batch resume {self.place}",
            )

    async def _end(self) -> None:
        """Ends what runs, and waits for it."""
        driver = self._driver
        if driver is None:
            return
        self._stopping = True
        self._order(Order(stop=True, over=self._queue.is_over()))
        try:
            await asyncio.to_thread(driver.wait, _END_S)
        except subprocess.TimeoutExpired:
            driver.kill()
            driver.wait()
        if driver.stdin is not None:
            driver.stdin.close()
        if driver.returncode == 0:
            os.unlink(self._log)
