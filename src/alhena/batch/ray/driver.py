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
import traceback
from contextlib import suppress
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
_TICK_S, _SOFT_S, _CLEAR_S = 0.02, 2.0, 5.0


class DriverOrder(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Start the attempt of a `claim`; or pass `answers` on, by which the processes of attempts that
    have ended get those after them as `successors`, known by their tokens; or `cancel` the attempts
    known by these tokens; or `stop` all, and clear the nodes if the run is `over`."""

    claim: Claim | None = None
    cancel: tuple[int, ...] = ()
    answers: tuple[RemoteAnswer, ...] = ()
    successors: dict[int, Claim] = {}
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
        # A process takes a second of a processor to start. Until the first one works, each node
        # starts one, so that one that cannot work is known soon.
        self._first = sum(each["Alive"] for each in ray.nodes())
        self._held: list[Claim] | None = []
        self._stopped = 0.0
        self._over = False
        self._changing = threading.Lock()
        options: dict[str, Any] = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1}
        options["enable_task_events"] = False  # of calls; each costs as much as the call
        here = ray.get_runtime_context().get_node_id()  # has this version, and dies with this
        options["scheduling_strategy"] = self._on(here, soft=True)
        mailbox = ray.remote(Mailbox).options(max_concurrency=_MOST_CALLS, **options)
        self._remote = RemoteRun(store.place, mailbox.remote(), config)
        self._run = ray.remote(run_task)
        self._answers: queue.SimpleQueue[list[tuple[int, bytes]]] = queue.SimpleQueue()
        self._calls: Any = None
        self._exchange([])

    def serve(self, orders: "queue.SimpleQueue[DriverOrder]") -> None:
        """Carries out `orders` that came before it, and those that `obey` takes, until it is
        stopped and nothing runs. Raises what Ray does."""
        while not orders.empty():
            self.obey(orders.get())
        while not self._stopped or self._running:
            with self._changing:
                running = tuple(self._running)
            if self._stopped and time.monotonic() - self._stopped > _SOFT_S:
                for ref in running:
                    self._ray.cancel(ref, force=True)
            if self._calls is None:  # calls are with the head
                with suppress(queue.Empty):
                    self._exchange(self._answers.get(timeout=_TICK_S))
            asked = () if self._calls is None else (self._calls,)
            refs = [*asked, *running]
            timeout = _TICK_S if asked else 0
            for ref in self._ray.wait(refs, timeout=timeout)[0] if refs else ():
                if ref == self._calls:
                    self._take_calls()
                else:
                    self._start_held()
                    with self._changing:
                        claim = self._running.pop(ref)
                    self._report(self._read_report(ref, claim))
        if self._over:
            self._clear()

    def _take_calls(self) -> None:
        """Reports the calls that have come; none is a sign of life."""
        found = ()
        try:
            found = self._ray.get(self._calls)
            self._calls = None
            calls = (
                RemoteCall(number, method, msgspec.Raw(data)) for number, method, data in found
            )
            self._report(AttemptReport(calls=tuple(calls)))
        except self._ray.exceptions.ActorUnavailableError:
            time.sleep(_TICK_S)  # it is starting again
        if found:
            self._start_held()
        else:
            self._exchange([])

    def _exchange(self, answers: list[tuple[int, bytes]]) -> None:
        """Gives the mailbox answers, and asks it for calls."""
        self._calls = self._remote.mailbox.exchange.remote(answers)

    def obey(self, order: DriverOrder) -> None:
        """Carries out an order; from any thread."""
        if order.answers:
            with self._changing:
                left = dict(order.successors)
                for ref, claim in self._running.items():
                    self._running[ref] = left.pop(claim.token, claim)
            for claim in left.values():  # their processes have just died
                self._report(AttemptReport(token=claim.token))
            self._answers.put([(each.id, bytes(each.value)) for each in order.answers])
            return
        with self._changing:
            self._change(order)

    def _change(self, order: DriverOrder) -> None:
        self._over |= order.over
        held = self._held or []
        for claim in [each for each in held if order.stop or each.token in order.cancel]:
            held.remove(claim)
            self._report(AttemptReport(token=claim.token))
        if order.stop and not self._stopped:
            self._stopped = time.monotonic()
            for ref in self._running:
                self._ray.cancel(ref)
        for ref, running in self._running.items():
            if running.token in order.cancel:
                self._ray.cancel(ref)
        if order.claim is not None and not self._stopped:
            if self._held is not None and len(self._running) >= self._first:
                self._held.append(order.claim)
            else:
                self._start(order.claim)

    def _start(self, claim: Claim) -> None:
        """Starts an attempt. Its worktree may be on the node that had it last."""
        earlier = range(claim.attempt - 1, 0, -1)
        near = next(filter(None, (self._node_of(claim, each) for each in earlier)), None)
        strategy = "SPREAD" if near is None else self._on(near, soft=True)
        run = self._run.options(num_cpus=TASK_CPUS, max_retries=0, scheduling_strategy=strategy)
        self._running[run.remote(self._remote, msgspec.json.encode(claim))] = claim

    def _start_held(self) -> None:
        """Starts what waited for the first process."""
        if self._held is not None:
            with self._changing:
                held, self._held = self._held, None
                for claim in held:
                    self._start(claim)

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
        try:
            for line in sys.stdin.buffer:
                if driver is None:
                    orders.put(decode(line))
                else:
                    driver.obey(decode(line))
        except Exception:  # noqa: BLE001  the thread is what keeps the process
            traceback.print_exc()
        os._exit(1)  # the command has died, or Ray does not take an order

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
