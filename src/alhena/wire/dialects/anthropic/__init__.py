"""Anthropic's Messages API: requests, answers and events, converted to and from Gemini's types."""

from alhena.wire.dialects.anthropic.reading import read_request
from alhena.wire.dialects.anthropic.response import EventWriter, write_response
from alhena.wire.dialects.anthropic.writing import EventReader, read_response, write_request

__all__ = [
    "EventReader",
    "EventWriter",
    "read_request",
    "read_response",
    "write_request",
    "write_response",
]
