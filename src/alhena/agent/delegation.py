"""One subagent at work: a session with a filtered registry, its own conversation and the limits of
its parent."""

import os
import re
import time
from collections.abc import Callable, Sequence
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
from alhena.agent.final_answer import FinalAnswer
from alhena.agent.limits import LimitError, LoopError, TurnLimits
from alhena.agent.loop import (
    HANDOFF,
    LoopGuard,
    TurnGuard,
    WaitingCalls,
    answer_calls,
    run_prompt,
)
from alhena.agent.subagents import AgentDefinition, prompt_text
from alhena.agent.subagents.agent_limit import AgentLimit
from alhena.agent.subagents.event_relay import EventRelay
from alhena.agent.subagents.own_limits import AgentClock, OwnLimitError, OwnTurns, UntimedTurns
from alhena.agent.toolset.model_access import SessionFallback
from alhena.agent.toolset.toolset import SessionLinks, Toolset
from alhena.chat.chat import Chat, ChatServices, Outlets
from alhena.chat.history import History, import_contents
from alhena.chat.prompt import system_instruction
from alhena.chat.turn import ModelTraits, traits_of
from alhena.display_text import one_line
from alhena.errors import AlhenaError
from alhena.events import WarningEvent
from alhena.hooks.model import HookStopError
from alhena.models.catalogue import is_alias, resolved_name
from alhena.models.generator import ContentGenerator
from alhena.scheduler.confirmation import call_approver
from alhena.scheduler.question import Approver, ConfirmationRequest, Verdict
from alhena.scheduler.scheduler import Caller
from alhena.scheduler.states import CompletedToolCall
from alhena.tools.builtin.subagents import RunAgent
from alhena.tools.contract import (
    ExecutionContext,
    Suspension,
    ToolErrorType,
    ToolFailure,
    ToolResult,
)
from alhena.tools.params import prepare
from alhena.tools.registry import ToolRegistry, adapt_schema, missing_tools, select_tools
from alhena.version import __version__
from alhena.wire.content import Content, Part
from alhena.wire.request import GenerateContentConfig
from alhena.wire.request import ToolDeclarations as DeclaredTools

if TYPE_CHECKING:
    from alhena.agent.subagents.remote_agents import RemoteAgents
    from alhena.agent.subagents.state import Resumption


GRACE_S = 60.0
"""Time limit, in seconds, of the last turn of a subagent that has used up its turns or time."""

_TOP_P = 0.95
COMPLETE_TASK = "complete_task"
_NO_RESULT = (
    'Missing required "result" argument. You must provide your findings when calling complete_task.'
)
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


def task_result(definition: AgentDefinition) -> FinalAnswer:
    """The value that a subagent has to end with. Raises WireError for a schema that no model
    takes."""
    schema = {
        "type": "object",
        "properties": {"result": definition.result_schema},
        "required": ["result"],
    }

    def read(args: dict[str, Any]) -> Any:
        prepared = prepare(COMPLETE_TASK, schema, args)
        match prepared:
            case ToolFailure(message=message):
                raise ValueError(message)
            case {"result": str(text)} if not text.strip():
                raise ValueError(_NO_RESULT)
            case _:
                if definition.handoff is not None:
                    definition.handoff.read(prepared["result"])
                return prepared["result"]

    return FinalAnswer(
        adapt_schema(schema) or schema,
        read,
        definition.max_turns,
        name=COMPLETE_TASK,
        description=prompt_text(COMPLETE_TASK).strip(),
        only_by_tool=True,
    )


def fail_agent(context: ExecutionContext, told: str, error: AlhenaError) -> ToolResult:
    """The result of an agent that an error ended. A program hears of it as of its own tools."""
    heard = None if context.program is None or isinstance(error, LimitError) else error
    return ToolResult(llm_content=told, display=told, error=ToolFailure(told, exception=heard))


