"""`alhena shim`: puts a command of another name that runs alhena into a folder."""

import os
import shlex
import shutil
import sys
from pathlib import Path

from alhena.display_text import one_line
from alhena.errors import InputError, UsageError
from alhena.frontends.main import COMMANDS
from alhena.frontends.shared.arguments import parse_arguments
from alhena.frontends.shared.streams import write_stdout

USAGE = """\
usage: alhena shim gemini [--dir DIR]

Writes a command `gemini` that runs alhena, for scripts and CI that call gemini. An existing file is
never replaced.

  --dir DIR   the folder (default: ~/.local/bin, or the folder of the command alhena)
"""


def run(argv: list[str]) -> int:
    """Carries out `alhena shim ARGV`; returns the exit code."""
    options = parse_arguments("alhena shim", argv, "NAME --dir=DIR")
    name: str = options.name
    if name not in COMMANDS["shim"]:
        raise UsageError(
            f"there is no command {one_line(name, 80)!r} to stand in for.",
            remedy="It is alhena shim gemini.",
        )
    folder = _default_folder() if options.dir is None else Path(os.path.abspath(options.dir))
    path = folder / name
    _write(path)
    write_stdout(f"{one_line(str(path))} runs alhena.\n")
    found = shutil.which(name)
    if found is None:
        write_stdout(f"To use it, add its folder to PATH: {one_line(str(folder))}\n")
    elif not os.path.samefile(found, path):
        write_stdout(f"{one_line(found)} comes first on PATH.\n")
    return 0


def _default_folder() -> Path:
    """~/.local/bin, or the folder of this interpreter's scripts if that has the command alhena and
    the home directory cannot be written to. Raises UsageError."""
    home = os.environ.get("HOME", "")
    if os.path.isabs(home) and os.access(home, os.W_OK | os.X_OK):
        return Path(home) / ".local" / "bin"
    scripts = Path(sys.executable).parent
    if (scripts / "alhena").is_file() and os.access(scripts, os.W_OK | os.X_OK):
        return scripts
    raise UsageError(
        "there is no home directory to write to, and the folder of alhena is not writable.",
        remedy="Name a folder: --dir DIR.",
    )


def _write(path: Path) -> None:
    """Creates the script. Raises InputError, also where something of the name exists."""
    # -P: nothing is imported from the working directory, which may be a foreign repository.
    command = f"exec {shlex.quote(sys.executable)} -P -m alhena"
    text = f'#!/bin/sh\n# Runs alhena; written by alhena shim.\n{command} "$@"\n'
    if path.is_file() and path.read_bytes() == text.encode("utf-8", "surrogateescape"):
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(path, flags, 0o755), "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape"))
    except FileExistsError as error:
        raise InputError(
            f"{path} exists; it was left alone.", remedy="Remove it, or name another folder: --dir."
        ) from error
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror or error}.",
            remedy="Name another folder: --dir DIR.",
        ) from error
