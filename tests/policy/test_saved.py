"""Approvals that are kept for good: what stands in the file, whatever happens while it is written."""

import os
import resource
import signal
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.errors import ConfigError
from alhena.policy.engine import ALWAYS_PRIORITY
from alhena.policy.load import MAX_FILE_BYTES, load_file
from alhena.policy.model import ApprovalMode, PolicyOutcome, PolicyRule, Tier
from alhena.policy.saved import LOCK_NAME, save_rule

MODES = (ApprovalMode.DEFAULT, ApprovalMode.AUTO_EDIT)


def approval(*prefixes: str, **fields: Any) -> PolicyRule:
    return PolicyRule(
        **{
            "decision": PolicyOutcome.ALLOW,
            "priority": ALWAYS_PRIORITY,
            "tool_names": ("run_shell_command",),
            "command_prefixes": prefixes,
            "modes": MODES,
            **fields,
        }
    )


@pytest.fixture
def file(home: Path) -> Path:
    return home / ".gemini" / "policies" / "auto-saved.toml"


def tables(file: Path) -> list[dict[str, Any]]:
    return tomllib.loads(file.read_text(encoding="utf-8"))["rule"]


def is_clean(file: Path) -> bool:
    """Is there nothing in the directory but the file?"""
    return os.listdir(file.parent) in ([file.name], [])


def test_a_saved_rule_is_written_as_users_write_them_and_loads_as_it_was(file: Path) -> None:
    saved = [
        approval("git status"),
        approval("npm test", "npm run 'a b'"),
        approval(tool_names=("write_file",), args_pattern=r'"path":"src/\w+'),
        approval(tool_names=("search",), mcp_name="jira", modes=()),
    ]
    for rule in saved:
        save_rule(rule, file)
    assert tables(file)[:2] == [
        {
            "toolName": "run_shell_command",
            "commandPrefix": "git status",
            "decision": "allow",
            "priority": 950,
            "modes": ["default", "autoEdit"],
        },
        {
            "toolName": "run_shell_command",
            "commandPrefix": ["npm test", "npm run 'a b'"],
            "decision": "allow",
            "priority": 950,
            "modes": ["default", "autoEdit"],
        },
    ]
    loaded = load_file(file, Tier.USER)
    assert loaded.problems == ()
    places = ("source", "file", "line")
    assert [
        {key: getattr(rule, key) for key in rule.__struct_fields__ if key not in places}
        for rule in loaded.rules
    ] == [
        {key: getattr(rule, key) for key in rule.__struct_fields__ if key not in places}
        for rule in saved
    ]
    assert is_clean(file)


def test_a_new_directory_is_the_users_alone(file: Path) -> None:
    save_rule(approval("ls"), file)
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_what_was_there_stays_byte_for_byte_and_so_does_the_mode(file: Path) -> None:
    file.parent.mkdir(parents=True)
    before = b"\xef\xbb\xbf# mine\r\n[[rule]]  # why\r\ntoolName='x'\ndecision='deny'\npriority=1\nnew = 1"
    file.write_bytes(before)
    file.chmod(0o644)
    save_rule(approval("ls"), file)
    assert file.read_bytes().startswith(before + b"\n\n[[rule]]\n")
    assert len(tomllib.loads(file.read_text(encoding="utf-8-sig"))["rule"]) == 2
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


def test_what_is_said_already_is_not_written_again(file: Path) -> None:
    save_rule(approval("git status", "git log"), file)
    save_rule(approval(tool_names=("write_file",)), file)
    before = file.read_bytes()
    save_rule(approval("git status"), file)
    save_rule(approval("git log", "git status"), file)
    save_rule(approval(tool_names=("write_file",)), file)
    assert file.read_bytes() == before


def test_of_several_prefixes_the_new_ones_are_written(file: Path) -> None:
    save_rule(approval("git status"), file)
    save_rule(approval("git status", "git log", "git log"), file)
    assert tables(file)[1]["commandPrefix"] == "git log"


@pytest.mark.parametrize(
    "other",
    [
        approval("git push"),
        approval("git push", "git status -s"),
        approval("git status", decision=PolicyOutcome.DENY),
        approval("git status", modes=()),
        approval("git status", mcp_name=None, args_pattern="x"),
        approval("git status", allow_redirection=True),
        approval("git 'a  b'"),
    ],
)
def test_a_rule_that_says_more_or_something_else_is_written(file: Path, other: PolicyRule) -> None:
    save_rule(approval("git status"), file)
    save_rule(approval("git 'a b'"), file)
    save_rule(other, file)
    assert len(tables(file)) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"[[rule]", "not TOML"),
        (b"# caf\xe9\n", "not TOML"),
        (b"rule = 3\n", "[[rule]]"),
        (b"[rule]\ntoolName = 'x'\n", "[[rule]]"),
        (b"rule = [{toolName = 'x'}]\n", "[[rule]]"),
        (b"rule = []\n", "[[rule]]"),
    ],
)
def test_a_file_that_no_rule_can_be_added_to_is_left_alone_and_named(
    file: Path, text: bytes, said: str
) -> None:
    file.parent.mkdir(parents=True)
    file.write_bytes(text)
    with pytest.raises(ConfigError) as caught:
        save_rule(approval("ls"), file)
    assert str(file) in str(caught.value)
    assert said in str(caught.value)
    assert "this session only" in str(caught.value)
    assert file.read_bytes() == text
    assert is_clean(file)


