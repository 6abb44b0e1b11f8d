"""A conversation with one model: sends parts, streams the answer, keeps the history and emits the
events of each request."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from alhena.chat.history import CUT_OFF, ENDED_EARLY, History
from alhena.chat.turn import (
    BROKEN_OFF,
    UNSIGNED,
    AnswerCollector,
    ChantingError,
    InvalidResponseError,
    ModelTraits,
    model_content,
    traits_of,
)
from alhena.errors import AlhenaError, ModelError
from alhena.events import (
    ApiErrorEvent,
    ApiRequestEvent,
    ApiResponseEvent,
    Event,
    FinishedEvent,
    RetryEvent,
    WarningEvent,
)
from alhena.models.catalogue import bare_name
from alhena.models.errors import SignatureError
from alhena.models.generator import ContentGenerator, ContinuedAnswer
from alhena.models.retry import split_retries
from alhena.wire.conformance.check import RequestGate
from alhena.wire.content import (
    MODEL,
    USER,
    CallIds,
    Content,
    EncodedContent,
    Part,
    for_another_model,
    is_signed,
    text_content,
)
from alhena.wire.request import GenerateContentConfig, GenerateContentRequest
from alhena.wire.response import GenerateContentResponse, UsageMetadata

if TYPE_CHECKING:
    from alhena.chat.recovery import ModelFallback, Recovery, Substitute


class RequestEvents:
    """Events of one request; its duration counts from construction. `role`: the part of the program
    that sends it; with `texts` the events include the request and the response."""

    def __init__(
        self, request: GenerateContentRequest, *, role: str = "main", texts: bool = False
    ) -> None:
        self._continues = request.continuation_token is not None
        self._request = request
        self._role = role
        self._pieces: list[GenerateContentResponse] | None = [] if texts else None
        self._usage = UsageMetadata()
        self._model_version = ""
        self._finish_reason = ""
        self._start = time.perf_counter()

    def request_event(self) -> ApiRequestEvent:
        """The event for sending the request."""
        request = self._request
        return ApiRequestEvent(
            model=request.model,
            prompt_id=request.prompt_id,
            contents=len(request.contents),
            role=self._role,
            text=None if self._pieces is None else _contents(request),
            system=None if self._pieces is None else _system(request),
            continues=self._continues,
        )

    def error_event(self, error: AlhenaError) -> ApiErrorEvent:
        """The event for a failed request."""
        return ApiErrorEvent(
            model=self._request.model,
            prompt_id=self._request.prompt_id,
            duration_ms=self._elapsed_ms(),
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

    @property
    def is_counted(self) -> bool:
        """True if the service said how many tokens the request took."""
        return self._usage.prompt_token_count > 0

    def response_event(self) -> ApiResponseEvent:
        """The event for a complete response."""
        usage, pieces = self._usage, self._pieces
        return ApiResponseEvent(
            model=self._model_version or self._request.model,
            prompt_id=self._request.prompt_id,
            duration_ms=self._elapsed_ms(),
            finish_reason=self._finish_reason,
            input_tokens=usage.prompt_token_count,
            output_tokens=usage.candidates_token_count,
            cached_tokens=usage.cached_content_token_count,
            thoughts_tokens=usage.thoughts_token_count,
            tool_tokens=usage.tool_use_prompt_token_count,
            total_tokens=usage.total_token_count,
            cache_write_tokens=usage.cache_write_token_count,
            cache_write_hour_tokens=usage.cache_write_hour_token_count,
            role=self._role,
            text=pieces if pieces is None else msgspec.json.encode(pieces).decode("utf-8"),
            continues=self._continues,
            service_tier=usage.service_tier or self._request.config.service_tier or "",
            asked_model=self._request.model,
        )

    def _elapsed_ms(self) -> float:
        return round((time.perf_counter() - self._start) * 1000, 3)


def _system(request: GenerateContentRequest) -> str | None:
    instruction = request.config.system_instruction
    return None if instruction is None else msgspec.json.encode(instruction).decode("utf-8")


def _contents(request: GenerateContentRequest) -> str:
    return f"[{','.join(bytes(content.raw).decode('utf-8') for content in request.contents)}]"


class Outlets(msgspec.Struct, frozen=True):
    """Destination of events. `emit` delivers one at once; `pace` waits while readers are far
    behind. Request events carry `role` and, with `texts`, the request and the response."""

    emit: Callable[[Event], None]
    pace: Callable[[], Awaitable[None]]
    role: str = "main"
    texts: bool = False


class Room(Protocol):
    """Makes a conversation fit into the model's context window."""

    async def make(self, chat: "Chat", parts: tuple[Part, ...], prompt_id: str) -> tuple[Part, ...]:
        """Makes the next parts fit beside the history, which it may compress; returns the parts to
        send. Raises AlhenaError if they cannot fit."""
        ...

    async def refit(self, chat: "Chat", error: AlhenaError) -> bool:
        """True if a request that was refused with `error` can be sent again, the history being
        shorter now."""
        ...


