"""Selection of the checkers for a call."""

from pathlib import Path
from typing import Any

import pytest

from alhena.policy.load import load_text
from alhena.policy.model import PolicyCall, Tier
from alhena.policy.safety_checks import CheckerSelection
from tests.policy.safety.kit import call, checkers, context, external

SHELL = "run_shell_command"


def active(*tables: str, asked: PolicyCall | None = None, **circumstances: Any) -> list[str]:
    found = CheckerSelection(checkers(*tables)).active(
        asked or call(), context(Path.cwd(), **circumstances)
    )
    return [checker.name for checker in found]


def command(text: str) -> PolicyCall:
    return call(SHELL, command=text)


@pytest.mark.requirement("POL-10")
def test_without_conditions_a_checker_is_for_every_call_in_every_mode() -> None:
    for mode in ("default", "autoEdit", "yolo", "plan"):
        for person in (True, False):
            assert active(external("a"), mode=mode, person=person) == ["a"]
    for asked in (call("read_file"), command("ls; x $(y"), call("t", server="s"), command("")):
        assert active(external("a"), asked=asked) == ["a"]


def test_a_checker_is_for_what_its_conditions_say() -> None:
    both = (external("a", toolName='"write_file"'), external("b", toolName='["x", "replace"]'))
    assert active(*both) == ["a"]
    assert active(*both, asked=call("replace")) == ["b"]
    assert active(*both, asked=call("read_file")) == []
    pattern = external("a", toolName='"write_file"', argsPattern="""'"file_path":"src/'""")
    assert active(pattern, asked=call(file_path="src/a")) == ["a"]
    assert active(pattern, asked=call(file_path="b")) == []
    only = external("a", modes='["yolo"]', interactive="false")
    assert active(only, mode="yolo", person=False) == ["a"]
    assert active(only, mode="yolo", person=True) == []
    assert active(only, mode="default", person=False) == []
    server = external("a", mcpName='"jira"')
    assert active(server, asked=call("search", server="jira")) == ["a"]
    assert active(server, asked=call("search", server="wiki")) == []


def test_a_pattern_that_runs_out_of_time_counts_as_matching() -> None:
    pattern = r"(?:(?:a+)+)+\d(?:b+)+$|^.*(?:(?:[ac]+)*[ab]*)*d$"
    slow = external("a", toolName='"write_file"', argsPattern=f"'{pattern}'")
    assert active(slow, asked=call(content="a" * 4000 + "b")) == ["a"]


@pytest.mark.parametrize(
    "text",
    ["git push", "git -C . push", "ls && git push -f", "env X=1 git push", "sh -c 'git push'",
     "$(git push)", "$X push"],
)  # fmt: skip
def test_a_command_counts_however_it_is_written_and_also_when_it_is_not_certain(text: str) -> None:
    assert active(external("a", commandPrefix='"git push"'), asked=command(text)) == ["a"]


@pytest.mark.parametrize("text", ["git status", "ls", "echo git push"])
def test_another_command_is_not_checked(text: str) -> None:
    assert active(external("a", commandPrefix='"git push"'), asked=command(text)) == []


@pytest.mark.requirement("POL-10")
def test_the_strongest_is_first_by_tier_and_priority_and_equals_as_they_were_read() -> None:
    user = checkers(
        external("low", priority="1"),
        external("first", priority="5"),
        external("second", priority="5"),
        external("high", priority="999"),
        external("none"),
    )
    admin = load_text(external("admin"), file="a.toml", tier=Tier.ADMIN).checkers
    found = CheckerSelection((*user, *admin)).active(call(), context(Path.cwd()))
    names = [checker.name for checker in found]
    assert names == ["admin", "high", "first", "second", "low", "none"]
