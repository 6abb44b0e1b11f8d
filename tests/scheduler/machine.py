"""Scripted tools, hooks, rules and an editor for the scheduler's state machine, which follow each
call's plan, and a stage that checks the scheduler."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from alhena.events import Event, ToolCallsUpdateEvent, ToolCallUpdateEvent
from alhena.hooks.model import HookEvent, HookVerdict, TailCall
from alhena.policy.model import Decision, PolicyCall, PolicyOutcome
from alhena.scheduler.bus import LastingRule, UpdatePolicy
from alhena.scheduler.confirmation import ConfirmationRequest
from alhena.scheduler.executor import Executor
from alhena.scheduler.hooks import ToolHooks
from alhena.scheduler.states import TERMINAL, ExecutingToolCall, Status, advance
from alhena.tools.contract import EditConfirmation, ExecutionContext, Kind, ToolFailure, ToolResult
from alhena.tools.contract import ToolConfirmationOutcome as Outcome
from alhena.tools.edit.proposal import ProposedContents
from tests.scheduler.kit import SmallCall, SmallTool, Stage
from tests.scheduler.said import SaidHooks

ALLOW, ASK, DENY = PolicyOutcome.ALLOW, PolicyOutcome.ASK_USER, PolicyOutcome.DENY
TOOLS = ("look", "fetch", "change", "hang", "draft")
MUTATING = {"change", "draft"}
NEVER = {"stop", "block", "bad"}
"""Answers of a BeforeTool hook that prevent the call."""

BEFORE = {
    "none": HookVerdict(),
    "stop": HookVerdict(stop="hook"),
    "block": HookVerdict(block="hook"),
    "ask": HookVerdict(ask=True, reason="hook"),
    "input": HookVerdict(tool_input={"text": "hooked"}),
    "evil": HookVerdict(tool_input={"text": "evil"}),
    "bad": HookVerdict(tool_input={"text": 1}),
}
AFTER = {
    "none": HookVerdict(),
    "stop": HookVerdict(stop="hook"),
    "block": HookVerdict(block="hook"),
    "context": HookVerdict(additional_context="hook"),
    "tail": HookVerdict(),
}


class Plan(msgspec.Struct, frozen=True):
    """A call, what rules and checkers make of it, and what its hooks say."""

    tool: str
    policy: str
    check: str
    before: str
    after: str


class DraftCall(SmallCall):
    """A call whose proposal a person can change; it lives in memory alone."""

    async def contents(self, context: ExecutionContext) -> ProposedContents | ToolFailure:
        if self.params["text"] == "bad":
            return ToolFailure("cannot be written")
        return ProposedContents("/draft", None, self.params["text"])

    def with_content(self, new_content: str) -> "DraftCall":
        return DraftCall(self.tool, self.params | {"text": new_content})


class Draft(SmallTool):
    def build(self, params: dict[str, Any]) -> SmallCall | ToolFailure:
        built = super().build(params)
        return built if isinstance(built, ToolFailure) else DraftCall(self, built.params)


EDIT = EditConfirmation(
    title="t",
    file_path="/draft",
    file_name="draft",
    file_diff="",
    original_content=None,
    new_content="",
    is_new_file=True,
)


async def hang(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
    context.report_pid(1)
    await asyncio.Event().wait()
    raise AssertionError("nothing sets this event")


def root(number: str) -> str:
    """The call whose place, or whose place's place, a call has taken."""
    return number.partition("~")[0]


