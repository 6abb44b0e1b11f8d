"""The model service behind the gateway: maps model names, adapts requests."""

from collections.abc import AsyncGenerator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from alhena.errors import ModelError, StreamCutError
from alhena.gateway.dialects import answer_id
from alhena.gateway.embeddings import BATCH, EMBEDDING_MODEL
from alhena.models.catalogue import (
    ALIASES,
    ModelInfo,
    Thinking,
    is_alias,
    model_info,
    refused_settings,
    resolved_name,
    served_models,
    today,
    without_refused,
)
from alhena.models.dialect_requests import sendable
from alhena.models.errors import ModelNotFoundError, SignatureError
from alhena.models.generator import ContentGenerator
from alhena.models.served import ModelRenewal
from alhena.wire.conformance.check import require_conformance
from alhena.wire.conformance.repair import repair_entries, without_idle_calling
from alhena.wire.content import (
    USER,
    Content,
    EncodedContent,
    Part,
    encode_value,
    for_another_model,
)
from alhena.wire.dialects.conversation import DialectRequest
from alhena.wire.dialects.fields import DialectError
from alhena.wire.dialects.results import is_formed, with_form_in_words
from alhena.wire.dialects.trimming import AnswerTrimmer
from alhena.wire.encode import ContentToEmbed
from alhena.wire.errors import DecodeError
from alhena.wire.request import (
    GenerateContentConfig,
    GenerateContentRequest,
    GenerationConfig,
    ThinkingConfig,
)
from alhena.wire.response import (
    EmbedContentResponse,
    Embedding,
    FinishReason,
    GenerateContentResponse,
)
from alhena.wire.schema.adapt import SchemaForm, with_form

_LOW, _MEDIUM = 1024, 8192
"""Maximum thinking tokens of these levels."""
_INT32 = 2**31 - 1
"""Gemini's largest integer. Other dialects have larger ones."""
_LEVELS = ("MINIMAL", "LOW", "MEDIUM", "HIGH")


def adapt_config(config: GenerateContentConfig, info: ModelInfo) -> GenerateContentConfig:
    """Adapts the config of another dialect's request to the model: its output limit, the form and
    bounds of its thinking, its sampling settings. If it supports no answer format beside tools, the
    format is described in words. A penalty of zero is dropped. Out-of-range numbers are reduced:
    limits to the maximum, a seed to another value, always the same."""
    if config.tools and is_formed(config) and not info.forms_beside_functions:
        config = with_form_in_words(config)
    given = config.generation_config
    if given is None:
        return config
    limit = _limit_number(given.max_output_tokens)
    if limit is not None and info.output_limit is not None:
        limit = min(limit, info.output_limit)
    made = replace(
        without_refused(info.name, replace(given, thinking_config=None)),
        max_output_tokens=limit,
        top_k=_limit_number(given.top_k),
        seed=_fold_seed(given.seed),
        presence_penalty=given.presence_penalty or None,
        frequency_penalty=given.frequency_penalty or None,
        thinking_config=fitted_thinking(given.thinking_config, info),
    )
    if made == given:
        return config
    return replace(config, generation_config=None if made == GenerationConfig() else made)


def _limit_number(number: int | None) -> int | None:
    return None if number is None else max(-_INT32, min(number, _INT32))


def _fold_seed(seed: int | None) -> int | None:
    return seed if seed is None or abs(seed) <= _INT32 else seed & _INT32


def fitted_thinking(given: ThinkingConfig | None, info: ModelInfo) -> ThinkingConfig | None:
    """Converts thinking settings, a token count in other dialects, to the model's form."""
    budget = _limit_number(given.thinking_budget) if given is not None else None
    if given is None or budget is None:
        return given
    if info.thinking is Thinking.NONE:
        return None
    if info.thinking is Thinking.LEVEL:
        level = _level(budget, info.levels)
        return ThinkingConfig(thinking_level=level, include_thoughts=given.include_thoughts)
    if budget < 0:
        budget = -1  # the only negative value: the model's choice
    elif info.budgets is not None:
        least, most = info.budgets
        budget = min(max(budget, least), most)
    return replace(given, thinking_budget=budget)


