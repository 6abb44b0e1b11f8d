"""One subagent at work: its own conversation, tools and scheduler, its events passed on to the
session."""

import asyncio
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

import msgspec

from alhena.agent.chat import (
    ConversationRoom,
    config_for,
    interposer,
    tells_retries_apart,
)
from alhena.agent.limits import LimitError, TurnLimits
from alhena.agent.loop import answers
from alhena.agent.loops import LoopWatch, chanting
from alhena.agent.subagents import AgentDefinition, prompt_text
from alhena.agent.toolset.model_access import SessionFallback
from alhena.agent.toolset.toolset import Caller, SessionLinks, Toolset
from alhena.chat.chat import Chat, ChatServices, ModelTraits, Outlets, traits_of
from alhena.chat.history import History
from alhena.chat.loops import Loop
from alhena.chat.prompt import system_instruction
from alhena.chat.turn import ChantingError
from alhena.config.settings import AgentsSettings
from alhena.errors import AlhenaError
from alhena.events import (
    Event,
    ThoughtEvent,
    ToolCallsUpdateEvent,
    ToolCallUpdateEvent,
    WarningEvent,
)
from alhena.hooks.model import HookStopError
from alhena.models.catalogue import is_alias, resolved_name
from alhena.models.generator import ContentGenerator
from alhena.scheduler.confirmation import (
    Answer,
    Approver,
    ConfirmationRequest,
    Verdict,
    call_approver,
)
from alhena.scheduler.states import CompletedToolCall
from alhena.tools.builtin.ask_user import Ask, agrees
from alhena.tools.builtin.subagents import CompleteTask, RunAgent
from alhena.tools.contract import (
    ExecutionContext,
    QuestionOption,
    ToolErrorType,
    ToolFailure,
    ToolResult,
)
from alhena.tools.registry import ToolRegistry, declared_name, isolated
from alhena.wire.content import Content, Part, ToolCallRequestInfo
from alhena.wire.request import GenerateContentConfig
from alhena.wire.request import Tool as DeclaredTools

if TYPE_CHECKING:
    from alhena.agent.subagents.remote import RemoteAgents


class EventRelay:
    """Passes on requests to the model, runs of hooks, and tool calls under ids that are unique in
    the session.

    What the subagent says and thinks is not what the session's model says: subjects of thoughts and
    the calls that start become live output of the call that runs it.
    """

    def __init__(
        self,
        parent_call_id: str,
        emit: Callable[[Event], None],
        output: Callable[[str], None],
    ) -> None:
        self._parent = parent_call_id
        self._emit = emit
        self._output = output

    def call_id(self, own: str) -> str:
        """The id by which the session knows a call of the subagent."""
        return f"{self._parent}/{own}"

    def emit(self, event: Event) -> None:
        """Takes an event of the subagent."""
        if isinstance(event, ThoughtEvent):
            if event.subject:
                self._output(f"{event.subject}\n")
        elif isinstance(event, WarningEvent):
            self._emit(event)
        elif isinstance(event, ToolCallsUpdateEvent):
            self._emit(self._of_session(event))
        elif hasattr(event, "parent_call_id"):
            if isinstance(event, ToolCallUpdateEvent):
                self._tell(event)
            self._emit(self._renamed(event))

    def _renamed(self, event: Any) -> Event:
        """An event with a `parent_call_id` under the ids of the session."""
        changes: dict[str, Any] = {"parent_call_id": self._parent_of(event.parent_call_id)}
        for name in ("call_id", "replaces"):
            if getattr(event, name, None) is not None:
                changes[name] = self.call_id(getattr(event, name))
        if hasattr(event, "retract"):
            changes["retract"] = False  # what the subagent said was never shown
        return msgspec.structs.replace(event, **changes)

    def _of_session(self, event: ToolCallsUpdateEvent) -> ToolCallsUpdateEvent:
        """A batch of the subagent's under the ids of the session. Of one deeper down the calls have
        their parents already, which are this subagent's own."""
        parent = self._parent_of(event.parent_call_id)
        return ToolCallsUpdateEvent(
            calls=tuple(
                msgspec.structs.replace(
                    call, call_id=self.call_id(call.call_id), parent_call_id=parent
                )
                for call in event.calls
            ),
            parent_call_id=parent,
        )

    def _parent_of(self, own: str | None) -> str:
        """The parent in the session; events from deeper down name a call of this subagent."""
        return self._parent if own is None else self.call_id(own)

    def _tell(self, event: ToolCallUpdateEvent) -> None:
        if event.status == "executing" and event.pid is None:
            self._output(f"{event.name} {event.description}".strip() + "\n")


