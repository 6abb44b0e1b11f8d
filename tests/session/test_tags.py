"""Conversations that are kept under a name: copies that nothing changes any more."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.session.journal import Journal, read_session
from alhena.session.records import (
    VERSION,
    Contents,
    Header,
    NoTagError,
    Prompted,
    SessionError,
    TakenTagError,
    encode_json,
)
from alhena.session.replay import Replay
from alhena.session.tags import MAX_NAME, Tags, tag_name

ID = "01234567-89ab-4cde-8f01-23456789abcd"
NEW = "11234567-89ab-4cde-8f01-23456789abcd"


def tags_of(folder: Path) -> Tags:
    (folder / "sessions").mkdir(exist_ok=True)
    return Tags(folder / "tags", folder / "sessions")


def journal_of(folder: Path, *prompts: str) -> Path:
    path = tags_of(folder).directory.with_name("sessions") / f"{ID}.jsonl"
    journal = Journal.create(path)
    journal.add(Header(at="t0", version=VERSION, session_id=ID, project="/old", writer="1"))
    for number, said in enumerate(prompts):
        journal.add(Prompted(at=f"t{number}", text=said))
        content = {"parts": [{"text": said}], "role": "user" if number % 2 == 0 else "model"}
        journal.add(Contents(at="t", keep=number, contents=(_raw(content),)))
    journal.close()
    return path


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(encode_json(value))


def replay_session(path: Path) -> Replay:
    replay = Replay()
    assert read_session(path, replay.feed).damage is None
    return replay


def test_what_is_saved_is_what_a_new_session_begins_with(tmp_path: Path):
    journal = journal_of(tmp_path, "one", "two", "three")
    tags = tags_of(tmp_path)
    tag = tags.save("a name", journal)
    assert (tag.name, tag.session_id, tag.title) == ("a name", ID, "one")
    begun = tags.begin("a name", NEW, "/new", "2")
    replay = replay_session(begun)
    assert replay.header is not None
    assert begun.name == f"{NEW}.jsonl"
    assert (replay.header.session_id, replay.header.project, replay.header.writer) == (
        NEW,
        "/new",
        "2",
    )
    assert [c.raw for c in replay.contents] == [c.raw for c in replay_session(journal).contents]
    assert replay.prompts == 3
    assert b'"tagged"' not in begun.read_bytes()


def test_a_name_that_is_taken_is_replaced_only_when_that_is_said(tmp_path: Path):
    tags = tags_of(tmp_path)
    tags.save("x", journal_of(tmp_path, "one"))
    (tmp_path / "sessions" / f"{ID}.jsonl").unlink()
    later = journal_of(tmp_path, "other")
    with pytest.raises(TakenTagError, match="--replace"):
        tags.save("x", later)
    assert tags.find("x").title == "one"
    assert tags.save("x", later, replace=True).title == "other"
    assert [tag.name for tag in tags.all()] == ["x"]


def test_of_two_that_save_under_one_name_at_once_one_is_told(tmp_path: Path):
    journal = journal_of(tmp_path, *("words " * 2_000 for _ in range(20)))

    def save(_number: int) -> bool:
        try:
            tags_of(tmp_path).save("x", journal)
        except TakenTagError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(save, range(8))) == [False] * 7 + [True]
    assert replay_session(Path(tags_of(tmp_path).find("x").path)).prompts == 20
    assert len(os.listdir(tmp_path / "tags")) == 1


@pytest.mark.parametrize("name", ["../../x", "a/b", ".", "Ä𝄞" * 80, "x.jsonl", "--replace"])
def test_any_name_is_a_tag(tmp_path: Path, name: str):
    tags = tags_of(tmp_path)
    assert tags.save(name, journal_of(tmp_path, "one")).name == name
    assert set(os.listdir(tmp_path)) - {"home", "project"} == {"tags", "sessions"}
    assert [tag.name for tag in tags.all()] == [name]
    tags.delete(name)
    assert tags.all() == ()


@pytest.mark.parametrize(
    "change", [lambda data: data[:-40], lambda data: data.replace(b"one", b"two")]
)
def test_a_damaged_record_is_not_saved_and_nothing_is_left_of_it(tmp_path: Path, change):
    journal = journal_of(tmp_path, "one", "more")
    journal.write_bytes(change(journal.read_bytes()))
    tags = tags_of(tmp_path)
    with pytest.raises(SessionError, match=r"is damaged from line \d on"):
        tags.save("x", journal)
    assert os.listdir(tmp_path / "tags") == []


def test_a_damaged_tag_begins_no_session(tmp_path: Path):
    tags = tags_of(tmp_path)
    kept = Path(tags.save("x", journal_of(tmp_path, "one", "more")).path)
    kept.write_bytes(kept.read_bytes()[:-40])
    with pytest.raises(SessionError, match="is damaged"):
        tags.begin("x", NEW, "/p", "2")
    assert os.listdir(tmp_path / "sessions") == [f"{ID}.jsonl"]


def test_what_a_later_version_has_saved_begins_no_session(tmp_path: Path):
    tags = tags_of(tmp_path)
    path = tmp_path / "sessions" / f"{ID}.jsonl"
    journal = Journal.create(path)
    journal.add(Header(at="t", version=VERSION + 1, session_id=ID, project="/p", writer="9"))
    journal.close()
    tags.save("x", path)
    with pytest.raises(SessionError, match="by a later version"):
        tags.begin("x", NEW, "/p", "2")
    assert os.listdir(tmp_path / "sessions") == [f"{ID}.jsonl"]


def test_what_is_no_tag_is_left_out_of_the_list_and_alone(tmp_path: Path):
    tags = tags_of(tmp_path)
    tags.save("x", journal_of(tmp_path, "one"))
    (tmp_path / "tags" / "notes.jsonl").write_text("mine\n", encoding="utf-8")
    (tmp_path / "tags" / "other.jsonl").write_bytes(
        (tmp_path / "sessions" / f"{ID}.jsonl").read_bytes()
    )
    assert [tag.name for tag in tags.all()] == ["x"]
    for missing in (tags.find, tags.delete):
        with pytest.raises(NoTagError, match="'y'"):
            missing("y")


@pytest.mark.parametrize(
    ("said", "problem"), [("  ", "needs a name"), ("x" * (MAX_NAME + 1), "at most")]
)
def test_a_name_that_is_none_is_refused(said: str, problem: str):
    with pytest.raises(SessionError, match=problem):
        tag_name(said)


@given(st.text(min_size=1, max_size=MAX_NAME - 1))
def test_a_name_is_one_line_that_can_be_written(said: str):
    if said.split():
        assert len(tag_name(said).splitlines()) == 1
        assert tag_name(f"{said}\udcff").encode()
