import json
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from alhena.config.checking import unused_keys
from alhena.config.jsonc import strip_comments
from alhena.config.reference_keys import REFERENCE_KEYS, is_reference_key, known_keys
from alhena.config.settings import Settings
from alhena.errors import ConfigError
from tests.config.places import opened, system, user, workspace, write
from tests.support.command import alhena, keyed
from tests.support.server import ScriptedServer, sse, text

DATA = Path(__file__).parent / "data"


def test_without_any_file_the_defaults_hold_and_nothing_is_said(project: Path) -> None:
    place = opened(project)
    assert place.settings == Settings()
    assert (place.warnings, place.notes, place.layers, place.unread) == ((), (), (), ())
    assert dict(place.environ).items() >= dict(os.environ).items()


def test_a_layer_comes_above_the_one_before_it(home: Path, project: Path, tmp_path: Path) -> None:
    def model(name: str) -> dict[str, object]:
        return {"model": {"name": name}, "output": {"format": "json"}}

    defaults = system(tmp_path, model("defaults"), "system-defaults.json")
    assert opened(project, **defaults).settings.model.name == "defaults"
    user(home, {"model": {"name": "user"}})
    found = opened(project, **defaults).settings
    assert (found.model.name, found.output.format) == ("user", "json")
    workspace(project, {"model": {"name": "workspace"}})
    assert opened(project, **defaults).settings.model.name == "workspace"
    above = system(tmp_path, {"model": {"name": "system"}})
    assert opened(project, **defaults, **above).settings.model.name == "system"


def test_an_administrators_defaults_stand_beside_the_settings(
    project: Path, tmp_path: Path
) -> None:
    above = system(tmp_path, {})
    write(tmp_path / "etc" / "system-defaults.json", {"model": {"name": "beside"}})
    assert opened(project, **above).settings.model.name == "beside"


def test_lists_that_restrict_grow_and_others_are_replaced(
    home: Path, project: Path, tmp_path: Path
) -> None:
    defaults = system(
        tmp_path,
        {
            "tools": {"exclude": ["a"], "allowed": ["x"]},
            "hooksConfig": {"disabled": ["h"], "enabled": False},
            "context": {"includeDirectories": ["one"]},
            "mcpServers": {"s": {"command": "old", "args": ["1"]}, "t": {"command": "t"}},
        },
        "system-defaults.json",
    )
    user(
        home,
        {
            "tools": {"exclude": ["b", "a"], "allowed": ["y"]},
            "hooksConfig": {"disabled": ["i", "h"]},
            "context": {"includeDirectories": ["two", "one"]},
            "mcpServers": {"s": {"command": "new"}},
        },
    )
    found = opened(project, **defaults).settings
    assert found.tools.exclude == ("a", "b")
    assert found.tools.allowed == ("y",)
    assert found.hooks_config.disabled == ("h", "i")
    assert not found.hooks_config.enabled
    assert found.context.include_directories == ("one", "two", "one")
    assert found.mcp_servers == {"s": {"command": "new"}, "t": {"command": "t"}}


def test_nothing_of_a_workspace_is_read_before_it_is_trusted(home: Path, project: Path) -> None:
    workspace(project, "{ this is no JSON")
    write(project / ".env", "A=1\n")
    write(project / "GEMINI.md", "hello")
    (project / ".gemini" / "policies").mkdir()
    place = opened(project, trusted=False)
    assert place.settings == Settings()
    assert "A" not in place.environ
    assert set(place.unread) == {".gemini/settings.json", ".env", "GEMINI.md", ".gemini/policies"}
    assert place.undecided
    assert place.warnings == ()
    assert place.told == (place.notice,)
    assert str(project) in place.notice
    assert "alhena trust" in place.notice
    assert all(name in place.notice for name in place.unread)
    with pytest.raises(ConfigError, match=re.escape(str(project / ".gemini" / "settings.json"))):
        opened(project)


def test_of_a_folder_that_was_refused_nobody_is_reminded(home: Path, project: Path) -> None:
    workspace(project, {"model": {"name": "m"}})
    write(home / ".gemini" / "trustedFolders.json", {str(project): "DO_NOT_TRUST"})
    place = opened(project, trusted=False)
    assert place.settings.model.name is None
    assert place.told == ()
    assert not place.undecided
    assert any(".gemini/settings.json" in note for note in place.notes)


def test_an_empty_folder_needs_no_word_about_trust(project: Path) -> None:
    assert opened(project, trusted=False).told == ()
    (project / "src").mkdir()
    assert not opened(project, trusted=False).undecided


def test_in_the_home_directory_the_settings_are_the_users_own(home: Path) -> None:
    user(home, {"tools": {"allowed": ["glob"]}})
    for trusted in (True, False):
        place = opened(home, trusted=trusted)
        assert place.settings.tools.allowed == ("glob",)
        assert place.unread == ()
        assert len(place.layers) == 1