class Delegation:
    """A conversation with an agent, from its objective to its result."""

    def __init__(
        self,
        definition: AgentDefinition,
        bench: Toolset,
        office: "Subagents",
        context: ExecutionContext,
    ) -> None:
        model, outlets = office.model(), office.outlets
        self._resumption: Resumption | None = context.earlier
        earlier = None if self._resumption is None else self._resumption.state
        new = f"{definition.name}-{os.urandom(4).hex()}"
        self.agent_id = new if earlier is None else earlier.agent_id
        self._definition = definition
        self._caller = Caller(
            definition.name,
            self.agent_id,
            context.call_id or self.agent_id,
            waits=not definition.in_worktree,
        )
        self._clock = AgentClock()
        self._limits = office.limits
        relay = EventRelay(self._caller, outlets.emit, context.update_output)
        registry = select_tools(bench.registry, tools := definition.tools, *definition.own_tools)
        self._registry = registry
        if missing := missing_tools(bench.registry, tools):
            told = f"agent {definition.name}: there is no tool {', '.join(map(one_line, missing))}."
            outlets.emit(WarningEvent(message=told))
        approver = None if office.approver is None else self._stop_clock_for(office.approver)
        self._scheduler = bench.scheduler(relay.emit, approver, registry, self._caller, tools)
        self._final = task_result(definition)
        self._turns = UntimedTurns(office.limits, self._clock)
        detects = not bench.settings.model.disable_loop_detection
        turns = 0 if earlier is None else earlier.turns
        self._guard = TurnGuard(
            (OwnTurns(definition.max_turns - turns), self._turns),
            LoopGuard(relay.emit, enabled=detects, role="subagent"),
            relay.emit,
            numbered=True,
        )
        self._guard.new_prompt(self.agent_id, self._final, earlier=earlier)
        self._opening = len(office.opening)
        outlets = Outlets(relay.emit, outlets.pace, role="subagent", texts=outlets.texts)
        self._chat = _open_chat(definition, bench, model, registry, office.opening, outlets)
        if earlier is not None:
            self._chat.replace_history(import_contents(earlier.contents, self._chat.model.name))
        self._stop: ToolFailure | None = None
        self._limit: LimitError | None = None
        self._reports = partial(fail_agent, context)

    async def run(self) -> ToolResult:
        """The result of the agent's work; a deferral when its calls wait for answers. Raises
        AlhenaError when its model fails before it said anything. A limit of the session ends the
        agent, and then the run that called it."""
        first = (Part(text=self._definition.query),)
        try:
            reason = await self._work(first)
            if self._guard.waiting is not None:
                return self._suspend(self._guard.waiting)
            if reason is not Termination.GOAL and await self._last_chance(reason, first):
                reason = Termination.GOAL
        except LimitError as error:
            self._limits.end(error)
            self._limit, reason = error, Termination.LIMIT
        except AlhenaError as error:
            if not self._guard.said:
                raise
            told = f"Subagent '{self._definition.name}' failed: {error}{self._findings()}"
            return self._reports(told, error)
        if self._stop is not None:
            return ToolResult.from_failure(self._stop.message, self._stop.type)
        return self._build_result(reason)

    async def _work(self, parts: tuple[Part, ...]) -> Termination:
        """Runs the prompt within the agent's own limits; returns the reason why it ended. Raises
        AlhenaError."""
        try:
            async with self._clock.start(self._definition.time_limit_s):
                await self._converse(parts)
        except OwnLimitError:
            return Termination.MAX_TURNS
        except LoopError:
            return Termination.LOOP
        except TimeoutError:
            return Termination.TIMEOUT
        except HookStopError as error:
            self._stop = ToolFailure(str(error), ToolErrorType.STOP_EXECUTION)
            return Termination.GOAL
        call = self._guard.ended_by
        if call is not None:
            self._stop = _describe_stop(call)
        given = call is not None or self._final.given
        return Termination.GOAL if given else Termination.NO_RESULT

    async def _converse(self, parts: tuple[Part, ...]) -> None:
        """Runs the conversation to its end, or until calls wait: from its prompt, or from the
        answers to those that waited."""
        if self._resumption is not None:
            from alhena.agent.waiting import open_batch

            state, answers = self._resumption.state, self._resumption.answers
            batch = open_batch(state, answers, self.agent_id, self._registry)
            answered = await answer_calls(self._chat, lambda: self._scheduler, self._guard, batch)
            if answered is None:
                return
            parts = answered
        await run_prompt(self._chat, lambda: self._scheduler, self._guard, parts)

    def _suspend(self, waiting: WaitingCalls) -> ToolResult:
        """The deferral of the call that runs the agent, with the state from which it continues."""
        from alhena.agent.subagents.state import AgentState
        from alhena.agent.waiting import record_answers

        contents = self._chat.export_contents()
        state = AgentState(
            agent=self._definition.name,
            agent_id=self.agent_id,
            contents=contents,
            answered=record_answers(waiting, contents),
            turns=self._guard.turns,
            said=tuple(self._guard.said),
            agents=dict(waiting.agents),
        )
        asks = f"asked by the subagent {self._definition.name}"
        requests = tuple(
            msgspec.structs.replace(
                each,
                call_id=self._caller.call_id(each.call_id),
                agent=each.agent or self._definition.name,
                reason=f"{asks}: {each.reason}" if each.reason else asks,
            )
            for each in waiting.requests
        )
        names = ", ".join(dict.fromkeys(each.tool_name for each in requests))
        told = f"Subagent '{self._definition.name}' waits for answers to its calls of {names}."
        suspension = Suspension(requests=requests, state=state)
        error = ToolFailure(told, ToolErrorType.DEFERRED, suspension=suspension)
        return ToolResult(llm_content=told, display=told, error=error)

    async def _last_chance(self, reason: Termination, first: tuple[Part, ...]) -> bool:
        """One turn more in which only complete_task counts; True if there is a result now."""
        pending = take_unsent(self._chat)
        if not pending and len(self._chat.history) <= self._opening:
            pending = first  # the first request was cancelled
        note = Part(text=self._explain(reason) + _LAST_CHANCE)
        try:
            async with self._clock.start(GRACE_S):
                await self._turns.check()
                turn = await self._guard.send(self._chat, (*pending, note))
                await self._guard.read_finals(turn.calls)
        except LimitError:
            raise
        except (TimeoutError, AlhenaError):
            pass
        return self._final.given

    def _build_result(self, reason: Termination) -> ToolResult:
        name = self._definition.name
        data: dict[str, Any] = {
            "agent": name,
            "agent_id": self.agent_id,
            "termination_reason": str(reason),
            "turns": self._guard.turns,
        }
        if self._final.given:
            body = result = self._final.value
            if not isinstance(result, str):
                body = msgspec.json.format(msgspec.json.encode(result), indent=2).decode()
            return ToolResult(
                llm_content=f"Subagent '{name}' finished.\nTermination Reason: {reason}\n"
                f"Result:\n{body}",
                display=body,
                data=data | {"result": result, HANDOFF: self._definition.handoff is not None},
            )
        told = (
            f"Subagent '{name}' did not complete its task.\nTermination Reason: {reason}\n"
            f"{self._explain(reason)}"
        )
        told += self._findings()
        return msgspec.structs.replace(ToolResult.from_failure(told), data=data)

    def _findings(self) -> str:
        """All that the agent said, its last words last."""
        *before, last = self._guard.said or [""]
        earlier = "\n\n".join(before)
        told = f"\nWhat it said before:\n{earlier}" if earlier else ""
        return f"{told}\nWhat it said last:\n{last}" if last else ""

    def _explain(self, reason: Termination) -> str:
        match reason:
            case Termination.GOAL:
                return "Agent completed its task."
            case Termination.NO_RESULT:
                return "Agent stopped calling tools but did not call 'complete_task'."
            case Termination.MAX_TURNS:
                return f"Agent reached max turns limit ({self._definition.max_turns})."
            case Termination.LOOP:
                loop = self._guard.loops.last
                what = "" if loop is None else f": {loop.detail}"
                return f"Agent went in circles, also after it was told{what}."
            case Termination.TIMEOUT:
                minutes = self._definition.time_limit_s / 60
                return f"Agent timed out after {minutes:g} minutes."
            case Termination.LIMIT:
                return f"The run {'' if self._limit is None else self._limit.message}"
            case _:
                assert_never(reason)

    def _stop_clock_for(self, approver: Approver) -> Approver:
        """The session's approver; the time a person takes is not the agent's."""

        async def approve(request: ConfirmationRequest) -> Verdict:
            known = self._caller.call_id(request.call_id)
            asks = request.agent or self._definition.name
            named = msgspec.structs.replace(request, call_id=known, agent=asks)
            with self._clock.stop_clock():
                return await call_approver(approver, named)

        return approve


