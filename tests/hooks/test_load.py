from typing import Any

import pytest

from alhena.hooks.load import (
    GUARDED,
    HookDocument,
    HookProblemLevel,
    LoadedHooks,
    load_hooks,
)
from alhena.hooks.model import HookDefinition, HookEvent, HookGroup, HookSource, OnFailure
from tests.support.each import for_each


def load(value: Any, source: HookSource = HookSource.USER) -> LoadedHooks:
    return load_hooks(HookDocument(value=value, file="f.json", source=source))


def one(**fields: Any) -> dict[str, Any]:
    entry = {"type": "command", "command": "true"} | fields
    return {"hooks": {"BeforeTool": [{"matcher": "edit", "hooks": [entry]}]}}


def load_problems(value: Any, source: HookSource = HookSource.USER) -> list[str]:
    return [str(problem) for problem in load(value, source).problems]


@pytest.mark.requirement("HOOK-04")
def test_a_document_of_the_reference_is_read_whole():
    loaded = load(
        {
            "hooks": {
                "BeforeTool": [
                    {
                        "matcher": "write_file|replace",
                        "sequential": True,
                        "hooks": [
                            {
                                "type": "command",
                                "command": "$GEMINI_PROJECT_DIR/check.sh",
                                "name": "check",
                                "description": "looks",
                                "timeout": 5000,
                                "env": {"A": "1"},
                                "onFailure": "block",
                            }
                        ],
                    }
                ],
                "SessionStart": [{"hooks": [{"type": "command", "command": "date"}]}],
            },
            "hooksConfig": {"enabled": True, "disabled": ["check"], "notifications": False},
            "theme": "dark",
        }
    )
    assert loaded.problems == ()
    assert loaded.disabled == {"check"}
    assert loaded.groups == (
        HookGroup(
            event=HookEvent.BEFORE_TOOL,
            matcher="write_file|replace",
            sequential=True,
            hooks=(
                HookDefinition(
                    command="$GEMINI_PROJECT_DIR/check.sh",
                    source=HookSource.USER,
                    name="check",
                    description="looks",
                    timeout_ms=5000,
                    env={"A": "1"},
                    on_failure=OnFailure.BLOCK,
                    place="f.json: hooks.BeforeTool[0].hooks[0]",
                ),
            ),
        ),
        HookGroup(
            event=HookEvent.SESSION_START,
            hooks=(
                HookDefinition(
                    command="date",
                    source=HookSource.USER,
                    place="f.json: hooks.SessionStart[0].hooks[0]",
                ),
            ),
        ),
    )


def test_a_systems_hooks_block_when_they_fail_unless_they_say_otherwise():
    (group,) = load(one(), HookSource.SYSTEM).groups
    assert group.hooks[0].on_failure is OnFailure.BLOCK
    (group,) = load(one(onFailure="warn"), HookSource.SYSTEM).groups
    assert group.hooks[0].on_failure is OnFailure.WARN


COMMAND = "f.json: hooks.BeforeTool[0].hooks[0].command is wrong: it has to be "
TIMEOUT = "f.json: hooks.BeforeTool[0].hooks[0].timeout is wrong: it has to be "


