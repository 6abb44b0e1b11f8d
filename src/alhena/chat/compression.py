"""Room in a model's window: old results masked, old turns summarised, and the service's refusals
learned from (CHAT-06)."""

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Literal

import msgspec

from alhena.chat import summary as asking
from alhena.chat.chat import Chat
from alhena.chat.estimates import content_tokens, media_tokens
from alhena.chat.history import History
from alhena.chat.masking import Gauge, Keep, MaskingLimits, mask_results, prefix_sums, to_mask
from alhena.chat.summary import (
    Ask,
    AskInPlace,
    Cut,
    assemble_conversation,
    count_changed_parts,
    find_cut,
    media_in_words,
    refusal_note,
    replace_media,
    shorten_results,
    summary_content,
    whole_cut,
    without_beginning,
    without_media,
)
from alhena.chat.turn import ContextOverflowError
from alhena.display_text import one_line
from alhena.errors import AlhenaError, ModelError
from alhena.events import (
    CompressedEvent,
    ContextWindowWillOverflowEvent,
    Event,
    OutputsMaskedEvent,
    WarningEvent,
)
from alhena.models.errors import (
    MediaRefusedError,
    QuotaError,
    RequestRejectedError,
    UnusableAnswerError,
)
from alhena.wire.content import USER, Content, EncodedContent, Part

Trigger = Literal["manual", "auto"]
Count = Callable[[Sequence[EncodedContent]], Awaitable[int]]
"""Counts the tokens of contents at the service. Raises AlhenaError."""


class CompressionStatus(StrEnum):
    """Outcome of a compression."""

    COMPRESSED = "compressed"
    FAILED_INFLATED = "failed_inflated"
    FAILED_EMPTY = "failed_empty_summary"
    FAILED_REQUEST = "failed_request"
    NOOP = "noop"
    TRUNCATED = "content_truncated"


class CompressionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`threshold` is the share of the window from which a conversation is compressed; 0 or less for
    never, and what does not fit is left out then. With `beside_prompt` it is a share of the room
    beside the instruction and the declarations of tools. `masking` None: results are not masked
    before that. `role` is whose conversation it is, for events."""

    threshold: float = 0.5
    beside_prompt: bool = False
    masking: MaskingLimits | None = MaskingLimits()
    role: str = "main"


class CompressionServices(msgspec.Struct, frozen=True, kw_only=True):
    """Services that compression uses. `ask_in_place` is asked first, `ask` where that does not
    give an answer. `limit` gives a model's context window in tokens. `before` is
    awaited before each attempt, `after` is called when contents were removed."""

    ask: Ask
    keep: Keep
    limit: Callable[[str], int]
    emit: Callable[[Event], None]
    ask_in_place: AskInPlace | None = None
    count: Count | None = None
    before: Callable[[Trigger], Awaitable[None]] | None = None
    after: Callable[[], None] = lambda: None


_FORMS = (
    # Gemini: The input token count (1058724) exceeds the maximum number of tokens allowed (…).
    r"input token count\D{0,20}(?P<used>\d+)?.{0,40}?exceeds? the maximum.{0,60}?(?P<most>\d+)",
    # OpenAI: maximum context length is 128000 tokens. However, your messages resulted in 130000 …
    r"maximum context length is (?P<most>\d+) tokens(?:.{0,80}?(?P<used>\d+) tokens)?",
    # Anthropic: prompt is too long: 210000 tokens > 200000 maximum
    r"prompt is too long(?:: (?P<used>\d+) tokens > (?P<most>\d+))?",
    # Anthropic: input length and `max_tokens` exceed context limit: 181488 + 32000 > 200000
    r"exceed context limit: (?P<used>\d+) \+ (?P<answer>\d+) > (?P<most>\d+)",
    # llama.cpp: request (6024 tokens) exceeds the available context size (4096 tokens)
    r"(?:\((?P<used>\d+) tokens\) )?exceeds the available context size\D{0,20}(?P<most>\d+)?",
    # vLLM: The decoder prompt (length 5000) is longer than the maximum model length of 4096.
    r"prompt \(length (?P<used>\d+)\) is longer than the maximum model length of (?P<most>\d+)",
    # SGLang: The input (5000 tokens) is longer than the model's context length (4096 tokens).
    r"input \((?P<used>\d+) tokens\) is longer than the model's context length \((?P<most>\d+)",
    # vLLM: You passed 9001 input tokens … the model's context length is only 4096 tokens.
    r"passed (?P<used>\d+) input tokens.{0,80}?context length is only (?P<most>\d+)",
    # llama-cpp-python: Requested tokens (9000) exceed context window of 4096
    r"tokens \((?P<used>\d+)\) exceed context window of (?P<most>\d+)",
    # TGI: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 9000 `inputs` tokens …
    r"must (?:be <=|have less than) (?P<most>\d+)(?: tokens)?\. Given: (?P<used>\d+)",
    # LM Studio: … the model is loaded with context length of only 4096 tokens, …
    r"loaded with context length of only (?P<most>\d+) tokens",
    # LM Studio: … is greater than the context length (n_keep: 9000>= n_ctx: 4096).
    r"context length \(n_keep: (?P<used>\d+)\s*>=\s*n_ctx: (?P<most>\d+)",
    r"reached context length of (?P<most>\d+) tokens",
    # Ollama: the input length exceeds the context length
    r"(?:input|prompt)(?: length)? (?:exceeds|is too long for) (?:the |its |maximum )*context",
    # Others, without numbers.
    r"(?:exceed\w*|longer than|greater than|larger than)\b.{0,60}?\bcontext (?:length|window|size)",
    # By the name of the error alone (`models.status`).
    r"\b(?:exceed_context_size_error|context_length_exceeded)\b",
)


class TooLarge(msgspec.Struct, frozen=True):
    """`used` tokens were sent, `most` are taken; None for what was not said."""

    used: int | None
    most: int | None


def too_large(error: AlhenaError) -> TooLarge | None:
    """Parses the error for a request that was too large; None for any other error."""
    if not isinstance(error, ModelError) or isinstance(error, QuotaError):
        return None
    message = error.message.replace(",", "")
    for form in _FORMS:
        found = re.search(form, message, re.IGNORECASE)
        if found is not None:
            said = found.groupdict()
            used, most = said.get("used"), said.get("most")
            # Where there has to be room for the answer, too, so much less can be sent.
            rest = int(most) - int(said.get("answer") or 0) if most else None
            return TooLarge(int(used) if used else None, rest)
    return None


_UNSPECIFIC = re.compile(r"invalid[ _]argument", re.IGNORECASE)
"""Gemini's words for a request with a medium that it cannot read, and for others."""
MOST_REASON = 300
FULL = 0.95
"""The share of the window that a request may fill, as far as can be known before it is sent."""
AGAIN = 0.1
"""After an attempt the conversation grows by this share of the window before the next one."""
RESULTS_SHARE = 0.5
"""The share of the window that the results of one turn may fill."""
UNSURE_MEDIA = 20_000
"""Tokens of media from which the service is asked, rather than a guess trusted."""
CLOSE = 0.1
"""Error margin of an estimate, as a share of it. If a limit lies within the margin, the service
counts."""
COUNT_S = 10.0
PLAUSIBLE = 3.0
"""So many tokens the service may count for one that is estimated, for this to be of use."""
LEAST_WINDOW = 1_000
"""No model takes fewer tokens, whatever an error seems to say."""
UNKNOWN_EXCESS = 1.25
"""By how much a request is taken to be too large, when the service does not say."""
_ANSWER_TOKENS = 65_536


