"""Remedies of errors as a person inside a session can carry them out."""

import re

_REMEDIES = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"Choose another with -m, and check \S+ if it is set", "Choose another with /model"),
        (r"([Cc])hoose (another|one|a) model with -m", r"\1hoose \2 model with /model"),
        (r"Choose a model that is served with -m", "Choose one that is served with /model"),
        (r"[Uu]se -m MODEL", "choose another with /model"),
        (r"Set GEMINI_API_KEY to a valid key \([^)]*\)", "Enter another with /auth"),
        (r"Get one at (\S+) and set GEMINI_API_KEY,[^.]*\.", r"Get one at \1 and enter it: /auth."),
        (r"(?:Sign in again|Start again|Run): alhena auth login", "Sign in with /auth"),
        (r"alhena mcp (\w+) (\S+) \(or (/mcp \1 \2)\)", r"\3"),
        (r"Raise --max-\w+ or (model\.[\w.]+\w)", r"Raise it with /settings \1"),
    )
)


def sitting_words(message: str) -> str:
    """A message whose remedies name commands of the session in place of flags and variables."""
    for pattern, words in _REMEDIES:
        message = pattern.sub(words, message)
    return message
