"""The settings that Gemini CLI 0.21 documents: each has an effect here, or is listed as without."""

import json
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from alhena.config.checking import unused_keys
from alhena.config.documents import with_value
from alhena.config.reference_keys import MOVED, TRANSLATED, WITHOUT_EFFECT, known_keys
from alhena.frontends.terminal.completion.completer import PromptCompleter
from alhena.frontends.terminal.completion.file_index import FileIndex
from alhena.frontends.terminal.console import editor_command
from alhena.frontends.terminal.looks.theme import custom_theme, theme_named
from alhena.models.catalogue import model_info, stable_name
from tests.config.places import opened, user, write
from tests.support.command import alhena, keyed
from tests.support.server import ScriptedServer, call, chunk, json_reply, sse, text

KEYS = (Path(__file__).parent / "data" / "reference_0.21_settings.txt").read_text().split()
DOCS = (Path(__file__).parents[2] / "docs" / "settings.md").read_text()


@pytest.mark.requirement("WORLD-04")
def test_all_but_fifteen_have_an_effect_and_those_are_listed() -> None:
    assert len(KEYS) > 100
    assert len(WITHOUT_EFFECT) <= 15
    every = known_keys() | MOVED.keys() | TRANSLATED.keys()
    idle = {
        key for key in KEYS if not any(each == key or each.startswith(f"{key}.") for each in every)
    }
    assert idle == WITHOUT_EFFECT & set(KEYS)
    listed = DOCS[DOCS.index("Without effect:") : DOCS.index("## Environment")]
    assert all(f"`{key}`" in listed for key in WITHOUT_EFFECT)


@pytest.mark.parametrize("key", sorted(TRANSLATED))
def test_a_key_with_a_counterpart_is_not_named_as_unused(key: str) -> None:
    assert list(unused_keys(with_value({}, tuple(key.split(".")), True))) == []


@pytest.mark.requirement("WORLD-04")
@pytest.mark.parametrize(
    ("document", "found"),
    [
        (
            {"tools": {"enableToolOutputTruncation": "false"}},
            ("tools", "truncate_tool_output_threshold", 0),
        ),
        (
            {"tools": {"enableToolOutputTruncation": True}},
            ("tools", "truncate_tool_output_threshold", 40_000),
        ),
        (
            {"useWriteTodos": False, "excludeTools": "glob"},
            ("tools", "exclude", ("glob", "write_todos")),
        ),
        ({"experimental": {"enableAgents": False}}, ("agents", "enabled", False)),
        ({"tools": {"enableHooks": False}}, ("hooks_config", "enabled", False)),
    ],
)
def test_a_key_with_a_counterpart_means_it(
    document: dict[str, Any], found: tuple[str, str, object], home: Path, project: Path
) -> None:
    user(home, document)
    section, name, value = found
    place = opened(project)
    assert getattr(getattr(place.settings, section), name) == value
    assert (place.warnings, place.idle) == ((), ())


def test_the_investigators_settings_change_that_agent(home: Path, project: Path) -> None:
    own = {"enabled": True, "maxNumTurns": 7, "maxTimeMinutes": 2, "thinkingBudget": 512}
    user(home, {"experimental": {"codebaseInvestigatorSettings": {**own, "model": "auto"}}})
    settings = opened(project).settings
    override = settings.agents.overrides["codebase_investigator"]
    assert (override.run_config.max_turns, override.run_config.max_time_minutes) == (7, 2)
    assert override.model_settings.model is None
    assert settings.model_configs.overrides[0]["match"]["overrideScope"] == "codebase_investigator"
    user(home, {"experimental": {"codebaseInvestigatorSettings": {"enabled": False}}})
    assert opened(project).settings.agents.overrides["codebase_investigator"].enabled is False


def test_without_preview_features_an_alias_means_a_stable_model() -> None:
    assert model_info(stable_name("pro")).preview is False
    assert model_info(stable_name("pro")).tier == "pro"
    assert stable_name("flash") == "gemini-3.8-flash"


def test_the_preferred_editor_comes_before_editor(tmp_path: Path) -> None:
    write(tmp_path / "code", "#!/bin/sh\n").chmod(0o755)
    environ = {"PATH": str(tmp_path), "EDITOR": "ed"}
    command = editor_command(environ, "vscode")
    assert command is not None
    assert command(Path("a"), Path("b"))[:2] == ["code", "--wait"]
    other = editor_command(environ, "neovim")
    assert other is not None
    assert other(Path("a"), Path("b"))[0] == "ed"


def test_themes_of_todays_and_older_form_are_used_by_name() -> None:
    new = {"type": "custom", "text": {"accent": "#112233"}, "background": {"primary": "#ffffff"}}
    old = {"AccentBlue": "#445566", "Background": "#000000", "Gray": "gray"}
    more = {"Mine": custom_theme(new), "old (ext)": custom_theme(old)}
    mine, theirs = theme_named("mine", more), theme_named("old (ext)", more)
    assert mine is not None
    assert theirs is not None
    assert (mine.accent, mine.light) == ("#112233", True)
    assert (theirs.accent, theirs.dim, theirs.light) == ("#445566", "ansigray", False)
    with pytest.raises(ValueError, match="nonsense"):
        custom_theme({"text": {"accent": "nonsense"}})


def test_a_theme_of_ones_own_reaches_every_colour() -> None:
    names = {
        "text": ("primary", "secondary", "link", "accent", "response"),
        "status": ("success", "warning", "error"),
        "border": ("focused",),
        "ui": ("comment", "symbol"),
    }
    colours = iter(range(1, 100))
    written: dict[str, Any] = {
        key: {each: f"#0000{next(colours):02x}" for each in each_of}
        for key, each_of in names.items()
    }
    written["background"] = {"diff": {"added": "#000100", "removed": "#000200"}}
    looks = custom_theme(written).looks
    every = [colour for key in written.values() for colour in (key.get("diff") or key).values()]
    shown = " ".join(looks.values())
    assert [colour for colour in every if colour not in shown] == []
    assert all("#" in look for name, look in looks.items() if name not in ("bold", "user"))


