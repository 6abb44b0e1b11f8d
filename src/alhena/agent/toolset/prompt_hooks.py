"""The hooks of a session at work: around its prompts, its requests and its compression."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from alhena.agent.limits import TurnLimitError
from alhena.chat.chat import AdmittedRequest, Chat
from alhena.chat.turn import AnswerCollector
from alhena.events import Event, WarningEvent
from alhena.hooks import inputs
from alhena.hooks.inputs import (
    apply_request_changes,
    apply_response_changes,
    request_for_hooks,
    response_for_hooks,
    synthetic_response,
    with_tool_choice,
)
from alhena.hooks.model import HookBlockedError, HookEvent, HookStopError, HookVerdict
from alhena.hooks.planning import Hooks
from alhena.wire.content import Content, Part
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import GenerateContentResponse

MAX_CONTINUATIONS = 100
"""Maximum number of times that hooks may continue one prompt."""


class PromptHooks:
    """The hooks around each prompt of a session, and around the session itself. `opening` is what
    is left of a conversation that a hook clears."""

    def __init__(
        self,
        hooks: Hooks,
        source: Literal["startup", "resume", "clear"],
        opening: tuple[Content, ...],
    ) -> None:
        self._hooks = hooks
        self._source: Literal["startup", "resume", "clear"] = source
        self._opening = opening
        self._started = False
        self._context: str | None = None
        self._answer: HookVerdict | None = None
        self._ending: asyncio.Future[None] | None = None
        self._prompt = ""
        self._blocked = 0

    def began_with(self, contents: Iterable[Content]) -> None:
        """Changes what is left of a conversation that a hook clears."""
        self._opening = tuple(contents)

    async def start(self) -> HookVerdict:
        """Fires the SessionStart hooks, once, and again where that was cancelled; the context they
        add goes with the next prompt, and what they refuse is every prompt."""
        if self._answer is None:
            self._started = True
            said = await self._hooks.fire(
                HookEvent.SESSION_START, inputs.session_start(self._source), match=self._source
            )
            self._context, self._answer = said.additional_context, said
        return self._answer

    async def end(
        self, reason: Literal["exit", "clear", "logout", "prompt_input_exit", "other"]
    ) -> None:
        """The session ends; what its hooks say of that changes nothing. Returns when they, and
        those that ran beside it, are done, or were ended by `hurry`."""
        self._ending = ending = asyncio.ensure_future(self._end(reason))
        try:
            await asyncio.wait({ending})
        except asyncio.CancelledError:
            ending.cancel()
            await asyncio.wait({ending})
            raise
        if not ending.cancelled():
            ending.result()

    def hurry(self) -> bool:
        """Ends the hooks that the end of the session waits for; False when there are none."""
        return self._ending is not None and self._ending.cancel()

    async def _end(
        self, reason: Literal["exit", "clear", "logout", "prompt_input_exit", "other"]
    ) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._hooks.settle())
            if self._started:
                fields = inputs.session_end(reason)
                tasks.create_task(self._hooks.fire(HookEvent.SESSION_END, fields, match=reason))

    async def begin(self, prompt: str, chat: Chat) -> tuple[Part, ...]:
        """The parts that a prompt is sent as. Raises HookBlockedError, HookStopError."""
        self._prompt, self._blocked = prompt, 0
        require_passage(await self.start())
        context, self._context = self._context, None
        text = prompt if context is None else f"{hook_context(context)}\n\n{prompt}"
        said = await self._hooks.fire(HookEvent.BEFORE_AGENT, inputs.before_agent(prompt))
        parts = (Part(text=text),)
        if said.additional_context is not None:
            parts = (*parts, Part(text=hook_context(said.additional_context)))
        if said.stop is not None:
            chat.history.add_user(parts)
        require_passage(said)
        return parts

    async def after(self, turn: AnswerCollector, chat: Chat) -> str | None:
        """The next message to the model if a hook rejects the answer. Raises HookStopError,
        TurnLimitError."""
        if turn.calls or not self._hooks.has(HookEvent.AFTER_AGENT):
            return None  # with calls, a tool, or a hook of one, has ended the run
        active = self._blocked > 0
        said = await self._hooks.fire(
            HookEvent.AFTER_AGENT,
            inputs.after_agent(self._prompt, turn.text, stop_hook_active=active),
        )
        if said.clear_context:
            chat.replace_history(self._opening)
        if said.stop is not None:
            raise make_stop(said.stop)
        if said.block is not None:
            if self._blocked == MAX_CONTINUATIONS:
                raise TurnLimitError(
                    f"AfterAgent hooks blocked {self._blocked + 1} answers in a row.",
                    remedy="Let the hook pass an answer when stop_hook_active is true.",
                )
            self._blocked += 1
        return said.block


class ModelHooks:
    """The hooks around requests to a model, as the interposer of a chat."""

    def __init__(self, hooks: Hooks, emit: Callable[[Event], None]) -> None:
        self._hooks = hooks
        self._emit = emit
        self.reviews_answers = hooks.has(HookEvent.AFTER_MODEL)

    async def admit(self, request: GenerateContentRequest) -> AdmittedRequest:
        """BeforeModel, then BeforeToolSelection."""
        if self._hooks.has(HookEvent.BEFORE_MODEL):
            shown = request_for_hooks(request)
            said = await self._hooks.fire(
                HookEvent.BEFORE_MODEL, inputs.before_model(shown), request=request
            )
            if said.stop is None and said.llm_response is not None:
                return AdmittedRequest(request, synthetic_response(said.llm_response))
            require_passage(said)
            if said.request is not None:
                request = said.request
            elif said.llm_request is not None:
                request = apply_request_changes(request, said.llm_request)
        if self._hooks.has(HookEvent.BEFORE_TOOL_SELECTION):
            shown = request_for_hooks(request)
            said = await self._hooks.fire(
                HookEvent.BEFORE_TOOL_SELECTION, inputs.before_model(shown)
            )
            require_passage(said)
            if said.tool_config is not None:
                request, unused = with_tool_choice(request, said.tool_config)
                self._tell_unused(unused)
        return AdmittedRequest(request)

    async def review(
        self, request: GenerateContentRequest, chunks: Sequence[GenerateContentResponse]
    ) -> Sequence[GenerateContentResponse]:
        """AfterModel."""
        said = await self._hooks.fire(
            HookEvent.AFTER_MODEL,
            inputs.after_model(request_for_hooks(request), response_for_hooks(chunks)),
        )
        require_passage(said)
        if said.llm_response is None:
            return chunks
        return apply_response_changes(chunks, said.llm_response)

    def _tell_unused(self, names: tuple[str, ...]) -> None:
        if names:
            listed = ", ".join(names)
            self._emit(
                WarningEvent(
                    message=f"a BeforeToolSelection hook allows {listed}, which counts for nothing:"
                    " names go with mode ANY and are those of tools that are there."
                )
            )


def model_hooks(hooks: Hooks | None, emit: Callable[[Event], None]) -> ModelHooks | None:
    """The hooks around model requests; None if none are configured."""
    events = (HookEvent.BEFORE_MODEL, HookEvent.AFTER_MODEL, HookEvent.BEFORE_TOOL_SELECTION)
    if hooks is None or not any(map(hooks.has, events)):
        return None
    return ModelHooks(hooks, emit)


def hook_context(text: str) -> str:
    """A context, escaped already, as the model is given it."""
    return f"<hook_context>{text}</hook_context>"


def require_passage(said: HookVerdict) -> None:
    """Raises HookStopError or HookBlockedError when hooks do not let something pass."""
    if said.stop is not None:
        raise make_stop(said.stop)
    if said.block is not None:
        raise HookBlockedError(f"Agent execution blocked: {said.block}")


def make_stop(reason: str) -> HookStopError:
    """The end of a run that a hook asked for."""
    return HookStopError(f"Agent execution stopped by hook: {reason}")