def _level(budget: int, levels: tuple[str, ...]) -> str | None:
    """The level for a budget, or the next higher one of the model."""
    wished = "HIGH"
    if budget == 0:
        wished = "MINIMAL"
    elif 0 < budget <= _LOW:
        wished = "LOW"
    elif 0 < budget <= _MEDIUM:
        wished = "MEDIUM"
    above = _LEVELS[_LEVELS.index(wished) :]
    return next((level for level in above if level in levels), None)


_GEMINI = ("gemini-", "gemma-", "learnlm-")


class ModelNames:
    """Maps clients' names to models.

    `given` maps single names. Other Gemini names are unchanged if `gemini` models are served; any
    other name means the `configured` model, because clients of other dialects insist on the names
    they know. `chosen`: the configured model is a default, or what an alias means.
    """

    def __init__(
        self,
        configured: str,
        given: Mapping[str, str] | None = None,
        *,
        gemini: bool = True,
        chosen: bool = False,
    ) -> None:
        self.configured = configured
        self.gemini = gemini
        self._chosen = chosen
        self._given = dict(given or {})

    def model(self, name: str) -> str:
        """The model for a name."""
        bare = name.removeprefix("models/")
        mapped = self._given.get(name) or self._given.get(bare)
        if mapped is not None:
            return resolved_name(mapped) if self.gemini else mapped
        if self.gemini and (_is_gemini(bare) or name.startswith("tunedModels/")):
            return resolved_name(bare)
        return self.configured

    def embedding_model(self, name: str) -> str:
        """The model that makes vectors for a name."""
        bare = name.removeprefix("models/")
        mapped = self._given.get(name) or self._given.get(bare)
        return mapped or (bare if bare.startswith("gemini-embedding") else EMBEDDING_MODEL)

    def is_chosen(self, name: str) -> bool:
        """True for a name whose model we choose, so that another one may take its place."""
        bare = name.removeprefix("models/")
        mapped = self._given.get(name) or self._given.get(bare)
        if mapped is not None or _is_gemini(bare) or name.startswith("tunedModels/"):
            return self.gemini and is_alias(mapped or bare)
        return self._chosen

    def list_models(self) -> tuple[ModelInfo, ...]:
        """The models that answer clients: the configured one, the given names, and Gemini's known
        ones."""
        found = {self.configured: model_info(self.configured)}
        for name in self._given:
            found.setdefault(name, _named_model(name, self.model(name)))
        for info in served_models(today()) if self.gemini else ():
            if info.name != EMBEDDING_MODEL:
                found.setdefault(info.name, info)
        return tuple(found.values())

    def find_model(self, name: str) -> ModelInfo | None:
        """The properties of a named model; None for a name outside all lists."""
        bare = name.removeprefix("models/")
        listed = {info.name: info for info in self.list_models()}
        if bare in listed:
            return listed[bare]
        if self.gemini and _is_gemini(bare):
            return _named_model(bare, self.model(bare))
        return None


def _named_model(name: str, model: str) -> ModelInfo:
    from msgspec.structs import replace

    return replace(model_info(model), name=name)


def _is_gemini(name: str) -> bool:
    return name.startswith(_GEMINI) or name in ALIASES


class UpstreamRequest(msgspec.Struct):
    """A client's request and the one that is sent for it. `own`: in Gemini's own dialect.
    `left_out` are the names or types of tools that the model does not get."""

    asked: DialectRequest
    request: GenerateContentRequest
    own: bool
    left_out: tuple[str, ...] = ()


_CUT = "the model's answer ended without a finish reason."


