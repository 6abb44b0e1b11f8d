"""Prompts of programs: text, parts and media."""

from collections.abc import Iterable, Sequence
from typing import Any, cast

from alhena.library.options import sequence_of
from alhena.tools.media import Medium
from alhena.wire.content import Part

Prompt = str | Part | Medium | Sequence[str | Part | Medium]


def parts_of(prompt: Prompt) -> tuple[tuple[Part, ...], str, tuple[Part, ...]]:
    """The parts before the first text of a prompt, that text, and what follows, as parts. Raises
    TypeError."""
    if isinstance(prompt, str | Part | Medium):
        prompt = (prompt,)
    if not isinstance(cast("object", prompt), Iterable):
        raise TypeError(f"prompt has to be text, Parts and media, not {prompt!r:.60}")
    items: tuple[Any, ...] = sequence_of("prompt", prompt)
    before: list[Part] = []
    text = ""
    after: list[Part] = []
    for item in items:
        if isinstance(item, Medium):
            item = item.part
        if isinstance(item, Part):
            (after if text else before).append(item)
        elif not isinstance(item, str):
            raise TypeError(f"prompt has to be text, Parts and media, not {type(item).__name__}")
        elif text:
            after.append(Part(text=item))
        else:
            text = item
    return tuple(before), text, tuple(after)
