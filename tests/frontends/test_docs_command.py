"""`alhena docs` and `alhena --bug-report`."""

import ast
import os
import sys
from pathlib import Path

import pexpect

from tests.config.places import user
from tests.support.command import ALHENA, alhena
from tests.support.patience import PATIENCE_S
from tests.support.sources import parsed_modules

DOCS = Path(__file__).parents[2] / "docs"


def test_a_page_is_found_by_its_name_its_title_and_its_headings():
    policies = (DOCS / "policy.md").read_text(encoding="utf-8")
    for words in (["policy"], ["policy.md"], ["POLICY"]):
        assert alhena("docs", *words).out == policies
    assert alhena("docs", "glossary").out.startswith("# Glossary\n")
    assert alhena("docs", "reference/exit-codes").out.startswith("# Exit codes\n")
    assert alhena("docs", "exit-codes").out == alhena("docs", "exit codes").out
    assert "telemetry " in alhena("docs", "log records").out


def test_without_a_topic_all_pages_are_listed_and_an_unknown_one_says_so():
    listed = {line.split()[0] for line in alhena("docs").out.splitlines()}
    there = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}
    assert listed == there
    ran = alhena("docs", "xyzzy")
    assert (ran.code, ran.out) == (42, "")
    assert "there is no page on 'xyzzy'" in ran.err
    assert alhena("docs", "--json").code == 2


def test_at_a_terminal_a_page_opens_in_the_pager(home: Path, project: Path):
    pager = home / "shows"
    pager.write_text('#!/bin/sh\nread first\necho "[$1] $first"\n', encoding="utf-8")
    pager.chmod(0o700)
    child = pexpect.spawn(
        ALHENA,
        ["docs", "policy"],
        cwd=project,
        env={**os.environ, "HOME": str(home), "PAGER": f"{pager} -x"},
        encoding="utf-8",
        timeout=PATIENCE_S,
    )
    child.expect_exact("[-x] # Policies")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_a_report_has_versions_and_settings_and_no_text_of_the_person(home: Path, project: Path):
    user(
        home,
        '{"model": {"maxSessionTurns": 7}, "ui": {"statusLine": "my-secret-command"},'
        ' "mcpServers": {"private": {"command": "private-program"}}}',
    )
    ran = alhena("--bug-report", GEMINI_API_KEY="AIza-very-secret")
    assert ran.code == 0
    assert f"- Python: {sys.version.split()[0]} " in ran.out
    assert "- `model.maxSessionTurns`: 7\n" in ran.out
    assert "- `mcpServers`: 1 entry\n" in ran.out
    assert "- Model access: the Gemini API, with a key\n" in ran.out
    for private in ("my-secret", "private", "AIza", str(home), str(project)):
        assert private not in ran.out


def named_pages() -> set[str]:
    """Pages that errors name, in their class or where they are raised."""
    found: set[str] = set()
    for _, tree in parsed_modules(r"\bpage\b"):
        for node in ast.walk(tree):
            values: list[ast.expr | None] = []
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Error"):
                values = [each.value for each in node.keywords if each.arg == "page"]
            elif isinstance(node, ast.ClassDef) and node.name.endswith("Error"):
                values = [
                    each.value
                    for each in node.body
                    if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "page"
                ]
            found |= {each.value for each in values if isinstance(each, ast.Constant)}
    return found


def test_every_page_that_an_error_names_is_there():
    named = named_pages()
    assert {"trust", "sandbox", "models", "mcp", "batch", "policy", "hooks", "extensions"} <= named
    for name in named:
        assert alhena("docs", name).out == (DOCS / f"{name}.md").read_text(encoding="utf-8")


def test_an_error_ends_with_the_page_to_read_where_one_helps(project: Path):
    refused = alhena("-p", "hi", "--approval-mode", "yolo")
    assert refused.code == 55
    assert refused.err.splitlines()[1:] == ["More: alhena docs trust"]
    assert alhena("batch", "none.jsonl", "--out", "r").err.endswith("\nMore: alhena docs batch\n")
    assert alhena("-p", "hi").err.endswith("\nMore: alhena docs models\n")
    assert "More:" not in alhena("--no-such-flag").err
    assert "More:" not in alhena("-p", "hi", "--approval-mode", "yolo", "-o", "json").err
