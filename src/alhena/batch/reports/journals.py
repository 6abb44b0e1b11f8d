"""The journals of the attempts at a task, on this machine or in the files of a cluster's run."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from alhena.batch.queue import Queue
from alhena.batch.store import Store, usable
from alhena.batch.stored_queue import StoredQueue


@contextmanager
def latest_journal(queue: Queue, key: str) -> Generator[tuple[int, Path] | None]:
    """The journal of the last attempt at the task with this folder, for a block, and the number of
    the attempt; None if it has none yet. Raises QueueError."""
    if not isinstance(queue, StoredQueue):
        yield _local_journal(queue.directory / "tasks" / key / "sessions")
        return
    with usable(queue.place):
        found = _stored_journal(queue.store, key)
    if found is None:
        yield None
        return
    with TemporaryDirectory(prefix="alhena-batch-") as folder:
        path = Path(folder, "session.jsonl")
        path.write_bytes(found[1])
        yield found[0], path


def _local_journal(sessions: Path) -> tuple[int, Path] | None:
    found = [
        (int(number), path)
        for path in sessions.glob("*.jsonl")
        if (number := path.stem.rpartition("-")[2]).isdigit()
    ]
    return max(found, default=None)


def _stored_journal(store: Store, key: str) -> tuple[int, bytes] | None:
    """Attempt and content; the files of a journal have names ATTEMPT-OPENING-NUMBER. Raises
    OSError."""
    names = store.names(f"journals/{key}")
    if not names:
        return None
    last = names[-1].rpartition("-")[0]
    parts = (store.read(f"journals/{key}/{name}") for name in names if name.startswith(f"{last}-"))
    return int(last.partition("-")[0]), b"".join(part or b"" for part in parts)
