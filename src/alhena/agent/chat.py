"""The conversation of a session and the choice of its model and generation settings."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from alhena.agent.context import SessionPrompt
from alhena.agent.toolset.toolset import Toolset
from alhena.chat.chat import Chat, ChatServices, Outlets
from alhena.chat.history import History
from alhena.chat.turn import traits_of
from alhena.config.settings import ModelConfigSettings, Settings
from alhena.errors import AlhenaError, InputError, ModelError
from alhena.events import Event
from alhena.models.catalogue import (
    default_generation,
    default_model,
    foreign_service,
    is_alias,
    resolved_name,
    service_of,
    stable_name,
)
from alhena.models.generator import ContentGenerator
from alhena.models.providers.select import ChosenGenerator, is_demo
from alhena.wire.content import Content, Part
from alhena.wire.encode import EncodedContent
from alhena.wire.request import GenerateContentConfig, ToolDeclarations

if TYPE_CHECKING:
    from alhena.agent.toolset.prompt_hooks import ModelHooks
    from alhena.chat.compression import ContextRoom
    from alhena.models.settings import ModelSettings


_UNCONFIGURED = ModelConfigSettings()


class SessionModels:
    """The model that was asked for: by the program, by GEMINI_MODEL or by `model.name`; and its
    settings, which `modelConfigs` may change. Raises ConfigError when these cannot be used."""

    def __init__(
        self,
        given: str | None,
        environ: Mapping[str, str],
        settings: Settings,
        own: "tuple[ModelSettings, ModelSettings] | None" = None,
        *,
        named: bool = True,
    ) -> None:
        """`own`: the settings of the program's agent and of its model object. The name of an
        object (`named` is False) is its own."""
        self._own = own
        self.service = ""
        written = given or environ.get("GEMINI_MODEL") or settings.model.name
        self.requested = written or default_model()
        if named and ":" in self.requested and not self._is_alias(settings.model_configs):
            self.service, self.requested = service_of(self.requested)
        if settings.general.preview_features is False and is_alias(self.requested):
            self.requested = stable_name(self.requested)
        self._configs = settings.model_configs
        self._tier = settings.model.service_tier
        if self._configs == _UNCONFIGURED:
            self.name = resolved_name(self.requested)
        else:
            from alhena.models.configs import require_usable, resolve

            self.name = resolve(self.requested, self._configs).name
            alone = settings.model.fallback == "never"
            require_usable(self.requested, self.name, self._configs, alone=alone)
        self.chosen = {self.name} if not written or is_alias(written) else set[str]()

    def _is_alias(self, configs: ModelConfigSettings) -> bool:
        """True for a name that `modelConfigs` defines."""
        return self.requested in configs.aliases or self.requested in configs.custom_aliases

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about unknown keys of `modelConfigs`."""
        if self._configs == _UNCONFIGURED:
            return ()
        from alhena.models.configs import unknown_keys

        return unknown_keys(self._configs)

    def config(
        self, model: str, *, is_retry: bool = False, of_model: "ModelSettings | None" = None
    ) -> GenerateContentConfig:
        """The settings for the conversation, which `model` answers; `is_retry`: those of an attempt
        after one that failed. `of_model` are those of its object, where that is not the agent's."""
        asked = self.requested if model == self.name else model
        config = config_for(asked, self._configs, is_retry=is_retry).with_tier(self._tier)
        if self._own is None:
            return config
        agents, models = self._own
        return agents.merge_over(models if of_model is None else of_model).apply(config, model)

    def require(self, model: str) -> None:
        """Raises ConfigError if `modelConfigs` sets something that `model` cannot take."""
        if self._configs != _UNCONFIGURED:
            from alhena.models.configs import require_usable

            require_usable(model, model, self._configs, alone=True)

    @property
    def again(self) -> Callable[[str], GenerateContentConfig] | None:
        """The settings by model for attempts after one that failed; None: they stay the same."""
        if not tells_retries_apart(self._configs):
            return None
        return lambda model: self.config(model, is_retry=True)


def tells_retries_apart(configs: ModelConfigSettings) -> bool:
    """True when an attempt after one that failed may have other settings."""
    if configs == _UNCONFIGURED:
        return False
    from alhena.models.configs import names_retries

    return names_retries(configs)


def config_for(
    model: str,
    configs: ModelConfigSettings,
    *,
    scope: str = "core",
    is_retry: bool = False,
    own: Mapping[str, Any] | None = None,
) -> GenerateContentConfig:
    """The settings of requests to a model in a scope, the session's or an agent's. `own` are those
    that the scope has itself, by their wire names; null takes one away."""
    if configs == _UNCONFIGURED and not own:
        return GenerateContentConfig(generation_config=default_generation(model))
    from alhena.models.configs import resolve

    return resolve(model, configs, scope=scope, is_retry=is_retry, own=own).config


