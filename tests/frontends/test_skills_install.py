"""Installing skills with the real command."""

import io
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.skills.test_files import written
from tests.support.command import alhena


def installed(home: Path) -> list[str]:
    folder = home / ".gemini" / "skills"
    return sorted(each.name for each in folder.iterdir()) if folder.exists() else []


def left_over(home: Path) -> list[str]:
    return [each.name for each in (home / ".gemini").glob(".installing*")]


def source_of(kind: str, tmp_path: Path) -> str:
    folder = tmp_path / "source"
    written(folder, "a-skill")
    (folder / "a-skill" / "more.txt").write_text("x", encoding="utf-8")
    if kind == "folder":
        return str(folder)
    if kind == "zip":
        with zipfile.ZipFile(tmp_path / "s.zip", "w") as packed:
            for path in folder.rglob("*"):
                packed.write(path, f"top/{path.relative_to(folder)}")
        return str(tmp_path / "s.zip")
    if kind == "tar.gz":
        with tarfile.open(tmp_path / "s.tar.gz", "w:gz") as packed:
            packed.add(folder, "")
        return str(tmp_path / "s.tar.gz")
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@x"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"], ["tag", "v1"]):
        subprocess.run([*git, *words], cwd=folder, check=True, capture_output=True)
    return f"file://{folder}"


@pytest.mark.requirement("EXT-03")
@pytest.mark.parametrize("kind", ["folder", "zip", "tar.gz", "git"])
def test_skills_are_installed_with_consent_and_removed(
    home: Path, project: Path, tmp_path: Path, kind: str
) -> None:
    source = source_of(kind, tmp_path)
    ran = alhena("skills", "install", source)
    assert (ran.code, "good  does good" in ran.out) == (2, True)
    assert "no person can be asked" in ran.err
    assert (installed(home), left_over(home)) == ([], [])
    more = ["--ref", "v1"] if kind == "git" else []
    ran = alhena("skills", "install", source, "--consent", *more)
    assert ran.code == 0, ran.err
    assert (installed(home), left_over(home)) == (["good"], [])
    assert (home / ".gemini/skills/good/more.txt").is_file()
    assert "good  does good" in alhena("skills", "list").out
    again = alhena("skills", "install", source, "--consent")
    assert (again.code, "uninstall good" in again.err) == (42, True)
    assert alhena("skills", "uninstall", "good").out == "good is removed.\n"
    assert installed(home) == []
    assert alhena("skills", "uninstall", "good").code == 2


def test_skills_in_a_folder_of_the_source_are_installed(
    home: Path, project: Path, tmp_path: Path
) -> None:
    written(tmp_path / "source" / "more" / "skills", "a-skill")
    source = str(tmp_path / "source")
    assert alhena("skills", "install", source, "--consent").code == 42
    for path in ("nowhere", "..", "/etc"):
        refused = alhena("skills", "install", source, "--path", path, "--consent")
        assert (refused.code, f"has no folder {path}" in refused.err) == (42, True)
    assert (installed(home), left_over(home)) == ([], [])
    ran = alhena("skills", "install", source, "--path", "more/skills", "--consent")
    assert (ran.code, installed(home)) == (0, ["good"]), ran.err


def test_a_linked_skill_follows_its_source(home: Path, project: Path, tmp_path: Path) -> None:
    folder = tmp_path / "source"
    path = written(folder, "a")
    assert alhena("skills", "link", str(folder), "--consent", "--scope", "user").code == 0
    path.write_text(path.read_text(encoding="utf-8").replace("does good", "does better"))
    assert "does better" in alhena("skills", "list").out
    assert alhena("skills", "uninstall", "good").code == 0
    assert path.is_file()


def hostile(kind: str, tmp_path: Path) -> Path:
    if kind == "zip":
        with zipfile.ZipFile(tmp_path / "s.zip", "w") as packed:
            packed.writestr("a/SKILL.md", "x")
            packed.writestr("../out.txt", "x")
        return tmp_path / "s.zip"
    if kind == "damaged":
        (tmp_path / "s.zip").write_bytes(b"no archive")
        return tmp_path / "s.zip"
    with tarfile.open(tmp_path / "s.tar.gz", "w:gz") as packed:
        member = tarfile.TarInfo("/out.txt" if kind == "absolute" else "a/link")
        member.type = {"link": tarfile.SYMTYPE, "device": tarfile.CHRTYPE}.get(
            kind, tarfile.REGTYPE
        )
        member.linkname = "SKILL.md" if kind == "link" else ""
        packed.addfile(member, io.BytesIO(b""))
    return tmp_path / "s.tar.gz"


@pytest.mark.parametrize("kind", ["zip", "damaged", "absolute", "link", "device"])
def test_a_source_that_leads_out_of_itself_installs_nothing(
    home: Path, project: Path, tmp_path: Path, kind: str
) -> None:
    ran = alhena("skills", "install", str(hostile(kind, tmp_path)), "--consent")
    assert ran.code == 42, ran.err
    assert (installed(home), left_over(home)) == ([], [])
    assert not (tmp_path / "out.txt").exists()


def test_a_link_out_of_a_source_is_left_out_with_a_word(
    home: Path, project: Path, tmp_path: Path
) -> None:
    written(tmp_path / "source", "a")
    (tmp_path / "source" / "a" / "link").symlink_to("/etc/passwd")
    ran = alhena("skills", "install", str(tmp_path / "source"), "--consent")
    assert ran.code == 0, ran.err
    assert "a/link: left out, a link out of the package" in ran.err
    assert not [path for path in home.rglob("*") if path.is_symlink() or path.name == "link"]


def test_a_git_url_that_runs_a_program_is_refused(
    home: Path, project: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "ran"
    for source in (f"ext::touch {mark}", "file:///nonexistent", "nothing"):
        assert alhena("skills", "install", source, "--consent").code == 42
    assert not mark.exists()
