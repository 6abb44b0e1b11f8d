"""Supports services that only know the older form of declarations, such as some gateways (T14)."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from alhena.models.errors import RequestRejectedError
from alhena.models.generator import ContentGenerator
from alhena.wire.encode import EncodedContent
from alhena.wire.request import GenerateContentConfig, GenerateContentRequest
from alhena.wire.response import EmbedContentResponse, GenerateContentResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_NAMES = ("parametersjsonschema", "parameters_json_schema")


class OlderSchemas:
    """Sends requests to `inner`; when it rejects the form of the declarations, uses the older form
    from then on. `tell` is called with tools lost by that. The converted request is checked again,
    because the usual check comes before this."""

    def __init__(self, inner: ContentGenerator, tell: Callable[[str], None] | None = None) -> None:
        self.inner = inner
        self._tell = tell
        self._older = False
        self._last: tuple[GenerateContentConfig, GenerateContentConfig] | None = None

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """Returns the whole answer."""
        try:
            return await self.inner.generate(self._said(request))
        except RequestRejectedError as error:
            if not self._turns_to_older(request, error):
                raise
        return await self.inner.generate(self._said(request))

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        """Yields the answer in chunks. A refusal comes before the first one."""
        try:
            async with aclosing(_closing(self.inner.stream(self._said(request)))) as answer:
                async for response in answer:
                    yield response
            return
        except RequestRejectedError as error:
            if not self._turns_to_older(request, error):
                raise
        async with aclosing(_closing(self.inner.stream(self._said(request)))) as answer:
            async for response in answer:
                yield response

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        """Delegates to the service."""
        return await self.inner.count_tokens(contents, model=model)

    async def embed(
        self, contents: Sequence[EncodedContent], *, model: str
    ) -> EmbedContentResponse:
        """Delegates to the service."""
        return await self.inner.embed(contents, model=model)

    async def aclose(self) -> None:
        """Closes the inner generator."""
        await self.inner.aclose()

    def _turns_to_older(self, request: GenerateContentRequest, error: RequestRejectedError) -> bool:
        """True when the refusal concerns the form, and the older one has not been tried."""
        said = error.message.lower()
        declares = bool(request.config.function_names())
        if self._older or not declares or not any(name in said for name in _NAMES):
            return False
        self._older = True
        return True

    def _said(self, request: GenerateContentRequest) -> GenerateContentRequest:
        """The request in the supported form."""
        config = request.config
        if not self._older or config.tools is None:
            return request
        if self._last is None or self._last[0] is not config:
            from alhena.wire.conformance.check import check_config, refuse_errors
            from alhena.wire.conformance.repair import without_idle_calling
            from alhena.wire.conformance.rules import Findings
            from alhena.wire.schema.adapt import SchemaForm, with_form

            older, lost = with_form(config, SchemaForm.OPENAPI)
            older = without_idle_calling(older)
            findings = Findings()
            check_config(older, findings)
            refuse_errors(findings.violations)
            if self._tell is not None:
                for tool in lost:
                    self._tell(f'Tool "{tool.name}" is left out: {tool.reason}')
            self._last = (config, older)
        return msgspec.structs.replace(request, config=self._last[1])


async def _closing(
    answer: "AsyncIterator[GenerateContentResponse]",
) -> AsyncGenerator[GenerateContentResponse, None]:
    """`answer`, closed when it is abandoned."""
    try:
        async for response in answer:
            yield response
    finally:
        close = getattr(answer, "aclose", None)
        if close is not None:
            await close()
