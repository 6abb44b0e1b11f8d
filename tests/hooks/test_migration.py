import json
from pathlib import Path
from typing import Any

import pytest

from alhena.hooks.load import HookDocument, load_hooks
from alhena.hooks.migration import migrate_hooks
from alhena.hooks.model import HookSource
from tests.config.places import workspace, write
from tests.support.command import alhena


def claude(event: str, matcher: str | None = None, **hook: Any) -> dict[str, Any]:
    group: dict[str, Any] = {"hooks": [{"type": "command", "command": "check", **hook}]}
    return {"hooks": {event: [group if matcher is None else {"matcher": matcher, **group}]}}


@pytest.mark.parametrize(
    ("event", "matcher", "ours", "tools"),
    [
        ("PreToolUse", "Edit|Write", "BeforeTool", "replace|write_file"),
        ("PreToolUse", "Bash", "BeforeTool", "run_shell_command"),
        ("PostToolUse", "mcp__github__.*", "AfterTool", "github__.*"),
        ("PostToolUse", "Read", "AfterTool", "read_file|read_many_files"),
        ("UserPromptSubmit", None, "BeforeAgent", None),
        ("Stop", None, "AfterAgent", None),
        ("SubagentStop", None, "AfterAgent", None),
        ("SessionStart", "startup", "SessionStart", "startup"),
        ("PreCompact", "manual", "PreCompress", "manual"),
        ("PreToolUse", "*", "BeforeTool", None),
    ],
)
def test_events_and_matchers_get_our_names(
    event: str, matcher: str | None, ours: str, tools: str | None
) -> None:
    found = migrate_hooks(claude(event, matcher))
    assert found.left_out == ()
    (group,) = found.hooks[ours]
    assert group.get("matcher") == tools
    document = HookDocument(value={"hooks": found.hooks}, file="f", source=HookSource.PROJECT)
    assert load_hooks(document).problems == ()


def test_seconds_become_milliseconds_and_the_project_directory_ours() -> None:
    found = migrate_hooks(claude("Stop", command="$CLAUDE_PROJECT_DIR/x.sh", timeout=5))
    (hook,) = found.hooks["AfterAgent"][0]["hooks"]
    assert (hook["command"], hook["timeout"]) == ("$GEMINI_PROJECT_DIR/x.sh", 5000)


@pytest.mark.parametrize(
    "document", [claude("Nonsense"), claude("Stop", type="prompt"), claude("Stop", command="")]
)
def test_what_has_no_counterpart_is_named(document: Any) -> None:
    found = migrate_hooks(document)
    assert found.hooks == {}
    assert len(found.left_out) == 1


@pytest.mark.parametrize("document", [None, [], {"hooks": 1}, {"hooks": {"Stop": [1, {}]}}])
def test_odd_documents_have_no_hooks(document: Any) -> None:
    assert migrate_hooks(document).hooks == {}


def test_hooks_are_printed_first_and_added_to_those_of_the_project(project: Path) -> None:
    write(project / ".claude" / "settings.json", claude("PreToolUse", "Bash", timeout=2))
    write(project / ".claude" / "settings.local.json", claude("Stop", type="prompt"))
    own = {"hooks": {"BeforeTool": [{"hooks": [{"command": "own"}]}]}}
    file = workspace(project, "{ // mine\n" + json.dumps(own)[1:])
    asked = alhena("hooks", "migrate", "--from-claude")
    assert asked.code == 2
    assert json.loads(asked.out)["hooks"]["BeforeTool"][0]["matcher"] == "run_shell_command"
    assert "not migrated: Stop" in asked.err
    for _ in range(2):  # the second time nothing is new
        assert alhena("hooks", "migrate", "--from-claude", "--consent").code == 0
    text = file.read_text()
    assert text.startswith("{ // mine")
    listed = alhena("hooks", "list", "--skip-trust").out
    assert "own" in listed
    assert listed.count("check: untrusted") == 1
    assert alhena("hooks", "migrate").code == 2
