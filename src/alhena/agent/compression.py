"""The parts that make room in the window of a session's conversations."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from alhena.agent.toolset.model_access import PLAIN, SessionModel, read_answer
from alhena.agent.toolset.toolset import Toolset, window_of
from alhena.chat.chat import Chat, Outlets
from alhena.chat.compression import CompressionOptions, CompressionServices, ContextRoom, Trigger
from alhena.chat.masking import MaskingLimits, result_text
from alhena.chat.summary import snapshot
from alhena.config.settings import ModelConfigSettings, ModelSection
from alhena.models.catalogue import ANTHROPIC, LEAST_OUTPUT, bare_name, model_info
from alhena.models.generator import ContentGenerator
from alhena.models.retry import RetryingGenerator
from alhena.tools.output_store import OutputStore
from alhena.wire.content import EncodedContent, Part, for_another_model
from alhena.wire.request import GenerateContentConfig, GenerateContentRequest

if TYPE_CHECKING:
    from alhena.hooks.planning import Hooks

ROLE = "utility_compressor"
SCOPE = "chat-compression"
"""Scope name of summary requests in overrides of `modelConfigs`."""
ALIAS = "chat-compression-"
"""The beginning of the aliases of `modelConfigs` that say how a model is asked for a summary; with
`default` after it, of any model."""


def open_context_room(
    bench: Toolset, chat: Chat, generator: ContentGenerator, outlets: Outlets, opening: int
) -> ContextRoom:
    """Room for a conversation over a toolset, which `generator` answers; its first `opening`
    contents stay."""
    emit = outlets.emit
    inner = generator.inner if isinstance(generator, RetryingGenerator) else generator

    async def ask(contents: tuple[EncodedContent, ...], system: str) -> str:
        name, config = compression_model(chat.model.name, bench.settings.model_configs)
        config = config.with_tier(bench.settings.model.service_tier)
        model = SessionModel(
            lambda: (generator, name), emit, texts=outlets.texts, role=ROLE, config=config
        )
        if name.startswith(ANTHROPIC):
            contents = in_words(contents)
        elif bare_name(name) not in chat.signers:
            sign = model_info(name).needs_signatures
            plain = (for_another_model(each.content, sign_calls=sign) for each in contents)
            contents = tuple(map(EncodedContent, plain))
        return await model.answer(contents, system=system, whole=True)

    async def ask_in_place(contents: tuple[EncodedContent, ...]) -> str | None:
        name = chat.model.name
        if has_own_settings(name, bench.settings.model_configs):
            return None
        model = SessionModel(lambda: (generator, name), emit, texts=outlets.texts, role=ROLE)
        response = await model.send_request(_continue_request(chat, contents, bench))
        answer = read_answer(response, whole=True)
        calls = any(part.function_call is not None for part in response.parts)
        return None if calls and not snapshot(answer) else answer

    async def count(contents: Sequence[EncodedContent]) -> int:
        return await inner.count_tokens(contents, model=chat.model.name)

    def after() -> None:
        if bench.memory is None:
            return
        bench.memory.forget_told()
        if outlets.role == "main":
            bench.memory.began_with(entry.content for entry in chat.history.contents)

    options = _choose_options(bench, window_of(bench, chat.model.name), outlets.role)
    services = CompressionServices(
        ask=ask,
        ask_in_place=ask_in_place,
        keep=lambda texts: save_outputs(bench.host.outputs, texts),
        count=count,
        limit=lambda name: question_limit(name, bench.settings.model.context_window),
        emit=emit,
        before=_before(bench.hooks),
        after=after,
    )
    return ContextRoom(chat, opening, options, services)


EARLY = 0.4
"""The share of the room beside the small prompt from which a conversation is compressed, unless the
settings say another one."""


def _choose_options(bench: Toolset, window: int, role: str) -> CompressionOptions:
    """The options of compression by the settings; with the small prompt results are masked, and
    turns summarised, in proportion to the window."""
    model = bench.settings.model
    masking = bench.settings.context_management.tools.output_masking
    limits = MaskingLimits(
        protected=masking.protection_threshold_tokens,
        least=max(0, masking.min_prunable_threshold_tokens),
        latest=masking.protect_latest_turn,
    )
    threshold = model.compression_threshold
    if model.is_small:
        protected, least = min(limits.protected, window // 8), min(limits.least, window // 16)
        limits = msgspec.structs.replace(limits, protected=protected, least=least)
        usual = threshold == ModelSection().compression_threshold
        threshold = EARLY if usual else threshold
    return CompressionOptions(
        threshold=threshold,
        beside_prompt=model.is_small,
        masking=limits if limits.protected >= 0 else None,
        role=role,
    )


def _continue_request(
    chat: Chat, contents: tuple[EncodedContent, ...], bench: Toolset
) -> GenerateContentRequest:
    """A request for an answer to contents that begins as the conversation's last one: the service
    finds all of that in its cache."""
    last = chat.last_request
    if last is None or last.model != chat.model.name:
        last = GenerateContentRequest(
            model=chat.model.name,
            contents=(),
            config=chat.config,
            session_id=bench.links.session_id,
        )
    return msgspec.structs.replace(last, contents=contents, continuation_token=None)


def question_limit(name: str, window: int | None) -> int:
    """Tokens that a conversation may take, of a window that was set or is the model's. Behind
    `anthropic:` the least answer has to fit beside it, or the service refuses the request."""
    whole = window or model_info(name).input_limit
    if not name.startswith(ANTHROPIC):
        return whole
    return whole - min(LEAST_OUTPUT, whole // 4)


def compression_model(name: str, configs: ModelConfigSettings) -> tuple[str, GenerateContentConfig]:
    """The model that summarises the conversation of another, and its settings: what an alias of
    `modelConfigs` says, else the same model, without any creativity. Raises ConfigError."""
    alias = _summary_alias(name, configs)
    if not (alias or configs.overrides or configs.custom_overrides):
        return name, PLAIN
    from alhena.models.configs import resolve

    found = resolve(alias or name, configs, scope=SCOPE, base="base")
    return name if found.name == alias else found.name, found.config


def has_own_settings(name: str, configs: ModelConfigSettings) -> bool:
    """True when `modelConfigs` has a model or settings for summaries of a model's conversations,
    beside those for all its requests. Raises ConfigError."""
    if _summary_alias(name, configs):
        return True
    if not (configs.overrides or configs.custom_overrides):
        return False
    from alhena.models.configs import resolve

    return resolve(name, configs, scope=SCOPE) != resolve(name, configs, scope="")


def _summary_alias(name: str, configs: ModelConfigSettings) -> str:
    """The alias of `modelConfigs` by which a model is asked for a summary, "" without one."""
    known = {**configs.aliases, **configs.custom_aliases}
    series = name.removeprefix("models/").removeprefix("gemini-").removesuffix("-preview")
    return next((f"{ALIAS}{each}" for each in (series, "default") if f"{ALIAS}{each}" in known), "")


def save_outputs(outputs: OutputStore, texts: Sequence[tuple[str, str, str]]) -> list[str | None]:
    """Paths of the full texts on disk: for an excerpt the file it names; others are saved. None for
    those that cannot be saved."""
    paths = [
        outputs.whole_of(call_id, text) or outputs.save(tool, call_id, text).path
        for tool, call_id, text in texts
    ]
    return [None if path is None else str(path) for path in paths]


def in_words(contents: Sequence[EncodedContent]) -> tuple[EncodedContent, ...]:
    """Contents in which calls and their results are words: some services take neither where no
    tools are declared."""
    return tuple(
        EncodedContent(
            msgspec.structs.replace(
                entry.content, parts=tuple(map(_describe_part, entry.content.parts))
            )
        )
        for entry in contents
    )


def _describe_part(part: Part) -> Part:
    call, response = part.function_call, part.function_response
    if call is not None:
        args = msgspec.json.encode(call.args or {}).decode("utf-8")
        return Part(text=f"[Calls {call.name} with {args}]")
    if response is not None:
        return Part(text=f"[Result of {response.name}]\n{result_text(response)[1]}")
    return part


def _before(hooks: "Hooks | None") -> Callable[[Trigger], Awaitable[None]] | None:
    """Tells the hooks; what they say of it changes nothing."""
    from alhena.hooks import inputs
    from alhena.hooks.model import HookEvent

    if hooks is None or not hooks.has(HookEvent.PRE_COMPRESS):
        return None

    async def fire(trigger: Trigger) -> None:
        await hooks.fire(HookEvent.PRE_COMPRESS, inputs.pre_compress(trigger), match=trigger)

    return fire
