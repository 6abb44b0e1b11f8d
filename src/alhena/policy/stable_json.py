"""The form of a call's arguments that `argsPattern` is searched in (POL-05)."""

from collections.abc import Mapping
from typing import Any

import msgspec


def stable_json(args: Mapping[str, Any]) -> str:
    """`args` as compact JSON: keys sorted at every level, no spaces, non-ASCII as itself.

    The same arguments always give the same text, so `"command":"(git|npm)` is a usable pattern.
    A lone surrogate becomes its \\uXXXX escape. Raises ValueError for what has no JSON form or is
    nested too deeply.
    """
    try:
        return msgspec.json.encode(args, order="sorted").decode("utf-8")
    except UnicodeEncodeError:
        return _escaped(args)
    except (TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"the arguments have no JSON form: {error}") from error


def _escaped(args: Mapping[str, Any]) -> str:
    import json

    text = json.dumps(
        args, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return "".join(f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" else c for c in text)
