"""Of random bash, what the engine allows runs nothing else and changes nothing."""

import random
import shlex
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from alhena.policy.engine import decide
from alhena.policy.model import Decision, PolicyCall, PolicyContext, PolicyRule
from alhena.policy.surroundings import DirectorySurroundings
from tests.policy.jail import Jail, Ran, needs_bash
from tests.policy.random_bash import BAD, FILES, GOOD, REAL, SAYS, RandomBash
from tests.policy.support import ALLOW, SHELL, YOLO, rules, shell_rule

PREFIXES = rules(
    shell_rule(
        "allow",
        commandPrefix=["good1", "good2", "sort", "find", "grep", "git status", "git log"],
    )
)
READ_ONLY = rules(
    shell_rule("allow", commandPrefix=["good1", "good2"]),
    shell_rule("allow", commandClass="read-only"),
)
WITHOUT_BAD = rules(shell_rule("deny", 999, commandPrefix="bad1"), YOLO)
GUARDED = {"sort", "find", "git"}
"""Programs to which an option that no rule foresaw may do harm."""

COMMANDS = st.composite(lambda draw: RandomBash(lambda n: draw(st.integers(0, n - 1))).line())()
FILES_HERE = {name.partition("/")[0] for name in FILES}
quietly = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.fixture(scope="module")
def jail() -> Iterator[Jail]:
    with Jail(FILES, [*GOOD, *BAD], REAL, SAYS) as made:
        yield made


def judged(jail: Jail, given_rules: tuple[PolicyRule, ...], command: str) -> Decision:
    context = PolicyContext(surroundings=DirectorySurroundings(jail.work, trusted=True))
    return decide(PolicyCall(names=(SHELL,), args={"command": command}), given_rules, context)


def run_if_allowed(jail: Jail, given_rules: tuple[PolicyRule, ...], command: str) -> Ran | None:
    """Effects of a command in bash, if the rules allow it; else None."""
    allowed = "\0" not in command and judged(jail, given_rules, command).outcome is ALLOW
    event(f"allowed: {allowed}")
    return jail.run(command, seconds=2) if allowed else None


def check_that_only_good_ran(jail: Jail, given_rules: tuple[PolicyRule, ...], ran: Ran) -> None:
    assert ran.programs <= set(GOOD)
    assert ran.changes == ()
    for call in ran.calls:
        plain = shlex.join(call)
        if call[0] in GUARDED and plain.isprintable():
            assert judged(jail, given_rules, plain).outcome is ALLOW, plain


@needs_bash
@quietly
@given(COMMANDS)
@example("find -*")
@example("good1 $(good2 <(good1)) | good2 >/dev/null 2>&1 && ! good1")
def test_what_prefixes_allow_runs_only_what_they_name(jail: Jail, command: str) -> None:
    ran = run_if_allowed(jail, PREFIXES, command)
    if ran is not None:
        check_that_only_good_ran(jail, PREFIXES, ran)


@needs_bash
@quietly
@given(COMMANDS)
@example("sort -- * | grep -n x ./*")
@example("cd src && git status; cd ../sub; git log")
def test_what_is_allowed_as_reading_only_reads(jail: Jail, command: str) -> None:
    ran = run_if_allowed(jail, READ_ONLY, command)
    if ran is not None:
        check_that_only_good_ran(jail, READ_ONLY, ran)


@needs_bash
@quietly
@given(COMMANDS)
@example("echo $(('$(bad1)'+1))")
@example("a[ '$(bad1)' ]=1")
@example("good1 <<E\n`bad1`\nE\n")
def test_a_denied_program_does_not_run_where_all_else_is_allowed(jail: Jail, command: str) -> None:
    ran = run_if_allowed(jail, WITHOUT_BAD, command)
    assert ran is None or "bad1" not in ran.programs


def test_a_fair_share_of_random_bash_is_allowed_and_a_fair_share_is_not(jail: Jail) -> None:
    dice = random.Random(7)
    lines = [RandomBash(dice.randrange).line() for _ in range(500)]
    for given_rules in (PREFIXES, READ_ONLY, WITHOUT_BAD):
        allowed = sum(judged(jail, given_rules, line).outcome is ALLOW for line in lines)
        assert len(lines) * 0.1 < allowed < len(lines) * 0.9


@needs_bash
def test_the_jail_sees_programs_files_and_what_does_not_end(jail: Jail) -> None:
    assert jail.run("env good1 'a b' & bash -c bad2").calls == (("bad2",), ("good1", "a b"))
    assert jail.run(": >new; rm a; : >>a; echo >b.txt").changes[-1].endswith("work/new")
    assert jail.run("good1 *").calls[0][1:] == tuple(sorted(FILES_HERE))
    assert not jail.run("until good1 && false; do :; done", seconds=0.2).ended
    assert jail.run(":").calls == ()
