"""Command lines judged as read-only, and run for real among recording programs."""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from alhena.shell.parse.analysis import analyse
from alhena.shell.parse.model import Part
from alhena.shell.readonly import not_read_only

LINES = Path(__file__).parent
BASH = shutil.which("bash") or "/bin/bash"

# Slow to start, or clients of a daemon.
NOT_RUN = frozenset(
    {
        *(
            "cargo",
            "docker",
            "go",
            "gunzip",
            "java",
            "javac",
            "journalctl",
            "npm",
            "node",
            "openssl",
        ),
        *("pip", "pip3", "python", "python3", "rustc", "ss", "systemctl", "tsc", "zcat"),
    }
)

TEMPTING = (
    *("sh", "bash", "dash", "less", "more", "pager", "gpg", "ssh", "curl", "vi", "editor", "nano"),
    *("rm", "mv", "cp", "touch", "tee", "gzip", "xz", "bzip2", "pr", "python3", "perl", "env"),
)


def only_part(line: str) -> Part:
    """The one part of a line."""
    (part,) = analyse(line).parts
    return part


def refusals(line: str) -> list[str]:
    """Why the line is not surely read-only: of each part, and what is doubtful of the whole."""
    analysis = analyse(line)
    found = [reason for part in analysis.parts if (reason := not_read_only(part)) is not None]
    found.extend(doubt.reason for doubt in analysis.doubts)
    if not (analysis.parts and analysis.complete):
        found.append("not all is known")
    return found


def programs(line: str) -> set[str]:
    """The base names of the commands that a line names, behind xargs, too."""
    calls = [[word.text for word in part.words] for part in analyse(line).parts if part.words]
    names = {call[0].rsplit("/", 1)[-1] for call in calls}
    return names | {word for call in calls if call[0] == "xargs" for word in call if word.isalpha()}


def can_run(line: str) -> bool:
    """Are all its programs here (or builtins), and quick?"""
    names = programs(line)
    return NOT_RUN.isdisjoint(names) and all(
        shutil.which(name) or name in {"command", "type"} for name in names
    )


def snapshot(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Each path below `root` with its mode, time of change and content."""
    found: dict[str, tuple[int, int, bytes]] = {}
    for folder, _, names in os.walk(root):
        for path in [Path(folder), *(Path(folder, name) for name in names)]:
            state = path.lstat()
            content = path.read_bytes() if path.is_file() else b""
            found[str(path.relative_to(root))] = (state.st_mode, state.st_mtime_ns, content)
    return found


class Stage:
    """A repository to run lines in, and a PATH on which each program first writes down its name.

    Programs that a line may name go on to run; tempting others only write down that they were
    called."""

    def __init__(self, root: Path, names: Iterable[str]) -> None:
        self.work = root / "work"
        self.home = root / "home"
        self.path = root / "bin"
        self.log = root / "log"
        for folder in (self.work / "src", self.work / "sub", self.home, self.path):
            folder.mkdir(parents=True)
        for name in {*names, *TEMPTING}:
            real = shutil.which(name)
            run = f'exec "{real}" "$@"\n' if real and name not in TEMPTING else "exit 1\n"
            stub = self.path / name
            stub.write_text(
                f'#!/bin/sh\necho "$LINE {name}" >>"{self.log}"\n{run}', encoding="utf-8"
            )
            stub.chmod(0o755)
        self._fill()

    def _fill(self) -> None:
        files = {
            "a": "foo 1\nbar 2\nfoo 3\n",
            "b": "foo,1\nqux,2\n",
            "a.py": "import os\nx = 1\n# TODO\ndef f():\n    return x\n",
            "src/a.py": "class AError: ...\n",
            "sub/c": "c\n",
            "a.json": '{"a": [1, 2]}\n',
            "package.json": '{"scripts": {"test": "true"}, "dependencies": {"env": "1"}}\n',
            "tsconfig.json": '{"include": ["src"]}\n',
        }
        for name, content in files.items():
            (self.work / name).write_text(content, encoding="utf-8")
        setup = """
        git init -q -b main && git config user.name me && git config user.email me@example.org
        git remote add origin https://example.org/x.git
        git add . && git commit -qm one && git branch feature && git tag v1
        echo more >>a && git commit -qam two && echo stashed >>b && git stash -q && echo new >>a
        sha256sum a >SUMS
        """
        subprocess.run(
            [BASH, "-c", setup],
            cwd=self.work,
            env=self._environment(os.environ["PATH"]),
            check=True,
        )

    def _environment(self, path: str) -> dict[str, str]:
        return {
            "PATH": path,
            "HOME": str(self.home),
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_CONFIG_NOSYSTEM": "1",
            "LC_ALL": "C.UTF-8",
            "f": "a",
            "x": "b",
        }

    def run(self, lines: Iterable[str]) -> list[tuple[int, str]]:
        """Runs each line in bash; the number of the line and the name of each program called."""
        self.log.write_text("", encoding="utf-8")
        script = "".join(
            f"(LINE={number}; export LINE\n{line}\n) </dev/null >/dev/null 2>&1\n"
            for number, line in enumerate(lines)
        )
        subprocess.run(
            [BASH, "-c", script],
            cwd=self.work,
            env=self._environment(str(self.path)),
            timeout=60,
            check=False,
        )
        calls = (row.split() for row in self.log.read_text(encoding="utf-8").splitlines())
        return [(int(number), name) for number, name in calls]
