"""`alhena settings`, and what settings and .env files do to real runs."""

import json
from pathlib import Path

import pytest

from tests.config.places import system, user, workspace, write
from tests.support.command import Ran, alhena
from tests.support.server import ScriptedServer, sse, text


def run(server: ScriptedServer, *arguments: str, **environ: str) -> Ran:
    server.reply(sse(text("hello")))
    given = {"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": server.url} | environ
    return alhena("-p", "hi", *arguments, **given)


def model(server: ScriptedServer) -> str:
    return server.requests[-1].path.rpartition("/")[2].partition(":")[0]


def test_each_value_is_shown_with_the_file_and_the_line_that_said_it(
    home: Path, project: Path, tmp_path: Path
) -> None:
    mine = user(
        home,
        '{\n  // mine\n  "model": {"name": "m",\n    "maxSessionTurns": 5},\n"excludeTools": ["a"]}',
    )
    theirs = workspace(project, '{"tools":\n{"exclude": ["b"]}, "model": {"maxSessionTurns": 3}}')
    above = system(tmp_path, {"output": {"format": "json"}})
    shown = alhena("settings", "show", "--origin", "--skip-trust", **above)
    assert shown.code == 0
    assert shown.out.splitlines() == [
        f"model.maxSessionTurns = 3  # workspace ({theirs}:2), user ({mine}:4)",
        f'model.name = "m"  # user ({mine}:3)',
        f'output.format = "json"  # system ({next(iter(above.values()))}:1)',
        f'tools.exclude = ["a","b"]  # workspace ({theirs}:2), user ({mine}:5)',
    ]
    (one,) = alhena("settings", "show", "model.name", "--origin", "--json", **above).json
    assert one == {
        "key": "model.name",
        "value": "m",
        "origin": [{"layer": "user", "file": str(mine), "line": 3}],
    }
    section = alhena("settings", "show", "output", "--json", **above).json
    assert section == {"output.format": "json"}
    everything = alhena("settings", "show", "--all", "--json").json
    assert everything["tools.truncateToolOutputThreshold"] == 40_000
    missing = alhena("settings", "show", "modle")
    assert missing.code == 42
    assert "modle" in missing.err


def test_no_secret_is_shown(home: Path) -> None:
    secret = "AIzaSyA-1234567890123456789012345678901"
    user(
        home,
        {
            "security": {"auth": {"oauth": {"clientSecret": "hush-hush", "clientId": "id"}}},
            "mcpServers": {
                "a": {
                    "url": f"https://me:hush-hush@example.com/{secret}",
                    "headers": {"X-Any": "hush-hush"},
                    "env": {"ANY": "$MINE"},
                    "oauth": {"clientSecret": "hush-hush"},
                    "args": [f"--key={secret}"],
                }
            },
            "hooks": {"BeforeTool": [{"hooks": [{"command": "x", "env": {"A": "hush-hush"}}]}]},
        },
    )
    for arguments in (["--all", "--origin"], ["--json"], ["mcpServers"]):
        shown = alhena("settings", "show", *arguments, MINE="hush-hush")
        assert shown.code == 0
        for word in ("hush-hush", secret):
            assert word not in shown.out + shown.err
        assert "[redacted]" in shown.out


