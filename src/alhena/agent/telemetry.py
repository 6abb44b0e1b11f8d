"""Opens the telemetry of a session, if enabled."""

import asyncio
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from alhena.agent.run import EventChannel
from alhena.agent.toolset.authority import SessionMode
from alhena.agent.toolset.toolset import Toolset
from alhena.config.home import installation_id_path
from alhena.distribution import install_command
from alhena.models.providers.select import ChosenGenerator
from alhena.telemetry.options import TelemetryOptions, installation_id, is_installed
from alhena.telemetry.records import Redaction, TelemetryRecord, Translation
from alhena.telemetry.telemetry import (
    CLOSE_S,
    FileSink,
    OutFile,
    RecordFormatter,
    RecordOrigin,
    Sink,
    Telemetry,
)
from alhena.threads import wait_until_done
from alhena.version import __version__

OTLP_CLOSE_S = 1.0
"""Seconds that a session waits at its end for a collector."""


def missing_packages() -> str:
    """The warning where OpenTelemetry is not installed."""
    return (
        "telemetry: OpenTelemetry is not installed, so nothing is sent. Install it: "
        f"{install_command('otel')}; or name a file in telemetry.outfile."
    )


class Told(msgspec.Struct, frozen=True):
    """The session that telemetry is about."""

    bench: Toolset
    chosen: ChosenGenerator


class Providers(msgspec.Struct, frozen=True):
    """The OpenTelemetry providers of a program, given to `alhena.otel.instrument`; None: the global
    ones. `texts`: records include what people, models, tools and hooks wrote."""

    tracer: Any = None
    meter: Any = None
    logger: Any = None
    texts: bool = False


def open_session_telemetry(
    options: TelemetryOptions, told: Told, channel: EventChannel
) -> Telemetry | None:
    """Opens telemetry by settings and subscribes it to the events. None, with a warning of the
    toolset, if it has nowhere to go."""
    if options.outfile is None:
        return _open_otlp(options, told, channel)
    try:
        outfile = OutFile(options.outfile, options.within)
    except OSError as error:
        reason = f"cannot write to {options.outfile}: {error.strerror or error}"
        told.bench.warnings.append(f"telemetry: {reason}; nothing is recorded.")
        return None
    sink = FileSink(outfile, RecordFormatter(_origin(told)), time.time_ns())
    return _subscribe_sink(sink, told, channel, name=str(options.outfile), texts=options.texts)


def open_instrumented(providers: Providers, told: Told, channel: EventChannel) -> Telemetry:
    """Opens telemetry to the providers of the program."""
    from opentelemetry import _logs, metrics, trace

    from alhena.telemetry.otlp import OpenTelemetrySink

    sink = OpenTelemetrySink(
        providers.logger or _logs.get_logger_provider(),
        providers.meter or metrics.get_meter_provider(),
        _origin(told).attributes,
    )
    tracers, texts = providers.tracer or trace.get_tracer_provider(), providers.texts
    context = _trace(tracers, told, channel, texts=texts)
    return _subscribe_sink(sink, told, channel, name="OpenTelemetry", texts=texts, context=context)


def _open_otlp(options: TelemetryOptions, told: Told, channel: EventChannel) -> Telemetry | None:
    if not is_installed():
        told.bench.warnings.append(missing_packages())
        return None
    from alhena.telemetry.otlp import OtlpSink

    if options.notice:
        told.bench.warnings.append(options.notice)
    endpoint = options.endpoint
    sink = OtlpSink(endpoint, _origin(told).attributes, texts=options.texts)
    context: Callable[[], Any] = _no_context
    if sink.tracers is not None:
        context = _trace(sink.tracers, told, channel, texts=options.texts)
    return _subscribe_sink(
        sink, told, channel, name=endpoint.url, texts=options.texts, context=context
    )


def _no_context() -> None:
    """The context where no spans are made."""


def _trace(provider: Any, told: Told, channel: EventChannel, *, texts: bool) -> Callable[[], Any]:
    """Makes spans by the provider, and tells commands and servers which span is theirs. Returns
    what gives the context of the last event."""
    from alhena.telemetry.spans import SCOPE, Spans

    environ = told.bench.spec.place.environ
    spans = Spans(
        provider.get_tracer(SCOPE, __version__),
        told.bench.links.session_id,
        environ,
        agents=told.bench.agents.names,
        redaction=Redaction(environ) if texts else None,
    )
    channel.subscribe(spans.feed)
    told.bench.tracers.append(spans)
    told.bench.when_closed.append(spans.finish)
    return lambda: spans.context


