import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.support.each import for_each
from tests.support.patience import PATIENCE_S

ROOT = Path(__file__).parent.parent


def run(script: str, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / script), *arguments],
        cwd=cwd,
        env=dict(os.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_the_embedding_example_is_short_and_runs_without_a_key(project: Path):
    source = (ROOT / "examples" / "embed.py").read_text(encoding="utf-8")
    assert source.count("\n") < 30
    (project / "README.md").write_text("three small words", encoding="utf-8")
    ran = run("examples/embed.py", project)
    assert ran.returncode == 0, ran.stderr
    assert "3 words in README.md" in ran.stdout
    assert "[approving count_words {'path': 'README.md'}" in ran.stdout


EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py"))
OWN = {"embed.py", "deferred_approval.py"}
"""Examples with tests of their own."""
PUBLIC = {
    "alhena",
    "alhena.errors",
    "alhena.events",
    "alhena.evals",
    "alhena.hooks",
    "alhena.models",
    "alhena.native",
    "alhena.otel",
    "alhena.testing",
}


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in OWN])
def test_each_example_is_short_public_and_runs_without_a_key(name: str, project: Path):
    source = (ROOT / "examples" / name).read_text(encoding="utf-8")
    if "from fastapi" in source:
        pytest.importorskip("fastapi", reason="FastAPI is not installed")
    assert source.count("\n") <= 40
    assert set(re.findall(r"from (alhena[\w.]*) import", source)) <= PUBLIC
    ran = run(f"examples/{name}", project)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip()
    assert ran.stderr == ""


def test_the_demo_shows_at_least_three_tools_on_real_files_and_an_answer():
    ran = run("scripts/demo.py", ROOT)
    assert ran.returncode == 0, ran.stderr
    used = {line.split()[1] for line in ran.stdout.splitlines() if line.startswith("● ")}
    assert len(used) >= 3
    assert "src/alhena/scheduler/scheduler.py" in ran.stdout
    assert "[success:" in ran.stdout


@pytest.mark.parametrize("page", ["headless", "policy", "embedding"])
def test_the_pages_that_the_readme_names_are_there(page: str):
    assert f"docs/{page}.md" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert (ROOT / "docs" / f"{page}.md").stat().st_size > 500


NAMED = r"(?:`(\w+)[^`]*` and )?`(\w+)[^`]*` of `(alhena[\w.]*)`"
"""One or two names of a module."""

PAGES = sorted(path.name for path in (ROOT / "docs").glob("*.md"))


@for_each("page", PAGES)
def test_what_a_page_imports_or_names_of_a_module_is_there(page: str):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    for line in re.findall(r"^ +(from alhena[\w.]* import .+)$", text, re.MULTILINE):
        exec(line, {})
    told = " ".join(text.split())
    for first, second, module in re.findall(NAMED, told):
        for name in filter(None, (first, second)):
            assert hasattr(import_module(module), name), (name, module)


@pytest.mark.requirement("LIB-10")
def test_an_approval_that_was_deferred_is_given_in_another_process(project: Path):
    first = run("examples/deferred_approval.py", project)
    assert "waits: pay-" in first.stdout, first.stderr
    second = run("examples/deferred_approval.py", project)
    assert second.stdout == "Ada has her money.\n", second.stderr
    assert first.stderr == second.stderr == ""
