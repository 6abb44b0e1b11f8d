"""A conversation with one model: sends parts, streams the answer, keeps the history."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from alhena.chat.accounting import Account
from alhena.chat.consolidate import model_content
from alhena.chat.history import History
from alhena.chat.turn import Turn
from alhena.errors import AlhenaError
from alhena.events import Event, FinishedEvent, WarningEvent
from alhena.models.generator import ContentGenerator
from alhena.wire.calls import CallIds
from alhena.wire.conformance import require_conformance
from alhena.wire.content import Part
from alhena.wire.request import GenerateContentConfig, GenerateContentRequest
from alhena.wire.response import FinishReason, GenerateContentResponse

if TYPE_CHECKING:
    from alhena.chat.interposer import Interposer


class ModelTraits(msgspec.Struct, frozen=True, kw_only=True):
    """What the chat must know of its model. `sign_calls`: a step's first call needs a signature."""

    name: str
    sign_calls: bool = False


class Outlets(msgspec.Struct, frozen=True):
    """Where events go. `emit` takes one at once; `pace` waits while readers are far behind. Those
    of requests say that they are `role`'s, and with `texts` what was sent and answered."""

    emit: Callable[[Event], None]
    pace: Callable[[], Awaitable[None]]
    role: str = "main"
    texts: bool = False


class Chat:
    """Sends one user content at a time. Not to be used by two tasks at once.

    `config` may be replaced between requests: the next one has the new declarations and system
    instruction, the history stays as it was encoded. An `interposer` sees every request and answer.
    """

    def __init__(
        self,
        generator: ContentGenerator,
        model: ModelTraits,
        config: GenerateContentConfig,
        history: History,
        outlets: Outlets,
        ids: CallIds,
    ) -> None:
        self.history = history
        self.config = config
        self.interposer: Interposer | None = None
        self._generator = generator
        self._model = model
        self._outlets = outlets
        self._ids = ids

    async def send(self, parts: tuple[Part, ...], prompt_id: str, session_id: str = "") -> Turn:
        """One model turn: appends `parts`, streams the answer, appends it.

        When the answer fails or is cancelled, a prompt is taken back out of the history; tool
        results stay, for what they tell did happen. Raises ModelError, WireError or
        InvalidResponseError.
        """
        length = len(self.history)
        answers_tools = any(part.function_response for part in parts)
        self.history.add_user(parts)
        request = GenerateContentRequest(
            model=self._model.name,
            contents=self.history.contents,
            config=self.config,
            prompt_id=prompt_id,
            session_id=session_id,
        )
        turn = Turn(prompt_id, self._ids, self._outlets.emit)
        complete = False
        try:
            await self._exchange(request, turn)
            turn.check(answers_tools=answers_tools)
            turn.announce_calls()
            complete = True
        finally:
            if not complete and not answers_tools:
                self.history.rollback(length)
        content = model_content(turn.parts, sign_calls=self._model.sign_calls)
        if turn.automatic_history:
            self.history.add_automatic_calls(turn.automatic_history, content)
        if content is not None:
            self.history.add_model(content)
        if turn.finish_reason == FinishReason.MAX_TOKENS and not turn.calls:
            self._outlets.emit(
                WarningEvent(message="the answer was cut at the model's output limit (MAX_TOKENS).")
            )
        self._outlets.emit(FinishedEvent(finish_reason=turn.finish_reason or ""))
        return turn

    def record_responses(self, parts: tuple[Part, ...]) -> None:
        """Appends tool results without asking the model: the run ends here, but every call is
        answered (conformance F10)."""
        self.history.add_user(parts)

    async def _exchange(self, request: GenerateContentRequest, turn: Turn) -> None:
        """One request and its answer, past the interposer if there is one."""
        between = self.interposer
        if between is None:
            await self._ask(request, turn.feed)
            return
        admission = await between.admit(request)
        if admission.answer is not None:
            turn.feed(admission.answer)
        elif not between.reviews_answers:
            await self._ask(admission.request, turn.feed)
        else:
            chunks: list[GenerateContentResponse] = []
            await self._ask(admission.request, chunks.append)
            for response in await between.review(admission.request, chunks):
                turn.feed(response)

    async def _ask(
        self, request: GenerateContentRequest, take: Callable[[GenerateContentResponse], None]
    ) -> None:
        """Checks, sends and streams one request, with its events."""
        require_conformance(request, needs_signatures=self._model.sign_calls)
        emit = self._outlets.emit
        account = Account(request, role=self._outlets.role, texts=self._outlets.texts)
        emit(account.sent())
        stream = self._generator.stream(request)
        try:
            async for response in stream:
                account.feed(response)
                take(response)
                await self._outlets.pace()
        except AlhenaError as error:
            emit(account.failed(error))
            raise
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
        emit(account.answered())
