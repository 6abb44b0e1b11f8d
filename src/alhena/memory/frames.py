"""The lines and tags around what memory files say, and texts that cannot forge them."""

import re

DISCOVERED = "--- Newly Discovered Project Context ---"
"""What begins the text in which files are told that a touched place has brought up."""
_END = "--- End Project Context ---"

_TITLE = "Newly Discovered Project Context"
_LINES = f"{_TITLE}|End Project Context|Context from:|End of Context from:|Full File Context"
_TAGS = "loaded_context|project_context|global_context"


def discovered(text: str) -> str:
    """What the files of touched places say, in a frame."""
    return f"{DISCOVERED}\n{text}\n{_END}"


def unframed(text: str) -> str:
    """What a file says, with nothing in it that could begin or end a frame it is told in."""
    return without_lines(without_tags(text))


def without_tags(text: str) -> str:
    """A text in which no tag of a frame is one."""
    if "_context" not in text.lower():
        return text
    return re.sub(rf"<(?=\s*/?\s*(?:{_TAGS}))", "&lt;", text, flags=re.IGNORECASE)


def without_lines(text: str) -> str:
    """A text in which no line of a frame is one: its dashes stand apart."""
    return _apart(text, _LINES)


def without_discoveries(text: str) -> str:
    """A text that cannot be taken for one that tells files of touched places."""
    return _apart(text, _TITLE)


def _apart(text: str, words: str) -> str:
    if "--" not in text:
        return text
    return re.sub(rf"-{{2,}}(?=[ \t]*(?:{words}))", "- - -", text, flags=re.IGNORECASE)
