"""The program that talks to the Ray cluster for `alhena batch`, in a process of its own: Ray ends
its driver when it loses the cluster.

`python -m alhena.batch.ray.driver DIRECTORY ADDRESS` takes `DriverOrder`s as JSON lines on standard
input and writes `Report`s to standard output. ADDRESS "local" starts a cluster on this machine.
"""

import os
import queue
import secrets
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from alhena.batch.queue import Claim
from alhena.batch.ray.connection import require_cluster
from alhena.batch.ray.nodes import (
    Mailbox,
    RemoteAnswer,
    RemoteCall,
    RemoteRun,
    clear_node,
    load_ray,
    run_task,
)
from alhena.batch.store import Store, newest, open_store, place_of, usable
from alhena.batch.stored_queue import EndKind, read_run_id
from alhena.errors import AlhenaError

TASK_CPUS = 0.25
"""CPUs of a task: it mostly waits for the service."""
_MOST_CALLS = 100_000
"""Calls that may be waiting for their answers."""
_TICK_S, _SOFT_S, _CLEAR_S = 0.01, 2.0, 5.0


class DriverOrder(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Start the attempt of a `claim`; or pass `answers` on; or `cancel` the attempts known by these
    tokens; or `stop` all, and clear the nodes if the run is `over`."""

    claim: Claim | None = None
    cancel: tuple[int, ...] = ()
    answers: tuple[RemoteAnswer, ...] = ()
    stop: bool = False
    over: bool = False


class AttemptReport(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Calls of attempts; or the end of the attempt known by `token`, whose process may be `dead`,
    or `lost` with its node; or an error that ends the run, as exit code, message and remedy."""

    calls: tuple[RemoteCall, ...] = ()
    token: int | None = None
    how: EndKind = "free"
    fatal: tuple[int, str, str | None] | None = None


class Driver:
    """Starts the attempts it is ordered to, and reports their ends."""

    def __init__(self, ray: Any, store: Store, config: bytes, reports: Any) -> None:
        self._ray = ray
        self._store = store
        self._reports = reports
        self._running: dict[Any, Claim] = {}
        self._stopped = 0.0
        self._over = False
        options = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1}
        mailbox = ray.remote(Mailbox).options(max_concurrency=_MOST_CALLS, **options)
        self._remote = RemoteRun(store.place, mailbox.remote(), config)
        self._run = ray.remote(run_task)
        self._calls = self._remote.mailbox.take.remote()

    def serve(self, orders: "queue.SimpleQueue[DriverOrder]") -> None:
        """Carries out orders until it is stopped and nothing runs. Raises what Ray does."""
        while not self._stopped or self._running:
            while not orders.empty():
                self._obey(orders.get())
            if self._stopped and time.monotonic() - self._stopped > _SOFT_S:
                for ref in self._running:
                    self._ray.cancel(ref, force=True)
            for ref in self._ray.wait([self._calls, *self._running], timeout=_TICK_S)[0]:
                if ref == self._calls:
                    self._take_calls()
                else:
                    self._report(self._read_report(ref, self._running.pop(ref)))
        if self._over:
            self._clear()

    def answer(self, answers: tuple[RemoteAnswer, ...]) -> None:
        """Passes answers on to attempts; from any thread."""
        for each in answers:
            self._remote.mailbox.answer.remote(each.id, bytes(each.value))

    def _take_calls(self) -> None:
        """Reports the calls that have come; none is a sign of life."""
        try:
            found = self._ray.get(self._calls)
            calls = (
                RemoteCall(number, method, msgspec.Raw(data)) for number, method, data in found
            )
            self._report(AttemptReport(calls=tuple(calls)))
        except self._ray.exceptions.ActorUnavailableError:
            time.sleep(_TICK_S)  # it is starting again
        self._calls = self._remote.mailbox.take.remote()

    def _obey(self, order: DriverOrder) -> None:
        self._over |= order.over
        if order.stop and not self._stopped:
            self._stopped = time.monotonic()
            for ref in self._running:
                self._ray.cancel(ref)
        for ref, running in self._running.items():
            if running.token in order.cancel:
                self._ray.cancel(ref)
        claim = order.claim
        if claim is not None and not self._stopped:
            # Its worktree may be on the node that had it last.
            earlier = range(claim.attempt - 1, 0, -1)
            near = next(filter(None, (self._node_of(claim, each) for each in earlier)), None)
            strategy = "SPREAD" if near is None else self._on(near, soft=True)
            run = self._run.options(num_cpus=TASK_CPUS, max_retries=0, scheduling_strategy=strategy)
            self._running[run.remote(self._remote, msgspec.json.encode(claim))] = claim

    def _on(self, node: str, *, soft: bool) -> Any:
        """The wish to be on a node."""
        affinity = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        return affinity(node, soft=soft)

    def _clear(self) -> None:
        """Clears the nodes that can be reached."""
        clear = self._ray.remote(clear_node)
        nodes = [each["NodeID"] for each in self._ray.nodes() if each["Alive"]]
        refs = [
            clear.options(num_cpus=0, scheduling_strategy=self._on(node, soft=False)).remote(
                self._remote
            )
            for node in nodes
        ]
        self._ray.wait(refs, num_returns=len(refs), timeout=_CLEAR_S)

    def _read_report(self, ref: Any, claim: Claim) -> AttemptReport:
        """The report of an attempt that has ended. Raises what shows that the cluster is lost."""
        exceptions = self._ray.exceptions
        try:
            return AttemptReport(token=claim.token, fatal=self._ray.get(ref))
        except exceptions.TaskCancelledError:
            return AttemptReport(token=claim.token)
        except exceptions.RayTaskError as error:
            message = f"a node cannot run tasks: {error.cause!r}."
            return AttemptReport(fatal=(1, message, "See the logs of Ray."))
        except (exceptions.WorkerCrashedError, exceptions.OutOfMemoryError):
            dead = "free" if self._stopped else "dead"
            return AttemptReport(
                token=claim.token, how=dead if self._is_known_dead(claim) else "lost"
            )
        except exceptions.NodeDiedError:
            return AttemptReport(token=claim.token, how="lost")

    def _is_known_dead(self, claim: Claim) -> bool:
        """True when the node of an attempt is alive, and so knows that its process is not."""
        node = self._node_of(claim, claim.attempt)
        return node is None or self._is_alive(node)

    def _node_of(self, claim: Claim, attempt: int) -> str | None:
        """The node that had an attempt at the task."""
        found = self._store.read(f"claims/{claim.task.key}.{attempt:04}")
        return found.decode().partition(" ")[0] if found else None

    def _is_alive(self, node: str) -> bool:
        return any(each["NodeID"] == node and each["Alive"] for each in self._ray.nodes())

    def _report(self, report: AttemptReport) -> None:
        self._reports.write(msgspec.json.encode(report) + b"\n")
        self._reports.flush()


