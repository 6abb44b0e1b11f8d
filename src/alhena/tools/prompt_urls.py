"""Finds URLs in a prompt, limits requests per host, and marks text as untrusted."""

import re
from collections import deque
from collections.abc import Callable

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
    """The distinct URLs of a prompt in order, and the problems of invalid ones.

    Every word with "://" must be, or contain, an http(s) URL.
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
    """Strips trailing punctuation of the sentence from a URL."""
    while 0 < len(url) <= _LONGEST:
        last = url[-1]
        opener = _CLOSERS.get(last)
        unbalanced = opener is not None and url.count(last) > url.count(opener)
        if last not in _TRAILING and not unbalanced:
            break
        url = url[:-1]
    return url


_MANY = 1000


class HostRate:
    """Limits requests by host. `clock` is monotonic, in seconds."""

    def __init__(self, limit: int, period: float, clock: Callable[[], float]) -> None:
        self._limit = limit
        self._period = period
        self._clock = clock
        self._asked: dict[str, deque[float]] = {}

    def wait(self, host: str) -> float:
        """Returns 0 and counts a request if the host may be asked now; else the seconds to wait."""
        now = self._clock()
        if len(self._asked) > _MANY:
            self._asked = {
                name: times for name, times in self._asked.items() if now - times[-1] < self._period
            }
        times = self._asked.setdefault(host, deque())
        while times and now - times[0] >= self._period:
            times.popleft()
        if len(times) >= self._limit:
            return self._period - (now - times[0])
        times.append(now)
        return 0.0


_OPEN, _CLOSE = "<untrusted_context>", "</untrusted_context>"


def untrusted(text: str) -> str:
    """`text` between marks that it cannot close itself."""
    return f"{_OPEN}\n{escaped(text, 'untrusted_context')}\n{_CLOSE}"


def escaped(text: str, *tags: str) -> str:
    """Escapes every spelling of the closing forms of these tags in `text`."""
    for tag in tags:
        text = text.replace(f"</{tag}>", f"&lt;/{tag}&gt;")
    if "<" not in text:
        return text
    import re

    names = "|".join(re.escape(tag) for tag in tags)
    return re.sub(rf"<(?=\s*/\s*(?:{names})\b)", "&lt;", text, flags=re.IGNORECASE)
