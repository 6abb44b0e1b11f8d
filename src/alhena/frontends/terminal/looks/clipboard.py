"""The clipboard of the person's machine: by OSC 52 or a program."""

import asyncio
import base64
import subprocess
from collections.abc import Callable, Mapping
from shutil import which

from alhena.system.environment import shield_memory

LIMIT_S = 5.0
MAX_BYTES = 100_000
"""Bytes that terminals take by OSC 52."""
_PROGRAMS = (
    ("pbcopy",),
    ("wl-copy",),
    ("xclip", "-selection", "clipboard"),
    ("xsel", "--clipboard", "--input"),
)
_NEEDS = {"wl-copy": "WAYLAND_DISPLAY", "xclip": "DISPLAY", "xsel": "DISPLAY"}


async def copy(text: str, environ: Mapping[str, str], control: Callable[[str], None]) -> str:
    """Copies a text: by a program of this machine, or by `control` through the terminal, over ssh
    and where there is no program. Returns the way; "" where the text is too long for it."""
    program = None
    if not environ.get("SSH_CONNECTION") and not environ.get("SSH_TTY"):
        program = _program(environ)
    if program is not None and await asyncio.to_thread(_ran, program, text, environ):
        return program[0]
    data = text.encode("utf-8", "replace")
    if len(data) > MAX_BYTES:
        return ""
    control(f"\x1b]52;c;{base64.b64encode(data).decode('ascii')}\x07")
    return "the terminal"


def _program(environ: Mapping[str, str]) -> tuple[str, ...] | None:
    path = environ.get("PATH", "")
    usable = (each for each in _PROGRAMS if environ.get(_NEEDS.get(each[0], "PATH")))
    return next((each for each in usable if which(each[0], path=path)), None)


def _ran(program: tuple[str, ...], text: str, environ: Mapping[str, str]) -> bool:
    shield_memory()
    try:
        done = subprocess.run(
            program,
            input=text.encode("utf-8", "replace"),
            env=dict(environ),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
