"""`alhena completion`: what a shell offers, and the manual page, which has the same texts."""

import shutil
import subprocess
from pathlib import Path

import pytest
from scripts.man_page import PAGE, man_page

from alhena.frontends.cli.completion import help_of, summaries
from alhena.frontends.main import COMMANDS
from alhena.frontends.shared.arguments import run_parser
from tests.support.command import alhena
from tests.support.patience import PATIENCE_S

BASH = """
offered() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _alhena; echo "${COMPREPLY[*]}"; }
offered alhena to; offered alhena settings ''; offered alhena --approval-mode a
offered alhena hi --sess; offered alhena -o j; complete -p alhena
"""
FISH = """
complete -C 'alhena to'; complete -C 'alhena settings c'; complete -C 'alhena --approval-mode a'
complete -C 'alhena hi --sess'; complete -C 'alhena -o j'
"""
ZSH = """
compadd() { while [ "$1" != -- ]; do shift; done; shift; print -r -- "$@"; }
_describe() { print -r -- "${(P@)${@[-1]}}"; }
_files() { }
offered() { words=("$@"); CURRENT=$#; _alhena; }
offered alhena to; offered alhena settings c; offered alhena --approval-mode a
offered alhena hi --sess; offered alhena -o j; print $_comps[alhena]
"""


def shell(name: str, *arguments: str, script: str, tmp_path: Path) -> str:
    """Runs a script in a shell that has read the completion of alhena; its output."""
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    ran = alhena("completion", name)
    assert (ran.code, ran.err) == (0, "")
    file = tmp_path / f"alhena.{name}"
    file.write_text(ran.out, encoding="utf-8")
    begin = "autoload -Uz compinit; compinit -u -D; " if name == "zsh" else ""
    done = subprocess.run(
        [name, *arguments, "-c", f"{begin}source {file}\n{script}"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


def test_bash_completes_commands_flags_and_their_values(tmp_path: Path):
    shown = shell("bash", "--norc", script=BASH, tmp_path=tmp_path).splitlines()
    assert shown[0] == "tools"
    assert shown[1].startswith("show get set path check --origin")
    assert shown[2:5] == ["auto_edit", "--session-id", "json"]
    assert "-F _alhena alhena" in shown[5]


def test_fish_completes_them_with_their_descriptions(tmp_path: Path):
    shown = shell("fish", "--no-config", script=FISH, tmp_path=tmp_path)
    assert "tools\tlist the tools; run one call through the policy\n" in shown
    assert "\ncheck\n" in shown
    assert "auto_edit\t" in shown
    assert "--session-id\tstart a session with this id\n" in shown
    assert "json\t" in shown


def test_zsh_completes_them_with_their_descriptions(tmp_path: Path):
    shown = shell("zsh", "-f", script=ZSH, tmp_path=tmp_path)
    assert "tools:list the tools; run one call through the policy" in shown
    assert "\nshow get set path check --origin" in shown
    assert "\ndefault auto_edit yolo plan\n" in shown
    assert "--session-id:start a session with this id" in shown
    assert "\ntext json stream-json\n_alhena\n" in shown


def test_a_completion_needs_a_shell_that_is_known():
    assert alhena("completion", "--help").out.startswith("usage: alhena completion bash|zsh|fish")
    for words in (["tcsh"], ["bash", "zsh"], []):
        ran = alhena("completion", *words)
        assert (ran.code, ran.out) == (2, "")
        assert "takes bash, zsh or fish" in ran.err


def test_each_command_has_a_summary_and_a_help_text():
    assert set(summaries()) == set(COMMANDS)
    for name in COMMANDS:
        assert help_of(name).startswith(f"usage: alhena {name}"), name


def test_the_manual_page_has_all_options_and_commands():
    page = PAGE.read_text(encoding="utf-8")
    assert page == man_page(), "write it with: python -m scripts.man_page"
    for action in run_parser().actions:
        for name in action.option_strings:
            assert name.replace("-", "\\-") in page
    assert [f".SS alhena {name}\n" in page for name in COMMANDS] == [True] * len(COMMANDS)
