"""OpenAI's Responses API: requests, answers and events, converted to and from Gemini's types.

Reasoning of a model behind this API travels in the signature of the part that follows it; a
signature of another service travels in the `encrypted_content` of a reasoning item (`items`).
"""

from alhena.wire.dialects.responses.events import EventWriter, write_response
from alhena.wire.dialects.responses.reading import read_request
from alhena.wire.dialects.responses.response import EventReader, read_response
from alhena.wire.dialects.responses.writing import write_request

__all__ = [
    "EventReader",
    "EventWriter",
    "read_request",
    "read_response",
    "write_request",
    "write_response",
]
