"""References within a schema. Nothing is ever fetched."""

from typing import Any
from urllib.parse import unquote

from alhena.wire.plain import as_array, as_object


class _Missing:
    """Where a pointer leads when it leads nowhere."""


MISSING = _Missing()


def target(root: object, reference: object) -> object:
    """What a local reference ("#", "#/a/b") means in `root`; MISSING when there is no such thing,
    or it is not local."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return MISSING
    pointer = unquote(reference[1:])
    if pointer and not pointer.startswith("/"):
        return MISSING
    value = root
    for token in pointer.split("/")[1:]:
        value = _member(value, token.replace("~1", "/").replace("~0", "~"))
    return value


def _member(value: object, token: str) -> object:
    if (fields := as_object(value)) is not None:
        return fields.get(token, MISSING)
    items = as_array(value)
    if items is not None and token.isascii() and token.isdigit() and len(token) < 10:
        return items[int(token)] if int(token) < len(items) else MISSING
    return MISSING


def refers_to_itself(schema: dict[str, Any]) -> bool:
    """Whether a reference leads back to a schema that it stands in."""
    above: set[int] = set()
    done: set[int] = set()
    waiting: list[tuple[object, bool]] = [(schema, False)]
    while waiting:
        value, leaving = waiting.pop()
        if leaving:
            above.discard(id(value))
            done.add(id(value))
            continue
        if id(value) in above:
            return True
        below = _below(value, schema)
        if not below or id(value) in done:
            continue
        above.add(id(value))
        waiting.append((value, True))
        waiting.extend((item, False) for item in below)
    return False


def _below(value: object, root: object) -> list[object]:
    """What a value holds, and what it refers to."""
    fields = as_object(value)
    if fields is None:
        return [] if isinstance(value, tuple) else list(as_array(value) or ())
    found = list(fields.values())
    if "$ref" in fields and (meant := target(root, fields["$ref"])) is not MISSING:
        found.append(meant)
    return found
