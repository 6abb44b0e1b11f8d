"""Files of settings in the places where they are looked for."""

import json
import os
from pathlib import Path
from typing import Any

from alhena.config.effective_settings import Place, open_place


def write(path: Path, value: Any) -> Path:
    """A file with a text, or a value as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def user(home: Path, value: Any) -> Path:
    return write(home / ".gemini" / "settings.json", value)


def workspace(project: Path, value: Any) -> Path:
    return write(project / ".gemini" / "settings.json", value)


def system(tmp_path: Path, value: Any, name: str = "settings.json") -> dict[str, str]:
    """An administrator's file, and the variable that names it."""
    file = write(tmp_path / "etc" / name, value)
    kind = "SETTINGS" if name == "settings.json" else "DEFAULTS"
    return {f"GEMINI_CLI_SYSTEM_{kind}_PATH": str(file)}


def opened(project: Path, *, trusted: bool = True, **environ: str) -> Place:
    """The settings of a place whose folder is trusted, or is not."""
    given = {"GEMINI_CLI_SYSTEM_SETTINGS_PATH": "/nowhere/settings.json", **os.environ, **environ}
    return open_place(project, given, skip_trust=trusted)
