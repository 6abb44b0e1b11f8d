"""The thread that writes: what waits, what is lost, and how it ends."""

import os
import threading
from pathlib import Path

import pytest

from alhena.events import (
    ToolCallRequestEvent,
    UserMessageEvent,
)
from alhena.telemetry.records import Redaction, TelemetryRecord, Translation
from alhena.telemetry.telemetry import FileSink, OutFile, RecordFormatter, RecordOrigin, Telemetry
from tests.support.disk import descriptors
from tests.telemetry.reading import Observed

SECOND = 1_000_000_000
ORIGIN = RecordOrigin(session_id="s", installation_id="i")


class Gated(OutFile):
    """A file on a disk that stands still until `gate` is set."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.gate = threading.Event()
        self.reached = threading.Event()

    def append(self, piece: bytes) -> None:
        self.reached.set()
        self.gate.wait()
        super().append(piece)


class Failing(OutFile):
    """A disk that is full now and then."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.full = True

    def append(self, piece: bytes) -> None:
        if self.full:
            raise OSError(28, os.strerror(28))
        super().append(piece)


def opened(file: OutFile, *, waiting: int = 100) -> Telemetry:
    translation = Translation(Redaction({}), texts=True)
    clock = iter(range(1000 * SECOND, 2000 * SECOND, SECOND))
    return Telemetry(
        FileSink(file, RecordFormatter(ORIGIN), 999 * SECOND),
        translation,
        name="out.log",
        clock=lambda: next(clock),
        waiting=waiting,
    )


def said(text: str) -> UserMessageEvent:
    return UserMessageEvent(prompt_id="s#1", text=text)


def test_events_are_written_in_order_with_the_time_they_came(tmp_path: Path):
    telemetry = opened(OutFile(tmp_path / "out.log"))
    for text in ("one", "two", "three"):
        telemetry.feed(said(text))
    assert telemetry.close()
    found = Observed(tmp_path / "out.log")
    assert [log["prompt"] for log in found.logs] == ["one", "two", "three"]
    assert [item["hrTime"] for item in found.records] == [[1000, 0], [1001, 0], [1002, 0]]
    assert found.logs[0]["event.timestamp"] == "1970-01-01T00:16:40.000Z"
    assert telemetry.take_problem() is None


def test_flush_waits_for_what_came_before_and_its_sums(tmp_path: Path):
    telemetry = opened(OutFile(tmp_path / "out.log"))
    telemetry.feed(said("one"))
    assert telemetry.flush()
    found = Observed(tmp_path / "out.log")
    assert found.names == ["user_prompt"]
    assert len(found.measured) == 1
    assert telemetry.flush()
    assert telemetry.close()
    assert len(Observed(tmp_path / "out.log").measured) == 1  # nothing was added to it


def test_a_file_that_stands_still_holds_nobody_up_and_what_is_left_out_is_told(tmp_path: Path):
    file = Gated(tmp_path / "out.log")
    telemetry = opened(file, waiting=3)
    telemetry.feed(said("0"))
    file.reached.wait()
    for number in range(1, 10):
        telemetry.feed(said(str(number)))
    assert not telemetry.flush(timeout_s=0)
    assert not telemetry.close(timeout_s=0)
    file.gate.set()
    assert telemetry.close()
    assert [log["prompt"] for log in Observed(tmp_path / "out.log").logs] == ["0", "1", "2", "3"]
    problem = telemetry.take_problem()
    assert problem == "telemetry: out.log takes the records too slowly; some are missing."
    assert telemetry.take_problem() is None


def test_a_write_that_fails_is_told_once_and_later_ones_are_made(tmp_path: Path):
    file = Failing(tmp_path / "out.log")
    telemetry = opened(file)
    telemetry.feed(said("lost"))
    assert telemetry.flush()
    problem = telemetry.take_problem()
    assert problem is not None
    assert "cannot write to out.log: No space left on device" in problem
    file.full = False
    telemetry.feed(said("kept"))
    assert telemetry.close()
    assert telemetry.take_problem() is None
    found = Observed(tmp_path / "out.log")
    assert [log["prompt"] for log in found.logs] == ["kept"]
    assert found.total("gemini_cli.session.count") == 1


def test_a_record_that_json_cannot_carry_is_lost_and_told_of(tmp_path: Path):
    telemetry = opened(OutFile(tmp_path / "out.log"))
    telemetry.record(TelemetryRecord("config", "", {"model": object()}))
    nested: dict[str, object] = {}
    for _ in range(5000):
        nested = {"a": nested}
    telemetry.feed(ToolCallRequestEvent(call_id="c", name="t", args=nested, prompt_id="s#1"))
    telemetry.feed(said("kept"))
    assert telemetry.close()
    assert [log["prompt"] for log in Observed(tmp_path / "out.log").logs] == ["kept"]
    assert "records are missing" in (telemetry.take_problem() or "")


def test_text_that_is_no_unicode_is_written_with_question_marks(tmp_path: Path):
    telemetry = opened(OutFile(tmp_path / "out.log"))
    telemetry.feed(said("a\ud800b"))
    assert telemetry.close()
    assert Observed(tmp_path / "out.log").logs[0]["prompt"] == "a?b"
    assert telemetry.take_problem() is None


def test_nothing_is_taken_after_the_end(tmp_path: Path):
    telemetry = opened(OutFile(tmp_path / "out.log"))
    assert telemetry.close()
    size = (tmp_path / "out.log").stat().st_size
    telemetry.feed(said("late"))
    assert telemetry.flush()
    assert telemetry.close()
    assert (tmp_path / "out.log").stat().st_size == size


def test_the_thread_and_the_file_are_gone_after_the_end(tmp_path: Path):
    threads, files = set(threading.enumerate()), descriptors()
    telemetry = opened(OutFile(tmp_path / "out.log"))
    assert len(set(threading.enumerate()) - threads) == 1
    assert telemetry.close()
    assert set(threading.enumerate()) <= threads
    assert descriptors() <= files


@pytest.mark.parametrize("size", [10, 200_000])
def test_a_record_is_one_write(tmp_path: Path, size: int):
    pieces: list[bytes] = []

    class Counting(OutFile):
        def append(self, piece: bytes) -> None:
            pieces.append(piece)
            super().append(piece)

    telemetry = opened(Counting(tmp_path / "out.log"))
    telemetry.feed(said("x" * size))
    assert telemetry.close()
    assert len(pieces) == 2  # the record, the metrics
    assert pieces[0].startswith(b"{\n")
    assert pieces[0].endswith(b"\n}\n")
    assert len(pieces[0]) > size