def test_what_a_secret_variable_holds_is_shown_by_its_name(home: Path, project: Path) -> None:
    user(
        home,
        {
            "tools": {"discoveryCommand": "echo $SECRET_TOKEN ${API_KEY:-none} $PLAIN s3cr3t"},
            "excludeTools": ["$SECRET_TOKEN"],
            "mcpServers": {
                "a": {
                    "command": "x",
                    "args": [
                        "--x=$SECRET_TOKEN",
                        "$secret_token",
                        "--token",
                        "hush",
                        "-v",
                        "$PLAIN",
                    ],
                    "description": "hushed",
                }
            },
        },
    )
    workspace(project, {"telemetry": {"outfile": "$MINE"}})
    given = {"SECRET_TOKEN": "s3cr3t", "secret_token": "hush", "PLAIN": "plain", "MINE": "s3cr3t"}
    for extra in ([], ["--json"]):
        shown = alhena("settings", "show", "--skip-trust", *extra, **given)
        assert shown.code == 0
        assert "${SECRET_TOKEN} none plain ${SECRET_TOKEN}" in shown.out
        assert "s3cr3t" not in shown.out
    (servers,) = alhena("settings", "show", "mcpServers", "--json", **given).json.values()
    assert servers["a"]["args"] == [
        "--x=${SECRET_TOKEN}",
        "${secret_token}",
        "--token",
        "[redacted]",
        "-v",
        "plain",
    ]
    assert alhena("settings", "show", "tools.exclude", **given).out == (
        'tools.exclude = ["${SECRET_TOKEN}"]\n'
    )


def test_where_settings_are_looked_for_is_told(home: Path, project: Path) -> None:
    mine, theirs = user(home, {}), workspace(project, {})
    env = write(home / ".gemini" / ".env", "A=1")
    rows = {
        row["layer"]: (row["file"], row["state"])
        for row in alhena("settings", "path", "--json").json
    }
    assert rows["user"] == (str(mine), "read")
    assert rows["workspace"] == (str(theirs), "not trusted")
    assert rows["system"][1] == "missing"
    assert rows[".env"] == (str(env), "read")
    assert str(mine) in alhena("settings", "path").out


def test_checking_says_all_there_is_to_say(home: Path, project: Path) -> None:
    fine = alhena("settings", "check")
    assert (fine.code, fine.out) == (0, "The settings are valid.\n")
    user(home, {"tools": {"exlude": ["a"]}, "theme": "t"})
    odd = alhena("settings", "check", "--json")
    assert odd.code == 1
    assert "did you mean tools.exclude?" in odd.json["warnings"][0]
    assert "theme for ui.theme" in odd.json["notes"][0]
    user(home, '{"tools":\n{"exclude": 7}}')
    wrong = alhena("settings", "check")
    assert wrong.code == 52
    assert ":2: tools.exclude: it has to be a list, not a whole number" in wrong.err


@pytest.mark.parametrize("words", [["settings"], ["settings", "show", "a", "b"], ["trust", "--x"]])
def test_arguments_that_mean_nothing_are_usage_errors(words: list[str]) -> None:
    assert alhena(*words).code == 2


def test_a_run_takes_what_a_trusted_workspace_may_say_and_is_told_of_the_rest(
    server: ScriptedServer, home: Path, project: Path
) -> None:
    workspace(
        project, {"model": {"name": "gemini-3.7-flash"}, "tools": {"allowed": ["write_file"]}}
    )
    before = run(server, "-o", "json")
    assert model(server) == "gemini-3.8-flash"
    assert before.json["response"] == "hello"
    assert "is not trusted" in before.json["warnings"][0]
    assert ".gemini/settings.json" in before.json["warnings"][0]
    assert "alhena trust" in before.json["warnings"][0]
    after = run(server, "--skip-trust")
    assert model(server) == "gemini-3.7-flash"
    assert "tools.allowed" in after.err
    assert after.out == "hello\n"
    declared = json.loads(server.requests[-1].body)["tools"][0]["functionDeclarations"]
    assert "write_file" not in {each["name"] for each in declared}


