"""Sends telemetry to OpenTelemetry: to an OTLP endpoint, or to the providers of a program."""

import logging
import sys
from importlib import import_module
from typing import Any

from opentelemetry._logs import LoggerProvider as AnyLoggerProvider
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.metrics import MeterProvider as AnyMeterProvider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, ConsoleLogRecordExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
from opentelemetry.util.re import parse_env_headers

from alhena.events import timestamp
from alhena.telemetry.metrics import SESSIONS, Instrument, measure_record
from alhena.telemetry.options import SIGNALS, OtlpEndpoint
from alhena.telemetry.records import TelemetryRecord
from alhena.telemetry.spans import SCOPE
from alhena.version import __version__

EXPORT_S = 2.0
"""Seconds that one export may take."""
FLUSH_MS = 900
"""Milliseconds that an exporter gets at the end of a session."""
LONG_SPANS = 16
"""Spans with texts that are sent at once: collectors refuse messages of some megabytes."""


class OpenTelemetrySink:
    """Takes records: each becomes a log record and adds to the metrics."""

    def __init__(
        self,
        loggers: AnyLoggerProvider,
        meters: AnyMeterProvider,
        common: dict[str, Any],
    ) -> None:
        self._logger = loggers.get_logger(SCOPE, __version__)
        self._meter = meters.get_meter(SCOPE, __version__)
        self._common = common
        self._instruments: dict[Instrument, Any] = {}
        self._count(SESSIONS, {}, 1)

    def write(self, record: TelemetryRecord, time_ns: int, context: Any = None) -> None:
        """Passes a record on, with the trace and span of its context; the providers' processors
        send it later."""
        name = record.event_name
        named = {"event.name": name, "event.timestamp": timestamp(time_ns)}
        self._logger.emit(
            LogRecord(
                timestamp=time_ns,
                observed_timestamp=time_ns,
                context=context,
                severity_number=SeverityNumber.INFO,
                body=record.body,
                attributes={**self._common, **named, **record.attributes},
                event_name=name,
            )
        )
        for instrument, attributes, value in measure_record(record):
            self._count(instrument, attributes, value)

    def flush(self, time_ns: int) -> None:
        """Nothing to do: what was passed on is the providers'."""
        del time_ns

    def close(self) -> None:
        """Nothing to do: the providers belong to someone else."""

    def problem(self) -> str | None:
        """None: the providers report their own."""
        return None

    def _count(self, instrument: Instrument, attributes: dict[str, Any], value: float) -> None:
        made = self._instruments.get(instrument)
        counts = instrument.kind == "COUNTER"
        if made is None:
            make: Any = self._meter.create_counter if counts else self._meter.create_histogram
            made = make(instrument.name, unit=instrument.unit, description=instrument.description)
            self._instruments[instrument] = made
        (made.add if counts else made.record)(value, {**self._common, **attributes})


