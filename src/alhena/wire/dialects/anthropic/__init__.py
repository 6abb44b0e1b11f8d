"""Anthropic's Messages API: requests, answers and events, converted to and from Gemini's types."""

from alhena.wire.dialects.anthropic.caching import LEAST_TOKENS, CacheTime, mark_prefixes
from alhena.wire.dialects.anthropic.reading import read_request
from alhena.wire.dialects.anthropic.response import EventWriter, write_response
from alhena.wire.dialects.anthropic.writing import EventReader, read_response, write_request

__all__ = [
    "LEAST_TOKENS",
    "CacheTime",
    "EventReader",
    "EventWriter",
    "mark_prefixes",
    "read_request",
    "read_response",
    "write_request",
    "write_response",
]
