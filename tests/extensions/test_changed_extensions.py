"""Extensions whose files change after they were accepted."""

import json
import os
import socket
from pathlib import Path

import pytest

from alhena.config.extension_parts import pin_parts
from alhena.errors import InputError
from alhena.extensions.installation import accept
from tests.config.places import write
from tests.extensions.test_extensions import install_extension
from tests.support.command import Ran, alhena, keyed
from tests.support.server import ScriptedServer, call, chunk, sse, text

GUARD = """#!/bin/sh
grep -q forbidden && { echo the guard says no >&2; exit 2; }
exit 0
"""
FILES = {
    "gemini-extension.json": {
        "name": "guard",
        "version": "1.0.0",
        "contextFileName": "CTX.md",
        "excludeTools": ["web_fetch"],
        "mcpServers": {
            "srv": {
                "command": "python3",
                "args": ["${extensionPath}/srv", "--data", "${extensionPath}/mem.json"],
            },
            "shipped": {
                "command": "node",
                "args": [
                    *("server", "--stateFile", "${extensionPath}/shipped.json"),
                    *("--cache-dir=${extensionPath}/shipped.yaml", "${extensionPath}/data/a.json"),
                    *("--config", "${extensionPath}/config.json"),
                ],
            },
        },
    },
    "hooks/hooks.json": {
        "hooks": {
            "BeforeTool": [
                {
                    "matcher": "write_file|read_file",
                    "hooks": [{"type": "command", "command": "${extensionPath}/hooks/guard"}],
                }
            ]
        }
    },
    "policies/p.toml": '[[rule]]\ntoolName = "glob"\ndecision = "deny"\npriority = 5\n',
    "commands/say.toml": 'prompt = "say"',
    "agents/helper.md": "---\nname: helper\ndescription: Helps.\n---\nHi",
    "skills/s/SKILL.md": "---\nname: s\ndescription: S.\n---\nRead more.txt.",
    "skills/s/more.txt": "more",
    "CTX.md": "See @notes/rules.txt",
    "notes/rules.txt": "rules",
    "srv": "import helper",
    "helper.py": "pass",
    "package.json": "{}",
    "README.txt": "read me",
    "config.json": "{}",
    "shipped.json": "{}",
    "shipped.yaml": "a: 1",
    "data/a.json": "{}",
    "skills/s/cache.json": "{}",
}
WRITTEN = {"README.txt", "shipped.json", "shipped.yaml", "data/a.json", "skills/s/cache.json"}
"""Those that are no parts: nothing runs them, and what names some says that they are state."""


@pytest.fixture
def place(home: Path) -> Path:
    source = home.parent / "source"
    for name, content in FILES.items():
        write(source / name, content)
    write(source / "hooks" / "guard", GUARD)
    (source / "hooks" / "guard").chmod(0o755)
    done = alhena("extensions", "install", str(source), "--consent")
    assert done.code == 0, done.err
    return home / ".gemini" / "extensions" / "guard"


def asked_to_write(server: ScriptedServer, project: Path, content: str) -> Ran:
    args = {"file_path": str(project / "made"), "content": content}
    server.reply(sse(chunk(call("write_file", args), finish="STOP")))
    server.reply(sse(text("done")))
    return alhena("-y", "--skip-trust", "-p", "go", **keyed(server))


def last_response(server: ScriptedServer) -> str:
    return json.dumps(server.requests[-1].json["contents"][-1])


def test_a_guard_that_was_changed_blocks_instead_of_vanishing(
    place: Path, project: Path, server: ScriptedServer
):
    asked_to_write(server, project, "forbidden")
    assert "the guard says no" in last_response(server)
    asked_to_write(server, project, "allowed")
    assert (project / "made").read_text() == "allowed"
    (place / "hooks" / "guard").write_text("#!/bin/sh\nexit 0\n")
    done = asked_to_write(server, project, "forbidden")
    assert (project / "made").read_text() == "allowed"
    assert "the extension guard guards this" in last_response(server)
    assert "alhena extensions enable guard" in last_response(server)
    assert "hooks/guard" in done.err
    assert "alhena extensions enable guard" in done.err
    assert alhena("extensions", "enable", "guard", "--consent").code == 0
    asked_to_write(server, project, "forbidden")
    assert (project / "made").read_text() == "forbidden"


@pytest.mark.parametrize(
    "name",
    ["hooks/hooks.json", "gemini-extension.json", "hooks/guard", "policies/p.toml"],
)
@pytest.mark.parametrize("content", [None, "{", "{}"])
def test_however_it_is_broken_what_it_restricts_holds(
    place: Path, project: Path, server: ScriptedServer, name: str, content: str | None
):
    if content is None:
        (place / name).unlink()
    else:
        (place / name).write_text(content)
    done = asked_to_write(server, project, "x")
    assert "the extension guard is not used" in done.err
    assert not (project / "made").exists()
    declared = server.requests[-1].json["tools"][0]["functionDeclarations"]
    assert not {"web_fetch", "glob"} & {each["name"] for each in declared}
    assert "/say" not in alhena("commands", "list").out


