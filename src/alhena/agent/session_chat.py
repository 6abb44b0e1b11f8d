"""The conversation of a session, and what of its requests stays the same from one to the next."""

import os
from collections.abc import Sequence

from alhena.agent.links import SessionLinks
from alhena.agent.session_model import SessionModels, traits_of
from alhena.agent.workbench import Workbench
from alhena.chat.chat import Chat, Outlets
from alhena.chat.history import History
from alhena.chat.prompt import system_instruction
from alhena.models.select import ChosenGenerator
from alhena.policy.model import ApprovalMode
from alhena.wire.calls import CallIds
from alhena.wire.content import Content
from alhena.wire.encode import EncodedContent
from alhena.wire.request import GenerateContentConfig, GenerationConfig, Tool


def open_chat(
    bench: Workbench,
    links: SessionLinks,
    chosen: ChosenGenerator,
    models: SessionModels,
    opening: Sequence[Content | EncodedContent],
) -> Chat:
    """The conversation; its declarations and instruction follow the approval mode."""
    headless = links.approver is None
    chat = Chat(
        chosen.generator,
        traits_of(chosen.model),
        request_config(bench, models.generation(chosen.model), headless=headless),
        History(opening),
        Outlets(links.emit, links.pace, texts=links.texts),
        CallIds(os.urandom(4).hex()),
    )

    def follow() -> None:
        bench.hide_denied()
        chat.config = request_config(bench, models.generation(chat.model.name), headless=headless)

    bench.modes.subscribe(follow)
    if bench.memory is not None:
        bench.memory.watch(follow)
    return chat


def request_config(
    bench: Workbench, generation: GenerationConfig, *, headless: bool
) -> GenerateContentConfig:
    """Everything of a request that stays the same while the approval mode does."""
    declarations = bench.registry.function_declarations()
    return GenerateContentConfig(
        system_instruction=system_instruction(
            declarations,
            headless=headless,
            plan=bench.context.mode is ApprovalMode.PLAN,
            memory="" if bench.memory is None else bench.memory.user_text,
        ),
        tools=(Tool(function_declarations=declarations),) if declarations else None,
        generation_config=generation,
    )
