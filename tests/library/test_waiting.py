"""Runs that wait for answers: their state, and how another agent resumes them."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from alhena import (
    Agent,
    Answer,
    ConfigError,
    Deferred,
    Limits,
    OutputError,
    Rule,
    RunContext,
    tool,
)
from alhena.agent.limits import TokenLimitError, TurnLimitError
from alhena.errors import InputError, PendingRunError
from alhena.library.result import Result
from alhena.testing import Call, TestModel
from alhena.tools.contract import InfoConfirmation
from tests.support.each import for_each


class Shop:
    """Tools that say what they did."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def tools(self) -> list[Any]:
        """Two that need approval, one that runs at once, one that is done elsewhere."""

        @tool(confirm=True)
        def pay(amount: int) -> str:
            """Pays an amount."""
            self.done.append(f"pay {amount}")
            return f"paid {amount}"

        @tool(confirm=True)
        def refund(amount: int) -> str:
            """Pays back an amount."""
            self.done.append(f"refund {amount}")
            return f"refunded {amount}"

        @tool
        def stock(item: str) -> int:
            """The number of them."""
            self.done.append(f"stock {item}")
            return 7

        @tool
        async def audit(year: int) -> str:
            """Has a year audited."""
            raise Deferred(f"sent to accounting: {year}")

        return [pay, refund, stock, audit]

    def agent(self, *answers: Any, **more: Any) -> Agent:
        """An isolated agent with these tools, which answers so."""
        more = {"approve": "defer", "isolated": True, "builtin_tools": ()} | more
        return Agent(TestModel(*answers), tools=self.tools(), **more)


def ids(result: Result[Any]) -> dict[str, str]:
    return {each.tool_name: each.call_id for each in result.pending}


def responses(model: TestModel) -> list[dict[str, Any]]:
    """The functionResponses of the last content that the model got."""
    parts = model.requests[-1]["contents"][-1]["parts"]
    return [part["functionResponse"] for part in parts if "functionResponse" in part]


TURN = [Call("pay", amount=500), Call("stock", item="tea"), Call("audit", year=2025)]


@pytest.mark.requirement("LIB-10")
def test_a_run_waits_and_another_agent_resumes_it_with_each_call_once():
    shop = Shop()
    waits = shop.agent(TURN).run_sync("Pay.")
    assert waits.stop_reason == "pending"
    assert [each.tool_name for each in waits.pending] == ["pay", "audit"]
    assert waits.pending[0].args == {"amount": 500}
    details = waits.pending[0].details
    assert isinstance(details, InfoConfirmation)
    assert details.prompt == "pay(amount=500)"
    assert [each.outcome for each in waits.pending[0].lasting][:1] == ["proceed_always"]
    assert waits.pending[1].reason == "sent to accounting: 2025"
    assert shop.done == ["stock tea"]

    state, call = waits.state(), ids(waits)
    assert json.loads(state)["version"] == 1
    model = TestModel("Paid and audited.")
    elsewhere = Agent(model, tools=shop.tools(), approve="defer", isolated=True, builtin_tools=())
    done = elsewhere.resume_sync(
        state,
        {call["pay"]: Answer.yes(args={"amount": 50}), call["audit"]: Answer.result({"ok": True})},
    )
    assert (done.stop_reason, done.output) == ("done", "Paid and audited.")
    assert shop.done == ["stock tea", "pay 50"]
    got = {each["name"]: each["response"] for each in responses(model)}
    assert got == {
        "pay": {"output": "paid 50"},
        "stock": {"output": "7"},
        "audit": {"output": '{"ok":true}'},
    }
    assert [each["name"] for each in responses(model)] == ["pay", "stock", "audit"]
    assert (done.usage.requests, done.usage.tool_calls) == (2, 3)
    assert len(elsewhere.history) == len(waits.new_contents) + len(done.new_contents)


@pytest.mark.requirement("LIB-10")
def test_a_refusal_is_the_response_and_does_not_stop_what_was_approved():
    shop = Shop()
    waits = shop.agent([Call("pay", amount=1), Call("refund", amount=2)]).run_sync("Do both.")
    call = ids(waits)
    resumed = shop.agent("Well.")
    done = resumed.resume_sync(
        waits.state(), {call["pay"]: Answer.no("Not now."), call["refund"]: Answer.yes()}
    )
    assert done.output == "Well."
    assert shop.done == ["refund 2"]
    assert [(each.name, each.args) for each in done.denied] == [("pay", {"amount": 1})]
    assert "Not now." in done.denied[0].reason

    ends = (
        Shop()
        .agent()
        .resume_sync(  # a refusal without words ends the turn
            waits.state(), {call["pay"]: Answer.no(), call["refund"]: Answer.yes()}
        )
    )
    assert ends.stop_reason == "cancelled"


