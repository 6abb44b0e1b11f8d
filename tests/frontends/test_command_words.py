"""Words on the command line are a command, options or a prompt, and never mistaken."""

import msgspec
import pytest
from inline_snapshot import snapshot

from alhena.errors import UsageError
from alhena.frontends.main import COMMANDS, refuse_commands
from alhena.frontends.shared.arguments import RunArguments, parse_run, run_parser
from alhena.policy.model import ApprovalMode
from alhena.version import __version__
from tests.support.command import alhena
from tests.support.each import for_each

OPTIONS = [each for action in run_parser()._actions for each in action.option_strings]


@for_each("word", [*OPTIONS, "-dash", "-ysomething", "--max-turns=1", "--", "-"])
@for_each("before", [[], ["-p"], ["--prompt"]])
def test_behind_two_dashes_nothing_is_an_option(before: list[str], word: str):
    assert parse_run([*before, "--", word, "x"]) == RunArguments(prompt=f"{word} x")


def test_options_and_words_before_two_dashes_are_what_they_are():
    found = parse_run(["a", "-m", "m", "b", "-y", "-r", "--", "-p", "c"])
    plain = msgspec.structs.replace(found, prompt=None, words=())
    assert found.prompt == "a b -p c"
    assert plain == RunArguments(model="m", approval_mode=ApprovalMode.YOLO, resume="latest")
    assert parse_run(["-i", "--", "-y"]) == RunArguments(prompt_interactive="-y")


@pytest.mark.parametrize("line", [["-m", "--", "x"], ["-p", "--"], ["-p", "-y"], ["-p", "-v"]])
def test_an_option_without_its_value_takes_none_from_behind_the_dashes(line: list[str]):
    with pytest.raises(UsageError, match="expected one argument"):
        parse_run(line)


def test_parameters_of_a_tool_behind_two_dashes_are_no_options():
    ran = alhena("tools", "call", "--json", "--", "read_file", "--help")
    assert ran.code == 2
    assert "not JSON" in ran.err
    ran = alhena("tools", "call", "list_directory", "--json", "--", '{"path": "."}')
    assert ran.code == 0
    told = alhena("tools", "call", "--help")
    assert told.code == 0
    assert told.out.startswith("usage: alhena tools call NAME [ARGS] [options]\n")
    assert alhena("tools", "call").code == 2
    assert alhena("tools", "call", "read_file", "{}", "more").code == 2


@for_each(
    ("line", "hint"),
    [
        (["session", "list"], "Did you mean alhena sessions list?"),
        (["-d", "polcy", "explain"], "Did you mean alhena policy explain?"),
        (["tool", "list", "--json"], ""),
        (["settings", "set", "model.name", "flash"], "See alhena settings --help."),
    ],
)
def test_a_command_that_is_misplaced_or_misspelt_is_wrong_usage(line: list[str], hint: str):
    ran = alhena(*line, "-m", "demo")
    assert ran.code == 2
    assert hint in ran.err.splitlines()[-1]
    assert ran.out == ""


@for_each(
    "prompt",
    [
        "list the files",
        "tools are missing docs",
        "policy changes since May",
        "help me",
        "skills matter here",
        "extensions of Python",
        "model trains",
        "check convert list",
        "serve the folder here",
        "trust me on this",
    ],
)
def test_words_that_are_no_command_are_a_prompt(prompt: str):
    refuse_commands(tuple(prompt.split(" ")), COMMANDS)


@for_each("name", COMMANDS)
def test_one_argument_of_several_words_is_a_prompt(name: str):
    refuse_commands((f"{name} list",), COMMANDS)


def test_help_is_a_word_too():
    told = alhena("--help")
    assert (told.code, told.err) == (0, "")
    assert alhena("help").out == alhena("-dh").out == told.out
    assert "alhena sessions" in told.out
    assert alhena("help", "sessions").out == alhena("sessions", "--help").out
    assert alhena("-d", "-v").out == f"{__version__}\n"
    assert alhena("--nope", "-h").code == 2


@for_each(
    ("line", "near"),
    [
        (["--modle", "m", "hi"], "--model"),
        (["hi", "--outputformat=json"], "--output-format"),
        (["tools", "call", "--jsn"], "--json"),
        (["trace", "--htm", "x"], "--html"),
    ],
)
def test_a_misspelt_flag_is_named_with_the_one_that_is_like_it(line: list[str], near: str):
    ran = alhena(*line)
    assert (ran.code, ran.out) == (2, "")
    assert f"Did you mean {near}? See alhena" in ran.err
    assert "Did you mean" not in alhena("hi", "--zzz").err


def test_the_help_of_a_subcommand_is_about_that_one():
    told = alhena("sessions", "delete", "--help").out
    assert told == snapshot("""\
usage: alhena sessions delete SESSION …

SESSION is a number of the list, an id or its beginning, or `latest`. To resume a session:
alhena --resume SESSION.

delete: deletes sessions with their files. A session in use stays.
""")
    told = alhena("mcp", "enable", "--help").out
    assert told.startswith("usage: alhena mcp enable|disable NAME\n")
    assert "enable, disable: " in told
    assert "import: " not in told
    assert "--env" not in told
    assert "--env" in alhena("mcp", "add", "--help").out
    assert alhena("sessions", "nothing", "--help").out == alhena("sessions", "--help").out
