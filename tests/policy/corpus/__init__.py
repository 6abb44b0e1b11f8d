"""Command lines with the decision each should get, and the rules it is judged by."""

import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from alhena.policy.model import PolicyRule
from tests.policy.support import rules

_HERE = Path(__file__).parent

TREE: dict[str, str | Path | None] = {
    **dict.fromkeys(("README.md", "a.txt", "b.txt", "app.log", "src/util.py"), "foo bar\n"),
    "file with blanks.txt": "x\n",
    "package.json": '{"scripts": {"test": "true"}}\n',
    "Makefile": "test:\n\ttrue\n",
    "src/app.py": "import os\n",
    "tests/test_app.py": "def test_one(): ...\n",
    ".git/HEAD": "ref: refs/heads/main\n",
    ".git/config": "[core]\n\tbare = false\n",
    ".git/objects": None,
    ".git/refs": None,
    "vendor/.git/config": "[core]\n\tfsmonitor = evil\n",
    "vendor/lib.c": "",
    "bare/HEAD": "ref: refs/heads/main\n",
    "bare/config": "[core]\n\tfsmonitor = evil\n\tbare = true\n",
    "bare/objects": None,
    "bare/refs": None,
    "linked/.git": "gitdir: ../vendor/.git\n",
    "away": Path("/"),
    "-o": "",
    "-exec": "",
    "-delete": "",
    "--output=x": "",
    "--pre=evil": "",
    "payload": "evil\n",
}
"""The workspace that the lines run in: a repository, others within it, names like options."""


class Line(msgspec.Struct, frozen=True):
    """A command line, the profile that judges it, the outcome, and why. `shown`: the jail can show
    that it does what it is suspected of, be it that `evil` runs or that a file changes."""

    command: str
    profile: str
    outcome: str
    reason: str
    technique: str = ""
    shown: bool = False


@lru_cache(maxsize=1)
def profiles() -> dict[str, tuple[PolicyRule, ...]]:
    """The rules of each profile."""
    return {name: rules(*table["rule"]) for name, table in _read("profiles.toml").items()}


def everyday() -> list[Line]:
    """Lines that are to run without a question."""
    return [
        Line(command, profile, "allow", note)
        for profile, entries in _read("everyday.toml").items()
        for command, note in entries
    ]


def adversarial() -> list[Line]:
    """Lines that are not."""
    return [
        Line(
            command=entry[0],
            profile=group["profile"],
            outcome=group["outcome"],
            reason=entry[1],
            technique=group["technique"],
            shown="shown" in entry[2:],
        )
        for group in _read("adversarial.toml")["group"]
        for entry in group["lines"]
    ]


def destruction() -> list[tuple[str, bool]]:
    """Lines for a rule that allows any command, each with: is it asked about?"""
    return [
        (command, kind == "asks")
        for group in _read("destruction.toml").values()
        for kind, commands in group.items()
        for command in commands
    ]


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((_HERE / name).read_text(encoding="utf-8"))