def test_completion_finds_files_by_letters_in_order(home: Path, project: Path) -> None:
    write(project / "src" / "deep" / "settings_file.py", "")
    index = FileIndex(project)
    index.refresh()
    index.wait()
    completer = PromptCompleter(project, index)

    def paths(word: str) -> list[str]:
        found = completer.get_completions(Document(f"@{word}"), CompleteEvent())
        return [each.text for each in found]

    assert paths("stfil") == ["src/deep/settings_file.py"]
    user(home, {"context": {"fileFiltering": {"disableFuzzySearch": True}}})
    completer.filtering = opened(project).settings.context.file_filtering
    assert paths("stfil") == []
    assert paths("ings_f") == ["src/deep/settings_file.py"]
    user(home, {"fileFiltering": {"enableRecursiveFileSearch": False}})
    completer.filtering = opened(project).settings.context.file_filtering
    assert paths("ings_f") == []
    assert paths("sr") == ["src/"]


def run(server: ScriptedServer, *calls: dict[str, Any]) -> str:
    """A run in which the model makes these calls; the results it gets."""
    server.reply(sse(chunk(*calls, finish="STOP")))
    server.reply(sse(text("done")))
    ran = alhena("-y", "--skip-trust", "-p", "go", **keyed(server))
    assert ran.code == 0, ran.err
    return json.dumps(server.requests[-1].json["contents"][-1])


@pytest.mark.requirement("WORLD-04")
def test_the_tools_follow_the_ignore_settings(
    home: Path, project: Path, server: ScriptedServer
) -> None:
    write(project / ".gitignore", "*.log\n")
    write(project / "a.log", "needle\n")
    write(project / ".git" / "HEAD", "ref: refs/heads/main\n")
    calls = (
        call("glob", {"pattern": "*.log"}),
        call("list_directory", {"path": "."}),
        call("search_file_content", {"pattern": "needle"}),
    )
    assert "a.log" not in run(server, *calls)
    user(home, {"context": {"fileFiltering": {"respectGitIgnore": False}}})
    assert run(server, *calls).count("a.log") >= 3


def test_commands_get_the_pager_and_no_colours(home: Path, server: ScriptedServer) -> None:
    user(home, {"tools": {"shell": {"pager": "less -F", "showColor": False}}})
    shown = run(server, call("run_shell_command", {"command": "echo $GIT_PAGER:$NO_COLOR"}))
    assert "less -F:1" in shown


def test_a_truncated_result_has_the_lines_that_were_asked_for(
    home: Path, server: ScriptedServer
) -> None:
    user(home, {"tools": {"truncateToolOutputThreshold": 1_000, "truncateToolOutputLines": 10}})
    got = run(server, call("run_shell_command", {"command": "seq 1 2000"}))
    assert "\\n2000" in got
    assert "\\n1990" not in got
    assert "characters omitted" in got


def test_long_results_of_commands_are_summarised(home: Path, server: ScriptedServer) -> None:
    user(home, {"model": {"summarizeToolOutput": {"run_shell_command": {"tokenBudget": 20}}}})
    server.reply(sse(chunk(call("run_shell_command", {"command": "seq 1 99"}), finish="STOP")))
    server.reply(json_reply(text("ninety-nine numbers")))
    server.reply(sse(text("done")))
    alhena("-y", "--skip-trust", "-p", "go", **keyed(server))
    assert "seq 1 99" in json.dumps(server.requests[1].json)
    assert "ninety-nine numbers" in json.dumps(server.requests[-1].json["contents"][-1])


def test_an_answer_that_the_model_calls_incomplete_is_continued(
    home: Path, server: ScriptedServer
) -> None:
    user(home, {"model": {"skipNextSpeakerCheck": False}})
    server.reply(sse(text("I will now read it.")))
    server.reply(json_reply(text('{"next_speaker": "model"}')))
    server.reply(sse(text("It says so.")))
    server.reply(json_reply(text('{"next_speaker": "user"}')))
    ran = alhena("-p", "go", **keyed(server))
    assert ran.out.strip().endswith("It says so.")
    assert "Please continue." in json.dumps(server.requests[2].json["contents"][-1])


def test_extensions_are_off_by_name_or_altogether(home: Path) -> None:
    folder = home / ".gemini" / "extensions" / "demo"
    write(folder / "gemini-extension.json", {"name": "demo", "version": "1"})
    assert "- demo" in alhena("-l").out
    user(home, {"extensions": {"disabled": ["Demo"]}})
    assert "No extensions" in alhena("-l").out
    assert "extensions.disabled names it" in alhena("extensions", "list").out
    user(home, {"extensionManagement": False})
    assert "No extensions" in alhena("-l").out
    assert alhena("extensions", "new", "x").code == 0
    refused = alhena("extensions", "install", str(folder), "--consent")
    assert "experimental.extensionManagement" in refused.err


def test_ipv4_addresses_can_come_first(home: Path, server: ScriptedServer) -> None:
    user(home, {"advanced": {"dnsResolutionOrder": "ipv4first"}})
    server.reply(sse(text("fine")))
    url = server.url.replace("127.0.0.1", "localhost")
    ran = alhena("-p", "hi", **{**keyed(server), "GOOGLE_GEMINI_BASE_URL": url})
    assert ran.out.strip() == "fine"