class OtlpSink(OpenTelemetrySink):
    """Sends everything to an OTLP endpoint, in threads of the SDK with bounded queues.

    `tracers` is the provider of the session's spans; None: no traces are wanted. With `texts` spans
    are long, so that few go at once.
    """

    def __init__(
        self, endpoint: OtlpEndpoint, common: dict[str, Any], *, texts: bool = False
    ) -> None:
        logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
        logging.getLogger("opentelemetry").propagate = False  # `problem` says it, once
        made = {signal: _open_exporters(endpoint, signal) for signal in SIGNALS}
        self._url = endpoint.url
        self._watched = [each for several in made.values() for each in several]
        given = OTELResourceDetector().detect().attributes  # of OTEL_SERVICE_NAME and the like
        named = {"service.name": "gemini-cli", "service.version": __version__, **given}
        resource = Resource.create(named)
        log_provider = LoggerProvider(resource, shutdown_on_exit=False)
        for exporter in made["logs"]:
            log_provider.add_log_record_processor(BatchLogRecordProcessor(exporter))  # pyright: ignore[reportArgumentType]
        readers = [PeriodicExportingMetricReader(each) for each in made["metrics"]]  # pyright: ignore[reportArgumentType]
        meter_provider = MeterProvider(readers, resource, shutdown_on_exit=False)
        self._providers: list[Any] = [log_provider, meter_provider]
        self.tracers: TracerProvider | None = None
        if made["traces"]:
            self.tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
            most = LONG_SPANS if texts else None
            for exporter in made["traces"]:
                processor = BatchSpanProcessor(exporter, max_export_batch_size=most)  # pyright: ignore[reportArgumentType]
                self.tracers.add_span_processor(processor)
            self._providers.insert(0, self.tracers)
        super().__init__(log_provider, meter_provider, common)

    def close(self) -> None:
        """Sends what is left and ends the SDK's threads."""
        for provider in self._providers:
            provider.force_flush(FLUSH_MS)
        for provider in self._providers:
            provider.shutdown()

    def problem(self) -> str | None:
        """The reason why something did not arrive."""
        failed = [each for each in self._watched if each.failed]
        if not failed:
            return None
        arrived = [each.signal for each in self._watched if each.arrived]
        refused = [each.signal for each in failed if not each.arrived]
        if "traces" in arrived and "traces" not in refused and len(refused) == len(failed):
            off = " and ".join(f"OTEL_{signal.upper()}_EXPORTER=none" for signal in refused)
            return (
                f"telemetry: {self._url} takes traces, but no {' and no '.join(refused)}. To send "
                f"traces only, set {off}."
            )
        return (
            f"telemetry: sending to {self._url} failed; records are missing. Check "
            "telemetry.otlpEndpoint."
        )


class _Watched:
    """An exporter of the SDK that counts its failures and what arrived."""

    def __init__(self, exporter: Any, signal: str) -> None:
        self._exporter = exporter
        self.signal = signal
        self.failed = self.arrived = 0

    def export(self, batch: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            result = self._exporter.export(batch, *args, **kwargs)
        except Exception:
            self.failed += 1
            raise
        if getattr(result, "name", "") == "SUCCESS":
            self.arrived += 1
        else:
            self.failed += 1
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exporter, name)


def _open_exporters(endpoint: OtlpEndpoint, signal: str) -> list[_Watched]:
    """The exporters of a signal."""
    opened = {"otlp": _open_otlp, "console": _open_console}
    return [_Watched(opened[name](endpoint, signal), signal) for name in endpoint.exporters[signal]]


def _open_console(_endpoint: OtlpEndpoint, signal: str) -> Any:
    """The SDK's exporter to standard error: standard output is the answer's."""
    if signal == "logs":
        return ConsoleLogRecordExporter(sys.stderr)
    if signal == "metrics":
        return ConsoleMetricExporter(sys.stderr)
    return ConsoleSpanExporter(out=sys.stderr)


def _open_otlp(endpoint: OtlpEndpoint, signal: str) -> Any:
    """The exporter of a signal to the endpoint."""
    given = ",".join(filter(None, (endpoint.headers.get(""), endpoint.headers.get(signal))))
    headers = parse_env_headers(given, liberal=True) or None
    module, name = {
        "logs": ("_log_exporter", "OTLPLogExporter"),
        "metrics": ("metric_exporter", "OTLPMetricExporter"),
        "traces": ("trace_exporter", "OTLPSpanExporter"),
    }[signal]
    if endpoint.protocol == "http":
        kind = import_module(f"opentelemetry.exporter.otlp.proto.http.{module}")
        url = f"{endpoint.url.rstrip('/')}/v1/{signal}"
        return getattr(kind, name)(url, headers=headers, timeout=EXPORT_S)
    kind = import_module(f"opentelemetry.exporter.otlp.proto.grpc.{module}")
    insecure = not endpoint.url.startswith("https://")
    return getattr(kind, name)(endpoint.url, insecure=insecure, headers=headers, timeout=EXPORT_S)
