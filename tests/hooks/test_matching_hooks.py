import time

import pytest

from alhena.hooks.model import HookEvent, HookSource, OnFailure
from alhena.hooks.planning import matches, plan
from tests.hooks.kit import Heard, group, hook
from tests.support.each import for_each

BEFORE = HookEvent.BEFORE_TOOL


@for_each(
    ("matcher", "name", "means_it"),
    [
        ("", "write_file", True),
        ("*", "write_file", True),
        ("write_file", "write_file", True),
        ("write_file", "my_write_file_too", False),  # the name of a tool means that tool
        ("write", "write_file", True),  # what is the name of none is looked for anywhere
        ("write|read", "read_many_files", True),
        ("^write$", "write_file", False),
        (".*_file", "read_file", True),
        ("mcp_.*", "write_file", False),
        ("[", "write_file", False),
        ("[", "[", True),
        ("(" * 3000, "write_file", False),
    ],
)
def test_a_matcher_of_tools(matcher: str, name: str, means_it: bool):
    assert matches(BEFORE, matcher, (name,), Heard.is_tool) is means_it


def test_every_name_of_a_tool_counts():
    names = ("edit", "replace", "EditTool")
    for matcher in ("replace", "edit", "EditTool"):
        assert matches(BEFORE, matcher, names, Heard.is_tool)


@pytest.mark.parametrize(
    "event", [HookEvent.SESSION_START, HookEvent.SESSION_END, HookEvent.PRE_COMPRESS]
)
def test_a_trigger_is_matched_whole(event: HookEvent):
    assert matches(event, "startup", ("startup",))
    assert not matches(event, "start", ("startup",))
    assert not matches(event, ".*", ("startup",))
    assert matches(event, "", ("startup",))


@pytest.mark.parametrize(
    "event", [HookEvent.BEFORE_AGENT, HookEvent.NOTIFICATION, HookEvent.BEFORE_MODEL]
)
def test_other_events_have_no_matcher(event: HookEvent):
    assert matches(event, "whatever", ())


def test_a_pattern_that_does_not_end_counts_as_a_match_in_bounded_time():
    start = time.thread_time()
    assert matches(BEFORE, "(a|aa)+$", ("a" * 60 + "!",))
    assert time.thread_time() - start < 2


def test_the_order_is_that_of_the_sources():
    groups = [
        group(BEFORE, hook(source.value, source=source))
        for source in (
            *(HookSource.EXTENSION, HookSource.SYSTEM, HookSource.USER),
            *(HookSource.PROJECT, HookSource.RUNTIME),
        )
    ]
    found = plan(BEFORE, ("x",), groups).heard
    assert [each.command for each, _ in found] == [
        "runtime",
        "project",
        "user",
        "system",
        "extension",
    ]


def test_the_same_hook_runs_once_and_as_strictly_as_it_is_written_anywhere():
    twice = [
        group(BEFORE, hook("c", name="n", timeout_ms=5, source=HookSource.PROJECT)),
        group(
            BEFORE,
            hook("c", name="n", timeout_ms=9, on_failure=OnFailure.BLOCK, source=HookSource.SYSTEM),
        ),
    ]
    ((found, _),) = plan(BEFORE, ("x",), twice).heard
    assert (found.timeout_ms, found.on_failure) == (9, OnFailure.BLOCK)


def test_another_name_command_or_environment_is_another_hook():
    many = group(
        BEFORE, hook("c"), hook("c", name="n"), hook("d"), hook("c", env={"A": "1"}), hook("c")
    )
    assert len(plan(BEFORE, ("x",), [many]).heard) == 4


def test_a_sequential_group_counts_only_when_it_is_meant():
    groups = [group(BEFORE, "a"), group(BEFORE, "b", matcher="other", sequential=True)]
    assert not plan(BEFORE, ("write_file",), groups).sequential
    assert plan(BEFORE, ("other",), groups).sequential


NAMES = ("search_file_content", "grep_search", "ripGrep")


@pytest.mark.parametrize(
    ("matchers", "known"),
    [
        (("",), NAMES),
        (("*",), NAMES),
        (("grep_search",), ("grep_search",)),
        (("^grep",), ("grep_search",)),
        (("search",), ("search_file_content", "grep_search")),
        (("ripGrep", "grep_search"), ("ripGrep", "grep_search")),
    ],
)
def test_a_hook_knows_a_tool_by_the_names_that_its_matchers_mean(
    matchers: tuple[str, ...], known: tuple[str, ...]
):
    groups = [group(HookEvent.BEFORE_TOOL, "x", matcher=matcher) for matcher in matchers]
    ((_, names),) = plan(HookEvent.BEFORE_TOOL, NAMES, groups, lambda name: name in NAMES).heard
    assert names == known