def test_a_guard_that_the_user_has_disabled_blocks_nothing(
    place: Path, project: Path, home: Path, server: ScriptedServer
):
    disabled = {"hooksConfig": {"disabled": [f"{place}/hooks/guard"]}}
    write(home / ".gemini" / "settings.json", disabled)
    (place / "helper.py").write_text("changed")
    done = asked_to_write(server, project, "x")
    assert (project / "made").read_text() == "x"
    assert "helper.py" in done.err
    write(home / ".gemini" / "settings.json", {})
    asked_to_write(server, project, "y")
    assert (project / "made").read_text() == "x"
    alhena("extensions", "disable", "guard")
    asked_to_write(server, project, "z")
    assert (project / "made").read_text() == "z"


def is_used() -> bool:
    return "- guard" in alhena("-l").out


@pytest.mark.parametrize("name", [*FILES, "hooks/guard"])
def test_a_change_of_any_part_takes_it_out_of_use_and_names_it(place: Path, name: str):
    data = name in WRITTEN
    path = place / name
    before = path.read_bytes()
    path.write_bytes(before + b" ")
    assert is_used() is data
    assert (name in alhena("-l").err) is not data
    path.write_bytes(before)
    assert is_used()
    path.unlink()
    assert is_used() is data


@pytest.mark.parametrize(
    "name",
    [
        *("commands/new.toml", "commands/deep/new.toml", "policies/new.toml", "agents/new.md"),
        *("agents/new.toml", "skills/new/SKILL.md", "skills/s/run.py", "hooks/new.sh"),
        *("json.py", "hooks/link", "commands"),
    ],
)
def test_a_new_part_takes_it_out_of_use(place: Path, tmp_path: Path, name: str):
    path = place / name
    if name in ("hooks/link", "commands"):
        elsewhere = tmp_path / "elsewhere"
        if path.exists():
            path.rename(elsewhere)
        path.symlink_to(elsewhere)
    else:
        write(path, 'prompt = "x"')
    assert not is_used()
    assert name in alhena("-l").err


@pytest.mark.parametrize(
    "name",
    [
        *("server.log", "logs/today.txt", "cache/blob", "cache/gen.py", "hooks/guard.log"),
        *("mem.json", "state.db", "hooks/state.json", ".cache/x.py", "node_modules/a/index.js"),
        *("__pycache__/helper.pyc", ".venv/bin/python", ".env", "venv/lib/x.py", "notes/new.txt"),
        *("skills/s/.last_run", "skills/s/cache/blob", "skills/.DS_Store", "skills/s/state.json"),
    ],
)
def test_what_it_writes_itself_leaves_it_in_use(place: Path, name: str):
    write(place / name, "written")
    assert is_used(), alhena("-l").err
    write(place / name, "written again")
    assert is_used(), alhena("-l").err


@pytest.mark.parametrize("folder", [".", "hooks", "skills/s"])
def test_a_socket_or_a_pipe_of_it_leaves_it_in_use(
    place: Path, folder: str, monkeypatch: pytest.MonkeyPatch
):
    os.mkfifo(place / folder / "events", 0o777)
    with monkeypatch.context() as there, socket.socket(socket.AF_UNIX) as listening:
        there.chdir(place / folder)  # the path of a socket has to be short
        listening.bind("talk")
    assert is_used(), alhena("-l").err


def test_a_program_in_a_folder_of_a_skill_takes_it_out_of_use(place: Path):
    write(place / "skills" / "s" / "tool", "#!/bin/sh\n")
    assert is_used()
    (place / "skills" / "s" / "tool").chmod(0o755)
    assert not is_used()
    assert "skills/s/tool" in alhena("-l").err


def test_an_update_that_changes_only_data_is_one(place: Path, home: Path):
    assert "up to date" in alhena("extensions", "update", "guard").out
    write(home.parent / "source" / "README.txt", "another")
    assert alhena("extensions", "update", "guard", "--consent").code == 0
    assert (place / "README.txt").read_text() == "another"


def test_uninstalling_leaves_no_restrictions(place: Path, home: Path):
    kept = home / ".gemini" / "acknowledgments" / "extensions"
    assert os.listdir(kept) == ["guard"]
    alhena("extensions", "uninstall", "guard")
    assert os.listdir(kept) == []


def test_a_linked_one_keeps_no_restrictions_of_an_older_one(home: Path):
    install_extension(home)
    alhena("extensions", "uninstall", "demo")
    source = home.parent / "source"
    alhena("extensions", "link", str(source), "--consent")
    (source / "hooks" / "hooks.json").write_text("{}")
    assert "- demo" in alhena("-l").out


def test_what_changes_while_it_is_read_is_not_accepted(place: Path, home: Path):
    shown = pin_parts(place)
    (place / "helper.py").write_text("changed")
    with pytest.raises(InputError, match="changed while you read"):
        accept("guard", {"HOME": str(home)}, shown)
    assert not is_used()