GRACE_S = 60.0
"""Time limit, in seconds, of the last turn of a subagent that has used up its turns or time."""

_TOP_P = 0.95
_LAST_CHANCE = (
    " This is your last turn. Call `complete_task` now, and nothing else, with the best result you "
    "can give; say in it what is missing."
)


class Termination(StrEnum):
    """The reason why a subagent ended."""

    GOAL = "GOAL"
    NO_RESULT = "ERROR_NO_COMPLETE_TASK_CALL"
    MAX_TURNS = "MAX_TURNS"
    TIMEOUT = "TIMEOUT"
    LOOP = "LOOP_DETECTED"
    LIMIT = "SESSION_LIMIT"


class Delegation:
    """A conversation with an agent, from its objective to its result."""

    def __init__(
        self,
        definition: AgentDefinition,
        bench: Toolset,
        office: "Subagents",
        context: ExecutionContext,
    ) -> None:
        model, opening = office.model(), office.opening
        outlets, self._approver = office.outlets, office.approver
        self.agent_id = f"{definition.name}-{os.urandom(4).hex()}"
        self._definition = definition
        self._parent = context.call_id or self.agent_id
        self._detects = not bench.settings.model.disable_loop_detection
        self._relay = EventRelay(self._parent, outlets.emit, context.update_output)
        registry = isolated(
            bench.registry,
            definition.tools,
            *definition.own_tools,
            CompleteTask(definition.result_schema, self._submit),
        )
        self._scheduler = bench.scheduler(
            self._relay.emit,
            self._approve,
            registry,
            caller=Caller(definition.name, self._relay.call_id),
        )
        traits = model.traits
        chosen = None
        if definition.model:
            traits = traits_of(resolved_name(definition.model))
            chosen = traits.name if is_alias(definition.model) else None
        outlets = Outlets(self._relay.emit, outlets.pace, role="subagent", texts=outlets.texts)

        def settings(name: str, *, is_retry: bool = False) -> GenerateContentConfig:
            return _settings(definition, name, bench, is_retry=is_retry)

        configs = bench.settings.model_configs
        again = partial(settings, is_retry=True) if tells_retries_apart(configs) else None
        self._chat = Chat(
            model.generator,
            traits,
            _config(definition, traits.name, registry, bench),
            History(opening),
            outlets,
            ChatServices(
                interposer=interposer(bench, self._relay.emit),
                fallback=model.fallback and model.fallback.giving(settings, chosen),
                again=again,
                room=ConversationRoom(bench, model.generator, outlets, len(opening)),
            ),
        )
        self._loops = LoopWatch(self._relay.emit, role="subagent")
        self._loop: Loop | None = None
        self._limits = office.limits
        self._limit: LimitError | None = None
        self._results: list[Any] = []
        self._turns = 0
        self._words = ""
        self._stop: ToolFailure | None = None
        self._timer: asyncio.Timeout | None = None
        self._asking = 0
        self._left = 0.0

    async def run(self, objective: str) -> ToolResult:
        """The result of the agent's work. Raises AlhenaError when its model fails. A limit of the
        session ends the agent, and then the run that called it."""
        query = self._definition.query.replace("${query}", objective)
        try:
            reason = await self._to_the_end((Part(text=query),))
        except LimitError as error:
            self._limits.end(error)
            self._limit, reason = error, Termination.LIMIT
        if self._stop is not None:
            return ToolResult.failed(self._stop.message, self._stop.type)
        return self._result(reason)

    async def _to_the_end(self, pending: tuple[Part, ...]) -> Termination:
        """Works within the agent's own limits; the reason why it ended. Raises AlhenaError."""
        try:
            async with asyncio.timeout(self._definition.time_limit_s) as self._timer:
                reason, pending = await self._work(pending)
        except TimeoutError:
            reason, pending = Termination.TIMEOUT, ()
        except HookStopError as error:
            self._stop = ToolFailure(str(error), ToolErrorType.STOP_EXECUTION)
            return Termination.GOAL
        if self._stop is not None:
            return Termination.GOAL
        if reason is Termination.GOAL or await self._last_chance(reason, pending):
            return Termination.GOAL
        return reason

    async def _work(self, parts: tuple[Part, ...]) -> tuple[Termination, tuple[Part, ...]]:
        """Turn after turn; ends with the reason and the responses that were not sent any more."""
        while self._turns < self._definition.max_turns:
            try:
                calls = await self._ask(parts)
            except ChantingError as error:
                self._loop, parts = chanting(error), ()
            else:
                if not calls:
                    return Termination.NO_RESULT, ()
                parts = await self._run_calls(calls)
            if self._results or self._stop is not None:
                return Termination.GOAL, ()
            if self._loop is not None:
                note = self._loops.correct(self._loop, self.agent_id)
                if note is None:
                    self._loops.end(self._loop, self.agent_id)
                    return Termination.LOOP, parts
                parts, self._loop = (*parts, note), None
        return Termination.MAX_TURNS, parts

    async def _ask(self, parts: tuple[Part, ...]) -> list[ToolCallRequestInfo]:
        with self._clock_stopped():
            await self._limits.check()
        self._limits.take()
        self._turns += 1
        prompt_id = f"{self.agent_id}#{self._turns}"
        turn = await self._chat.send(parts, prompt_id, hears_chanting=self._detects)
        self._words = turn.text.strip() or self._words
        return [
            msgspec.structs.replace(call, parent_call_id=self._parent, scheduler_id=self.agent_id)
            for call in turn.calls
        ]

    async def _run_calls(self, calls: Sequence[ToolCallRequestInfo]) -> tuple[Part, ...]:
        try:
            done: Sequence[CompletedToolCall] = await self._scheduler.schedule(calls)
        except asyncio.CancelledError:
            self._chat.record_responses(answers(self._scheduler.last_batch))
            raise
        for call in done:
            message = call.response.error or "The run was stopped."
            if call.response.error_type is ToolErrorType.STOP_EXECUTION:
                self._stop = ToolFailure(message, ToolErrorType.STOP_EXECUTION)
            elif call.ends_turn:
                message = f"The user refused its call of {call.request.name}"
                self._stop = ToolFailure(message, ToolErrorType.CANCELLED_BY_USER)
        if self._detects:
            self._loop = self._loops.calls(done)
        return answers(done)

    async def _last_chance(self, reason: Termination, pending: tuple[Part, ...]) -> bool:
        """One turn more in which only complete_task counts; whether there is a result now."""
        why = self._explanation(reason)
        try:
            async with asyncio.timeout(GRACE_S) as self._timer:
                calls = await self._ask((*pending, Part(text=why + _LAST_CHANCE)))
                final = [call for call in calls if declared_name(call.name) == "complete_task"]
                if final:
                    await self._scheduler.schedule(final)
        except LimitError:
            raise
        except (TimeoutError, AlhenaError):
            pass
        return bool(self._results)

    def _result(self, reason: Termination) -> ToolResult:
        name = self._definition.name
        data: dict[str, Any] = {
            "agent": name,
            "agent_id": self.agent_id,
            "termination_reason": str(reason),
            "turns": self._turns,
        }
        if self._results:
            result = self._results[0]
            body = result
            if not isinstance(result, str):
                body = msgspec.json.format(msgspec.json.encode(result), indent=2).decode()
            return ToolResult(
                llm_content=f"Subagent '{name}' finished.\nTermination Reason: {reason}\n"
                f"Result:\n{body}",
                display=body,
                data=data | {"result": result},
            )
        told = (
            f"Subagent '{name}' did not complete its task.\nTermination Reason: {reason}\n"
            f"{self._explanation(reason)}"
        )
        if self._words:
            told += f"\nWhat it said last:\n{self._words}"
        return msgspec.structs.replace(ToolResult.failed(told), data=data)

    def _explanation(self, reason: Termination) -> str:
        match reason:
            case Termination.GOAL:
                return "Agent completed its task."
            case Termination.NO_RESULT:
                return "Agent stopped calling tools but did not call 'complete_task'."
            case Termination.MAX_TURNS:
                return f"Agent reached max turns limit ({self._definition.max_turns})."
            case Termination.LOOP:
                what = "" if self._loop is None else f": {self._loop.detail}"
                return f"Agent went in circles, also after it was told{what}."
            case Termination.TIMEOUT:
                minutes = self._definition.time_limit_s / 60
                return f"Agent timed out after {minutes:g} minutes."
            case Termination.LIMIT:
                return f"The run {'' if self._limit is None else self._limit.message}"
            case _:
                assert_never(reason)

    def _submit(self, result: Any) -> bool:
        if self._results:
            return False
        self._results.append(result)
        return True

    async def _approve(self, request: ConfirmationRequest) -> Verdict:
        """The session's answer; the time a person takes is not the agent's."""
        if self._approver is None:
            return Answer.no("No person can be asked.")
        named = msgspec.structs.replace(request, call_id=self._relay.call_id(request.call_id))
        with self._clock_stopped():
            return await call_approver(self._approver, named)

    @contextmanager
    def _clock_stopped(self) -> Generator[None]:
        """The clock is stopped while a person is asked, about one call or several."""
        loop = asyncio.get_running_loop()
        timer = self._timer
        end = None if timer is None else timer.when()
        if timer is not None and end is not None:
            self._left = end - loop.time()
            timer.reschedule(None)
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1
            if timer is not None and self._asking == 0:
                timer.reschedule(loop.time() + self._left)


