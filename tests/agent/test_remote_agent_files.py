"""Remote agents of definition files in ~/.gemini/agents."""

import json
from pathlib import Path

import pytest

from alhena import Agent
from alhena.agent.subagents.files import MAX_BYTES, AgentFiles, AgentSource
from alhena.agent.subagents.remote import HttpAuth, RemoteAgent
from alhena.testing import Call, TestModel
from tests.agent.a2a_server import Stage, serving
from tests.support.command import alhena

REMOTE = """---
kind: remote
name: helper
description: Counts beans.
agent_card_url: {url}
auth:
  type: http
  scheme: Bearer
  token: $HELPER_TOKEN
---
Words that nobody reads.
"""


@pytest.fixture
def agents(home: Path) -> Path:
    folder = home / ".gemini" / "agents"
    folder.mkdir(parents=True)
    return folder


def write(folder: Path, text: str, name: str = "helper.md") -> None:
    (folder / name).write_text(text, encoding="utf-8")


def load_remote_agents(folder: Path, *taken: str) -> tuple[dict[str, RemoteAgent], list[str]]:
    """The remote agents of a folder by name, and what is told of the others."""
    files = AgentFiles([AgentSource(name="user", folder=folder, follows=True)], {}, taken)
    remote = {each.name: each.definition for each in files.usable}
    return {
        name: each for name, each in remote.items() if isinstance(each, RemoteAgent)
    }, files.problems


async def counts(stage: Stage) -> None:
    await stage.answer("Two.")


@pytest.mark.requirement("EXT-04")
async def test_a_remote_agent_of_the_users_files_is_called_with_its_credentials(
    agents: Path, project: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HELPER_TOKEN", "t1")
    model = TestModel(Call("delegate_to_agent", agent_name="helper", objective="Go."), "Done.")
    async with serving(counts) as remote:
        write(agents, REMOTE.format(url=remote.url))
        async with Agent(model, cwd=project, approve="always") as agent:
            await agent.ask("go")
    assert "- helper: Counts beans." in str(model.requests[0]["tools"])
    assert "Two." in str(model.requests[1]["contents"][-1])
    assert {each.get("authorization") for each in remote.headers} == {"Bearer t1"}


def test_a_file_may_define_several_and_hold_the_card_itself(agents: Path):
    card = json.dumps({"name": "x", "url": "https://x.example"})
    write(
        agents,
        f"---\n- kind: remote\n  name: one\n  agent_card_json: '{card}'\n"
        "- kind: remote\n  name: two\n  agent_card_url: https://two.example/card\n---\n",
    )
    remote, problems = load_remote_agents(agents)
    assert problems == []
    assert remote["one"].is_inline
    assert remote["two"].card_url == "https://two.example/card"


def test_auth_is_read_and_its_secrets_are_not_shown(agents: Path):
    write(agents, REMOTE.format(url="https://x.example").replace("$HELPER_TOKEN", "s3cret"))
    agent = load_remote_agents(agents)[0]["helper"]
    assert agent.auth == HttpAuth(scheme="Bearer", token="s3cret")
    assert "s3cret" not in repr(agent)


HEAD = "---\nkind: remote\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (HEAD + "---\n", "has no name"),
        (HEAD + "name: x\n---\n", "needs agent_card_url or agent_card_json"),
        (HEAD + "name: x\nagent_card_url: 5\n---\n", "no usable URL: '5'"),
        (
            HEAD + "name: [x]\nagent_card_url: https://x.example\n---\n",
            "name: it has to be a text, not a list",
        ),
        (HEAD + "name: a b\nagent_card_url: https://x.example\n---\n", "use a-z"),
        (HEAD + "name: x\nagent_card_url: http://x.example\n---\n", "is not encrypted"),
        (HEAD + "name: worker\nagent_card_url: https://x.example\n---\n", "has the same name"),
        (
            HEAD + "name: x\nauth: {type: magic}\nagent_card_url: https://x\n---\n",
            "auth is invalid",
        ),
        (HEAD + "name: 'x\n---\n", "(at line 4)"),
        (HEAD + "name: *x\n---\n", "name '*x'"),
        ("---\n- kind: remote\n  name: x\n- 5\n---\n", "keys and values"),
        (HEAD + "x" * MAX_BYTES, "File size exceeds the 1MB limit"),
    ],
    ids=lambda value: value[:40],
)
def test_a_file_that_cannot_be_used_is_named_with_the_reason(agents: Path, text: str, reason: str):
    write(agents, text)
    remote, (problem,) = load_remote_agents(agents, "worker")
    assert remote == {}
    assert problem.startswith(f"agent {agents / 'helper.md'} is not used: ")
    assert reason in problem


def test_text_that_is_not_utf_8_and_two_of_one_name_are_named(agents: Path):
    (agents / "a.md").write_bytes(b"---\nkind: remote\nname: \xff\n---\n")
    write(agents, REMOTE.format(url="https://x.example"), "b.md")
    write(agents, REMOTE.format(url="https://y.example"), "c.md")
    remote, (first, second) = load_remote_agents(agents)
    assert remote["helper"].card == "https://x.example"
    assert "a.md is not used: not valid UTF-8 (at line 3)" in first
    assert f"c.md is not used: {agents / 'b.md'} has the same name" in second


def test_of_unknown_keys_only_what_may_restrict_is_told_at_a_start(agents: Path):
    odd = "color: blue\ndisallowedTools: Bash\npermissionMode: plan\nmemory: user\n"
    write(agents, HEAD + f"name: x\n{odd}agent_card_url: https://x.example\n---\n")
    remote, problems = load_remote_agents(agents)
    assert list(remote) == ["x"]
    path = agents / "helper.md"
    keys = ("disallowedTools", "permissionMode")
    assert problems == [f"agent {path} has an unknown key '{key}'." for key in keys]
    ran = alhena("agents", "list")
    for key in ("color", "memory", *keys):
        assert f"agent {path} has an unknown key '{key}'" in ran.err


def test_the_command_says_which_file_is_not_used(agents: Path, project: Path):
    write(agents, HEAD + "---\n")
    ran = alhena("-m", "demo", "-p", "hi")
    assert "helper.md is not used: its front matter has no name." in ran.err