def test_a_file_never_grows_beyond_what_can_be_loaded(file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.write_bytes(b"#" * (MAX_FILE_BYTES - 50) + b"\n")
    with pytest.raises(ConfigError, match="larger than"):
        save_rule(approval("ls"), file)
    assert file.stat().st_size == MAX_FILE_BYTES - 49


def test_what_no_file_can_hold_is_refused(file: Path) -> None:
    with pytest.raises(ConfigError, match="characters"):
        save_rule(approval("echo \ud800"), file)
    assert is_clean(file)


def test_a_link_stays_a_link_and_its_target_is_written(file: Path, project: Path) -> None:
    file.parent.mkdir(parents=True)
    target = project / "dotfiles.toml"
    file.symlink_to(target)
    save_rule(approval("ls"), file)
    save_rule(approval("pwd"), file)
    assert file.is_symlink()
    assert len(tables(target)) == 2


@pytest.mark.parametrize("kind", ["directory", "fifo", "loop"])
def test_what_is_no_file_is_an_error_and_does_not_block(file: Path, kind: str) -> None:
    file.parent.mkdir(parents=True)
    if kind == "directory":
        file.mkdir()
    elif kind == "fifo":
        os.mkfifo(file)
    else:
        file.symlink_to(file)
    with pytest.raises(ConfigError, match="not saved"):
        save_rule(approval("ls"), file)


@pytest.mark.skipif(os.getuid() == 0, reason="root writes everywhere")
def test_a_directory_that_cannot_be_written_is_an_error(file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.parent.chmod(0o500)
    with pytest.raises(ConfigError, match="not saved"):
        save_rule(approval("ls"), file)


def test_a_place_that_is_no_directory_is_an_error(home: Path) -> None:
    (home / ".gemini").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match="not saved"):
        save_rule(approval("ls"), home / ".gemini" / "policies" / "auto-saved.toml")


SAVER = """
import sys
from pathlib import Path
from alhena.policy.model import PolicyOutcome, PolicyRule
from alhena.policy.saved import save_rule
name, count = sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
for number in range(count):
    rule = PolicyRule(decision=PolicyOutcome.ALLOW, priority=950, tool_names=("shell",),
                      command_prefixes=(f"{name} {number}",))
    save_rule(rule, Path(sys.argv[1]))
    print(number, flush=True)
"""


def saver(file: Path, name: str, count: int) -> "subprocess.Popen[str]":
    """A program that saves `count` rules once it is told to."""
    process = subprocess.Popen(
        [sys.executable, "-c", SAVER, str(file), name, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def start(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_two_programs_that_save_at_once_both_keep_their_rules(file: Path) -> None:
    programs = [saver(file, name, 15) for name in ("one", "two", "three")]
    for program in programs:
        start(program)
    assert [program.communicate()[0].count("\n") for program in programs] == [15, 15, 15]
    wanted = {f"{name} {number}" for name in ("one", "two", "three") for number in range(15)}
    assert {table["commandPrefix"] for table in tables(file)} == wanted
    assert is_clean(file)


@pytest.mark.parametrize("wanted", [1, 2, 5, 9])
def test_a_program_that_is_killed_loses_nothing_it_said_was_saved(file: Path, wanted: int) -> None:
    with saver(file, "x", 10_000) as process:
        start(process)
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(wanted)]
        process.kill()
        said += process.stdout.readlines()
    found = {table["commandPrefix"] for table in tables(file)}
    acknowledged = [line for line in said if line.endswith("\n")]
    assert {f"x {int(line)}" for line in acknowledged} <= found
    save_rule(approval("after"), file)
    assert load_file(file, Tier.USER).problems == ()


def saved_with_room(file: Path, size: int) -> "subprocess.CompletedProcess[str]":
    """An approval that is saved where no file can have more than so many bytes."""

    def little_room() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return subprocess.run(
        [sys.executable, "-c", SAVER, str(file), "x", "1"],
        input="\n",
        capture_output=True,
        encoding="utf-8",
        preexec_fn=little_room,
        check=False,
    )


def test_a_full_disk_leaves_the_file_as_it_was(file: Path) -> None:
    file.parent.mkdir(parents=True)
    before = b"# mine\n" * 200
    file.write_bytes(before)

    done = saved_with_room(file, 1000)
    assert done.stdout == "ready\n"
    assert "ConfigError: the approval was not saved" in done.stderr
    assert file.read_bytes() == before
    assert is_clean(file)


def test_a_file_that_could_not_be_filled_does_not_stay_behind_empty(file: Path) -> None:
    done = saved_with_room(file, 10)
    assert "ConfigError: the approval was not saved" in done.stderr
    assert not file.exists()


def test_a_lock_that_a_killed_program_left_is_no_hindrance(file: Path) -> None:
    file.parent.mkdir(parents=True)
    (file.parent / LOCK_NAME).write_text("", encoding="utf-8")
    save_rule(approval("ls"), file)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(str.strip)


@given(st.lists(TEXTS, min_size=1, max_size=3, unique=True), TEXTS)
def test_any_text_comes_back_as_it_was_saved(
    tmp_path_factory: pytest.TempPathFactory, prefixes: list[str], message: str
) -> None:
    file = tmp_path_factory.mktemp("saved") / "auto-saved.toml"
    rule = approval(*prefixes, deny_message=message)
    save_rule(rule, file)
    save_rule(rule, file)
    (loaded,) = load_file(file, Tier.USER).rules
    assert loaded.command_prefixes == rule.command_prefixes
    assert loaded.deny_message == message
