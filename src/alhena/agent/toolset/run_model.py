"""The model of a run: the agent's, one that a run names, or the next of a Fallback."""

from collections.abc import Callable

from msgspec.structs import replace

from alhena.agent.chat import SessionModels
from alhena.chat.chat import Chat
from alhena.chat.recovery import ModelFallback, Substitute
from alhena.chat.turn import traits_of
from alhena.errors import AlhenaError
from alhena.models.catalogue import resolved_name, service_of
from alhena.models.combined import Failures, Fallback, name_failures, name_of
from alhena.models.generator import ContentGenerator
from alhena.models.providers.select import ChosenGenerator
from alhena.models.settings import own_settings
from alhena.wire.request import GenerateContentConfig

Wrap = Callable[[ContentGenerator], ContentGenerator]
"""Keeps the requests of a generator within the limits of the session."""


class ModelChain:
    """The models of a Fallback for one conversation, in their order. A `chat.recovery.Fallback`."""

    def __init__(self, models: Fallback, config: SessionModels, wrap: Wrap) -> None:
        self._models = models.models
        self._on = models.on
        self._config = config
        self._wrap = wrap
        self._at = 0
        self._failures: Failures = []

    @property
    def moved(self) -> bool:
        """True when another than the first model answers."""
        return self._at > 0

    def restart(self) -> Substitute:
        """The first model."""
        self._at = 0
        self._failures = []
        return self._describe()

    def takes(self, error: AlhenaError) -> bool:
        """True for an error that the Fallback names."""
        return isinstance(error, self._on)

    def offers(self, model: str, error: AlhenaError) -> bool:
        """True when there is a further model."""
        del model, error
        return self._at + 1 < len(self._models)

    async def instead_of(self, model: str, error: AlhenaError) -> Substitute:
        """The next model. Raises the error of the last one, which names all."""
        self._failures.append((name_of(self._models[self._at]), error))
        if not self.offers(model, error):
            raise name_failures(self._failures)
        self._at += 1
        return self._describe()

    def _describe(self) -> Substitute:
        model = self._models[self._at]
        return describe_model(model, name_of(model), self._config, self._wrap)


def describe_model(
    model: ContentGenerator, name: str, models: SessionModels, wrap: Wrap
) -> Substitute:
    """A model object as the one that answers from now on."""
    config: GenerateContentConfig = models.config(name, of_model=own_settings(model))
    return Substitute(traits=traits_of(name), config=config, generator=wrap(model))


def with_fallback(substitute: Substitute, fallback: ModelFallback | None) -> Substitute:
    """The model with what takes its place when it fails."""
    return replace(substitute, fallback=(fallback,))


class RunModel:
    """The model of a session's runs. `chosen` is that of the session, `given` the program's object
    for it, if any. `wrap` keeps others within the limits; `choose` makes the generator of a model
    of another service by its name."""

    def __init__(
        self,
        chat: Chat,
        models: SessionModels,
        chosen: ChosenGenerator,
        given: ContentGenerator | None,
        wrap: Wrap,
        choose: Callable[[str], ChosenGenerator],
    ) -> None:
        self._chat = chat
        self._models = models
        self._chosen = chosen
        self._wrap = wrap
        self._choose = choose
        self._opened: dict[str, ChosenGenerator] = {}
        self._back: tuple[Substitute, ModelFallback | None] | None = None
        self._chain = None if given is None else self._find_chain(given)
        if self._chain is not None:
            chat.take_over(with_fallback(self._chain.restart(), self._chain))

    @property
    def is_other(self) -> bool:
        """True when a model that the run named answers."""
        return self._back is not None

    def use(self, model: str | ContentGenerator | None) -> None:
        """Has a model answer the run that begins; None: the session's. Raises ConfigError,
        CredentialsError."""
        if self._back is not None:
            substitute, fallback = self._back
            self._back = None
            self._chat.take_over(with_fallback(substitute, fallback))
        elif self._chain is not None and self._chain.moved:
            self._chat.take_over(self._chain.restart())
        if model is None:
            return
        back = self._describe_present(), self._chat.services.fallback
        chain = None if isinstance(model, str) else self._find_chain(model)
        substitute = self.find(model) if chain is None else chain.restart()
        self._back = back
        self._chat.take_over(with_fallback(substitute, chain))

    def find(self, model: str | ContentGenerator) -> Substitute:
        """A model by its name or object. Raises ConfigError, CredentialsError."""
        if isinstance(model, str):
            return self._by_name(model)
        return describe_model(model, name_of(model), self._models, self._wrap)

    async def aclose(self) -> None:
        """Closes the generators that were made."""
        for chosen in self._opened.values():
            if chosen.owned:
                await chosen.generator.aclose()
        self._opened.clear()

    def _find_chain(self, model: ContentGenerator) -> ModelChain | None:
        return ModelChain(model, self._models, self._wrap) if isinstance(model, Fallback) else None

    def _describe_present(self) -> Substitute:
        if self._chain is not None:
            return self._chain.restart()
        name = self._chat.model.name
        return Substitute(
            traits=self._chat.model,
            config=self._models.config(name),
            generator=self._chosen.generator,
        )

    def _by_name(self, written: str) -> Substitute:
        service, name = service_of(written)
        if self._chosen.speaks_gemini and service == "":
            known = resolved_name(name)
            self._models.require(known)
            config = self._models.config(known)
            generator = self._chosen.generator
            return Substitute(traits=traits_of(known), config=config, generator=generator)
        if written not in self._opened:
            self._opened[written] = self._choose(written)
        chosen = self._opened[written]
        return describe_model(chosen.generator, chosen.model, self._models, self._wrap)


def wrap_with(*wraps: Wrap | None) -> Wrap:
    """All of these around a generator, the first one innermost."""
    present = [each for each in wraps if each is not None]

    def wrap(generator: ContentGenerator) -> ContentGenerator:
        for each in present:
            generator = each(generator)
        return generator

    return wrap
