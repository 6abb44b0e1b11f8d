"""The files that a repository tracks although its ignore rules match them."""

import os
from collections.abc import Mapping
from pathlib import Path

from alhena.system.errors import ProcessStartError, printable

_LIST = ("ls-files", "-z", "--cached", "--ignored", "--exclude-standard")
_LIMIT_S = 30.0


class TrackedFiles:
    """Those files of the repository at `top`, as git lists them when it is first asked. Without git
    there are none; a failure of git adds a line to `warnings`."""

    def __init__(self, top: str, environ: Mapping[str, str], warnings: list[str]) -> None:
        self._top = top
        self._environ = environ
        self._warnings = warnings
        self._found: tuple[frozenset[str], frozenset[str]] | None = None

    def holds(self, path: str, is_dir: bool) -> bool:
        """True for the absolute path of such a file, or of a directory with such files below."""
        if self._found is None:
            self._found = self._list()
        files, directories = self._found
        return path in files or (is_dir and path in directories)

    def _list(self) -> tuple[frozenset[str], frozenset[str]]:
        top = self._top.rstrip("/")
        files = frozenset(f"{top}/{name}" for name in self._names())
        directories: set[str] = set()
        for path in files:
            above = os.path.dirname(path)
            while above not in directories and len(above) > len(top):
                directories.add(above)
                above = os.path.dirname(above)
        return files, frozenset(directories)

    def _names(self) -> list[str]:
        import subprocess

        from alhena.system.environment import shield_memory
        from alhena.system.own_programs import MissingGitError, repository_command

        own = f"{self._top}/.git"
        if os.path.isdir(own) and not os.path.exists(f"{own}/index"):
            return []  # nothing was ever added
        try:
            command = repository_command(Path(self._top), self._environ, _LIST)
            shield_memory()
            done = subprocess.run(
                command.argv,
                cwd=self._top,
                env=command.env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_LIMIT_S,
                check=False,
            )
        except MissingGitError:
            return []
        except (OSError, subprocess.TimeoutExpired, ProcessStartError) as error:
            return self._warn(str(error))
        if done.returncode:
            return self._warn(done.stderr.decode("utf-8", "replace").strip()[-300:])
        return [os.fsdecode(name) for name in done.stdout.split(b"\0")[:-1]]

    def _warn(self, why: str) -> list[str]:
        place = printable(self._top)
        why = printable(why).rstrip(".")
        self._warnings.append(f"git cannot list the tracked files of {place}: {why}.")
        return []
