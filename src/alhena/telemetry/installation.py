"""The number by which this installation is known: random, and the reference's where it has one."""

import os
import uuid
from contextlib import suppress
from pathlib import Path

from alhena.config.files import read_limited

MAX_BYTES = 200


def installation_id(path: Path) -> tuple[str, str]:
    """The id that the file holds, made when there is none, and why it could not be kept, if so:
    then the id is this session's alone."""
    try:
        return _kept(path), ""
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        return str(uuid.uuid4()), f"{path}: {reason or error}"


def _kept(path: Path) -> str:
    with suppress(FileNotFoundError):
        found = read_limited(path, MAX_BYTES).decode("ascii").strip()
        if found:
            return found
    made = str(uuid.uuid4())
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Written beside it and moved there: another process sees no id, or a whole one.
    draft = path.with_name(f"{path.name}.{made}")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(made.encode("ascii"))
        try:
            os.link(draft, path)
        except FileExistsError:
            found = read_limited(path, MAX_BYTES).decode("ascii").strip()
            if found:
                return found
            os.replace(draft, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)
    return made