def _subscribe_sink(
    sink: Sink,
    told: Told,
    channel: EventChannel,
    *,
    name: str,
    texts: bool,
    context: Callable[[], Any] | None = None,
) -> Telemetry:
    """Opens telemetry to a sink; with a `context` it is OpenTelemetry's, whose end is waited for
    only shortly."""
    redaction = Redaction(told.bench.spec.place.environ)
    translation = Translation(redaction, texts=texts, agents=told.bench.agents.names)
    close_s = CLOSE_S if context is None else OTLP_CLOSE_S
    telemetry = Telemetry(sink, translation, name=name, close_s=close_s)
    if context is not None:
        telemetry.follow(context)
    telemetry.record(config_record(told, texts=texts))
    channel.subscribe(telemetry.feed)
    modes = _ModeRecords(telemetry, told.bench.authority.modes)
    told.bench.authority.modes.subscribe(modes.record_change)
    told.bench.when_closed.append(modes.record_duration)
    return telemetry


class _ModeRecords:
    """Records changes of the approval mode, and how long each mode was on."""

    def __init__(self, telemetry: Telemetry, modes: SessionMode) -> None:
        self._telemetry = telemetry
        self._modes = modes
        self._mode, self._since = modes.mode, time.monotonic()

    def record_change(self) -> None:
        before = self._mode
        self.record_duration()
        self._mode, self._since = self._modes.mode, time.monotonic()
        switched = {"from_mode": before.value, "to_mode": self._mode.value}
        said = f"Approval mode changed from {before.value} to {self._mode.value}."
        self._telemetry.record(TelemetryRecord("plan.approval_mode_switch", said, switched))

    def record_duration(self) -> None:
        duration = round((time.monotonic() - self._since) * 1000)
        named = {"mode": self._mode.value, "duration_ms": duration}
        said = f"Approval mode {self._mode.value} was on for {duration}ms."
        self._telemetry.record(TelemetryRecord("plan.approval_mode_duration", said, named))


def _origin(told: Told) -> RecordOrigin:
    number, problem = installation_id(installation_id_path(told.bench.spec.place.environ))
    if problem:
        reason = f"the installation's id cannot be kept: {problem}"
        told.bench.warnings.append(f"telemetry: {reason}.")
    return RecordOrigin(
        session_id=told.bench.links.session_id,
        installation_id=number,
        interactive=told.bench.authority.context.interactive,
        auth_type=told.chosen.auth_type,
    )


def config_record(told: Told, *, texts: bool) -> TelemetryRecord:
    """The record of the session's configuration."""
    settings = told.bench.settings
    attributes: dict[str, Any] = {
        "model": told.chosen.model,
        "embedding_model": "",
        "sandbox_enabled": bool(told.bench.sandbox),
        "core_tools_enabled": ",".join(settings.tools.core or ()),
        "approval_mode": told.bench.authority.modes.mode.value,
        "api_key_enabled": told.chosen.auth_type == "gemini-api-key",
        "vertex_ai_enabled": told.chosen.auth_type == "vertex-ai",
        "log_user_prompts_enabled": texts,
        "file_filtering_respect_git_ignore": True,
        "debug_mode": False,
        "mcp_servers": ",".join(settings.mcp_servers),
        "mcp_servers_count": len(settings.mcp_servers),
        "output_format": "text",
        "extensions": "",
        "extensions_count": 0,
        "extension_ids": "",
        "worktree_active": False,
    }
    return TelemetryRecord(
        "config", "CLI configuration loaded.", attributes | dict(told.bench.spec.client.facts)
    )


async def flush(opened: Sequence[Telemetry]) -> str | None:
    """Flushes telemetry; reports once why it is incomplete."""
    for telemetry in opened:
        await wait_until_done(asyncio.ensure_future(asyncio.to_thread(telemetry.flush)))
    return next(filter(None, (telemetry.take_problem() for telemetry in opened)), None)


async def finish(opened: Sequence[Telemetry]) -> None:
    """Closes telemetry. A problem is issued as a RuntimeWarning, because no reader of events is
    left."""
    for telemetry in opened:
        await wait_until_done(asyncio.ensure_future(asyncio.to_thread(telemetry.close)))
        problem = telemetry.take_problem()
        if problem is not None:
            warnings.warn(problem, RuntimeWarning, stacklevel=2)
