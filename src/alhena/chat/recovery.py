"""Recovery from failures of one exchange with a model: retry or fallback model."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from alhena.chat.turn import ASKED_AGAIN, CALL_CUT_OFF, InvalidResponseError
from alhena.errors import AlhenaError
from alhena.events import Event, ModelFallbackEvent
from alhena.models.errors import RecordingError
from alhena.models.generator import ContentGenerator
from alhena.models.retry import RetryClass, RetryingGenerator, retry_event
from alhena.wire.content import MODEL, USER, Part, text_content
from alhena.wire.encode import EncodedContent
from alhena.wire.request import GenerateContentConfig
from alhena.wire.response import FinishReason

if TYPE_CHECKING:
    from alhena.chat.turn import AnswerCollector, ModelTraits
    from alhena.models.retry import RetryBudget

NUDGE_EMPTY = (
    "\n[System: You previously returned an empty response with no text or thoughts. "
    "Please ensure you provide your final answer or call a tool now.]"
)
NUDGE_THOUGHTS = (
    "\n[System: You previously generated thoughts but failed to provide a final user-facing "
    "response. Please ensure you provide your final answer or call a tool now.]"
)
NUDGE_CUT = (
    "\n[System: Your previous answer reached the output limit in the middle of a call to {name}. "
    "Nothing of it was carried out. Make smaller calls: divide long content among several, each "
    "well below the limit.]"
)
NUDGE_CUT_BEHIND = (
    "\n[System: Your previous answer reached the output limit in the middle of a call to {name}. "
    "That call was not carried out; the calls before it were. Make smaller calls: divide long "
    "content among several, each well below the limit.]"
)
TOOLS_DONE = "[Tool execution completed.]"
"""Text of the model turn inserted between tool results and a message to the model."""


class Substitute(msgspec.Struct, frozen=True, kw_only=True):
    """A replacement model and its settings. `asked`: a person agreed. It answers through
    `generator`, or that of the model before. `fallback` has what takes its place when it fails;
    None: what did before."""

    traits: "ModelTraits"
    config: GenerateContentConfig
    asked: bool = False
    generator: ContentGenerator | None = None
    fallback: "tuple[ModelFallback | None] | None" = None


class ModelFallback(Protocol):
    """Chooses another model when one fails."""

    def takes(self, error: AlhenaError) -> bool:
        """True for an error after which another model may be chosen."""
        ...

    def offers(self, model: str, error: AlhenaError) -> bool:
        """True if another model could replace `model` after `error`."""
        ...

    async def instead_of(self, model: str, error: AlhenaError) -> Substitute | None:
        """The model to use instead; None if there is none or a person declined."""
        ...


class Recovery:
    """Handles the failures of one exchange."""

    def __init__(
        self,
        retrying: RetryingGenerator,
        fallback: ModelFallback | None,
        emit: Callable[[Event], None],
        *,
        role: str,
        prompt_id: str,
    ) -> None:
        self.silent = True  # all that failed were calls without a finish reason
        self.again = False  # the model to ask now was asked before
        self.nudge: str | None = None  # a word to the model with the next attempt
        self._told_of_limit = False
        self._retrying = retrying
        self._fallback = fallback
        self._emit = emit
        self._role = role
        self._prompt_id = prompt_id
        self._patience: RetryBudget = retrying.patience()
        self._last: AlhenaError | None = None

    async def after(
        self, error: AlhenaError, turn: "AnswerCollector", model: str
    ) -> Substitute | None:
        """Waits until the next attempt is due; returns the model to use instead, or None for the
        same one. Raises `error` if there is no further attempt."""
        if isinstance(error, RecordingError) and self._last is not None:
            raise self._last from error  # the recording ends where nothing was asked again
        self._last = error
        self.silent = self.silent and turn.silent
        manner = self._manner(error)
        if not self._passes_on(error, manner, model):
            wait = self._patience.after(error, manner)
            if wait is not None:
                await self._retrying.admit(wait, error)
                self.nudge = _nudge(error, turn) or self.nudge
                self.again = True
                event = retry_event(
                    error, self._patience, wait, model=model, prompt_id=self._prompt_id
                )
                if self.nudge is not None and turn.cut_call is not None:
                    event = msgspec.structs.replace(event, max_attempts=event.attempt)
                retract = bool(turn.text) and not turn.stays
                self._emit(msgspec.structs.replace(event, role=self._role, retract=retract))
                await self._retrying.pause(wait)
                return None
        return await self._substitute(error, turn, model)

    def renew(self) -> None:
        """Counts from the beginning: the last attempt brought the answer further."""
        self._patience = self._retrying.patience()

    @property
    def broken_spent(self) -> bool:
        """True if broken-off answers are not retried any more."""
        return self._patience.broken_spent

    def _manner(self, error: AlhenaError) -> RetryClass:
        if isinstance(error, InvalidResponseError):
            again = error.reason in ASKED_AGAIN
            if error.reason == CALL_CUT_OFF:  # once, in other words
                again, self._told_of_limit = not self._told_of_limit, True
            return RetryClass.BROKEN if again else RetryClass.NEVER
        return self._patience.manner(error)

    def _passes_on(self, error: AlhenaError, manner: RetryClass, model: str) -> bool:
        """True if a fallback model is preferred to waiting."""
        return (
            manner is RetryClass.CAPACITY
            and (self._patience.capacity_spent or self._patience.is_long(error))
            and self._fallback is not None
            and self._fallback.takes(error)
            and self._fallback.offers(model, error)
        )

    async def _substitute(
        self, error: AlhenaError, turn: "AnswerCollector", model: str
    ) -> Substitute:
        """The model to use instead. Raises `error` if there is none."""
        found = None
        if self._fallback is not None and self._fallback.takes(error):
            found = await self._fallback.instead_of(model, error)
        if found is None:
            raise error
        if isinstance(found.generator, RetryingGenerator):
            self._retrying = found.generator
        self._patience = self._retrying.patience()
        self.nudge = None
        self.again = False
        self._emit(
            ModelFallbackEvent(
                model=found.traits.name,
                instead_of=model,
                prompt_id=self._prompt_id,
                reason=error.message,
                error_type=error.kind,
                asked=found.asked,
                retract=bool(turn.text),
                role=self._role,
            )
        )
        return found


def with_word(contents: tuple[EncodedContent, ...], word: str) -> tuple[EncodedContent, ...]:
    """Adds a message to the model to the last content, or after it."""
    last = contents[-1].content
    if any(part.function_response for part in last.parts):  # nothing is merged into results
        said = (text_content(MODEL, TOOLS_DONE), text_content(USER, word.lstrip()))
        return (*contents, *map(EncodedContent, said))
    parts = (*last.parts, Part(text=word))
    return (*contents[:-1], EncodedContent(msgspec.structs.replace(last, parts=parts)))


def _nudge(error: AlhenaError, turn: "AnswerCollector") -> str | None:
    """The message to a model that ended its turn without text or in the middle of a call."""
    if not isinstance(error, InvalidResponseError):
        return None
    if error.reason == CALL_CUT_OFF:
        return NUDGE_CUT.format(name=turn.cut_call)
    if turn.finish_reason != FinishReason.STOP:
        return None
    if error.reason != "empty_response":
        return None
    return NUDGE_THOUGHTS if turn.thought else NUDGE_EMPTY
