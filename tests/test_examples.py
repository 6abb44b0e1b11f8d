import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from scripts.programs_beside import PAGE, PROGRAMS, count_lines, count_program, write_table

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
OWN = {"embed.py", "deferred_approval.py", "prefork.py"}
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


def test_workers_of_celery_are_forked_with_a_model_made_before(project: Path):
    pytest.importorskip("celery", reason="Celery is not installed")
    ran = run("examples/prefork.py", project)
    assert ran.returncode == 0, ran.stderr
    assert "concurrency: 3 (prefork)" in ran.stdout
    assert ran.stdout.endswith("['Hello.', 'Hello.', 'Hello.']\n")
    assert "Traceback" not in ran.stderr


@for_each("name", PROGRAMS)
def test_each_of_the_twenty_programs_is_at_most_as_long_as_with_pydantic_ai(name: str):
    ours, theirs = count_program(name)
    assert 0 < ours <= theirs


def test_the_table_of_the_twenty_programs_is_as_they_are():
    page = PAGE.read_text(encoding="utf-8")
    assert write_table(page) == page
    assert len(PROGRAMS) == page.count("| `") - page.count("| `alhena") == 20


def test_only_lines_with_code_count():
    source = '"""Says\nmuch."""\n\n# why\nx = (\n    1,\n\n)  # so\ndef f():\n    """F."""\n    return """a\nb"""\n'
    assert count_lines(source) == 3 + 1 + 2


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
    for line in re.findall(r"^ *(from alhena[\w.]* import .+)$", text, re.MULTILINE):
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
