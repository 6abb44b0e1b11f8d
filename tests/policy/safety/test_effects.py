"""Effect of checkers on a decision: never less strict, and a failure is a denial."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alhena.policy.checker import (
    ConversationHistory,
    ConversationTurn,
    ModelTurn,
    ToolCall,
    UserTurn,
)
from alhena.policy.model import Decision, PolicyCall, PolicyContext, strictness
from alhena.policy.safety_checks import check_input, no_history
from tests.policy.safety.kit import (
    ALLOWED,
    ASK,
    ASKED,
    DENIED,
    DENY,
    call,
    checkers,
    checks,
    context,
    directory,
    external,
    program,
    table,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return directory(tmp_path)


async def run_checker(
    folder: Path, *tables: str, decision: Decision = ALLOWED, **args: Any
) -> Decision:
    return await checks(folder, *tables).check(call(**args), decision, context(Path.cwd()))


def saying(folder: Path, name: str, decision: str, reason: str = "because") -> str:
    """A table for a checker that answers this, and writes its name down."""
    body = f"open({str(folder / 'ran')!r}, 'a').write({name + ' '!r})\n"
    program(folder, name, body + f"answer({decision!r}, reason={reason!r})")
    return external(name)


def ran(folder: Path) -> str:
    path = folder / "ran"
    return path.read_text(encoding="utf-8") if path.exists() else ""


@pytest.mark.requirement("POL-10")
async def test_an_allow_leaves_the_decision_as_it_is(folder: Path) -> None:
    told = saying(folder, "fine", "allow")
    assert await run_checker(folder, told) is ALLOWED
    assert await run_checker(folder, told, decision=ASKED) is ASKED
    assert ran(folder) == "fine fine "


@pytest.mark.requirement("POL-10")
async def test_a_denial_is_a_denial_and_names_the_checker_and_its_file(folder: Path) -> None:
    for before in (ALLOWED, ASKED):
        found = await run_checker(folder, saying(folder, "strict", "deny", "No."), decision=before)
        assert found.outcome is DENY
        assert found.reason == (
            'denied by the safety checker "strict" (p.toml:1, safety_checker 1): No'
        )
        assert found.deny_message == 'Safety checker "strict": No.'
        assert found.rule is not None
        assert (found.rule.decision, found.rule.file, found.rule.line) == (DENY, "p.toml", 1)


@pytest.mark.requirement("POL-10")
async def test_a_question_is_asked_also_where_a_rule_asks_already(folder: Path) -> None:
    told = saying(folder, "unsure", "ask_user", "Is this meant?")
    found = await run_checker(folder, told)
    assert found.outcome is ASK
    assert found.rule is not None
    assert found.rule.decision is ASK
    label = 'the safety checker "unsure" (p.toml:1, safety_checker 1)'
    assert found.reason == f"approval required by {label}: Is this meant?"
    found = await run_checker(folder, told, decision=ASKED)
    assert found.reason == (
        f"approval required by {label}: Is this meant?; also approval required by a rule"
    )


@pytest.mark.requirement("POL-10")
async def test_a_question_is_a_denial_where_nobody_can_be_asked(folder: Path) -> None:
    told = saying(folder, "unsure", "ask_user")
    found = await checks(folder, told).check(call(), ALLOWED, context(Path.cwd(), person=False))
    assert (found.outcome, "cannot ask" in found.reason) == (DENY, True)


@pytest.mark.requirement("POL-10")
async def test_what_the_rules_deny_is_not_put_to_checkers(folder: Path) -> None:
    assert await run_checker(folder, saying(folder, "fine", "allow"), decision=DENIED) is DENIED
    assert ran(folder) == ""


@pytest.mark.requirement("POL-10")
async def test_they_are_asked_in_order_until_one_denies(folder: Path) -> None:
    said = {
        "fine": ("allow", 1),
        "unsure": ("ask_user", 9),
        "strict": ("deny", 5),
        "late": ("allow", 0),
    }
    tables: list[str] = []
    for name, (decision, priority) in said.items():
        saying(folder, name, decision)
        tables.append(external(name, priority=str(priority)))
    found = await run_checker(folder, *tables)
    assert (found.outcome, '"strict"' in found.reason) == (DENY, True)
    assert ran(folder) == "unsure strict "


@pytest.mark.requirement("POL-10")
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("print('garbage')", "its answer is not valid"),
        ("sys.exit(2)", "it exited with code 2"),
        ("answer('deny')", "has no reason"),
        ("", "it answered nothing"),
    ],
)
async def test_a_checker_that_fails_denies_and_says_how(
    folder: Path, body: str, reason: str
) -> None:
    program(folder, "broken", body)
    for before in (ALLOWED, ASKED):
        found = await run_checker(folder, external("broken"), decision=before)
        assert found.outcome is DENY
        assert 'the safety checker "broken"' in found.reason
        assert reason in found.reason
        assert "it failed, which counts as a denial" in str(found.deny_message)


@pytest.mark.requirement("POL-10")
async def test_a_checker_that_hangs_denies(folder: Path) -> None:
    program(folder, "slow", "import time\ntime.sleep(60)")
    asked = checks(folder, external("slow"), seconds=0.2)
    found = await asked.check(call(), ALLOWED, context(Path.cwd()))
    assert (found.outcome, "within 0.2 s" in found.reason) == (DENY, True)


@pytest.mark.requirement("POL-10")
async def test_a_program_that_is_not_there_any_more_or_can_be_changed_denies(
    folder: Path,
) -> None:
    told = saying(folder, "fine", "allow")
    asked = checks(folder, told)
    (folder / "fine").chmod(0o777)
    found = await asked.check(call(), ALLOWED, context(Path.cwd()))
    assert (found.outcome, "can be written by others" in found.reason) == (DENY, True)
    (folder / "fine").unlink()
    found = await asked.check(call(), ALLOWED, context(Path.cwd()))
    assert (found.outcome, "there is no" in found.reason) == (DENY, True)
    assert ran(folder) == ""


@pytest.mark.requirement("POL-10")
async def test_a_checker_is_told_the_call_the_directories_the_conversation_and_its_config(
    folder: Path, project: Path, tmp_path: Path
) -> None:
    (tmp_path / "more").mkdir()
    program(folder, "curious", "answer('deny', reason=sys.stdin.read())")
    asked = checks(folder, external("curious", checker_config="{level = 3, when = 2020-01-02}"))
    asked.history = lambda: ConversationHistory(
        turns=(
            ConversationTurn(
                user=UserTurn(text="Fix it."),
                model=ModelTurn(text="So.", tool_calls=(ToolCall(name="glob", args={"a": 1}),)),
            ),
            ConversationTurn(user=UserTurn(text="On."), model=ModelTurn()),
        )
    )
    found = await asked.check(
        call(file_path="a", content="\ud800"), ALLOWED, context(project, tmp_path / "more")
    )
    told = json.loads(str(found.deny_message).partition(": ")[2])
    assert told == {
        "protocolVersion": "1.0.0",
        "toolCall": {"name": "write_file", "args": {"file_path": "a", "content": "\ud800"}},
        "context": {
            "policy": {"mode": "default", "decision": "allow", "rule": None},
            "environment": {
                "cwd": str(project),
                "workspaces": [str(project), str(tmp_path / "more")],
            },
            "history": {
                "turns": [
                    {
                        "user": {"text": "Fix it."},
                        "model": {
                            "text": "So.",
                            "toolCalls": [{"name": "glob", "args": {"a": 1}}],
                        },
                    },
                    {"user": {"text": "On."}, "model": {}},
                ]
            },
        },
        "config": {"level": 3, "when": "2020-01-02"},
    }


@pytest.mark.requirement("POL-10")
@pytest.mark.parametrize("wanted", [[], ["environment"], ["history"], ["history", "environment"]])
async def test_it_is_told_only_the_context_that_it_requires(
    folder: Path, wanted: list[str]
) -> None:
    program(folder, "curious", "answer('deny', reason=' '.join(json.load(sys.stdin)['context']))")
    tables = external("curious", checker_required_context=json.dumps(wanted))
    found = await run_checker(folder, tables)
    said = str(found.deny_message).partition(": ")[2]
    assert said.split() == sorted([*wanted, "policy"])


async def test_what_it_says_is_one_short_line_without_control_characters(folder: Path) -> None:
    saying(folder, "loud", "deny", "a\n\n\x1b[2Jb\u202e" + "x" * 5000)
    found = await run_checker(folder, external("loud"))
    said = str(found.deny_message)
    assert said.startswith('Safety checker "loud": a \\x1b[2Jb\\u202ex')
    assert len(said) < 1100
    assert said.isprintable()


@pytest.mark.requirement("POL-10")
async def test_allowed_path_checks_the_call_of_any_tool(folder: Path) -> None:
    found = await run_checker(folder, table(), file_path="/etc/passwd")
    assert found.outcome is DENY
    assert found.deny_message == (
        'Safety checker "allowed-path": Path "/etc/passwd" in argument "file_path" is outside of '
        "the allowed workspace directories."
    )
    assert (await run_checker(folder, table(), file_path=".vscode/x")).outcome is ASK
    assert await run_checker(folder, table(), file_path="a") is ALLOWED


@pytest.mark.requirement("POL-10")
async def test_without_known_directories_nothing_is_allowed(folder: Path) -> None:
    saying(folder, "fine", "allow")
    for told in (table(), external("fine")):
        found = await checks(folder, told).check(call(), ALLOWED, PolicyContext())
        assert (found.outcome, "directories" in found.reason) == (DENY, True)
    assert ran(folder) == ""


async def test_arguments_that_have_no_json_form_are_denied(folder: Path) -> None:
    told = saying(folder, "fine", "allow")
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    for value in (deep, object()):
        found = await run_checker(folder, told, value=value)
        assert (found.outcome, "cannot be asked" in found.reason) == (DENY, True)
    assert ran(folder) == ""


OUTCOMES = st.sampled_from(["allow", "deny", "ask_user"])


@given(st.sampled_from([ALLOWED, ASKED, DENIED]), st.lists(OUTCOMES, max_size=3), st.booleans())
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_answers_make_a_decision_laxer(
    folder: Path, before: Decision, answers: list[str], person: bool
) -> None:
    tables: list[str] = []
    for index, answer in enumerate(answers):
        path = folder / f"c{index}"
        said = json.dumps({"decision": answer, "reason": "r"})
        path.write_text(f"#!/bin/sh\necho '{said}'\n", encoding="utf-8")
        path.chmod(0o755)
        tables.append(external(f"c{index}"))
    asked = checks(folder, *tables)
    found = asyncio.run(asked.check(call(), before, context(Path.cwd(), person=person)))
    strictest = max(
        [strictness(before), *(["allow", "ask_user", "deny"].index(a) for a in answers)]
    )
    wanted = 2 if strictest == 1 and not person else strictest
    assert strictness(found) == wanted


def test_the_call_is_known_by_its_declared_name() -> None:
    asked = PolicyCall(names=("search_file_content", "grep"), args={})
    (one,) = checkers(table())
    question = check_input(one, asked, ALLOWED, context(Path.cwd()), no_history)
    assert question.tool_call.name == "search_file_content"
