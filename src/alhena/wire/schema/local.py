"""Makes a schema self-contained: resolves references, limits depth and size (T10, T11).

Cut parts are replaced by a schema that accepts more, with a sentence in its description.
"""

from typing import Any

from alhena.wire.encoded import encode_value, mend
from alhena.wire.errors import EncodeError
from alhena.wire.json_values import as_array, as_object
from alhena.wire.schema.keywords import (
    MISSING,
    described,
    has_json_form,
    is_meant,
    note,
    present,
    target,
)
from alhena.wire.schema.openapi import SchemaError

MAX_DEPTH = 24
"""Maximum nesting of schemas. Deeper levels keep only types."""
MAX_NODES = 4000
MAX_BYTES = 200_000

ONE = frozenset(
    {
        *("items", "additionalProperties", "additionalItems", "not", "contains", "propertyNames"),
        *("if", "then", "else", "unevaluatedItems", "unevaluatedProperties"),
    }
)
SEVERAL = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
NAMED = frozenset({"properties", "patternProperties", "dependentSchemas"})
_GONE = frozenset(
    {
        *("$schema", "$id", "$anchor", "$comment", "$vocabulary", "$defs", "definitions"),
        *("$ref", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"),
    }
)
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ANNOTATIONS = frozenset({"title", "description", "default", "example", "examples", "deprecated"})
_TURNED = frozenset({"not", "if"})
"""Keywords under which accepting more means that the whole accepts less."""


def local_schema(schema: object) -> dict[str, Any]:
    """The schema of an object, without references, of bounded depth, as plain JSON.

    Raises SchemaError when it does not describe an object, or would be too large.
    """
    made = _Localizer(schema).root()
    try:
        size = len(encode_value(made))
    except UnicodeEncodeError:
        made = mend(made)
        size = len(encode_value(made))
    except EncodeError as error:
        raise SchemaError(f"the schema has no JSON form: {error}") from error
    if size > MAX_BYTES:
        raise SchemaError(f"the schema takes {size} bytes; {MAX_BYTES} are the limit.")
    return made


class _Localizer:
    def __init__(self, schema: object) -> None:
        self._root = schema
        self._left = MAX_NODES
        self._cuts = 0

    def root(self) -> dict[str, Any]:
        """The whole schema, of type "object"."""
        if as_object(self._root) is None:
            raise SchemaError("the schema is not a JSON object.")
        made = self._node(self._root, 0, ("#",))
        kinds = made.get("type", "object")
        kinds = as_array(kinds) or [kinds]
        if "object" not in kinds:
            raise SchemaError(f"the parameters are not an object but {kinds!r:.80}.")
        return {"type": "object", **made} if "type" not in made else made | {"type": "object"}

    def _node(self, value: object, depth: int, within: tuple[str, ...]) -> dict[str, Any]:
        """Converts one schema. `within` are the references followed so far."""
        self._left -= 1
        if self._left < 0:
            raise SchemaError(f"the schema has more than {MAX_NODES} nodes.")
        if value is True:
            return {}
        if value is False:
            return {"not": {}}
        node = as_object(value)
        if node is None:
            return self._cut({}, "what may stand here is not described")
        for keyword in _REFERENCES:
            if keyword in node:
                return self._referred(node, keyword, depth, within)
        if depth >= MAX_DEPTH:
            return self._cut(node, "deeper levels are not described")
        return self._keywords(node, depth, within)

    def _keywords(
        self, node: dict[str, Any], depth: int, within: tuple[str, ...]
    ) -> dict[str, Any]:
        made: dict[str, Any] = {}
        lost: list[str] = []
        meant = present(node, lost)
        if meant is not node and any(
            key not in _ANNOTATIONS and not is_meant(key, item) for key, item in node.items()
        ):
            self._cuts += 1
        for key, item in meant.items():
            if key in _GONE:
                continue
            before = self._cuts
            below = self._below(key, item, depth + 1, within)
            if self._cuts > before and (key in _TURNED or (key == "oneOf" and "anyOf" in node)):
                lost.append(f"{key}: not described")
            elif self._cuts > before and key == "oneOf":
                made["anyOf"] = below
            elif below is not MISSING:
                made[key] = below
            elif key not in SEVERAL:
                lost.append(note(key, item))
        return described(made, lost)

    def _referred(
        self, node: dict[str, Any], keyword: str, depth: int, within: tuple[str, ...]
    ) -> dict[str, Any]:
        """Resolves a reference, combined with its sibling keywords."""
        name = node[keyword]
        beside = {key: item for key, item in node.items() if key not in _REFERENCES}
        if not isinstance(name, str):
            return self._cut(beside, "a reference that is no text is not followed")
        meant = target(self._root, name)
        if meant is MISSING:
            return self._cut(beside, f"{name} is not described here")
        fields = as_object(meant)
        if name in within:
            reason = f"{name} again, in itself; not described again"
            return self._cut((fields or {}) | beside, reason)
        within = (*within, name)
        if fields is None or not beside:
            return self._node(meant, depth, within)
        if fields.keys() & beside.keys() <= _ANNOTATIONS and "$ref" not in fields:
            return self._node({**fields, **beside}, depth, within)
        told = {key: item for key, item in beside.items() if key in _ANNOTATIONS}
        rest = {key: item for key, item in beside.items() if key not in _ANNOTATIONS}
        return self._node({"allOf": [meant, *([rest] if rest else ())], **told}, depth, within)

    def _below(self, key: str, value: object, depth: int, within: tuple[str, ...]) -> Any:
        items = as_array(value)
        if key in SEVERAL:
            return [self._node(item, depth, within) for item in items or ()] or MISSING
        if key in ONE:
            if isinstance(value, bool):
                return value
            return self._node(value, depth, within)
        if key in NAMED:
            fields = as_object(value) or {}
            return {str(name): self._node(item, depth, within) for name, item in fields.items()}
        return value if has_json_form(value) else MISSING

    def _cut(self, node: dict[str, Any], reason: str) -> dict[str, Any]:
        """The top level of a schema: its type and description."""
        self._cuts += 1
        kept = {
            key: node[key] for key in ("title", "description") if isinstance(node.get(key), str)
        }
        if is_meant("type", node.get("type")):
            kept["type"] = node["type"]
        return described(kept, [reason])
