"""Tool names that Gemini does not take, under names that it takes, and back (conformance T1)."""

import re
from collections.abc import Iterable

MAX_LENGTH = 63
_VALID = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}\Z")


class ToolNames:
    """The names of one conversation. A name that Gemini takes stands for itself; the name made for
    another depends on that one only, so that it is the same in each request."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._originals: dict[str, str] = {}
        for name in names:
            self.wire(name)

    def wire(self, name: str) -> str:
        """The name to send for `name`."""
        sent = name if _VALID.match(name) else _made(name)
        self._originals.setdefault(sent, name)
        return sent

    def original(self, sent: str) -> str:
        """The name that `sent` was made for; an unknown one stays as it is."""
        return self._originals.get(sent, sent)


def _made(name: str) -> str:
    from hashlib import sha256

    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[: MAX_LENGTH - 10]
    lead = "" if readable[:1].isalpha() or readable[:1] == "_" else "_"
    return f"{lead}{readable}_{digest}"
