"""A conversation with one model: sends parts, streams the answer, keeps the history and emits the
events of each request."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from alhena.chat.history import CUT_OFF, INTERRUPTED, History
from alhena.chat.turn import BROKEN_OFF, ChantingError, Turn, model_content
from alhena.errors import AlhenaError, ModelError
from alhena.events import (
    ApiErrorEvent,
    ApiRequestEvent,
    ApiResponseEvent,
    Event,
    FinishedEvent,
    WarningEvent,
)
from alhena.models.catalogue import model_info
from alhena.models.generator import ContentGenerator
from alhena.models.retry import RetryingGenerator
from alhena.wire.conformance.check import RequestGate
from alhena.wire.content import (
    MODEL,
    USER,
    CallIds,
    Content,
    EncodedContent,
    Part,
    holds_data,
    sign_first_call,
    text_content,
)
from alhena.wire.request import GenerateContentConfig, GenerateContentRequest
from alhena.wire.response import GenerateContentResponse, UsageMetadata

if TYPE_CHECKING:
    from alhena.chat.recovery import Fallback, Recovery, Substitute


class Account:
    """Events of one request; its duration counts from construction. `role`: the part of the program
    that sends it; with `texts` the events include the request and the response."""

    def __init__(
        self, request: GenerateContentRequest, *, role: str = "main", texts: bool = False
    ) -> None:
        self._request = request
        self._role = role
        self._pieces: list[GenerateContentResponse] | None = [] if texts else None
        self._usage = UsageMetadata()
        self._model_version = ""
        self._finish_reason = ""
        self._start = time.perf_counter()

    def sent(self) -> ApiRequestEvent:
        """The event for sending the request."""
        request = self._request
        return ApiRequestEvent(
            model=request.model,
            prompt_id=request.prompt_id,
            contents=len(request.contents),
            role=self._role,
            text=None if self._pieces is None else _contents(request),
        )

    def failed(self, error: AlhenaError) -> ApiErrorEvent:
        """The event for a failed request."""
        return ApiErrorEvent(
            model=self._request.model,
            prompt_id=self._request.prompt_id,
            duration_ms=self._elapsed(),
            error_type=error.kind,
            message=error.message,
            status=error.status if isinstance(error, ModelError) else None,
            role=self._role,
        )

    def feed(self, response: GenerateContentResponse) -> None:
        """Records a chunk of the response."""
        self._usage = response.usage_metadata or self._usage
        self._model_version = response.model_version or self._model_version
        self._finish_reason = response.finish_reason or self._finish_reason
        if self._pieces is not None:
            self._pieces.append(response)

    def answered(self) -> ApiResponseEvent:
        """The event for a complete response."""
        usage = self._usage
        return ApiResponseEvent(
            model=self._model_version or self._request.model,
            prompt_id=self._request.prompt_id,
            duration_ms=self._elapsed(),
            finish_reason=self._finish_reason,
            input_tokens=usage.prompt_token_count,
            output_tokens=usage.candidates_token_count,
            cached_tokens=usage.cached_content_token_count,
            thoughts_tokens=usage.thoughts_token_count,
            tool_tokens=usage.tool_use_prompt_token_count,
            total_tokens=usage.total_token_count,
            role=self._role,
            text=None if self._pieces is None else _json(self._pieces),
        )

    def _elapsed(self) -> float:
        return round((time.perf_counter() - self._start) * 1000, 3)


def _contents(request: GenerateContentRequest) -> str:
    return f"[{','.join(bytes(content.raw).decode('utf-8') for content in request.contents)}]"


def _json(pieces: list[GenerateContentResponse]) -> str:
    return msgspec.json.encode(pieces).decode("utf-8")


class ModelTraits(msgspec.Struct, frozen=True, kw_only=True):
    """Properties of the model that a chat depends on. `sign_calls`: the first call of a step needs
    a signature. Not `takes_signatures`: the model rejects thoughts and signatures, others' too."""

    name: str
    sign_calls: bool = False
    takes_signatures: bool = True


