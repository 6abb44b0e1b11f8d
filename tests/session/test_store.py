"""Listing sessions, finding one by name, and removing old ones."""

import os
from pathlib import Path

import msgspec
import pytest

from alhena.config.settings import SessionRetention
from alhena.errors import ConfigError
from alhena.session.checkpoints.records import Checkpoint, CheckpointFiles
from alhena.session.journal import Journal
from alhena.session.records import (
    VERSION,
    Header,
    HeldSessionError,
    NoSessionError,
    Prompted,
    SessionError,
    new_session_id,
)
from alhena.session.store import Retention, SessionStore, find_outdated, prune, retention
from alhena.session.transcript import as_json, as_markdown, facts, read_transcript
from alhena.wire.content import MODEL, USER
from tests.session.kit import AT, HEADER, contents, replay_journal, says, texts, turns, write
from tests.tracing.kit import data_of, exported_page

DAY = 86_400.0
WORDS = {
    *("plan?", "Drop table X?", "Dropped X.", "Drop table Y?", "Dropped Y.", "yes"),
    *("A record.", "Got it."),
}
V1 = Path(__file__).parent / "data" / "version-1.jsonl"


def session(store: SessionStore, name: str, *, at: str = AT, used: float = 0) -> Path:
    store.directory.mkdir(exist_ok=True)
    header = Header(at=at, version=VERSION, session_id=name, project="/p")
    path = write(store.path(name), header, Prompted(at=at, text=f"prompt of {name}"))
    os.utime(path, (used, used))
    return path


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "sessions", ((tmp_path / "outputs", "session-"),))


def test_a_name_means_a_number_an_id_its_beginning_or_the_one_last_used(store: SessionStore):
    session(store, "aaa1", at="2026-01-02", used=10)
    session(store, "aab2", at="2026-01-01", used=30)
    session(store, "2", at="2026-01-03", used=20)
    assert [item.session_id for item in store.summaries()] == ["aab2", "aaa1", "2"]
    meant = {name: store.find(name).session_id for name in ("latest", "1", "2", "aaa", "aab2")}
    assert meant == {"latest": "aab2", "1": "aab2", "2": "2", "aaa": "aaa1", "aab2": "aab2"}
    with pytest.raises(NoSessionError, match="2 sessions begin with 'aa'"):
        store.find("aa")
    for name in ("", "4", "-1", "x", "../aaa1"):
        with pytest.raises(NoSessionError):
            store.find(name)


def test_a_number_past_the_last_one_is_not_the_beginning_of_an_id(store: SessionStore):
    session(store, "7d3f0c11-0000")
    session(store, "12345678-0000", at="2026-02-01")
    for name in ("7", "3", "0", "1234567"):
        with pytest.raises(NoSessionError, match=f"no session is called '{name}'"):
            store.find(name)
    assert store.find("7d").session_id == "7d3f0c11-0000"
    assert store.find("12345678").session_id == "12345678-0000"


def test_a_session_that_was_killed_before_it_wrote_anything_is_none(store: SessionStore):
    session(store, "older", used=10)
    store.path("killed").write_bytes(b"")
    assert store.find("latest").session_id == "older"
    with pytest.raises(NoSessionError, match="no session is called 'killed'"):
        store.resume("killed", "1")


def test_a_session_with_a_damaged_beginning_is_listed_and_left_alone(store: SessionStore):
    name = new_session_id()
    path = session(store, name)
    path.write_bytes(b"\0" * 9_000)
    (item,) = store.summaries()
    assert (item.session_id, item.title, item.started) == (name, "", "")
    with pytest.raises(SessionError, match="its beginning is damaged"):
        store.resume(name, "1")
    assert path.read_bytes() == b"\0" * 9_000
    assert list(path.parent.iterdir()) == [path]


def test_a_session_of_a_later_version_is_refused_and_left_alone(store: SessionStore):
    store.directory.mkdir()
    later = Header(at=AT, version=VERSION + 1, session_id="s", project="/p", writer="9.0")
    path = write(store.path("s"), later)
    before = path.read_bytes()
    with pytest.raises(SessionError, match=r"later version \(9.0\)"):
        store.resume("s", "1")
    assert path.read_bytes() == before


