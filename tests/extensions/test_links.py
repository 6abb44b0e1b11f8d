"""Extensions with links, as public ones have them, through `alhena extensions`."""

import io
import os
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from alhena.extensions import links
from tests.extensions.test_archives import MANIFEST, info, of_mode, tar, write_zip
from tests.support.command import alhena


@pytest.fixture
def source(home: Path) -> Path:
    del home
    folder = Path.cwd().parent / "source"
    for name in ("commands", "shared", ".venv/bin", "node_modules/.bin", "node_modules/tool"):
        (folder / name).mkdir(parents=True)
    (folder / "gemini-extension.json").write_bytes(MANIFEST)
    (folder / "CLAUDE.md").write_text("the rules")
    (folder / "shared" / "more.toml").write_text('prompt = "more"')
    (folder / "node_modules" / "tool" / "cli.js").write_text("run()")
    (folder.parent / "secret.toml").write_text('prompt = "secret"')
    for name, target in {
        "GEMINI.md": "CLAUDE.md",
        "AGENTS.md": "GEMINI.md",
        "commands/more.toml": "../shared/more.toml",
        "commands/all": "../shared",
        "commands/out.toml": "../../secret.toml",
        "shared/gone": "nowhere",
        "shared/up": "..",
        "self": "self",
        ".venv/bin/python": "/usr/bin/python3",
        "node_modules/.bin/tool": "../tool/cli.js",
        "absolute.md": str(folder / "CLAUDE.md"),
    }.items():
        (folder / name).symlink_to(target)
    return folder


def pack_folder(source: Path, kind: str) -> str:
    """The folder in another form."""
    if kind == "git":
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-C", str(source)]
        for words in (["init", "-q"], ["add", "-A", "-f"], ["commit", "-qm", "first"]):
            subprocess.run([*git, *words], check=True)
        return f"file://{source}"
    if kind == "tar":
        path = source.with_name("demo.tar.gz")
        with tarfile.open(path, "w:gz") as archive:
            archive.add(source, "top")
        return str(path)
    if kind == "zip":
        path = source.with_name("demo.zip")
        with zipfile.ZipFile(path, "w") as archive:
            for file in sorted(source.rglob("*")):
                name = f"top/{file.relative_to(source)}"
                if file.is_symlink():
                    archive.writestr(of_mode(name, 0o120777), os.readlink(file))
                elif file.is_file():
                    archive.write(file, name)
        return str(path)
    return str(source)


@pytest.mark.parametrize("kind", ["folder", "git", "tar", "zip"])
def test_links_within_are_taken_and_others_are_left_out_with_a_word(
    home: Path, source: Path, kind: str
) -> None:
    done = alhena("extensions", "install", pack_folder(source, kind), "--consent")
    assert done.code == 0, done.err
    there = home / ".gemini" / "extensions" / "demo"
    for name in ("GEMINI.md", "AGENTS.md"):
        assert not (there / name).is_symlink()
        assert (there / name).read_text() == "the rules"
    assert (there / "absolute.md").exists() is (kind == "folder")
    assert (there / "node_modules" / ".bin" / "tool").read_text() == "run()"
    listed = alhena("commands", "list").out
    assert "/more" in listed
    assert "/all:more" in listed
    assert "out" not in listed
    for name in ("commands/out.toml", "shared/gone", "shared/up", "self", ".venv/bin/python"):
        assert not os.path.lexists(there / name)
        assert name in done.err
    assert "commands/out.toml: left out, a link out of the package" in done.err.replace(
        ".venv/bin/python, ", ""
    ).replace("absolute.md, ", "")
    outside = [path for path in there.rglob("*") if not path.resolve().is_relative_to(there)]
    assert outside == []
    again = alhena("extensions", "update", "demo", "--consent")
    assert "up to date" in again.out


def test_a_linked_one_takes_the_same(home: Path, source: Path) -> None:
    done = alhena("extensions", "link", str(source), "--consent")
    assert done.code == 0, done.err
    assert ".venv/bin/python" in done.err
    listed = alhena("commands", "list")
    assert "/more" in listed.out
    assert "/all:more" in listed.out
    assert "/out" not in listed.out
    assert "out.toml is not used: it is a link out of its folder" in listed.err + done.err


