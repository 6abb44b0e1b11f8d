"""A machine that schedules, answers, edits, changes rules and cancels in any order (SCHED-01).

Whatever it does: every call ends in one terminal state with one response in call order, only drawn
transitions happen, what runs is what the policy allows or a person approved at that moment, batches
and mutating calls keep apart, and neither a task nor a listener is left.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from alhena.events import Event, ToolCallResponseEvent, ToolCallsUpdateEvent, ToolCallUpdateEvent
from alhena.hooks.model import HookEvent, HookVerdict, TailCall
from alhena.policy.model import Decision, PolicyCall, PolicyOutcome
from alhena.scheduler.bus import LastingRule, UpdatePolicy
from alhena.scheduler.executor import INTERRUPTED, Executor
from alhena.scheduler.hooks import ToolHooks
from alhena.scheduler.question import Answer, ConfirmationRequest, Payload
from alhena.scheduler.states import (
    TERMINAL,
    CallStatus,
    CompletedToolCall,
    ConfirmationError,
    ExecutingToolCall,
    advance,
)
from alhena.tools.contract import (
    EditConfirmation,
    ExecutionContext,
    Kind,
    ProposedContents,
    ToolFailure,
    ToolResult,
)
from alhena.tools.contract import ToolConfirmationOutcome as Outcome
from alhena.tools.response import cancelled_text
from tests.scheduler.kit import SmallCall, SmallTool, Stage, request, response_of
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
        self.states: dict[str, CallStatus] = {}
        self.batches: dict[str, int] = {}
        self.running: set[str] = set()
        self.reached: set[str] = set()
        self.broken: list[str] = []
        self.watchers: list[Callable[[], None]] = []
        self.edits = 0
        self.answers: dict[str, asyncio.Future[Answer]] = {}
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
            save=self._update,
            approver=self._approve,
            edit=self._edit,
        )
        self.stage.on_event = self._hear

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

    async def _approve(self, request: ConfirmationRequest) -> Answer:
        answer = self.answers[request.correlation_id] = asyncio.Future[Answer]()
        return await answer

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
        number, status = event.call_id, CallStatus(event.status)
        self.reached.add(event.status)
        self.states[number] = advance(self.states.get(number), status)
        if status is not CallStatus.EXECUTING:
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


ANSWERS = (
    Answer(Outcome.PROCEED_ONCE),
    Answer(Outcome.PROCEED_ALWAYS),
    Answer(Outcome.CANCEL),
    Answer(Outcome.CANCEL, Payload(reason="no")),
    Answer(Outcome.CANCEL, Payload(scope="all")),
    Answer(Outcome.MODIFY_WITH_EDITOR),
    Answer(Outcome.PROCEED_ONCE, Payload(new_content="inline\n")),
    Answer(Outcome.PROCEED_ONCE, Payload(new_content="evil")),
    Answer(Outcome.PROCEED_ONCE, Payload(new_content="bad")),
)
plans = st.builds(
    Plan,
    st.sampled_from((*TOOLS, "nope")),
    st.sampled_from(("allow", "allow", "ask", "ask", "ask", "deny")),
    st.sampled_from(("none", "none", "none", "none", "ask", "deny")),
    st.sampled_from(("none", "none", "none", *BEFORE)),
    st.sampled_from(("none", "none", "none", *AFTER)),
)
ticks = st.sampled_from((0, 1, 2, 3, 4, 5, 6, 8, 12, 20))
picks = st.integers(0, 9)
NO_REASON = cancelled_text(INTERRUPTED)
ROUNDS = 400
"""As often as questions are answered until nothing is left to ask."""


class Machine(RuleBasedStateMachine):
    seen: ClassVar[set[str]] = set()

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.given_up: set[str] = set()
        self.results: list[tuple[list[str], asyncio.Task[list[CompletedToolCall]]]] = []
        self.world = self.runner.run(self._begun())

    async def _begun(self) -> World:
        return World()

    def _step(self, work: Coroutine[Any, Any, None] | None = None, count: int = 16) -> None:
        async def stepping() -> None:
            if work is not None:
                await work
            await self._later(count)

        self.runner.run(stepping())

    @rule(batch=st.lists(plans, min_size=1, max_size=6), count=ticks)
    def schedule(self, batch: list[Plan], count: int) -> None:
        world, requests = self.world, []
        for plan in batch:
            number = f"p{len(world.plans)}"
            world.plans[number] = plan
            world.batches[number] = len(self.results)
            requests.append(request(number, plan.tool, text="t", plan=number))

        async def begin() -> None:
            task = asyncio.create_task(world.stage.scheduler.schedule(requests))
            self.results.append(([each.call_id for each in requests], task))

        self._step(begin(), count)

    @precondition(lambda self: self.world.waiting())
    @rule(index=picks, answer=st.sampled_from(ANSWERS), by_approver=st.booleans(), count=ticks)
    def answer(self, index: int, answer: Answer, by_approver: bool, count: int) -> None:
        waiting = self.world.waiting()
        question = waiting[index % len(waiting)]
        self._step(self._answering(question, answer, by_approver=by_approver), count)

    async def _answering(
        self, question: ConfirmationRequest, answer: Answer, *, by_approver: bool
    ) -> None:
        world, given = self.world, answer.payload.new_content
        is_open = question in world.waiting()
        fits = answer.outcome in question.outcomes and (given is None or question.modifiable)
        text = question.args["text"] if given is None else given
        if fits and answer.outcome in (Outcome.PROCEED_ONCE, Outcome.PROCEED_ALWAYS):
            world.approved.add((question.call_id, question.tool_name, text))
        if by_approver:
            asked = world.answers.get(question.correlation_id)
            if asked is not None and not asked.done():
                asked.set_result(answer)
            return
        try:
            world.stage.scheduler.confirm(question.call_id, answer.outcome, answer.payload)
        except ConfirmationError:
            assert not is_open or not fits
            return
        assert is_open
        assert fits
        if answer.outcome is Outcome.CANCEL:
            world.refused.add(question.call_id)

    @rule(number=st.sampled_from(["p0", "p1", "p2", "other"]))
    def answer_what_does_not_wait(self, number: str) -> None:
        if number in {each.call_id for each in self.world.waiting()}:
            return
        with pytest.raises(ConfirmationError):
            self.world.stage.scheduler.confirm(number, Outcome.PROCEED_ONCE)

    @precondition(lambda self: self.world.waiting())
    @rule(
        index=picks,
        both=st.tuples(st.sampled_from(ANSWERS), st.sampled_from(ANSWERS)),
        by_approver=st.booleans(),
        between=st.integers(0, 4),
    )
    def answer_twice(
        self, index: int, both: tuple[Answer, Answer], by_approver: bool, between: int
    ) -> None:
        waiting = self.world.waiting()
        question = waiting[index % len(waiting)]

        async def answering() -> None:
            await self._answering(question, both[0], by_approver=by_approver)
            await self._later(between)
            await self._answering(question, both[1], by_approver=False)

        self._step(answering())

    @precondition(lambda self: self.world.waiting())
    @rule(
        index=picks,
        outcome=st.sampled_from((ALLOW, DENY)),
        answer=st.sampled_from(ANSWERS[:4]),
        between=st.integers(0, 4),
    )
    def answer_as_the_policy_changes(
        self, index: int, outcome: PolicyOutcome, answer: Answer, between: int
    ) -> None:
        waiting = self.world.waiting()
        question = waiting[index % len(waiting)]

        async def answering() -> None:
            self.world.change_rule(question.tool_name, outcome)
            await self._later(between)
            await self._answering(question, answer, by_approver=False)

        self._step(answering())

    @rule(
        tool=st.sampled_from(TOOLS),
        index=st.none() | picks,
        outcome=st.sampled_from((ALLOW, DENY, None)),
        count=ticks,
    )
    def change_a_rule(
        self, tool: str, index: int | None, outcome: PolicyOutcome | None, count: int
    ) -> None:
        active = self._active()
        if active and index is not None:
            tool = self.world.plans[root(active[index % len(active)])].tool

        async def changing() -> None:
            self.world.change_rule(tool, outcome)

        self._step(changing(), count)

    async def _later(self, count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(0)

    def _active(self) -> list[str]:
        return [n for n, state in self.world.states.items() if state not in TERMINAL]

    @rule(index=picks, count=ticks)
    def cancel_one(self, index: int, count: int) -> None:
        world = self.world
        active = self._active()
        if not active:
            return
        number = active[index % len(active)]

        async def cancelling() -> None:
            before = dict(world.states)
            if before[number] in TERMINAL:
                return
            world.stage.scheduler.cancel(number, "one")
            if before[number] is not CallStatus.EXECUTING:
                assert world.states[number] is CallStatus.CANCELLED
            assert world.states | {number: before[number]} == before

        self._step(cancelling(), count)

    @rule(count=ticks)
    def cancel_all(self, count: int) -> None:
        async def cancelling() -> None:
            world = self.world
            world.refused |= {
                n
                for n in {*world.plans, *world.states}
                if world.states.get(n) not in TERMINAL and n not in world.running
            }
            world.stage.scheduler.cancel_all("all")
            assert not world.waiting()

        self._step(cancelling(), count)

    @precondition(lambda self: self.results)
    @rule(index=picks, count=ticks)
    def give_up_a_batch(self, index: int, count: int) -> None:
        async def cancelling() -> None:
            ids, task = self.results[index % len(self.results)]
            if task.cancel():
                self.given_up.update(ids)

        self._step(cancelling(), count)

    @invariant()
    def nothing_is_broken(self) -> None:
        assert self.world.broken == []

    @invariant()
    def exactly_the_calls_that_have_ended_have_one_response(self) -> None:
        events = self.world.stage.events
        found = Counter(e.call_id for e in events if isinstance(e, ToolCallResponseEvent))
        assert all(count == 1 for count in found.values())
        ended = {number for number, state in self.world.states.items() if state in TERMINAL}
        assert ended == set(found)

    def teardown(self) -> None:
        try:
            with self.runner:
                self.runner.run(self._end())
        finally:
            self.seen.update(self.world.reached)
            self.results.clear()

    async def _end(self) -> None:
        """Answers all that is asked, and ends what hangs, until every batch has come to its end."""
        world = self.world
        for _ in range(ROUNDS):
            if all(task.done() for _, task in self.results):
                break
            for question in world.waiting():
                await self._answering(question, ANSWERS[0], by_approver=False)
            for number in tuple(world.running):
                if world.plans[root(number)].tool == "hang":
                    world.stage.scheduler.cancel(number)
            for _ in range(8):
                await asyncio.sleep(0)
        left = [ids for ids, task in self.results if not task.done()]
        world.stage.scheduler.cancel_all("over")
        await asyncio.gather(*(task for _, task in self.results), return_exceptions=True)
        await world.stage.bus.aclose()
        assert left == []
        self._check_results()
        shown: dict[str, str] = {}
        for event in world.stage.events:
            if isinstance(event, ToolCallsUpdateEvent):
                shown |= {each.call_id: each.status for each in event.calls}
        shown = {n: status for n, status in shown.items() if f"{n}~2" not in world.states}
        assert {n: str(state) for n, state in world.states.items() if n in shown} == shown
        self.nothing_is_broken()
        self.exactly_the_calls_that_have_ended_have_one_response()
        assert all(state in TERMINAL for state in world.states.values())
        assert set(map(root, world.states)) == set(world.plans)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert world.watchers == []
        assert world.stage.scheduler.calls == ()
        assert world.stage.reports == []

    def _check_results(self) -> None:
        for ids, task in self.results:
            if task.cancelled():
                continue
            done = task.result()
            assert [call.request.call_id for call in done] == ids
            for call in done:
                number = call.request.call_id
                states = self.world.states
                assert call.status is states.get(f"{number}~2", states[number])
                assert call.response.error != NO_REASON or number in self.given_up
                key = "output" if call.status is CallStatus.SUCCESS else "error"
                assert key in response_of(call)


@pytest.mark.requirement("SCHED-01", "SCHED-02", "SCHED-03", "SCHED-04", "SCHED-05", "SCHED-06")
def test_whatever_is_done_every_call_ends_once_and_only_what_may_run_does(project: Path):
    limits = settings(max_examples=40, stateful_step_count=25, deadline=None)
    run_state_machine_as_test(Machine, settings=limits)
    assert Machine.seen == set(CallStatus)


async def test_what_holds_the_scheduler_to_its_word_sees_what_breaks_it():
    """The machine's own model: each kind of breach is noted."""
    world = World()
    plan = Plan("look", "ask", "none", "none", "none")
    world.plans = {"a": plan, "b": msgspec.structs.replace(plan, tool="change")}
    world.batches = {"a": 0, "b": 1}
    running = asyncio.create_task(
        world.stage.scheduler.schedule(request("a", "look", text="t", plan="a"))
    )
    while not world.waiting():
        await asyncio.sleep(0)
    world.stage.scheduler.confirm("a", Outcome.PROCEED_ONCE)  # which the model is not told
    await running
    assert world.broken == ["('a', 'look', 't') runs, and nobody approved it"]
