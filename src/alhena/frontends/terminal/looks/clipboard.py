"""The clipboard of the person's machine: written by OSC 52 or a program, read by a program."""

import asyncio
import base64
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from alhena.system.environment import shield_memory
from alhena.system.own_programs import find_program

LIMIT_S = 5.0
MAX_BYTES = 100_000
"""Bytes that terminals take by OSC 52."""
_PROGRAMS = (
    ("pbcopy",),
    ("wl-copy",),
    ("xclip", "-selection", "clipboard"),
    ("xsel", "--clipboard", "--input"),
)
_NEEDS = {
    **dict.fromkeys(("wl-copy", "wl-paste"), "WAYLAND_DISPLAY"),
    **dict.fromkeys(("xclip", "xsel"), "DISPLAY"),
}
PNG = b"\x89PNG\r\n\x1a\n"
_POWERSHELL = ("powershell.exe", "-NoProfile", "-NonInteractive", "-Command")
_IMAGE_SCRIPT = (
    "Add-Type -AssemblyName System.Drawing; $i = Get-Clipboard -Format Image; "
    "if ($i) { $m = New-Object IO.MemoryStream; "
    "$i.Save($m, [Drawing.Imaging.ImageFormat]::Png); "
    "[Convert]::ToBase64String($m.ToArray()) }"
)
_READERS = (
    (("pngpaste", "-"), ("pbpaste",)),
    (
        ("wl-paste", "--no-newline", "--type", "image/png"),
        ("wl-paste", "--no-newline", "--type", "text/plain"),
    ),
    (
        ("xclip", "-selection", "clipboard", "-t", "image/png", "-o"),
        ("xclip", "-selection", "clipboard", "-o"),
    ),
    ((*_POWERSHELL, _IMAGE_SCRIPT), (*_POWERSHELL, "Get-Clipboard -Raw")),
)
"""Programs that write the image and the text of the clipboard."""


async def copy(text: str, environ: Mapping[str, str], control: Callable[[str], None]) -> str:
    """Copies a text: by a program of this machine, or by `control` through the terminal, over ssh
    and where there is no program. Returns the way; "" where the terminal cannot take the text."""
    program = None
    if not environ.get("SSH_CONNECTION") and not environ.get("SSH_TTY"):
        program = _program(environ)
    data = text.encode("utf-8", "replace")
    if program and await asyncio.to_thread(_ran, program, environ, data) is not None:
        return program[0]
    if len(data) > MAX_BYTES or environ.get("TERM") == "dumb":
        return ""
    control(f"\x1b]52;c;{base64.b64encode(data).decode('ascii')}\x07")
    return "the terminal"


def _program(environ: Mapping[str, str]) -> tuple[str, ...] | None:
    usable = (each for each in _PROGRAMS if environ.get(_NEEDS.get(each[0], "PATH")))
    return next((each for each in usable if _find_clipboard_program(each, environ)), None)


def _find_clipboard_program(program: tuple[str, ...], environ: Mapping[str, str]) -> str | None:
    return find_program(program[0], environ, (Path.cwd(),))


async def read_clipboard(environ: Mapping[str, str]) -> bytes | str:
    """The image in the clipboard as a PNG, else its text; "" where there is neither, or no program
    to read it."""
    return await asyncio.to_thread(_read, environ)


def _read(environ: Mapping[str, str]) -> bytes | str:
    for image, text in _READERS:
        if not environ.get(_NEEDS.get(image[0], "PATH")):
            continue
        for program in (image, text):
            written = _ran(program, environ) or b""
            if program is image:
                with suppress(ValueError):
                    if image[0] == _POWERSHELL[0]:
                        written = base64.b64decode(written)
                if written.startswith(PNG):
                    return written
            elif written:
                return written.decode("utf-8", "replace")
    return ""


def _ran(
    program: tuple[str, ...], environ: Mapping[str, str], given: bytes | None = None
) -> bytes | None:
    """The output of a program, which is not read where it is `given` a text; None if it fails or is
    missing."""
    found = _find_clipboard_program(program, environ)
    if found is None:
        return None
    shield_memory()
    try:
        done = subprocess.run(
            (found, *program[1:]),
            input=given or b"",
            env=dict(environ),
            stdout=subprocess.PIPE if given is None else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=LIMIT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout or b""
