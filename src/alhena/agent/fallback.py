"""Whether another model answers a session when its own cannot."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from alhena.chat.recovery import Substitute
    from alhena.errors import ModelError
    from alhena.tools.builtin.ask_user import Ask
    from alhena.wire.request import GenerateContentConfig

FallbackMode = Literal["ask", "always", "never"]


class Consent:
    """Asks a person whether another model may answer. Who agreed once for a model is not asked for
    it again; conversations that fail side by side ask one after the other."""

    def __init__(self, ask: "Ask | None") -> None:
        self.possible = ask is not None
        self._ask = ask
        self._agreed: set[tuple[str, str]] = set()
        self._turn = asyncio.Lock()

    async def given(self, model: str, other: str, reason: str) -> bool:
        """Whether `other` may answer instead of `model`."""
        async with self._turn:
            if (model, other) not in self._agreed and await self._asked(model, other, reason):
                self._agreed.add((model, other))
        return (model, other) in self._agreed

    async def _asked(self, model: str, other: str, reason: str) -> bool:
        from alhena.tools.confirmation import Question, QuestionOption

        if self._ask is None:
            return False
        go_on = f"Go on with {other}"
        question = Question(
            question=f"{model} cannot answer: {reason} Go on with {other} instead?",
            header="Model",
            type="choice",
            options=(
                QuestionOption(label=go_on, description="It answers for the rest of the session."),
                QuestionOption(label="Stop", description="The prompt ends here."),
            ),
        )
        answers = await self._ask((question,))
        return answers is not None and answers.get(0) == go_on


class SessionFallback:
    """A `chat.recovery.Fallback`. In mode "ask" it is a person who decides; where nobody can be
    asked, no other model answers. `config` gives a model's settings."""

    def __init__(
        self,
        mode: FallbackMode,
        consent: Consent,
        config: "Callable[[str], GenerateContentConfig]",
    ) -> None:
        self._mode: FallbackMode = mode
        self._consent = consent
        self._config = config

    def giving(self, config: "Callable[[str], GenerateContentConfig]") -> "SessionFallback":
        """The same for a conversation with settings of its own."""
        return SessionFallback(self._mode, self._consent, config)

    def offers(self, model: str, error: "ModelError") -> bool:
        """Whether another model could answer, and somebody may say so."""
        from alhena.models.catalogue import fallback_model

        if self._mode == "never" or (self._mode == "ask" and not self._consent.possible):
            return False
        return fallback_model(model, error) is not None

    async def instead_of(self, model: str, error: "ModelError") -> "Substitute | None":
        """The model to go on with, after a person agreed where one is to be asked."""
        from alhena.agent.session_model import traits_of
        from alhena.chat.recovery import Substitute
        from alhena.models.catalogue import fallback_model

        other = fallback_model(model, error)
        if other is None or not self.offers(model, error):
            return None
        asks = self._mode == "ask"
        if asks and not await self._consent.given(model, other, error.message):
            return None
        return Substitute(traits=traits_of(other), config=self._config(other), asked=asks)


def fallback_mode(given: FallbackMode, model: str) -> FallbackMode:
    """The mode for a session that was asked to use `model`: who leaves the choice of a model to us
    leaves this one to us too."""
    automatic = model == "auto" or model.startswith("auto-")
    return "always" if given == "ask" and automatic else given