def _connect(store: Store, address: str, scratch: str) -> Any:
    """Ray, connected. Raises ConfigError, QueueError, and what Ray does."""
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="token")
    own: dict[str, Any] = {}
    if address == "local":
        os.environ.update(RAY_AUTH_TOKEN=secrets.token_hex(32))
        own = {"include_dashboard": False, "_temp_dir": scratch}
    ray = load_ray()
    if address != "local":
        require_cluster(ray, address)
    with usable(store.place):
        name = f"alhena-{read_run_id(store)}-{secrets.token_hex(4)}"
    ray.init(address, namespace=name, log_to_driver=False, logging_level="error", **own)
    return ray


def main(directory: str, address: str) -> NoReturn:
    """Serves until it is stopped, and exits."""
    reports = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Ray writes there, too
    orders: queue.SimpleQueue[DriverOrder] = queue.SimpleQueue()
    decode = msgspec.json.Decoder(DriverOrder).decode
    driver: Driver | None = None

    def hear() -> None:
        for line in sys.stdin.buffer:
            order = decode(line)
            if driver is not None and order.answers:
                driver.answer(order.answers)
            else:
                orders.put(order)
        os._exit(1)  # the command has died

    threading.Thread(target=hear, daemon=True).start()
    # Paths of sockets have to be short.
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as scratch:
        try:
            store = open_store(place_of(directory, Path("/")))
            ray = _connect(store, address, scratch)
            with usable(store.place):
                config = newest(store, "config") or b"{}"
            driver = Driver(ray, store, config, reports)
            driver.serve(orders)
            ray.shutdown()
        except AlhenaError as error:
            fatal = (error.exit_code, error.message, error.remedy)
            reports.write(msgspec.json.encode(AttemptReport(fatal=fatal)) + b"\n")
    reports.flush()
    os._exit(0)  # the thread that hears is in the way of an orderly end


if __name__ == "__main__":
    main(*sys.argv[1:])
