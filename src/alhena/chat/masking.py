"""The fill of a model's window, and old results of tools masked to make room in it."""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

import msgspec

from alhena.chat.chat import Chat
from alhena.chat.estimates import (
    config_tokens,
    content_tokens,
    media_tokens,
    response_tokens,
    text_tokens,
)
from alhena.chat.history import History
from alhena.wire.content import USER, Content, EncodedContent, FunctionResponse, Part, encode_value
from alhena.wire.request import GenerateContentConfig

Keep = Callable[[Sequence[tuple[str, str, str]]], Sequence[str | None]]
"""Keeps texts (tool, id of the call, text) on the disk: where each is, or None when it could not
be."""

EXEMPT = frozenset({"activate_skill", "ask_user", "enter_plan_mode", "exit_plan_mode"})
"""Tools whose answers steer everything that follows."""

OPEN, CLOSE = "<tool_output_masked>", "</tool_output_masked>"
FULL_AT = "Full output available at: "
MASK_LENGTH = 8_000
"""Characters that no mask exceeds."""

_SHELL = frozenset({"run_shell_command", "read_background_output"})
_LINES = 10
_END = 250
_LINE_END = 1_500


class MaskingLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens. The newest `protected` of results stay as they are; nothing is masked before `least`
    can be. With `latest` the last content stays, whatever is in it."""

    protected: int = 50_000
    least: int = 30_000
    latest: bool = True


def maskable_tokens(content: Content) -> int:
    """Tokens of the results in a content that could be masked."""
    return sum(
        int(response_tokens(part.function_response))
        for part in content.parts
        if part.function_response is not None and _is_maskable(part.function_response)
    )


def to_mask(entries: Sequence[EncodedContent], limits: MaskingLimits) -> dict[int, frozenset[int]]:
    """Results to mask: positions of contents and of their parts. The result that fills the
    protected amount may itself be masked. Empty if masking saves too little."""
    found: dict[int, frozenset[int]] = {}
    seen = prunable = 0
    for index in range(len(entries) - 1 - limits.latest, -1, -1):
        parts = entries[index].content.parts
        chosen: set[int] = set()
        for place in range(len(parts) - 1, -1, -1):
            response = parts[place].function_response
            if response is None or not _is_maskable(response):
                continue
            tokens = int(response_tokens(response))
            seen += tokens
            if seen > limits.protected:
                chosen.add(place)
                prunable += tokens
        if chosen:
            found[index] = frozenset(chosen)
    return found if prunable >= limits.least else {}


def mask_results(
    contents: Mapping[int, Content],
    places: Mapping[int, frozenset[int]],
    keep: Keep,
    *,
    always: bool = False,
) -> dict[int, Content]:
    """Those of `contents` that change when the results at these places are masked. A result that
    cannot be kept on the disk stays whole, unless masked `always`; so does one that would not be
    shorter."""
    found: list[tuple[int, int, FunctionResponse]] = []
    for index, chosen in places.items():
        parts = contents[index].parts
        for place in sorted(chosen):
            response = parts[place].function_response
            if response is not None and _is_worth_it(response):
                found.append((index, place, response))
    texts = [
        (response.name, response.id or "", result_text(response)[1]) for _, _, response in found
    ]
    changed: dict[int, list[Part]] = {}
    for (index, place, response), path in zip(found, keep(texts), strict=True):
        mask = _mask(response, path)
        if (path is None and not always) or mask is None:
            continue
        parts = changed.setdefault(index, list(contents[index].parts))
        parts[place] = msgspec.structs.replace(parts[place], function_response=mask)
    return {
        index: msgspec.structs.replace(contents[index], parts=tuple(parts))
        for index, parts in changed.items()
    }


def preview(name: str, text: str) -> str:
    """The beginning and the end of a result: lines of a command's, characters of any other."""
    if name in _SHELL:
        lines = text.split("\n")
        if len(lines) <= 2 * _LINES:
            return _ends(text, _LINE_END)
        first, last = "\n".join(lines[:_LINES]), "\n".join(lines[-_LINES:])
        omitted = len(lines) - 2 * _LINES
        return (
            f"{_ends(first, _LINE_END)}\n... [{omitted:,} lines omitted] ...\n"
            f"{_ends(last, _LINE_END)}"
        )
    return _ends(text, _END)


