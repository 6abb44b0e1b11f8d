"""Files that can be written, in directories where nothing can be put beside them or in their
place."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from alhena.system import replacement
from alhena.system.files import digest_of
from alhena.system.private_files import PrivateFiles, change_file
from alhena.system.replacement import replace_file

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="capabilities")

SOURCES = Path(__file__).parents[2] / "src"
ROOT = os.geteuid() == 0
ANOTHER = 65_534
UNPRIVILEGED = """
import ctypes, os, sys
for capability in range(64):  # root gives all up; for others there is nothing to drop
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
os.execv(sys.executable, [sys.executable, "-c", *sys.argv[1:]])
"""
CHANGE = """
import json, sys
from pathlib import Path
from alhena.system.files import digest_of
from alhena.system.private_files import PrivateFiles, change_file
from alhena.system.replacement import replace_file
path = Path(sys.argv[1])
try:
    if sys.argv[2] == "replace":
        replace_file(path, b"new", expected=digest_of(path.read_bytes()), limit=1_000)
    elif sys.argv[2] == "settings":
        change_file(path, lambda data: b"new", "not changed")
    else:
        files = PrivateFiles(path.parent)
        with files.hold(path.name) as held:
            assert held
            files.write(path.name, b"new")
    print(json.dumps(""))
except Exception as error:
    print(json.dumps(f"{type(error).__name__} {error}"))
"""
WAYS = ["replace", "settings", "private"]


def changed(path: Path, way: str, temporary: Path) -> str:
    """The error of a process without privileges that changes a file."""
    done = subprocess.run(
        [sys.executable, "-c", UNPRIVILEGED, CHANGE, str(path), way],
        env={**os.environ, "PYTHONPATH": str(SOURCES), "TMPDIR": str(temporary)},
        capture_output=True,
        check=False,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    found: str = json.loads(done.stdout)
    return found


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "place"
    folder.mkdir()
    (folder / "a.json").write_bytes(b"old")
    (tmp_path / "temporary").mkdir()
    return folder


def make_read_only(place: Path) -> None:
    """A directory that its owner made read-only."""
    place.chmod(0o555)


def give_away(place: Path) -> None:
    """A directory of another user."""
    os.chown(place, ANOTHER, ANOTHER)
    place.chmod(0o755)


def make_sticky(place: Path) -> None:
    """A sticky directory of another user, with a file of another that all can write: it can be put
    beside it, but not in its place."""
    os.chown(place, ANOTHER, ANOTHER)
    os.chown(place / "a.json", ANOTHER, ANOTHER)
    (place / "a.json").chmod(0o666)
    place.chmod(0o1777)


def make_team(place: Path) -> None:
    """A setgid directory of a team, with a file of a colleague."""
    os.chown(place, ANOTHER, 0)
    os.chown(place / "a.json", ANOTHER, 0)
    (place / "a.json").chmod(0o664)
    place.chmod(0o2775)


OF_OTHERS = pytest.mark.skipif(not ROOT, reason="only root gives files away")
KINDS: list[Any] = [
    make_read_only,
    pytest.param(give_away, marks=OF_OTHERS),
    pytest.param(make_sticky, marks=OF_OTHERS),
    pytest.param(make_team, marks=OF_OTHERS),
]


@pytest.mark.requirement("WORLD-03")
@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_the_file_is_written_in_place_and_keeps_what_it_is(
    place: Path, tmp_path: Path, make: Any, way: str
) -> None:
    make(place)
    file = place / "a.json"
    before = file.stat()
    try:
        assert changed(file, way, tmp_path / "temporary") == ""
        after = file.stat()
    finally:
        place.chmod(0o755)
    assert file.read_bytes() == b"new"
    if way == "private" and make is make_team:
        assert after.st_mode & 0o777 == 0o600, "what is private is not the team's"
    else:
        assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
        assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert [each.name for each in place.iterdir()] == ["a.json"]
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize("make", KINDS[:2])
def test_a_new_file_or_one_that_is_read_only_is_refused_with_the_reason(
    place: Path, tmp_path: Path, make: Any
) -> None:
    file = place / "a.json"
    file.chmod(0o444)
    make(place)
    try:
        refusals = [
            changed(file, "replace", tmp_path / "temporary"),
            changed(place / "new.json", "settings", tmp_path / "temporary"),
        ]
    finally:
        place.chmod(0o755)
    assert all("EACCES" in each for each in refusals), refusals
    assert file.read_bytes() == b"old"
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize("code", ["EBUSY", "EROFS", "EPERM"])
def test_a_mount_point_is_written_in_place(
    place: Path, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno

    def refuse(*_: object, **__: object) -> None:
        raise OSError(getattr(errno, code), code)

    for name in ("rename", "replace"):
        monkeypatch.setattr(os, name, refuse)
    file = place / "a.json"
    inode = file.stat().st_ino
    replace_file(file, b"1", expected=digest_of(b"old"), limit=1_000)
    assert file.read_bytes() == b"1"
    change_file(file, lambda data: data + b"2", "not changed")
    assert file.read_bytes() == b"12"
    PrivateFiles(place).write("a.json", b"3")
    assert (file.read_bytes(), file.stat().st_ino) == (b"3", inode)
    assert [each.name for each in place.iterdir()] == ["a.json"]


def test_the_old_content_is_kept_elsewhere_where_it_cannot_be_put_back(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def refuse_beside(directory: int, name: str, *rest: Any) -> None:
        if os.path.samestat(os.fstat(directory), place.stat()):
            raise OSError(errno.EROFS, "Read-only file system")
        save(directory, name, *rest)

    save = replacement._save_copy
    monkeypatch.setattr(replacement, "_save_copy", refuse_beside)
    monkeypatch.setattr(replacement, "_fill", refuse)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    os.link(place / "a.json", tmp_path / "other name")
    with pytest.raises(Exception, match="could not be put back") as failure:
        replace_file(place / "a.json", b"new", expected=digest_of(b"old"), limit=1_000)
    (kept,) = (tmp_path / "temporary").iterdir()
    assert kept.read_bytes() == b"old"
    assert str(kept) in str(failure.value)
