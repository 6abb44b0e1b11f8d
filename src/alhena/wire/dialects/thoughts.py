"""Other services' own thoughts in a conversation without thoughts.

These services want the thoughts of an answer back as they came, at their places; some refuse calls
without them. Thoughts never enter the history, but signatures do: that of a call, or of an empty
text at the end, carries the thoughts before it.
"""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from alhena.wire.content import Part, encode_value

_MARK = "thoughts:"


class CarriedThought(msgspec.Struct, frozen=True, omit_defaults=True):
    """A thought with its own signature. `after` counts the characters of the answer's text that
    came before it."""

    text: str
    signature: str | None = None
    after: int = 0


def whole_thoughts(parts: Iterable[Part]) -> Iterator[Part]:
    """The parts, with thoughts in one piece each. A thought arrives in pieces; where it is signed,
    the last one is."""
    text = ""
    for part in parts:
        if part.thought and not part.thought_signature:
            text += part.text or ""
            continue
        if part.thought:
            yield replace(part, text=text + (part.text or ""))
        else:
            if text:
                yield Part(text=text, thought=True)
            yield part
        text = ""
    if text:
        yield Part(text=text, thought=True)


def carry_thoughts(parts: Iterable[Part]) -> list[Part]:
    """The parts without thoughts; the next call, or an empty text after the last part, carries
    them in its signature. A part with a signature has its thoughts there."""
    made: list[Part] = []
    held: list[CarriedThought] = []
    said = 0
    for part in whole_thoughts(parts):
        if part.thought:
            held.append(CarriedThought(part.text or "", part.thought_signature, said))
            continue
        said += len(part.text or "")
        if part.thought_signature:
            held = []
        elif held and part.function_call is not None:
            part = replace(part, thought_signature=_seal(held))
            held = []
        made.append(part)
    if held and made:
        made.append(Part(text="", thought_signature=_seal(held)))
    return made


def return_thoughts(parts: Iterable[Part]) -> list[Part]:
    """The parts with the thoughts that signatures carry, at their places."""
    made: list[Part] = []
    since: list[Part] = []  # after the last call
    said = before = 0
    for part in parts:
        thoughts = _open(part.thought_signature)
        for thought in thoughts:
            _insert(since, thought, thought.after - before)
        if thoughts:
            part = replace(part, thought_signature=None)
            if part == Part(text=""):
                continue
        since.append(part)
        if part.function_call is not None:
            made += since
            since, before = [], said
        elif not part.thought:
            said += len(part.text or "")
    return made + since


def carries_thoughts(part: Part) -> bool:
    """True if the part's signature carries thoughts."""
    return (part.thought_signature or "").startswith(_MARK)


def _seal(thoughts: list[CarriedThought]) -> str:
    return _MARK + encode_value(thoughts).decode()


def _open(signature: str | None) -> list[CarriedThought]:
    if signature is None or not signature.startswith(_MARK):
        return []
    try:
        return msgspec.json.decode(signature.removeprefix(_MARK), type=list[CarriedThought])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return []


def _insert(parts: list[Part], thought: CarriedThought, after: int) -> None:
    """Inserts a thought after so many characters of text, and after thoughts at the same place."""
    at = 0
    while at < len(parts) and (after > 0 or parts[at].thought):
        part = parts[at]
        text = "" if part.thought else part.text or ""
        if len(text) > after:
            parts[at : at + 1] = [
                replace(part, text=text[:after]),
                replace(part, text=text[after:]),
            ]
        after -= min(len(text), after)
        at += 1
    parts.insert(at, Part(text=thought.text, thought=True, thought_signature=thought.signature))
