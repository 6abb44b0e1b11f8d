"""Tables of programs as the tests write them."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from alhena.shell.tables import Program, from_compiled

ROOT = Path(__file__).parents[2]


def compiler() -> ModuleType:
    """scripts/compile_policy.py."""
    path = ROOT / "scripts" / "compile_policy.py"
    spec = importlib.util.spec_from_file_location("compile_policy", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compile_programs(tables: dict[str, Any]) -> dict[str, Program]:
    """The programs of these tables."""
    lists: dict[str, Any] = {"names": {}, "versions": {}, "absent": {}, "narrow": {}, "removes": {}}
    found = compiler().compile_tables({**lists, **tables})
    return {name: from_compiled(table) for name, table in found["programs"].items()}


def reading(reads: str, **keys: Any) -> Program:
    """A program that only reads with these options."""
    return compile_programs({"@more": {"reads": "--more -m"}, "p": {"reads": reads, **keys}})["p"]
