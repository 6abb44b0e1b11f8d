"""Everyday commands that only read are known to, and nothing else is."""

from pathlib import Path

import pytest

from alhena.policy.engine import decide
from alhena.policy.model import PolicyCall, PolicyContext
from alhena.policy.surroundings import Surroundings
from alhena.shell.parse.model import Effect, Part, Redirection, Word, WordKind
from alhena.shell.readonly import folder_may_run, not_read_only
from tests.policy.support import ASK, SHELL, rules, shell_rule
from tests.shell.readonly_support import (
    LINES,
    Stage,
    can_run,
    only_part,
    programs,
    refusals,
    snapshot,
)

EVERYDAY = (LINES / "everyday.txt").read_text(encoding="utf-8").splitlines()
REFUSED = [
    tuple(row.split(" ### "))
    for row in (LINES / "refused.txt").read_text(encoding="utf-8").splitlines()
]
OUTSIDE = [line for line, reason in REFUSED if reason == "outside"]


def test_what_a_developer_reads_all_day_is_accepted() -> None:
    assert len(EVERYDAY) >= 300
    assert {line: refusals(line) for line in EVERYDAY if refusals(line)} == {}


def test_each_trick_is_refused_for_the_reason_given() -> None:
    assert len(REFUSED) >= 250
    found = {line: (reason, refusals(line)) for line, reason in REFUSED if line not in OUTSIDE}
    assert {line: each for line, each in found.items() if each[0] not in each[1]} == {}


@pytest.mark.parametrize("start", range(3))
def test_everyday_lines_change_nothing_and_run_only_what_they_name(
    start: int, tmp_path: Path
) -> None:
    lines = [line for line in EVERYDAY if can_run(line)][start::3]
    assert len(lines) >= 60
    stage = Stage(tmp_path / "stage", set().union(*(programs(line) for line in lines)))
    before = snapshot(stage.work)
    calls = stage.run(lines)
    assert snapshot(stage.work) == before
    assert snapshot(stage.home).keys() == {"."}
    # git runs parts of itself that are shell scripts.
    others = {
        (lines[number], name)
        for number, name in calls
        if name not in programs(lines[number]) and not lines[number].startswith("git submodule")
    }
    assert others == set()
    assert len({number for number, _ in calls}) > len(lines) * 0.8


def test_assignments_and_writing_redirections_are_refused() -> None:
    assert refusals("PAGER=x git log") == ["PAGER=x changes the environment"]
    assert refusals("ls >out") == [">out writes"]
    assert refusals("ls >>out") == [">>out writes"]
    assert refusals("ls 2>/dev/null >&2 <a") == []
    assert not_read_only(Part(text="")) == "no program is named"


@pytest.mark.parametrize("target", ["/dev/tcp/h/80", "/dev/udp/h/53", '"$f"', "$f", "/{dev,x}/y"])
def test_a_read_that_could_be_a_connection_is_refused(target: str) -> None:
    assert any("could open a network connection" in reason for reason in refusals(f"cat <{target}"))


@pytest.mark.parametrize("target", ["a", "./$f", "~/a", "src/*", "/dev/null"])
def test_a_read_that_cannot_be_a_connection_is_accepted(target: str) -> None:
    assert refusals(f"cat < {target}") == []


@pytest.mark.parametrize("workspace", [None, "/", "here"])
def test_devices_and_processes_lie_outside_of_every_workspace(
    workspace: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home")
    assert len(OUTSIDE) >= 40
    facts = workspace and Surroundings(tmp_path / workspace, trusted=True)
    context = PolicyContext(surroundings=facts or None)
    reading = rules(shell_rule("allow", commandClass="read-only"))
    for line in OUTSIDE:
        if workspace != "/" and line.startswith("head -c 1 dev"):
            continue  # a file of that workspace
        call = PolicyCall(names=(SHELL,), args={"command": line})
        assert decide(call, reading, context).outcome is ASK, line


def test_a_redirection_of_unknown_effect_counts_as_writing() -> None:
    odd = Redirection("<>", Effect.WRITE, "<>a", Word("a"))
    assert not_read_only(Part(text="", words=(Word("ls"),), redirections=(odd,))) == "<>a writes"


@pytest.mark.parametrize("word", ["$x", '"$x"', "*", "*.txt", "{a,b}", "$(ls)", "`ls`", "-*"])
def test_an_unknown_word_is_refused_only_where_an_option_could_harm(word: str) -> None:
    for program in (
        "ls -l",
        "cat",
        "grep -n foo",
        "head",
        "wc",
        "stat",
        "echo",
        "du -s",
        "cut -f1",
    ):
        assert refusals(f"{program} {word}") == []
    for program in ("sort", "tail", "rg foo", "file", "diff a", "sed -n p", "tree", "git log"):
        assert any("could be an option" in reason for reason in refusals(f"{program} {word}"))
        assert refusals(f"{program} -- {word}") == []


@pytest.mark.parametrize("word", ["./$x", "src/$x", "src/$(ls)"])
def test_a_word_that_may_split_hides_an_option_behind_its_known_beginning(word: str) -> None:
    assert refusals(f"sort {word}") != []
    assert refusals(f'sort "{word}"') == []


def test_a_glob_with_a_known_beginning_is_no_option() -> None:
    for word in ("./*.txt", "src/{a,b}", "~/a", "~/*.txt"):
        assert refusals(f"sort {word}") == []


def test_a_value_that_may_be_several_words_is_refused() -> None:
    assert refusals('sort -k "$x" a') == []
    for word in ("$x", '"$@"', "*", "{1,-o}", '"${x[@]}"'):
        assert refusals(f"sort -k {word} a") != []
    assert refusals("sort -k -o a") == ["-o could be an option"]
    assert refusals('git log --since="$x" -- a') == []
    assert refusals("git log --since=$x -- a") != []


def test_only_system_directories_hold_known_programs() -> None:
    for name in ("ls", "/bin/ls", "/usr/bin/ls", "\\ls", "'ls'", "l''s"):
        assert refusals(f"{name} -l") == []
    for name in ("./ls", "bin/ls", "/tmp/ls", "/usr/bin/../../tmp/ls", "~/ls", "LS", "''"):
        assert refusals(f"{name} -l") != []


def test_a_command_whose_folder_may_name_programs_says_so() -> None:
    assert folder_may_run(only_part("go version")) is not None
    for line in ("ls", "$x", "rg foo"):
        assert folder_may_run(only_part(line)) is None


def test_an_unknown_command_word_is_no_program() -> None:
    for kind in (WordKind.PATTERN, WordKind.EXPANSION):
        part = Part(text="", words=(Word("ls", kind, "ls$x"),))
        assert not_read_only(part) == "ls$x is not the plain name of a program"
