"""auto_edit and yolo need a trusted folder; what an untrusted folder only restricts holds."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from acp import RequestError, text_block

from alhena import Agent
from alhena.policy.model import ApprovalMode
from tests.batch.answering import write_tasks
from tests.config.places import user, workspace
from tests.frontends.terminal.session import PLACEHOLDER, at
from tests.support.agents import scripted_agent
from tests.support.command import Ran, alhena, keyed
from tests.support.each import for_each
from tests.support.editor import Editor, connected, prompted
from tests.support.server import ScriptedServer, call, chunk, sse, text

MODES = [
    ("--yolo",),
    ("-y",),
    ("--approval-mode", "yolo"),
    ("--approval-mode=auto_edit",),
]
REMEDIES = ("--skip-trust", "GEMINI_CLI_TRUST_WORKSPACE=true", "alhena trust")


def declared(request: dict[str, Any]) -> set[str]:
    return {each["name"] for each in request["tools"][0]["functionDeclarations"]}


def refused(ran: Ran) -> None:
    assert ran.code == 55, ran.err
    assert all(each in ran.err for each in REMEDIES)


@for_each("mode", MODES)
def test_an_unattended_run_ends_before_a_request(
    mode: tuple[str, ...], server: ScriptedServer, project: Path
):
    refused(alhena(*mode, "-p", "go", **keyed(server)))
    error = json.loads(alhena(*mode, "-p", "go", "-o", "json", **keyed(server)).out)["error"]
    assert (error["type"], error["code"]) == ("untrusted", 55)
    assert server.requests == []


@for_each(
    "trusting",
    [
        (("--skip-trust",), {}, ""),
        ((), {"GEMINI_CLI_TRUST_WORKSPACE": "true"}, ""),
        ((), {}, "TRUST_FOLDER"),
        ((), {}, "disabled"),
    ],
)
def test_a_trusted_folder_has_them(
    trusting: tuple[tuple[str, ...], dict[str, str], str],
    server: ScriptedServer,
    project: Path,
    home: Path,
):
    words, environ, said = trusting
    if said == "TRUST_FOLDER":
        assert alhena("trust", str(project)).code == 0
    if said == "disabled":
        alhena("trust", "--forget", str(project))
        user(home, {"security": {"folderTrust": {"enabled": False}}})
    server.reply(sse(text("Done.")))
    assert alhena("--yolo", *words, "-p", "go", **keyed(server), **environ).code == 0


@for_each("mode", [(), ("--approval-mode", "default"), ("--approval-mode", "plan")])
def test_other_modes_need_no_trust(mode: tuple[str, ...], server: ScriptedServer, project: Path):
    server.reply(sse(text("Done.")))
    assert alhena(*mode, "-p", "go", **keyed(server)).code == 0


def test_the_users_own_default_mode_needs_trust_too(server: ScriptedServer, home: Path):
    user(home, {"general": {"defaultApprovalMode": "auto_edit"}})
    refused(alhena("-p", "go", **keyed(server)))
    server.reply(sse(text("Done.")))
    assert alhena("--approval-mode", "default", "-p", "go", **keyed(server)).code == 0


@for_each("mode", MODES[2:])
def test_other_unattended_commands_end_so_too(mode: tuple[str, ...], project: Path):
    refused(alhena("tools", "call", "glob", '{"pattern": "*"}', *mode))
    refused(alhena("mcp", "serve", *mode))
    write_tasks(project / "tasks.jsonl", 1)
    refused(alhena("batch", "tasks.jsonl", "--out", "r.jsonl", *mode))
    assert not (project / "r.jsonl.run").exists()


def test_a_task_of_a_batch_is_asked_for_its_own_folder_and_mode(project: Path, tmp_path: Path):
    other = tmp_path / "other"
    other.mkdir()
    assert alhena("trust", str(project)).code == 0
    tasks = project / "tasks.jsonl"
    tasks.write_text(json.dumps({"id": "a", "prompt": "x", "cwd": str(other)}), encoding="utf-8")
    ran = alhena("batch", "tasks.jsonl", "--out", "r.jsonl", "--approval-mode", "yolo")
    refused(ran)
    assert str(other) in ran.err
    fields = {"id": "a", "prompt": "x", "cwd": str(other), "approval_mode": "auto_edit"}
    tasks.write_text(json.dumps(fields), encoding="utf-8")
    refused(alhena("batch", "tasks.jsonl", "--out", "r.jsonl"))


def test_at_the_terminal_the_default_mode_takes_their_place_and_a_line_says_so(
    server: ScriptedServer, project: Path
):
    with at(server, "--yolo", columns=120) as terminal:
        terminal.until("Default mode instead of yolo: this folder is not trusted")
        terminal.until(PLACEHOLDER)
        terminal.until("default  m")
        terminal.send("\x19")  # Ctrl-Y
        terminal.until("Mode yolo needs a trusted folder. To trust this one: /trust")
        terminal.send("\x1b[Z")
        terminal.until("Mode auto_edit needs a trusted folder. To trust this one: /trust")
        terminal.until("plan  m")


RESTRICTIONS: list[tuple[dict[str, Any], str]] = [
    ({"tools": {"core": ["glob"]}}, "read_file"),
    ({"coreTools": ["glob"]}, "read_file"),
    ({"tools": {"exclude": ["read_file"]}}, "read_file"),
    ({"excludeTools": ["read_file"]}, "read_file"),
]


@for_each("restriction", RESTRICTIONS)
def test_what_an_untrusted_folder_restricts_holds_and_the_rest_is_named(
    restriction: tuple[dict[str, Any], str], server: ScriptedServer, project: Path
):
    settings, hidden = restriction
    workspace(
        project, {**settings, "model": {"name": "gemini-9"}, "mcpServers": {"a": {"command": "x"}}}
    )
    server.reply(sse(text("Done.")))
    ran = alhena("-p", "go", **keyed(server))
    request = server.requests[-1]
    assert hidden not in declared(request.json)
    assert "gemini-9" not in request.path
    assert "Not read: .gemini/settings.json. What settings.json only restricts holds." in ran.err


def test_restrictions_that_cannot_be_read_are_said_to_be_unknown(
    server: ScriptedServer, project: Path
):
    workspace(project, "{ no json")
    server.reply(sse(text("Done.")))
    ran = alhena("-p", "go", **keyed(server))
    assert ran.code == 0
    assert "What it restricts is not known" in ran.err
    workspace(project, {"tools": {"exclude": 5}})
    server.reply(sse(text("Done.")))
    assert "What it restricts is not known" in alhena("-p", "go", **keyed(server)).err


async def test_a_program_decides_about_modes_itself_and_is_restricted_all_the_same(project: Path):
    workspace(
        project, {"security": {"disableYoloMode": True}, "tools": {"exclude": ["write_file"]}}
    )
    async with scripted_agent(model="demo", cwd=project, approval_mode="auto_edit") as agent:
        assert agent.toolset.authority.modes.mode is ApprovalMode.AUTO_EDIT
        assert agent.toolset.registry.find("write_file") is None
    with pytest.raises(Exception, match="disableYoloMode"):
        async with Agent("demo", approval_mode="yolo", cwd=project):
            pass


def test_a_folder_that_is_refused_is_restricted_too(server: ScriptedServer, project: Path):
    workspace(project, {"tools": {"exclude": ["read_file"]}})
    assert alhena("trust", "--never", str(project)).code == 0
    server.reply(sse(chunk(call("read_file", {"file_path": "a"}), finish="STOP")), sse(text("No.")))
    assert alhena("-p", "go", **keyed(server)).code == 0
    assert "read_file" not in declared(server.requests[0].json)
    assert os.path.isfile(project / ".gemini" / "settings.json")


async def test_an_editor_is_offered_only_modes_that_the_folder_may_have(
    server: ScriptedServer, project: Path
):
    editor = Editor()
    server.reply(sse(text("Done.")))
    async with connected(editor, server, "--yolo") as conn:
        session = await conn.new_session(cwd=str(project), mcp_servers=[])
        modes = session.modes
        assert [each.id for each in modes.available_modes] == ["default", "plan"]
        assert modes.current_mode_id == "default"
        for mode in ("yolo", "autoEdit"):
            with pytest.raises(RequestError):
                await conn.set_session_mode(session_id=session.session_id, mode_id=mode)
        await prompted(conn, session.session_id, text_block("go"))
    told = json.dumps(editor.of("agent_thought_chunk"))
    assert "Default mode instead of yolo" in told


def test_a_restriction_of_a_tool_that_nobody_has_is_told(server: ScriptedServer, home: Path):
    user(home, {"tools": {"exclude": ["my_linter", "mcp_a_b", "x__y", "some*"]}})
    server.reply(sse(text("Done.")))
    ran = alhena("-p", "go", **keyed(server))
    assert ran.code == 0
    told = [each for each in ran.err.splitlines() if "there is no tool" in each]
    assert len(told) == 1
    assert "'my_linter', so the rule has no effect" in told[0]
    user(home, {"tools": {"exclude": ["my_linter"]}, "mcpServers": {"a": {"command": "false"}}})
    server.reply(sse(text("Done.")))
    assert "there is no tool" not in alhena("-p", "go", **keyed(server)).err


def test_a_slip_in_a_restriction_ends_an_unattended_run(server: ScriptedServer, home: Path):
    user(home, {"tools": {"exclude": ["run_shell_comand"]}})
    ran = alhena("-p", "go", **keyed(server))
    assert ran.code == 52
    assert "'run_shell_comand' is no built-in tool. Did you mean run_shell_command?" in ran.err
    assert server.requests == []
