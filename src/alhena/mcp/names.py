"""Under which names the tools of servers are declared (MCP-02).

The bare name where nothing else has it, else `server__tool`, else that with a hash. The order of
the settings decides, not who connected first; a name that a model has been told is never given to
another tool for the rest of the session.
"""

import re
from collections.abc import Callable, Iterable, Sequence

from alhena.tools.names import MAX_NAME_LENGTH, qualified_names

_INVALID = re.compile(r"[^A-Za-z0-9_.-]")
_HEAD, _GAP, _HASH = 28, "___", 8

Key = tuple[str, str]
"""A server and the name it has for a tool."""


def valid_name(name: str) -> str:
    """`name` in letters, digits, `_`, `.` and `-`, at most 63 of them: the first 28, `___` and the
    last 32 of a longer one. One that begins otherwise leaves room for a leading underscore."""
    valid = _INVALID.sub("_", name)
    room = MAX_NAME_LENGTH - (not valid[:1].isalpha() and valid[:1] != "_")
    if len(valid) <= room:
        return valid
    return valid[:_HEAD] + _GAP + valid[len(valid) - (room - _HEAD - len(_GAP)) :]


def hashed_name(name: str, key: Key) -> str:
    """`name` with a few letters behind it that no other tool has."""
    from hashlib import sha256

    mark = sha256("\0".join(key).encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
    return f"{name[: MAX_NAME_LENGTH - _HASH - 2]}_{mark}"


def accepted_names(server: str, tool: str, *, alone: bool = True) -> tuple[str, ...]:
    """The ways to say "this tool of this server", as configured and, where it is `alone` with
    that, in valid letters."""
    tools = (tool, _INVALID.sub("_", tool)) if alone else (tool,)
    names = (
        name
        for known in dict.fromkeys((server, _INVALID.sub("_", server)))
        for each in dict.fromkeys(tools)
        for name in qualified_names(known, each)
    )
    return tuple(dict.fromkeys(names))


def claimed_names(key: Key) -> frozenset[str]:
    """All ways to say "this tool of this server", whichever name it is declared under."""
    server, tool = key
    return frozenset((*accepted_names(server, tool), *qualified_names(server, valid_name(tool))))


def ambiguous_names(keys: Iterable[Key]) -> frozenset[str]:
    """The ways to say "this tool of this server" that could be said of two of these: `mcp_a_b_c` is
    a tool of `a` and one of `a_b`."""
    owners: dict[str, Key] = {}
    found: set[str] = set()
    for key in keys:
        for name in claimed_names(key):
            if owners.setdefault(name, key) != key:
                found.add(name)
    return frozenset(found)


class Names:
    """The names of one session. `taken` says whether a tool that is no server's has a name."""

    def __init__(self, servers: Iterable[str], taken: Callable[[str], bool]) -> None:
        self._taken = taken
        known = (name for server in servers for name in (server, _INVALID.sub("_", server)))
        self._prefixes = tuple(prefix for name in known for prefix in (f"{name}__", f"mcp_{name}_"))
        self._told: dict[Key, str] = {}

    def assign(self, keys: Sequence[Key]) -> dict[Key, str]:
        """A name for each tool, in their order."""
        owners = {name: key for key, name in self._told.items()}
        given: dict[Key, str] = {}
        for key in dict.fromkeys(keys):
            name = self._told.get(key) or self._free(key, owners)
            owners[name] = key
            given[key] = name
        return given

    def tell(self, given: dict[Key, str]) -> None:
        """These names stay with their tools from now on."""
        self._told.update(given)

    def _free(self, key: Key, owners: dict[str, Key]) -> str:
        bare = valid_name(key[1])
        qualified = valid_name(f"{key[0]}__{key[1]}")
        # A name that reads like another server's tool would be taken for that.
        names = (qualified,) if bare.startswith(self._prefixes) else (bare, qualified)
        rival = owners.get(bare)
        if rival is not None and rival[0] == key[0]:
            names = ()  # `server__tool` means that one, also in what was approved of it
        for name in names:
            if name not in owners and not self._taken(name):
                return name
        return hashed_name(qualified, key)
