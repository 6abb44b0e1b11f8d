"""Where the user's files live: the reference's places, so that both programs share them."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from alhena.config.errors import ConfigError

MAX_NAMESAKES = 1_000
_ROOT_MARK = ".project_root"


def config_home(environ: Mapping[str, str]) -> Path:
    """`~/.gemini`, below GEMINI_CLI_HOME when that is set. Need not exist."""
    base = environ.get("GEMINI_CLI_HOME") or environ.get("HOME") or os.path.expanduser("~")
    if not os.path.isabs(base):
        raise ConfigError(
            f"the home directory {base!r} is not an absolute path.",
            remedy="Set HOME (or GEMINI_CLI_HOME) to an absolute path.",
        )
    return Path(base) / ".gemini"


def user_settings_path(environ: Mapping[str, str]) -> Path:
    """The user's settings.json."""
    return config_home(environ) / "settings.json"


def system_settings_path(environ: Mapping[str, str]) -> Path:
    """An administrator's settings.json, which comes above all others."""
    given = environ.get("GEMINI_CLI_SYSTEM_SETTINGS_PATH")
    return Path(given) if given else _system_directory() / "settings.json"


def system_defaults_path(environ: Mapping[str, str]) -> Path:
    """An administrator's defaults, which all others come above."""
    given = environ.get("GEMINI_CLI_SYSTEM_DEFAULTS_PATH")
    return Path(given) if given else system_settings_path(environ).with_name("system-defaults.json")


def _system_directory() -> Path:
    mac = sys.platform == "darwin"
    return Path("/Library/Application Support/GeminiCli" if mac else "/etc/gemini-cli")


def user_policies_path(environ: Mapping[str, str]) -> Path:
    """The directory of the user's policies."""
    return config_home(environ) / "policies"


def saved_policies_path(environ: Mapping[str, str]) -> Path:
    """The file of what a person approved for good, among the user's policies."""
    return user_policies_path(environ) / "auto-saved.toml"


def user_checkers_path(environ: Mapping[str, str]) -> Path:
    """The directory of the user's own safety checkers."""
    return config_home(environ) / "checkers"


def trusted_folders_path(environ: Mapping[str, str]) -> Path:
    """The user's list of folders that are trusted or not."""
    given = environ.get("GEMINI_CLI_TRUSTED_FOLDERS_PATH")
    return Path(given) if given else config_home(environ) / "trustedFolders.json"


def trusted_hooks_path(environ: Mapping[str, str]) -> Path:
    """The user's list of hooks of projects that may run."""
    return config_home(environ) / "trusted_hooks.json"


def trusted_commands_path(environ: Mapping[str, str]) -> Path:
    """What the user has accepted of the servers and commands of workspaces."""
    return config_home(environ) / "trusted_commands.json"


def installation_id_path(environ: Mapping[str, str]) -> Path:
    """The file of the random number by which telemetry knows this installation."""
    return config_home(environ) / "installation_id"


def workspace_settings_path(project: Path) -> Path:
    """A workspace's own settings.json."""
    return project / ".gemini" / "settings.json"


def workspace_policies_path(project: Path) -> Path:
    """The directory of a workspace's own policies."""
    return project / ".gemini" / "policies"


def user_memory_path(environ: Mapping[str, str], name: str = "GEMINI.md") -> Path:
    """The user's memory file, which every session reads. `name` is what settings call it."""
    return config_home(environ) / name


def project_temp(environ: Mapping[str, str], project: Path) -> Path:
    """`~/.gemini/tmp/<slug>`: where what belongs to `project`, an absolute path, is kept.

    The slug is the folder's name in lower-case letters, digits and dashes. A folder of the same
    name that is another project's (its `.project_root` says so) gets -1, -2 and so on behind it.
    Nothing is made; `claim_project_temp` does that.
    """
    base = config_home(environ) / "tmp"
    slug = _slug(project.name)
    for number in range(MAX_NAMESAKES):
        candidate = base / (f"{slug}-{number}" if number else slug)
        if _root_of(candidate) in {None, str(project)}:
            return candidate
    raise ConfigError(
        f"{base} holds the folders of {MAX_NAMESAKES} other projects named {slug}.",
        remedy="Remove those that are of no use any more.",
    )


def project_checkpoints(temp: Path) -> Path:
    """Where the checkpoints of the project are whose temporary directory this is."""
    return temp / "checkpoints"


def project_history(environ: Mapping[str, str], temp: Path) -> Path:
    """`~/.gemini/history/<slug>`: the shadow repository of that project."""
    return config_home(environ) / "history" / temp.name


def claim_project_temp(temp: Path, project: Path) -> None:
    """Makes the directory that `project_temp` named, for the user alone, and marks it as the
    project's. Raises OSError."""
    temp.mkdir(mode=0o700, parents=True, exist_ok=True)
    if _root_of(temp) is not None:
        return
    # Written whole or not at all: a mark that says nothing would keep the project out.
    made = temp / f"{_ROOT_MARK}.{os.getpid()}"
    try:
        descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(str(project))
        os.replace(made, temp / _ROOT_MARK)
    except OSError:
        made.unlink(missing_ok=True)
        raise


def _root_of(temp: Path) -> str | None:
    """The project whose temporary directory this is; None when it is nobody's, as where the mark
    is empty: it was never written."""
    try:
        text = (temp / _ROOT_MARK).read_text(encoding="utf-8", errors="surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:  # unreadable: somebody's, and not ours
        return ""
    return text.strip() or None


def _slug(name: str) -> str:
    kept = "".join(char if char.isascii() and char.isalnum() else " " for char in name.lower())
    return "-".join(kept.split()) or "project"
