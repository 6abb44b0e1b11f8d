"""Everyday commands run, adversarial ones do not; and bash agrees with what was said of them."""

import shlex
from collections.abc import Iterator

import pytest

from alhena.policy.engine import decide
from alhena.policy.model import Decision, PolicyCall, PolicyContext, PolicyOutcome
from alhena.policy.surroundings import Surroundings
from alhena.shell.parse.analysis import analyse
from tests.policy.corpus import TREE, Line, adversarial, everyday, profiles
from tests.policy.jail import Jail, needs_bash
from tests.policy.support import SHELL
from tests.support.each import for_each

EVERYDAY = everyday()
ADVERSARIAL = adversarial()
REAL = (
    "env",
    "timeout",
    "nice",
    "nohup",
    "xargs",
    "find",
    "sort",
    "cat",
    "sed",
    "awk",
    "bash",
    "sh",
)


def shown_as(line: Line) -> str:
    return f"{line.profile}: {ascii(line.command)[:60]}"


@pytest.fixture(scope="module")
def stage() -> Iterator[Jail]:
    """A workspace where every program that an everyday line names only logs its call."""
    names = {
        word.rsplit("/", 1)[-1]
        for line in EVERYDAY
        for part in analyse(line.command).parts
        for word in [part.words[0].text if part.words else ""]
    }
    with Jail(TREE, names - {"", ".", ".."}) as jail:
        yield jail


@pytest.fixture(scope="module")
def theatre() -> Iterator[Jail]:
    """A workspace where only `evil` and `npm` log, and some programs are real."""
    with Jail(TREE, ["evil", "npm", "git", "rm"], REAL) as jail:
        yield jail


def judge_line(jail: Jail, line: Line, command: str) -> Decision:
    context = PolicyContext(surroundings=Surroundings(jail.work, trusted=True))
    call = PolicyCall(names=(SHELL,), args={"command": command})
    return decide(call, profiles()[line.profile], context)


def describe_decision(line: Line, decision: Decision) -> str:
    return f"{line.command}\n  {decision.outcome}: {decision.reason}\n  parts: {decision.parts}"


@for_each("line", EVERYDAY + ADVERSARIAL)
def test_each_line_gets_its_decision(stage: Jail, line: Line) -> None:
    wanted = {"ask": PolicyOutcome.ASK_USER, "allow": PolicyOutcome.ALLOW}
    decision = judge_line(stage, line, line.command)
    assert decision.outcome is wanted.get(line.outcome, PolicyOutcome.DENY), describe_decision(
        line, decision
    )


@needs_bash
@for_each("line", EVERYDAY)
def test_of_an_allowed_line_bash_runs_only_what_is_allowed_by_itself(
    stage: Jail, line: Line
) -> None:
    ran = stage.run(line.command)
    assert ran.ended
    for call in ran.calls:
        names = "find src -name '*.py' | " if call[0] == "xargs" else ""
        decision = judge_line(stage, line, names + shlex.join(call))
        assert decision.outcome is PolicyOutcome.ALLOW, (call, decision.reason)
    written = [] if line.profile == "redirections" else list(ran.changes)
    assert written == []


@needs_bash
@for_each("line", [line for line in ADVERSARIAL if line.shown])
def test_bash_shows_what_a_line_is_suspected_of(theatre: Jail, line: Line) -> None:
    ran = theatre.run(line.command)
    assert ran.ended
    assert ran.programs & {"evil", "rm"} or ran.changes


LONG = {
    "blanks before the end": "git status" + " " * 70_000 + "; evil",
    "a long argument": "echo " + "x" * 70_000 + "; evil",
    "fifty parts": "git status; " * 50 + "evil",
    "thousands of parts": "ls;" * 20_000 + "evil",
    "thousands of words": "ls " + "a " * 30_000 + "; evil",
    "deep substitutions": "echo " + "$(echo " * 400 + "evil" + ")" * 400,
    "150 KB of substitutions": "echo " + "$(" * 75_000,
    "deep brackets": "(" * 300 + "evil" + ")" * 300,
    "deep quotes": "echo " + '"$(echo ' * 200 + "evil" + ')"' * 200,
    "deep braces": "{ " * 300 + "evil; " + "} ;" * 300,
    "deep shells": "bash -c 'bash -c " * 40 + "evil",
    "many wrappers": "env " * 5000 + "evil",
    "many documents": "cat " + "<<E " * 300 + "\n" + "$(evil)\nE\n" * 300,
    "many quotes": "echo " + "'a'\"b\"" * 9000 + "; evil",
    "a comment for each": "ls # x\n" * 3000 + "evil",
    "many backticks": "echo " + "`evil` " * 3000,
    "many arithmetics": "echo " + "$((" * 20_000,
    "a long script of sed": "sed -n '" + "p;" * 32_000 + "'",
    "deep brackets of sed": "sed -n '" + "{" * 65_000 + "'",
    "seven programs of awk": ";".join("awk '{" + f"a+b*{n};" * 1_200 + "}'" for n in range(7)),
    "a long program in a shell": "bash -c 'sed -n " + "p;" * 10_000 + "'",
    "NUL": "ls\0; evil",
    "a lone surrogate": "ls \ud800; evil",
}


@for_each("profile", ["read-only", "prefixes", "developer", "yolo"])
@for_each("command", LONG.values())
def test_no_length_and_no_depth_hides_a_command(stage: Jail, profile: str, command: str) -> None:
    line = Line(command, profile, "ask", "")
    assert judge_line(stage, line, command).outcome is not PolicyOutcome.ALLOW


def test_the_corpus_is_large_and_says_each_thing_once() -> None:
    assert len(EVERYDAY) >= 235
    assert len(ADVERSARIAL) >= 650
    pairs = [(line.profile, line.command) for line in EVERYDAY + ADVERSARIAL]
    assert sorted({pair for pair in pairs if pairs.count(pair) > 1}) == []
    assert all(line.reason and (line.technique or line.outcome == "allow") for line in ADVERSARIAL)


@pytest.mark.requirement("POL-09")
def test_what_a_redirection_asks_about_a_rule_with_allow_redirection_lets_pass(stage: Jail) -> None:
    writing = [line for line in ADVERSARIAL if line.technique == "redirections write"]
    assert len(writing) >= 30
    asked = judge_line(stage, writing[0], "echo x > out")
    assert asked.outcome is PolicyOutcome.ASK_USER
    assert "> out writes, and the rule does not say allowRedirection" in asked.reason
    open_profile = Line("", "redirections", "allow", "")
    for command in ("echo x > out", "echo x >> a.txt", "echo x &> out", "{ echo x; } 2>&1 >out"):
        assert judge_line(stage, open_profile, command).outcome is PolicyOutcome.ALLOW
