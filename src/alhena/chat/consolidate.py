"""From the parts of a streamed answer to the content that enters the history (CHAT-02)."""

from collections.abc import Iterable

import msgspec

from alhena.wire.content import DATA_FIELDS, MODEL, SIGNATURE_SENTINEL, Content, Part


def model_content(parts: Iterable[Part], *, sign_calls: bool) -> Content | None:
    """The model content of a turn; None when nothing of it can be kept.

    Thoughts are left out, their signatures move on (S5); neighbouring text parts without metadata
    become one; empty parts go. With `sign_calls` the first function call gets the sentinel when it
    came without a signature.
    """
    kept: list[Part] = []
    for part in _without_thoughts(parts):
        part = _one_field(part)
        if not _has_data(part):
            continue
        if kept and _is_plain_text(part) and _is_plain_text(kept[-1]):
            kept[-1] = Part(text=f"{kept[-1].text}{part.text}")
        else:
            kept.append(part)
    kept = [part for part in kept if part.text != "" or part.thought_signature]
    if sign_calls:
        _sign_first_call(kept)
    return Content(role=MODEL, parts=tuple(kept)) if kept else None


def _without_thoughts(parts: Iterable[Part]) -> Iterable[Part]:
    """The parts that are no thoughts. A thought's signature goes to the call right behind it when
    that has none, else it stays where it was, on an empty text part."""
    orphan: str | None = None
    for part in parts:
        if part.thought:
            if orphan:
                yield Part(text="", thought_signature=orphan)
            orphan = part.thought_signature
            continue
        if orphan:
            if part.function_call and not part.thought_signature:
                part = msgspec.structs.replace(part, thought_signature=orphan)
            else:
                yield Part(text="", thought_signature=orphan)
            orphan = None
        yield part
    if orphan:
        yield Part(text="", thought_signature=orphan)


def _sign_first_call(parts: list[Part]) -> None:
    for index, part in enumerate(parts):
        if part.function_call is not None:
            if not part.thought_signature:
                parts[index] = msgspec.structs.replace(part, thought_signature=SIGNATURE_SENTINEL)
            return


def _one_field(part: Part) -> Part:
    """`part` with its empty text left out when it holds something else as well (C3): proxies send
    such parts."""
    if part.text == "" and sum(getattr(part, field) is not None for field in DATA_FIELDS) > 1:
        return msgspec.structs.replace(part, text=None)
    return part


def _has_data(part: Part) -> bool:
    return any(getattr(part, field) is not None for field in DATA_FIELDS)


def _is_plain_text(part: Part) -> bool:
    return part.text is not None and part == Part(text=part.text)
