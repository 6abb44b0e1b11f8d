"""The telemetry that settings and environment ask for: its file, and how much is in it."""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

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
