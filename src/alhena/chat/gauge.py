"""How full a model's window is: what the service counted last, and an estimate of the rest."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from alhena.chat.chat import Chat
from alhena.chat.estimates import config_tokens, content_tokens, media_tokens
from alhena.chat.history import History
from alhena.chat.masking import maskable_tokens
from alhena.wire.content import USER, Content, Part
from alhena.wire.encoded import EncodedContent
from alhena.wire.request import GenerateContentConfig


class Gauge:
    """Follows the history of a chat. A content is looked at once; what a request costs is no more
    than what is new."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._history: History | None = None
        self._restated = 0
        self._entries: list[EncodedContent] = []
        self._sums = [0]
        self._outputs = [0]
        self._media = [0]
        self._config: GenerateContentConfig | None = None
        self._overhead = 0
        self._seen: tuple[int, int] | None = None
        self._measure: tuple[int, int] | None = None

    def follow(self) -> None:
        """Takes note of what has changed since the last time."""
        chat, history = self._chat, self._chat.history
        contents = history.contents
        known = min(len(self._entries), len(contents))
        if history is not self._history or history.restatements != self._restated:
            self._history, self._restated = history, history.restatements
            self._measure, known = None, 0
        while known and self._entries[known - 1] is not contents[known - 1]:
            known -= 1
        self._take(contents, known)
        if chat.measured is not self._seen:
            self._seen = self._measure = chat.measured
        if self._measure is not None and self._measure[0] > len(contents):
            self._measure = None
        if chat.config is not self._config:
            self._config, self._overhead = chat.config, config_tokens(chat.config)

    @property
    def sums(self) -> Sequence[int]:
        """For each position in the history, and its end, the tokens estimated before it."""
        return self._sums

    @property
    def outputs(self) -> int:
        """Tokens of results that could be masked."""
        return self._outputs[-1]

    def outputs_older(self, tokens: int, end: int) -> int:
        """The position before which results are that come before the last so many tokens of them,
        in the first `end` contents."""
        return bisect_left(self._outputs, self._outputs[end] - tokens, 0, end)

    @property
    def overhead(self) -> int:
        """Tokens of what goes with every request."""
        return self._overhead

    @property
    def history_tokens(self) -> int:
        """Tokens of a request with the history as it stands: as the service counted them, as far
        as it has."""
        if self._measure is None:
            return self._overhead + self._sums[-1]
        length, tokens = self._measure
        return tokens + self._sums[-1] - self._sums[length]

    @property
    def scale(self) -> float:
        """How many tokens the service counts for one that is estimated; 1 where it has not."""
        estimated = self._overhead + self._sums[-1]
        return self.history_tokens / estimated if estimated else 1.0

    def unmeasured(self, parts: tuple[Part, ...]) -> tuple[EncodedContent, ...]:
        """What the service has not counted yet, `parts` being sent next."""
        length = 0 if self._measure is None else self._measure[0]
        pending = (EncodedContent(Content(role=USER, parts=parts)),) if parts else ()
        return (*self._entries[length:], *pending)

    def unmeasured_tokens(self, parts: tuple[Part, ...]) -> tuple[int, int]:
        """The estimate of that, and how much of it is a guess about media."""
        length = 0 if self._measure is None else self._measure[0]
        pending = Content(role=USER, parts=parts)
        media = self._media[-1] - self._media[length] + media_tokens(pending)
        return self._sums[-1] - self._sums[length] + content_tokens(pending), media

    def counted(self, parts: tuple[Part, ...], tokens: int) -> None:
        """Takes note that what nobody had counted yet, `parts` being sent next, needs so many. They
        are taken to be spread over it as it was estimated to be; unless a text would have to be
        more than twice its estimate: then the media are what is more."""
        fresh, media = self.unmeasured_tokens(parts)
        pending = Content(role=USER, parts=parts)
        old, more = fresh - content_tokens(pending), tokens - fresh
        if media and more > fresh - media:
            now = old + more * (media - media_tokens(pending)) // media
        else:
            now = old * tokens // max(1, fresh)
        self.replaced(self.history_tokens - old + now)

    def replaced(self, tokens: int) -> None:
        """Takes note of a history that took the place of the last one and needs about `tokens`."""
        self.follow()
        self._measure = (len(self._entries), tokens)

    def _take(self, contents: Sequence[EncodedContent], known: int) -> None:
        """Goes on from the first `known` contents; those that were looked at where they are now
        are not looked at again."""
        old = self._entries[known:]
        sums = (self._sums, self._outputs, self._media)
        gone = [each[known:] for each in sums]
        del self._entries[known:]
        for each in sums:
            del each[known + 1 :]
        if old and self._measure is not None and self._measure[0] > known:
            self._measure = None
        for place, entry in enumerate(contents[known:]):
            if place < len(old) and old[place] is entry:
                tokens = [each[place + 1] - each[place] for each in gone]
            else:
                content = entry.content
                measures = (content_tokens, maskable_tokens, media_tokens)
                tokens = [measure(content) for measure in measures]
            self._entries.append(entry)
            for each, more in zip(sums, tokens, strict=True):
                each.append(each[-1] + more)


def prefix_sums(entries: Sequence[EncodedContent]) -> list[int]:
    """For each position, and the end, the tokens estimated before it."""
    return list(accumulate((content_tokens(entry.content) for entry in entries), initial=0))
