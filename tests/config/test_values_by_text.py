"""Values written as people write them, in extensions, hooks, agents and policies."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.agent.subagents import AgentDefinition
from alhena.agent.subagents.files import AgentFiles, sources_of
from alhena.config.coercion import coerce_value
from alhena.config.extensions import load_extensions, with_extensions
from alhena.config.mcp_servers import server_of
from alhena.config.settings import Settings
from tests.config.places import user, workspace, write
from tests.support.command import Ran, alhena, keyed
from tests.support.server import ScriptedServer, call, chunk, sse, text

MANIFEST = {
    "name": "odd",
    "version": 1.2,
    "excludeTools": "glob",
    "settings": [{"name": "K", "envVar": "ODD_KEY", "sensitive": "true"}],
    "mcpServers": {
        "s": {"command": "c", "args": ["-p", 8080], "timeout": "30000", "trust": "no", "env": None}
    },
    "themes": None,
}
GUARD = {"type": "command", "command": "echo guarded >&2; exit 2", "timeout": "5000"}


def extension(home: Path, hooks: Any) -> Path:
    folder = home.parent / "source"
    write(folder / "gemini-extension.json", {**MANIFEST, "mcpServers": {}})
    write(folder / "hooks" / "hooks.json", hooks)
    done = alhena("extensions", "install", str(folder), "--consent")
    assert done.code == 0, done.err
    return folder


def writes(server: ScriptedServer) -> Ran:
    """A run in which the model writes a file."""
    server.reply(
        sse(chunk(call("write_file", {"file_path": "made", "content": "x"}), finish="STOP"))
    )
    server.reply(sse(text("done")))
    return alhena("-y", "--skip-trust", "-p", "write it", **keyed(server))


def answers(server: ScriptedServer) -> str:
    return json.dumps(server.requests[-1].json["contents"][-1])


def test_a_manifest_with_one_possible_reading_is_read(home: Path, project: Path) -> None:
    write(home / ".gemini" / "extensions" / "odd" / "gemini-extension.json", MANIFEST)
    found = load_extensions({"HOME": str(home)}, project)
    assert found.problems == ()
    manifest = found.all[0].manifest
    assert (manifest.version, manifest.exclude_tools) == ("1.2", ("glob",))
    assert manifest.settings[0].sensitive is True
    server = server_of("s", with_extensions(Settings(), found.used).mcp_servers["s"])
    assert not isinstance(server, str)
    assert (server.args, server.timeout, server.env) == (("-p", "8080"), 30000, {})


def test_a_guard_whose_timeout_is_a_text_guards(home: Path, server: ScriptedServer) -> None:
    extension(home, {"hooks": {"BeforeTool": {"matcher": "write_file", "hooks": [GUARD]}}})
    ran = writes(server)
    assert ran.code == 0
    assert "guarded" in answers(server)
    assert not Path("made").exists()


@pytest.mark.parametrize(
    "hooks",
    [
        {"hooks": {"BeforeTool": [{"hooks": [{**GUARD, "timeout": "soon"}]}]}},
        {"hooks": {"BeforeTool": [{"matcher": {}, "hooks": [GUARD]}]}},
        {"hooks": {"BeforeTool": "guard.sh"}},
    ],
)
def test_in_place_of_an_unreadable_guard_of_an_extension_its_calls_are_blocked(
    hooks: Any, home: Path, server: ScriptedServer
) -> None:
    folder = extension(home, hooks)
    told = alhena("extensions", "validate", str(folder))
    assert "until then, what it guards is blocked" in told.err
    assert writes(server).code == 0
    assert "cannot be read" in answers(server)
    assert not Path("made").exists()


def test_an_unreadable_guard_of_ones_own_ends_the_run(home: Path, server: ScriptedServer) -> None:
    unreadable = {"BeforeTool": [{"hooks": [{**GUARD, "timeout": "soon"}]}]}
    user(home, {"hooks": unreadable})
    ran = alhena("-p", "hi", **keyed(server))
    assert ran.code == 52
    assert "hooks.BeforeTool[0].hooks[0].timeout is wrong" in ran.err
    user(home, {"hooks": unreadable, "hooksConfig": {"enabled": "false"}})
    server.reply(sse(text("fine")))
    assert alhena("-p", "hi", **keyed(server)).code == 0


def test_a_projects_unreadable_guard_blocks_once_it_is_trusted(
    project: Path, server: ScriptedServer
) -> None:
    workspace(project, {"hooks": {"BeforeTool": [{"hooks": [{**GUARD, "timeout": []}]}]}})
    assert alhena("trust").code == 0
    assert alhena("hooks", "trust", "--yes").code == 0
    assert "hooks.BeforeTool[0].hooks[0]" in alhena("hooks", "list").out
    assert writes(server).code == 0
    assert not Path("made").exists()


def test_agents_and_policies_are_read_by_the_same_function(home: Path, project: Path) -> None:
    write(
        home / ".gemini" / "agents" / "a.md",
        '---\nname: a\ndescription: 5\nmax_turns: "7"\ntools: read_file, glob\n---\nBody.\n',
    )
    (agent,) = AgentFiles(
        sources_of([("user", home / ".gemini" / "agents")], {}, project), {}
    ).found
    assert isinstance(agent.definition, AgentDefinition)
    assert (agent.definition.description, agent.definition.max_turns) == ("5", 7)
    assert agent.definition.tools == ("read_file", "glob")
    write(
        home / ".gemini" / "policies" / "p.toml",
        '[[rule]]\ntoolName = "glob"\ndecision = "Deny"\npriority = "100"\nmodes = "Auto-Edit"\n',
    )
    told = ("policy", "explain", "--tool", "glob", "--json", "--mode")
    assert alhena(*told, "auto_edit").json["decision"] == "deny"
    assert alhena(*told, "default").json["decision"] == "allow"


@pytest.mark.parametrize(
    "document",
    [
        {"mcpServers": [], "tools": [], "agents": {"overrides": []}},
        {"hooks": [], "hooksConfig": [], "modelConfigs": {"overrides": {}}},
        {"ui": {"customThemes": []}, "context": {"includeDirectories": {}}},
    ],
)
def test_an_empty_list_is_an_empty_object_and_the_other_way_round(
    document: Any, home: Path, server: ScriptedServer
) -> None:
    user(home, document)
    server.reply(sse(text("fine")))
    ran = alhena("-p", "hi", **keyed(server))
    assert (ran.code, ran.err) == (0, "")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_value_is_coerced_without_a_crash_and_only_once(value: Any) -> None:
    for kind in (Settings, list[str], dict[str, int], bool | None, int | list[float]):
        once = coerce_value(value, kind)
        assert repr(coerce_value(once, kind)) == repr(once)
