"""Servers that a workspace has brought: what is approved of them holds there, and nowhere else."""

import sys
from pathlib import Path

import pytest

from alhena.config.settings import Settings
from alhena.tools.contract import ToolConfirmationOutcome as Outcome
from tests.agent.kit import agent, events_of
from tests.agent.serving import Person, answers, turns
from tests.config.places import opened, user, workspace
from tests.mcp.kit import SERVED, odd, tool

OTHER = "the tool pay is of another server than the one that was approved under this name"
UNKNOWN = "the tool pay was approved, but what it was like then is not known"


def words(folder: Path) -> str:
    """A command line of a server that is what lies in a folder, and is the same in each."""
    folder.mkdir(exist_ok=True)
    odd(folder, {"tools": [tool("pay")]})
    return f"exec {sys.executable} {SERVED}/odd.py odd.script.json"


def brought(folder: Path) -> Settings:
    workspace(folder, {"mcpServers": {"s": {"command": "sh", "args": ["-c", words(folder)]}}})
    return opened(folder).settings


async def reasons(folder: Path, settings: Settings, *given: Outcome) -> list[str]:
    """Why a person was asked about a call of `pay`."""
    person = Person(*given)
    running = agent(
        turns(("pay", {})), cwd=folder, settings=settings, skip_trust=True, approve=person
    )
    async with running:
        events, _ = await events_of(running, "go")
    (answer,) = answers(events)
    assert answer.status == ("cancelled" if Outcome.CANCEL in given else "success")
    return [each.reason for each in person.asked]


async def test_an_approval_that_was_saved_holds_in_the_workspace_it_was_given_in(
    tmp_path: Path, home: Path
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    here, there = brought(one), brought(two)
    assert here.mcp_servers == there.mcp_servers
    assert len(await reasons(one, here, Outcome.PROCEED_ALWAYS_AND_SAVE)) == 1
    assert await reasons(one, here) == []
    assert await reasons(two, there, Outcome.CANCEL) == [UNKNOWN]
    assert await reasons(two, there, Outcome.PROCEED_ALWAYS_AND_SAVE) == [UNKNOWN]
    assert await reasons(two, there) == []
    assert await reasons(one, here) == []


async def test_what_was_approved_of_the_users_own_server_is_no_approval_of_a_workspaces(
    tmp_path: Path, home: Path
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    line = words(one)
    user(home, {"mcpServers": {"s": {"command": "sh", "args": ["-c", line]}}})
    mine = opened(one).settings
    assert len(await reasons(one, mine, Outcome.PROCEED_ALWAYS_AND_SAVE)) == 1
    assert await reasons(one, mine) == []
    user(home, {})
    assert await reasons(two, brought(two), Outcome.CANCEL) == [OTHER]


@pytest.mark.parametrize("own", [False, True])
async def test_that_the_user_has_allowed_a_name_allows_no_server_command_of_a_workspace(
    tmp_path: Path, home: Path, own: bool
) -> None:
    folder = tmp_path / "one"
    line = f"sh -c '{words(folder)}'"
    workspace(folder, {"mcp": {"serverCommand": line}})
    user(home, {"mcp": {"allowed": ["mcp"], **({"serverCommand": line} if own else {})}})
    given = () if own else (Outcome.PROCEED_ONCE,)
    assert len(await reasons(folder, opened(folder).settings, *given)) == len(given)