def _config(
    definition: AgentDefinition, model: str, registry: ToolRegistry, bench: Toolset
) -> GenerateContentConfig:
    rules = prompt_text("subagent_rules").replace(
        "${directories}", ", ".join(str(root) for root in bench.workspace.roots)
    )
    text = f"{definition.system_prompt.strip()}\n{rules.rstrip()}"
    memory = "" if bench.memory is None else bench.memory.user_text
    return GenerateContentConfig(
        system_instruction=system_instruction(text, memory),
        tools=(DeclaredTools(function_declarations=registry.function_declarations()),),
    ).with_settings(_settings(definition, model, bench))


def _settings(
    definition: AgentDefinition, model: str, bench: Toolset, *, is_retry: bool = False
) -> GenerateContentConfig:
    return config_for(
        model,
        bench.settings.model_configs,
        scope=definition.name,
        is_retry=is_retry,
        own={"temperature": definition.temperature, "topP": _TOP_P, "topK": None},
    )


class SubagentModel(msgspec.Struct, frozen=True):
    """The model of subagents that name none, and the fallback if it fails."""

    generator: ContentGenerator
    traits: ModelTraits
    fallback: SessionFallback | None = None


class Subagents:
    """The agents of a session. `run` is what DelegateToAgent is given.

    `model` is asked for when an agent starts. `outlets` take the events: model requests and tool
    calls, the latter with `parent_call_id`; what a subagent says is live output of its call.
    `approver` is asked about calls that need a person; without it they are declined. `opening`
    precedes the objective in each conversation. `limits` count their turns.
    """

    def __init__(
        self,
        bench: Toolset,
        model: Callable[[], SubagentModel],
        outlets: Outlets,
        approver: Approver | None = None,
        opening: Sequence[Content] = (),
        limits: TurnLimits | None = None,
    ) -> None:
        self.bench = bench
        self.limits = limits or TurnLimits()
        self.outlets = outlets
        self.approver = approver
        self.opening = tuple(opening)
        self.model = model
        self._agents = {agent.name: agent for agent in bench.agents}

    async def run(self, name: str, objective: str, context: ExecutionContext) -> ToolResult:
        """The report of the agent called `name`; every failure is a value."""
        definition = self._agents.get(name)
        if definition is None:
            return ToolResult.failed(
                f"Subagent '{name}' not found.", ToolErrorType.INVALID_TOOL_PARAMS
            )
        try:
            if definition.in_worktree:
                return await self._in_worktree(definition, objective, context)
            return await self._run(definition, objective, context, self.bench)
        except AlhenaError as error:
            return ToolResult.failed(f"Subagent '{name}' failed: {error}")

    async def _run(
        self,
        definition: AgentDefinition,
        objective: str,
        context: ExecutionContext,
        bench: Toolset,
    ) -> ToolResult:
        servers = self.bench.agent_servers
        if servers is None or not definition.mcp_servers:
            return await Delegation(definition, bench, self, context).run(objective)

        def warn(text: str) -> None:
            self.outlets.emit(WarningEvent(message=f"agent {definition.name}: {text}"))

        async with servers.open(bench, definition, warn) as (with_servers, allowed):
            return await Delegation(allowed, with_servers, self, context).run(objective)

    async def _in_worktree(
        self, definition: AgentDefinition, objective: str, context: ExecutionContext
    ) -> ToolResult:
        """The result of work in a worktree, with the patch."""
        from alhena.agent.subagents.worktree import open_worktree
        from alhena.agent.toolset.factory import open_elsewhere

        async with open_worktree(self.bench.workspace.cwd, os.environ) as tree:
            bench = open_elsewhere(self.bench, tree.cwd)
            result = await self._run(definition, objective, context, bench)
            patch = await tree.patch()
        told = f"\n\nIts changes, which are not applied here:\n{patch or '(none)'}"
        data = {**(result.data or {}), "patch": patch}
        content = f"{result.llm_content}{told}"
        error = result.error and ToolFailure(content, result.error.type)
        return msgspec.structs.replace(result, llm_content=content, data=data, error=error)


