"""A broken rule of the conversation, as a value."""

from enum import StrEnum

from alhena.values import Value


class Level(StrEnum):
    """`ERROR` keeps a request from being sent; `WARNING` is reported or repaired."""

    ERROR = "error"
    WARNING = "warning"


class Violation(Value, frozen=True):
    """Rule (such as "F1"), level, where (such as "contents[3].parts[0]") and what is wrong."""

    rule: str
    level: Level
    path: str
    message: str
