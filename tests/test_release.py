"""The files of a release: licences, the list of parts, workflows and forms."""

import json
import re
import sys
from pathlib import Path

import pytest
import yaml
from scripts import dependencies

ROOT = Path(__file__).parent.parent
FORMS = ROOT / ".github" / "ISSUE_TEMPLATE"
WORKFLOWS = ROOT / ".github" / "workflows"


def test_the_page_of_licences_is_that_of_the_installed_packages():
    page = dependencies.PAGE.read_text(encoding="utf-8")
    assert page == dependencies.licences_page(), "write it with: python -m scripts.dependencies"


def test_the_list_of_parts_has_every_locked_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "argv", ["dependencies", str(tmp_path / "parts.json")])
    dependencies.main()
    parts = json.loads((tmp_path / "parts.json").read_text(encoding="utf-8"))
    assert (parts["bomFormat"], parts["specVersion"]) == ("CycloneDX", "1.5")
    locked = re.findall(
        r"^([\w.-]+)==([^\s;]+)", dependencies.LOCK.read_text("utf-8"), re.MULTILINE
    )
    assert [(each["name"], each["version"]) for each in parts["components"]] == locked
    assert len(parts["dependencies"][0]["dependsOn"]) == len(locked) > 30


def test_workflows_run_targets_that_are_there():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for path in WORKFLOWS.glob("*.yml"):
        jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
        steps = [step for job in jobs.values() for step in job["steps"]]
        used = {
            name for step in steps for name in re.findall(r"\bmake ([a-z-]+)", step.get("run", ""))
        }
        assert used <= targets, path.name
        assert used
    release = yaml.safe_load((WORKFLOWS / "release.yml").read_text(encoding="utf-8"))
    publish = release["jobs"]["publish"]
    assert release["permissions"] == {"contents": "read"}
    assert publish["permissions"]["id-token"] == "write"
    assert set(publish["needs"]) == set(release["jobs"]) - {"publish", "build"}
    text = (WORKFLOWS / "release.yml").read_text(encoding="utf-8")
    assert "secrets." not in text


def test_forms_are_complete():
    for path in set(FORMS.glob("*.yml")) - {FORMS / "config.yml"}:
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert form["name"], path.name
        assert form["description"], path.name
        ids = [field["id"] for field in form["body"]]
        assert len(ids) == len(set(ids)), path.name
        assert all(field["attributes"]["label"] for field in form["body"]), path.name
    assert "alhena --bug-report" in (FORMS / "bug.yml").read_text(encoding="utf-8")
