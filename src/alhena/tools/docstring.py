"""Reads docstrings: the summary, and the descriptions of parameters.

Knows the Google ("Args:"), Sphinx (":param x:") and NumPy ("Parameters" underlined) forms.
"""

import re

import msgspec

_GOOGLE_SECTION = re.compile(
    r"^(Args|Arguments|Parameters|Params|Returns?|Yields?|Raises|Examples?|Notes?|Attributes"
    r"|Warnings?|See Also|Todo)\s*:\s*$"
)
_PARAMETER_SECTIONS = frozenset({"Args", "Arguments", "Parameters", "Params", "Other Parameters"})
_NUMPY_RULE = re.compile(r"^\s*-{3,}\s*$")
_SPHINX_FIELD = re.compile(r"^:(\w+)(?:\s+([^:]*?))?\s*:\s*(.*)$")
_SPHINX_PARAMETER = frozenset({"param", "parameter", "arg", "argument", "key", "keyword"})
_GOOGLE_ENTRY = re.compile(r"^(\*{0,2}\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_NUMPY_ENTRY = re.compile(r"^(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")


class Docstring(msgspec.Struct, frozen=True):
    """`summary` is the text without its sections; `parameters` maps a name to its description."""

    summary: str
    parameters: dict[str, str]


def read_docstring(text: str) -> Docstring:
    """Parses a docstring with any indentation."""
    lines = _dedent_lines(text)
    summary: list[str] = []
    parameters: dict[str, str] = {}
    index = 0
    while index < len(lines):
        line = lines[index]
        google = _GOOGLE_SECTION.match(line)
        underlined = index + 1 < len(lines) and _NUMPY_RULE.match(lines[index + 1])
        field = _SPHINX_FIELD.match(line)
        if underlined and line.strip():
            index, body = _until_section(lines, index + 2)
            if line.strip() in _PARAMETER_SECTIONS:
                parameters |= _numpy_entries(body)
        elif google:
            index, body = _take_indented_lines(lines, index + 1)
            if google[1] in _PARAMETER_SECTIONS:
                parameters |= _google_entries(body)
        elif field:
            index, body = _take_indented_lines(lines, index + 1)
            name = (field[2] or "").split()[-1:]
            if field[1] in _SPHINX_PARAMETER and name:
                parameters[name[0].lstrip("*")] = _join_lines([field[3], *body])
        else:
            summary.append(line)
            index += 1
    return Docstring("\n".join(summary).strip(), parameters)


def _dedent_lines(text: str) -> list[str]:
    """Removes the common indentation of the lines; the first line has none."""
    lines = text.expandtabs().splitlines()
    margins = [len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()]
    margin = min(margins, default=0)
    return [line.strip() if i == 0 else line[margin:].rstrip() for i, line in enumerate(lines)]


def _take_indented_lines(lines: list[str], start: int) -> tuple[int, list[str]]:
    """The indented (or empty) lines from `start`, and the index after them."""
    end = start
    while end < len(lines) and (not lines[end] or lines[end].startswith(" ")):
        end += 1
    return end, lines[start:end]


def _until_section(lines: list[str], start: int) -> tuple[int, list[str]]:
    end = start
    while end < len(lines) and not (
        end + 1 < len(lines) and lines[end].strip() and _NUMPY_RULE.match(lines[end + 1])
    ):
        end += 1
    return end, lines[start:end]


def _google_entries(body: list[str]) -> dict[str, str]:
    margin = min((len(line) - len(line.lstrip()) for line in body if line), default=0)
    return _entries([line[margin:] for line in body], _GOOGLE_ENTRY)


def _numpy_entries(body: list[str]) -> dict[str, str]:
    return _entries(body, _NUMPY_ENTRY)


def _entries(body: list[str], pattern: re.Pattern[str]) -> dict[str, str]:
    """Descriptions by name; indented lines continue the entry above them."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in body:
        entry = pattern.match(line)
        if entry and not line.startswith(" "):
            current = [entry[2]] if pattern.groups > 1 else []
            for name in entry[1].split(","):
                found[name.strip().lstrip("*")] = current
        else:
            current.append(line)
    return {name: _join_lines(texts) for name, texts in found.items()}


def _join_lines(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())