def traits_of(model: str) -> ModelTraits:
    """The properties of a model that a chat depends on."""
    known = model_info(model)
    return ModelTraits(
        name=model,
        sign_calls=known.needs_signatures,
        takes_signatures=known.takes_signatures,
    )


class Outlets(msgspec.Struct, frozen=True):
    """Destination of events. `emit` delivers one at once; `pace` waits while readers are far
    behind. Request events carry `role` and, with `texts`, the request and the response."""

    emit: Callable[[Event], None]
    pace: Callable[[], Awaitable[None]]
    role: str = "main"
    texts: bool = False


MakeRoom = Callable[[tuple[Part, ...], str], Awaitable[tuple[Part, ...]]]
"""Makes the next parts (with their prompt id) fit beside the history, which it may compress;
returns the parts to send. Raises AlhenaError if they cannot fit."""


class Chat:
    """Sends one user content at a time. Not for use by two tasks at once.

    `config` may be replaced between requests: the next one uses the new declarations and system
    instruction; the encoded history stays. An `interposer` sees every request and response. A
    RetryingGenerator's retries are done here, with events, and also cover broken or empty
    responses; `again` gives a model's different settings for retries, if any. A `fallback` may
    switch to another `model`. `room` is called before each request, `refit` after one was refused
    as too large. `measured`: number of contents of the history that the service counted last, and
    their tokens.
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
        self._history = history
        self.config = config
        self.adapt: Callable[[GenerateContentConfig], GenerateContentConfig] = lambda same: same
        self.model = model
        self.interposer: Interposer | None = None
        self.fallback: Fallback | None = None
        self.again: Callable[[str], GenerateContentConfig] | None = None
        self.room: MakeRoom | None = None
        self.refit: Callable[[AlhenaError], Awaitable[bool]] | None = None
        self.measured: tuple[int, int] | None = None
        self.hears_chanting = True
        self._retrying = generator if isinstance(generator, RetryingGenerator) else None
        self._generator = generator if self._retrying is None else self._retrying.inner
        self._outlets = outlets
        self._ids = ids
        self._gate = RequestGate(history.checker)
        self._says_reasons = True
        self._altered = False
        self._cut_call: str | None = None  # behind others, at the end of the history
        self._to_tell_of: str | None = None  # the same, while an answer to it is asked for

    @property
    def history(self) -> History:
        """The conversation so far. A replacement keeps the watcher."""
        return self._history

    @history.setter
    def history(self, history: History) -> None:
        history.watch, self._history.watch = self._history.watch, None
        self._history = history
        self._cut_call = self.measured = None
        if history.watch is not None:
            history.watch(0, history.contents)

    async def send(self, parts: tuple[Part, ...], prompt_id: str, session_id: str = "") -> Turn:
        """Runs one model turn: appends `parts`, streams the answer, appends it.

        If the answer fails, or is cancelled before any text, a prompt is removed from the history;
        tool results stay, because their effects happened. Text streamed before a cancellation stays
        with the prompt, because a person has read it; so does the text of an answer broken off for
        repeating itself, while the chat `hears_chanting`. Raises ModelError, WireError,
        InvalidResponseError or ChantingError.
        """
        answers_tools = any(part.function_response for part in parts)
        self._to_tell_of = self._cut_call
        if self.room is not None:
            try:
                parts = await self.room(parts, prompt_id)
            except BaseException:
                if answers_tools:
                    self.history.add_user(parts)
                raise
        length = len(self.history)
        self.history.add_user(parts)
        complete = False
        try:
            try:
                turn = await self._answer(prompt_id, session_id, answers_tools=answers_tools)
            except AlhenaError as error:
                if self.refit is None or not await self.refit(error):
                    raise
                turn = await self._answer(prompt_id, session_id, answers_tools=answers_tools)
            turn.announce_calls()
            complete = True
        finally:
            last = self.history.contents[-1].content
            if not complete and not answers_tools and last.role == USER:
                self.history.rollback(min(length, len(self.history) - 1))
        counted = 0 if self._altered else turn.usage.prompt_token_count
        self.measured = (len(self.history), counted) if counted else None
        content = model_content(turn.parts, sign_calls=self.model.sign_calls)
        if turn.automatic_history:
            self.history.add_automatic_calls(turn.automatic_history, content)
        if content is not None:
            self.history.add_model(content)
        self._cut_call = turn.cut_call
        if (shortfall := turn.shortfall) is not None:
            self._outlets.emit(WarningEvent(message=shortfall))
        self._outlets.emit(FinishedEvent(finish_reason=turn.finish_reason or ""))
        return turn

    def record_responses(self, parts: tuple[Part, ...]) -> None:
        """Appends tool results without asking the model: the run ends, but every call has its
        response (conformance F10)."""
        self.history.add_user(parts)

    def take_over(self, substitute: "Substitute") -> None:
        """Switches to another model with the same history, including pending calls. Removes
        signatures that it cannot verify."""

        self.model = traits = substitute.traits
        self.history.restate(
            lambda content: for_another_model(content, sign_calls=traits.sign_calls)
        )
        self.config = self.config.with_settings(substitute.config)

    async def _answer(self, prompt_id: str, session_id: str, *, answers_tools: bool) -> Turn:
        """Gets a usable turn. Retries repeat no effects, because the calls of a failed turn were
        not announced."""
        recovery: Recovery | None = None
        while True:
            contents, config = self.history.contents, self.adapt(self.config)
            contents = self._told(contents, recovery)
            if recovery is not None and recovery.again and self.again is not None:
                config = config.with_settings(self.again(self.model.name))
            request = GenerateContentRequest(
                model=self.model.name,
                contents=contents,
                config=config,
                prompt_id=prompt_id,
                session_id=session_id,
            )
            turn = Turn(prompt_id, self._ids, self._outlets.emit)
            asked = True
            try:
                asked = await self._exchange(request, turn)
                needed = asked and self._reason_needed(recovery)
                turn.check(answers_tools=answers_tools, reason_needed=needed)
            except asyncio.CancelledError:
                if turn.text:
                    self.history.add_model(text_content(MODEL, turn.text, CUT_OFF))
                raise
            except ChantingError as error:
                self.history.add_model(text_content(MODEL, turn.text[: error.kept], BROKEN_OFF))
                raise
            except AlhenaError as error:
                if self._retrying is None or not asked:
                    raise
                recovery = recovery or self._recovery(self._retrying, prompt_id)
                substitute = await recovery.after(error, turn, self.model.name)
            else:
                if turn.calls and asked:
                    alike = recovery is None or recovery.silent
                    self._says_reasons = turn.finish_reason is not None or not alike
                return turn
            if substitute is not None:
                self.take_over(substitute)

    def _told(
        self, contents: tuple[EncodedContent, ...], recovery: "Recovery | None"
    ) -> tuple[EncodedContent, ...]:
        """The contents of an attempt, with a message to the model that is not part of the history:
        about a failed attempt, or about a call that was cut off after others."""
        nudge = recovery.nudge if recovery is not None else None
        if nudge is None and self._to_tell_of is None:
            return contents
        from alhena.chat.recovery import NUDGE_CUT_BEHIND, with_word

        return with_word(contents, nudge or NUDGE_CUT_BEHIND.format(name=self._to_tell_of))

    def _reason_needed(self, recovery: "Recovery | None") -> bool:
        """True if calls without a finish reason are retried, because some may be missing. Some
        services never give a reason after calls: once all attempts ended so, the last is accepted,
        and later ones at once, until a reason appears again."""
        if self._retrying is None or not self._says_reasons:
            return False
        if recovery is not None:
            return not recovery.broken_spent
        policy = self._retrying.policy
        return min(policy.broken_attempts, policy.max_attempts) > 1

    def _recovery(self, retrying: RetryingGenerator, prompt_id: str) -> "Recovery":
        from alhena.chat.recovery import Recovery

        outlets = self._outlets
        return Recovery(
            retrying, self.fallback, outlets.emit, role=outlets.role, prompt_id=prompt_id
        )

    async def _exchange(self, request: GenerateContentRequest, turn: Turn) -> bool:
        """Sends one request through the interposer, if any; True if the answer is the model's."""
        between = self.interposer
        self._altered = False

        def feed(response: GenerateContentResponse) -> None:
            turn.feed(response)
            if self.hears_chanting:
                turn.require_variety()

        if between is None:
            await self._ask(request, feed)
            return True
        admission = await between.admit(request)
        self._altered = admission.request.contents is not request.contents
        if admission.answer is not None:
            turn.feed(admission.answer)
            return False
        if not between.reviews_answers:
            await self._ask(admission.request, feed)
        else:
            chunks: list[GenerateContentResponse] = []
            await self._ask(admission.request, chunks.append)
            for response in await between.review(admission.request, chunks):
                feed(response)
        return True

    def _conforming(self, request: GenerateContentRequest) -> GenerateContentRequest:
        """Repairs the request and warns about repairs, except those for a model's handling of
        signatures."""
        request, repairs = self._gate.admit(
            request,
            needs_signatures=self.model.sign_calls,
            takes_signatures=self.model.takes_signatures,
        )
        told = [item for item in repairs if item.rule not in ("S4", "S6")]
        if told:
            first = f"{told[0].path}: {told[0].message}"
            more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
            message = f"the request was repaired before it was sent, at {first}{more}"
            self._outlets.emit(WarningEvent(message=message))
        return request

    async def _ask(
        self, request: GenerateContentRequest, take: Callable[[GenerateContentResponse], None]
    ) -> None:
        """Checks, sends and streams one request, and emits its events."""
        request = self._conforming(request)
        emit = self._outlets.emit
        account = Account(request, role=self._outlets.role, texts=self._outlets.texts)
        emit(account.sent())
        stream = self._generator.stream(request)
        try:
            async for response in stream:
                account.feed(response)
                take(response)
                await self._outlets.pace()
        except ChantingError:
            emit(account.answered())  # as far as it was wanted
            raise
        except AlhenaError as error:
            emit(account.failed(error))
            raise
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
        emit(account.answered())


