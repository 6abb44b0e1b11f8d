"""The model service behind the gateway."""

from collections.abc import AsyncGenerator

from msgspec.structs import replace

from alhena.errors import StreamCutError
from alhena.gateway.fitting import fitted
from alhena.gateway.ids import answer_id
from alhena.gateway.names import ModelNames
from alhena.gateway.sendable import sendable
from alhena.models.catalogue import model_info
from alhena.models.generator import ContentGenerator
from alhena.wire.conformance.check import require_conformance
from alhena.wire.conformance.repair import repair_entries, without_idle_calling
from alhena.wire.content import USER, Content, Part
from alhena.wire.dialects.conversation import DialectRequest
from alhena.wire.dialects.fields import DialectError
from alhena.wire.encoded import EncodedContent, encode_value
from alhena.wire.request import GenerateContentConfig, GenerateContentRequest
from alhena.wire.response import GenerateContentResponse
from alhena.wire.schema.adapt import SchemaForm, with_form

_CUT = "the model's answer ended without a finish reason."


class Upstream:
    """Answers requests of any dialect. All methods raise AlhenaError."""

    def __init__(self, generator: ContentGenerator, names: ModelNames) -> None:
        self._generator = generator
        self.names = names

    def prepared(self, asked: DialectRequest, *, own: bool) -> GenerateContentRequest:
        """The request as it is sent on; checked and repaired where a Gemini model answers, repaired
        where another one is asked in Gemini's `own` dialect. That one knows what it asks for; the
        settings of any other are made to fit."""
        model = self.names.model(asked.model)
        config, left_out = with_form(asked.config, SchemaForm.JSON_SCHEMA)
        if left_out:
            first = left_out[0]
            name = asked.names.original(first.name)
            raise DialectError(f'the tool "{name}" cannot be declared: {first.reason}', "tools")
        if self.names.gemini:
            config = config if own else fitted(config, model_info(model))
            return sendable(replace(asked, config=config), model=model, prompt_id=answer_id())
        config = _callable(config)
        # The gate knows Gemini's rules only. It would take signatures of the other service for
        # broken ones of Gemini's; that service checks its own requests. What calls and their
        # results have to keep towards each other it asks for too, and clients of Gemini's dialect
        # are the ones that nobody has held to it yet.
        contents = tuple(map(EncodedContent, asked.contents))
        if own:
            contents, _ = repair_entries(contents, needs_signatures=False, takes_thoughts=True)
            require_conformance(GenerateContentRequest(model=model, contents=contents))
        return GenerateContentRequest(model=model, contents=contents, config=config)

    async def answer(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """The whole answer. Raises StreamCutError where it does not say how it ends."""
        response = await self._generator.generate(request)
        if not _is_end(response):
            raise StreamCutError(_CUT)
        return _identified(response)

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        """The answer chunk by chunk; closing it closes what stands behind it. Raises StreamCutError
        also where it ends without saying how."""
        chunks = self._generator.stream(request)
        ended = begun = False
        try:
            async for chunk in chunks:
                if not begun:
                    chunk = _identified(chunk)
                    begun = True
                yield chunk  # before all that can wait until it has gone out
                ended = ended or _is_end(chunk)
        finally:
            if isinstance(chunks, AsyncGenerator):
                await chunks.aclose()
        if not ended:
            raise StreamCutError(_CUT)

    async def count(self, request: GenerateContentRequest) -> int:
        """How many tokens the request takes. Instructions and declarations are counted as text."""
        contents = (*_told(request.config), *request.contents)
        return await self._generator.count_tokens(contents, model=request.model)

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._generator.aclose()


def _callable(config: GenerateContentConfig) -> GenerateContentConfig:
    """The config with a calling mode only where there is something to call, as every service wants
    it. Raises DialectError where a call is demanded and there is nothing."""
    config = without_idle_calling(config)
    calling = config.tool_config and config.tool_config.function_calling_config
    if calling and not config.function_names():
        raise DialectError("a call is demanded, but there are no tools.", "tools")
    return config


def _identified(response: GenerateContentResponse) -> GenerateContentResponse:
    if response.response_id:
        return response
    return replace(response, response_id=answer_id())


def _is_end(chunk: GenerateContentResponse) -> bool:
    """Whether a chunk says how the answer ends. Calls do by themselves: some services leave the
    finish reason out behind them."""
    if chunk.finish_reason or chunk.prompt_feedback:
        return True
    return any(part.function_call is not None for part in chunk.parts)


def _told(config: GenerateContentConfig) -> tuple[EncodedContent, ...]:
    """What a request says beside its contents, as a content."""
    texts = [part.text for part in _system_parts(config) if part.text]
    declarations = [one for tool in config.tools or () for one in tool.function_declarations or ()]
    texts += [encode_value(one).decode("utf-8") for one in declarations]
    if not texts:
        return ()
    return (EncodedContent(Content(role=USER, parts=tuple(Part(text=text) for text in texts))),)


def _system_parts(config: GenerateContentConfig) -> tuple[Part, ...]:
    return config.system_instruction.parts if config.system_instruction is not None else ()