def result_text(response: FunctionResponse) -> tuple[str, str]:
    """Under which key a result says something, and what; as JSON when it is not one text."""
    if len(response.response) == 1:
        (key, value), *_ = response.response.items()
        if isinstance(value, str):
            return key, value
    return "output", encode_value(response.response).decode("utf-8")


def _is_worth_it(response: FunctionResponse) -> bool:
    text = result_text(response)[1]
    return text_tokens(preview(response.name, text)) + len(OPEN) <= text_tokens(text)


def _mask(response: FunctionResponse, path: str | None) -> FunctionResponse | None:
    """The masked result; None when it would not be shorter."""
    key, text = result_text(response)
    where = "It could not be kept on the disk." if path is None else f"{FULL_AT}{path}"
    shown = preview(response.name, text)
    mask = f"{OPEN}\n{shown}\n\nOutput too large. {where}\n{CLOSE}"
    if text_tokens(mask) >= text_tokens(text):
        return None
    return msgspec.structs.replace(response, response={key: mask})


def _is_maskable(response: FunctionResponse) -> bool:
    if response.name in EXEMPT or not response.response:
        return False
    if len(response.response) > 1:
        return True
    (value,) = response.response.values()
    return not (isinstance(value, str) and value.startswith(OPEN) and len(value) <= MASK_LENGTH)


def _ends(text: str, size: int) -> str:
    if len(text) <= 2 * size:
        return text
    return f"{text[:size]}\n... [TRUNCATED] ...\n{text[len(text) - size :]}"


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

    @property
    def overhead(self) -> int:
        """Tokens of what goes with every request."""
        return self._overhead

    @property
    def history_tokens(self) -> int:
        """Tokens of a request with the current history: as the service counted them, as far
        as it has."""
        if self._measure is None:
            return self._overhead + self._sums[-1]
        length, tokens = self._measure
        return tokens + self._sums[-1] - self._sums[length]

    @property
    def scale(self) -> float:
        """The number of tokens the service counts for one that is estimated; 1 where it has not."""
        estimated = self._overhead + self._sums[-1]
        return self.history_tokens / estimated if estimated else 1.0

    def unmeasured_contents(self, parts: tuple[Part, ...]) -> tuple[EncodedContent, ...]:
        """Contents that the service has not counted yet, with `parts` as the next to send."""
        length = 0 if self._measure is None else self._measure[0]
        pending = (EncodedContent(Content(role=USER, parts=parts)),) if parts else ()
        return (*self._entries[length:], *pending)

    def unmeasured_tokens(self, parts: tuple[Part, ...]) -> tuple[int, int]:
        """The estimate of that, and how much of it is a guess about media."""
        length = 0 if self._measure is None else self._measure[0]
        pending = Content(role=USER, parts=parts)
        media = self._media[-1] - self._media[length] + media_tokens(pending)
        return self._sums[-1] - self._sums[length] + content_tokens(pending), media

    def record_count(self, parts: tuple[Part, ...], tokens: int) -> None:
        """Records that the uncounted contents and the next `parts` need so many. They
        are taken to be spread over it as it was estimated to be; unless a text would have to be
        more than twice its estimate: then the media are what is more."""
        fresh, media = self.unmeasured_tokens(parts)
        pending = Content(role=USER, parts=parts)
        old, more = fresh - content_tokens(pending), tokens - fresh
        if media and more > fresh - media:
            now = old + more * (media - media_tokens(pending)) // media
        else:
            now = old * tokens // max(1, fresh)
        self.record_replacement(self.history_tokens - old + now)

    def record_replacement(self, tokens: int) -> None:
        """Takes note of a history that took the place of the last one and needs about `tokens`."""
        self.follow()
        self._measure = (len(self._entries), tokens)

    def _take(self, contents: Sequence[EncodedContent], known: int) -> None:
        """Continues from the first `known` contents; those that were looked at where they are now
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
