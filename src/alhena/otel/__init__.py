"""OpenTelemetry for programs: `instrument()` reports all agents of the process.

Needs the extra `alhena-agent[otel]`. docs/telemetry.md has the names of spans, records and metrics.
"""

from typing import TYPE_CHECKING, Any

from alhena.errors import ConfigError

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider
else:  # for typing.get_type_hints, where OpenTelemetry may not be installed
    LoggerProvider = MeterProvider = TracerProvider = Any

__all__ = ["instrument", "uninstrument"]


def instrument(
    *,
    tracer_provider: "TracerProvider | None" = None,
    meter_provider: "MeterProvider | None" = None,
    logger_provider: "LoggerProvider | None" = None,
    texts: bool = False,
) -> None:
    """Reports every agent that is opened from now on, by these providers or the global ones.

    A run is a child of the span that is current where it is started. `texts`: records include
    prompts, answers, arguments and results; credentials are redacted. Calling it again replaces the
    providers. Raises ConfigError when OpenTelemetry is not installed.
    """
    from alhena.telemetry.options import is_installed

    if not is_installed():
        from alhena.distribution import install_command

        raise ConfigError(
            "OpenTelemetry is not installed.", remedy=f"Install it: {install_command('otel')}"
        )
    from alhena.agent import session_factory
    from alhena.agent.telemetry import Providers

    session_factory.instrumented = Providers(
        tracer_provider, meter_provider, logger_provider, texts
    )


def uninstrument() -> None:
    """Reports no agent that is opened from now on."""
    from alhena.agent import session_factory

    session_factory.instrumented = None
