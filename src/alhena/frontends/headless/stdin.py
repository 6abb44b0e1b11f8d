"""What is piped into a headless run, and how it joins the prompt."""

import os
import select
import stat
from typing import BinaryIO

from alhena.errors import InputError

MAX_BYTES = 8 * 1024 * 1024
WAIT_SECONDS = 0.5


def piped_text(stream: BinaryIO | None, *, required: bool) -> tuple[str, str | None]:
    """The text on standard input and a warning, when part of it was left out.

    A terminal is never read. With a prompt at hand (`required` false) a pipe that stays silent for
    half a second is taken as empty: unattended jobs often inherit one that nobody writes to. None
    is a closed standard input, and empty too.
    """
    if stream is None:
        return "", None
    try:
        descriptor = stream.fileno()
        if stream.isatty():
            return "", None
        patient = required or stat.S_ISREG(os.fstat(descriptor).st_mode)
        if not patient and not select.select([descriptor], [], [], WAIT_SECONDS)[0]:
            return "", None
        data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot read standard input: {error}.", remedy="Pipe text in, or use </dev/null."
        ) from error
    warning = None
    if len(data) > MAX_BYTES:
        data = data[:MAX_BYTES]
        warning = f"standard input is longer than {MAX_BYTES} bytes; the rest was left out."
    return data.decode("utf-8", errors="replace"), warning


def join_prompt(piped: str, prompt: str) -> str:
    """Standard input comes before the prompt. Raises InputError when both are empty."""
    parts = [part for part in (piped.rstrip("\n") + "\n" if piped.strip() else "", prompt) if part]
    if not any(part.strip() for part in parts):
        raise InputError(
            "there is no prompt.",
            remedy="Give one: alhena -p 'PROMPT', or pipe text into alhena.",
        )
    return "\n\n".join(parts)