def test_a_run_takes_its_key_from_the_users_env_file_and_no_address_from_a_projects(
    server: ScriptedServer, home: Path, project: Path
) -> None:
    server.reply(sse(text("hello")))
    write(
        home / ".gemini" / ".env",
        f"GEMINI_API_KEY=from-file\nGOOGLE_GEMINI_BASE_URL={server.url}\n",
    )
    done = alhena("-p", "hi")
    assert (done.code, done.out) == (0, "hello\n")
    assert server.requests[-1].headers["x-goog-api-key"] == "from-file"
    write(project / ".env", "GEMINI_API_KEY=theirs\nGOOGLE_GEMINI_BASE_URL=http://127.0.0.1:9\n")
    done = run(server, "--skip-trust", GEMINI_API_KEY="mine")
    assert done.code == 0
    assert server.requests[-1].headers["x-goog-api-key"] == "mine"
    assert "GOOGLE_GEMINI_BASE_URL" in done.err


def test_an_administrator_can_keep_everything_from_running_unasked(
    server: ScriptedServer, tmp_path: Path, home: Path
) -> None:
    user(home, {"security": {"disableYoloMode": False}})
    above = system(tmp_path, {"security": {"disableYoloMode": True}})
    refused = run(server, "-y", "--skip-trust", **above)
    assert refused.code == 52
    assert "security.disableYoloMode" in refused.err
    assert server.requests == []
    assert run(server, **above).code == 0


def test_what_always_needs_confirmation_is_asked_about_in_every_mode(home: Path) -> None:
    user(home, {"tools": {"confirmationRequired": ["read_file"], "allowed": ["read_file"]}})
    for mode in ("default", "yolo"):
        said = alhena(
            "policy", "explain", "--tool", "read_file", "--args", "{}", "--mode", mode, "--json"
        ).json
        assert said["decision"] == "ask_user"
        assert "tools.confirmationRequired" in json.dumps(said)


def test_policies_of_an_administrators_settings_stand_above_the_users(
    home: Path, tmp_path: Path
) -> None:
    deny = write(
        tmp_path / "deny.toml", '[[rule]]\ntoolName = "glob"\ndecision = "deny"\npriority = 1\n'
    )
    write(
        home / ".gemini" / "policies" / "a.toml",
        '[[rule]]\ntoolName = "glob"\ndecision = "allow"\npriority = 999\n',
    )
    above = system(tmp_path, {"adminPolicyPaths": [str(deny)]})
    explain = ["policy", "explain", "--tool", "glob", "--args", '{"pattern": "*"}', "--json"]
    assert alhena(*explain).json["decision"] == "allow"
    assert alhena(*explain, **above).json["decision"] == "deny"


def test_hooks_of_an_administrators_settings_are_listed_as_such(home: Path, tmp_path: Path) -> None:
    hooks = {"BeforeTool": [{"hooks": [{"type": "command", "command": "true", "name": "audit"}]}]}
    above = system(tmp_path, {"hooks": hooks})
    user(home, {"hooksConfig": {"disabled": ["audit"]}})
    (entry,) = alhena("hooks", "list", "--json", **above).json
    assert (entry["name"], entry["source"], entry["state"]) == ("audit", "system", "enabled")
    switched_off = system(tmp_path, {"hooksConfig": {"enabled": False}})
    user(home, {"hooks": hooks})
    (entry,) = alhena("hooks", "list", "--json", **switched_off).json
    assert (entry["source"], entry["state"]) == ("user", "disabled")


def test_more_workspace_roots_come_from_the_users_settings(home: Path, project: Path) -> None:
    beside = project.with_name("beside")
    write(beside / "a.txt", "there\n")
    user(home, {"context": {"includeDirectories": ["../beside", "~/none", "../beside"]}})
    done = alhena(
        "tools", "call", "read_file", json.dumps({"absolute_path": str(beside / "a.txt")})
    )
    assert "there" in done.out
    assert "no directory ~/none" in done.err


