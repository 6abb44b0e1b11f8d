"""Gemini's thought signatures in Anthropic's opaque fields (conformance V4).

A signature that Gemini put on a part stands in the thinking block before that part, or in a
`redacted_thinking` block of its own, behind the word `gemini:`. Any other signature is the thinking
block's own. Redacted thinking of another service is a thought without words.
"""

_MARK = "gemini:"
_REDACTED = "redacted:"


def for_next_part(signature: str) -> str:
    """The opaque text that carries the signature of the part behind it."""
    return _MARK + signature


def of_next_part(opaque: str) -> str | None:
    """The signature of the next part that an opaque text carries; None when it is a foreign one."""
    return opaque.removeprefix(_MARK) if opaque.startswith(_MARK) else None


def redacted(data: str) -> str:
    """Foreign redacted thinking as the signature of a thought without words."""
    return _REDACTED + data


def redacted_data(signature: str) -> str | None:
    """The redacted thinking in such a signature."""
    return signature.removeprefix(_REDACTED) if signature.startswith(_REDACTED) else None
