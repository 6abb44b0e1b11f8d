"""Tool names that the other side does not take, under names that it takes, and back (T1)."""

import re
from collections.abc import Iterable

MAX_LENGTH = 63
_VALID = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}\Z")
_VALID_ELSEWHERE = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


class ToolNames:
    """The names of one conversation of a client of another dialect, for Gemini. A name that Gemini
    takes stands for itself; the name made for another depends on that one only, so that it is the
    same in each request, unless a tool that came before it has that very name."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._originals: dict[str, str] = {}
        self._sent: dict[str, str] = {}
        for name in names:
            self.wire(name)

    def wire(self, name: str) -> str:
        """The name to send for `name`."""
        sent = self._sent.get(name)
        if sent is None:
            sent = self._sent[name] = _free(name, _VALID, self._originals)
            self._originals[sent] = name
        return sent

    def original(self, sent: str) -> str:
        """The name that `sent` was made for; an unknown one stays as it is."""
        return self._originals.get(sent, sent)

    def knows(self, name: str) -> bool:
        """Whether `name`, as the other side says it, has come up."""
        return name in self._sent


class ServiceNames(ToolNames):
    """The other way round: the names of a conversation of ours, for a service of another dialect,
    which takes up to 64 letters, digits, "_" and "-". `original` gives the service's name for one
    of ours, `wire` ours for one of the service.

    Made from all names of a request at once: those that the service takes stand for themselves, and
    no name made for another is one of them.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        super().__init__()
        known = dict.fromkeys(names)
        taken = {name: name for name in known if _VALID_ELSEWHERE.match(name)}
        for name in sorted(known.keys() - taken.keys()):
            taken[_free(name, _VALID_ELSEWHERE, taken)] = name
        self._ours = taken
        self._theirs = {name: sent for sent, name in taken.items()}

    def wire(self, name: str) -> str:
        """Our name for the service's `name`; an unknown one stays as it is."""
        return self._ours.get(name, name)

    def original(self, sent: str) -> str:
        """The service's name for `sent`, which is one of ours."""
        return self._theirs.get(sent, sent)

    def knows(self, name: str) -> bool:
        """Whether `name`, as the service says it, is that of a tool."""
        return name in self._ours


def _free(name: str, valid: "re.Pattern[str]", taken: dict[str, str]) -> str:
    """`name`, or one made for it, that none of the `taken` names is."""
    sent = name if valid.match(name) else _made(name)
    again = 0
    while sent in taken:
        again += 1
        sent = _made(name, again)
    return sent


def _made(name: str, again: int = 0) -> str:
    from hashlib import sha256

    told = f"{name}\0{again}" if again else name
    digest = sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[: MAX_LENGTH - 10]
    lead = "" if readable[:1].isalpha() or readable[:1] == "_" else "_"
    return f"{lead}{readable}_{digest}"
