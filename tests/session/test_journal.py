"""A journal survives what happens to files: torn, cut, filled with NULs, on a disk that is full."""

import errno
import os
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.session.journal import Disk, Journal, read_session
from alhena.session.records import HeldSessionError, JournalError, Prompted
from alhena.session.replay import Replay
from alhena.session.store import SessionStore
from alhena.system.files import synchronise
from tests.session.kit import AT, HEADER, replay_journal, texts, turns, write


def reopen_journal(path: Path) -> tuple[Journal, Replay, Path | None]:
    replay = Replay()
    journal, _, moved = Journal.reopen(path, lambda path: read_session(path, replay.feed))
    return journal, replay, moved


def test_what_was_appended_is_read_back(tmp_path: Path):
    replay, extent = replay_journal(write(tmp_path / "s.jsonl", *turns(3)))
    assert extent.damage is None
    assert replay.prompts == 3
    assert texts(replay)[-2:] == ["prompt 2 ⚡", "answer 2 ü"]


def test_every_line_is_a_json_object_of_its_own(tmp_path: Path):
    import json

    path = write(tmp_path / "s.jsonl", *turns(2))
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [line["type"] for line in lines][:3] == ["session", "prompt", "contents"]
    assert all(len(line["crc"]) == 8 for line in lines)


def test_a_cut_at_every_byte_of_the_last_three_records_leaves_the_longest_sound_part(
    tmp_path: Path,
):
    whole = write(tmp_path / "whole.jsonl", *turns(4)).read_bytes()
    lines = whole.splitlines(keepends=True)
    sound = len(lines) - 3
    begin = sum(map(len, lines[:sound]))
    ends = [begin + sum(map(len, lines[sound : sound + n])) for n in range(4)]
    for cut in range(begin, len(whole) + 1):
        path = tmp_path / f"{cut}.jsonl"
        path.write_bytes(whole[:cut])
        journal, _, moved = reopen_journal(path)
        kept = max(end for end in ends if end - 1 <= cut)  # a line without its newline is whole
        kept = min(kept, cut)
        assert (moved is None) == (kept == cut)
        if moved is not None:
            assert moved.read_bytes() == whole[kept:cut]
            assert moved.stat().st_mode & 0o777 == 0o600
        journal.append(Prompted(at=AT, text="next"))
        journal.close()
        after = path.read_bytes()
        assert after.startswith(whole[:kept])
        assert after.splitlines()[-1].startswith(b'{"type":"prompt"')
        assert replay_journal(path)[1].damage is None
        path.unlink()


@pytest.mark.parametrize(
    "tail",
    [
        b"\0" * 70_000,
        b'{"type":"contents"' + b"\0" * 3_000_000,
        b"\xff\xfe\n",
        b"\n",
        b"{}\n",
        b'{"type":"prompt","at":"x","text":"t","crc":"00000000"}\n',
    ],
)
def test_what_is_no_record_is_moved_aside_and_not_deleted(tmp_path: Path, tail: bytes):
    path = write(tmp_path / "s.jsonl", *turns(2))
    sound = path.read_bytes()
    path.write_bytes(sound + tail)
    journal, replay, moved = reopen_journal(path)
    journal.close()
    assert replay.prompts == 2
    assert moved is not None
    assert moved.read_bytes() == tail
    assert path.read_bytes() == sound


def test_damage_twice_leaves_two_files_aside(tmp_path: Path):
    path = write(tmp_path / "s.jsonl", *turns(1))
    for tail in (b"first", b"second"):
        with path.open("ab") as file:
            file.write(tail)
        journal, _, moved = reopen_journal(path)
        journal.close()
        assert moved is not None
        assert moved.read_bytes() == tail
    assert len(list(tmp_path.glob("s.damaged-*"))) == 2


@pytest.mark.parametrize("place", [0, 3, 5])
def test_a_line_that_was_lost_doubled_or_changed_ends_what_is_trusted(tmp_path: Path, place: int):
    lines = write(tmp_path / "s.jsonl", *turns(3)).read_bytes().splitlines(keepends=True)
    changed = lines[place].replace(b'"at":"2026', b'"at":"2027')
    forms = [
        [*lines[:place], *lines[place + 1 :]],
        [*lines[:place], lines[place], *lines[place:]],
        [*lines[:place], changed, *lines[place + 1 :]],
    ]
    for number, form in enumerate(forms):
        path = tmp_path / f"{number}.jsonl"
        path.write_bytes(b"".join(form))
        _, extent = replay_journal(path)
        assert extent.damage is not None
        assert extent.lines == place + (number == 1)


