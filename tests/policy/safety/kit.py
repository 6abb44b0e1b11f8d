"""Checkers: real programs, and the tables that name them."""

import os
import sys
from pathlib import Path
from typing import Any

from alhena.policy.checker import SafetyChecker
from alhena.policy.load import load_text
from alhena.policy.model import (
    ApprovalMode,
    Decision,
    PolicyCall,
    PolicyContext,
    PolicyOutcome,
    Tier,
)
from alhena.policy.safety_checks import CheckerRegistry, ExternalRunner, SafetyChecks
from alhena.policy.surroundings import Surroundings
from tests.support.patience import PATIENCE_S

ALLOW, ASK, DENY = PolicyOutcome.ALLOW, PolicyOutcome.ASK_USER, PolicyOutcome.DENY
ALLOWED = Decision(outcome=ALLOW, reason="allowed by a rule")
ASKED = Decision(outcome=ASK, reason="approval required by a rule")
DENIED = Decision(outcome=DENY, reason="denied by a rule")


def directory(top: Path) -> Path:
    """A directory for checkers that only its owner can write to."""
    folder = top / "checkers"
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    return folder


def program(folder: Path, name: str, body: str) -> Path:
    """An executable file of Python; `answer` prints a decision."""
    path = folder / name
    path.write_text(
        f"#!{sys.executable} -IS\nimport json, os, sys\n"
        "def answer(decision, **more): print(json.dumps({'decision': decision, **more}))\n"
        f"{body}\n",
        encoding="utf-8",
    )
    path.chmod(0o755)
    return path


def table(name: str = "allowed-path", type: str = "in-process", **more: str) -> str:
    """A `[[safety_checker]]` of these TOML values."""
    lines = [f"{key} = {value}" for key, value in more.items() if not key.startswith("checker_")]
    inner = [
        f"{key.removeprefix('checker_')} = {value}"
        for key, value in more.items()
        if key.startswith("checker_")
    ]
    return "\n".join(
        ["[[safety_checker]]", *lines, "[safety_checker.checker]", f'type = "{type}"',
         f'name = "{name}"', *inner, ""]
    )  # fmt: skip


def external(name: str, **more: str) -> str:
    return table(name, "external", **more)


def checkers(*tables: str, tier: Tier = Tier.USER) -> tuple[SafetyChecker, ...]:
    """Checkers as a file would give them; none may be faulty."""
    loaded = load_text("\n".join(tables), file="p.toml", tier=tier)
    assert loaded.problems == ()
    return loaded.checkers


def checks(folder: Path, *tables: str, seconds: float = PATIENCE_S, **options: Any) -> SafetyChecks:
    runner = ExternalRunner({"PATH": os.environ["PATH"]}, seconds=seconds, **options)
    registry = CheckerRegistry(folder, folder.parent / "admin")
    return SafetyChecks(checkers(*tables), registry, runner)


def call(name: str = "write_file", server: str | None = None, **args: Any) -> PolicyCall:
    return PolicyCall(names=(name,), args=args, server_name=server)


def context(cwd: Path, *roots: Path, mode: str = "default", person: bool = True) -> PolicyContext:
    return PolicyContext(
        mode=ApprovalMode(mode),
        interactive=person,
        surroundings=Surroundings(cwd, roots),
    )
