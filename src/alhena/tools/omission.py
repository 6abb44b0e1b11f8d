"""Placeholders by which a model leaves code out: a line such as "// rest of code ..."."""

import re
from pathlib import Path

_PLACEHOLDER = (
    r"(?:(?://|#|/\*|<!--|--|;|%|\*|\{/\*) ?)?\(? ?(?:(?:\.\.\.|\u2026) ?)?"
    r"(?:(?:the )?rest of (?:the )?|remaining |unchanged |existing )"
    r"(?:code|methods?|functions?|file|class|content|lines|implementation|imports)"
    r" ?(?:\.\.\.|\u2026) ?\)? ?(?:\*/\}?|-->)?"
)
_LONGEST = 120
_PROSE = frozenset({".adoc", ".markdown", ".md", ".mdx", ".org", ".rst", ".tex", ".text", ".txt"})
_QUOTES = ('"""', "'''", "`")
"""Delimiters of strings of several lines, in the languages that have them."""


def omission_placeholder(path: Path, text: str, known: str) -> str | None:
    """The first placeholder in `text`, the proposed content of the file at `path`; None without.

    Prose, strings of several lines and lines that are already in the file (`known`) are not
    searched.
    """
    prose = path.suffix.lower() in _PROSE or (not path.suffix and path.name.isupper())  # README
    if prose or not ("..." in text or "\u2026" in text):
        return None
    at = 0
    for line in text.split("\n"):
        stripped = line.strip()
        # One blank for each run of them: the pattern then has nothing to try twice.
        if (
            len(stripped) <= _LONGEST
            and ("..." in stripped or "\u2026" in stripped)
            and re.fullmatch(_PLACEHOLDER, " ".join(stripped.split()), re.IGNORECASE)
            and stripped not in known
            and not any(text.count(quote, 0, at) % 2 for quote in _QUOTES)
        ):
            return stripped
        at += len(line) + 1
    return None