class Upstream:
    """Answers requests of any dialect. `tier` is the service tier of requests that name none,
    `renewal` finds the successors of models that the service no longer has. All methods raise
    AlhenaError."""

    def __init__(
        self,
        generator: ContentGenerator,
        names: ModelNames,
        tier: str | None = None,
        renewal: ModelRenewal | None = None,
    ) -> None:
        self._generator = generator
        self._tier = tier
        self._renewal = renewal
        self._successors: dict[str, str] = {}
        self.names = names

    def prepare_embedding(self, asked: DialectRequest) -> UpstreamRequest:
        """The question that names the model for vectors."""
        model = self.names.embedding_model(asked.model)
        return UpstreamRequest(asked, GenerateContentRequest(model=model, contents=()), own=False)

    def prepare(self, asked: DialectRequest, *, own: bool) -> UpstreamRequest:
        """The question with the request to send; checked and repaired for a Gemini model, only
        repaired for another model in Gemini's `own` dialect. Settings of other dialects are
        adapted."""
        model = self.names.model(asked.model)
        while self.names.is_chosen(asked.model) and model in self._successors:
            model = self._successors[model]
        left_out = asked.left_out
        if asked.server_tools and not self._can_search(asked, model):
            left_out = (*asked.server_tools.values(), *left_out)
        return UpstreamRequest(asked, self._request(asked, model, own=own), own, left_out)

    def _can_search(self, asked: DialectRequest, model: str) -> bool:
        """True if the model may use Gemini's search for a request of another dialect: only without
        functions, since older models take one or the other, and newer ones want their own calls
        back, which other dialects cannot carry."""
        is_able = self.names.gemini and model.startswith("gemini-")
        return is_able and not asked.config.function_names()

    def _request(self, asked: DialectRequest, model: str, *, own: bool) -> GenerateContentRequest:
        config = asked.config.with_tier(self._tier)
        if asked.server_tools and not self._can_search(asked, model):
            config = _without_server_tools(config)
        config, left_out = with_form(config, SchemaForm.JSON_SCHEMA)
        if left_out:
            first = left_out[0]
            name = asked.names.original(first.name)
            raise DialectError(f'the tool "{name}" cannot be declared: {first.reason}', "tools")
        if self.names.gemini:
            info = model_info(model)
            config = _own_settings(config, info) if own else adapt_config(config, info)
            return sendable(replace(asked, config=config), model=model, prompt_id=answer_id())
        config = _callable(config)
        # The gate only knows Gemini's rules. It would take signatures of another service for
        # broken ones of Gemini's; that service checks its own requests. But it requires the
        # pairing of calls and results too, which only clients of Gemini's dialect have not
        # been checked for.
        contents = tuple(map(EncodedContent, asked.contents))
        if own:
            contents, _ = repair_entries(contents, needs_signatures=False, takes_thoughts=True)
            require_conformance(GenerateContentRequest(model=model, contents=contents))
        return GenerateContentRequest(model=model, contents=contents, config=config)

    async def answer(self, question: UpstreamRequest) -> GenerateContentResponse:
        """Returns the whole answer. Raises StreamCutError without a finish reason."""
        mended = False
        while True:
            try:
                response = await self._generator.generate(question.request)
                break
            except ModelError as error:
                mended = await self._mend(question, error, mended=mended)
        if not _is_end(response):
            raise StreamCutError(_CUT)
        return _add_response_id(AnswerTrimmer(question.asked).feed(response))

    async def stream(
        self, question: UpstreamRequest
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        """Yields the answer in chunks; closing it closes the upstream connection. Raises
        StreamCutError also without a finish reason."""
        ended = begun = mended = False
        trimmer = AnswerTrimmer(question.asked)
        while True:
            chunks = self._generator.stream(question.request)
            try:
                async for chunk in chunks:
                    if not begun:
                        chunk = _add_response_id(chunk)
                        begun = True
                    chunk = trimmer.feed(chunk)
                    yield chunk  # before anything that might delay it
                    ended = ended or _is_end(chunk)
                    if trimmer.ended:
                        break
                break
            except ModelError as error:
                if begun:
                    raise
                mended = await self._mend(question, error, mended=mended)
            finally:
                if isinstance(chunks, AsyncGenerator):
                    await chunks.aclose()
        if not ended:
            raise StreamCutError(_CUT)

    async def count(self, question: UpstreamRequest) -> int:
        """Counts the tokens of the request. Instructions and declarations are counted as text."""
        while True:
            request = question.request
            contents = (*_collect_context(request.config), *request.contents)
            try:
                return await self._generator.count_tokens(contents, model=request.model)
            except ModelError as error:
                await self._mend(question, error, mended=True)

    async def embed(self, model: str, contents: Sequence[ContentToEmbed]) -> EmbedContentResponse:
        """Returns one vector per content, over as many requests as the service needs."""
        vectors: list[Embedding] = []
        for start in range(0, len(contents), BATCH):
            some = contents[start : start + BATCH]
            answer = await self._generator.embed(some, model=model)
            if len(answer.embeddings) != len(some):
                raise DecodeError(
                    f"{len(answer.embeddings)} vectors came for {len(some)} contents."
                )
            vectors += answer.embeddings
        return EmbedContentResponse(embeddings=tuple(vectors))

    async def _mend(self, question: UpstreamRequest, error: ModelError, *, mended: bool) -> bool:
        """Changes the request that failed so that it can be sent once more: without signatures,
        unless that was `mended` before, or to the successor of a model that is gone. True for the
        first. Raises `error` for any other, with the names of served models for a model whose name
        a client wrote."""
        model = question.request.model
        if isinstance(error, SignatureError) and not mended:
            question.request = _remove_signatures(question.request)
            return True
        newer = None
        if self._renewal is not None and self.names.gemini:
            chosen = self.names.is_chosen(question.asked.model)
            try:
                newer = await self._renewal.instead_of(model, error, chosen=chosen)
            except ModelNotFoundError as named:
                # Remedies are for the operator; this one is the client's.
                raise ModelNotFoundError(str(named), status=named.status) from error
        if newer is None:
            raise error
        self._successors[model] = newer
        question.request = self._request(question.asked, newer, own=question.own)
        return mended

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._generator.aclose()


def _own_settings(config: GenerateContentConfig, info: ModelInfo) -> GenerateContentConfig:
    """The config of a request in Gemini's own dialect, without sampling settings that the model
    ignores. Raises DialectError for thinking settings that it rejects."""
    given = config.generation_config
    if given is None:
        return config
    for name, reason in refused_settings(info.name, given).items():
        if name.startswith("thinking"):
            raise DialectError(f"{info.name} does not take {name} ({reason}).", name)
    made = without_refused(info.name, given)
    return config if made == given else replace(config, generation_config=made)


def _without_server_tools(config: GenerateContentConfig) -> GenerateContentConfig:
    """The config with functions only."""
    kept = tuple(tool for tool in config.tools or () if tool.function_declarations)
    return replace(config, tools=kept or None)


def _callable(config: GenerateContentConfig) -> GenerateContentConfig:
    """Drops a calling mode without callable functions, as every service requires. Raises
    DialectError if a call is required."""
    config = without_idle_calling(config)
    calling = config.tool_config and config.tool_config.function_calling_config
    if calling and not config.function_names():
        raise DialectError("a call is demanded, but there are no tools.", "tools")
    return config


def _remove_signatures(request: GenerateContentRequest) -> GenerateContentRequest:
    """The request without signatures, which may be another model's; calls get the sentinel."""
    sign = model_info(request.model).needs_signatures
    plain = (for_another_model(entry.content, sign_calls=sign) for entry in request.contents)
    return replace(request, contents=tuple(map(EncodedContent, plain)))


def _add_response_id(response: GenerateContentResponse) -> GenerateContentResponse:
    if response.response_id:
        return response
    return replace(response, response_id=answer_id())


def _is_end(chunk: GenerateContentResponse) -> bool:
    """True when a chunk ends the answer. Calls do so by themselves: some services omit the finish
    reason after them."""
    if chunk.finish_reason == FinishReason.CONTINUATION:
        return False
    if chunk.finish_reason or chunk.prompt_feedback:
        return True
    return any(part.function_call is not None for part in chunk.parts)


def _collect_context(config: GenerateContentConfig) -> tuple[EncodedContent, ...]:
    """The parts of a request other than its contents, as a content."""
    texts = [part.text for part in _system_parts(config) if part.text]
    declarations = [one for tool in config.tools or () for one in tool.function_declarations or ()]
    texts += [encode_value(one).decode("utf-8") for one in declarations]
    if not texts:
        return ()
    return (EncodedContent(Content(role=USER, parts=tuple(Part(text=text) for text in texts))),)


def _system_parts(config: GenerateContentConfig) -> tuple[Part, ...]:
    return config.system_instruction.parts if config.system_instruction is not None else ()
