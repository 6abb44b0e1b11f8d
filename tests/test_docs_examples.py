"""Example files in the docs are valid."""

import json
import re
from functools import cache
from pathlib import Path

import msgspec
import pytest

from alhena.config.documents import parse_settings
from alhena.config.effective_settings import open_place
from alhena.config.settings import Settings
from alhena.policy.load import load_file
from alhena.policy.model import Tier
from alhena.policy.settings_rules import with_slips
from alhena.tools.registry import ALIASES, BUILT_IN
from tests.config.places import user
from tests.support.command import alhena
from tests.support.each import for_each

DOCS = Path(__file__).parent.parent / "docs"
ELLIPSIS = "…"
SECTIONS = frozenset(field.encode_name for field in msgspec.structs.fields(Settings))


@cache
def blocks() -> tuple[tuple[str, str], ...]:
    """The indented and fenced blocks of all pages, each with its place."""
    found: list[tuple[str, str]] = []
    for page in sorted(DOCS.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        for match in re.finditer(
            r"(?:^ {4}.*\n(?:\n(?= {4}))?)+|^```\w*\n(?s:.*?)^```$", text, re.MULTILINE
        ):
            lines = match[0].strip("\n").split("\n")
            lines = lines[1:-1] if lines[0].startswith("```") else [line[4:] for line in lines]
            number = text.count("\n", 0, match.start()) + 1
            found.append((f"{page.name}:{number}", "\n".join(lines) + "\n"))
    return tuple(found)


POLICIES = [(place, text) for place, text in blocks() if re.match(r"\[\[\w+\]\]\n", text)]
DOCUMENTS = [(place, text) for place, text in blocks() if re.match(r'\{\s*(?:"|//|\})', text)]


WHOLE = [(place, text) for place, text in DOCUMENTS if ELLIPSIS not in text]
SETTINGS = [
    (place, text)
    for place, text in WHOLE
    if SECTIONS & set(re.findall(r'^\s{0,2}\{?"(\w+)":', text, re.MULTILINE))
]


def test_the_pages_have_examples():
    assert len(POLICIES) >= 2
    assert len(SETTINGS) >= 7
    assert len(WHOLE) > len(SETTINGS)


@pytest.mark.parametrize(("place", "text"), POLICIES)
def test_every_policy_can_be_used(tmp_path: Path, place: str, text: str):
    file = tmp_path / "policy.toml"
    file.write_text(text, encoding="utf-8")
    loaded = with_slips(load_file(file, Tier.USER), {*BUILT_IN, *ALIASES})
    assert [str(problem) for problem in loaded.problems] == [], place
    assert len(loaded.reports) == len(re.findall(r"^\[\[", text, re.MULTILINE))


@for_each(("place", "text"), WHOLE)
def test_every_document_is_json(place: str, text: str):
    assert isinstance(parse_settings(Path(place), text.encode()), dict)


@pytest.mark.parametrize(("place", "text"), SETTINGS)
def test_every_settings_file_is_read_and_none_of_it_is_odd(
    home: Path, project: Path, place: str, text: str
):
    user(home, text)
    found = open_place(project, {"HOME": str(home)})
    assert found.settings != Settings()
    assert (found.warnings, found.notes) == ((), ()), place


def test_the_first_policy_of_its_page_decides_as_is_said(home: Path, project: Path):
    _, text = POLICIES[0]
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
