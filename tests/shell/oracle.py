"""Behaviour of real bash, run in a shell that finds no programs."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import msgspec
import pytest

from alhena.shell.parse.model import Analysis, Effect, Part, Word, WordKind
from tests.support.patience import PATIENCE_S

BASH = shutil.which("bash") or ""
needs_bash = pytest.mark.skipif(not BASH, reason="bash is the oracle")

_NULL_DEVICE = re.compile(r"/dev/null(?=[ \t\n;&|()]|\Z)")


class Ran(msgspec.Struct, frozen=True):
    """Every command bash looked for and did not find, with its arguments, in no order; the files it
    made."""

    commands: tuple[tuple[str, ...], ...]
    files: tuple[str, ...]


def run_in_bash(command: str) -> Ran | None:
    """Runs it in an empty directory, where nothing but bash itself can run; None when it does not
    come to an end, or names a file elsewhere, which it could write."""
    if "/" in _NULL_DEVICE.sub("", command):
        return None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as base:
        work = Path(base, "up", "work")
        work.mkdir(parents=True)
        log = Path(base, "log")
        log.mkdir()
        # One file a run: bash writes at each line end, and runs at the same time would mix.
        file = f"'{log}'/$BASHPID.$RANDOM$RANDOM"
        caught = f"command_not_found_handle() {{ printf '%s\\0' \"$@\" END >{file}; }}\n"
        child = subprocess.Popen(
            [BASH, "--norc", "--noprofile", "-c", f'{caught}eval "$1"', "bash", command],
            env={"PATH": "/nonexistent", "HOME": str(work), "LC_ALL": "C.UTF-8"},
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            child.wait(timeout=2)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        texts = [file.read_bytes().decode("utf-8", "surrogateescape") for file in log.iterdir()]
        files = tuple(sorted(name for _, _, names in os.walk(Path(base, "up")) for name in names))
        return Ran(
            tuple(sorted(tuple(text.split("\0")[:-2]) for text in texts if text.endswith("END\0"))),
            files,
        )


def words_in_bash(text: str) -> tuple[str, ...]:
    """The words that bash makes of a text, in an empty directory."""
    with tempfile.TemporaryDirectory() as base:
        done = subprocess.run(
            [BASH, "--norc", "--noprofile", "-c", f"printf '%s\\0' x {text}"],
            env={"PATH": "/nonexistent", "LC_ALL": "C.UTF-8", "HOME": "/home/of/test"},
            cwd=base,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=PATIENCE_S,
        )
    return tuple(done.stdout.decode("utf-8", "surrogateescape").split("\0")[1:-1])


def shows(part: Part, run: tuple[str, ...]) -> bool:
    """Is this run one that the part announces?"""
    pattern = "".join(_pattern(word) for word in part.words)
    return bool(part.words) and re.fullmatch(pattern, "".join(f"{w}\0" for w in run), re.DOTALL)


def _pattern(word: Word) -> str:
    start = re.escape(word.text)
    if word.kind is WordKind.LITERAL:
        return start + "\0"
    one = f"{start}[^\0]*\0"
    if not word.split:
        return one
    return f"(?:{one}(?:[^\0]*\0)*)?" if not word.text else f"{one}(?:[^\0]*\0)*"


def certain(analysis: Analysis) -> bool:
    """May a rule allow it at all?"""
    return analysis.complete and not analysis.doubts


def writes(analysis: Analysis) -> bool:
    """Does any part say that it writes?"""
    return any(r.effect is Effect.WRITE for part in analysis.parts for r in part.redirections)