SMALL = 100_000
"""Bytes of a conversation that has not begun, for which there is room in any window."""


def open_chat(
    bench: Toolset,
    chosen: ChosenGenerator,
    models: SessionModels,
    contents: Sequence[Content | EncodedContent],
    prompt: SessionPrompt,
    room: "ConversationRoom",
) -> Chat:
    """The conversation; its declarations and instruction follow the tools and the memory, not the
    approval mode: a change of that costs no cached prefix."""
    links = bench.links
    chat = Chat(
        chosen.generator,
        traits_of(chosen.model),
        request_config(bench, prompt, models.config(chosen.model)),
        History(contents),
        Outlets(links.emit, links.pace, texts=links.texts),
        ChatServices(
            interposer=interposer(bench, links.emit),
            fallback=links.fallback,
            again=models.again,
            room=room,
            searches=lambda: bool(bench.registry.search.note),
        ),
    )

    def follow(declares: bool = True) -> None:
        bench.hide_denied()
        if not declares and chat.last_request is not None:
            return
        chat.configure(request_config(bench, prompt, models.config(chat.model.name)))

    bench.sources.watch(follow)
    if bench.memory is not None:
        bench.memory.watch(follow)
    return chat


def interposer(bench: Toolset, emit: Callable[[Event], None]) -> "ModelHooks | None":
    """The hooks around the requests of a conversation, if there are any."""
    if bench.hooks is None:
        return None
    from alhena.agent.toolset.prompt_hooks import model_hooks

    return model_hooks(bench.hooks, emit)


class ConversationRoom:
    """Room in the window of a conversation, whose first `opening` contents stay. What makes it is
    loaded when there is something that it could be made of."""

    def __init__(
        self, bench: Toolset, generator: ContentGenerator, outlets: Outlets, opening: int
    ) -> None:
        self._bench = bench
        self._generator = generator
        self._outlets = outlets
        self._opening = opening
        self._room: ContextRoom | None = None

    async def make(self, chat: Chat, parts: tuple[Part, ...], prompt_id: str) -> tuple[Part, ...]:
        """Makes the next parts fit beside the conversation."""
        if self._room is None and self._is_small(chat, parts):
            return parts
        return await self.open_room(chat).make(parts, prompt_id)

    async def refit(self, chat: Chat, error: AlhenaError) -> bool:
        """True when a request that was refused with `error` can be sent again, the conversation
        being shorter now."""
        return isinstance(error, ModelError) and await self.open_room(chat).refit(error)

    def open_room(self, chat: Chat) -> "ContextRoom":
        """The context room, opened on first use."""
        if self._room is None:
            from alhena.agent.compression import open_context_room

            self._room = open_context_room(
                self._bench, chat, self._generator, self._outlets, self._opening
            )
        return self._room

    def _is_small(self, chat: Chat, parts: tuple[Part, ...]) -> bool:
        contents = chat.history.contents
        if self._bench.settings.model.is_small:
            return False
        if len(contents) > self._opening or any(
            part.inline_data or part.file_data for part in parts
        ):
            return False
        size = sum(map(len, contents)) + sum(len(part.text or "") for part in parts)
        return size < SMALL


def request_config(
    bench: Toolset, prompt: SessionPrompt, settings: GenerateContentConfig
) -> GenerateContentConfig:
    """Everything of a request that stays the same."""
    declarations = bench.registry.function_declarations()
    return GenerateContentConfig(
        system_instruction=prompt.instruction(bench),
        tools=(ToolDeclarations(function_declarations=declarations),) if declarations else None,
    ).with_settings(settings)


def instruct(
    chat: Chat, bench: Toolset, models: SessionModels, prompt: SessionPrompt, text: str
) -> None:
    """Gives the conversation another system instruction from now on."""
    prompt.replace(text)
    chat.configure(request_config(bench, prompt, models.config(chat.model.name)))


def switch(chat: Chat, models: SessionModels, chosen: ChosenGenerator, name: str) -> None:
    """Has another model of the same service answer from now on. Raises InputError for one of
    another service, ConfigError for an unknown prefix."""
    if chosen.speaks_gemini and ":" in name:
        name = service_of(name)[1]
    service = foreign_service(name)
    foreign = bool(service) or is_demo(name)
    own = foreign_service(chosen.model)
    same = not foreign if chosen.speaks_gemini else bool(service) and service == own
    if not same:
        raise InputError(
            f"{name} is a model of another service than this session's.",
            remedy=f"Start `alhena -m {name}`, or save it for later sessions: /model set {name} "
            "--persist",
        )
    from alhena.chat.recovery import Substitute

    known = resolved_name(name) if chosen.speaks_gemini else name
    models.require(known)
    if is_alias(name):
        models.chosen.add(known)
    chat.take_over(Substitute(traits=traits_of(known), config=models.config(known)))
