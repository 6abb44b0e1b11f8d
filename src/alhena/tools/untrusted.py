"""Text from outside, marked for the model as data."""

_OPEN, _CLOSE = "<untrusted_context>", "</untrusted_context>"


def untrusted(text: str) -> str:
    """`text` between marks that it cannot close itself."""
    return f"{_OPEN}\n{escaped(text, 'untrusted_context')}\n{_CLOSE}"


def escaped(text: str, *tags: str) -> str:
    """`text` in which the closing forms of these tags are no tags, however they are written."""
    for tag in tags:
        text = text.replace(f"</{tag}>", f"&lt;/{tag}&gt;")
    if "<" not in text:
        return text
    import re

    names = "|".join(re.escape(tag) for tag in tags)
    return re.sub(rf"<(?=\s*/\s*(?:{names})\b)", "&lt;", text, flags=re.IGNORECASE)
