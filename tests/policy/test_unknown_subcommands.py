"""A word that bash replaces, in the place of a subcommand, is any subcommand."""

import pytest

from tests.policy.support import ALLOW, ASK, rules, run, shell_rule


@pytest.mark.parametrize(
    ("prefix", "command"),
    [
        ("git", "git su*"),
        ("git", "git $x"),
        ("git", "git log*/x"),
        ("git submodule", "git submodule for* x"),
        ("git bisect", 'git bisect "$x" x'),
        ("docker", "docker ex*/x"),
        ("docker compose", "docker compose $x"),
        ("uv", "uv {run,x}"),
        ("cargo", "cargo $(x)"),
        ("go", "go bu*"),
        ("systemctl", "systemctl sta*"),
        ("poetry", "poetry run* x"),
    ],
)
def test_a_rule_for_a_program_does_not_allow_a_subcommand_that_is_not_known(
    prefix: str, command: str
) -> None:
    allow = rules(shell_rule("allow", commandPrefix=prefix))
    assert run(allow, f"{prefix} --help").outcome is ALLOW
    assert run(allow, command).outcome is ASK


@pytest.mark.parametrize("command", ["docker ex* c x", "uv $x rm -rf a", "poetry ru* rm -rf a"])
def test_a_denied_command_may_stand_behind_a_subcommand_that_is_not_known(command: str) -> None:
    given = rules(shell_rule("deny", 200, commandPrefix="rm -rf"), shell_rule("allow"))
    assert run(given, command).outcome is ASK
    assert run(given, "docker ps $x").outcome is ALLOW


@pytest.mark.parametrize(
    "command", ["getent pass*", "docker p*", "systemctl stat* --no-pager", "go vers*", "pip $x"]
)
def test_a_subcommand_that_is_not_known_is_not_one_that_only_reads(command: str) -> None:
    reading = rules(shell_rule("allow", commandClass="read-only"))
    assert run(reading, command).outcome is ASK
