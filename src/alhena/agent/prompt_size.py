"""Fits a session to the window of a private server's model: asks for it, and chooses the small
prompt where it is small."""

import asyncio

from msgspec.structs import replace

from alhena.agent.chat import SessionModels
from alhena.agent.toolset.options import SessionSpec
from alhena.config.settings import Settings, with_model
from alhena.errors import AlhenaError
from alhena.models.catalogue import SMALL_WINDOW, model_info, set_window
from alhena.models.providers.select import (
    RECORDINGS,
    ChosenGenerator,
    ModelChoice,
    choose_generator,
)
from alhena.models.served import unwrap

PATIENCE_S = 2.0
"""Seconds that a server may take to tell a window."""
RESULT_SHARE = 0.15
"""The share of the window that one result of a tool may fill, with the small prompt."""
MOST_RESULT, LEAST_RESULT = 10_000, 1_500
"""Characters of such a result."""
BYTES_PER_TOKEN = 4


async def fit_prompt_size(spec: SessionSpec) -> SessionSpec:
    """The options with the prompt size that the model's window asks for, unless the settings say
    it, and with short results where it is small. The window is asked of the server, unless
    `model.contextWindow` says it."""
    settings = spec.place.settings
    name = SessionModels(spec.model.name, spec.place.environ, settings).name
    if spec.model.fake_responses is None and not RECORDINGS:
        chosen = _open_model(spec, name)
        if chosen is not None and chosen.private:
            window = settings.model.context_window or await _ask_window(chosen, name)
            small = window is not None and window < SMALL_WINDOW
            if small and settings.model.prompt_size is None:
                settings = with_model(settings, prompt_size="small")
        if chosen is not None and chosen.owned:
            await chosen.generator.aclose()
    place = replace(spec.place, settings=settings)
    return replace(spec, place=place)


def result_characters(settings: Settings, model: str) -> int:
    """Characters of the longest result that goes to the model whole, with the small prompt."""
    usual = settings.tools.truncate_tool_output_threshold
    window = settings.model.context_window or model_info(model).input_limit
    fitting = int(window * RESULT_SHARE) * BYTES_PER_TOKEN
    most = max(LEAST_RESULT, min(fitting, MOST_RESULT))
    return most if usual <= 0 else min(usual, most)


def _open_model(spec: SessionSpec, name: str) -> ChosenGenerator | None:
    """The model of the session; None where opening the session tells why there is none."""
    given = spec.model.generator
    if given is not None:
        chosen: ChosenGenerator | None = getattr(given, "chosen", None)
        return None if chosen is None else replace(chosen, owned=False)
    try:
        return choose_generator(
            ModelChoice(model=name, environ=spec.place.environ, settings=spec.place.settings)
        )
    except AlhenaError:
        return None


async def _ask_window(chosen: ChosenGenerator, name: str) -> int | None:
    """The window that the server tells, which the catalogue takes over. The first request reports
    a server that does not answer."""
    server = unwrap(chosen.generator, "window")
    found: int | None = None
    if server is not None and server.tells_windows:
        try:
            async with asyncio.timeout(PATIENCE_S):
                found = await server.window(name)
        except (AlhenaError, TimeoutError):
            return None
    set_window(name, found)
    return found
