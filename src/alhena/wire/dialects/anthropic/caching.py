"""Marks of the prefixes that Anthropic's service keeps and finds again.

A prompt is cached only up to blocks with `cache_control`, four at most, in the order tools, system,
messages; a mark finds an earlier one at most 20 blocks back (Anthropic, "Prompt caching"). So the
end of the previous request is marked once more, however many calls the turn behind it had.
"""

from typing import Any, Literal

LEAST_TOKENS = 1024
"""The smallest prefix that any model keeps; some keep only larger ones, and ignore marks."""

CacheTime = Literal["5m", "1h"]

_MARKABLE = frozenset({"text", "image", "document", "tool_result"})


def mark_prefixes(body: dict[str, Any], time: CacheTime) -> dict[str, Any]:
    """The body of a request with its marks: the tools, which subagents and other sessions share;
    the system instruction; what the previous request ended with; and what this one ends with."""
    control = {"type": "ephemeral"} if time == "5m" else {"type": "ephemeral", "ttl": time}
    marked = dict(body)
    for key in ("tools", "system"):
        if body.get(key):
            marked[key] = _mark_last(body[key], control)
    messages = list(body.get("messages", ()))
    for position in _request_ends(messages):
        blocks = _mark_last(messages[position]["content"], control)
        messages[position] = {**messages[position], "content": blocks}
    return marked | ({"messages": messages} if messages else {})


def _request_ends(messages: list[dict[str, Any]]) -> list[int]:
    """The positions of the messages with which this request and the previous one end: the last two
    of the user, because each answer came between two requests."""
    users = [at for at, message in enumerate(messages) if message["role"] == "user"]
    return users[-2:]


def _mark_last(blocks: list[dict[str, Any]], control: dict[str, str]) -> list[dict[str, Any]]:
    """The blocks, with a mark at the last one that may have one; tools have no type."""
    for at in range(len(blocks) - 1, -1, -1):
        if blocks[at].get("type", "text") in _MARKABLE:
            return [*blocks[:at], {**blocks[at], "cache_control": control}, *blocks[at + 1 :]]
    return blocks
