"""What surely holds of a word whose text is not all known."""

from alhena.policy.bash.model import Word, WordKind


def listed(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


_PIPE = "<("
"""A process substitution becomes the name of a pipe, /dev/fd/63."""


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


def could_begin_with(word: Word, prefix: str) -> bool:
    """Could the text of a word that is not all known begin with `prefix`?"""
    if word.text:
        return word.text.startswith(prefix) or (
            not word.literal and prefix.startswith(word.text) and not _is_plain_glob(word)
        )
    return not (word.literal or word.source.startswith((_PIPE, "~", "*", "?", "[")))


def _is_plain_glob(word: Word) -> bool:
    return word.kind is WordKind.PATTERN and not word.text.startswith("/")