def test_whether_folders_are_trusted_is_not_for_a_workspace_to_say(
    home: Path, project: Path
) -> None:
    workspace(project, {"security": {"folderTrust": {"enabled": False}}, "model": {"name": "m"}})
    assert opened(project, trusted=False).settings.model.name is None
    user(home, {"security": {"folderTrust": {"enabled": False}}})
    assert opened(project, trusted=False).settings.model.name == "m"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{\n "model": {\n  "maxSessionTurns": "ten"}}', ":3: model.maxSessionTurns: it has to be a whole number, not a text"),
        ('{\n\n "tools": {"core": [1]}}', ":3: tools.core[0]: it has to be a text, not a whole number"),
        ('{"tools": {"exclude":\n{"a": 1}}}', ":2: tools.exclude: it has to be a list, not an object"),
        ('{"tools":\n true}', ":2: tools: it has to be an object, not true or false"),
        ('{"general":\n{"defaultApprovalMode":\n"yolo"}}', "Write default, auto_edit or plan"),
        ('[1]', "it has to be an object, not a list"),
        ('{"model": {\n', "not valid JSON"),
        ('{\n"excludeTools": 7}', ":2: tools.exclude: it has to be a list"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_used_ends_with_its_line_and_a_remedy(
    home: Path, project: Path, text: str, said: str
) -> None:
    for file in (user(home, text), workspace(project, text)):
        with pytest.raises(ConfigError) as caught:
            opened(project)
        message = str(caught.value)
        assert str(file) in message
        assert said in message
        assert caught.value.remedy
        assert caught.value.exit_code == 52
        file.unlink()


def test_what_only_looks_like_a_nul_or_costs_only_itself_is_taken(
    home: Path, project: Path
) -> None:
    hooks = '{"SessionStart": [{"hooks": [{"type": "command", "command": "a\\u0000"}]}]}'
    servers = '{"a": {"command": "\\u0000"}}'
    text = f'{{"policyPaths": ["C:\\\\u0000"], "hooks": {hooks}, "mcpServers": {servers}}}'
    user(home, text)
    assert opened(project).settings.policy_paths == ("C:\\u0000",)


def test_all_wrong_values_of_a_file_are_told_at_once(home: Path, project: Path) -> None:
    user(home, '{"model": {"name": [],\n"maxSessionTurns": "x"},\n"output": {"format": "xml"}}')
    with pytest.raises(ConfigError) as caught:
        opened(project)
    message = str(caught.value)
    assert ":1: model.name" in message
    assert ":2: model.maxSessionTurns" in message
    assert ":3: output.format" in message


def test_a_restriction_that_cannot_be_read_is_never_left_out(home: Path, project: Path) -> None:
    user(home, {"tools": {"exclude": ["glob"]}, "excludeTools": "web_fetch"})
    assert opened(project).settings.tools.exclude == ("glob", "web_fetch")
    for bad in (
        {"tools": {"exclude": ["glob"]}, "excludeTools": 7},
        {"tools": {"exclude": 7}, "excludeTools": ["glob"]},
    ):
        user(home, bad)
        with pytest.raises(ConfigError, match=r"tools\.exclude"):
            opened(project)
    user(home, {"security": {"disableYoloMode": "indeed"}})
    with pytest.raises(ConfigError, match="disableYoloMode"):
        opened(project)


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ({"ui": {"hideFooter": "perhaps"}}, "ui.hideFooter"),
        ({"ui": "dark"}, "ui"),
        ({"general": {"notificationMethod": "pigeon"}}, "general.notificationMethod"),
        ({"context": {"importFormat": 3}}, "context.importFormat"),
        ({"tools": {"truncateToolOutputThreshold": [1]}}, "tools.truncateToolOutputThreshold"),
    ],
)
def test_a_wrong_value_of_looks_or_comfort_is_a_warning_and_the_default_holds(
    home: Path, project: Path, value: dict[str, Any], key: str
) -> None:
    for write_to, place_of_it in ((user, home), (workspace, project)):
        file = write_to(place_of_it, value)
        place = opened(project)
        (warning,) = place.warnings
        assert warning.startswith(f"{file}:1: {key}: ")
        assert ", so it is ignored. " in warning
        default = Settings()
        assert place.settings.ui.hide_footer is False
        assert place.settings.general == default.general
        assert place.settings.context == default.context
        assert place.settings.tools == default.tools
        file.unlink()


