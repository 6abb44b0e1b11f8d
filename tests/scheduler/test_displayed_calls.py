"""Display of calls of every kind, and warnings about deceptive text."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.agent.delegation import open_agents
from alhena.agent.toolset.factory import open_toolset
from alhena.agent.toolset.options import People, Permissions, SessionSpec
from alhena.agent.toolset.toolset import SessionLinks, Toolset
from alhena.config.effective_settings import Place
from alhena.config.settings import Settings
from alhena.events import Event
from alhena.policy.model import ApprovalMode
from alhena.scheduler.confirmation import LOOKED_AT
from alhena.scheduler.question import ConfirmationRequest
from alhena.shell.parse.parser import MAX_BYTES
from alhena.suspicious_text import hidden
from alhena.system.processes import ProcessGroups
from alhena.tools.contract import (
    ConfirmationDetails,
    EditConfirmation,
    ExecConfirmation,
    InfoConfirmation,
    McpConfirmation,
)
from alhena.tools.registry import ToolOrigin
from tests.scheduler.kit import SmallTool, Stage, deciding, request
from tests.scheduler.rules import ASK, Rules, stage_rules
from tests.support.scripted import ScriptedGenerator

QUESTION = {"question": "Which port?", "header": "Port", "type": "text"}


def toolset(mode: ApprovalMode = ApprovalMode.DEFAULT) -> Toolset:
    async def ask(questions: Any) -> None:
        return None

    bench = open_toolset(
        SessionSpec(
            place=Place(
                cwd=Path.cwd(),
                environ={"HOME": str(Path.home()), "PATH": "/usr/bin:/bin"},
                settings=Settings(),
            ),
            permissions=Permissions(approval_mode=mode),
            people=People(interactive=True),
        ),
        SessionLinks(
            session_id="s",
            answering=lambda: (ScriptedGenerator(), "m"),
            delegate=open_agents,
            ask=ask,
        ),
        ProcessGroups(),
    )
    details = McpConfirmation(
        title="t", server_name="jira", tool_name="add", tool_display_name="add"
    )
    bench.registry.register(
        SmallTool("jira__add", asks=details), origin=ToolOrigin.MCP, server="jira"
    )
    return bench


async def asked_about(bench: Toolset, name: str, args: dict[str, Any]) -> ConfirmationRequest:
    seen: list[ConfirmationRequest] = []
    events: list[Event] = []
    scheduler = bench.scheduler(events.append, lambda each: bool(seen.append(each)))
    await scheduler.schedule([request("c0", name, **args)])
    (found,) = seen
    return found


@pytest.mark.requirement("SCHED-03", "SCHED-04", "SCHED-10")
@pytest.mark.parametrize(
    ("name", "args", "kind", "lasting"),
    [
        (
            "write_file",
            {"file_path": "a.txt", "content": "x\n"},
            "edit",
            {"proceed_always": "mode autoEdit"},
        ),
        (
            "run_shell_command",
            {"command": "mkdir a"},
            "exec",
            {
                "proceed_always": "commandPrefix mkdir",
                "proceed_always_and_save": "commandPrefix mkdir",
            },
        ),
        (
            "jira__add",
            {},
            "mcp",
            {
                "proceed_always": "mcpName jira toolName jira__add",
                "proceed_always_tool": "mcpName jira toolName jira__add",
                "proceed_always_server": "mcpName jira",
                "proceed_always_and_save": "mcpName jira toolName jira__add",
            },
        ),
        (
            "web_fetch",
            {"prompt": "Summarise https://example.com/"},
            "info",
            {
                "proceed_always": "toolName web_fetch",
                "proceed_always_and_save": "toolName web_fetch",
            },
        ),
        ("ask_user", {"questions": [QUESTION]}, "ask_user", {}),
        ("exit_plan_mode", {"plan": "# The plan"}, "exit_plan_mode", {}),
    ],
)
async def test_every_kind_of_question_says_why_and_what_always_would_write(
    project, name, args, kind, lasting
):
    bench = toolset(ApprovalMode.PLAN if kind == "exit_plan_mode" else ApprovalMode.DEFAULT)
    found = await asked_about(bench, name, args)
    assert found.details.__struct_config__.tag == kind
    assert found.reason
    assert found.decision.reason == found.reason
    offers: dict[str, str] = {}
    for each in found.lasting:
        rule = each.rule or {"mode": each.mode}
        keys = ("commandPrefix", "mcpName", "toolName", "mode")
        shell = rule.get("commandPrefix") is not None
        words = [f"{key} {rule[key]}" for key in keys if rule.get(key)]
        offers[each.outcome] = " ".join(words[:1] if shell else words)
        assert each.words
        assert each.mode or each.toml.startswith("[[rule]]\n")
        assert each.persist == (each.outcome == "proceed_always_and_save")
    assert offers == lasting
    assert found.outcomes == ("proceed_once", *lasting, "cancel")


@pytest.mark.parametrize(
    ("command", "roots"),
    [
        ("touch -c a", ("touch",)),
        ("A=1 B+=2 env | sort; ls & wait", ("env", "sort", "ls", "wait")),
        ("touch 'a; rm x' \"&& b\"", ("touch",)),
        ("echo $(rm x)", ("echo", "rm")),
        (">out echo hi", ("echo",)),
        ("echo 'unfinished", ("echo",)),
        ("$EDITOR x", ("$EDITOR",)),
        ("longer than can be read " + "a" * MAX_BYTES, ("longer",)),
        ("\u0441url x; caf\u00e9", ("\u0441url", "caf\u00e9")),
    ],
)
async def test_all_programs_of_a_command_are_named(project, command, roots):
    found = await asked_about(toolset(), "run_shell_command", {"command": command})
    assert isinstance(found.details, ExecConfirmation)
    assert found.details.root_commands == roots
    assert found.details.root_command == ", ".join(roots)
    assert found.details.command == command


async def test_a_command_that_hides_something_is_warned_of_and_holds_alone(project):
    hostile = "git log\x1b[8m; rm -rf ~\u202e" + " " * 400 + "; \u0441url x"
    found = await asked_about(toolset(), "run_shell_command", {"command": hostile})
    assert isinstance(found.details, ExecConfirmation)
    assert found.details.warnings == (
        "contains an escape character (\\x1b) at column 8",
        "contains a right-to-left override (\\u202e) at column 22",
        "has 400 blanks in a row at column 23",
        '"\u0441url" at column 425 mixes in letters that only look Latin (U+0441)',
    )
    assert found.outcomes == ("proceed_once", "cancel")


async def warnings_of(details: ConfirmationDetails) -> tuple[str, ...]:
    stage = stage_rules(Rules(), SmallTool("look", asks=details), approver=lambda _: False)
    await stage.run("look")
    (question,) = stage.questions()
    return tuple(question.details["warnings"])


def change(new: str, old: str | None = None, path: str = "/w/a") -> EditConfirmation:
    return EditConfirmation(
        title="t",
        file_path=path,
        file_name="a",
        file_diff="",
        original_content=old,
        new_content=new,
        is_new_file=old is None,
    )


@pytest.mark.parametrize(
    ("new", "old", "warnings"),
    [
        ("plain\n\tindented    by much\r\n", None, ()),
        ("if x:\u202e\n", None, ("contains a right-to-left override (\\u202e) at line 1, col",)),
        ("a\nb\nc\u200bd\n", "a\nb\n", ("contains a zero width space (\\u200b) at line 3, colu",)),
        ("old\u200b\nnew\n", "old\u200b\n", ()),
        ("x\x1b[2Jy", None, ("contains an escape character (\\x1b) at column 2",)),
        ("\u0434\u0430 \u05e9\u05dc\u05d5\u05dd caf\u00e9 \u03b1x\n", None, ()),
        ("done \u2714\ufe0f and \U0001f469\u200d\U0001f4bb 1\ufe0f\u20e3\n", None, ()),
        ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645\n", None, ()),
        ("a\u200cb", None, ("contains a zero width non-joiner (\\u200c) at column 2",)),
    ],
)
async def test_what_nobody_sees_of_new_lines_is_warned_of(new, old, warnings):
    found = await warnings_of(change(new, old))
    assert len(found) == len(warnings)
    for warning, beginning in zip(found, warnings, strict=True):
        assert warning.startswith(f"the new content {beginning}")


async def test_a_path_that_deceives_is_warned_of():
    (warning,) = await warnings_of(change("x", path="/w/\u0430pp.py"))
    assert warning == (
        'the path "\u0430pp" at column 4 mixes in letters that only look Latin (U+0430)'
    )


async def test_of_a_flood_of_unusual_lines_it_is_said_what_was_not_looked_at():
    flood = "\u00e9" * 1_000 + "\n"
    lines = LOOKED_AT // 1_000 + 2
    assert await warnings_of(change(flood * lines + "\u202e\n")) == (
        f"only the first {LOOKED_AT:,} characters of unusual lines were looked at",
    )


@pytest.mark.parametrize(
    ("details", "warning"),
    [
        (
            InfoConfirmation(title="t", prompt="p", urls=("https://\u0430\u0440\u0440\u04cf\u0435.com",)),
            'a URL the host "',
        ),
        (InfoConfirmation(title="t", prompt="fetch\u202eit"), "the text contains a right-to-left"),
        (
            McpConfirmation(
                title="t", server_name="s", tool_name="n", tool_display_name="n",
                tool_args={"a": [{"b\u200b": "x"}]},
            ),
            "an argument contains a zero width space",
        ),
        (
            McpConfirmation(
                title="t", server_name="\u0455erver", tool_name="n", tool_display_name="n"
            ),
            'the name of the server "',
        ),
    ],
)  # fmt: skip
async def test_what_may_deceive_is_warned_of_and_its_approval_holds_for_nothing_else(
    details: ConfirmationDetails, warning: str
):
    stage = stage_rules(Rules(), SmallTool("look", asks=details), approver=lambda _: False)
    await stage.run("look")
    (question,) = stage.questions()
    (said,) = question.details["warnings"]
    assert said.startswith(warning)
    assert question.outcomes == ("proceed_once", "cancel")


async def test_where_nothing_deceives_nothing_is_warned_of_and_an_approval_may_last():
    stage = stage_rules(Rules(), SmallTool("look"), approver=lambda _: False)
    await stage.run("look")
    (question,) = stage.questions()
    assert question.details["warnings"] == []
    assert question.outcomes == ("proceed_once", "proceed_always", "cancel")


async def test_a_command_of_another_tool_is_shown_as_that_tool_says():
    details = ExecConfirmation(
        title="t",
        command="x y",
        command_shown="x y",
        root_command="z",
        root_commands=("z",),
        warnings=("w",),
    )
    seen: list[ConfirmationRequest] = []

    def approve(each: ConfirmationRequest) -> bool:
        seen.append(each)
        return False

    stage = Stage(SmallTool("look", asks=details), decide=deciding(look=ASK), approver=approve)
    await stage.run("look")
    assert seen[0].details == details


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_no_control_nor_override_passes_unseen(text: str):
    dangerous = set(text) & set("\x1b\x07\x08\x9b\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u200b")
    assert not dangerous or hidden(text)
