"""Thoughts and the signatures that come with them, in the parts of a model's content."""

from collections.abc import Iterable

import msgspec

from alhena.wire.content import SIGNATURE_SENTINEL, Part


def without_thoughts(parts: Iterable[Part]) -> list[Part]:
    """The parts that are no thoughts. A thought takes its signature with it: no other part may go
    back with it (conformance S2)."""
    return [part for part in parts if not part.thought]


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