def test_nothing_is_read_through_a_link_out_of_it(home: Path, source: Path) -> None:
    (source / "commands" / "far").symlink_to(source.parent)
    done = alhena("extensions", "link", str(source), "--consent")
    assert "secret" not in done.out + alhena("commands", "list").out


def test_a_hard_link_of_an_archive_is_a_copy(home: Path, tmp_path: Path) -> None:
    archive = tar(
        tmp_path / "a.tar.gz",
        (info("a/b.md", tarfile.LNKTYPE, linkname="gemini-extension.json"), b""),
        (info("a/c.md", tarfile.LNKTYPE, linkname="../../../../etc/passwd"), b""),
    )
    done = alhena("extensions", "install", str(archive), "--consent")
    assert done.code == 0, done.err
    there = home / ".gemini" / "extensions" / "demo" / "a"
    assert (there / "b.md").read_bytes() == MANIFEST
    assert not os.path.lexists(there / "c.md")


def test_nothing_is_written_through_a_link_of_an_archive(home: Path, tmp_path: Path) -> None:
    link = info("a", tarfile.SYMTYPE, linkname=str(tmp_path))
    for entries in (
        ((link, b""), (info("a/evil"), b"evil")),
        ((info("a/evil"), b"evil"), (link, b"")),
        ((link, b""), (link, b"")),
    ):
        path = tar(tmp_path / "a.tar.gz", *entries)
        assert "twice" in alhena("extensions", "install", str(path), "--consent").err
    named = of_mode("a\0b", 0o120777)
    done = write_zip(tmp_path / "a.zip", (named, b"x"), (of_mode("c", 0o120777), b"x\0y"))
    assert alhena("extensions", "install", str(done), "--consent").code in (0, 42)
    assert not (tmp_path / "evil").exists()


def test_copies_of_folders_count(home: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for level in range(30):
        (source / f"l{level}").mkdir()
        for name in ("a", "b"):
            (source / f"l{level}" / name).symlink_to(f"../l{level + 1}")
    (source / "l30").mkdir()
    monkeypatch.setattr(links, "MAX_ENTRIES", 1000)
    done = alhena("extensions", "install", str(source), "--consent")
    assert done.code == 42
    assert "more than 200,000,000 bytes or 1,000 files" in done.err
    assert not (home / ".gemini" / "extensions" / "demo").exists()


def test_many_files_are_counted_and_taken(
    home: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alhena.extensions.installation.MANY_FILES", 5)
    done = alhena("extensions", "install", str(source), "--consent")
    assert done.code == 0
    assert "files and folders" in done.err


def test_an_archive_of_many_files_is_taken(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alhena.extensions.installation.MANY_FILES", 1_000)
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, data in (
            ("gemini-extension.json", MANIFEST),
            *((f"f{n}", b"") for n in range(1_050)),
        ):
            each = info(name, size=len(data))
            archive.addfile(each, io.BytesIO(data))
    done = alhena("extensions", "install", str(path), "--consent")
    assert done.code == 0, done.err
    assert "it has 1,051 files and folders" in done.err


@pytest.mark.parametrize("name", ["gemini-extension.json", "policies/p.toml"])
def test_messages_name_files_that_are_there_afterwards(home: Path, source: Path, name: str) -> None:
    (source / name).parent.mkdir(exist_ok=True)
    (source / name).write_text("{")
    done = alhena("extensions", "install", str(source), "--consent")
    there = source if name == "gemini-extension.json" else home / ".gemini/extensions/demo"
    assert f"{there / name}" in done.err
    assert ".installing-" not in done.err


def test_wild_prints_a_line_for_each_folder(source: Path) -> None:
    script = Path(__file__).parents[2] / "scripts" / "wild.sh"
    broken = source.parent / "broken"
    broken.mkdir()
    done = subprocess.run(
        [script, source, broken], capture_output=True, text=True, check=True, timeout=120
    )
    first, second = done.stdout.splitlines()
    assert first.startswith("source  install 0  start 0  parts 3  ")
    assert "commands/out.toml" in first
    assert second.startswith("broken  install 52  start -  parts 0  ")
