"""A scripted conversation with calls side by side, and what its tools return."""

from typing import Any

from tests.support.server import call, chunk, text

MODEL = "gemini-3-flash-preview"
SIGNATURE = "c2lnbmVkIGJ5IHRoZSBtb2RlbA=="
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
USAGE = {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18}

CALLS: list[dict[str, Any]] = [
    chunk({"text": "Both cities, then.", "thought": True}),
    chunk({"text": "Let me "}),
    chunk({"text": "look."}),
    chunk(call("weather", {"city": "Oslo"}, id="call-a", thoughtSignature=SIGNATURE)),
    chunk(call("weather", {"city": "Lima"}, id="call-b"), finish="STOP", usage=USAGE),
]
"""The model's first answer; `whole` makes one piece of it."""

ANSWER = [text("Snow in Oslo, "), text("sun in Lima.", finish="STOP")]


def whole(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same answer in one piece."""
    parts = [part for one in chunks for part in one["candidates"][0]["content"]["parts"]]
    return [chunk(*parts, finish="STOP", usage=USAGE)]


def prompt_seen(entries: list[Any]) -> None:
    """The first content: the question, and the picture beside it."""
    assert entries[0]["role"] == "user"
    assert {"text": "How is the weather there?"} in entries[0]["parts"]
    assert {"inlineData": {"mimeType": "image/png", "data": PNG}} in entries[0]["parts"]


def calls_seen(entries: list[Any]) -> None:
    """The model's turn came back whole: words, both calls, ids, the signature on its own part."""
    assert entries[1]["role"] == "model"
    said, first, second = entries[1]["parts"]
    assert said == {"text": "Let me look."}
    assert first["functionCall"] == {"id": "call-a", "name": "weather", "args": {"city": "Oslo"}}
    assert first["thoughtSignature"] == SIGNATURE
    assert second == {"functionCall": {"id": "call-b", "name": "weather", "args": {"city": "Lima"}}}


def result_of(entries: list[Any], at: int) -> dict[str, Any]:
    """A functionResponse of the third content."""
    assert entries[2]["role"] == "user"
    return entries[2]["parts"][at]["functionResponse"]