def _describe_stop(call: CompletedToolCall) -> ToolFailure:
    """The failure of a subagent that one of its calls ended."""
    if call.ends_turn:
        message = f"The user refused its call of {call.request.name}"
        return ToolFailure(message, ToolErrorType.CANCELLED_BY_USER)
    message = call.response.error or "The run was stopped."
    return ToolFailure(message, ToolErrorType.STOP_EXECUTION)


def take_unsent(chat: Chat) -> tuple[Part, ...]:
    """Takes the tool results that were recorded last, without an answer, out of a conversation."""
    contents = chat.history.contents
    last = contents[-1].content if contents else None
    if last is None or not any(part.function_response for part in last.parts):
        return ()
    chat.history.rollback(len(contents) - 1)
    return last.parts


def _open_chat(
    definition: AgentDefinition,
    bench: Toolset,
    model: "SubagentModel",
    registry: ToolRegistry,
    opening: Sequence[Content],
    outlets: Outlets,
) -> Chat:
    """The conversation of a subagent."""
    traits, chosen = model.traits, None
    if definition.model:
        traits = traits_of(resolved_name(definition.model))
        chosen = traits.name if is_alias(definition.model) else None
    model, traits = _own_model(definition, bench, model, traits)

    def settings(name: str, *, is_retry: bool = False) -> GenerateContentConfig:
        return _settings(definition, name, bench, is_retry=is_retry)

    configs = bench.settings.model_configs
    again = partial(settings, is_retry=True) if tells_retries_apart(configs) else None
    return Chat(
        model.generator,
        traits,
        _config(definition, traits.name, registry, bench),
        History(opening),
        outlets,
        ChatServices(
            interposer=interposer(bench, outlets.emit),
            fallback=model.fallback and model.fallback.giving(settings, chosen),
            again=again,
            room=ConversationRoom(bench, model.generator, outlets, len(opening)),
            searches=lambda: bool(registry.search.note),
        ),
    )