class Admission(msgspec.Struct, frozen=True):
    """The request to send; with an `answer`, nothing is sent."""

    request: GenerateContentRequest
    answer: GenerateContentResponse | None = None


class Interposer(Protocol):
    """Intercepts requests and responses. Both methods may raise an AlhenaError, which ends the
    exchange. A reviewed response is held back until it is complete."""

    reviews_answers: bool

    async def admit(self, request: GenerateContentRequest) -> Admission:
        """Reviews a request before it is sent. The history keeps the original."""
        ...

    async def review(
        self, request: GenerateContentRequest, chunks: Sequence[GenerateContentResponse]
    ) -> Sequence[GenerateContentResponse]:
        """Reviews a complete response before anything else gets it."""
        ...


def for_another_model(content: Content, *, sign_calls: bool) -> Content:
    """`content` without the thoughts and signatures of its model, which no other model can verify.

    Calls and results stay, so that pending calls are answered. With `sign_calls` the first call
    gets the documented sentinel (conformance S4). Parts that held only a signature are removed; the
    content is never empty.
    """
    if content.role != MODEL:
        return content
    parts = [
        msgspec.structs.replace(part, thought_signature=None) if part.thought_signature else part
        for part in content.parts
        if not part.thought
    ]
    parts = [part for part in parts if part.text != "" and holds_data(part)]
    if not parts:
        return text_content(MODEL, INTERRUPTED)
    if sign_calls:
        sign_first_call(parts)
    return msgspec.structs.replace(content, parts=tuple(parts))
