"""The log of the gateway, when its reader is slow."""

import json
import threading

from alhena.gateway.access_log import LogWriter


def test_a_reader_that_does_not_read_holds_nobody_up_and_what_was_dropped_is_counted():
    reading, lines = threading.Event(), list[str]()
    entered = threading.Event()

    def write(line: str) -> None:
        entered.set()
        reading.wait()
        lines.append(line)

    writer = LogWriter(write, capacity=3)
    writer.put("0\n")
    entered.wait()
    for number in range(1, 10):
        writer.put(f"{number}\n")
    assert not writer.close(0.01)
    reading.set()
    assert writer.close(5)
    told = [line for line in lines if line.startswith("{")]
    assert [line for line in lines if not line.startswith("{")] == ["0\n", "1\n", "2\n", "3\n"]
    assert json.loads(told[0])["dropped"] == 6
    assert len(told) == 1


def test_all_lines_are_written_in_order_before_the_log_is_closed():
    lines: list[str] = []
    writer = LogWriter(lines.append)
    for number in range(1000):
        writer.put(f"{number}\n")
    assert writer.close(5)
    assert lines == [f"{number}\n" for number in range(1000)]
