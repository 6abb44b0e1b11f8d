"""The URLs in a prompt, as people and models write them: bare, in brackets, in Markdown links."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alhena.system.web.url import WebUrl

_URL = r"[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s<>\"`]*"
_LONGEST = 10_000
_NEXT = r"[,;|)\]](?=https?://)"
_TRAILING = ".,;:!?'*~\u2026\u3001\u3002\uff0c\uff1b\uff1a\uff01\uff1f\u201d\u2019"
_CLOSERS = {
    ")": "(",
    "]": "[",
    "}": "{",
    "\uff09": "\uff08",
    "\u3011": "\u3010",
    "\u300b": "\u300a",
    "\u300d": "\u300c",
    "\u300f": "\u300e",
}


def urls_in(prompt: str) -> tuple[list["WebUrl"], list[str]]:
    """The different URLs of a prompt in their order, and what is wrong with others.

    Every word that holds "://" has to be, or to hold, an http(s) URL.
    """
    from alhena.system.web.url import UrlError, parse_web_url

    urls: dict[str, WebUrl] = {}
    problems: dict[str, None] = {}
    for text in _candidates(prompt):
        try:
            url = parse_web_url(text)
        except UrlError as error:
            problems[error.message] = None
        else:
            urls.setdefault(url.key, url)
    return list(urls.values()), list(problems)


def _candidates(prompt: str) -> list[str]:
    found: list[str] = []
    for word in prompt.split():
        if "://" not in word:
            continue
        matches = re.findall(_URL, word)
        for match in matches or [word]:
            found += (_trimmed(piece) for piece in re.split(_NEXT, match))
    return found


def _trimmed(url: str) -> str:
    """A URL without the punctuation of the sentence that it ends."""
    while 0 < len(url) <= _LONGEST:
        last = url[-1]
        opener = _CLOSERS.get(last)
        unbalanced = opener is not None and url.count(last) > url.count(opener)
        if last not in _TRAILING and not unbalanced:
            break
        url = url[:-1]
    return url
