"""`alhena batch` in a folder whose files have the names of modules, programs and links."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.batch.answering import AnsweringServer, echo, results, started, write_tasks
from tests.support.command import ALHENA, alhena, keyed
from tests.support.each import for_each

NAMES = (
    *("tempfile", "json", "ssl", "asyncio", "threading", "sqlite3", "msgspec", "sitecustomize"),
    *("usercustomize", "alhena", "ray", "h11", "encodings", "subprocess", "typing", "re"),
)


@pytest.fixture
def mark(project: Path, tmp_path: Path) -> Path:
    """A file in which each module of the folder that is imported notes itself."""
    path = tmp_path / "ran"
    note = f"open({str(path)!r}, 'a').write(__name__ + chr(10))\n"
    for name in NAMES:
        (project / f"{name}.py").write_text(note, encoding="utf-8")
    (project / "alhena" / "batch").mkdir(parents=True)
    for place in ("__init__.py", "__main__.py", "batch/__init__.py", "batch/worker.py"):
        (project / "alhena" / place).write_text(note, encoding="utf-8")
    (project / "pyvenv.cfg").write_text("home = /nowhere\n", encoding="utf-8")
    return path


@for_each("variable", [{}, {"PYTHONPATH": "."}, {"PYTHONPATH": ":"}])
def test_workers_import_nothing_of_the_folder(
    variable: dict[str, str], project: Path, mark: Path, tmp_path: Path
):
    write_tasks(project / "tasks.jsonl", 4)
    out = tmp_path / f"r{len(list(tmp_path.iterdir()))}.jsonl"
    # The command itself is the user's start: it finds its modules without the folder.
    code = "import sys; from alhena.frontends.main import run; sys.exit(run(sys.argv[1:]))"
    with AnsweringServer(echo) as server:
        done = subprocess.run(
            (sys.executable, "-P", "-c", _WITH.format(variable=variable, code=code), "batch",
             "tasks.jsonl", "--out", str(out), "--workers", "2"),
            env={**os.environ, **keyed(server)}, check=False, capture_output=True, text=True,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(results(out)) == 4
    assert not mark.exists(), mark.read_text(encoding="utf-8")


_WITH = "import os; os.environ.update({variable!r}); exec({code!r})"


def test_the_command_itself_imports_nothing_of_the_folder(project: Path, mark: Path):
    write_tasks(project / "tasks.jsonl", 2)
    with AnsweringServer(echo) as server:
        process = started(server, "tasks.jsonl", "--out", "r.jsonl", "--workers", "2")
        process.communicate()
        assert process.returncode == 0
    assert not mark.exists(), mark.read_text(encoding="utf-8")
    subprocess.run([ALHENA, "--version"], check=True, capture_output=True)
    assert not mark.exists()


def test_as_a_module_alhena_imports_nothing_more_of_the_folder(project: Path, tmp_path: Path):
    mark = tmp_path / "ran"
    for name in ("tempfile", "sqlite3", "ssl", "h11", "regex"):  # all but what Python itself begins
        (project / f"{name}.py").write_text(f"open({str(mark)!r}, 'a').write(__name__)\n")
    subprocess.run(
        [sys.executable, "-m", "alhena", "-m", "demo", "-p", "hi"], check=True, capture_output=True
    )
    assert not mark.exists(), mark.read_text(encoding="utf-8")


@for_each("link", ["r.jsonl.run", "r.jsonl.new"])
def test_no_file_of_a_run_is_written_through_a_link(link: str, project: Path, tmp_path: Path):
    write_tasks(project / "tasks.jsonl", 1)
    victim = tmp_path / f"victim-{link}"
    victim.mkdir() if link.endswith("run") else victim.write_text("mine", encoding="utf-8")
    (project / link).unlink(missing_ok=True)
    (project / link).symlink_to(victim)
    (project / "r.jsonl").write_text('{"id": "old"}\n', encoding="utf-8")
    with AnsweringServer(echo) as server:
        ran = alhena("batch", "tasks.jsonl", "--out", "r.jsonl", **keyed(server))
    if link.endswith("run"):  # the other one is used by a later replacement only
        assert ran.code == 42, ran.err
        assert "is a symbolic link; nothing was written" in ran.err
    assert list(victim.iterdir()) == [] if victim.is_dir() else victim.read_text() == "mine"
    (project / link).unlink()


@pytest.mark.slow
def test_a_cluster_imports_nothing_of_the_folder(project: Path, mark: Path):
    pytest.importorskip("ray")
    write_tasks(project / "tasks.jsonl", 2)
    with AnsweringServer(echo) as server:
        process = started(server, "tasks.jsonl", "--out", "r.jsonl", "--engine", "ray")
        _, err = process.communicate()
    assert process.returncode == 0, err
    assert len(results(project / "r.jsonl")) == 2
    assert not mark.exists(), mark.read_text(encoding="utf-8")
