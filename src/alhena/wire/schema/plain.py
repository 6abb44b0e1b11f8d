"""Which schemas need no adapting; cheap, for it is asked of every tool when a session starts."""

from alhena.wire.plain import as_array, as_object
from alhena.wire.schema.keywords import is_meant

MAX_DEPTH = 12
MAX_NODES = 400
_VALUES = frozenset(
    {
        *("type", "title", "description", "default", "examples", "enum", "const", "required"),
        *("minLength", "maxLength", "pattern", "format", "minimum", "maximum", "minItems"),
        *("maxItems", "exclusiveMinimum", "exclusiveMaximum", "uniqueItems"),
    }
)


def is_plain(given: object) -> bool:
    """Whether `given` is what `local.local_schema` would make of it, seen at a glance; False
    means "perhaps not"."""
    root = as_object(given)
    if root is None or root.get("type") != "object":
        return False
    waiting: list[tuple[object, int]] = [(root, 0)]
    seen = 0
    while waiting:
        value, depth = waiting.pop()
        node = as_object(value)
        seen += 1
        if node is None or depth > MAX_DEPTH or seen > MAX_NODES:
            return False
        for key, item in node.items():
            if key in _VALUES:
                if not is_meant(key, item):
                    return False
                continue
            if key == "properties" and (below := as_object(item)) is not None:
                waiting.extend((schema, depth + 1) for schema in below.values())
            elif key == "items" or (key == "additionalProperties" and not isinstance(item, bool)):
                waiting.append((item, depth + 1))
            elif key == "anyOf" and (branches := as_array(item)):
                waiting.extend((branch, depth + 1) for branch in branches)
            elif key != "additionalProperties":
                return False
    return True