def test_records_that_a_later_version_has_added_are_passed_over_and_kept(store: SessionStore):
    import zlib

    store.directory.mkdir()
    path = write(store.path("s"), *turns(1))
    _, extent = replay_journal(path)
    body = b'{"type":"mood","at":"2026","is":["new",{}]'
    with path.open("ab") as file:
        file.write(b'%b,"crc":"%08x"}\n' % (body, zlib.crc32(body, extent.chain)))
    found = store.resume("s", "1")
    found.journal.close()
    assert found.replay.damage == []
    assert found.replay.prompts == 1
    assert body in path.read_bytes()


def test_a_session_of_the_first_version_is_read(tmp_path: Path):
    """The file is of that version and is never written anew."""
    replay, extent = replay_journal(V1)
    assert extent.damage is None
    assert replay.header is not None
    assert (replay.header.version, replay.header.opening) == (1, 2)
    assert (replay.prompts, replay.model) == (2, "gemini-test")
    assert texts(replay)[-1] == "It says alpha ⚡."
    shown = as_markdown(read_transcript(V1))
    assert "### read_file" in shown
    assert "never answered" in shown.split("not part of the conversation")[1]


def test_a_session_that_is_deleted_leaves_nothing(store: SessionStore, tmp_path: Path):
    session(store, "gone")
    session(store, "kept")
    for name in ("gone", "kept"):
        (tmp_path / "outputs" / f"session-{name}").mkdir(parents=True)
        (store.directory / f"{name}.damaged-1").write_bytes(b"x")
    store.delete("gone")
    assert sorted(path.name for path in store.directory.iterdir()) == [
        "kept.damaged-1",
        "kept.jsonl",
    ]
    assert [path.name for path in (tmp_path / "outputs").iterdir()] == ["session-kept"]
    with pytest.raises(NoSessionError):
        store.delete("gone")


