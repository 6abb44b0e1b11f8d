"""The telemetry that settings and environment ask for, and the id of this installation."""

import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from alhena.config.documents import read_limited
from alhena.config.settings import TelemetrySettings


class TelemetryOptions(msgspec.Struct, frozen=True):
    """Telemetry that is on. Without an `outfile` there is nowhere to write to. With `texts` the
    records have what people, models, tools and hooks wrote; credentials are in none."""

    outfile: Path | None
    texts: bool


def telemetry_options(
    settings: TelemetrySettings, environ: Mapping[str, str], cwd: Path
) -> TelemetryOptions | None:
    """What settings and environment ask for, None when telemetry is off. The environment wins; a
    relative outfile is one from `cwd`."""
    if not _flag(environ.get("GEMINI_TELEMETRY_ENABLED"), settings.enabled):
        return None
    outfile = environ.get("GEMINI_TELEMETRY_OUTFILE") or settings.outfile
    if not outfile:
        return TelemetryOptions(outfile=None, texts=False)
    texts = _flag(environ.get("GEMINI_TELEMETRY_LOG_PROMPTS"), settings.log_prompts)
    return TelemetryOptions(outfile=cwd / os.path.expanduser(outfile), texts=texts is not False)


def _flag(value: str | None, otherwise: bool | None) -> bool | None:
    """A variable of the environment: true and 1 mean yes, any other text no."""
    return value.strip().lower() in {"true", "1"} if value else otherwise


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
