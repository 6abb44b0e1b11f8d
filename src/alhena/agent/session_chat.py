"""The conversation of a session, and what of its requests stays the same from one to the next."""

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from alhena.agent.links import SessionLinks
from alhena.agent.session_context import SessionPrompt
from alhena.agent.session_model import SessionModels, traits_of
from alhena.agent.workbench import Workbench
from alhena.chat.chat import Chat, Outlets
from alhena.chat.history import History
from alhena.errors import AlhenaError, ModelError
from alhena.models.generator import ContentGenerator
from alhena.models.select import ChosenGenerator
from alhena.wire.calls import CallIds
from alhena.wire.content import Content, Part
from alhena.wire.encode import EncodedContent
from alhena.wire.request import GenerateContentConfig, Tool

if TYPE_CHECKING:
    from alhena.chat.compression import ContextRoom

SMALL = 100_000
"""Bytes of a conversation that has not begun, for which there is room in any window."""


def open_chat(
    bench: Workbench,
    links: SessionLinks,
    answering: tuple[ChosenGenerator, SessionModels],
    opening: Sequence[Content | EncodedContent],
    prompt: SessionPrompt,
) -> Chat:
    """The conversation; its declarations and instruction follow the approval mode."""
    chosen, models = answering
    chat = Chat(
        chosen.generator,
        traits_of(chosen.model),
        request_config(bench, prompt, models.config(chosen.model)),
        History(opening),
        Outlets(links.emit, links.pace, texts=links.texts),
        CallIds(os.urandom(4).hex()),
    )

    def follow() -> None:
        bench.hide_denied()
        chat.config = request_config(bench, prompt, models.config(chat.model.name))

    bench.modes.subscribe(follow)
    bench.sources.watch(follow)
    if bench.memory is not None:
        bench.memory.watch(follow)
    return chat


class ConversationRoom:
    """Room in the window of a conversation, whose first `opening` contents stay. What makes it is
    loaded when there is something that it could be made of."""

    def __init__(
        self,
        bench: Workbench,
        chat: Chat,
        generator: ContentGenerator,
        outlets: Outlets,
        opening: int,
    ) -> None:
        self._chat = chat
        self._opening = opening
        self._open = partial(_open_room, bench, chat, generator, outlets, opening)
        self._room: ContextRoom | None = None

    def serve(self) -> None:
        """Has the conversation ask here from now on."""
        self._chat.room, self._chat.refit = self.make, self.refit

    async def make(self, parts: tuple[Part, ...], prompt_id: str) -> tuple[Part, ...]:
        """A `chat.MakeRoom`."""
        if self._room is None and self._is_small(parts):
            return parts
        return await self.opened().make(parts, prompt_id)

    async def refit(self, error: AlhenaError) -> bool:
        """Whether a request that was refused with `error` can be sent again, the conversation being
        shorter now."""
        return isinstance(error, ModelError) and await self.opened().refit(error)

    def opened(self) -> "ContextRoom":
        """What makes the room."""
        if self._room is None:
            self._room = self._open()
        return self._room

    def _is_small(self, parts: tuple[Part, ...]) -> bool:
        contents = self._chat.history.contents
        if len(contents) > self._opening or any(
            part.inline_data or part.file_data for part in parts
        ):
            return False
        size = sum(map(len, contents)) + sum(len(part.text or "") for part in parts)
        return size < SMALL


def _open_room(
    bench: Workbench, chat: Chat, generator: ContentGenerator, outlets: Outlets, opening: int
) -> "ContextRoom":
    from alhena.agent.session_compression import open_room

    return open_room(bench, chat, generator, outlets, opening)


def request_config(
    bench: Workbench, prompt: SessionPrompt, settings: GenerateContentConfig
) -> GenerateContentConfig:
    """Everything of a request that stays the same while the approval mode does."""
    declarations = bench.registry.function_declarations()
    return GenerateContentConfig(
        system_instruction=prompt.instruction(bench),
        tools=(Tool(function_declarations=declarations),) if declarations else None,
    ).with_settings(settings)
