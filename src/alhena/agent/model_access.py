"""The session's model as its tools use it: one question, one answer, and an account of both."""

from collections.abc import Callable

import msgspec

from alhena.chat.accounting import Account
from alhena.errors import AlhenaError
from alhena.events import Event, RetryEvent
from alhena.models.generator import ContentGenerator
from alhena.wire.content import USER, Content, text_content
from alhena.wire.encode import EncodedContent
from alhena.wire.request import (
    GenerateContentConfig,
    GenerateContentRequest,
    GenerationConfig,
    Tool,
)
from alhena.wire.response import GenerateContentResponse

ROLE = "utility_tool"

Source = Callable[[], tuple[ContentGenerator, str]]
"""Who answers, under which model name; asked at the first question. May raise AlhenaError."""


class SessionModel:
    """A `tools.model_access.ModelAccess`. Requests and answers go out as events."""

    def __init__(
        self, source: Source, emit: Callable[[Event], None], *, texts: bool = False
    ) -> None:
        self._source = source
        self._emit = emit
        self._texts = texts

    async def generate(
        self,
        contents: tuple[Content, ...],
        *,
        tools: tuple[Tool, ...] = (),
        system: str | None = None,
        model: str | None = None,
    ) -> GenerateContentResponse:
        """The answer to `contents`. Raises ModelError or WireError."""
        from alhena.models.retry.generator import RetryingGenerator

        generator, own = self._source()
        if isinstance(generator, RetryingGenerator):
            generator = generator.telling(self._tell)
        request = GenerateContentRequest(
            model=model or own,
            contents=tuple(EncodedContent(content) for content in contents),
            config=GenerateContentConfig(
                system_instruction=text_content(USER, system) if system else None,
                tools=tools or None,
                generation_config=GenerationConfig(temperature=0, top_p=1),
            ),
        )
        account = Account(request, role=ROLE, texts=self._texts)
        self._emit(account.sent())
        try:
            response = await generator.generate(request)
        except AlhenaError as error:
            self._emit(account.failed(error))
            raise
        account.feed(response)
        self._emit(account.answered())
        return response

    def _tell(self, event: RetryEvent) -> None:
        self._emit(msgspec.structs.replace(event, role=ROLE))

    async def ask(self, prompt: str) -> str:
        """The text that answers a prompt. Raises ModelError or WireError."""
        response = await self.generate((text_content(USER, prompt),))
        return "".join(part.text or "" for part in response.parts if not part.thought)
