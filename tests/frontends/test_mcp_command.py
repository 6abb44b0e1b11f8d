"""`alhena mcp add|remove|list|auth|enable|disable`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.kit import SERVED, kitchen, odd
from tests.mcp.oauth_server import OAuthServer
from tests.models.auth.kit import get
from tests.support.command import ALHENA, alhena
from tests.support.server import ScriptedServer, sse, text

COMMENTED = """\
{
  // how it looks
  "ui": {"theme": "x"}, // dark
  "mcpServers": {
    // keep me
    "old": {"command": "true"}
  }
}
"""


def settings(folder: Path, content: Any) -> Path:
    file = folder / ".gemini" / "settings.json"
    file.parent.mkdir(exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content)
    file.write_text(text, encoding="utf-8")
    return file


def servers(folder: Path) -> Any:
    return json.loads((folder / ".gemini" / "settings.json").read_text())["mcpServers"]


def test_a_command_is_added_with_all_that_was_said(home: Path) -> None:
    words = ["mcp", "add", "-s", "user", "-e", "KEY=a=b", "--env", "B=", "mine", "npx", "-y", "pkg"]
    words += ["--timeout", "500", "--trust", "--description", "What it is.", "--", "-s", "x"]
    done = alhena(*words, "--include-tools", "a")
    assert (done.code, done.err) == (0, "")
    assert done.out == "MCP server 'mine' added to the user settings (stdio).\n"
    assert servers(home) == {
        "mine": {
            "command": "npx",
            "args": ["-y", "pkg", "-s", "x", "--include-tools", "a"],
            "env": {"KEY": "a=b", "B": ""},
            "timeout": 500,
            "trust": True,
            "description": "What it is.",
        }
    }
    assert (home / ".gemini" / "settings.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("words", "kind"),
    [([], "http"), (["-t", "sse"], "sse"), (["--transport=http"], "http")],
)
def test_a_url_is_added_and_its_secrets_are_not_printed(
    project: Path, words: list[str], kind: str
) -> None:
    header = ["-H", "Authorization: Bearer very-secret", "--header", "X-Y: 1"]
    lists = ["--include-tools", "a, b", "--exclude-tools", "c"]
    done = alhena("mcp", "add", "far", "https://x.example/mcp", *words, *header, *lists)
    assert done.code == 0
    assert "very-secret" not in done.out + done.err
    assert "This folder is not trusted" in done.out
    assert servers(project)["far"] == {
        "url": "https://x.example/mcp",
        "type": kind,
        "headers": {"Authorization": "Bearer very-secret", "X-Y": "1"},
        "includeTools": ["a", "b"],
        "excludeTools": ["c"],
    }


def test_comments_stay_when_one_is_added_changed_and_removed(home: Path) -> None:
    file = settings(home, COMMENTED)
    assert alhena("mcp", "add", "-s", "user", "new", "cmd").code == 0
    assert "updated in" in alhena("mcp", "add", "-s", "user", "new", "cmd2").out
    text = file.read_text()
    assert '"command": "cmd2"' in text
    for comment in ("// how it looks", "// dark", "// keep me"):
        assert comment in text
    assert alhena("mcp", "remove", "new").code == 0
    assert file.read_text() == COMMENTED


def test_one_that_is_there_twice_is_removed_where_it_is_meant(home: Path, project: Path) -> None:
    settings(home, {"mcpServers": {"a": {"command": "x"}}})
    settings(project, {"mcpServers": {"a": {"command": "y"}, "b": {"command": "z"}}})
    unclear = alhena("mcp", "remove", "a")
    assert unclear.code == 2
    assert "--scope" in unclear.err
    assert alhena("mcp", "remove", "a", "-s", "project").code == 0
    assert set(servers(project)) == {"b"}
    assert alhena("mcp", "remove", "a").code == 0
    assert servers(home) == {}
    gone = alhena("mcp", "remove", "a")
    assert (gone.code, "no MCP server 'a'" in gone.err) == (42, True)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["nothing"],
        ["add"],
        ["add", "a"],
        ["add", "a b", "cmd"],
        ["add", "../a", "cmd"],
        ["add", "a" * 64, "cmd"],
        ["add", "a", "cmd", "-t", "tcp"],
        ["add", "a", "cmd", "-t", "http"],
        ["add", "a", "ftp://x.example"],
        ["add", "a", "https://x.example", "-t", "stdio"],
        ["add", "a", "https://x.example", "more"],
        ["add", "a", "cmd", "-H", "X: very-secret"],
        ["add", "a", "cmd", "-e", "very-secret"],
        ["add", "a", "cmd", "--timeout", "0"],
        ["add", "a", "cmd", "--scope", "system"],
        ["add", "--nonsense", "a", "cmd"],
        ["add", "a", "cmd", "-e"],
        ["remove"],
        ["remove", "a", "b"],
        ["enable", "a", "--session"],
        ["enable", "a", "-s", "user"],
        ["auth", "--logout"],
        ["list", "more"],
    ],
)
def test_arguments_that_mean_nothing_are_usage_errors(words: list[str], home: Path) -> None:
    done = alhena("mcp", *words)
    assert done.code == 2, done
    assert "very-secret" not in done.out + done.err
    assert not (home / ".gemini").exists()


def test_a_server_added_to_a_trusted_project_is_used_at_once(home: Path, project: Path) -> None:
    assert alhena("trust").code == 0
    for name in ("a", "b"):
        done = alhena("mcp", "add", name, "true")
        assert done.out == f"MCP server '{name}' added to the project settings (stdio).\n"
    assert alhena("mcp", "list").code == 0


def test_settings_that_cannot_be_changed_are_left_alone(home: Path) -> None:
    for content in ("{", '{"mcpServers": {"a": {"command": "x" /* why */}}}', '{"mcpServers": 1}'):
        file = settings(home, content)
        assert alhena("mcp", "add", "-s", "user", "a", "cmd").code == 52
        assert file.read_text() == content


def test_the_settings_of_the_home_directory_are_the_users(home: Path) -> None:
    done = subprocess.run(
        [ALHENA, "mcp", "add", "a", "cmd"], cwd=home, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert b"--scope user" in done.stderr


def test_a_list_says_of_each_server_how_it_is(
    home: Path, tmp_path: Path, guarded: OAuthServer
) -> None:
    entries = {
        "good": kitchen(),
        "broken": {"command": "/nowhere/at-all", "args": ["--token", "very-secret"]},
        "guarded": {"httpUrl": guarded.mcp},
        "wrong": {"command": [7]},
        "off": {"command": "x"},
        "slow": {**odd(tmp_path, {"initialize": "hang"}), "timeout": 300},
    }
    file = settings(home, {"mcpServers": entries, "mcp": {"excluded": ["off"]}})
    done = alhena("mcp", "list")
    assert done.code == 0
    assert "very-secret" not in done.out + done.err
    lines = {line[2:].split(":")[0].split(" ")[0]: line for line in done.out.splitlines()}
    assert lines["good"].startswith("✓ good: ")
    assert "(stdio) - connected: " in lines["good"]
    assert lines["broken"].startswith("✗ broken: ")
    assert lines["guarded"].startswith("! guarded: ")
    assert "alhena mcp auth guarded" in lines["guarded"]
    assert f"✗ wrong - not connected: {file}:1: mcpServers.wrong.command" in lines["wrong"]
    assert lines["off"] == "- off - turned off: mcp.excluded names it"
    assert lines["slow"][0] in "✗…"
    rows = {row["name"]: row for row in alhena("mcp", "list", "--json").json}
    assert rows["good"]["state"] == "connected"
    assert "echo" in rows["good"]["tools"]
    assert rows["guarded"]["state"] == "needs_auth"


FAILING = {
    "import": ("import no_such_module_here", "ModuleNotFoundError: No module named 'no_such_"),
    "deep": (
        "def f(n):\n if not n: raise KeyError('API_KEY')\n f(n - 1) if n % 2 else f(n - 1)\nf(90)",
        "KeyError: 'API_KEY'",
    ),
    "group": ("raise ExceptionGroup('two', [OSError('no disk')])", "OSError: no disk"),
    "syntax": ("def f(:", "SyntaxError: invalid syntax"),
    "words": ("import sys; sys.exit('usage: serve PORT')", "exited with code 1: usage: serve PORT"),
}


def test_a_list_shows_the_end_of_a_traceback(home: Path) -> None:
    entries = {
        name: {"command": sys.executable, "args": ["-c", code]}
        for name, (code, _) in FAILING.items()
    }
    settings(home, {"mcpServers": entries})
    rows = {row["name"]: row for row in alhena("mcp", "list", "--json").json}
    for name, (_, said) in FAILING.items():
        assert said in rows[name]["why"]
        assert "Traceback" not in rows[name]["why"]


def test_servers_of_a_folder_that_is_not_trusted_are_not_started(project: Path) -> None:
    mark = project / "started"
    settings(project, {"mcpServers": {"bad": {"command": "touch", "args": [str(mark)]}}})
    done = alhena("mcp", "list")
    assert done.code == 0
    assert "No MCP servers" in done.out
    assert "is not trusted" in done.err
    assert not mark.exists()


def test_one_that_is_turned_off_is_not_started_until_it_is_turned_on(
    home: Path, project: Path
) -> None:
    mark = project / "started"
    settings(home, {"mcpServers": {"Mine": {"command": "touch", "args": [str(mark)]}}})
    file = home / ".gemini" / "mcp-server-enablement.json"
    file.write_text('{"other": {"enabled": false}}')
    assert alhena("mcp", "disable", "Mine").code == 0
    assert json.loads(file.read_text()) == {
        "other": {"enabled": False},
        "mine": {"enabled": False},
    }
    assert "- Mine - turned off" in alhena("mcp", "list").out
    assert not mark.exists()
    assert alhena("mcp", "enable", "Mine").code == 0
    assert json.loads(file.read_text()) == {"other": {"enabled": False}}
    alhena("mcp", "list")
    assert mark.exists()
    unknown = alhena("mcp", "disable", "Mien")
    assert (unknown.code, "Did you mean Mine?" in unknown.err) == (42, True)


def test_a_list_shows_secret_variables_by_their_names(home: Path) -> None:
    entry = {"command": "false", "args": ["--x=$SECRET_TOKEN", "$SECRET_TOKEN", "$PLAIN"]}
    content = {"mcpServers": {"a": entry}, "mcp": {"serverCommand": "false $SECRET_TOKEN"}}
    settings(home, content)
    given = {"SECRET_TOKEN": "s3cr3t", "PLAIN": "plain"}
    out = alhena("mcp", "list", **given).out
    assert "a: false --x=${SECRET_TOKEN} ${SECRET_TOKEN} plain (stdio)" in out
    assert "mcp: false ${SECRET_TOKEN} (stdio)" in out
    assert "s3cr3t" not in alhena("mcp", "list", "--json", **given).out + out


def test_a_list_shows_where_a_server_runs_and_what_chooses_its_program(home: Path) -> None:
    env = {
        "PATH": "/x/bin:/bin",
        "UV_INDEX_URL": "https://a:b@x",
        "PORT": "8",
        "GH_HOST": "$HIDDEN_KEY",
    }
    content = {
        "near": {"command": "false", "cwd": "/", "env": env},
        "far": {"url": "http://127.0.0.1:9/", "headers": {"X-Team": "core"}, "timeout": 500},
    }
    settings(home, {"mcpServers": content})
    out = alhena("mcp", "list", HIDDEN_KEY="hidden").out
    told = "in /, PATH=/x/bin:/bin, UV_INDEX_URL, PORT, GH_HOST=${HIDDEN_KEY}"
    assert f"\n    {told}\n" in out
    assert "\n    header X-Team\n" in out
    (near, far) = alhena("mcp", "list", "--json", HIDDEN_KEY="hidden").json
    assert (near["with"], far["with"]) == (told.split(", "), ["header X-Team"])


def test_a_damaged_list_of_what_is_off_turns_all_off_and_is_left_alone(home: Path) -> None:
    settings(home, {"mcpServers": {"a": {"command": "true"}}})
    file = home / ".gemini" / "mcp-server-enablement.json"
    file.write_text("[1]")
    assert "does not say which servers are turned off" in alhena("mcp", "list").out
    assert alhena("mcp", "enable", "a").code == 52
    assert file.read_text() == "[1]"


@pytest.mark.requirement("MCP-07")
def test_a_person_signs_in_is_known_from_then_on_and_signs_out(
    home: Path, guarded: OAuthServer
) -> None:
    settings(home, {"mcpServers": {"g": {"httpUrl": guarded.mcp}}})
    assert alhena("mcp", "auth").out == "g: not signed in\n"
    process = subprocess.Popen(
        [ALHENA, "mcp", "auth", "g"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    url = next(line for line in process.stdout if line.startswith("http")).strip()
    status, page = get(url)
    out, err = process.communicate()
    assert (process.returncode, err, status) == (0, "", 200)
    assert "Signed in to MCP server 'g'.\n" in out
    assert "You are signed in." in page
    assert "very-secret" not in out + page
    assert alhena("mcp", "auth").out == "g: signed in\n"
    assert alhena("mcp", "list").out.startswith("✓ g: ")
    assert alhena("mcp", "auth", "g", "--logout").out == "Signed out of MCP server 'g'.\n"
    assert json.loads((home / ".gemini" / "mcp-oauth-tokens.json").read_text()) == []
    assert alhena("mcp", "list").out.startswith("! g: ")


def test_an_unattended_run_says_who_has_to_sign_in_and_goes_on(
    home: Path, guarded: OAuthServer, server: ScriptedServer
) -> None:
    settings(home, {"mcpServers": {"g": {"httpUrl": guarded.mcp}}})
    server.reply(sse(text("done")))
    model = {"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": server.url}
    done = alhena("-p", "hello", **model)
    assert (done.code, done.out) == (0, "done\n")
    assert "needs you to sign in: alhena mcp auth g (or /mcp auth g)" in done.err
    assert not any(path == "/authorize" for _, path, _ in guarded.asked)
    token = {"accessToken": "mine"}
    entry = {"serverName": "g", "token": token, "mcpServerUrl": guarded.mcp}
    (home / ".gemini" / "mcp-oauth-tokens.json").write_text(json.dumps([entry]))
    guarded.tokens.add("mine")
    server.reply(sse(text("done")))
    done = alhena("-p", "hello", **model)
    assert (done.code, done.err) == (0, "")
    declared = server.requests[-1].json["tools"][0]["functionDeclarations"]
    assert "echo" not in {each["name"] for each in declared}  # nobody could approve it
    assert set(guarded.shown[-3:]) == {"Bearer mine"}


@pytest.mark.parametrize("name", ["none", "local"])
def test_there_has_to_be_somewhere_to_sign_in(home: Path, name: str) -> None:
    settings(home, {"mcpServers": {"local": {"command": "x"}}})
    done = alhena("mcp", "auth", name)
    assert done.code in (41, 42)
    assert done.err.startswith("alhena: ")


def test_nothing_of_it_is_imported_for_the_help() -> None:
    code = "import sys; from alhena.frontends.cli.mcp import run; run(['--help'])"
    code += "; print([m for m in sys.modules if m in ('mcp', 'httpx2', 'asyncio', 'pydantic')])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.endswith("\n[]\n")
    assert SERVED.exists()


def test_project_settings_that_lead_elsewhere_are_not_written_to(home: Path, project: Path) -> None:
    victim = home / "victim.json"
    victim.write_text('{"mcpServers": {"foo": {"command": "x"}}}', encoding="utf-8")
    (project / ".gemini").mkdir(exist_ok=True)
    (project / ".gemini" / "settings.json").symlink_to(victim)
    for words in (("add", "foo", "true"), ("remove", "foo"), ("remove", "-s", "project", "foo")):
        done = alhena("mcp", *words)
        assert done.code != 0
        assert "settings.json is a symbolic link; nothing was written" in done.err
    assert victim.read_text(encoding="utf-8") == '{"mcpServers": {"foo": {"command": "x"}}}'
    assert alhena("mcp", "add", "-s", "user", "foo", "true").code == 0
