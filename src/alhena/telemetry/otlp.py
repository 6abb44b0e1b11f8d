"""Sends telemetry to OpenTelemetry: to an OTLP endpoint, or to the providers of a program."""

import logging
from typing import Any

from opentelemetry._logs import LoggerProvider as AnyLoggerProvider
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.metrics import MeterProvider as AnyMeterProvider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from alhena.events import timestamp
from alhena.telemetry.metrics import SESSIONS, Instrument, measure_record
from alhena.telemetry.options import OtlpEndpoint
from alhena.telemetry.records import TelemetryRecord
from alhena.telemetry.spans import SCOPE
from alhena.version import __version__

EXPORT_S = 2.0
"""Seconds that one export may take."""
FLUSH_MS = 900
"""Milliseconds that an exporter gets at the end of a session."""


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

    def write(self, record: TelemetryRecord, time_ns: int) -> None:
        """Passes a record on; the providers' processors send it later."""
        name = record.event_name
        named = {"event.name": name, "event.timestamp": timestamp(time_ns)}
        self._logger.emit(
            LogRecord(
                timestamp=time_ns,
                observed_timestamp=time_ns,
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

    `tracers` is the provider of the session's spans; None: no traces are wanted.
    """

    def __init__(self, endpoint: OtlpEndpoint, common: dict[str, Any]) -> None:
        logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
        logging.getLogger("opentelemetry").propagate = False  # `problem` says it, once
        made = _exporters(endpoint)
        self._url = endpoint.url
        self._exporters = [_Watched(exporter) for exporter in made]
        logs, metrics, *traces = self._exporters
        given = OTELResourceDetector().detect().attributes  # of OTEL_SERVICE_NAME and the like
        named = {"service.name": "gemini-cli", "service.version": __version__, **given}
        resource = Resource.create(named)
        log_provider = LoggerProvider(resource, shutdown_on_exit=False)
        log_provider.add_log_record_processor(BatchLogRecordProcessor(logs))  # pyright: ignore[reportArgumentType]
        reader = PeriodicExportingMetricReader(metrics)  # pyright: ignore[reportArgumentType]
        meter_provider = MeterProvider([reader], resource, shutdown_on_exit=False)
        self._providers: list[Any] = [log_provider, meter_provider]
        self.tracers: TracerProvider | None = None
        if traces:
            self.tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
            self.tracers.add_span_processor(BatchSpanProcessor(traces[0]))  # pyright: ignore[reportArgumentType]
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
        failed = sum(exporter.failed for exporter in self._exporters)
        if not failed:
            return None
        return (
            f"telemetry: sending to {self._url} failed; records are missing. Check "
            "telemetry.otlpEndpoint."
        )


class _Watched:
    """An exporter of the SDK that counts its failures."""

    def __init__(self, exporter: Any) -> None:
        self._exporter = exporter
        self.failed = 0

    def export(self, batch: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            result = self._exporter.export(batch, *args, **kwargs)
        except Exception:
            self.failed += 1
            raise
        self.failed += getattr(result, "name", "") != "SUCCESS"
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exporter, name)


def _exporters(endpoint: OtlpEndpoint) -> list[Any]:
    """Exporters of logs, metrics and, if wanted, traces."""
    if endpoint.protocol == "http":
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        base = endpoint.url.rstrip("/")
        made: list[Any] = [
            OTLPLogExporter(f"{base}/v1/logs", timeout=EXPORT_S),
            OTLPMetricExporter(f"{base}/v1/metrics", timeout=EXPORT_S),
        ]
        traces = [OTLPSpanExporter(f"{base}/v1/traces", timeout=EXPORT_S)]
    else:
        from opentelemetry.exporter.otlp.proto.grpc._log_exporter import (
            OTLPLogExporter as GrpcLogs,
        )
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import (
            OTLPMetricExporter as GrpcMetrics,
        )
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (
            OTLPSpanExporter as GrpcSpans,
        )

        url, insecure = endpoint.url, not endpoint.url.startswith("https://")
        made = [
            GrpcLogs(url, insecure=insecure, timeout=EXPORT_S),
            GrpcMetrics(url, insecure=insecure, timeout=EXPORT_S),
        ]
        traces = [GrpcSpans(url, insecure=insecure, timeout=EXPORT_S)] if endpoint.traces else []
    return made + (traces if endpoint.traces else [])
