"""The bytes of records and metrics: indented JSON objects, in the form of the reference's."""

import os
import platform
import sys
from typing import Any

import msgspec

from alhena.events import timestamp
from alhena.telemetry.metrics import Metrics, hr_time
from alhena.telemetry.record import PREFIX, Record
from alhena.version import __version__

SCOPE = "gemini-cli"
ATTRIBUTE_LIMIT = 128


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where records come from. `auth_type` is how the session signs in to its model, if it does."""

    session_id: str
    installation_id: str
    interactive: bool = False
    auth_type: str | None = None

    @property
    def attributes(self) -> dict[str, Any]:
        """What is in every record."""
        common: dict[str, Any] = {
            "session.id": self.session_id,
            "installation.id": self.installation_id,
            "interactive": self.interactive,
        }
        return common if self.auth_type is None else common | {"auth_type": self.auth_type}


class Form:
    """Writes out what comes from one origin."""

    def __init__(self, origin: Origin) -> None:
        self._common = origin.attributes
        self._resource = resource(origin.session_id)

    def log_record(self, record: Record, time_ns: int) -> bytes:
        """A record that was made at this time."""
        attributes: dict[str, Any] = {
            **self._common,
            "event.name": PREFIX + record.name,
            "event.timestamp": timestamp(time_ns),
            **record.attributes,
        }
        return _lines(
            {
                "hrTime": hr_time(time_ns),
                "hrTimeObserved": hr_time(time_ns),
                "resource": self._resource,
                "instrumentationScope": {"name": SCOPE},
                "attributes": attributes,
                "_body": record.body,
                "_attributesCount": len(attributes),
                "_droppedAttributesCount": 0,
                "_isReadonly": True,
                "_logRecordLimits": {
                    "attributeCountLimit": ATTRIBUTE_LIMIT,
                    "attributeValueLengthLimit": None,
                },
            }
        )

    def metrics(self, metrics: Metrics, time_ns: int) -> bytes:
        """What has been counted up to this time."""
        measured = metrics.scope_metrics(self._common, time_ns)
        scope = {"scope": {"name": SCOPE, "version": ""}, "metrics": measured}
        return _lines({"resource": self._resource, "scopeMetrics": [scope]})


def resource(session_id: str) -> dict[str, Any]:
    """This process and machine. Not its command line, which may hold a prompt."""
    return {
        "_rawAttributes": [
            ("host.name", platform.node()),
            ("host.arch", _architecture()),
            ("process.pid", os.getpid()),
            ("process.executable.name", "alhena"),
            ("process.runtime.version", platform.python_version()),
            ("process.runtime.name", sys.implementation.name),
            ("service.name", SCOPE),
            ("service.version", __version__),
            ("session.id", session_id),
        ],
        "_asyncAttributesPending": False,
    }


def _architecture() -> str:
    machine = os.uname().machine
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def _lines(value: dict[str, Any]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
