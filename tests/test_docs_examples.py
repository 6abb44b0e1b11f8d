"""The files that pages show are ones that their readers take."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from alhena.config.effective_settings import open_place
from alhena.config.settings import Settings
from alhena.policy.load import load_file
from alhena.policy.model import Tier
from alhena.policy.settings_rules import with_slips
from alhena.tools.registry import ALIASES, BUILT_IN
from tests.config.places import user
from tests.support.command import alhena
from tests.support.each import for_each
from tests.support.pages import ROOT, Block, blocks

ELLIPSIS = "…"
LINES = ("batch:", "howto/fix-in-ci:")
"""Pages with a file of JSON lines."""
SECTIONS = frozenset(field.encode_name for field in msgspec.structs.fields(Settings))


def of_kind(kind: str) -> list[Block]:
    return [each for each in blocks() if each.kind == kind]


def as_pairs(found: list[Block]) -> list[tuple[str, str]]:
    return [(each.place, each.text) for each in found]


POLICIES = [each for each in as_pairs(of_kind("toml")) if each[1].startswith("[[")]
WHOLE = [each for each in of_kind("json") if ELLIPSIS not in each.text]
ANOTHER_PROGRAMS = "howto/bring-gemini-cli:"
"""A page on settings of which some have no effect here."""
SETTINGS = [
    (each.place, each.text)
    for each in WHOLE
    if not each.place.startswith(ANOTHER_PROGRAMS)
    if SECTIONS & set(re.findall(r'^\s{0,2}\{?"(\w+)":', each.text, re.MULTILINE))
    and each.file in (None, "~/.gemini/settings.json", ".gemini/settings.json")
]
WORKFLOWS = as_pairs(of_kind("yaml"))


def test_the_pages_have_examples():
    assert len(POLICIES) >= 5
    assert len(SETTINGS) >= 15
    assert len(WHOLE) > len(SETTINGS)
    assert len(WORKFLOWS) >= 3
    kinds = {
        "console",
        "ini",
        "json",
        "md",
        "mermaid",
        "py",
        "python",
        "pycon",
        "sh",
        "sql",
        "text",
    }
    assert {each.kind for each in blocks()} <= kinds | {"toml", "yaml"}


@pytest.mark.parametrize(("place", "text"), POLICIES)
def test_every_policy_can_be_used(tmp_path: Path, place: str, text: str):
    file = tmp_path / "policy.toml"
    file.write_text(text, encoding="utf-8")
    loaded = with_slips(load_file(file, Tier.USER), {*BUILT_IN, *ALIASES})
    assert [str(problem) for problem in loaded.problems] == [], place
    assert len(loaded.reports) == len(re.findall(r"^\[\[", text, re.MULTILINE))


@for_each(("place", "text"), as_pairs(WHOLE))
def test_every_document_is_json(place: str, text: str):
    for line in text.splitlines() if place.startswith(LINES) else [text]:
        json.loads(re.sub(r"^ *//.*$|,(?=\s*[}\]])", "", line, flags=re.MULTILINE))


@pytest.mark.parametrize(("place", "text"), SETTINGS)
def test_every_settings_file_is_read_and_none_of_it_is_odd(
    home: Path, project: Path, place: str, text: str
):
    user(home, text)
    found = open_place(project, {"HOME": str(home)})
    assert found.settings != Settings()
    assert (found.warnings, found.notes) == ((), ()), place


FILES = [
    (each.place, each)
    for each in blocks()
    if each.file and "~/.gemini/" in each.file and not each.place.startswith(ANOTHER_PROGRAMS)
]
READ_BY = {
    "agents": ("agents", "list"),
    "commands": ("commands", "list"),
    "keybindings.json": ("settings", "check"),
    "no-prints.sh": ("--version",),
    "policies": ("policy", "test"),
    "settings.json": ("settings", "check"),
    "skills": ("skills", "list"),
    "trustedFolders.json": ("trust", "--list"),
}
"""Files and folders of ~/.gemini, and the command that reads them and says what is wrong."""


@for_each(("place", "block"), FILES)
def test_every_file_of_a_page_is_read_where_the_page_says(home: Path, place: str, block: Block):
    path = home / str(block.file).removeprefix("~/")
    path.parent.mkdir(parents=True)
    path.write_text(block.text, encoding="utf-8")
    ran = alhena(*READ_BY[path.relative_to(home).parts[1]])
    shutil.rmtree(home / ".gemini")
    assert ran.code == 0, (place, ran.out, ran.err)
    assert not re.search(r"broken|not used|warning", ran.out + ran.err), (place, ran)


OF_WORKFLOW = {"name", "run-name", "on", "permissions", "env", "defaults", "concurrency", "jobs"}
OF_JOB = {
    *("name", "needs", "permissions", "if", "runs-on", "environment", "concurrency", "outputs"),
    *("env", "defaults", "steps", "timeout-minutes", "strategy", "continue-on-error", "container"),
    *("services", "uses", "with", "secrets"),
}
OF_STEP = {
    *("id", "if", "name", "uses", "run", "working-directory", "shell", "with", "env"),
    *("continue-on-error", "timeout-minutes"),
}


def workflow_problems(found: dict[Any, Any]) -> list[str]:
    """Parts of a workflow that GitHub refuses, by its page on the syntax of workflows."""
    top = {"on" if key is True else key for key in found}  # YAML 1.1 reads `on` as true
    wrong = sorted((top - OF_WORKFLOW) | ({"on", "jobs"} - top))
    for job in found["jobs"].values():
        wrong += sorted(set(job) - OF_JOB)
        wrong += [] if "runs-on" in job and job["steps"] else ["runs-on"]
        for step in job["steps"]:
            wrong += sorted(set(step) - OF_STEP)
            wrong += ["uses or run"] if ("uses" in step) == ("run" in step) else []
            wrong += ["with"] if "with" in step and "uses" not in step else []
            uses = step.get("uses", "./")
            wrong += [] if re.fullmatch(r"\./.*|[\w.-]+/[\w./-]+@[\w./-]+", uses) else [uses]
    text = json.dumps(found, default=str)
    wrong += ["${{ }}"] if text.count("${{") != len(re.findall(r"\$\{\{ .*? \}\}", text)) else []
    return wrong


def test_every_workflow_is_one_that_github_accepts():
    for place, text in WORKFLOWS:
        found = yaml.safe_load(text)
        steps = {"on": "push", "jobs": {"job": {"runs-on": "ubuntu-latest", "steps": found}}}
        assert workflow_problems(found if isinstance(found, dict) else steps) == [], place
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        assert workflow_problems(yaml.safe_load(path.read_text(encoding="utf-8"))) == [], path.name
    assert workflow_problems({"jobs": {"a": {"steps": [{"runs": "x"}]}}}) == [
        *("on", "runs-on", "runs", "uses or run"),
    ]


def test_the_first_policy_of_its_page_decides_as_is_said(home: Path, project: Path):
    text = next(text for place, text in POLICIES if place.startswith("policy:"))
    folder = home / ".gemini" / "policies"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text(text, encoding="utf-8")
    assert alhena("policy", "test").code == 0
    for command, decision in (
        ("npm test", "allow"),
        ("npm test | sh", "ask_user"),
        ("git status > log.txt", "ask_user"),
    ):
        args = json.dumps({"command": command})
        ran = alhena("policy", "explain", "--tool", "run_shell_command", "--args", args, "--json")
        assert ran.json["decision"] == decision, command
