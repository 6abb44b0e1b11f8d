"""The service's own thoughts in a conversation without thoughts.

The service wants the thoughts of an answer with calls back as they came, at their places. Thoughts
never enter the history, but signatures of calls do: the one of a call carries the thoughts before
it.
"""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from alhena.wire.content import Part, encode_value
from alhena.wire.dialects.fields import is_foreign

_MARK = "messages:"


class CarriedThought(msgspec.Struct, frozen=True, omit_defaults=True):
    """A thought with its own signature. `after` counts the characters of the answer's text that
    came before it."""

    text: str
    signature: str
    after: int = 0


def whole_thoughts(parts: Iterable[Part]) -> Iterator[Part]:
    """The parts, with the service's own thoughts in one piece each. A thought arrives in pieces,
    the last one signed. Other thoughts are left out."""
    text = ""
    for part in parts:
        if not part.thought:
            text = ""
            yield part
            continue
        text += part.text or ""
        if part.thought_signature:
            if is_foreign(part.thought_signature):
                yield replace(part, text=text)
            text = ""


def carry_thoughts(parts: Iterable[Part]) -> list[Part]:
    """The parts without thoughts; the first call after thoughts carries them in its signature.
    Those that no call follows are left out: only calls need them."""
    made: list[Part] = []
    held: list[CarriedThought] = []
    said = 0
    for part in whole_thoughts(parts):
        if part.thought:
            held.append(CarriedThought(part.text or "", part.thought_signature or "", said))
            continue
        said += len(part.text or "")
        if held and part.function_call is not None and not part.thought_signature:
            part = replace(part, thought_signature=_MARK + encode_value(held).decode())
            held = []
        made.append(part)
    return made


def return_thoughts(parts: Iterable[Part]) -> list[Part]:
    """The parts with the thoughts that calls carry at their places, and without signatures."""
    made: list[Part] = []
    since: list[Part] = []  # after the last call
    said = before = 0
    for part in parts:
        plain = part if part.thought else replace(part, thought_signature=None)
        if part.function_call is None:
            said += 0 if part.thought else len(part.text or "")
            since.append(plain)
            continue
        for thought in _read_thoughts(part.thought_signature):
            _insert(since, thought, thought.after - before)
        made += [*since, plain]
        since, before = [], said
    return made + since


def _read_thoughts(signature: str | None) -> list[CarriedThought]:
    if signature is None or not signature.startswith(_MARK):
        return []
    try:
        return msgspec.json.decode(signature.removeprefix(_MARK), type=list[CarriedThought])
    except (msgspec.MsgspecError, UnicodeError):
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
