"""`alhena.shell` as other programs use it."""

import doctest
import subprocess
import sys
from pathlib import Path

import pytest

from alhena.policy.engine import decide
from alhena.policy.model import PolicyCall, PolicyContext, PolicyOutcome
from alhena.shell import Role, destroys, paths, programs, read, reads_only
from tests.policy.corpus import adversarial, destruction, everyday
from tests.policy.support import SHELL, rules, shell_rule
from tests.support.each import for_each

pytestmark = pytest.mark.requirement("LIB-17")

PAGE = Path(__file__).parents[2] / "docs" / "shell.md"
READS = rules(shell_rule("allow", commandClass="read-only"))
ANY = rules(shell_rule("allow", allowRedirection=True))
LINES = sorted({line.command for line in (*everyday(), *adversarial())})
OF_PLACES = (
    *("outside the workspace", "hold secrets", "may show", "only known when it runs"),
    *("named by a list", "whose repository is not known", "could be an option", "lists"),
    *("directory that is",),
)
"""Reasons to ask that are about files and places, not about what a command does."""


def test_the_examples_of_the_page_are_true() -> None:
    names = {each.__name__: each for each in (destroys, paths, programs, read, reads_only)}
    found = doctest.DocTestParser().get_doctest(
        PAGE.read_text(encoding="utf-8").replace("```\n", "\n"),
        dict(names),
        "shell.md",
        str(PAGE),
        0,
    )
    assert len(found.examples) >= 10
    output: list[str] = []
    assert doctest.DocTestRunner().run(found, out=output.append).failed == 0, "".join(output)


def test_importing_it_loads_no_other_room() -> None:
    code = (
        "import sys\n"
        "from alhena.shell import destroys, paths, programs, read, reads_only\n"
        "reads_only('ls | head'), destroys('rm x'), paths('cat x'), programs('ls')\n"
        "print(*(name for name in sys.modules if name.split('.')[0] == 'alhena'))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    others = {name for name in ran.stdout.split() if not name.startswith("alhena.shell")}
    allowed = {f"alhena.{name}" for name in ("display_text", "errors", "values", "version")}
    assert others <= {"alhena", *allowed}


def decision(line: str, given: tuple[object, ...]) -> tuple[bool, str]:
    call = PolicyCall(names=(SHELL,), args={"command": line})
    found = decide(call, given, PolicyContext())  # pyright: ignore[reportArgumentType]
    return found.outcome is PolicyOutcome.ALLOW, found.reason


@for_each("line", LINES)
def test_reads_only_is_the_answer_of_the_policy(line: str) -> None:
    allowed, reason = decision(line, READS)
    verdict = reads_only(line)
    if allowed:
        assert verdict, (line, verdict.reason)
    elif verdict:
        moves = "no rule matches" in reason and "cd " in line
        assert moves or any(each in reason for each in OF_PLACES), (line, reason)


@for_each("line", sorted({command for command, _ in destruction()}))
def test_destroys_is_the_answer_of_the_policy(line: str) -> None:
    allowed, reason = decision(line, ANY)
    verdict = destroys(line)
    assert bool(verdict) is not allowed, (line, verdict.reason, reason)
    assert allowed or verdict.reason in reason


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cat a b", [("reads", "a"), ("reads", "b")]),
        ("grep -n x a", [("reads", "a")]),
        ("grep -f list -r src", [("reads", "list"), ("tree", "src")]),
        ("wc --files0-from=names", [("list", "names")]),
        ("sed -n 1p a", [("reads", "a")]),
        ("cp a b", [("reads", "a"), ("writes", "b")]),
        ("rm -rf a", [("writes", "a")]),
        ("tar xf a.tar -C out", [("reads", "a.tar"), ("writes", "out")]),
        ("gcc -o a a.c", [("writes", "a"), ("reads", "a.c")]),
        ("cat < a > b", [("reads", "a"), ("writes", "b")]),
        ("sh -c 'cat a > b'", [("writes", "b"), ("reads", "a")]),
        ("echo a", []),
        ("head -n 5 $X", [("reads", "$X")]),
        ("git commit $X", [("reads", "$X")]),
        ("tar xCf out a.tar", [("reads", "a.tar"), ("writes", "out")]),
        ("sudo -u me cat a", [("reads", "a")]),
        ("find src -name '*.py' -exec rm {} +", [("tree", "src"), ("writes", "{}")]),
    ],
)
def test_paths_have_roles(line: str, expected: list[tuple[str, str]]) -> None:
    assert sorted(paths(line)) == sorted((Role(role), path) for role, path in expected)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("xargs -n1 git push", [("xargs",), ("git", "push")]),
        ("bash -c 'a; b'", [("bash",), ("a",), ("b",)]),
        ("echo `c` <(d)", [("echo",), ("c",), ("d",)]),
        ("npm run x", [("npm",)]),
        ("docker compose -f a up", [("docker", "compose")]),
        ("$X a", [()]),
    ],
)
def test_commands_are_found_in_others(line: str, expected: list[tuple[str, ...]]) -> None:
    assert [command.path for command in read(line).commands if command.sure] == expected


def test_a_directory_makes_paths_absolute(tmp_path: Path) -> None:
    assert paths(read("cd a && cat b ../c", cwd=tmp_path))[1:] == (
        (Role.READS, str(tmp_path / "a" / "b")),
        (Role.READS, str(tmp_path / "c")),
    )
    tmp_path.joinpath("away").symlink_to("/etc")
    assert destroys(read("rm away/x", cwd=tmp_path))
    assert not destroys(read("rm a/x", cwd=tmp_path))


def test_a_line_of_three_commands_is_judged_in_few_calls() -> None:
    calls = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    assert reads_only(read("cd src && git log -1 | head"))  # loads the tables
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        reads_only(read("cd src && git log -1 | head"))
    finally:
        sys.setprofile(before)
    assert 0 < calls <= 120
