"""One model turn: chunks in, events out; at the end the calls, the content for the history, and
what was wrong (CHAT-01, CHAT-02)."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

import msgspec

from alhena.display_text import one_line
from alhena.errors import AlhenaError, StreamCutError
from alhena.events import ContentEvent, Event, ThoughtEvent, ToolCallRequestEvent
from alhena.models.catalogue import is_foreign_model, model_info
from alhena.wire.content import (
    DATA_FIELDS,
    MODEL,
    CallIds,
    Content,
    FunctionCall,
    Part,
    ToolCallRequestInfo,
    holds_data,
    request_info,
    sign_first_call,
    without_thoughts,
)
from alhena.wire.response import (
    CUT_CALL,
    NO_REASON,
    FinishReason,
    GenerateContentResponse,
    UsageMetadata,
)

if TYPE_CHECKING:
    from alhena.chat.loops import Chanting


def model_content(
    parts: Iterable[Part], *, sign_calls: bool, carry: bool = False
) -> Content | None:
    """The model content of a turn; None when nothing of it can be kept.

    Thoughts are left out with their signatures (S2), but signatures `carry` those of a model that
    wants them back; neighbouring text parts without metadata become one; empty parts go. With
    `sign_calls` the first function call gets the sentinel when it came without a signature.
    """
    parts = list(parts)
    if carry and any(part.thought for part in parts):
        from alhena.wire.dialects.thoughts import carry_thoughts

        parts = carry_thoughts(parts)
    kept: list[Part] = []
    for part in without_thoughts(parts):
        part = _one_field(part)
        if not holds_data(part):
            continue
        if kept and _is_plain_text(part) and _is_plain_text(kept[-1]):
            kept[-1] = Part(text=f"{kept[-1].text}{part.text}")
        else:
            kept.append(part)
    kept = [part for part in kept if part.text != "" or part.thought_signature]
    if sign_calls:
        sign_first_call(kept)
    return Content(role=MODEL, parts=tuple(kept)) if kept else None


def _one_field(part: Part) -> Part:
    """`part` without its empty text when it contains something else as well (C3): proxies send such
    parts."""
    if part.text == "" and sum(getattr(part, field) is not None for field in DATA_FIELDS) > 1:
        return msgspec.structs.replace(part, text=None)
    return part


def _is_plain_text(part: Part) -> bool:
    return part.text is not None and part == Part(text=part.text)


class InvalidResponseError(AlhenaError):
    """The model's answer is empty, blocked or malformed. `reason`: a stable identifier;
    `withheld`: for its content, or the prompt's."""

    kind = "invalid_response"

    def __init__(
        self, reason: str, message: str, *, remedy: str | None = None, withheld: bool = False
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.reason = reason
        self.withheld = withheld


class AccountLimitedError(InvalidResponseError):
    """The service answers this account no more."""

    kind = "account_limited"
    exit_code = 41


class ContextOverflowError(AlhenaError):
    """A request exceeds the model's context window, whatever is left out."""

    kind = "context_window_will_overflow"


class ChantingError(AlhenaError):
    """The model's answer repeats itself and was broken off. After the first `kept` characters it
    says nothing new; `repeated` is a piece of the repetition."""

    kind = "loop_detected"

    def __init__(self, repeated: str, kept: int) -> None:
        super().__init__("the model's answer says the same over and over.")
        self.repeated = repeated
        self.kept = kept


BROKEN_OFF = "\n[The answer was broken off here: it repeated itself.]"
"""Appended to the kept text of such an answer."""

ASKED_AGAIN = frozenset(
    {
        *("empty_response", "malformed_function_call", "unexpected_tool_call"),
        *("malformed_response", "continuation"),
    }
)
"""Reasons of an unusable answer that are retried, because the next one may be better. Withheld
answers are not."""

CALL_CUT_OFF = "call_cut_off"
"""Reason of an answer that reached its output limit in the middle of a call. A retry may help only
if the model knows."""

UNSIGNED = "missing_thought_signature"
"""Reason of an answer to a conversation that lacks a signature. A retry helps once it has one."""


NO_NAME = "generic_tool"
"""Name used for a call that has none."""

_TOO_SHORT_TO_CHANT = 500
"""Characters in which `chat.chanting` finds nothing yet, so that it need not be there."""


def _cited_addresses(metadata: dict[str, Any] | None) -> Iterator[str]:
    """The addresses in the `citationMetadata` of a candidate."""
    sources = metadata.get("citations") or metadata.get("citationSources") if metadata else None
    for each in cast("list[Any]", sources) if isinstance(sources, list) else ():
        uri = cast("dict[str, Any]", each).get("uri") if isinstance(each, dict) else None
        if isinstance(uri, str) and uri:
            yield one_line(uri, 500)


class AnswerCollector:
    """Collects a streamed answer. `parts` are what came, thoughts included; `calls` are ready to be
    scheduled; ids the model did not give are set on the parts too, so they match everywhere. With
    `searching` a call of `call_tool` is one of the tool that it names."""

    def __init__(
        self,
        prompt_id: str,
        ids: CallIds,
        emit: Callable[[Event], None],
        *,
        hears_chanting: bool = False,
        searching: bool = False,
    ) -> None:
        self.parts: list[Part] = []
        self.calls: list[ToolCallRequestInfo] = []
        self.text = ""
        self.citations: dict[str, None] = {}
        self.finish_reason: str | None = None
        self.finish_message: str | None = None
        self.block_reason: str | None = None
        self.silent = False  # it ended in good order, with calls and without a finish reason
        self.usage = UsageMetadata()
        self.model_version: str | None = None
        self.automatic_history: tuple[Content, ...] = ()
        self._prompt_id = prompt_id
        self._ids = ids
        self._emit = emit
        self._trace_id: str | None = None
        self._seen: dict[str, tuple[FunctionCall, int]] = {}
        self._chunk = 0
        self.stays = False  # when it is asked again: what came is kept
        self._before: GenerateContentResponse | None = None
        self._has_pieces = False
        self._hears_chanting = hears_chanting
        self._searching = searching
        self._chanting: Chanting | None = None
        self._heard = 0

    def feed(self, response: GenerateContentResponse) -> None:
        """Takes one chunk and emits its text and thoughts. One with calls that is the same as the
        chunk before it was sent twice. Raises ChantingError."""
        before, self._before = self._before, response
        if response == before and any(part.function_call for part in response.parts):
            return
        self._chunk += 1
        if response.usage_metadata is not None:
            self.usage = response.usage_metadata
        if response.automatic_function_calling_history:
            self.automatic_history = response.automatic_function_calling_history
        if response.prompt_feedback is not None and response.prompt_feedback.block_reason:
            self.block_reason = response.prompt_feedback.block_reason
        self.model_version = response.model_version or self.model_version
        self._trace_id = response.response_id or self._trace_id
        for part in response.parts:
            self._take(part)
        for each in response.candidates[:1]:
            self.citations |= dict.fromkeys(_cited_addresses(each.citation_metadata))
        if response.finish_reason:
            self.finish_reason = response.finish_reason
            self.finish_message = response.candidates[0].finish_message
        if self._hears_chanting:
            self._require_variety()

    @property
    def begun(self) -> bool:
        """True once something has come."""
        return self._chunk > 0

    def begin_request(self) -> None:
        """The next chunks are those of another request, which repeats nothing."""
        self._before = None

    def _take(self, part: Part) -> None:
        if part.thought:
            self.parts.append(part)
            if part.text:
                self._emit(thought_event(part.text))
        elif part.function_call is not None:
            self._take_call(part, part.function_call)
        else:
            self.parts.append(part)
            if part.text:
                self.text += part.text
                self._emit(ContentEvent(text=part.text))

    def _take_call(self, part: Part, call: FunctionCall) -> None:
        name = call.name or NO_NAME
        call_id = call.id
        self._has_pieces = self._has_pieces or bool(call.will_continue or call.partial_args)
        same, chunk = self._seen.get(call_id or "", (None, 0))
        if same == call and chunk != self._chunk:  # a chunk that was sent twice
            return
        if not call_id or call_id in self._seen:  # twice in one turn is refused (F5)
            call_id = self._ids.next(name)
        self._seen[call_id] = call, self._chunk
        call = msgspec.structs.replace(call, id=call_id, name=name, args=call.args or {})
        self.parts.append(msgspec.structs.replace(part, function_call=call))
        self.calls.append(self._request_info(call, call_id))

    def _request_info(self, call: FunctionCall, call_id: str) -> ToolCallRequestInfo:
        place = self._prompt_id, self._trace_id
        return request_info(call, call_id, *place, searching=self._searching)

    def _require_variety(self) -> None:
        """Raises ChantingError if the text so far repeats itself."""
        if len(self.text) == self._heard or len(self.text) < _TOO_SHORT_TO_CHANT:
            return
        if self._chanting is None:
            from alhena.chat.loops import Chanting

            self._chanting = Chanting()
        chant = self._chanting.feed(self.text[self._heard :])
        self._heard = len(self.text)
        if chant is not None:
            raise ChantingError(chant.text, chant.begins + len(chant.text))

    @property
    def thought(self) -> bool:
        """True if the turn has thoughts."""
        return any(part.thought for part in self.parts)

    def announce_calls(self) -> None:
        """Emits the calls. Only for a checked turn, because every emitted call gets a response."""
        for call in self.calls:
            self._emit(
                ToolCallRequestEvent(
                    call_id=call.call_id, name=call.name, args=call.args, prompt_id=call.prompt_id
                )
            )

    @property
    def cut_call(self) -> str | None:
        """The tool of a call cut off by the output limit; the call is not in `calls`."""
        message = self.finish_message or ""
        if self.finish_reason != FinishReason.MAX_TOKENS or not message.startswith(CUT_CALL):
            return None
        return message.removeprefix(CUT_CALL)

    @property
    def shortfall(self) -> str | None:
        """A warning that an accepted answer may be incomplete; None for a complete one."""
        reason = self.finish_reason
        if reason == FinishReason.MAX_TOKENS:
            said = "the answer was cut at the model's output limit (MAX_TOKENS)"
            if self.cut_call is not None:
                return f"{said} in the middle of a call to {self.cut_call}, which was left out."
            return None if self.calls else f"{said}."
        if reason == FinishReason.STOP and self.finish_message == NO_REASON:
            return "the answer ended without a finish reason; something may be missing at its end."
        if reason in (None, FinishReason.STOP):
            return None
        detail = f": {self.finish_message}" if self.finish_message else ""
        return f"The service stopped the answer ({reason}){detail}. It is incomplete."

    @property
    def output_limit(self) -> str:
        """Describes the output limit, with the tokens used if the service counted them."""
        spent = self.usage.candidates_token_count + self.usage.thoughts_token_count
        return f"its output limit ({spent} tokens)" if spent else "its output limit"

    def _require_no_cut_call(self) -> None:
        """Raises InvalidResponseError if the turn's only call was cut off."""
        name = self.cut_call
        if name is None or self.calls:
            return
        raise InvalidResponseError(
            CALL_CUT_OFF,
            f"the model's answer reached {self.output_limit} in the middle of a call to {name}.",
            remedy="Ask for less at a time, or raise maxOutputTokens in modelConfigs.",
        )

    def end_whole(self) -> None:
        """Takes the answer as whole: a finish reason that is missing is no fault."""
        self.finish_reason = self.finish_reason or FinishReason.STOP

    def check(self, *, answers_tools: bool, reason_needed: bool = True) -> None:
        """Raises InvalidResponseError or StreamCutError if the finished turn is unusable.

        A turn whose only call was cut off at the output limit is unusable. Any other turn with
        calls is usable, unless the service calls it malformed or withheld. Without a finish reason
        a further call may be missing; some services omit the reason after calls, so the turn is
        accepted if `reason_needed` is false. A text whose tokens were counted needs none. An empty
        answer is accepted only after tool results, where the model may have nothing to add, and
        only without thoughts.
        """
        if self.block_reason:
            raise InvalidResponseError(
                "prompt_blocked",
                f"the model's service blocked the prompt ({self.block_reason}).",
                remedy="Rephrase it or leave out what triggers the filter.",
                withheld=True,
            )
        if self._has_pieces:
            raise InvalidResponseError(
                FinishReason.MALFORMED_FUNCTION_CALL.lower(),
                "the model's answer holds a piece of a call whose other pieces are missing.",
                remedy="Run the prompt again.",
            )
        self._require_no_cut_call()
        if self.finish_reason is None and self.text.strip() and not self.calls and self._is_counted:
            self.finish_reason, self.finish_message = FinishReason.STOP, NO_REASON
        self.silent = bool(self.calls) and self.finish_reason is None
        holds = self._ends_as_answer()
        if self.calls and holds and not (self.silent and reason_needed):
            return
        if self.finish_reason is None:
            raise StreamCutError(
                "the model's answer ended without a finish reason; it is incomplete.",
                remedy="Run the prompt again.",
            )
        if self.text.strip() and not self.calls:
            return
        if self.finish_reason in (FinishReason.STOP, FinishReason.MAX_TOKENS):
            if answers_tools and not self.thought and self.finish_reason == FinishReason.STOP:
                return
            raise InvalidResponseError(
                "empty_response",
                self._emptiness(),
                remedy="Run the prompt again, or rephrase it.",
            )
        raise self._unusable("blocked")

    @property
    def _is_counted(self) -> bool:
        """True if the service has counted the tokens of the answer."""
        usage = self.usage
        spent = usage.total_token_count > usage.prompt_token_count
        return usage.candidates_token_count > 0 or spent

    def _ends_as_answer(self) -> bool:
        """False if the calls of the turn were withheld. Raises InvalidResponseError for an end that
        makes the whole turn unusable."""
        if self.finish_reason in (None, FinishReason.STOP, FinishReason.MAX_TOKENS):
            return True
        from alhena.wire.finish_reasons import finish_info

        ending = finish_info(self.finish_reason)
        if ending.is_error:
            raise self._unusable(self.finish_reason.lower())
        return not ending.withheld

    def _unusable(self, reason: str) -> InvalidResponseError:
        """The error for the turn's finish reason."""
        from alhena.wire.finish_reasons import finish_info

        ending = finish_info(self.finish_reason or "")
        detail = f": {self.finish_message}" if self.finish_message else ""
        kind = InvalidResponseError if ending.exit_code == 1 else AccountLimitedError
        return kind(
            reason,
            f"{ending.words} ({self.finish_reason}){detail}.",
            remedy=ending.remedy,
            withheld=ending.withheld,
        )

    def _emptiness(self) -> str:
        said = f"the model returned an empty response ({self.finish_reason})"
        limit = self.finish_reason == FinishReason.MAX_TOKENS
        return f"{said}: it reached {self.output_limit}." if limit else f"{said}."


def thought_event(text: str) -> ThoughtEvent:
    """Splits a thought: the first **bold** text is the subject, the rest the description."""
    start = text.find("**")
    end = text.find("**", start + 2) if start >= 0 else -1
    if end < 0:
        return ThoughtEvent(subject="", description=text.strip())
    rest = f"{text[:start]}{text[end + 2 :]}".strip()
    return ThoughtEvent(subject=text[start + 2 : end].strip(), description=rest)


class ModelTraits(msgspec.Struct, frozen=True, kw_only=True):
    """Properties of the model that a chat depends on. `sign_calls`: the first call of a step needs
    a signature. Not `takes_signatures`: the model rejects thoughts and signatures, others' too.
    `wants_thoughts`: its thoughts go back to it, of prompts for which it uses tools."""

    name: str
    sign_calls: bool = False
    takes_signatures: bool = True
    wants_thoughts: bool = False


def traits_of(model: str) -> ModelTraits:
    """The properties of a model that a chat depends on."""
    known = model_info(model)
    return ModelTraits(
        name=model,
        sign_calls=known.needs_signatures,
        takes_signatures=known.takes_signatures,
        wants_thoughts=is_foreign_model(model),
    )
