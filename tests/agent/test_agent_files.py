"""Agents of definition files: found, checked, called, and limited."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from alhena import Agent, AgentOptions
from alhena.agent.subagents import AgentDefinition
from alhena.agent.subagents.files import (
    AgentFiles,
    apply_overrides,
    parse_agents,
    sources_of,
    with_resolved_servers,
)
from alhena.config.effective_settings import open_place
from alhena.config.settings import AgentOverride
from alhena.errors import InterruptedRunError
from alhena.testing import Call, TestModel
from tests.config.places import user
from tests.support.command import alhena
from tests.support.each import for_each
from tests.support.server import ScriptedServer, call, chunk, sse, text

pytestmark = pytest.mark.requirement("AGENT-03")

HELPER = """
name = "helper"
description = "Counts words."
tools = ["read_file"]

[prompts]
system_prompt = "You count words."
query = "The task: ${query}"

[model]
model = "gemini-2.5-flash"
temperature = 0.5

[run]
max_turns = 3
timeout_mins = 0.5

[output]
type = "object"
properties = { words = { type = "integer" } }
required = ["words"]
"""
MARKDOWN = """---
name: helper
description: Counts words.
tools:
  - read_file
temperature: 0.5
max_turns: 3
timeout_mins: 0.5
---
You count words.
"""
DONE = Call("complete_task", result={"words": 7})


def define(folder: Path, name: str, content: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def of_user(home: Path, name: str = "helper.toml", content: str = HELPER) -> Path:
    return define(home / ".gemini" / "agents", name, content)


async def ask_agent(project: Path, model: TestModel, **given: Any) -> str:
    async with Agent(model, cwd=project, **given) as agent:
        return await agent.ask("Go.")


async def test_an_agent_of_a_file_works_with_its_own_prompt_tools_and_output(
    home: Path, project: Path
):
    of_user(home)
    delegate = Call("delegate_to_agent", agent_name="helper", objective="Count.")
    model = TestModel(delegate, Call("read_file", file_path="a.txt"), DONE, "Seven.")
    (project / "a.txt").write_text("x", encoding="utf-8")
    assert await ask_agent(project, model) == "Seven."
    inner = model.requests[1]
    assert "You count words." in str(inner["systemInstruction"])
    names = [each["name"] for each in inner["tools"][0]["functionDeclarations"]]
    assert names == ["read_file", "complete_task"]
    assert inner["contents"][-1]["parts"][0]["text"] == "The task: Count."
    assert inner["generationConfig"]["temperature"] == 0.5
    assert (
        '{\n  "words": 7\n}'
        in model.requests[3]["contents"][-1]["parts"][0]["functionResponse"]["response"]["output"]
    )


@pytest.mark.requirement("AGENT-01")
@pytest.mark.parametrize(
    "called",
    [
        Call("delegate_to_agent", agent_name="helper", objective="Count."),
        Call("invoke_agent", agent_name="helper", prompt="Count."),
        Call("helper", query="Count."),
    ],
    ids=["delegate_to_agent", "invoke_agent", "own name"],
)
async def test_it_is_called_in_three_ways_and_one_rule_holds_for_all(
    home: Path, project: Path, called: Call
):
    of_user(home)
    model = TestModel(called, DONE, "Seven.")
    assert await ask_agent(project, model) == "Seven."
    rules = define(project, "rules.toml", "[[rule]]\ntoolName = 'helper'\ndecision = 'deny'\n"
                   "priority = 100\n")  # fmt: skip
    denied = TestModel(called, "No.")
    assert await ask_agent(project, denied, policy=[rules]) == "No."


@pytest.mark.requirement("AGENT-04")
async def test_a_rule_can_be_for_the_calls_of_one_agent_only(home: Path, project: Path):
    of_user(home)
    (project / "a.txt").write_text("x", encoding="utf-8")
    rules = define(
        project,
        "rules.toml",
        "[[rule]]\ntoolName = 'read_file'\nsubagent = 'helper'\ndecision = 'deny'\npriority = 100\n",
    )
    read = Call("read_file", file_path="a.txt")
    model = TestModel(read, Call("helper", query="Count."), read, DONE, "Seven.")
    await ask_agent(project, model, policy=[rules])
    assert "'output'" in str(model.requests[1]["contents"][-1])
    assert "'error'" in str(model.requests[3]["contents"][-1])


async def test_markdown_with_front_matter_is_the_same_agent(home: Path, project: Path):
    of_user(home, "helper.md", MARKDOWN)
    model = TestModel(Call("helper", query="Count."), Call("complete_task", result="7"), "Seven.")
    assert await ask_agent(project, model) == "Seven."
    assert "You count words." in str(model.requests[1]["systemInstruction"])
    assert model.requests[1]["contents"][-1]["parts"][0]["text"] == "Count."


async def test_an_agent_of_a_project_is_used_when_it_is_accepted_as_it_is(
    home: Path, project: Path
):
    path = define(project / ".gemini" / "agents", "helper.toml", HELPER)
    trusted = AgentOptions(skip_trust=True)
    async with Agent(TestModel("x"), cwd=project, options=trusted) as agent:
        await agent.ask("Go.")
        assert any("has not been accepted" in each for each in agent.warnings)
    ran = alhena("trust", ".")
    assert "helper: " in ran.out
    assert open_place(project, {"HOME": str(home)}).trust.trusted
    model = TestModel(Call("helper", query="Count."), DONE, "Seven.")
    assert await ask_agent(project, model) == "Seven."
    path.write_text(HELPER.replace("count words", "steal words"), encoding="utf-8")
    changed = TestModel(Call("helper", query="Count."), "No.")
    async with Agent(changed, cwd=project) as agent:
        await agent.ask("Go.")
        assert any("alhena trust" in each for each in agent.warnings)
    assert "not found" in str(changed.requests[1]["contents"][-1])


async def test_an_untrusted_project_has_no_agents(home: Path, project: Path):
    define(project / ".gemini" / "agents", "helper.toml", HELPER)
    model = TestModel(Call("helper", query="Count."), "No.")
    await ask_agent(project, model)
    assert "not found" in str(model.requests[1]["contents"][-1])


async def test_settings_change_and_disable_agents(home: Path, project: Path):
    of_user(home)
    of_user(home, "other.toml", HELPER.replace('"helper"', '"other"'))
    user(
        home,
        {
            "agents": {
                "overrides": {
                    "other": {"enabled": False},
                    "generalist": {"enabled": False},
                    "helper": {
                        "modelConfig": {"generateContentConfig": {"temperature": 0.25}},
                        "runConfig": {"maxTurns": 1, "maxTimeMinutes": 0.25},
                    },
                }
            }
        },
    )
    model = TestModel(Call("helper", query="Count."), Call("read_file", file_path="a"), DONE, "x")
    await ask_agent(project, model)
    (declared,) = [
        each
        for each in model.requests[0]["tools"][0]["functionDeclarations"]
        if each["name"] == "delegate_to_agent"
    ]
    schema = declared.get("parametersJsonSchema") or declared["parameters"]
    assert schema["properties"]["agent_name"]["enum"] == [
        "codebase_investigator",
        "introspection_agent",
        "helper",
    ]
    assert model.requests[1]["generationConfig"]["temperature"] == 0.25
    assert "last turn" in str(model.requests[2]["contents"][-1])


@pytest.mark.requirement("AGENT-03")
@pytest.mark.parametrize(
    ("own", "override", "expected"),
    [
        ("gemini-2.5-pro", {}, "gemini-2.5-pro"),
        ("gemini-2.5-pro", {"model": "inherit"}, None),
        ("gemini-2.5-pro", {"model": "gemini-2.5-flash"}, "gemini-2.5-flash"),
        ("inherit", {"model": "inherit"}, None),
        ("inherit", {"model": "gemini-2.5-flash"}, "gemini-2.5-flash"),
        ("inherit", {}, None),
    ],
)
def test_settings_set_and_undo_the_model_and_the_tools_of_an_agent(
    own: str, override: dict[str, str], expected: str | None
):
    text = HELPER.replace("gemini-2.5-flash", own)
    ((agent,), _) = parse_agents(Path("helper.toml"), text)
    assert isinstance(agent, AgentDefinition)
    given = {"modelConfig": override, "tools": ["glob"]}
    changed = apply_overrides(agent, msgspec.convert(given, AgentOverride))
    assert (changed.model, changed.tools) == (expected, ("glob",))
    same = apply_overrides(agent, AgentOverride())
    assert same == agent


@for_each(
    ("written", "description"),
    [
        ("Use this agent when: the tests fail", "Use this agent when: the tests fail"),
        ('Reviews: it\'s "strict": yes', 'Reviews: it\'s "strict": yes'),
        (
            "Reviews code.\n  Examples: one\n  Context: two",
            "Reviews code. Examples: one Context: two",
        ),
        ("[beta] reviews code", "[beta] reviews code"),
        ("@me asks: review", "@me asks: review"),
        (
            r"Use it.\n\nuser: \"Go\"\nassistant: \"Yes\"",
            r"Use it.\n\nuser: \"Go\"\nassistant: \"Yes\"",
        ),
    ],
)
def test_front_matter_that_is_yaml_but_for_an_unquoted_colon_is_read(
    written: str, description: str
):
    text = f"---\nname: a\ndescription: {written}\ntools:\n- glob\nmodel: 'pro'\n---\nGo.\n"
    ((agent,), unknown) = parse_agents(Path("a.md"), text)
    assert isinstance(agent, AgentDefinition)
    assert agent.description == description
    assert (agent.name, agent.tools, agent.model) == ("a", ("glob",), "pro")
    assert unknown == []


BROKEN = {
    "no-toml.toml": ("name = ", "no valid TOML"),
    "no-name.toml": ('description = "x"', "name"),
    "no-description.toml": ('name = "a"', "it has no description"),
    "wrong.toml": (HELPER.replace("max_turns = 3", 'max_turns = "many"'), "max_turns"),
    "capital.toml": (HELPER.replace('"helper"', '"Helper"'), "use a-z"),
    "no-head.md": ("You count.", "front matter"),
    "no-yaml.md": ("---\nname: [\n---\nx", "no valid YAML"),
    "list.md": ("---\n- a\n---\nx", "keys and values"),
    "never.toml": (HELPER.replace("max_turns = 3", "max_turns = 0"), "greater than 0"),
    "isolated.toml": ('isolation = "jail"\n' + HELPER, "isolation"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_file_is_one_warning_and_the_others_work(
    home: Path, project: Path, name: str
):
    content, why = BROKEN[name]
    path = of_user(home, name, content)
    of_user(home, "zz.toml")
    model = TestModel(Call("helper", query="Count."), DONE, "Seven.")
    async with Agent(model, cwd=project) as agent:
        assert await agent.ask("Go.") == "Seven."
        (warning,) = agent.warnings
    assert str(path) in warning
    assert why in warning
    checked = alhena("agents", "validate", str(path))
    assert checked.code != 0
    assert why in checked.err
    assert str(path) in checked.err


def test_other_files_links_and_bytes_are_named_or_left_out(home: Path, project: Path):
    folder = of_user(home).parent
    (folder / "_draft.toml").write_text("nonsense")
    (folder / "notes.txt").write_text("nonsense")
    (folder / "latin.toml").write_bytes(HELPER.encode().replace(b"words", b"w\xf6rter"))
    (folder / "second.toml").write_text(HELPER)
    ran = alhena("agents", "list", "--json")
    assert [each["name"] for each in ran.json if each["source"] == "user"] == ["helper", "helper"]
    assert [each["enabled"] for each in ran.json if each["source"] == "user"] == [True, False]
    assert "not valid UTF-8 (at line 3)" in ran.err
    assert "has the same name" in ran.err
    assert "_draft" not in ran.err + ran.out
    (project / ".gemini" / "agents").mkdir(parents=True)
    (project / ".gemini" / "agents" / "out.toml").symlink_to(folder / "helper.toml")
    assert "link out of its folder" in alhena("agents", "list", "--skip-trust").err


def test_an_unknown_key_is_a_warning_with_the_file(home: Path):
    path = of_user(home, "helper.toml", HELPER.replace("[run]", "[run]\ncolour = 1"))
    ran = alhena("agents", "validate", str(path))
    assert ran.code == 0
    assert "unknown key 'run.colour'" in ran.err
    assert f"{path} is valid: helper." in ran.out


def test_the_command_lists_shows_and_begins_agents(home: Path, project: Path):
    path = of_user(home)
    listed = alhena("agents", "list").out
    assert f"helper  Counts words.\n    {path}" in listed
    assert "generalist" in listed
    shown = alhena("agents", "show", "helper").out
    assert "You count words." in shown
    assert f"file: {path}" in shown
    assert alhena("agents", "show", "helper", "--json").json["max_turns"] == 3
    made = alhena("agents", "new", "mine")
    assert alhena("agents", "validate", made.out.split(" is written")[0]).code == 0
    again = alhena("agents", "new", "mine")
    assert again.code != 0
    assert "exists" in again.err
    assert "there is no agent 'gone'" in alhena("agents", "show", "gone").err


def test_the_stream_names_the_agent_of_its_calls(home: Path, project: Path, server: ScriptedServer):
    of_user(home)
    (project / "a.txt").write_text("x", encoding="utf-8")
    server.reply(
        sse(chunk(call("helper", {"query": "Count."}, id="h"), finish="STOP")),
        sse(chunk(call("read_file", {"file_path": "a.txt"}, id="r"), finish="STOP")),
        sse(chunk(call("complete_task", {"result": {"words": 1}}, id="c"), finish="STOP")),
        sse(text("One.")),
    )
    environ = {"GEMINI_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": server.url}
    ran = alhena("-o", "stream-json", "-p", "go", **environ)
    lines = [json.loads(each) for each in ran.out.splitlines()]
    used = {each["tool_name"]: each for each in lines if each["type"] == "tool_use"}
    assert used["read_file"]["agent_path"] == ["helper"]
    assert (
        "agent_path" not in used["delegate_to_agent" if "delegate_to_agent" in used else "helper"]
    )


def test_an_agent_named_in_a_prompt_is_pointed_out_to_the_model(
    home: Path, project: Path, server: ScriptedServer
):
    of_user(home)
    server.reply(sse(text("One.")), sse(text("Two.")))
    environ = {"GEMINI_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": server.url}
    ran = alhena("-p", "@helper count a.txt", **environ)
    assert "no such file" not in ran.err
    parts = server.requests[0].json["contents"][-1]["parts"]
    assert parts[0]["text"] == "@helper count a.txt"
    assert "The agent helper is to do this" in parts[1]["text"]
    (project / "helper").write_text("a file of that name", encoding="utf-8")
    alhena("-p", "@helper count", **environ)
    assert "a file of that name" in str(server.requests[1].json["contents"][-1])


async def test_beyond_the_limit_of_a_session_the_model_is_refused(home: Path, project: Path):
    of_user(home)
    user(home, {"agents": {"maxPerSession": 1}})
    again = Call("helper", query="Count.")
    model = TestModel(again, DONE, again, "Enough.")
    assert await ask_agent(project, model) == "Enough."
    assert "agents.maxPerSession" in str(model.requests[3]["contents"][-1])


async def test_beyond_the_limit_a_person_may_allow_more(home: Path, project: Path):
    of_user(home)
    user(home, {"agents": {"maxPerSession": 1}})
    questions: list[str] = []

    async def ask(given: Any) -> dict[int, str]:
        questions.append(given[0].question)
        return {0: given[0].options[0].label}

    again = Call("helper", query="Count.")
    model = TestModel(again, DONE, again, DONE, "Seven.")
    assert await ask_agent(project, model, options=AgentOptions(ask=ask)) == "Seven."
    assert questions == ["This session has run 1 subagents. Start more?"]


async def test_as_many_run_at_once_as_the_settings_say(home: Path, project: Path):
    of_user(home)
    user(home, {"agents": {"maxConcurrent": 2}})
    now = most = 0

    class Counting(TestModel):
        async def generate(self, request: Any) -> Any:
            nonlocal now, most
            inner = "You count words." in str(request.config.system_instruction)
            now += inner
            most = max(most, now)
            try:
                await asyncio.sleep(0.01)
                return await super().generate(request)
            finally:
                now -= inner

    def answer(request: dict[str, Any]) -> Any:
        if "You count words." in str(request["systemInstruction"]):
            return DONE
        return [Call("helper", query=str(n)) for n in range(5)] if len(model.requests) == 1 else "x"

    model = Counting(*[answer] * 7)
    assert await ask_agent(project, model) == "x"
    assert most == 2


def a_repository(project: Path) -> None:
    for command in (
        ("init", "-q", "-b", "main"),
        ("config", "user.email", "a@example.com"),
        ("config", "user.name", "A"),
        ("add", "-A"),
        ("commit", "-q", "-m", "first"),
    ):
        subprocess.run(("git", *command), cwd=project, check=True)


def worktrees(project: Path) -> list[str]:
    listed = subprocess.run(
        ("git", "worktree", "list"), cwd=project, check=True, capture_output=True, text=True
    )
    return listed.stdout.splitlines()


CARPENTER = 'isolation = "worktree"\n' + HELPER.replace("[output]", "[unused]").replace(
    'tools = ["read_file"]', 'tools = ["*"]'
)


async def test_an_agent_in_a_worktree_hands_over_a_patch_and_leaves_no_worktree(
    home: Path, project: Path
):
    of_user(home, "helper.toml", CARPENTER)
    (project / "sub").mkdir()
    (project / "sub" / "a.txt").write_text("one\n", encoding="utf-8")
    (project / ".gitignore").write_text("*.log\n", encoding="utf-8")
    a_repository(project)
    commands = "echo two >> a.txt; echo new > b.txt; echo x > c.log; git commit -qam second; pwd"
    model = TestModel(
        Call("helper", query="Change it."),
        Call("run_shell_command", command=commands),
        Call("write_file", file_path="d.txt", content="written\n"),
        Call("complete_task", result="Changed."),
        "Done.",
    )
    await ask_agent(project / "sub", model, approve="always")
    output = model.requests[4]["contents"][-1]["parts"][0]["functionResponse"]["response"]["output"]
    assert "Changed." in output
    patch = output.split("not applied here:\n")[1]
    assert "+two" in patch
    assert "diff --git a/sub/b.txt b/sub/b.txt" in patch
    assert "+written" in patch
    assert "c.log" not in patch
    assert (project / "sub" / "a.txt").read_text() == "one\n"
    assert not (project / "sub" / "b.txt").exists()
    assert len(worktrees(project)) == 1
    subprocess.run(("git", "apply", "-"), cwd=project, check=True, input=patch.encode())
    assert (project / "sub" / "a.txt").read_text() == "one\ntwo\n"


async def test_a_worktree_that_is_left_by_an_interruption_is_removed(home: Path, project: Path):
    of_user(home, "helper.toml", CARPENTER)
    (project / "a.txt").write_text("one\n", encoding="utf-8")
    a_repository(project)
    model = TestModel(Call("helper", query="x"), Call("run_shell_command", command="sleep 60"))
    async with Agent(model, cwd=project, approve="always") as agent:
        run = asyncio.ensure_future(agent.ask("Go."))
        # git cannot list the worktrees while one is being added.
        while len(model.requests) < 2:
            await asyncio.sleep(0.02)
        assert len(worktrees(project)) == 2
        agent.interrupt()
        with pytest.raises(InterruptedRunError):
            await run
    assert len(worktrees(project)) == 1


async def test_without_a_repository_the_model_is_told(home: Path, project: Path):
    of_user(home, "helper.toml", CARPENTER)
    model = TestModel(Call("helper", query="x"), "No.")
    assert await ask_agent(project, model) == "No."
    assert "git rev-parse failed" in str(model.requests[1]["contents"][-1])


@pytest.mark.parametrize("source", ["workspace", "user"])
def test_a_server_of_a_projects_agent_gets_no_credentials_of_models(
    home: Path, project: Path, source: str
):
    servers = '[mcp_servers.own]\ncommand = "x"\nenv = { K = "$GEMINI_API_KEY", T = "$MY_T" }\n'
    folder = (project if source == "workspace" else home) / ".gemini" / "agents"
    define(folder, "helper.toml", HELPER + servers)
    environ = {"HOME": str(home), "GEMINI_API_KEY": "k", "MY_T": "t"}
    files = AgentFiles(sources_of([(source, folder)], environ, project), {})
    made = with_resolved_servers(files.found[0], environ, project, ())
    assert isinstance(made, AgentDefinition)
    key = "$GEMINI_API_KEY" if source == "workspace" else "k"
    assert made.mcp_servers["own"]["env"] == {"K": key, "T": "t"}


@pytest.mark.requirement("TODAY-02")
@pytest.mark.parametrize("name", ["helper.toml", "helper.md"])
async def test_a_temperature_that_the_model_does_not_take_is_an_error_with_file_and_model(
    home: Path, project: Path, name: str
):
    own = HELPER.replace("gemini-2.5-flash", "gemini-3.7-flash")
    path = of_user(home, name, own if name.endswith("toml") else MARKDOWN)
    model = TestModel(Call("delegate_to_agent", agent_name="helper", objective="Count."), "No.")
    model.name = "gemini-3.8-flash"
    meant = "gemini-3.7-flash" if name.endswith("toml") else "gemini-3.8-flash"
    async with Agent(model, cwd=project) as agent:
        result = await agent.run("Go.")
    (warning,) = [each for each in result.warnings if "temperature" in each]
    assert str(path) in warning
    assert meant in warning
    assert len(model.requests) == 2  # none is the agent's
    answer = model.requests[1]["contents"][-1]["parts"][0]["functionResponse"]["response"]
    assert str(path) in answer["error"]
    assert meant in answer["error"]


async def test_an_agent_without_a_temperature_of_its_own_works_with_every_model(
    home: Path, project: Path
):
    of_user(home, "helper.md", MARKDOWN.replace("temperature: 0.5\n", ""))
    delegate = Call("delegate_to_agent", agent_name="helper", objective="Count.")
    model = TestModel(delegate, Call("complete_task", result="Seven."), "Done.")
    model.name = "gemini-3.8-flash"
    assert await ask_agent(project, model) == "Done."
    assert "temperature" not in model.requests[1].get("generationConfig", {})
