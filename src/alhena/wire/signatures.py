"""Thoughts and the signatures that come with them, in the parts of a model's content."""

from collections.abc import Iterable

import msgspec

from alhena.wire.content import SIGNATURE_SENTINEL, Part


def without_thoughts(parts: Iterable[Part]) -> Iterable[Part]:
    """The parts that are no thoughts. A thought's signature goes to the call right behind it when
    that has none, else it stays where it was, on an empty text part (conformance S5)."""
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


def sign_first_call(parts: list[Part]) -> bool:
    """Gives the first function call the documented stand-in when it has no signature; whether it
    did (conformance S4)."""
    for index, part in enumerate(parts):
        if part.function_call is not None:
            if part.thought_signature:
                return False
            parts[index] = msgspec.structs.replace(part, thought_signature=SIGNATURE_SENTINEL)
            return True
    return False