@pytest.mark.parametrize(
    "value",
    [
        {"security": {"disableAlwaysAllow": "perhaps"}},
        {"telemetry": {"target": "moon"}},
        {"privacy": {"usageStatisticsEnabled": []}},
        {"general": {"defaultApprovalMode": "safe"}},
        {"general": "x", "ui": "dark"},
        {"output": {"format": "xml"}},
    ],
)
def test_a_wrong_value_that_restricts_or_says_where_things_go_ends_the_run(
    home: Path, project: Path, value: dict[str, Any]
) -> None:
    user(home, value)
    with pytest.raises(ConfigError) as caught:
        opened(project)
    assert "ui" not in caught.value.message.replace("security", "")


def test_values_with_one_possible_reading_are_taken_in_every_layer(
    home: Path, project: Path
) -> None:
    user(
        home,
        {
            "model": {"maxSessionTurns": "10", "compressionThreshold": "$SHARE", "budget": None},
            "security": {"disableYoloMode": "TRUE"},
            "tools": {"exclude": "glob, run_shell_command(git push, --force)", "sandbox": None},
            "telemetry": False,
            "output": {"format": "Stream_JSON"},
            "mcpServers": {"s": {"command": "c", "args": "-p 8080", "timeout": "30000"}},
            "context": '{"includeDirectories": "more"}',
        },
    )
    workspace(project, {"tools": {"exclude": "web_fetch"}, "model": {"maxSessionTurns": 5.0}})
    found = opened(project, SHARE="0.7").settings
    assert found.model.max_session_turns == 5
    assert found.model.compression_threshold == 0.7
    assert found.security.disable_yolo_mode is True
    assert found.tools.exclude == ("glob", "run_shell_command(git push, --force)", "web_fetch")
    assert found.telemetry.enabled is False
    assert found.output.format == "stream-json"
    assert found.mcp_servers["s"]["args"] == ["-p", "8080"]
    assert found.mcp_servers["s"]["timeout"] == 30000
    assert found.context.include_directories == ("more",)


def test_unknown_keys_are_kept_and_told_of_once_with_what_was_meant(
    home: Path, project: Path
) -> None:
    file = user(
        home,
        '{\n"tools": {"exlude": ["a"]},\n"maxAttempts": 3, "mine": {"a": {"b": 1}},\n"modle": {"name": "m"}, "autoAccept": true}',
    )
    place = opened(project)
    (restricting,) = place.warnings
    assert restricting.startswith(str(file))
    assert "tools.exlude (line 2; did you mean tools.exclude?)" in restricting
    (warning,) = place.remarks
    assert "maxAttempts (line 3; did you mean general.maxAttempts?)" in warning
    assert "modle (line 4; did you mean model?)" in warning
    assert "autoAccept" not in warning
    assert "mine (line 3)" in warning
    assert place.layers[0].document["mine"] == {"a": {"b": 1}}


@pytest.mark.parametrize(
    "document", [{"budget": {"maxCost": 0.2}}, {"model": {"bugdet": {"maxCost": 0.2}}}]
)
def test_a_start_names_a_budget_that_limits_nothing(
    home: Path, project: Path, document: dict[str, Any]
) -> None:
    user(home, document)
    (warning,) = opened(project).warnings
    assert "did you mean model.budget?" in warning


def test_a_start_says_nothing_of_looks_and_old_keys_and_checking_does(
    home: Path, project: Path, server: ScriptedServer
) -> None:
    user(
        home,
        {
            "tools": {"allowed": ["run_shell_command(npx)"], "autoAccept": True},
            "selectedAuthType": "gemini-api-key",
            "modle": {"name": "m"},
            "ui": {"sparkles": True},
            "experimental": {"rainbow": 1},
        },
    )
    comfort = {"vimMode": True, "preferredEditor": "vim", "enableNotifications": True}
    looks = {"ui": {"theme": "GitHub"}, "ide": {"enabled": True}, "general": comfort}
    workspace(project, looks)
    server.reply(sse(text("fine")))
    ran = alhena("-p", "hi", "--skip-trust", **keyed(server))
    assert (ran.code, ran.err) == (0, "")
    checked = alhena("settings", "check", "--skip-trust").out
    assert "modle" in checked
    assert "allows nothing" in checked
    assert "not taken from a workspace: ui.theme" in checked
    workspace(project, {"ui": {"theme": "x"}, "tools": {"allowed": ["glob"]}})
    (warning,) = opened(project).warnings
    assert "tools.allowed" in warning


def test_many_unknown_keys_make_one_short_warning(home: Path, project: Path) -> None:
    user(home, {f"key{number}": number for number in range(500)})
    place = opened(project)
    (warning,) = place.remarks
    assert place.warnings == ()
    assert "and 490 more" in warning
    assert len(warning) < 1000


def test_a_restriction_that_is_not_supported_is_said_to_be_none(home: Path, project: Path) -> None:
    user(home, {"security": {"toolSandboxing": True, "enableConseca": False}})
    (warning,) = opened(project).warnings
    assert "security.toolSandboxing" in warning
    assert "restricts nothing" in warning


