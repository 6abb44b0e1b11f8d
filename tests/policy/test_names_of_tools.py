"""The names of built-in tools in rules and settings: one resolution, in any spelling."""

import json
from pathlib import Path

import pytest

from alhena.tools.registry import ALIASES, BUILT_IN, ToolRegistry, resolve_name, select_tools
from tests.scheduler.kit import SmallTool
from tests.support.command import alhena
from tests.support.each import for_each

SPELLINGS = {
    "write_file": ("WriteFile", "WRITE_FILE", "_write_file"),
    "read_many_files": ("ReadManyFiles", "read-many-files"),
    "search_file_content": ("GREP_SEARCH", "SearchText"),
    "list_directory": ("LS", "ReadFolder"),
    "glob": ("FindFiles", "Glob"),
    "replace": ("Edit",),
    "google_web_search": ("GoogleSearch", "WebSearch"),
    "run_shell_command": ("Shell", "RunShellCommand"),
}
ARGS = json.dumps({"file_path": "a", "command": "make"})


def explain_tool(*more: str, tool: str) -> str:
    ran = alhena("policy", "explain", "--tool", tool, "--args", ARGS, "--json", *more)
    assert (ran.code, ran.err) == (0, "")
    return json.loads(ran.out)["decision"]


@pytest.mark.requirement("POL-05")
@for_each(("tool", "spelled"), [(tool, each) for tool, all_ in SPELLINGS.items() for each in all_])
def test_a_rule_and_a_call_may_spell_a_built_in_tool_in_any_way(
    tool: str, spelled: str, home: Path, project: Path
) -> None:
    policies = home / ".gemini" / "policies"
    policies.mkdir(parents=True, exist_ok=True)
    rule = f'[[rule]]\ntoolName = "{spelled}"\ndecision = "deny"\npriority = 500\n'
    (policies / "own.toml").write_text(rule, encoding="utf-8")
    assert explain_tool(tool=tool) == "deny"
    assert explain_tool(tool=spelled) == "deny"
    (policies / "own.toml").write_text("", encoding="utf-8")
    assert explain_tool("--allowed-tools", spelled, tool=tool) == "allow"
    if spelled != SPELLINGS[tool][0]:
        return
    for key, decision in (("exclude", "deny"), ("confirmationRequired", "ask_user")):
        settings = home / ".gemini" / "settings.json"
        settings.write_text(json.dumps({"tools": {key: [spelled]}}), encoding="utf-8")
        assert explain_tool("--mode", "yolo", tool=tool) == decision
    settings.write_text(json.dumps({"tools": {"core": [spelled]}}), encoding="utf-8")
    assert explain_tool("--allowed-tools", tool, tool=tool) == "allow"
    settings.unlink()


def test_a_prefix_may_be_given_to_any_spelling_of_the_shell(home: Path) -> None:
    for name in ("Shell", "RunShellCommand", "shelltool"):
        assert explain_tool("--allowed-tools", f"{name}(make)", tool="run_shell_command") == "allow"


def test_every_name_resolves_to_a_built_in_tool_and_others_stay_as_they_are() -> None:
    for name in (*ALIASES, *BUILT_IN):
        assert resolve_name(name) == ALIASES.get(name, name)
        assert resolve_name(name.upper()) == ALIASES.get(name, name)
    assert resolve_name("frobnicate") == "frobnicate"


def test_excluded_tools_and_those_of_an_agent_may_be_spelled_in_any_way() -> None:
    for spelled in ("ReadFile", "READ_FILE", "_read_file", "Read File"):
        registry = ToolRegistry([SmallTool("read_file")])
        assert select_tools(registry, [spelled]).names == ("read_file",)
        registry.exclude([spelled])
        assert registry.names == ()