def _own_model(
    definition: AgentDefinition, bench: Toolset, model: "SubagentModel", traits: ModelTraits
) -> "tuple[SubagentModel, ModelTraits]":
    """The model of an agent that has an object, or one of another service, by the prefix of its
    name. Raises ConfigError, CredentialsError."""
    wanted = definition.generator or definition.model
    find = bench.links.find_model
    if wanted is None or find is None or (isinstance(wanted, str) and ":" not in wanted):
        return model, traits
    found = find(wanted)
    return SubagentModel(found.generator or model.generator, found.traits), found.traits


def _config(
    definition: AgentDefinition, model: str, registry: ToolRegistry, bench: Toolset
) -> GenerateContentConfig:
    rules = prompt_text("subagent_rules").replace(
        "${directories}", ", ".join(str(root) for root in bench.workspace.roots)
    )
    text = f"{definition.system_prompt.strip()}\n{rules.rstrip()}"
    if registry.search.note:
        text = f"{text}\n\n{registry.search.note}"
    memory = "" if bench.memory is None else bench.memory.user_text
    return GenerateContentConfig(
        system_instruction=system_instruction(text, memory),
        tools=(DeclaredTools(function_declarations=registry.function_declarations()),),
    ).with_settings(_settings(definition, model, bench))


def _settings(
    definition: AgentDefinition, model: str, bench: Toolset, *, is_retry: bool = False
) -> GenerateContentConfig:
    config = config_for(
        model,
        bench.settings.model_configs,
        scope=definition.name,
        is_retry=is_retry,
        own={"temperature": definition.temperature, "topP": _TOP_P, "topK": None},
    )
    config = config.with_tier(bench.settings.model.service_tier)
    if definition.settings is None and getattr(definition.generator, "settings", None) is None:
        return config
    from alhena.models.settings import NONE, own_settings

    own = definition.settings or NONE
    return own.merge_over(own_settings(definition.generator)).apply(config, model)


_INPUT = re.compile(r"\$\{(\w+)\}")


def with_inputs(definition: AgentDefinition, objective: str, model: str) -> AgentDefinition:
    """The agent with its task and the reference's other inputs in place of `${query}` and the like,
    in its system prompt and its first message; other names stay."""
    inputs = {
        **dict.fromkeys(("query", "objective", "task"), objective),
        "activeModel": definition.model or model,
        "cliVersion": __version__,
        "today": time.strftime("%A, %B %d, %Y"),
    }

    def fill(text: str) -> str:
        return _INPUT.sub(lambda found: inputs.get(found[1], found[0]), text)

    return msgspec.structs.replace(
        definition, system_prompt=fill(definition.system_prompt), query=fill(definition.query)
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
        self._agents = {agent.name: agent for agent in bench.agents.local}

    async def run(self, name: str, objective: str, context: ExecutionContext) -> ToolResult:
        """The report of the agent called `name`; every failure is a value."""
        definition = self._agents.get(name)
        if definition is None:
            return ToolResult.from_failure(
                f"Subagent '{name}' not found.", ToolErrorType.INVALID_TOOL_PARAMS
            )
        try:
            definition.require_temperature(self.model().traits.name)
            if definition.in_worktree:
                return await self._in_worktree(definition, objective, context)
            return await self._run(definition, objective, context, self.bench)
        except AlhenaError as error:
            return fail_agent(context, f"Subagent '{name}' failed: {error}", error)

    async def _run(
        self,
        definition: AgentDefinition,
        objective: str,
        context: ExecutionContext,
        bench: Toolset,
    ) -> ToolResult:
        definition = with_inputs(definition, objective, self.model().traits.name)
        servers = self.bench.agents.servers
        if servers is None or not definition.mcp_servers:
            return await Delegation(definition, bench, self, context).run()

        def warn(text: str) -> None:
            self.outlets.emit(WarningEvent(message=f"agent {definition.name}: {text}"))

        opening = servers.open(definition, bench.registry, bench.workspace.roots, warn)
        async with opening as (registry, own, allowed):
            with_servers = bench.add_servers(registry, own)
            return await Delegation(allowed, with_servers, self, context).run()

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