@pytest.mark.requirement("LIB-10")
async def test_the_policy_and_the_hooks_of_the_second_agent_hold(project: Path):
    shop, seen = Shop(), list[Any]()
    async with shop.agent([Call("pay", amount=5), Call("refund", amount=6)]) as first:
        waits = await first.run("Pay.")

    def before(given: dict[str, Any]) -> None:
        seen.append((given["tool_name"], given["tool_input"]))

    call = ids(waits)
    async with shop.agent(
        "Done.", policy=[Rule.deny("pay", message="Never.")], hooks={"BeforeTool": before}
    ) as second:
        events = [
            each
            async for each in second.resume(
                waits.state(), {call["pay"]: Answer.yes(), call["refund"]: Answer.always()}
            )
        ]
    assert shop.done == ["refund 6"]
    assert seen == [("refund", {"amount": 6})]
    denied = second.history[-2].parts[0].function_response
    assert denied is not None
    assert denied.response == {"error": "Tool execution denied by policy. Never."}
    assert "user_message" not in {each.__struct_config__.tag for each in events}


@pytest.mark.requirement("LIB-10")
async def test_what_changes_an_approved_call_waits_again():
    shop = Shop()

    def raise_amount(given: dict[str, Any]) -> dict[str, Any]:
        more = {"tool_input": {"amount": 9}}
        return {"hookSpecificOutput": {"hookEventName": "BeforeTool", **more}}

    waits = await shop.agent([Call("pay", amount=5)]).run("Pay.")
    second = shop.agent(hooks={"BeforeTool": raise_amount})
    again = await second.resume(waits.state(), {ids(waits)["pay"]: Answer.yes()})
    assert again.stop_reason == "pending"
    assert again.pending[0].args == {"amount": 9}
    assert shop.done == []
    answers = {ids(again)["pay"]: Answer.yes()}
    for hooks in (
        {"BeforeTool": raise_amount},
        {},
    ):  # what was shown runs, with the hook and without
        done = await shop.agent("Done.", hooks=hooks).resume(again.state(), answers)
        assert done.output == "Done."
    assert shop.done == ["pay 9", "pay 9"]


@pytest.mark.requirement("LIB-10")
async def test_a_call_that_a_hook_puts_in_the_place_of_another_cannot_wait():
    shop = Shop()

    def pay_after(given: dict[str, Any]) -> dict[str, Any]:
        more = {"tailToolCallRequest": {"name": "pay", "args": {"amount": 9}}}
        return {"hookSpecificOutput": {"hookEventName": "AfterTool", **more}}

    agent = shop.agent(Call("stock", item="tea"), "Done.", hooks={"AfterTool": pay_after})
    done = await agent.run("Look.")
    assert (done.stop_reason, shop.done) == ("done", ["stock tea"])
    assert "the other call has run" in done.denied[0].reason


def wrong(name: str) -> Callable[[dict[str, str]], Any]:
    made: dict[str, Callable[[dict[str, str]], Any]] = {
        "none": lambda call: {call["pay"]: Answer.yes()},
        "unknown": lambda call: {"call-9": Answer.yes()},
        "deferred": lambda call: {call["pay"]: Answer.yes(), call["audit"]: Answer.yes()},
        "args": lambda call: {
            call["pay"]: Answer.yes(args={"amount": "much"}),
            call["audit"]: Answer.result(1),
        },
        "no answer": lambda call: {call["pay"]: 5, call["audit"]: Answer.result(1)},
        "no value": lambda call: {
            call["pay"]: Answer.yes(),
            call["audit"]: Answer.result(object()),
        },
    }
    return made[name]


@pytest.mark.requirement("LIB-10")
@for_each(
    ("name", "named"),
    [
        ("none", "audit"),
        ("unknown", "call-9"),
        ("deferred", "audit"),
        ("args", "pay"),
        ("no answer", "pay"),
        ("no value", "audit"),
    ],
)
def test_wrong_answers_are_errors_that_name_the_call_and_run_nothing(name: str, named: str):
    shop = Shop()
    waits = shop.agent(TURN).run_sync("Pay.")
    shop.done.clear()
    with pytest.raises((InputError, TypeError), match=named):
        shop.agent("never").resume_sync(waits.state(), wrong(name)(ids(waits)))
    assert shop.done == []