def test_settings_with_every_key_of_the_reference_work_unchanged(home: Path, project: Path) -> None:
    text = (DATA / "every_key.json").read_text(encoding="utf-8")
    user(home, text)
    place = opened(project, GITHUB_TOKEN="t-1")
    assert place.warnings == ()
    assert {"ui.useAlternateBuffer", "ui.showLineNumbers"} < set(place.idle)
    assert all(is_reference_key(key) and key not in known_keys() for key in place.idle)
    assert "$schema" not in place.idle
    assert [note.count(", ") for note in place.notes] == [len(place.idle) - 1]
    found = place.settings
    assert found.model.name == "gemini-2.5-flash"
    assert found.context.file_names == ("AGENTS.md", "GEMINI.md")
    assert found.tools.core == ("ReadFileTool", "LSTool", "run_shell_command(git status)")
    assert (found.tools.discovery_command, found.tools.exclude) == ("bin/get_tools", ("web_fetch",))
    assert found.mcp.allowed == ("github", "docs")
    assert found.mcp_servers["github"]["env"] == {"GITHUB_TOKEN": "t-1"}
    assert found.mcp_servers["docs"]["headers"] == {"Authorization": "Bearer none"}
    assert found.hooks["BeforeTool"][0]["hooks"][0]["command"] == "$HOME/bin/lint.sh"
    assert found.security.auth.selected_type == "gemini-api-key"
    document = json.loads(strip_comments(text))
    assert all(is_reference_key(".".join(path)) for path in unused_keys(document))
    kept = place.layers[0].document
    assert {**kept, "mcpServers": 0} == {**document, "mcpServers": 0}


def test_the_sample_has_every_key_that_is_used_and_the_reference_knows() -> None:
    def leaves(value: object, prefix: str = "") -> set[str]:
        if not isinstance(value, dict) or prefix in known_keys():
            return {prefix}
        return {
            leaf
            for name, each in value.items()
            for leaf in leaves(each, f"{prefix}.{name}".strip("."))
        }

    document = json.loads(strip_comments((DATA / "every_key.json").read_text(encoding="utf-8")))
    assert known_keys() & REFERENCE_KEYS <= leaves(document)
    assert len(leaves(document)) > 200


def test_the_settings_of_a_place_are_those_of_its_document(home: Path, project: Path) -> None:
    user(home, {"general": {"maxAttempts": 3}})
    place = opened(project)
    assert msgspec.to_builtins(place.settings)["general"]["maxAttempts"] == 3


@pytest.mark.parametrize("depth", [50, 5_000, 400_000])
def test_a_file_that_is_nested_without_end_is_named(home: Path, project: Path, depth: int) -> None:
    user(home, '{"mine": ' * depth + "1" + "}" * depth)
    if depth == 50:
        assert len(opened(project).remarks) == 1
        return
    with pytest.raises(ConfigError, match=r"nested too deeply|larger than"):
        opened(project)
    user(home, '{"mine": ' + "[" * depth + "]" * depth + "}")
    with pytest.raises(ConfigError, match=r"nested too deeply|larger than"):
        opened(project)


def test_what_is_no_file_is_not_waited_for(home: Path, project: Path) -> None:
    file = user(home, {})
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(ConfigError, match="not a regular file"):
        opened(project)
    file.unlink()
    workspace(project, {}).unlink()
    os.mkfifo(project / ".gemini" / "settings.json")
    os.mkfifo(project / ".env")
    with pytest.raises(ConfigError, match="not a regular file"):
        opened(project)
    assert opened(project, trusted=False).settings == Settings()


def large(members: int) -> str:
    return (
        "{" + ",\n".join(f'"k{number}": {{"a": [{{"b": 1}}]}}' for number in range(members)) + "}"
    )


def test_a_large_file_is_read_and_told_of_at_once(home: Path, project: Path) -> None:
    """A line for each of many keys, or what was meant by each, would take longer than a test may."""
    user(home, large(15_000))
    (warning,) = opened(project).remarks
    assert "and 14,990 more" in warning
    assert "k9 (line 10)" in warning
    user(home, {"output": {"format": "x" * 900_000}})
    with pytest.raises(ConfigError) as caught:
        opened(project)
    assert len(str(caught.value)) < 1000


def test_variables_do_not_fill_the_memory(home: Path, project: Path) -> None:
    user(home, {"mcpServers": {"s": {"args": ["$BIG" * 100] * 2_000}}})
    args = opened(project, BIG="x" * 50_000).settings.mcp_servers["s"]["args"]
    assert sum(map(len, args)) < 6_000_000
    assert args[-1] == "$BIG" * 100
