"""The two things ignore rules need from git's own files: where its directory is, one setting."""

import os
from collections.abc import Mapping
from pathlib import Path

from alhena.system.errors import from_os_error
from alhena.system.files import read_small_text

_MAX_INCLUDES = 10
_NUL = "\0"
"""What no path can hold."""


def git_directory(top: Path, warnings: list[str]) -> Path | None:
    """The directory with git's shared files (`info/`, `config`) of the work tree at `top`.

    Follows the `gitdir:` and `commondir` files of worktrees and submodules. None when `top` is not
    the top of a work tree. What cannot be read adds a line to `warnings`.
    """
    entry = top / ".git"
    try:
        if entry.is_dir():
            return entry
    except OSError as error:
        warnings.append(str(from_os_error(error, entry)))
        return None
    pointer = read_small_text(entry, warnings).strip()
    if not pointer.startswith("gitdir:") or _NUL in pointer:
        return None
    directory = top / pointer.removeprefix("gitdir:").strip()
    common = read_small_text(directory / "commondir", warnings).strip()
    return directory / common if common and _NUL not in common else directory


def excludes_file(
    git_dir: Path | None, warnings: list[str], environ: Mapping[str, str]
) -> Path | None:
    """The user's global ignore file: core.excludesFile, else `git/ignore` in the XDG directory.

    Reads the system, user and repository configuration with unconditional includes; `environ` says
    where the first two are.
    """
    home = Path(environ.get("HOME") or os.sep)
    xdg = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "git"
    sources: list[Path] = []
    if environ.get("GIT_CONFIG_NOSYSTEM", "").lower() not in ("1", "true", "yes", "on"):
        sources.append(Path(environ.get("GIT_CONFIG_SYSTEM") or "/etc/gitconfig"))
    named = environ.get("GIT_CONFIG_GLOBAL")
    sources += [Path(named)] if named is not None else [xdg / "config", home / ".gitconfig"]
    if git_dir is not None:
        sources.append(git_dir / "config")
    found: str | None = None
    for source in sources:
        value = _setting(source, home, warnings, depth=0)
        found = found if value is None else value
    if found is None:
        return xdg / "ignore"
    return _expanded(found, home) if found and _NUL not in found else None


def _expanded(value: str, home: Path) -> Path:
    return home / value[2:] if value.startswith("~/") else Path(value)


def _setting(file: Path, home: Path, warnings: list[str], *, depth: int) -> str | None:
    """The last core.excludesFile of a configuration file; None when it sets none."""
    found: str | None = None
    section = ""
    for line in _logical_lines(read_small_text(file, warnings)):
        text = line.strip()
        if text.startswith("["):
            header, _, text = text[1:].partition("]")
            section = header.strip().lower()
            text = text.strip()
        name, _, raw = text.partition("=")
        key = f"{section}.{name.strip().lower()}"
        if key == "core.excludesfile":
            found = _value(raw)
        elif key == "include.path" and depth < _MAX_INCLUDES:
            included = file.parent / _expanded(_value(raw), home)
            nested = _setting(included, home, warnings, depth=depth + 1)
            found = found if nested is None else nested
    return found


def _logical_lines(text: str) -> list[str]:
    return text.replace("\\\r\n", "").replace("\\\n", "").splitlines()


_ESCAPES = {"n": "\n", "t": "\t", "b": "\b"}


def _value(raw: str) -> str:
    """A value without quotes, escapes, comment and surrounding blanks."""
    out: list[str] = []
    quoted = escaped = False
    kept = 0
    for char in raw.strip():
        if escaped:
            out.append(_ESCAPES.get(char, char))
            escaped = False
        elif char == "\\":
            escaped = True
            continue
        elif char == '"':
            quoted = not quoted
        elif char in "#;" and not quoted:
            break
        else:
            out.append(char)
            if char.isspace() and not quoted:
                continue
        kept = len(out)
    return "".join(out[:kept])
