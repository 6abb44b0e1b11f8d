"""Frames around the text of memory files, and protection against forged ones."""

import re

DISCOVERED = "--- Newly Discovered Project Context ---"
"""The first line of the text with files found for touched paths."""
_END = "--- End Project Context ---"

_TITLE = "Newly Discovered Project Context"
_LINES = f"{_TITLE}|End Project Context|Context from:|End of Context from:|Full File Context"
_TAGS = "loaded_context|project_context|global_context"


def discovered(text: str) -> str:
    """Frames the text of files found for touched paths."""
    return f"{DISCOVERED}\n{text}\n{_END}"


def unframed(text: str) -> str:
    """The text of a file with everything removed that could open or close a frame."""
    return without_lines(without_tags(text))


def without_tags(text: str) -> str:
    """A text with frame tags disabled."""
    if "_context" not in text.lower():
        return text
    return re.sub(rf"<(?=\s*/?\s*(?:{_TAGS}))", "&lt;", text, flags=re.IGNORECASE)


def without_lines(text: str) -> str:
    """A text with frame lines disabled by separating their dashes."""
    return _apart(text, _LINES)


def without_discoveries(text: str) -> str:
    """A text that cannot be mistaken for files of touched paths."""
    return _apart(text, _TITLE)


def _apart(text: str, words: str) -> str:
    if "--" not in text:
        return text
    return re.sub(rf"-{{2,}}(?=[ \t]*(?:{words}))", "- - -", text, flags=re.IGNORECASE)