@pytest.mark.requirement("LIB-10")
def test_a_state_that_does_not_fit_is_refused():
    shop = Shop()
    waits = shop.agent([Call("pay", amount=5)]).run_sync("Pay.")
    answers = {ids(waits)["pay"]: Answer.yes()}
    newer = json.loads(waits.state()) | {"version": 99}
    with pytest.raises(InputError, match="version 99"):
        shop.agent().resume(json.dumps(newer).encode(), answers)
    whole = json.loads(waits.state())
    *before, calls = whole["contents"]
    twice = calls | {"parts": calls["parts"] * 2}
    request = whole["requests"][0] | {"callId": "call-9"}
    for altered, reason in (
        ([], "got `array`"),
        (whole | {"version": 0}, "version"),
        (whole | {"contents": []}, "does not end with calls"),
        (whole | {"contents": before}, "does not end with calls"),
        (whole | {"contents": [*before, twice]}, "the same id"),
        (whole | {"requests": [request]}, "no call 'call-9'"),
        (whole | {"answered": [{"at": "", "callId": "", "name": "", "parts": [1]}]}, "got `int`"),
    ):
        with pytest.raises(InputError, match=f"no state of a run: .*{reason}"):
            shop.agent().resume(json.dumps(altered).encode(), answers)
    with pytest.raises(TypeError, match="bytes"):
        shop.agent().resume(cast("bytes", "x"), answers)
    with pytest.raises(InputError, match="pay, which this agent does not have"):
        Agent(TestModel("x"), isolated=True, builtin_tools=()).resume_sync(waits.state(), answers)
    done = shop.agent("Hi.").run_sync("Hello.")
    with pytest.raises(ConfigError, match="does not wait"):
        done.state()


@dataclass
class Receipt:
    total: int


@pytest.mark.requirement("LIB-10")
async def test_limits_usage_and_the_wanted_value_go_on_over_the_pause():
    shop = Shop()
    first = shop.agent([Call("pay", amount=5)], limits=Limits(turns=1))
    waits = await first.run("Pay.", output=Receipt)
    answers = {ids(waits)["pay"]: Answer.yes()}
    with pytest.raises(InputError, match="output"):
        first.resume(waits.state(), answers)
    with pytest.raises(TurnLimitError):
        await shop.agent("x", limits=Limits(turns=1)).resume(waits.state(), answers, output=Receipt)
    with pytest.raises(TokenLimitError):
        await shop.agent("x", limits=Limits(tokens=100)).resume(
            waits.state(), answers, output=Receipt
        )
    given = shop.agent([Call("final_answer", total=5)], limits=Limits(turns=2))
    done = await given.resume(waits.state(), answers, output=Receipt)
    assert done.output == Receipt(5)
    assert done.usage.input_tokens > waits.usage.input_tokens > 0
    with pytest.raises(OutputError):
        await shop.agent("text", "text").resume(
            waits.state(), answers, output=Receipt, corrections=1
        )


@pytest.mark.requirement("LIB-10")
def test_ask_raises_with_the_result_of_a_run_that_waits():
    shop = Shop()
    with shop.agent([Call("pay", amount=5)], "Done.") as agent:
        with pytest.raises(PendingRunError, match=r"pay \(") as raised:
            agent.ask_sync("Pay.")
        waits = raised.value.result
        done = agent.resume_sync(waits.state(), {ids(waits)["pay"]: Answer.yes()})
    assert (done.output, shop.done) == ("Done.", ["pay 5"])
    assert agent.usage.requests == 2


def test_the_function_for_the_instructions_makes_those_of_a_resumed_run():
    shop, prompts = Shop(), list[str]()

    def instruct(context: RunContext[None]) -> str:
        prompts.append(context.prompt)
        return f"Prompt {len(prompts)}."

    def make(model: TestModel) -> Agent:
        return Agent(
            model,
            instructions=instruct,
            tools=shop.tools(),
            approve="defer",
            isolated=True,
            builtin_tools=(),
        )

    waits = make(TestModel(Call("pay", amount=5))).run_sync("Pay.")
    model = TestModel("Paid.")
    answers = {each.call_id: Answer.yes() for each in waits.pending}
    assert make(model).resume_sync(waits.state(), answers).output == "Paid."
    assert prompts == ["Pay.", "Pay."]
    assert model.requests[0]["systemInstruction"]["parts"] == [{"text": "Prompt 2."}]
