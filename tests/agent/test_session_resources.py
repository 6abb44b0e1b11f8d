"""Resources and prompts of MCP servers, and the rules of their server."""

import json
from pathlib import Path
from typing import Any

import pytest

from alhena.frontends.shared.mentions import server_prompts
from alhena.policy.model import PolicyOutcome, PolicyRule
from alhena.tools.contract import ToolConfirmationOutcome as Outcome
from tests.agent.kit import agent, events_of
from tests.agent.serving import ALLOW_ALL, Person, answers, settings, turns
from tests.mcp.kit import odd

LISTED = "evil:x:1"
UNLISTED = "evil:x:1?what-stands-in-.env"
DENY = (PolicyRule(decision=PolicyOutcome.DENY, priority=500, mcp_name="evil"),)
ASK = (PolicyRule(decision=PolicyOutcome.ASK_USER, priority=500, mcp_name="evil"),)
OTHER = (PolicyRule(decision=PolicyOutcome.DENY, priority=500, mcp_name="good"),)
BARE = (PolicyRule(decision=PolicyOutcome.ALLOW, priority=500, tool_names=("read_mcp_resource",)),)


def evil(project: Path) -> dict[str, Any]:
    return odd(
        project,
        {
            "heard": str(project / "heard"),
            "resources": [{"uri": "x:1", "name": "one"}],
            "prompts": [{"name": "praise"}],
            "answers": {"resources/read": {"contents": [{"uri": "x:1", "text": "soup"}]}},
        },
    )


def read_uris(project: Path) -> list[str]:
    """The URIs that the server was asked for."""
    lines = (project / "heard").read_text(encoding="utf-8").splitlines()
    heard = [json.loads(each) for each in lines]
    return [each["params"]["uri"] for each in heard if each.get("method") == "resources/read"]


@pytest.mark.parametrize(
    ("uri", "policy", "status"),
    [
        (LISTED, (), "success"),
        (LISTED, OTHER, "success"),
        (LISTED, DENY, "error"),
        (LISTED, ASK, "error"),
        ("x:1", DENY, "error"),
        (UNLISTED, (), "error"),
        (UNLISTED, BARE, "error"),
        (UNLISTED, DENY, "error"),
        (UNLISTED, ALLOW_ALL, "success"),
    ],
)
async def test_without_a_person_a_server_is_sent_what_it_lists_or_what_a_rule_for_it_allows(
    project: Path, uri: str, policy: tuple[PolicyRule, ...], status: str
) -> None:
    running = agent(
        turns(("read_mcp_resource", {"uri": uri})),
        cwd=project,
        settings=settings({"evil": evil(project)}),
        policy=policy,
    )
    async with running:
        events, _ = await events_of(running, "go")
    (answer,) = answers(events)
    assert answer.status == status
    assert read_uris(project) == ([uri.removeprefix("evil:")] if status == "success" else [])


async def test_a_person_is_asked_about_what_a_server_does_not_list_with_no_answer_for_good(
    project: Path,
) -> None:
    person = Person(Outcome.PROCEED_ONCE, Outcome.CANCEL)
    running = agent(
        turns(*(("read_mcp_resource", {"uri": uri}) for uri in (LISTED, UNLISTED, UNLISTED))),
        cwd=project,
        settings=settings({"evil": evil(project)}),
        approve=person,
    )
    async with running:
        events, _ = await events_of(running, "go")
    assert [each.status for each in answers(events)] == ["success", "success", "cancelled"]
    assert len(person.asked) == 2
    assert person.asked[0].outcomes == (Outcome.PROCEED_ONCE, Outcome.CANCEL)
    assert "the server evil does not list this resource" in person.asked[0].reason
    assert read_uris(project) == ["x:1", "x:1?what-stands-in-.env"]


@pytest.mark.parametrize(("policy", "there"), [((), True), (OTHER, True), (DENY, False)])
async def test_a_server_that_is_denied_has_no_prompts(
    project: Path, policy: tuple[PolicyRule, ...], there: bool
) -> None:
    running = agent(turns(), cwd=project, settings=settings({"evil": evil(project)}), policy=policy)
    async with running:
        await events_of(running, "go")
        assert ("praise" in server_prompts(running.toolset)) is there
