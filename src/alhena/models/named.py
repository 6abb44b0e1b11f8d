"""`NamedModel`, a model object with a name, retries and settings of its own."""

from collections.abc import AsyncGenerator
from typing import Self

from msgspec.structs import replace

from alhena.models.generator import ContentGenerator
from alhena.models.retry import RetryingGenerator, RetryPolicy
from alhena.models.settings import NONE, ModelSettings
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import GenerateContentResponse

ONCE = RetryPolicy(max_attempts=1, broken_attempts=1, capacity_s=())
"""The policy of a model that sends each request once."""


class NamedModel(RetryingGenerator):
    """A model under its `name`. Requests get its `settings` where they have none. As a context
    manager it closes the connections."""

    def __init__(
        self,
        name: str,
        inner: ContentGenerator,
        policy: RetryPolicy | None = None,
        settings: ModelSettings = NONE,
    ) -> None:
        super().__init__(inner, policy or ONCE)
        self.name = name
        self.settings = settings

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Closes the connections."""
        await self.aclose()

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """Returns the whole answer."""
        return await super().generate(self._fill(request))

    def stream(
        self, request: GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        """Yields the answer in chunks."""
        return super().stream(self._fill(request))

    def _fill(self, request: GenerateContentRequest) -> GenerateContentRequest:
        if self.settings == NONE:
            return request
        return replace(request, config=self.settings.fill(request.config, self.name))
