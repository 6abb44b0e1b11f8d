"""Orders to a run that another process carries out: files below `control/` in the run directory,
which the head reads, obeys and removes, in the order of their names."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from alhena.batch.engine import Engine, RunConfig, SharedLimits
from alhena.batch.errors import QueueError, RunDirectoryError
from alhena.batch.overview import cancel_tasks
from alhena.batch.queue import Queue
from alhena.batch.results import cancelled_result
from alhena.batch.store import Place, Store, lock_holder, open_store, usable
from alhena.batch.stored_queue import write_changes
from alhena.errors import InputError

FOLDER, _REFUSED = "control", "refused"
_LOOK_S = 0.1
_FIRST_S = 3.0
"""Seconds in which only the head may take an order: on some file systems no other process sees its
lock."""
_OBJECTS_S = 15.0
"""Seconds after which a run in an object store, which has no lock, counts as one without a head."""
_PATIENCE_S = 60.0
_CONTROL_S, _CONTROL_OBJECTS_S = 0.2, 2.0
"""Seconds between two looks for orders: in a folder, in an object store."""


class Order(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A wish for a run: give the tasks of these ids, or `everything` that has no result, a
    cancelled one; have other shared limits (fields of SharedLimits, `paused` among them)."""

    cancel: tuple[str, ...] = ()
    everything: bool = False
    limits: dict[str, int | float | bool | None] = {}


class OrderBox:
    """Takes the orders that come to a run while an engine carries it out."""

    def __init__(self, queue: Queue, engine: Engine) -> None:
        self._queue = queue
        self._engine = engine
        self._store = open_store(queue.place)
        self._looked = 0.0

    def take(self) -> None:
        """Does what was ordered since the last look. Raises QueueError."""
        every = _CONTROL_S if isinstance(self._store.place, Path) else _CONTROL_OBJECTS_S
        now = time.monotonic()
        if now - self._looked >= every:
            self._looked = now
            with usable(self._store.place):
                take_orders(self._store, self._obey)

    def _obey(self, order: Order) -> None:
        tokens = carry_out(order, self._queue)
        if tokens:
            self._engine.end_attempts(tokens)


def carry_out(order: Order, queue: Queue) -> list[int]:
    """Changes the queue as ordered; returns the tokens under which cancelled tasks were running.
    May be repeated. Raises QueueError, InputError."""
    tokens: list[int] = []
    if order.limits:
        config = msgspec.json.decode(queue.fact("config"), type=RunConfig)
        shared = change_limits(config.shared, order.limits)
        changed = msgspec.structs.replace(config, shared=shared)
        queue.note("config", msgspec.json.encode(changed))
    if order.cancel or order.everything:
        wanted = None if order.everything else order.cancel
        tokens = cancel_tasks(queue, wanted, cancelled_result)
    write_changes(queue)
    return tokens


def change_limits(shared: SharedLimits, given: dict[str, Any]) -> SharedLimits:
    """The shared limits with others in the place of some. Raises InputError."""
    try:
        return msgspec.convert({**msgspec.structs.asdict(shared), **given}, SharedLimits)
    except msgspec.ValidationError as error:
        raise InputError(f"a limit cannot be used: {error}.") from error


def take_orders(store: Store, obey: Callable[[Order], None]) -> None:
    """Has orders that have come obeyed, then removes them; of those that cannot be obeyed the
    reason is left for who sent them. Raises OSError, QueueError."""
    for name in store.names(FOLDER):
        data = store.read(f"{FOLDER}/{name}")
        if data is not None:
            try:
                obey(msgspec.json.decode(data, type=Order))
            except (InputError, msgspec.DecodeError) as error:
                store.create(f"{_REFUSED}/{name}", str(error).encode())
        store.remove(f"{FOLDER}/{name}")


def send_order(place: Place, order: Order, apply: Callable[[], None] | None) -> bool:
    """Gives an order to the head of a run; True when that has obeyed it. Where no process carries
    out the run, calls `apply`, or without it raises RunDirectoryError. Raises InputError when the
    head refuses, QueueError when it does not answer."""
    store = open_store(place)
    with usable(place):
        name = _create(store, order)
        began = time.monotonic()
        try:
            while store.read(f"{FOLDER}/{name}") is not None:
                waited = time.monotonic() - began
                if _has_no_head(store, waited):
                    store.remove(f"{FOLDER}/{name}")
                    if apply is None:
                        raise RunDirectoryError(
                            f"no process carries out the run in {place}.",
                            remedy=f"Start it: alhena batch resume {place}.",
                        )
                    apply()
                    return False
                if waited > _PATIENCE_S:
                    raise QueueError(
                        f"the process that carries out the run in {place} does not answer.",
                        remedy="It may be stopped. Nothing was changed.",
                    )
                time.sleep(_LOOK_S)
        finally:
            store.remove(f"{FOLDER}/{name}")
        refused = store.read(f"{_REFUSED}/{name}")
        if refused is not None:
            store.remove(f"{_REFUSED}/{name}")
            raise InputError(f"the run refused: {refused.decode()}")
    return True


def _create(store: Store, order: Order) -> str:
    """Writes an order after those that are there; its name. Raises OSError."""
    data = msgspec.json.encode(order)
    number = time.time_ns()
    while not store.create(f"{FOLDER}/{number:020}", data):
        number += 1
    return f"{number:020}"


def _has_no_head(store: Store, waited: float) -> bool:
    if not isinstance(store.place, Path):
        return waited > _OBJECTS_S
    shared = store.read("run.json") is not None
    return (not shared or waited > _FIRST_S) and lock_holder(store.place) is None
