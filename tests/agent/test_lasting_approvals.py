"""Approvals that hold beyond their call, against the real policy and the file they are saved in."""

import asyncio
import tomllib
from pathlib import Path
from typing import Any

import pytest

from alhena.agent.delegation import open_agents
from alhena.agent.toolset.factory import open_toolset
from alhena.agent.toolset.options import People, Permissions, SessionSpec
from alhena.agent.toolset.toolset import SessionLinks, Toolset
from alhena.config.effective_settings import Place
from alhena.config.settings import SecuritySettings, Settings
from alhena.events import ConfirmationRequestEvent, Event, WarningEvent
from alhena.policy.engine import PolicyFilter
from alhena.policy.model import ApprovalMode, PolicyOutcome, PolicyRule
from alhena.scheduler.question import Answer, ConfirmationRequest
from alhena.system.processes import ProcessGroups
from alhena.tools.contract import ToolConfirmationOutcome as Outcome
from alhena.tools.registry import ToolOrigin
from tests.scheduler.kit import SmallTool, request
from tests.support.scripted import ScriptedGenerator

ONCE, ALWAYS, SAVE = Outcome.PROCEED_ONCE, Outcome.PROCEED_ALWAYS, Outcome.PROCEED_ALWAYS_AND_SAVE
TOOL, SERVER, NO = Outcome.PROCEED_ALWAYS_TOOL, Outcome.PROCEED_ALWAYS_SERVER, Outcome.CANCEL


class Desk:
    """A toolset, and a person who answers each question with the next of `answers`."""

    def __init__(
        self,
        *answers: Outcome | Answer,
        settings: Settings | None = None,
        mode: ApprovalMode = ApprovalMode.DEFAULT,
        policy: tuple[PolicyRule, ...] = (),
    ) -> None:
        self.asked: list[ConfirmationRequest] = []
        self.events: list[Event] = []
        self.answers = list(answers)
        self.bench: Toolset = open_toolset(
            SessionSpec(
                place=Place(
                    cwd=Path.cwd(),
                    environ={"HOME": str(Path.home()), "PATH": "/usr/bin:/bin"},
                    settings=settings or Settings(),
                ),
                permissions=Permissions(approval_mode=mode, policy=policy),
                people=People(interactive=True),
            ),
            SessionLinks(
                session_id="s", answering=lambda: (ScriptedGenerator(), "m"), delegate=open_agents
            ),
            ProcessGroups(),
        )

    def approve(self, asked: ConfirmationRequest) -> Outcome | Answer:
        self.asked.append(asked)
        return self.answers.pop(0)

    async def run(self, *calls: tuple[str, dict[str, Any]]) -> list[str]:
        scheduler = self.bench.scheduler(self.events.append, self.approve)
        done = await scheduler.schedule(
            [request(f"c{index}", name, **args) for index, (name, args) in enumerate(calls)]
        )
        return [str(call.status) for call in done]

    @property
    def offered(self) -> list[tuple[str, ...]]:
        return [tuple(str(each) for each in asked.outcomes) for asked in self.asked]


def shell(command: str) -> tuple[str, dict[str, Any]]:
    return "run_shell_command", {"command": command}


def write(path: str, content: str = "x") -> tuple[str, dict[str, Any]]:
    return "write_file", {"file_path": path, "content": content}


def saved_rules_path() -> Path:
    return Path.home() / ".gemini" / "policies" / "auto-saved.toml"


@pytest.mark.requirement("SCHED-10")
async def test_always_for_a_command_is_a_rule_for_its_beginning_shown_before_and_kept(project):
    desk = Desk(ALWAYS)
    done = await desk.run(shell("mkdir -p a"), shell("mkdir -p b"), shell("mkdir c"))
    assert done == ["success"] * 3
    (asked,) = desk.asked
    offer = asked.lasting[0]
    assert offer.words == "commands starting with `mkdir`"
    assert tomllib.loads(offer.toml)["rule"][0] == {
        "toolName": "run_shell_command",
        "commandPrefix": "mkdir",
        "decision": "allow",
        "modes": ["default", "autoEdit", "yolo"],
        "priority": 950,
    }
    assert not saved_rules_path().exists()
    event = next(each for each in desk.events if isinstance(each, ConfirmationRequestEvent))
    assert event.lasting[0]["words"] == offer.words
    assert desk.offered == [("proceed_once", "proceed_always", "proceed_always_and_save", "cancel")]


@pytest.mark.requirement("SCHED-10", "SCHED-04")
async def test_always_and_save_holds_for_later_sessions_as_it_was_shown(project):
    desk = Desk(SAVE)
    assert await desk.run(shell("mkdir -p a"), shell("mkdir b")) == ["success"] * 2
    shown = next(each for each in desk.asked[0].lasting if each.outcome == SAVE)
    assert shown.persist
    assert tomllib.loads(saved_rules_path().read_text(encoding="utf-8")) == tomllib.loads(
        shown.toml
    )
    later = Desk()
    assert await later.run(shell("mkdir -p c")) == ["success"]


async def test_an_approval_that_cannot_be_saved_holds_for_the_session_and_says_so(project):
    desk = Desk(SAVE)
    saved_rules_path().mkdir(parents=True)
    assert await desk.run(shell("mkdir -p a"), shell("mkdir b")) == ["success"] * 2
    (warning,) = [event.message for event in desk.events if isinstance(event, WarningEvent)]
    assert "the approval was not saved" in warning


