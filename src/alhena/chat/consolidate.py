"""From the parts of a streamed answer to the content that enters the history (CHAT-02)."""

from collections.abc import Iterable

import msgspec

from alhena.wire.content import DATA_FIELDS, MODEL, Content, Part, holds_data
from alhena.wire.signatures import sign_first_call, without_thoughts


def model_content(parts: Iterable[Part], *, sign_calls: bool) -> Content | None:
    """The model content of a turn; None when nothing of it can be kept.

    Thoughts are left out with their signatures (S2); neighbouring text parts without metadata
    become one; empty parts go. With `sign_calls` the first function call gets the sentinel when it
    came without a signature.
    """
    kept: list[Part] = []
    for part in without_thoughts(parts):
        part = _one_field(part)
        if not holds_data(part):
            continue
        if kept and _is_plain_text(part) and _is_plain_text(kept[-1]):
            kept[-1] = Part(text=f"{kept[-1].text}{part.text}")
        else:
            kept.append(part)
    kept = [part for part in kept if part.text != "" or part.thought_signature]
    if sign_calls:
        sign_first_call(kept)
    return Content(role=MODEL, parts=tuple(kept)) if kept else None


def _one_field(part: Part) -> Part:
    """`part` with its empty text left out when it holds something else as well (C3): proxies send
    such parts."""
    if part.text == "" and sum(getattr(part, field) is not None for field in DATA_FIELDS) > 1:
        return msgspec.structs.replace(part, text=None)
    return part


def _is_plain_text(part: Part) -> bool:
    return part.text is not None and part == Part(text=part.text)