class AgentLimit:
    """Limits how many agents run: those beyond `maxConcurrent` wait, and beyond `maxPerSession` a
    person is asked; without one they are refused."""

    def __init__(self, settings: AgentsSettings, ask: Ask | None) -> None:
        self._settings = settings
        self._ask = ask
        self._allowed = settings.max_per_session
        self._begun = 0
        self._places = asyncio.Semaphore(settings.max_concurrent)
        self._turn = asyncio.Lock()

    def over(self, run: RunAgent) -> RunAgent:
        """Runs agents by `run` within the limits."""

        async def limited(name: str, objective: str, context: ExecutionContext) -> ToolResult:
            async with self._turn:
                if self._begun >= self._allowed and not await self._more():
                    return ToolResult.failed(
                        f"Subagent '{name}' was not started: this session has run {self._begun} "
                        "agents, as many as agents.maxPerSession allows. Do the task without one."
                    )
                self._begun += 1
            async with self._places:
                return await run(name, objective, context)

        return limited

    async def _more(self) -> bool:
        more = max(1, self._settings.max_per_session)
        if not await agrees(
            self._ask,
            f"This session has run {self._begun} subagents. Start more?",
            "Agents",
            QuestionOption(
                label=f"Allow {more} more", description="Each sends requests of its own."
            ),
            QuestionOption(label="No", description="The model continues without it."),
        ):
            return False
        self._allowed = self._begun + more
        return True


def open_agents(links: SessionLinks, bench: Toolset, remote: "RemoteAgents | None") -> RunAgent:
    """Runs the agents of a toolset and the `remote` ones, within the limits of the settings. A
    `Delegate`."""

    def model() -> SubagentModel:
        generator, own = links.answering()
        return SubagentModel(generator, traits_of(own), links.fallback)

    outlets = Outlets(links.emit, links.pace, texts=links.texts)
    subagents = Subagents(bench, model, outlets, links.approver, links.opening, links.turns)

    async def run(name: str, objective: str, context: ExecutionContext) -> ToolResult:
        if remote is not None and name in remote:
            return await remote.run(name, objective, context)
        return await subagents.run(name, objective, context)

    return AgentLimit(bench.settings.agents, links.ask).over(run)