class World:
    """The stage, and what is true beside it: rules, approvals, refusals. Every event is held against
    that the moment it comes."""

    def __init__(self) -> None:
        self.plans: dict[str, Plan] = {}
        self.rules: dict[str, PolicyOutcome] = {}
        self.approved: set[tuple[str, str, str]] = set()
        self.refused: set[str] = set()
        self.tailed: set[str] = set()
        self.states: dict[str, Status] = {}
        self.batches: dict[str, int] = {}
        self.running: set[str] = set()
        self.reached: set[str] = set()
        self.broken: list[str] = []
        self.watchers: list[Callable[[], None]] = []
        self.edits = 0
        hooks: Any = SaidHooks(
            {HookEvent.BEFORE_TOOL: self._before, HookEvent.AFTER_TOOL: self._after}
        )
        self.stage = Stage(
            SmallTool("look"),
            SmallTool("fetch"),
            SmallTool("change", kind=Kind.EDIT),
            SmallTool("hang", hang),
            Draft("draft", kind=Kind.EDIT, asks=EDIT),
            decide=self.decide,
            check=self._check,
            watch=self._watch,
            executor=Executor(Path.cwd(), hooks=ToolHooks(hooks)),
            offers=self._offers,
            edit=self._edit,
        )
        self.stage.on_event = self._hear
        self.stage.bus.subscribe(UpdatePolicy, self._update)

    def plan(self, args: dict[str, Any]) -> Plan:
        return self.plans[args["plan"]]

    def decide(self, call: PolicyCall) -> Decision:
        plan, rule = self.plan(call.args), self.rules.get(call.names[0])
        outcome = {"allow": ALLOW, "deny": DENY}.get(plan.policy, ASK)
        if call.args["text"] == "evil" or DENY in (outcome, rule):
            outcome = DENY
        elif rule is not None:
            outcome = rule
        return Decision(outcome=outcome, reason="planned")

    def verdict(self, name: str, args: dict[str, Any]) -> PolicyOutcome:
        """Outcome of rules and checkers for a call now."""
        decision = self.decide(PolicyCall(names=(name,), args=args))
        return self._checked(self.plan(args), decision).outcome

    def change_rule(self, tool: str, outcome: PolicyOutcome | None) -> None:
        self.rules.pop(tool, None)
        if outcome is not None:
            self.rules[tool] = outcome
        for watcher in tuple(self.watchers):
            watcher()

    def waiting(self) -> list[ConfirmationRequest]:
        """The questions that take an answer now, in call order."""
        calls = self.stage.scheduler._batch
        return [
            call.question
            for call in calls
            if call.question and call.answer and not call.answer.done() and not call.ended
        ]

    def _watch(self, listener: Callable[[], None]) -> Callable[[], None]:
        self.watchers.append(listener)
        return lambda: self.watchers.remove(listener)

    async def _update(self, message: UpdatePolicy) -> None:
        await asyncio.sleep(0)
        self.change_rule(message.tool_name, ALLOW)

    def _offers(self, call: PolicyCall) -> tuple[LastingRule, ...]:
        return (LastingRule(outcome=Outcome.PROCEED_ALWAYS, words="w", rule={}),)

    async def _edit(self, contents: ProposedContents) -> str | ToolFailure:
        self.edits += 1
        await asyncio.sleep(0)
        texts = ("edited", contents.proposed, "bad", "evil")
        return ToolFailure("no") if self.edits % 5 == 0 else texts[self.edits % 5 - 1]

    async def _check(self, call: PolicyCall, decision: Decision) -> Decision:
        await asyncio.sleep(0)
        return self._checked(self.plan(call.args), decision)

    def _checked(self, plan: Plan, decision: Decision) -> Decision:
        if decision.outcome is DENY or plan.check == "none":
            return decision
        outcome = DENY if plan.check == "deny" else ASK
        return msgspec.structs.replace(decision, outcome=outcome)

    async def _before(self, fields: dict[str, Any]) -> HookVerdict:
        await asyncio.sleep(0)
        return BEFORE[self.plan(fields["tool_input"]).before]

    async def _after(self, fields: dict[str, Any]) -> HookVerdict:
        await asyncio.sleep(0)
        number, plan = fields["tool_input"]["plan"], self.plan(fields["tool_input"])
        if plan.after == "tail" and number not in self.tailed:
            self.tailed.add(number)
            return HookVerdict(tail_call=TailCall("change", {"text": "tail", "plan": number}))
        return AFTER[plan.after]

    def _hear(self, event: Event) -> None:
        """Notes what an event breaks: raised here, it would be a listener's failure."""
        if isinstance(event, ToolCallsUpdateEvent):
            shown = {each.call_id: each.status for each in event.calls}
            known = {number: str(self.states[number]) for number in shown if number in self.states}
            self._require(shown == known, f"the batch is shown as {shown}, and is {known}")
        if not isinstance(event, ToolCallUpdateEvent):
            return
        number, status = event.call_id, Status(event.status)
        self.reached.add(event.status)
        self.states[number] = advance(self.states.get(number), status)
        if status is not Status.EXECUTING:
            self.running.discard(number)
        elif event.pid is None:
            self.running.add(number)
            self._may_run(number)

    def _may_run(self, number: str) -> None:
        """Checks that the call that begins to run is allowed to."""
        asked_as = root(number)
        (state,) = [c for c in self.stage.scheduler.calls if c.request.call_id == asked_as]
        assert isinstance(state, ExecutingToolCall)
        name, params, plan = state.tool.name, state.invocation.params, self.plans[asked_as]
        key = (number, name, params["text"])
        outcome = self.verdict(name, params)
        self._require(outcome is not DENY, f"{key} runs, and is denied")
        asked = outcome is ASK or plan.before == "ask"
        self._require(not asked or key in self.approved, f"{key} runs, and nobody approved it")
        self._require(number not in self.refused, f"{key} runs, and was refused")
        self._require(plan.before not in NEVER, f"{key} runs, and a hook does not let it")
        wanted = {"input": "hooked"}.get(plan.before)
        self._require(wanted in (None, params["text"]), f"{key} runs without its hooks' input")
        names = {self.plans[root(each)].tool for each in self.running if each != number}
        alone = not ({name} | names) & MUTATING or len(self.running) == 1
        self._require(alone, f"{key} runs beside {names}")
        mine = self.batches[asked_as]
        earlier = {each for each, batch in self.batches.items() if batch < mine}
        states = [self.states[each] for each in self.states if root(each) in earlier]
        ended = earlier <= self.states.keys() and all(state in TERMINAL for state in states)
        self._require(ended, f"{key} runs before an earlier batch has ended")

    def _require(self, holds: bool, what: str) -> None:
        if not holds:
            self.broken.append(what)
