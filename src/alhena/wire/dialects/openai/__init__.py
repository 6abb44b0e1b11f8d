"""OpenAI's chat completions: requests, answers and chunks, converted to and from Gemini's types."""

from alhena.wire.dialects.openai.reading import read_request
from alhena.wire.dialects.openai.response import (
    THOUGHTS,
    EventReader,
    EventWriter,
    read_response,
    write_response,
)
from alhena.wire.dialects.openai.writing import write_request

__all__ = [
    "THOUGHTS",
    "EventReader",
    "EventWriter",
    "read_request",
    "read_response",
    "write_request",
    "write_response",
]
