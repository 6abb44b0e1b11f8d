"""Reads a telemetry file as its consumers do: one JSON object after another."""

import json
from pathlib import Path
from typing import Any

ATTRIBUTES: dict[str, Any] = json.loads(
    (Path(__file__).parent / "attributes.json").read_text(encoding="utf-8")
)
"""Names and types of attributes that the reference writes, by event."""

TYPES = {"string": str, "boolean": bool, "integer": int, "number": float, "array": list}
EVENT = "event.name"


def objects(data: bytes) -> list[dict[str, Any]]:
    """The objects of a file. Each begins with `{` at the start of a line."""
    text, decoder = data.decode("utf-8"), json.JSONDecoder()
    found: list[dict[str, Any]] = []
    at = 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        assert text[at] == "{"
        assert at == 0 or text[at - 1] == "\n"
        value, at = decoder.raw_decode(text, at)
        found.append(value)
    return found


class Observed:
    """Content of a telemetry file. `logs` are the attributes of its records, in order."""

    def __init__(self, path: Path) -> None:
        self.text = path.read_text(encoding="utf-8")
        self.objects = objects(self.text.encode())
        self.records = [item for item in self.objects if "attributes" in item]
        self.logs = [item["attributes"] for item in self.records]
        self.measured = [item for item in self.objects if "scopeMetrics" in item]

    @property
    def names(self) -> list[str]:
        return [log[EVENT].removeprefix("gemini_cli.") for log in self.logs]

    def of(self, name: str) -> list[dict[str, Any]]:
        return [log for log in self.logs if log[EVENT] == f"gemini_cli.{name}"]

    def one(self, name: str) -> dict[str, Any]:
        (found,) = self.of(name)
        return found

    def points(self, name: str) -> list[dict[str, Any]]:
        """The data points of a metric, as the last metrics object has them."""
        (scope,) = self.measured[-1]["scopeMetrics"]
        return [
            point
            for metric in scope["metrics"]
            if metric["descriptor"]["name"] == name
            for point in metric["dataPoints"]
        ]

    def total(self, name: str, **attributes: Any) -> Any:
        """The sum of a counter's points that have these attributes."""
        return sum(
            point["value"]
            for point in self.points(name)
            if attributes.items() <= point["attributes"].items()
        )


def differences(logs: list[dict[str, Any]]) -> list[str]:
    """Records whose attributes differ from the reference's in name or type."""
    found: list[str] = []
    every = ATTRIBUTES["every"]
    for log in logs:
        name = log[EVENT].removeprefix("gemini_cli.")
        event = ATTRIBUTES[name]
        required = every["required"] | event["required"]
        known = required | every["optional"] | event["optional"]
        found += (f"{name} lacks {key}" for key in required if key not in log)
        found += (f"{name} has {key}" for key in log if key not in known)
        found += (
            f"{name}.{key} is {value!r}"
            for key, value in log.items()
            if type(value) is not TYPES[known.get(key, "string")]
        )
    return found
