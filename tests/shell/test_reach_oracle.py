"""Restrictions against bash itself: a program that ran was found, or may have been meant."""

import shlex
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alhena.shell.prefix import Match
from tests.shell.parts import meant
from tests.support.bash import run_silently

BASH = shutil.which("bash") or ""
PROGRAMS = (
    "env",
    "nice",
    "timeout",
    "xargs",
    "find",
    "nohup",
    "setsid",
    "stdbuf",
    "bash",
    "sed",
    "awk",
)
pytestmark = pytest.mark.skipif(
    not BASH or not all(shutil.which(name) for name in PROGRAMS), reason="bash is the oracle"
)
AROUND = st.sampled_from(
    [
        *("env {}", "env -i PATH=bin {}", "env -u A B=1 -- {}", "nice -n 1 {}", "timeout -s KILL 5 {}"),
        *("nohup {}", "setsid -w {}", "stdbuf -o L {}", "command -p -- {}", "exec {}", "A=1 {}", "time {}"),
        *("bash -c {q}", "bash -euo pipefail -c {q}", "eval {q}", "eval -- {}", "trap {q} EXIT", "env -S {q}"),
        *("echo a | xargs -n 1 {}", "echo a | xargs -I% {} %", "find . -maxdepth 0 -exec {} \\;", "! {}"),
        *("echo a | xargs -I% bash -c {q}", "bash <<< {q}", "bash <<'E'\n{}\nE", "echo {q} | bash -s"),
        *("echo $({})", "cat <({})", "({})", "{{ {}; }}", "if {}; then :; fi", "for i in a; do {}; done"),
        *("sed -n '1e {}' f", "awk 'BEGIN{{system(\"{}\")}}'", "coproc {}", "f{n}() {{ {}; }}; f{n}", "a=`{}`"),
        *("x=forbid; ${{x}}den", "$(echo forbidden)", "forb?dden", "./bin/forb*", "\\{}", "alias x=1; {}"),
    ]
)  # fmt: skip


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(AROUND, max_size=4))
def test_a_program_that_ran_is_found_by_a_rule_against_it(
    tmp_path_factory: pytest.TempPathFactory, around: list[str]
) -> None:
    command = "forbidden"
    for number, form in enumerate(around):
        command = form.format(command, q=shlex.quote(command), n=number)
    if not ran(tmp_path_factory.mktemp("jail"), command):
        return
    assert meant("forbidden", command) is not Match.NO


def test_the_jail_sees_what_runs(tmp_path: Path) -> None:
    assert ran(tmp_path, "env nice bash -c 'forbidden'")


def ran(folder: Path, command: str) -> bool:
    """Does `forbidden` run when bash is given the command?"""
    programs = folder / "bin"
    programs.mkdir()
    (programs / "forbidden").write_text(f"#!{BASH}\n: > '{folder}/ran'\n", encoding="utf-8")
    (programs / "forbidden").chmod(0o755)
    (folder / "f").write_text("a\n", encoding="utf-8")
    for name in PROGRAMS:
        (programs / name).symlink_to(shutil.which(name) or "")
    run_silently(command, {"PATH": str(programs)}, folder)
    return (folder / "ran").exists()
