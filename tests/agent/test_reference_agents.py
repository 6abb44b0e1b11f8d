"""Agent files and commands as the reference reads them."""

import json
from pathlib import Path

import pytest

from tests.config.places import write
from tests.support.command import alhena, keyed
from tests.support.server import ScriptedServer, call, chunk, json_reply, sse, text

HEAD = "---\nname: looker\ndescription: Looks\n---\n"
TASK = call("delegate_to_agent", {"agent_name": "looker", "objective": "find the bug"})


def delegation_result(server: ScriptedServer) -> str:
    """The result that the caller of an agent gets."""
    server.reply(sse(text("fine")))
    ran = alhena("-y", "--skip-trust", "-p", "hi", **keyed(server))
    assert ran.code == 0, ran.err
    return json.dumps(server.requests[-1].json["contents"][-1])


@pytest.mark.parametrize("body", ["Do: ${query} (${objective}), ${today}, ${other}", "", "\n \n"])
def test_the_inputs_of_an_agents_body_are_filled_in(
    body: str, home: Path, server: ScriptedServer
) -> None:
    write(home / ".gemini" / "agents" / "looker.md", HEAD + body)
    server.reply(sse(chunk(TASK, finish="STOP")))
    server.reply(sse(chunk(call("complete_task", {"result": "seen"}), finish="STOP")))
    assert "seen" in delegation_result(server)
    system = server.requests[1].json["systemInstruction"]["parts"][0]["text"]
    if body.strip():
        assert "Do: find the bug (find the bug), " in system
        assert "${today}" not in system
        assert "${other}" in system
    assert "find the bug" in json.dumps(server.requests[1].json["contents"][-1])


def test_what_an_agent_said_before_its_last_turn_is_in_its_result(
    home: Path, server: ScriptedServer
) -> None:
    head = HEAD.replace("---\nname", "---\nmax_turns: 2\nname")
    write(home / ".gemini" / "agents" / "looker.md", f"{head}Look.")
    listing = call("list_directory", {"path": "."})
    server.reply(sse(chunk(TASK, finish="STOP")))
    server.reply(sse(chunk({"text": "The bug is in a.py."}, listing, finish="STOP")))
    server.reply(sse(chunk({"text": "Also in b.py."}, listing, finish="STOP")))
    server.reply(sse(text("I have no more turns.")))
    result = delegation_result(server)
    assert "The bug is in a.py." in result
    assert "Also in b.py." in result
    assert "I have no more turns." in result


def test_what_an_agent_had_found_is_kept_when_its_model_fails(
    home: Path, server: ScriptedServer
) -> None:
    write(home / ".gemini" / "agents" / "looker.md", f"{HEAD}Look.")
    listing = call("list_directory", {"path": "."})
    server.reply(sse(chunk(TASK, finish="STOP")))
    server.reply(sse(chunk({"text": "The bug is in a.py."}, listing, finish="STOP")))
    error = {"error": {"code": 400, "message": "odd", "status": "INVALID_ARGUMENT"}}
    server.reply(json_reply(error, status=400))
    result = delegation_result(server)
    assert "failed" in result
    assert "The bug is in a.py." in result


@pytest.mark.parametrize("content", ["one\n", "--- a ---\ntwo\n\n", "caf\u00e9"])
def test_a_file_in_a_command_is_its_bare_text(
    content: str, home: Path, project: Path, server: ScriptedServer
) -> None:
    write(project / "a.txt", content)
    write(home / ".gemini" / "commands" / "say.toml", 'prompt = "<@{a.txt}>"')
    server.reply(sse(text("fine")))
    assert alhena("-p", "/say", **keyed(server)).code == 0
    sent = server.requests[0].json["contents"][-1]["parts"][-1]["text"]
    assert sent.rstrip("\n>") == f"<{content}".rstrip("\n")
    assert "a.txt" not in sent


def test_several_extensions_and_all_are_uninstalled(home: Path) -> None:
    for name in ("one", "two", "three", "four"):
        folder = home / ".gemini" / "extensions" / name
        write(folder / "gemini-extension.json", {"name": name, "version": "1"})
    done = alhena("extensions", "uninstall", "one", "TWO")
    assert done.out == "one is removed.\ntwo is removed.\n"
    assert alhena("extensions", "uninstall").code == 2
    assert alhena("extensions", "uninstall", "three", "--all").code == 2
    assert alhena("extensions", "uninstall", "three", "five").code == 2
    assert (home / ".gemini" / "extensions" / "three").exists()
    assert alhena("extensions", "uninstall", "--all").code == 0
    assert alhena("extensions", "list").out.startswith("No extensions. Add one")


@pytest.mark.parametrize(
    ("tools", "runs", "refused"),
    [
        ("Bash(echo:*), Read", "echo one; echo two", "touch made"),
        ("run_shell_command(echo *)", "echo one", "echo one && touch made"),
        ("Bash(echo one), Bash(true:*)", "true && echo one", "echo two"),
        ("Bash, Bash(echo:*)", "touch made", ""),
    ],
)
def test_of_the_shell_an_agent_has_the_commands_that_its_tools_name(
    tools: str, runs: str, refused: str, home: Path, server: ScriptedServer
) -> None:
    file = write(
        home / ".gemini" / "agents" / "looker.md",
        HEAD.replace("name:", f"tools: {tools}\nname:", 1) + "Look.",
    )
    assert "gets no tool" not in alhena("agents", "validate", str(file)).err
    server.reply(sse(chunk(TASK, finish="STOP")))
    shell = [call("run_shell_command", {"command": line}) for line in (runs, refused) if line]
    server.reply(sse(chunk(*shell, finish="STOP")))
    server.reply(sse(chunk(call("complete_task", {"result": "seen"}), finish="STOP")))
    assert "seen" in delegation_result(server)
    declared = json.dumps(server.requests[1].json["tools"])
    assert "run_shell_command" in declared
    answers = [json.dumps(part) for part in server.requests[2].json["contents"][-1]["parts"]]
    assert "Exit Code: 0" in answers[0]
    if refused:
        assert "Only these shell commands are there for agent looker: " in answers[1]
        assert not Path("made").exists()


def test_what_is_no_command_in_an_agents_tools_is_named(home: Path) -> None:
    for tools in ("Foo(x:*)", "Bash()", "Read(x)"):
        head = HEAD.replace("name:", f"tools: Glob, {tools}\nname:", 1)
        file = write(home / ".gemini" / "agents" / "looker.md", f"{head}Look.")
        assert f"gets no tool for {tools}" in alhena("agents", "validate", str(file)).err