def test_what_belongs_to_a_session_is_found_again_where_its_removal_breaks_off(
    store: SessionStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def break_off(_folder: Path, **_options: object) -> None:
        raise KeyboardInterrupt

    session(store, "gone")
    outputs = tmp_path / "outputs" / "session-gone"
    outputs.mkdir(parents=True)
    with monkeypatch.context() as removing:
        removing.setattr("shutil.rmtree", break_off)
        with pytest.raises(KeyboardInterrupt):
            store.delete("gone")
    store.delete("gone")
    assert not outputs.exists()


def test_old_sessions_go_but_never_one_that_is_in_use(store: SessionStore):
    now = 100 * DAY
    for name, days in {"old": 40, "held": 50, "own": 60, "new": 2}.items():
        session(store, name, used=now - days * DAY)
    journal, _, _ = Journal.reopen(store.path("held"), lambda path: replay_journal(path)[1])
    limits = Retention(max_age_s=30 * DAY, max_count=None, min_s=DAY)
    assert prune(store, limits, "own", lambda: now) == ("old",)
    journal.close()
    with pytest.raises(NoSessionError):
        store.find("old")
    assert prune(SessionStore(store.directory / "none"), limits, "") == ()


def test_one_that_was_resumed_after_its_age_was_looked_at_stays(store: SessionStore):
    now = 100 * DAY
    for name in ("old", "resumed"):
        session(store, name, used=now - 40 * DAY)

    def clock() -> float:  # it is asked when the ages are known
        store.resume("resumed", "1").journal.close()
        return now

    limits = Retention(max_age_s=30 * DAY, max_count=None, min_s=DAY)
    assert prune(store, limits, "", clock) == ("old",)
    assert store.find("resumed").session_id == "resumed"
    store.delete("resumed")  # whoever names it means it
    assert store.summaries() == ()


def test_the_oldest_of_too_many_go_but_not_those_of_today():
    sessions = [(str(age), 100 * DAY - age * DAY) for age in (5.0, 0.1, 0.2, 0.3, 3.0)]
    limits = Retention(max_age_s=None, max_count=2, min_s=DAY)
    assert find_outdated(sessions, limits, 100 * DAY) == ("5.0", "3.0")


def test_ages_are_numbers_with_units():
    found = retention(SessionRetention(max_age="2w", max_count=3, min_retention="12h"))
    assert found == Retention(max_age_s=14 * DAY, max_count=3, min_s=DAY / 2)
    assert retention(SessionRetention(max_age=None, min_retention="1y")).max_age_s is None
    for wrong in ("", "30", "d", "-1d", "1.5d", "30 d d", "٣d"):
        with pytest.raises(ConfigError, match="maxAge"):
            retention(SessionRetention(max_age=wrong))
    with pytest.raises(ConfigError, match="maxCount"):
        retention(SessionRetention(max_count=0))


def test_what_was_taken_back_is_told_apart_in_an_export(tmp_path: Path):
    path = write(
        tmp_path / "s.jsonl",
        HEADER,
        contents(0, says(USER, "never answered")),
        contents(0),
        contents(0, says(USER, "asked")),
        contents(1, says(MODEL, "answered")),
    )
    current, _, earlier = as_markdown(read_transcript(path)).partition("not part of the conv")
    assert "asked" in current
    assert "never answered" not in current
    assert "never answered" in earlier


def test_an_export_has_every_word_that_was_said_before_a_compression_once(tmp_path: Path):
    said = [
        says(USER, "plan?"),
        says(MODEL, "Drop table X?"),
        says(USER, "yes"),
        says(MODEL, "Dropped X."),
        says(MODEL, "Drop table Y?"),
        says(USER, "yes"),
        says(MODEL, "Dropped Y."),
    ]
    path = write(
        tmp_path / "s.jsonl",
        HEADER,
        Prompted(at=AT, text="plan?"),
        contents(0, *said),
        contents(0, says(USER, "A record."), says(MODEL, "Got it."), *said[4:]),
    )
    transcript = read_transcript(path)
    current, _, earlier = as_markdown(transcript).partition("not part of the conv")
    bodies = [[line for line in text.splitlines() if line in WORDS] for text in (current, earlier)]
    assert bodies[0] == ["A record.", "Got it.", "Drop table Y?", "yes", "Dropped Y."]
    assert bodies[1] == ["plan?", "Drop table X?", "yes", "Dropped X."]
    data = data_of(exported_page(path))
    assert [item[3] for item in data["earlier"][1:]] == bodies[1][1:]
    assert [item[3] for item in data["talk"]] == bodies[0]
    assert data["steps"][data["earlier"][0]]["text"] == "plan?"
    assert as_json(transcript).count(b'"current": false') == 4
    assert current.startswith("# plan?\n")
    assert facts(transcript)["title"] == "plan?"


def test_what_is_only_masked_is_shown_once_and_at_its_time(tmp_path: Path):
    later = msgspec.structs.replace(contents(1, says(MODEL, "MASKED"), says(USER, "yes")), at="9")
    path = write(
        tmp_path / "s.jsonl",
        HEADER,
        contents(0, says(USER, "yes"), says(MODEL, "long"), says(USER, "yes")),
        later,
    )
    transcript = read_transcript(path)
    assert [at for at, _ in transcript.contents] == [AT, "9", AT]
    assert [piece.body for piece in transcript.pieces()] == ["yes", "MASKED", "yes"]
    assert [piece.body for piece in transcript.earlier_pieces()] == ["long"]


def test_deleting_is_refused_while_the_session_is_written(store: SessionStore):
    store.directory.mkdir()
    journal = Journal.create(store.path("s"))
    journal.append(HEADER)
    with pytest.raises(HeldSessionError):
        store.delete("s")
    journal.close()
    store.delete("s")
    assert store.summaries() == ()


def test_old_sessions_go_with_their_checkpoints(tmp_path: Path):
    now = 100 * DAY
    store = SessionStore(tmp_path / "sessions", (), tmp_path / "checkpoints")
    for number in range(3):
        session(store, f"old{number}", used=number)
    session(store, "new", used=now)
    files = CheckpointFiles(tmp_path / "checkpoints")
    for name in ("old0", "new", "old1", "old2", ""):
        files.write(f"of-{name}", Checkpoint(session_id=name))
    (files.directory / "odd.json").write_bytes(b'{"sessionId":["old0"]}')
    limits = Retention(max_age_s=30 * DAY, max_count=None, min_s=DAY)
    assert prune(store, limits, "", lambda: now) == ("old0", "old1", "old2")
    left = [name.partition("Z-")[2] or name for name in files.names()]
    assert left == ["odd", "of-new", "of-"]
    seen = store.path("new").stat().st_mtime_ns
    assert store.delete_all({"new": seen, "gone": 0}, at_most=0) == ()
    assert store.delete_all({"gone": 0, "new": seen}, at_most=1) == ("new",)
    left = [name.partition("Z-")[2] or name for name in files.names()]
    assert left == ["odd", "of-"]