class ContextRoom:
    """Makes room in the window of one chat, whose first `opening` contents always stay."""

    def __init__(
        self, chat: Chat, opening: int, options: CompressionOptions, services: CompressionServices
    ) -> None:
        self._chat = chat
        self._opening = opening
        self._options = options
        self._services = services
        self._gauge = Gauge(chat)
        self._not_before = 0
        self._learned: dict[str, int] = {}
        self._history = chat.history

    @property
    def window(self) -> int:
        """Tokens that the model takes: as it is known to, or as it has said itself."""
        name = self._chat.model.name
        return min(self._services.limit(name), self._learned.get(name, sys.maxsize))

    async def make(self, parts: tuple[Part, ...], prompt_id: str) -> tuple[Part, ...]:
        """A `chat.MakeRoom`. Raises ContextOverflowError."""
        del prompt_id
        gauge, limits = self._gauge, self._options.masking
        gauge.follow()
        if self._chat.history is not self._history:  # somebody else has put another in its place
            self._history, self._not_before = self._chat.history, 0
        if limits is not None and gauge.outputs >= limits.protected + limits.least:
            self._mask(limits)
        total = await self._total(parts)
        if not any(part.function_response for part in parts):  # results can be made shorter
            self._require_room(total - gauge.history_tokens)
        if total > self.window * FULL:
            parts, total = self._without_last_media(parts, total)
        if self._threshold and total > max(self._threshold, self._not_before):
            event = await self.compress("auto", total, parts)
            total += event.new_tokens - event.original_tokens
        if total > self.window * FULL:
            parts = self._fit_parts(parts, total)
        return parts

    async def refit(self, error: AlhenaError) -> bool:
        """True when a request that the service refused with `error` can be sent again. Where it was
        too large, what the service said of the window and of the conversation is believed from then
        on, and the conversation shortened by that. Media that it refused are replaced by a note."""
        said = self._learn(error)
        if said is None:
            return self._leave_out_media(error)
        gauge = self._gauge
        gauge.follow()
        known = gauge.history_tokens
        used = said.used or int(max(known, self.window) * UNKNOWN_EXCESS)
        fresh, media = gauge.unmeasured_tokens(())
        if used - known > fresh - media:  # no text is so much more than estimated, but media are
            history = self._chat.history
            self._amend(media_in_words(history.contents, len(history) - 1), known)
            if gauge.history_tokens < known <= self.window * FULL:
                return True
        gauge.record_replacement(used)
        if self._threshold:
            await self.compress("auto")
        if gauge.history_tokens > self.window * FULL:
            self._fit_parts((), gauge.history_tokens)
        return gauge.history_tokens < used

    def _leave_out_media(self, error: AlhenaError) -> bool:
        """Puts notes in place of the newest media if the service refused them. An error that does
        not name them counts if the last content has media."""
        named = isinstance(error, MediaRefusedError)
        unspecific = isinstance(error, RequestRejectedError) and error.status == 400
        if not named and not (unspecific and _UNSPECIFIC.search(error.message)):
            return False
        reason = one_line(error.message, MOST_REASON)
        contents = self._chat.history.contents
        for index in reversed(range(0 if named else len(contents) - 1, len(contents))):
            content = contents[index].content
            bare = replace_media(content, refusal_note(reason))
            if bare is not content:
                self._chat.history.amend({index: bare})
                self._gauge.follow()
                words = "sent a note in place of the newest media, which the service refused"
                self._services.emit(WarningEvent(message=f"{words}: {reason}"))
                return True
        return False

    async def compress(
        self, trigger: Trigger, total: int | None = None, parts: tuple[Part, ...] = ()
    ) -> CompressedEvent:
        """Puts a summary in the place of all but the end of the conversation, or of all of it where
        a person wants that and it cannot be divided. Returns the outcome; a conversation that
        cannot be shortened so stays as it is. `total` are the tokens of the next request, where
        they are known, and `parts` what it adds."""
        gauge = self._gauge
        gauge.follow()
        before = gauge.history_tokens if total is None else total
        entries = self._chat.history.contents
        cut = find_cut(entries, self._opening, gauge.sums)
        whole = whole_cut(entries, self._opening)
        if cut is None and trigger == "manual":
            cut = whole
        status, after, reason = CompressionStatus.NOOP, before, ""
        if self._services.before is not None and whole is not None:
            await self._services.before(trigger)
        if cut is not None:
            try:
                summary = await self._summary(entries, cut, before, parts)
            except UnusableAnswerError as error:
                status, reason = CompressionStatus.FAILED_EMPTY, str(error)
            except AlhenaError as error:
                status, reason = CompressionStatus.FAILED_REQUEST, str(error)
            else:
                lead = summary_content(summary) if summary else None
                status, after = self._put_in_place(entries, cut, lead, before)
        self._not_before = after + int(self.window * AGAIN)
        event = CompressedEvent(
            original_tokens=before,
            new_tokens=after,
            status=str(status),
            trigger=trigger,
            reason=reason,
            role=self._options.role,
        )
        if status is not CompressionStatus.NOOP:
            self._services.emit(event)
        return event

    @property
    def _threshold(self) -> int:
        share = min(self._options.threshold, FULL)
        if share <= 0:
            return 0
        fixed = min(self._gauge.overhead, self.window) if self._options.beside_prompt else 0
        return int(fixed + (self.window - fixed) * share)

    async def _total(self, parts: tuple[Part, ...]) -> int:
        """Tokens of the next request. Where an estimate will not do, the service is asked."""
        gauge = self._gauge
        fresh, media = gauge.unmeasured_tokens(parts)
        total = gauge.history_tokens + content_tokens(Content(role=USER, parts=parts))
        bounds = (self._threshold, int(self.window * FULL))
        decides = fresh > self.window * CLOSE / 2 and any(
            total - fresh <= bound <= total * (1 + CLOSE) for bound in bounds if bound
        )
        if self._services.count is None or not (media >= UNSURE_MEDIA or decides):
            return total
        try:
            async with asyncio.timeout(COUNT_S):
                counted = await self._services.count(gauge.unmeasured_contents(parts))
        except (AlhenaError, TimeoutError):
            return total
        if counted <= 0:
            return total
        gauge.record_count(parts, counted)
        return total - fresh + counted

    def _mask(self, limits: MaskingLimits, *, always: bool = False) -> None:
        """Masks what is old enough, in the history."""
        history, gauge = self._chat.history, self._gauge
        entries = history.contents
        places = to_mask(entries, limits)
        old = {index: entries[index].content for index in places}
        changed = mask_results(old, places, self._services.keep, always=always)
        self._amend(changed, gauge.history_tokens, min(gauge.scale, PLAUSIBLE))

    def _without_last_media(
        self, parts: tuple[Part, ...], total: int
    ) -> tuple[tuple[Part, ...], int]:
        """The parts to send and the tokens of that request. Replaces media in the last results by
        text if they are too large, so that nothing else has to be removed."""
        gauge, history = self._gauge, self._chat.history
        pending = total - gauge.history_tokens
        if pending > self.window * RESULTS_SHARE:
            bare = without_media(Content(role=USER, parts=parts))
            if bare.parts is not parts:
                parts, pending = bare.parts, content_tokens(bare)
                self._tell_truncated(total, gauge.history_tokens + pending)
        self._leave_media(int(self.window * FULL) - pending, len(history) - 1)
        return parts, gauge.history_tokens + pending

    def _leave_media(self, room: int, start: int) -> None:
        """Puts words in the place of the media in results from a position on, where the history
        needs more than `room` tokens."""
        gauge, history = self._gauge, self._chat.history
        tokens, estimated = gauge.history_tokens, gauge.overhead + gauge.sums[-1]
        if tokens <= room:
            return
        changed = media_in_words(history.contents, start)
        media = sum(media_tokens(history.contents[index].content) for index in changed)
        # Beyond what an estimate of words can be wrong by, it was the media that it was of.
        theirs = media >= UNSURE_MEDIA or gauge.scale > PLAUSIBLE
        scale = 1.0 if theirs else gauge.scale
        self._amend(changed, min(tokens, estimated) if theirs else tokens, scale)

    def _amend(self, changed: Mapping[int, Content], tokens: int, scale: float = 1.0) -> None:
        """Puts shorter contents in the place of some in the history, which needed `tokens`; of what
        goes an estimated token counts as `scale`."""
        if not changed:
            return
        history, gauge = self._chat.history, self._gauge
        before = gauge.overhead + gauge.sums[-1]
        count = count_changed_parts(changed, history.contents)
        history.amend(changed)
        gauge.follow()
        after = gauge.overhead + gauge.sums[-1]
        gauge.record_replacement(max(0, tokens - int((before - after) * scale)))
        self._services.emit(
            OutputsMaskedEvent(
                results=count,
                original_tokens=before,
                new_tokens=after,
                role=self._options.role,
            )
        )

    def _learn(self, error: AlhenaError) -> TooLarge | None:
        """Parses the error for a request that was too large and remembers the window it names."""
        said = too_large(error)
        if said is not None and said.most is not None and said.most >= LEAST_WINDOW:
            self._learned[self._chat.model.name] = said.most
        return said

    async def _summary(
        self, whole: Sequence[EncodedContent], cut: Cut, total: int, parts: tuple[Part, ...]
    ) -> str:
        """A summary of a conversation up to a cut, or of all of it; "" when there is none. The
        conversation itself is asked first, because the service has it in its cache. A request that
        is refused as too large is made once more with less in it. Raises AlhenaError."""
        scale = max(1.0, self._gauge.scale)
        entries = whole[: cut.at]
        try:
            summary = await self._summary_in_place(whole, parts, total)
            if summary is not None:
                return summary
            return await self._checked_summary(entries, scale)
        except AlhenaError as error:
            said = self._learn(error)
            if said is None:
                raise
        least = scale * UNKNOWN_EXCESS
        estimated = max(1, prefix_sums(entries)[-1])
        return await self._checked_summary(entries, max(least, (said.used or 0) / estimated))

    async def _summary_in_place(
        self, entries: Sequence[EncodedContent], parts: tuple[Part, ...], total: int
    ) -> str | None:
        """A summary that the conversation itself is asked for, with its instruction and tools; None
        where it has no room for that, or the model calls tools instead. Raises AlhenaError."""
        ask = self._services.ask_in_place
        spare = asking.overhead() + 2 * min(_ANSWER_TOKENS, self.window // 8)
        if ask is None or total + spare > self.window * FULL:
            return None
        return await asking.summary_in_place(ask, entries, parts)

    async def _checked_summary(self, entries: Sequence[EncodedContent], scale: float) -> str:
        """A summary of contents, of whose estimate a token is `scale` for the service."""
        answer = min(_ANSWER_TOKENS, self.window // 8)
        room = (self.window * FULL - asking.overhead() - 2 * answer) / scale
        return await asking.summary_of(self._services.ask, entries, int(room), answer)

    def _put_in_place(
        self,
        entries: tuple[EncodedContent, ...],
        cut: Cut,
        lead: EncodedContent | None,
        before: int,
    ) -> tuple[CompressionStatus, int]:
        """Continues from a summary if that is shorter; returns the tokens then.

        Estimates are compared with estimates. Where they are far below what the service counted,
        they say little, and a summary whose estimate is below half of that count is shorter, too.
        """
        if lead is None:
            return CompressionStatus.FAILED_EMPTY, before
        gauge = self._gauge
        fresh = assemble_conversation(entries, self._opening, cut, lead)
        estimated = prefix_sums(fresh)[-1]
        pending = max(0, before - gauge.history_tokens)
        scale = gauge.scale if gauge.scale <= PLAUSIBLE else 1.0
        after = int((gauge.overhead + estimated) * scale) + pending
        if estimated >= gauge.sums[-1] and 2 * after > before:
            return CompressionStatus.FAILED_INFLATED, before
        self._replace(fresh, after - pending)
        return CompressionStatus.COMPRESSED, after

    def _replace(self, fresh: tuple[EncodedContent, ...], tokens: int) -> None:
        """Puts another conversation, which needs so many tokens, in the place of this one."""
        self._chat.history = self._history = History(fresh)
        self._gauge.record_replacement(tokens)
        self._services.after()

    def _fit_parts(self, parts: tuple[Part, ...], total: int) -> tuple[Part, ...]:
        """`parts` as they can be sent, behind a history from which as much is left out as has to
        be; without any, the history can be sent as it ends. Nothing is asked of anybody. Raises
        ContextOverflowError."""
        gauge, full = self._gauge, int(self.window * FULL)
        content = EncodedContent(Content(role=USER, parts=parts)).content
        counted, most = max(0, total - gauge.history_tokens), int(self.window * RESULTS_SHARE)
        content, pending = shorten_results(content, counted, most, self._services.keep)
        self._require_room(pending)
        self._mask(MaskingLimits(protected=0, least=1, latest=bool(parts)), always=True)
        for start in (len(self._chat.history) - 1, self._opening):
            self._leave_media(full - pending, start)
        if gauge.history_tokens + pending > full:
            self._leave_out(full - pending)
        if gauge.history_tokens + pending > full:
            # What has to stay takes that much: no result is spared.
            self._mask(MaskingLimits(protected=0, least=1, latest=False), always=True)
            room = max(0, full - gauge.history_tokens)
            content, pending = shorten_results(content, pending, room, self._services.keep)
        left = gauge.history_tokens + pending
        if left < total:
            self._tell_truncated(total, left)
        if left > self.window:
            raise self._overflow(left)
        return content.parts

    def _tell_truncated(self, before: int, after: int) -> None:
        self._services.emit(
            CompressedEvent(
                original_tokens=before,
                new_tokens=after,
                status=str(CompressionStatus.TRUNCATED),
                trigger="auto",
                role=self._options.role,
            )
        )

    def _leave_out(self, room: int) -> None:
        """Leaves out as much of the beginning as has to be for the rest to need `room` tokens at
        most, as far as that can be."""
        gauge = self._gauge
        most = room / max(0.01, gauge.scale) - gauge.overhead
        fresh = without_beginning(self._chat.history.contents, self._opening, gauge.sums, most)
        if fresh is None:
            return
        tokens = prefix_sums(fresh)[-1]
        if tokens < gauge.sums[-1]:
            self._replace(fresh, int((gauge.overhead + tokens) * gauge.scale))

    def _require_room(self, pending: int) -> None:
        """Raises ContextOverflowError where so many tokens would not fit, whatever is left out."""
        gauge = self._gauge
        least = gauge.overhead + gauge.sums[min(self._opening, len(gauge.sums) - 1)]
        if least + pending > int(self.window * FULL):
            raise self._overflow(least + pending)

    def _overflow(self, tokens: int) -> ContextOverflowError:
        self._services.emit(
            ContextWindowWillOverflowEvent(
                estimated_tokens=tokens, window_tokens=self.window, role=self._options.role
            )
        )
        return ContextOverflowError(
            f"the request is too large for {self._chat.model.name}: about {tokens:,} tokens; "
            f"up to {int(self.window * FULL):,} are sent at once, {FULL:.0%} of the "
            f"{self.window:,} that it takes.",
            remedy="Send less at once: name files to read instead of pasting them.",
        )
