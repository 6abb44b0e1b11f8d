"""Telemetry options from settings and environment, and the installation id."""

import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import msgspec

from alhena.config.documents import read_limited
from alhena.config.settings import TelemetrySettings

DEFAULT_ENDPOINT = "http://localhost:4317"


SIGNALS = ("logs", "metrics", "traces")
KNOWN_EXPORTERS = ("otlp", "console")


class OtlpEndpoint(msgspec.Struct, frozen=True):
    """A collector of OTLP; `protocol` is grpc or http. `exporters` says where each of SIGNALS goes
    (`otlp`, `console`; empty: nowhere), `headers` what requests carry, by signal, "" for all."""

    url: str = DEFAULT_ENDPOINT
    protocol: str = "grpc"
    exporters: Mapping[str, tuple[str, ...]] = msgspec.field(
        default_factory=lambda: dict.fromkeys(SIGNALS, ("otlp",))
    )
    headers: Mapping[str, str] = {}


GCP = (
    "telemetry: the target gcp needs an OpenTelemetry collector that exports to Google Cloud; "
    f"records are sent to one at {DEFAULT_ENDPOINT}. Set telemetry.otlpEndpoint if it is elsewhere."
)


class TelemetryOptions(msgspec.Struct, frozen=True):
    """Options of enabled telemetry: it goes to a file, or else to an endpoint. `texts`: records
    include what people, models, tools and hooks wrote; credentials are always redacted. `notice`
    is a line for a person. `within`: the working directory, if the file is in it; no symbolic link
    in it leads to the file."""

    outfile: Path | None
    texts: bool
    within: Path | None = None
    endpoint: OtlpEndpoint = OtlpEndpoint()
    notice: str = ""


def telemetry_options(
    settings: TelemetrySettings, environ: Mapping[str, str], cwd: Path
) -> TelemetryOptions | None:
    """Reads the options; None when telemetry is off. The environment overrides settings; a relative
    outfile is resolved against `cwd`."""
    if not _flag(environ.get("GEMINI_TELEMETRY_ENABLED"), settings.enabled):
        return None
    outfile = environ.get("GEMINI_TELEMETRY_OUTFILE") or settings.outfile
    texts = _flag(environ.get("GEMINI_TELEMETRY_LOG_PROMPTS"), settings.log_prompts)
    if outfile:
        path = Path(os.path.normpath(cwd / os.path.expanduser(outfile)))
        within = cwd if path.is_relative_to(cwd) and path != cwd else None
        return TelemetryOptions(path, texts is not False, within)
    url = (
        environ.get("GEMINI_TELEMETRY_OTLP_ENDPOINT")
        or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
        or settings.otlp_endpoint
    )
    target = environ.get("GEMINI_TELEMETRY_TARGET") or settings.target
    notice = GCP if target == "gcp" and not url else ""
    protocol = (
        environ.get("GEMINI_TELEMETRY_OTLP_PROTOCOL")
        or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
        or settings.otlp_protocol
    )
    traces = _flag(environ.get("GEMINI_TELEMETRY_TRACES_ENABLED"), settings.traces) is not False
    http = protocol.startswith("http")
    exporters, unknown = _read_exporters(environ)
    if not traces:
        exporters["traces"] = ()
    names = {signal: f"OTEL_EXPORTER_OTLP_{signal.upper()}_HEADERS" for signal in SIGNALS}
    names[""] = "OTEL_EXPORTER_OTLP_HEADERS"
    headers = {signal: text for signal, name in names.items() if (text := environ.get(name))}
    endpoint = OtlpEndpoint(url or DEFAULT_ENDPOINT, "http" if http else "grpc", exporters, headers)
    told = " ".join(filter(None, (notice, unknown)))
    return TelemetryOptions(None, texts is True, endpoint=endpoint, notice=told)


def _read_exporters(environ: Mapping[str, str]) -> tuple[dict[str, tuple[str, ...]], str]:
    """The exporters of each signal by OTEL_LOGS_EXPORTER and its like, and a line about those that
    there are not."""
    found: dict[str, tuple[str, ...]] = {}
    unknown: list[str] = []
    for signal in SIGNALS:
        variable = f"OTEL_{signal.upper()}_EXPORTER"
        words = [word.strip().lower() for word in environ.get(variable, "").split(",")]
        names = [word for word in words if word] or ["otlp"]
        found[signal] = tuple(name for name in KNOWN_EXPORTERS if name in names)
        others = [name for name in names if name not in (*KNOWN_EXPORTERS, "none")]
        unknown += [f"{variable}={name}" for name in others]
    if not unknown:
        return found, ""
    return (
        found,
        f"telemetry: no such exporter: {', '.join(unknown)}. There are otlp, console, none.",
    )


def is_installed() -> bool:
    """True if the packages of the extra `otel` are there."""
    try:
        return find_spec("opentelemetry.sdk") is not None
    except ModuleNotFoundError:
        return False


def _flag(value: str | None, otherwise: bool | None) -> bool | None:
    """Parses an environment variable: true and 1 mean yes, any other text no."""
    return value.strip().lower() in {"true", "1"} if value else otherwise


MAX_BYTES = 200


def installation_id(path: Path) -> tuple[str, str]:
    """Returns the id in the file, which is created if missing, and a reason if it could not be
    saved; the id then lasts for this session only."""
    try:
        return _load_or_create_id(path), ""
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        return str(uuid.uuid4()), f"{path}: {reason or error}"


def _load_or_create_id(path: Path) -> str:
    with suppress(FileNotFoundError):
        found = read_limited(path, MAX_BYTES).decode("ascii").strip()
        if found:
            return found
    made = str(uuid.uuid4())
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Write a draft and link it into place: another process sees no id or a complete one.
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
