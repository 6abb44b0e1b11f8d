"""The name under which the package is installed: `alhena` is another project's on PyPI."""

import importlib.metadata
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest

from alhena.distribution import NAME, install_command, require_mcp
from alhena.errors import ConfigError
from tests.support.patience import PATIENCE_S

ROOT = Path(__file__).parent.parent
EXTRA = re.compile(r"(?<![-\w])alhena\[")


@pytest.mark.requirement("TODAY-07")
def test_nothing_says_to_install_the_package_of_another_project():
    folders = [ROOT / name for name in ("src", "docs", "examples", "share", ".github", "scripts")]
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    files += [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "pyproject.toml"]
    assert len(files) > 400
    said: list[str] = []
    for file in files:
        if file.suffix in {".pyc", ".json", ".svg", ".png"}:
            continue
        for line in file.read_text(encoding="utf-8").splitlines():
            installs = re.search(
                r"\b(?:pip|pipx|uv)\b.*\binstall\b|\b(?:uvx|pipx run|uv add)\b", line
            )
            named = re.search(r"(?<![-\w/.])alhena(?![-\w/.])", line)
            if EXTRA.search(line) or (installs and named and "uninstall" not in line):
                said.append(f"{file.relative_to(ROOT)}: {line.strip()}")
    assert said == []


def test_a_remedy_names_the_folder_of_an_installation_from_a_folder():
    assert distribution(NAME).metadata["Name"] == NAME
    assert install_command("acp") == f"{sys.executable} -m pip install '{ROOT}[acp]'"


def test_without_a_folder_the_remedy_names_the_distribution(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("alhena.distribution._folder", lambda: None)
    assert install_command("otel") == f"{sys.executable} -m pip install 'alhena-agent[otel]'"


@pytest.mark.parametrize("init", ["", "import torch_of_slides\n", "raise SystemError('no')\n"])
def test_another_projects_files_over_ours_are_named_in_one_line(tmp_path: Path, init: str):
    shutil.copytree(
        ROOT / "src" / "alhena", tmp_path / "alhena", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(ROOT / "src" / "alhena_command.py", tmp_path)
    (tmp_path / "alhena" / "__init__.py").write_text(init, encoding="utf-8")
    site = sysconfig.get_paths()["purelib"]
    script = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {site!r}]; import alhena_command as c; sys.exit(c.main())"
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, "--version"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 1
    assert ran.stdout == ""
    assert "another project is installed over alhena-agent" in ran.stderr
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize("found", ["1.30.0", None])
def test_an_older_mcp_is_named_with_the_remedy(found: str | None, monkeypatch: pytest.MonkeyPatch):
    def version(name: str) -> str:
        if found is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return found

    require_mcp()
    monkeypatch.setattr(importlib.metadata, "version", version)
    with pytest.raises(ConfigError) as caught:
        require_mcp()
    assert (found or "not installed") in caught.value.message
    assert "'mcp>=2'" in (caught.value.remedy or "")


def test_the_bounds_name_versions_that_work():
    """`make beside NAMES=lowest` tries them; here they only must not be lowered unseen."""
    bounds = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"mcp>=2.0", "rich>=13.7", "httpx2>=2.5"} <= set(bounds["dependencies"])
