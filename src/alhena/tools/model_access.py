"""How a tool asks a model: one question, one whole answer, nothing of the conversation."""

from typing import Protocol

from alhena.wire.content import Content
from alhena.wire.request import Tool
from alhena.wire.response import GenerateContentResponse


class ModelAccess(Protocol):
    """The session's model, as tools may use it."""

    async def generate(
        self,
        contents: tuple[Content, ...],
        *,
        tools: tuple[Tool, ...] = (),
        system: str | None = None,
        model: str | None = None,
    ) -> GenerateContentResponse:
        """The answer to `contents`; `tools` are server-side ones, `model` None is the session's.

        Raises `models.errors.ModelError` or `wire.errors.WireError`.
        """
        ...
