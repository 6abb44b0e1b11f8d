"""Whether telemetry is on, where it goes, and how much it tells."""

import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import msgspec

from alhena.config.settings import TelemetrySettings


class Detail(StrEnum):
    """How much of what people and models wrote is in the records.

    `everything` has prompts, requests, answers and what hooks read and wrote; `calls` of these only
    the arguments of tool calls; `counts` none of it. Credentials are in none.
    """

    EVERYTHING = "everything"
    CALLS = "calls"
    COUNTS = "counts"


class TelemetryOptions(msgspec.Struct, frozen=True):
    """Telemetry that is on. Without an `outfile` there is nowhere to write to."""

    outfile: Path | None
    detail: Detail

    @property
    def texts(self) -> bool:
        """Whether requests and answers are to be written down."""
        return self.outfile is not None and self.detail is Detail.EVERYTHING


def telemetry_options(
    settings: TelemetrySettings, environ: Mapping[str, str], cwd: Path
) -> TelemetryOptions | None:
    """What settings and environment ask for, None when telemetry is off. The environment wins; a
    relative outfile is one from `cwd`."""
    if not _flag(environ.get("GEMINI_TELEMETRY_ENABLED"), settings.enabled):
        return None
    outfile = environ.get("GEMINI_TELEMETRY_OUTFILE") or settings.outfile
    return TelemetryOptions(
        outfile=cwd / os.path.expanduser(outfile) if outfile else None,
        detail=_detail(_flag(environ.get("GEMINI_TELEMETRY_LOG_PROMPTS"), settings.log_prompts)),
    )


def _detail(log_prompts: bool | None) -> Detail:
    if log_prompts is None:
        return Detail.CALLS
    return Detail.EVERYTHING if log_prompts else Detail.COUNTS


def _flag(value: str | None, otherwise: bool | None) -> bool | None:
    """A variable of the environment: true and 1 mean yes, any other text no."""
    return value.strip().lower() in {"true", "1"} if value else otherwise
