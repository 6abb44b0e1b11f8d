"""The session's model as its tools use it, and the one that answers when it cannot."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from alhena.errors import AlhenaError
from alhena.events import ApiRequestEvent, ApiResponseEvent, Event, RetryEvent, WarningEvent
from alhena.models.generator import ContentGenerator, whole_answer
from alhena.wire.content import USER, CallIds, Content, text_content
from alhena.wire.encode import EncodedContent
from alhena.wire.request import (
    GenerateContentConfig,
    GenerateContentRequest,
    GenerationConfig,
    ToolDeclarations,
)
from alhena.wire.response import FinishReason, GenerateContentResponse

if TYPE_CHECKING:
    from asyncio import Task

    from alhena.chat.recovery import Substitute
    from alhena.chat.turn import InvalidResponseError
    from alhena.models.catalogue import ServedModel
    from alhena.models.served import ModelList, ModelRenewal
    from alhena.tools.builtin.ask_user import Ask

ROLE = "utility_tool"
PLAIN = GenerateContentConfig(generation_config=GenerationConfig(temperature=0, top_p=1))


Source = Callable[[], tuple[ContentGenerator, str]]
"""Returns the generator and the model name; called on first use. May raise AlhenaError."""


class SessionModel:
    """A `tools.model_access.ModelAccess`. Requests have the settings of `config`; they and their
    answers go out as events, as those of `role`."""

    def __init__(
        self,
        source: Source,
        emit: Callable[[Event], None],
        *,
        texts: bool = False,
        role: str = ROLE,
        config: GenerateContentConfig = PLAIN,
    ) -> None:
        self._source = source
        self._emit = emit
        self._texts = texts
        self._role = role
        self._config = config

    async def generate(
        self,
        contents: Sequence[Content | EncodedContent],
        *,
        tools: tuple[ToolDeclarations, ...] = (),
        system: str | None = None,
        model: str | None = None,
        schema: dict[str, Any] | None = None,
    ) -> GenerateContentResponse:
        """The answer to `contents`, with a `schema` as JSON of that form. What is empty or cannot
        be read is asked for again, as in the conversation; what was withheld whole is returned, for
        it says why. Raises ModelError or WireError."""
        own = model or self._source()[1]
        request = GenerateContentRequest(
            model=own,
            contents=tuple(
                item if isinstance(item, EncodedContent) else EncodedContent(item)
                for item in contents
            ),
            config=GenerateContentConfig(
                system_instruction=text_content(USER, system) if system else None,
                tools=tools or None,
            ).with_settings(self._settings(schema, own)),
        )
        return await self.send_request(request)

    async def send_request(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """The answer to a request as it is. Raises as `generate`."""
        from alhena.chat.turn import ASKED_AGAIN
        from alhena.models.errors import UnusableAnswerError
        from alhena.models.retry import RetryClass, RetryingGenerator, retry_event
        from alhena.wire.conformance.check import RequestGate

        generator, _ = self._source()
        if isinstance(generator, RetryingGenerator):
            generator = generator.telling(self._tell)
        request, _ = RequestGate().admit(request)
        patience = None
        while True:
            response = await self._answer(generator, request)
            problem = _problem(response)
            if problem is None or (problem.reason not in ASKED_AGAIN and not response.parts):
                return response
            error = UnusableAnswerError(problem.message, remedy=problem.remedy)
            if problem.reason not in ASKED_AGAIN or not isinstance(generator, RetryingGenerator):
                raise error
            patience = patience or generator.patience()
            wait = patience.after(error, RetryClass.BROKEN)
            if wait is None:
                raise error
            await generator.admit(wait, error)
            self._tell(retry_event(error, patience, wait, model=request.model, prompt_id=""))
            await generator.pause(wait)

    async def _answer(
        self, generator: ContentGenerator, request: GenerateContentRequest
    ) -> GenerateContentResponse:
        """One request and its answer, with their events."""
        from alhena.chat.chat import RequestEvents

        account = RequestEvents(request, role=self._role, texts=self._texts)
        self._emit(account.request_event())
        try:
            response = await whole_answer(generator.generate, request)
        except AlhenaError as error:
            self._emit(account.error_event(error))
            raise
        account.feed(response)
        self._emit(account.response_event())
        return response

    def _settings(self, schema: dict[str, Any] | None, model: str) -> GenerateContentConfig:
        from alhena.models.catalogue import without_refused

        generation = without_refused(model, self._config.generation_config or GenerationConfig())
        if schema is not None:
            generation = msgspec.structs.replace(
                generation, response_mime_type="application/json", response_json_schema=schema
            )
        return msgspec.structs.replace(self._config, generation_config=generation)

    def _tell(self, event: RetryEvent) -> None:
        self._emit(msgspec.structs.replace(event, role=self._role))

    async def ask(self, prompt: str) -> str:
        """The text that answers a prompt. Raises ModelError or WireError."""
        return await self.answer((text_content(USER, prompt),))

    async def answer(
        self,
        contents: Sequence[Content | EncodedContent],
        *,
        system: str | None = None,
        whole: bool = False,
    ) -> str:
        """The text that answers contents; `whole`: one that was cut at the model's output limit is
        of no use. Raises ModelError or WireError."""
        return read_answer(await self.generate(contents, system=system), whole=whole)


def read_answer(response: GenerateContentResponse, *, whole: bool) -> str:
    """The text of an answer; `whole` as for `SessionModel.answer`. Raises UnusableAnswerError."""
    from alhena.models.errors import UnusableAnswerError

    problem = _problem(response)
    if problem is not None:
        raise UnusableAnswerError(problem.message, remedy=problem.remedy)
    if whole and response.finish_reason == FinishReason.MAX_TOKENS:
        raise UnusableAnswerError("the answer was cut at the model's output limit.")
    return "".join(part.text or "" for part in response.parts if not part.thought)


def _problem(response: GenerateContentResponse) -> "InvalidResponseError | None":
    """The reason why a whole answer is of no use, if it is not. A reason that is missing is none of
    that."""
    from alhena.chat.turn import AnswerCollector, InvalidResponseError

    turn = AnswerCollector("", CallIds(""), lambda _event: None)
    turn.feed(response)
    turn.end_whole()
    try:
        turn.check(answers_tools=False)
    except InvalidResponseError as error:
        return error
    return None


class SessionModelList:
    """The list of a session's service, loaded when it is needed. Reads the session's events: says
    once by which other model a name is answered, and asks for the list in the background when a
    model that is not listed here has answered."""

    def __init__(
        self,
        generator: ContentGenerator,
        environ: Mapping[str, str],
        emit: Callable[[Event], None],
    ) -> None:
        self._source = (generator, environ)
        self._list: ModelList | None = None
        self._emit = emit
        self._requested: dict[tuple[str, str | None], str] = {}
        self._named: set[tuple[str, str]] = set()
        self._asking: Task[object] | None = None
        self._renewal: ModelRenewal | None = None

    def _open(self) -> "ModelList | None":
        from alhena.agent.toolset.model_list import open_list

        self._list = self._list or open_list(*self._source)
        return self._list

    async def models(self) -> "tuple[ServedModel, ...]":
        """The list; empty if the service has none or does not answer."""
        found = self._open()
        return () if found is None else await found.models()

    async def names(self) -> tuple[str, ...]:
        """The names of the list, also of a service that says no more than that."""
        if self._open() is not None:
            return tuple(each.name for each in await self.models())
        from alhena.models.served import list_names

        return await list_names(self._source[0])

    def renewal(self) -> "ModelRenewal":
        """Returns the finder of successors of models that are gone, made on first use."""
        from alhena.models.served import ModelRenewal

        self._renewal = self._renewal or ModelRenewal(self.models)
        return self._renewal

    def prepare(self, model: str) -> None:
        """Takes the properties of an unlisted model from the list of today, if there is one."""
        if _is_unknown(model) and (found := self._open()):
            found.read_cached()

    def feed(self, event: Event) -> None:
        """Reads an event of the session."""
        if isinstance(event, ApiRequestEvent):
            self._requested[event.role, event.parent_call_id] = event.model
        elif isinstance(event, ApiResponseEvent):
            requested = self._requested.get((event.role, event.parent_call_id), "")
            if is_gemini(requested) and is_gemini(event.model):
                self._compare(requested, event.model)
                self._learn(requested)

    def _compare(self, requested: str, answered: str) -> None:
        pair = (requested, answered)
        if requested == answered or pair in self._named:
            return
        from alhena.models.prices import is_same

        if not is_same(requested, answered):
            self._named.add(pair)
            text = f"{answered} answered instead of {requested}; its price counts."
            self._emit(WarningEvent(message=text))

    def _learn(self, model: str) -> None:
        if self._asking is not None or not _is_unknown(model):
            return
        found = self._open()
        if found is not None and found.read_cached() is None:
            import asyncio

            self._asking = asyncio.create_task(found.models())

    def close(self) -> None:
        """Ends a request for the list."""
        if self._asking is not None:
            self._asking.cancel()


def is_gemini(name: str) -> bool:
    """True for the name of a Gemini model."""
    return name.rpartition("/")[2].startswith("gemini-")


def _is_unknown(model: str) -> bool:
    from alhena.models.catalogue import is_unknown

    return is_unknown(model)


FallbackMode = Literal["ask", "always", "never"]


class FallbackConsent:
    """Asks a person whether another model may answer. Who agreed once for a model is not asked for
    it again; conversations that fail side by side ask one after the other."""

    def __init__(self, ask: "Ask | None") -> None:
        self.possible = ask is not None
        self._ask = ask
        self._agreed: set[tuple[str, str]] = set()
        import asyncio

        self._turn = asyncio.Lock()

    async def obtain(self, model: str, other: str, reason: str) -> bool:
        """True when `other` may answer instead of `model`."""
        async with self._turn:
            if (model, other) not in self._agreed and await self._ask_person(model, other, reason):
                self._agreed.add((model, other))
        return (model, other) in self._agreed

    async def _ask_person(self, model: str, other: str, reason: str) -> bool:
        from alhena.tools.builtin.ask_user import agrees
        from alhena.tools.contract import QuestionOption

        return await agrees(
            self._ask,
            f"{model} cannot answer: {reason} Continue with {other} instead?",
            "Model",
            QuestionOption(
                label=f"Continue with {other}",
                description="It answers for the rest of the session.",
            ),
            QuestionOption(label="Stop", description="The prompt ends here."),
        )


class SessionFallback:
    """A `chat.recovery.Fallback`. In mode "ask" a person decides; if no person can be
    asked, no other model answers. `config` gives a model's settings. `chosen`: the names that a
    default or an alias means; with `renewal` these are replaced when the service has them no
    more."""

    def __init__(
        self,
        mode: FallbackMode,
        consent: FallbackConsent,
        config: "Callable[[str], GenerateContentConfig]",
        chosen: set[str],
        renewal: "Callable[[], ModelRenewal] | None" = None,
    ) -> None:
        self._mode: FallbackMode = mode
        self._consent = consent
        self._config = config
        self._chosen = chosen
        self._renewal = renewal

    def giving(
        self, config: "Callable[[str], GenerateContentConfig]", chosen: str | None = None
    ) -> "SessionFallback":
        """The same for a conversation with settings of its own. `chosen`: the model that an alias
        means there."""
        if chosen is not None:
            self._chosen.add(chosen)
        return SessionFallback(self._mode, self._consent, config, self._chosen, self._renewal)

    def takes(self, error: AlhenaError) -> bool:
        """True for an error of the service."""
        from alhena.errors import ModelError

        return isinstance(error, ModelError)

    def offers(self, model: str, error: AlhenaError) -> bool:
        """True when another model could answer and may be chosen."""
        from alhena.errors import ModelError
        from alhena.models.catalogue import fallback_model

        if not isinstance(error, ModelError) or self._mode == "never":
            return False
        if self._mode == "ask" and not self._consent.possible:
            return False
        return fallback_model(model, error) is not None

    async def instead_of(self, model: str, error: AlhenaError) -> "Substitute | None":
        """The model to continue with, after a person agreed if one is to be asked. The successor of
        a default or an alias that the service no longer has needs no agreement. Raises ModelError
        that names served models for a name that a person wrote."""
        from alhena.chat.recovery import Substitute
        from alhena.chat.turn import traits_of
        from alhena.errors import ModelError
        from alhena.models.catalogue import fallback_model

        if not isinstance(error, ModelError):
            return None
        newer = None
        if self._renewal is not None:
            chosen = model in self._chosen
            newer = await self._renewal().instead_of(model, error, chosen=chosen)
        if newer is not None:
            self._chosen.add(newer)
            return Substitute(traits=traits_of(newer), config=self._config(newer))
        other = fallback_model(model, error)
        if other is None or not self.offers(model, error):
            return None
        asks = self._mode == "ask"
        if asks and not await self._consent.obtain(model, other, error.message):
            return None
        return Substitute(traits=traits_of(other), config=self._config(other), asked=asks)


def fallback_mode(given: FallbackMode, model: str) -> FallbackMode:
    """The mode for a session that was asked to use `model`: who leaves the choice of a model to us
    leaves this one to us too."""
    automatic = model == "auto" or model.startswith("auto-")
    return "always" if given == "ask" and automatic else given
