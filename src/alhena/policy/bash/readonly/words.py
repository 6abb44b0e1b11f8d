"""What surely holds of a word whose text is not all known, and which places are not only read."""

from alhena.policy.bash.model import Word, WordKind


def listed(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


_PIPE = "<("
"""A process substitution becomes the name of a pipe, /dev/fd/63."""
_OPEN_PLACES = frozenset({"/dev/null", "/dev/stdin"})
_OPEN_PROC = listed(
    "cgroups cmdline cpuinfo diskstats filesystems loadavg meminfo modules mounts net partitions "
    "stat swaps sys uptime version vmstat"
)


def one_word(word: Word) -> bool:
    """Is the word surely one word when bash has expanded it?"""
    return word.literal or not word.split


def surely_operand(word: Word) -> bool:
    """Does nothing that the word expands to begin with a dash (`-` alone aside)?"""
    first = word.text[:1]
    match word.kind:
        case WordKind.LITERAL:
            return first != "-" or word.text == "-"
        case WordKind.EXPANSION:
            known = first not in {"", "-"} or word.source.startswith(_PIPE)
            return known and not word.split
        case WordKind.PATTERN:
            expands = "$" in word.source or "`" in word.source
            return not expands and (first not in {"", "-"} or word.source[:1] == "~")


def closed_place(word: Word) -> str | None:
    """Why reading what this word names is more than reading a file, else None. Devices may have
    no end, processes hold environments."""
    text = word.text
    if "dev" not in text and "proc" not in text:
        return None
    start = text.find("/")
    before = text[:start]
    if start < 0 or not (not before or before.endswith("=") or _is_short_option(before)):
        return None
    from posixpath import normpath

    path = "/" + normpath(text[start:]).lstrip("/")
    parts = path.split("/")
    if parts[1] == "dev" and (not word.literal or not _open_device(path)):
        return f"{word.source or text} names a device"
    if parts[1] == "proc" and (len(parts) == 2 or parts[2] not in _OPEN_PROC):
        return f"{word.source or text} may show the environment of a process"
    return None


def _open_device(path: str) -> bool:
    return path in _OPEN_PLACES or path.startswith("/dev/fd/")


def _is_short_option(text: str) -> bool:
    return len(text) == 2 and text[0] == "-"


def could_begin_with(word: Word, prefix: str) -> bool:
    """Could the text of a word that is not all known begin with `prefix`?"""
    if word.text:
        return word.text.startswith(prefix) or (
            not word.literal and prefix.startswith(word.text) and not _is_plain_glob(word)
        )
    return not (word.literal or word.source.startswith((_PIPE, "~", "*", "?", "[")))


def _is_plain_glob(word: Word) -> bool:
    return word.kind is WordKind.PATTERN and not word.text.startswith("/")