@for_each(
    ("value", "problem"),
    [
        ([1], "f.json: the document is wrong: it has to be an object, not a list. Correct it."),
        ({"hooks": [1]}, "f.json: hooks is wrong: it has to be an object or null, not a list"),
        ({"hooks": {"BeforeTool": [1]}}, "f.json: hooks.BeforeTool[0] is wrong"),
        (
            {"hooks": {"BeforeTool": [{}]}},
            "f.json: hooks.BeforeTool[0] is wrong: it has no 'hooks'",
        ),
        (one(command=""), f"{COMMAND}a text that is not empty. Correct it."),
        (one(timeout="5s"), f"{TIMEOUT}a number or null, not a text. Correct it."),
        (one(timeout=0), f"{TIMEOUT}a number of at least 1. Correct it."),
        (one(timeout=1e12), f"{TIMEOUT}a number of at most 86400000."),
        (one(timeout=float("nan")), "f.json: hooks.BeforeTool[0].hooks[0].timeout is wrong"),
        (one(timeout=True), "f.json: hooks.BeforeTool[0].hooks[0].timeout is wrong"),
        (
            one(env={"A": []}),
            "f.json: hooks.BeforeTool[0].hooks[0].env[...] is wrong: it has to be a text",
        ),
        (one(name={}), "f.json: hooks.BeforeTool[0].hooks[0].name is wrong"),
        (one(onFailure="stop"), "f.json: hooks.BeforeTool[0].hooks[0].onFailure is wrong: invalid"),
        (one(type="plugin"), "f.json: hooks.BeforeTool[0].hooks[0].type is wrong: invalid enum"),
        ({"hooks": {"beforeTool": []}}, "f.json: hooks.beforeTool is no event. The events are Be"),
        ({"hooksConfig": {"enabled": "maybe"}}, "f.json: hooksConfig.enabled is wrong"),
        ({"hooksConfig": {"disabled": [{}]}}, "f.json: hooksConfig.disabled[0] is wrong"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(value: Any, problem: str):
    found = load_problems(value)
    assert len(found) == 1, found
    assert found[0].startswith(problem), found


def test_what_is_right_beside_it_still_counts():
    value = one(timeout="x")
    value["hooks"]["BeforeTool"][0]["hooks"].append({"command": "ok"})
    value["hooks"]["AfterTool"] = [7, {"hooks": [{"command": "too"}]}]
    value["hooks"]["Nothing"] = []
    loaded = load(value)
    assert [each.command for group in loaded.groups for each in group.hooks] == ["ok", "too"]
    assert len(loaded.problems) == 3


@for_each("source", [HookSource.USER, HookSource.SYSTEM, HookSource.RUNTIME])
def test_an_unreadable_hook_of_ones_own_ends_the_run(source: HookSource):
    for bad in (one(timeout=0), one(timeout=0, onFailure="warn"), {"hooks": {"AfterTool": [7]}}):
        assert [each.weakens for each in load(bad, source).problems] == [True]
    assert load({"hooks": {"Nothing": []}}, source).problems[0].weakens is False


@for_each("source", [HookSource.EXTENSION, HookSource.PROJECT])
def test_an_unreadable_hook_of_somebody_else_blocks_in_its_place(source: HookSource):
    bad = one(timeout=0, name="check")
    bad["hooks"]["BeforeTool"][0]["matcher"] = "write_file"
    (problem,) = load(bad, source).problems
    assert (problem.weakens, problem.remedy) == (
        False,
        "Correct it; until then, what it guards is blocked.",
    )
    (group,) = load(bad, source).groups
    (hook,) = group.hooks
    assert (group.matcher, hook.name, hook.on_failure) == ("write_file", "check", OnFailure.BLOCK)
    assert hook.command.endswith(">&2; exit 2")


@for_each("value", [[1], {"hooks": 7}])
def test_in_place_of_an_unreadable_document_everything_that_hooks_guard_is_blocked(value: Any):
    groups = load(value, HookSource.EXTENSION).groups
    assert {group.event for group in groups} == GUARDED
    assert {group.matcher for group in groups} == {""}


@for_each(
    "hooks",
    [
        {"BeforeTool": {"hooks": [{"command": "c", "timeout": "5000"}]}},
        {"BeforeTool": [{"hooks": {"command": "c", "timeout": 5000.0}}]},
        {"BeforeTool": [{"matcher": None, "sequential": "false", "command": "c", "timeout": 5000}]},
        {"BeforeTool": {"command": "c", "type": "Command", "timeout": " 5000 ", "env": None}},
    ],
)
def test_a_hook_with_one_possible_reading_is_that_hook(hooks: Any):
    loaded = load({"hooks": hooks}, HookSource.EXTENSION)
    ((hook,),) = [group.hooks for group in loaded.groups]
    assert (hook.command, hook.timeout_ms, loaded.problems) == ("c", 5000, ())


def test_blanks_around_the_names_of_a_matcher_mean_nothing():
    value = one()
    for text, trimmed in [(" write_file ", "write_file"), ("ls | a.*\n|b", "ls|a.*|b"), (" ", "")]:
        value["hooks"]["BeforeTool"][0]["matcher"] = text
        assert load(value).groups[0].matcher == trimmed
        assert load(value).problems == ()


def test_a_matcher_that_is_no_pattern_is_told_and_means_that_name():
    value = one()
    value["hooks"]["BeforeTool"][0]["matcher"] = "[a"
    (problem,) = load(value).problems
    assert problem.level is HookProblemLevel.WARNING
    assert load(value).groups[0].matcher == "[a"


def test_a_misspelled_on_failure_is_a_warning():
    (problem,) = load(one(on_failure="block")).problems
    assert problem.level is HookProblemLevel.WARNING
    assert str(problem) == "f.json: hooks.BeforeTool[0].hooks[0].on_failure is not known."


def test_keys_of_others_are_notes_and_the_older_place_of_the_config_is_read():
    value = one(statusMessage="x")
    value["hooks"]["disabled"] = ["old"]
    value["hooks"]["enabled"] = False
    loaded = load(value)
    assert [each.level for each in loaded.problems] == [HookProblemLevel.NOTE]
    assert loaded.disabled == {"old"}
    assert not loaded.enabled


@pytest.mark.requirement("HOOK-04")
def test_a_hook_that_says_nothing_of_time_may_take_a_minute():
    (found,) = load(one()).groups
    assert [each.timeout_ms for each in found.hooks] == [60_000]
