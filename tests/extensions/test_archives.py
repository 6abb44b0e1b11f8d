"""Hostile archives, built here, through `alhena extensions install`."""

import gzip
import io
import json
import os
import stat
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest

from alhena.extensions import archives
from alhena.extensions.archives import ArchiveError, unpack
from tests.support.command import alhena

MANIFEST = json.dumps({"name": "demo", "version": "1.0.0"}).encode()


def info(name: str, kind: bytes = tarfile.REGTYPE, **more: object) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type = kind
    for key, value in more.items():
        setattr(made, key, value)
    return made


def tar(path: Path, *entries: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as packed:
        for each, data in ((info("gemini-extension.json"), MANIFEST), *entries):
            each.size = len(data)
            packed.addfile(each, io.BytesIO(data))
    return path


def write_zip(path: Path, *entries: tuple[zipfile.ZipInfo | str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for each, data in (("gemini-extension.json", MANIFEST), *entries):
            packed.writestr(each, data)
    return path


def of_mode(name: str, mode: int) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name)
    made.external_attr = mode << 16
    return made


NAMES = {
    "/tmp/evil": "absolute path",
    "//tmp/evil": "absolute path",
    "C:/evil": "absolute path",
    "C:evil": "absolute path",
    "../evil": "leads out",
    "a/../../evil": "leads out",
    "a/..": "leads out",
    "..\\evil": "backslash",
    "a\\..\\..\\evil": "backslash",
    "a\x1b[2Jb": "control character",
    "a\nb": "control character",
    "x" * 256: "too long",
    "/".join(["deep"] * 31): "too deep",
    "/".join(["long" * 50] * 6): "too long",
    "gemini-extension.json": "twice",
    "./gemini-extension.json": "twice",
    "gemini-extension.json/x": "twice",
}


def assert_refused(home: Path, archive: Path, why: str) -> None:
    before = sorted(home.parent.rglob("*"))
    done = alhena("extensions", "install", str(archive), "--consent")
    assert done.code == 42, done.out
    assert why in done.err
    assert "Nothing was installed." in done.err
    new = set(home.parent.rglob("*")).difference(before)
    assert {path.name for path in new} <= {".gemini", "extensions", ".installing.lock"}


@pytest.mark.parametrize(("name", "why"), NAMES.items())
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_leads_elsewhere_refuses_the_whole_archive(
    home: Path, tmp_path: Path, name: str, why: str
):
    assert_refused(home, tar(tmp_path / "a.tar.gz", (info(name), b"evil")), why)
    assert_refused(home, write_zip(tmp_path / "a.zip", (name, b"evil")), why)


def test_a_name_that_a_null_cuts_is_refused_in_a_zip(home: Path, tmp_path: Path):
    archive = write_zip(tmp_path / "a.zip", ("good.txt#/../../evil", b"evil"))
    archive.write_bytes(archive.read_bytes().replace(b"good.txt#", b"good.txt\0"))
    assert_refused(home, archive, "leads out")


@pytest.mark.parametrize(
    "entry",
    [
        info("a", tarfile.CHRTYPE, devmajor=1, devminor=5),
        info("a", tarfile.BLKTYPE, devmajor=8),
        info("a", tarfile.FIFOTYPE),
        info("a", tarfile.CONTTYPE),
        info("a", b"9"),
    ],
)
def test_devices_refuse_a_tar_archive(home: Path, tmp_path: Path, entry: tarfile.TarInfo):
    assert_refused(home, tar(tmp_path / "a.tar.gz", (entry, b"")), "is no file")


@pytest.mark.parametrize("kind", [stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK])
def test_devices_refuse_a_zip_archive(home: Path, tmp_path: Path, kind: int):
    assert_refused(
        home,
        write_zip(tmp_path / "a.zip", (of_mode("a", kind | 0o777), b"/etc/passwd")),
        "is no file",
    )


def test_a_bomb_is_refused_by_what_comes_out_of_it(home: Path, tmp_path: Path):
    zeros = bytes(30_000_000)
    assert_refused(home, write_zip(tmp_path / "a.zip", ("zeros", zeros)), "200 times its size")
    assert_refused(home, tar(tmp_path / "a.tar.gz", (info("zeros"), zeros)), "200 times its size")
    # Behind a header of a name that is longer than memory:
    header = info("x").tobuf()[:124] + b"77777777777\0" + info("x").tobuf()[136:156] + b"L"
    header = (header + info("x").tobuf()[157:])[:512]
    total = sum(header[:148]) + 8 * 32 + sum(header[156:])
    header = header[:148] + b"%06o\0 " % total + header[156:]
    with gzip.open(tmp_path / "b.tgz", "wb") as packed:
        packed.write(header + zeros)
    assert_refused(home, tmp_path / "b.tgz", "200 times its size")


def test_a_zip_whose_directory_says_less_than_comes_out_is_refused(home: Path, tmp_path: Path):
    archive = write_zip(tmp_path / "a.zip", ("more", os.urandom(1000) * 9))
    data = archive.read_bytes()
    said = struct.pack("<L", 9000)
    assert data.count(said) == 2
    archive.write_bytes(data.replace(said, struct.pack("<L", 10)))
    assert_refused(home, archive, "cannot install")


def test_overlapping_entries_count_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    archive = write_zip(tmp_path / "a.zip", *((f"f{n}", bytes(1000)) for n in range(50)))
    monkeypatch.setattr(archives, "SMALL", 20_000)
    monkeypatch.setattr(archives, "MAX_RATIO", 3)
    (tmp_path / "out").mkdir()
    with pytest.raises(ArchiveError, match="3 times its size"):
        unpack(archive, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_too_many_files_are_refused(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(archives, "MAX_ENTRIES", 100)
    many = [(info(f"f{number}"), b"") for number in range(101)]
    assert_refused(home, tar(tmp_path / "a.tar.gz", *many), "more than 100 files")


@pytest.mark.parametrize("cut", [0, 1, 10, 60, 150])
def test_a_damaged_archive_is_refused(home: Path, tmp_path: Path, cut: int):
    whole = tar(tmp_path / "whole.tar.gz", (info("x"), os.urandom(50))).read_bytes()
    (tmp_path / "a.tar.gz").write_bytes(whole[:cut])
    assert_refused(home, tmp_path / "a.tar.gz", "cannot install")
    (tmp_path / "a.zip").write_bytes(whole[:cut])
    assert_refused(home, tmp_path / "a.zip", "cannot install")


def test_a_good_archive_is_unpacked_without_its_top_folder(home: Path, tmp_path: Path):
    with tarfile.open(tmp_path / "a.tgz", "w:gz") as packed:
        for name, mode, data in (
            ("./top/gemini-extension.json", 0o644, MANIFEST),
            ("./top/run.sh", 0o6755, b"#!/bin/sh\n"),
            ("./top/.git/config", 0o644, b"[core]\nfsmonitor=evil\n"),
        ):
            each = info(name, mode=mode, size=len(data))
            packed.addfile(each, io.BytesIO(data))
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as packed_too:
        packed_too.writestr("top/", b"")
        packed_too.writestr("top/gemini-extension.json", MANIFEST)
        packed_too.writestr(of_mode("top/run.sh", stat.S_IFREG | 0o6755), b"#!/bin/sh\n")
        packed_too.writestr("top/.git/config", b"[core]\nfsmonitor=evil\n")
    place = home / ".gemini" / "extensions" / "demo"
    for archive in ("a.tgz", "b.zip"):
        done = alhena("extensions", "install", str(tmp_path / archive), "--consent")
        assert done.code == 0, done.err
        assert (place / "run.sh").stat().st_mode & 0o7777 == 0o755
        assert not (place / ".git").exists()
        alhena("extensions", "uninstall", "demo")