@pytest.mark.requirement("SCHED-10")
@pytest.mark.parametrize("command", ["rm -r x", "bash -c 'ls'", "curl http://x", "a=$(b) $a"])
async def test_where_no_rule_would_be_narrow_the_command_itself_is_offered(project, command):
    desk = Desk(ALWAYS, NO, NO)
    with_comment = f"{command} # and more"
    (project / "x").mkdir()
    first = (await desk.run(shell(command)))[0]
    assert first in ("success", "error")
    assert await desk.run(shell(command)) == [first]
    assert len(desk.asked) == 1
    (offer,) = desk.asked[0].lasting
    assert (offer.outcome, offer.words, offer.persist) == (ALWAYS, "exactly this command", False)
    assert not saved_rules_path().exists()
    assert await desk.run(shell(with_comment)) == ["cancelled"]
    elsewhere = ("run_shell_command", {"command": command, "directory": "x"})
    assert await desk.run(elsewhere) == ["cancelled"]
    desk.bench.authority.modes.switch(ApprovalMode.PLAN)
    assert await desk.run(shell(command)) != [first]


async def test_what_deceives_a_reader_is_never_approved_for_longer(project):
    desk = Desk(NO)
    assert await desk.run(shell("python3 l\u0455.py")) == ["cancelled"]
    assert desk.offered == [("proceed_once", "cancel")]


@pytest.mark.requirement("SCHED-04")
async def test_always_for_an_edit_is_auto_edit_mode_and_what_runs_later_is_still_asked_about(
    project,
):
    desk = Desk(ALWAYS, Answer.no("not this"), NO)
    done = await desk.run(
        write("a.txt"), write("b.txt"), write("Makefile"), write(".git/hooks/pre-commit")
    )
    assert done == ["success", "success", "cancelled", "cancelled"]
    assert [asked.args["file_path"] for asked in desk.asked] == [
        "a.txt",
        "Makefile",
        ".git/hooks/pre-commit",
    ]
    assert desk.bench.authority.modes.mode is ApprovalMode.AUTO_EDIT
    assert desk.asked[0].lasting[0].mode == "autoEdit"
    assert desk.offered == [
        ("proceed_once", "proceed_always", "cancel"),
        ("proceed_once", "cancel"),
        ("proceed_once", "cancel"),
    ]


async def test_an_edit_of_what_runs_later_is_never_approved_for_ever(project):
    desk = Desk(ONCE)
    assert await desk.run(write("pyproject.toml")) == ["success"]
    assert desk.offered == [("proceed_once", "cancel")]


@pytest.mark.requirement("SCHED-10")
@pytest.mark.parametrize(
    ("outcome", "asked", "words"),
    [
        (TOOL, ["jira__find", "jira__add"], "all calls of jira/find"),
        (ALWAYS, ["jira__find", "jira__add"], "all calls of jira/find"),
        (SERVER, ["jira__find"], "all tools of jira"),
    ],
)
async def test_always_for_a_servers_tool_is_for_the_tool_or_the_server(
    project, outcome, asked, words
):
    desk = Desk(outcome, NO)
    for name in ("jira__find", "jira__add"):
        desk.bench.registry.register(SmallTool(name), origin=ToolOrigin.MCP, server="jira")
    await desk.run(("jira__find", {}), ("jira__find", {"text": "x"}))
    await desk.run(("jira__add", {}))
    offer = next(each for each in desk.asked[0].lasting if each.outcome == outcome)
    assert offer.words == words
    assert offer.rule is not None
    assert offer.rule["mcpName"] == "jira"
    assert sorted({each.tool_name for each in desk.asked}) == sorted(asked)
    assert set(desk.offered[0]) == {
        *("proceed_once", "proceed_always", "proceed_always_tool", "proceed_always_server"),
        *("proceed_always_and_save", "cancel"),
    }


def _asks_about_mkdir(priority: int) -> PolicyRule:
    return PolicyRule(
        decision=PolicyOutcome.ASK_USER,
        priority=priority,
        tool_names=("run_shell_command",),
        command_prefixes=("mkdir",),
    )


async def test_a_rule_that_weighs_more_leaves_nothing_to_offer(project):
    desk = Desk(NO, policy=(_asks_about_mkdir(960),))
    await desk.run(shell("mkdir a"))
    assert desk.offered == [("proceed_once", "cancel")]


async def test_a_policy_of_the_workspace_that_asks_leaves_nothing_to_offer(project):
    desk = Desk(NO)
    desk.bench.authority.filters[:] = [PolicyFilter("the workspace", [_asks_about_mkdir(500)])]
    await desk.run(shell("mkdir a"))
    assert desk.offered == [("proceed_once", "cancel")]


async def test_where_always_is_turned_off_nothing_lasting_is_offered(project):
    desk = Desk(NO, settings=Settings(security=SecuritySettings(disable_always_allow=True)))
    await desk.run(shell("mkdir a"))
    assert desk.offered == [("proceed_once", "cancel")]


async def test_a_mode_that_changes_while_a_call_waits_answers_for_it(project):
    desk = Desk()

    async def thinks(asked: ConfirmationRequest) -> bool:
        desk.asked.append(asked)
        desk.bench.authority.modes.switch(ApprovalMode.AUTO_EDIT)
        return await asyncio.Event().wait()

    scheduler = desk.bench.scheduler(desk.events.append, thinks)
    (done,) = await scheduler.schedule([request("c0", "write_file", file_path="a", content="x")])
    assert done.status == "success"
    assert done.outcome is None
    assert len(desk.asked) == 1