def test_checking_names_servers_that_cannot_be_used_and_members_that_mean_nothing(
    home: Path, project: Path
) -> None:
    mine = user(
        home,
        '{"mcpServers": {"a": 5,\n"b": {"command":\n[]}, "c": {"url": "x"},\n'
        '"d": {"comand": "x",\n"command": "true", "oauth": {"scope": []}},'
        ' "e": {"command": "x", "args": ["y", {}]}}}',
    )
    theirs = workspace(project, '{"mcpServers":\n{"f": {"command": ""}}}')
    checked = alhena("settings", "check", "--skip-trust")
    assert checked.code == 1
    lines = checked.out.splitlines()
    remedy, near = "Correct that value or remove the key.", "scopes?"
    text = "it has to be a text"
    for line in (
        f"{mine}:1: mcpServers.a: it has to be an object, not a whole number. {remedy}",
        f"{mine}:2: mcpServers.b.command: {text} or null, not a list. {remedy}",
        f"{mine}:3: mcpServers.c: its URL begins with neither http:// nor https://. Correct it.",
        f"{mine}:4: mcpServers.d.comand means nothing, and has no effect. Did you mean command?",
        f"{mine}:5: mcpServers.d.oauth.scope means nothing, and has no effect. Did you mean {near}",
        f"{mine}:5: mcpServers.e.args[1]: {text}, not an object. {remedy}",
        f"{theirs}:2: mcpServers.f: names neither command nor url nor httpUrl. Give one of them.",
    ):
        assert f"warning: {line}" in lines
    assert len(alhena("settings", "check", "--skip-trust", "--json").json["warnings"]) == 7
    user(home, '{"mcpServers": {"a": {"command": "true"}}}')
    assert alhena("settings", "check").code == 0


def test_a_strong_layer_mends_what_a_weak_one_has_wrong(home: Path, tmp_path: Path) -> None:
    user(home, {"mcpServers": {"a": 5}})
    above = system(tmp_path, {"mcpServers": {"a": {"command": "true"}}})
    assert alhena("settings", "check", **above).code == 0


def test_set_writes_one_setting_and_get_prints_it(home: Path, project: Path) -> None:
    mine = user(home, '{\n  // mine\n  "model": {"name": "m"}}')
    assert alhena("settings", "set", "model.name", "n").out == f"model.name is n in {mine}.\n"
    assert "// mine" in mine.read_text(encoding="utf-8")
    assert alhena("settings", "get", "model.name").out == "n\n"
    theirs = alhena("settings", "set", "general.vimMode", "true", "--project")
    assert json.loads((project / ".gemini" / "settings.json").read_text(encoding="utf-8")) == {
        "general": {"vimMode": True}
    }
    assert "general.vimMode is still false. This folder is not trusted" in theirs.err
    unknown = alhena("settings", "set", "genral.vimMode", "true")
    assert (unknown.code, "Did you mean general.vimMode?" in unknown.err) == (42, True)
    for key, value, words in (
        (
            "model.maxSessionTurns",
            "many",
            "'many' is no value of model.maxSessionTurns: Expected a whole number.",
        ),
        ("general.defaultApprovalMode", "autoedit", "Did you mean auto_edit?"),
        ("ui.queue", "x", "Its values: "),
        ("ui.theme", "Draculla", "no theme Draculla. Did you mean Dracula?"),
        ("ui.theme", "zzz", "Themes: ANSI, "),
    ):
        wrong = alhena("settings", "set", key, value)
        assert (wrong.code, words in wrong.err) == (42, True)
    user(home, '{"ui": {"theme": "Mine", "customThemes": {"Mine": {"Foreground": "#ffffff"}}}}')
    assert alhena("settings", "set", "ui.theme", "mine").code == 0
    assert alhena("settings", "check").code == 0
    user(home, '{"ui": {"theme": "Draculla"}}')
    checked = alhena("settings", "check")
    assert (checked.code, "Did you mean Dracula?" in checked.out) == (1, True)


def test_a_projects_settings_are_not_written_through_a_link(project: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (project / ".gemini").symlink_to(tmp_path / "elsewhere")
    ran = alhena("settings", "set", "general.vimMode", "true", "--project")
    assert ran.code == 42
    assert not list((tmp_path / "elsewhere").iterdir())