class ChatServices(msgspec.Struct, frozen=True, kw_only=True):
    """The optional parts of a chat. `interposer` sees every request and response; `fallback` may
    switch to another model; `again` gives a model's different settings for retries. `searches` is
    true while tools are found by search."""

    interposer: "Interposer | None" = None
    fallback: "ModelFallback | None" = None
    again: Callable[[str], GenerateContentConfig] | None = None
    room: Room | None = None
    searches: Callable[[], bool] = bool


ALONE = ChatServices()
Adapt = Callable[[GenerateContentConfig], GenerateContentConfig]


class Chat:
    """Sends one user content at a time. Not for use by two tasks at once.

    A RetryingGenerator's retries are done here, with events, and also cover broken responses.
    `measured`: number of contents of the history that the service counted last, and their tokens.
    `signers`: all names of the model that made the signatures in the history.
    """

    def __init__(
        self,
        generator: ContentGenerator,
        model: ModelTraits,
        config: GenerateContentConfig,
        history: History,
        outlets: Outlets,
        services: ChatServices = ALONE,
    ) -> None:
        self._history = history
        self.config, self.model, self.services = config, model, services
        self.measured: tuple[int, int] | None = None
        self.last_request: GenerateContentRequest | None = None
        self._retrying, self._generator = split_retries(generator)
        self._outlets = outlets
        self._ids = CallIds(os.urandom(4).hex())
        self._gate = RequestGate(history.checker)
        self._says_reasons = True
        self.signers: frozenset[str] = frozenset()
        self.signed_by(model.name)
        self._cut_call: str | None = None  # behind others, at the end of the history
        self._to_tell_of: str | None = None  # this and the rest: while a content is sent
        self._recovery: Recovery | None = None
        self._answer = ContinuedAnswer()
        self._sent: tuple[GenerateContentRequest, GenerateContentRequest] | None = None
        self._refitted = self._altered = self._interposed = self._mended = False

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

    async def send(
        self,
        parts: tuple[Part, ...],
        prompt_id: str,
        session_id: str = "",
        *,
        adapt: Adapt | None = None,
        hears_chanting: bool = True,
    ) -> AnswerCollector:
        """Runs one model turn: appends `parts`, streams the answer, appends it. `adapt` changes the
        settings of its requests.

        Retries repeat no effects, because the calls of a failed attempt were not announced. If the
        answer fails, or is cancelled before any text, a prompt is removed from the history; tool
        results stay, because their effects happened. Text streamed before a cancellation stays with
        the prompt, because a person has read it; so does the text of an answer that failed after
        its first request, or that was broken off for repeating itself, if `hears_chanting`. Raises
        ModelError, WireError, InvalidResponseError or ChantingError.
        """
        answers_tools = any(part.function_response for part in parts)
        emit = self._outlets.emit
        self._to_tell_of, self._recovery = self._cut_call, None
        self._refitted = self._mended = False
        if any(part.inline_data for part in parts):
            from alhena.tools.media import correct_parts

            parts, notes = correct_parts(parts)
            for note in notes:
                emit(WarningEvent(message=note))
        if self.services.room is not None:
            try:
                parts = await self.services.room.make(self, parts, prompt_id)
            except BaseException:
                if answers_tools:
                    self.history.add_user(parts)
                raise
        length = len(self.history)
        self.history.add_user(parts)
        complete = False
        self._sent, self._answer, turn = None, ContinuedAnswer(), None
        try:
            while True:
                turn = turn or AnswerCollector(
                    prompt_id,
                    self._ids,
                    emit,
                    hears_chanting=hears_chanting,
                    searching=self.services.searches(),
                )
                request = self._request((prompt_id, session_id), adapt)
                try:
                    await self._ask(request, turn)
                    turn.check(answers_tools=answers_tools, reason_needed=self._reason_needed())
                except asyncio.CancelledError:
                    if turn.text:
                        self.history.add_model(text_content(MODEL, turn.text, CUT_OFF))
                    raise
                except AlhenaError as error:
                    turn = await self._next_turn(error, turn, prompt_id)
                else:
                    complete = True
                    break
        finally:
            last = self.history.contents[-1].content
            if not complete and not answers_tools and last.role == USER:
                self.history.rollback(min(length, len(self.history) - 1))
        self._take(turn, carry=self.model.wants_thoughts and (answers_tools or bool(turn.calls)))
        return turn

    def record_responses(self, parts: tuple[Part, ...]) -> None:
        """Appends tool results without asking the model, when the run ends (conformance F10)."""
        self.history.add_user(parts)

    def configure(self, config: GenerateContentConfig) -> None:
        """Uses other declarations and another instruction from the next request on; the encoded
        history stays."""
        self.config = config

    def replace_history(self, contents: "Iterable[Content | EncodedContent]") -> None:
        """Puts other contents in place of the history, whose watcher stays."""
        self.history = History(contents)

    def note_measured(self, measured: tuple[int, int] | None) -> None:
        """Notes how many contents the service has counted, and as how many tokens."""
        self.measured = measured

    def take_over(self, substitute: "Substitute") -> None:
        """Switches to another model with the same history. Removes signatures it cannot verify."""
        if substitute.generator is not None:
            self._retrying, self._generator = split_retries(substitute.generator)
        if substitute.fallback is not None:
            self.services = msgspec.structs.replace(self.services, fallback=substitute.fallback[0])
        self.model = substitute.traits
        if bare_name(self.model.name) not in self.signers:
            self.drop_signatures()
        self.signed_by(self.model.name)
        self.config = self.config.with_settings(substitute.config)

    def signed_by(self, *names: str) -> None:
        """Notes other names of the model that makes the signatures."""
        self.signers |= {bare_name(name) for name in names if name}

    def continue_from(self, *names: str) -> bool:
        """Notes that the history is that of the model with these names. If that is another model
        than the one that answers, drops its signatures, and returns False."""
        if bare_name(self.model.name) in {bare_name(name) for name in names if name}:
            self.signed_by(*names)
            return True
        self.drop_signatures()
        return False

    def drop_signatures(self, *, sign_calls: bool = False) -> None:
        """Removes all thoughts and signatures; calls that need one get the sentinel."""
        sign = sign_calls or self.model.sign_calls
        self.history.restate(lambda content: for_another_model(content, sign_calls=sign))
        self.signers = frozenset({bare_name(self.model.name)})

    def export_contents(self, start: int = 0) -> tuple[Content, ...]:
        """The contents from `start`, for another conversation: they say who made their
        signatures."""
        names = tuple(sorted(self.signers))
        return tuple(
            msgspec.structs.replace(content, signed_by=names) if is_signed(content) else content
            for content in (entry.content for entry in self.history.contents[start:])
        )

    def _take(self, turn: AnswerCollector, *, carry: bool) -> None:
        """Announces the calls of a usable turn and appends it to the history."""
        turn.announce_calls()
        if turn.calls and not self._interposed:
            alike = self._recovery is None or self._recovery.silent
            self._says_reasons = turn.finish_reason is not None or not alike
        tokens = self._answer.prompt_tokens or turn.usage.prompt_token_count
        counted = 0 if self._altered else tokens
        self.measured = (len(self.history), counted) if counted else None
        self.signed_by(turn.model_version or "")
        content = model_content(turn.parts, sign_calls=self.model.sign_calls, carry=carry)
        if turn.automatic_history:
            self.history.add_automatic_calls(turn.automatic_history, content)
        if content is not None:
            self.history.add_model(content)
        self._cut_call = turn.cut_call
        if (shortfall := turn.shortfall) is not None:
            self._outlets.emit(WarningEvent(message=shortfall))
        self._outlets.emit(
            FinishedEvent(finish_reason=turn.finish_reason or "", citations=list(turn.citations))
        )

    async def _next_turn(
        self, error: AlhenaError, turn: AnswerCollector, prompt_id: str
    ) -> AnswerCollector | None:
        """As `_recover`. The text of an answer that took several requests stays with the prompt
        when it fails, unless the service withdrew it."""
        try:
            return await self._recover(error, turn, prompt_id)
        except AlhenaError as last:
            several = self._answer.prompt_tokens > 0
            if several and turn.text and not isinstance(last, InvalidResponseError | ChantingError):
                self.history.add_model(text_content(MODEL, turn.text, ENDED_EARLY))
            raise

    async def _recover(
        self, error: AlhenaError, turn: AnswerCollector, prompt_id: str
    ) -> AnswerCollector | None:
        """Returns when the next attempt is due: of another model, or with a shorter history, if
        need be. Returns the turn if the answer continues where it broke off. Raises the error if
        there is no further attempt."""
        if isinstance(error, ChantingError):
            self.history.add_model(text_content(MODEL, turn.text[: error.kept], BROKEN_OFF))
            raise error
        answer = self._answer
        if self._mends_signatures(error, turn, prompt_id):
            return None
        try:
            if self._retrying is None or self._interposed:
                raise error
            if self._recovery is None:
                from alhena.chat.recovery import Recovery

                outlets, fallback = self._outlets, self.services.fallback
                self._recovery = Recovery(
                    self._retrying, fallback, outlets.emit, role=outlets.role, prompt_id=prompt_id
                )
            if answer.has_progressed:
                self._recovery.renew()
            turn.stays = answer.token is not None and not answer.rewind()
            substitute = await self._recovery.after(error, turn, self.model.name)
        except AlhenaError as last:
            room = self.services.room
            if self._refitted or room is None or not await room.refit(self, last):
                raise
            self._refitted, self._recovery = True, None
            self._sent, self._answer = None, ContinuedAnswer()
            return None
        if substitute is not None:
            self.take_over(substitute)
        if substitute is not None or answer.token is None:
            self._sent, self._answer = None, ContinuedAnswer()
            return None
        return turn if turn.stays else None

    def _mends_signatures(self, error: AlhenaError, turn: AnswerCollector, prompt_id: str) -> bool:
        """Removes the signatures that the service refused, or misses; False if that was tried."""
        missing = isinstance(error, InvalidResponseError) and error.reason == UNSIGNED
        if self._mended or self._interposed or not (missing or isinstance(error, SignatureError)):
            return False
        self._mended = True
        self.drop_signatures(sign_calls=missing)
        self._sent, self._answer = None, ContinuedAnswer()
        self._outlets.emit(
            RetryEvent(
                model=self.model.name,
                prompt_id=prompt_id,
                attempt=2,
                max_attempts=2,
                delay_s=0.0,
                reason=error.message,
                error_type=error.kind,
                retract=bool(turn.text),
                role=self._outlets.role,
            )
        )
        return True

    def _request(self, ids: tuple[str, str], adapt: Adapt | None) -> GenerateContentRequest:
        """The request of the next attempt. It may hold a message to the model that is not part of
        the history: about a failed attempt, or about a call that was cut off after others."""
        contents, recovery = self.history.contents, self._recovery
        config, again = self.config, self.services.again
        if again is not None and recovery is not None and recovery.again:
            config = config.with_settings(again(self.model.name))
        config = adapt(config) if adapt else config
        nudge = None if recovery is None else recovery.nudge
        if nudge is not None or self._to_tell_of is not None:
            from alhena.chat.recovery import NUDGE_CUT_BEHIND, with_word

            contents = with_word(contents, nudge or NUDGE_CUT_BEHIND.format(name=self._to_tell_of))
        return GenerateContentRequest(
            model=self.model.name,
            contents=contents,
            config=config,
            prompt_id=ids[0],
            session_id=ids[1],
        )

    def _reason_needed(self) -> bool:
        """True if calls without a finish reason are retried, because some may be missing. Some
        services never give a reason after calls: once all attempts ended so, the last is accepted,
        and later ones at once, until a reason appears again."""
        if self._retrying is None or self._interposed or not self._says_reasons:
            return False
        if self._recovery is not None:
            return not self._recovery.broken_spent
        policy = self._retrying.policy
        return min(policy.broken_attempts, policy.max_attempts) > 1

    async def _ask(self, request: GenerateContentRequest, turn: AnswerCollector) -> None:
        """Checks and sends one request, through the interposer, if any, and those for the rest of
        its answer, which they are sent for until it has ended."""
        between, answer = self.services.interposer, self._answer
        reviews = between is not None and between.reviews_answers
        if self._sent is None:
            self._altered = self._interposed = False
            if between is not None:
                admission = await between.admit(request)
                self._altered = admission.request.contents is not request.contents
                if admission.answer is not None:
                    self._interposed = True
                    turn.feed(admission.answer)
                    return
                request = self._for_its_model(admission.request)
            self._sent = request, self._conforming(request)
            self.last_request = self._sent[1]
        elif not (reviews or turn.begun):
            for chunk in answer.chunks:
                turn.feed(chunk)
        while True:
            sent = answer.next_request(self._sent[1])
            await self._exchange(sent, None if reviews else turn)
            if not answer.continues:
                break
        if between is not None and reviews:
            for response in await between.review(self._sent[0], answer.chunks):
                turn.feed(response)

    async def _exchange(
        self, request: GenerateContentRequest, turn: AnswerCollector | None
    ) -> None:
        """Sends one request, streams what it brings to the `turn`, if any, and emits its
        events."""
        emit = self._outlets.emit
        account = RequestEvents(request, role=self._outlets.role, texts=self._outlets.texts)
        emit(account.request_event())
        if turn is not None:
            turn.begin_request()
        stream = self._generator.stream(request)
        try:
            async for response in stream:
                account.feed(response)
                chunk = self._answer.feed(response)
                if turn is not None:
                    turn.feed(chunk)
                await self._outlets.pace()
        except ChantingError:
            emit(account.response_event())  # as far as it was wanted
            raise
        except AlhenaError as error:
            # What a broken connection brought up to a token is kept, and has its price.
            is_kept = self._answer.has_progressed and account.is_counted
            emit(account.response_event() if is_kept else account.error_event(error))
            raise
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
        emit(account.response_event())

    def _for_its_model(self, request: GenerateContentRequest) -> GenerateContentRequest:
        """The request without signatures of another model than the one that it is for now."""
        if bare_name(request.model) in self.signers:
            return request
        contents = [entry.content for entry in request.contents]
        if not any(map(is_signed, contents)):
            return request
        sign = traits_of(request.model).sign_calls
        plain = (for_another_model(content, sign_calls=sign) for content in contents)
        return msgspec.structs.replace(request, contents=tuple(map(EncodedContent, plain)))

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
            more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
            place = f"{told[0].path}: {told[0].message}{more}"
            message = f"the request was repaired before it was sent, at {place}"
            self._outlets.emit(WarningEvent(message=message))
        return request


class AdmittedRequest(msgspec.Struct, frozen=True):
    """The request to send; with an `answer`, nothing is sent."""

    request: GenerateContentRequest
    answer: GenerateContentResponse | None = None


class Interposer(Protocol):
    """Intercepts requests and responses. Both methods may raise an AlhenaError, which ends the
    exchange. A reviewed response is held back until it is complete."""

    reviews_answers: bool

    async def admit(self, request: GenerateContentRequest) -> AdmittedRequest:
        """Reviews a request before it is sent. The history keeps the original."""
        ...

    async def review(
        self, request: GenerateContentRequest, chunks: Sequence[GenerateContentResponse]
    ) -> Sequence[GenerateContentResponse]:
        """Reviews a complete response before anything else gets it."""
        ...
