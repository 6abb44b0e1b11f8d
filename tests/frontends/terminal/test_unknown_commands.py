"""A slash command that there is not: what was meant, or how the same is done here."""

import re

import pytest

from alhena.frontends.main import COMMANDS as SHELL_COMMANDS
from alhena.frontends.shared.arguments import run_parser
from alhena.frontends.terminal.commands import COMMANDS, INSTEAD, unknown_words
from tests.frontends.terminal.kit import ListScreen
from tests.frontends.terminal.test_conversation import finished, sitting
from tests.support.each import for_each
from tests.support.scripted import ScriptedGenerator

NAMES = [name for each in COMMANDS for name in (each.name, *each.aliases)]


@pytest.mark.parametrize(
    ("name", "meant"),
    [("hlep", "help"), ("Stat", "stats"), ("polices", "policies"), ("memmory", "memory")],
)
def test_a_misspelt_command_is_asked_about(name: str, meant: str):
    assert unknown_words(name, ()) == f"Unknown command /{name}. Did you mean /{meant}?"


@pytest.mark.parametrize("name", ["foo", "corgi", "xyzzy", "voice", "x" * 500])
def test_what_is_like_no_command_gets_no_guess(name: str):
    assert unknown_words(name, ()).endswith(". See /help.")


@for_each("name", INSTEAD)
def test_a_command_of_the_reference_is_told_how_the_same_is_done(name: str):
    assert name not in NAMES
    said = unknown_words(name.upper(), ())
    assert said == f"There is no /{name.upper()} here. {INSTEAD[name]}"


def test_what_is_told_instead_is_there():
    options = {each for action in run_parser()._actions for each in action.option_strings}
    for said in INSTEAD.values():
        for command in re.findall(r"`alhena ([^`]+)`", said):
            first, *rest = command.split()
            assert first in options or rest[:1] == [] or rest[0] in SHELL_COMMANDS[first], said
            assert first in options or first in SHELL_COMMANDS
        for name in re.findall(r"(?<!\w)/(\w+)", said):
            assert name in NAMES


async def test_lines_of_one_sign_are_no_prompts():
    screen = ListScreen()
    generator = ScriptedGenerator()
    async with sitting(generator, screen) as conversation:
        shown = await finished(conversation, screen, "?", "!")
    assert "Commands\n" in shown
    assert "Shell mode: each line is a command." in shown
    assert generator.requests == []