@given(st.binary(max_size=400), st.integers(0, 2_000))
def test_no_bytes_are_read_as_a_record_that_was_not_written(noise: bytes, at: int):
    import io

    from alhena.session.journal import scan
    from alhena.session.records import line_of

    lines: list[bytes] = []
    chain = 0
    for record in turns(2):
        line, chain = line_of(record, chain)
        lines.append(line)
    whole = b"".join(lines)
    at = min(at, len(whole))
    found: list[bytes] = []
    scan(io.BytesIO(whole[:at] + noise + whole[at:]), found.append)
    assert found == [line.rstrip() for line in lines[: len(found)]]


def test_one_process_writes_a_session_at_a_time(tmp_path: Path):
    path = tmp_path / "s.jsonl"
    journal = Journal.create(path)
    journal.append(HEADER)
    with pytest.raises(HeldSessionError):
        reopen_journal(path)
    journal.close()
    reopen_journal(path)[0].close()


class BrokenDisk:
    """Fails at the k-th call, and from then on until it is mended; counts what was done."""

    def __init__(self, fails_at: int, code: int, *, short: bool = False) -> None:
        self.fails_at = fails_at
        self.code = code
        self.short = short
        self.calls = count(1)
        self.mended = False

    def _call(self) -> bool:
        return next(self.calls) >= self.fails_at and not self.mended

    def write(self, descriptor: int, data: bytes) -> int:
        if self._call():
            if self.short:  # some bytes get through, and then no more
                self.short = False
                return os.write(descriptor, data[: len(data) // 2])
            raise OSError(self.code, os.strerror(self.code))
        return os.write(descriptor, data)

    def synchronise(self, descriptor: int) -> None:
        if self._call():
            raise OSError(self.code, os.strerror(self.code))
        synchronise(descriptor)

    def truncate(self, descriptor: int, length: int) -> None:
        if self._call():
            raise OSError(self.code, os.strerror(self.code))
        os.ftruncate(descriptor, length)

    @property
    def disk(self) -> Disk:
        return Disk(write=self.write, truncate=self.truncate, synchronise=self.synchronise)


def refusals(*steps: Callable[[], None]) -> list[str]:
    said: list[str] = []
    for step in steps:
        try:
            step()
        except JournalError as error:
            said.append(str(error))
    return said


@pytest.mark.parametrize(
    ("code", "short"), [(errno.ENOSPC, False), (errno.ENOSPC, True), (errno.EIO, False)]
)
def test_what_a_disk_refuses_at_any_call_is_said_and_written_when_it_is_mended(
    tmp_path: Path, code: int, short: bool
):
    records = turns(4)
    for fails_at in range(1, 34):
        path = tmp_path / f"{fails_at}.jsonl"
        broken = BrokenDisk(fails_at, code, short=short)
        journal = Journal.create(path, broken.disk)
        refused: list[str] = []
        for record in records:
            refused += refusals(partial(journal.append, record), journal.sync)
            if refused:
                # what is whole so far is sound, and what is torn is not taken for a record
                found = replay_journal(path)[0]
                assert texts(found) == [text for text in texts(found) if text]
                assert not journal.settled
        broken.mended = True
        journal.sync()
        assert journal.settled
        journal.close()
        replay, extent = replay_journal(path)
        assert extent.damage is None
        assert replay.prompts == 4
        assert len(replay.contents) == 8
        assert all(errno.errorcode[code] in text for text in refused)
        assert all("alhena --resume" in text for text in refused)
        assert bool(refused) == (fails_at <= 26)
        path.unlink()


def test_a_disk_that_forgets_what_it_could_not_bring_down_gets_it_again(tmp_path: Path):
    """After a failed fsync nobody knows what is there: it is written once more."""
    path = tmp_path / "s.jsonl"
    broken = BrokenDisk(99, errno.EIO)
    journal = Journal.create(path, broken.disk)
    records = turns(1)
    journal.append(records[0])
    journal.sync()
    synced = path.stat().st_size
    journal.append(records[1])
    broken.fails_at = 0
    with pytest.raises(JournalError):
        journal.sync()
    with path.open("r+b") as file:  # what had not come down is lost
        file.seek(synced)
        file.write(b"\0" * (path.stat().st_size - synced))
    broken.mended = True
    for record in records[2:]:
        journal.append(record)
    journal.close()
    replay, extent = replay_journal(path)
    assert extent.damage is None
    assert (replay.prompts, len(replay.contents)) == (1, 2)


def test_a_file_that_stands_in_the_place_is_left_alone(tmp_path: Path):
    path = tmp_path / "s.jsonl"
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(JournalError, match="EEXIST"):
        Journal.create(path)
    assert path.read_text(encoding="utf-8") == "mine"


def test_links_and_other_things_are_no_sessions(tmp_path: Path):
    write(tmp_path / "real.txt", *turns(1))
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "real.txt")
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    assert SessionStore(tmp_path).summaries() == ()
