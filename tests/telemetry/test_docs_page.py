"""The page on telemetry says what is written."""

import re
from pathlib import Path
from typing import Any

from alhena.telemetry import metrics
from alhena.telemetry.metrics import Instrument
from tests.telemetry.reading import ATTRIBUTES, objects

PAGE = (Path(__file__).parents[2] / "docs" / "telemetry.md").read_text(encoding="utf-8")


def items(title: str) -> dict[str, list[str]]:
    """The first name of each item of a section's list, with the names after the colon."""
    section = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    found = re.findall(r"^- `([^`]+)`[^:\n]*:?(.*)$", section, re.MULTILINE)
    return {name: re.findall(r"`([^`]+)`", cell) for name, cell in found}


def test_the_page_names_every_attribute_of_every_event():
    written = {
        name: sorted([*event["required"], *event["optional"]])
        for name, event in ATTRIBUTES.items()
        if name != "every"
    }
    assert {name: sorted(names) for name, names in items("Log records").items()} == written


def test_the_page_names_every_metric():
    known = {item.name for item in vars(metrics).values() if isinstance(item, Instrument)}
    assert set(items("Metrics")) == known


def test_the_example_reads_a_file():
    (code,) = re.findall(r"^```python\n((?s:.*?))^```$", PAGE, re.MULTILINE)
    space: dict[str, Any] = {}
    exec(code, space)
    text = '{\n  "a": "{"\n}\n\n{\n  "b": {}\n}\n'
    assert list(space["objects"](text)) == [{"a": "{"}, {"b": {}}] == objects(text.encode())
