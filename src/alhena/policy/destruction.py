"""Commands that destroy what lies beyond the workspace."""

import os
import re
from collections.abc import Iterable, Sequence

from alhena.policy.bash.model import Effect, Part, Word
from alhena.policy.bash.options import base_name
from alhena.policy.bash.reach import Command
from alhena.policy.surroundings import Surroundings

_REMOVES = frozenset({"rm", "rmdir", "shred", "unlink"})
_FORMATS = frozenset(
    {"blkdiscard", "fdisk", "mke2fs", "mkswap", "parted", "sfdisk", "sgdisk", "wipefs"}
)
_WRITES = frozenset({"cp", "dd", "install", "mv", "tee"})
_HOME = re.compile(r"^\$(HOME\b|\{HOME\})")
_HARMLESS = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/fd/", "/dev/shm/")  # noqa: S108
_TEMPORARY = ("/tmp/", "/var/tmp/")  # noqa: S108 - what is below is made to be removed


def destroys(
    commands: Iterable[Command], part: Part, place: str | None, facts: Surroundings | None
) -> str | None:
    """The reason why commands would destroy something beyond the workspace, None when they surely
    or probably do not. `place` is where they run, None where that is outside or unknown."""
    for each in part.redirections:
        if each.effect is Effect.WRITE and each.target and _is_device(each.target.text):
            return f"{each.source} writes to a device"
    for command in commands:
        name = base_name(command.words[0].text) if command.words else ""
        words = command.words[1:]
        if name in _FORMATS or name.startswith("mkfs"):
            return f"{name} formats a device"
        if name in _WRITES and any(_is_device(each.text.removeprefix("of=")) for each in words):
            return f"{name} writes to a device"
        if name in _REMOVES:
            removed: Sequence[Word] = [each for each in words if each.text[:1] != "-"]
        elif name == "find" and any(each.text in {"-delete", "rm"} for each in words):
            removed = words[:1]
        else:
            continue
        for word in removed:
            if _is_outside(word, place, facts):
                return f"{name} removes {word.source or word.text}, outside the workspace"
    return None


def _is_device(text: str) -> bool:
    return text.startswith("/dev/") and not text.startswith(_HARMLESS)


def _is_outside(word: Word, place: str | None, facts: Surroundings | None) -> bool:
    text = word.text
    if word.source.startswith("~") or not text:
        text = _HOME.sub("~", word.source.strip('"'))
    if not text or "$" in text:  # known only when it runs
        return False
    path = os.path.expanduser(text)
    if place is None and not os.path.isabs(path):
        return True
    path = os.path.normpath(os.path.join(place or "/", path))
    if facts is not None and facts.contains(path):
        return False
    if f"{path}/".startswith(_TEMPORARY) and f"{path}/" not in _TEMPORARY:
        return any(f"{each}/".startswith(f"{path}/") for each in (place, os.path.expanduser("~")))
    return facts is not None or os.path.isabs(text) or text[:1] == "~" or ".." in text.split("/")
