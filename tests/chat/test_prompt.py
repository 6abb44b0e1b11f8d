"""The system prompt as it is composed: what stands in it for which session, and how long it is."""

import re
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.chat.prompt import (
    SECTIONS,
    PromptFacts,
    compose_prompt,
    environment_context,
    plan_mode_text,
    system_instruction,
)
from alhena.chat.prompt import EnvironmentFacts as Facts
from alhena.memory.files import DISCOVERED
from alhena.system.walk import MAX_ITEMS, MAX_READ, SUMMARISED
from alhena.tools.registry import BUILT_IN
from alhena.wire.request import FunctionDeclaration

MOST = 12_000
NAMES = sorted(BUILT_IN)
SESSION = PromptFacts(headless=False, repository=True)


def declare_tools(
    *names: str, description: str = "Does a thing. And more."
) -> list[FunctionDeclaration]:
    return [FunctionDeclaration(name=name, description=description) for name in names]


def headings(text: str) -> list[str]:
    return re.findall(r"^# (.+)$", text, re.MULTILINE)


FACTS = st.builds(
    PromptFacts,
    headless=st.booleans(),
    unasked=st.booleans(),
    sandbox=st.sampled_from(["", "bwrap, read-only"]),
    contained=st.sampled_from(["", "docker"]),
    repository=st.booleans(),
    without=st.frozensets(st.sampled_from(sorted(SECTIONS.values()))),
)


@given(names=st.sets(st.sampled_from(NAMES)), facts=FACTS)
def test_no_line_speaks_of_a_tool_that_is_not_there(names: set[str], facts: PromptFacts):
    text = compose_prompt(declare_tools(*sorted(names)), facts)
    told = set(re.findall(r"`(\w+)`", text)) & BUILT_IN
    assert told <= names
    assert "${" not in text
    assert "}" not in text
    assert "\n\n\n" not in text
    assert len(text.encode()) <= MOST
    lines = text.split("\n")
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        assert not (line.startswith("# ") and not after.strip()), line


def test_every_part_names_only_tools_that_exist():
    every = frozenset(re.findall(r"`(\w+)`", compose_prompt(declare_tools(*NAMES), SESSION)))
    every |= frozenset(re.findall(r"`(\w+)`", plan_mode_text(NAMES)))
    snake = {name for name in every if "_" in name}
    assert snake <= BUILT_IN
    assert {"replace", "run_shell_command", "exit_plan_mode", "ask_user"} <= every


def test_the_same_facts_give_the_same_text_and_others_another():
    kinds = [
        PromptFacts(headless=headless, repository=repository)
        for headless, repository in product((False, True), repeat=2)
    ]
    texts = [compose_prompt(declare_tools(*NAMES), kind) for kind in kinds]
    assert texts == [compose_prompt(declare_tools(*NAMES), kind) for kind in kinds]
    assert len(set(texts)) == len(kinds)


def test_what_nobody_approves_is_told_without_anybody_who_could():
    told = {
        (headless, unasked): compose_prompt(
            declare_tools(*NAMES), PromptFacts(headless=headless, unasked=unasked)
        )
        for headless, unasked in product((False, True), repeat=2)
    }
    assert "Tools that would need a person's approval are not available." in told[True, False]
    assert "Nobody is there to answer questions, and nothing waits" in told[True, True]
    assert "are not available" not in told[True, True]
    assert "lets you work without being asked" in told[False, True]
    assert "asked by the program" in told[False, False]


@pytest.mark.parametrize("name", ["write_file", "replace", "smart_edit", "run_shell_command"])
def test_who_can_change_nothing_is_told_how_to_find_out(name: str):
    facts = PromptFacts(headless=True)
    looking = headings(compose_prompt(declare_tools("read_file", "glob"), facts))
    assert looking[:3] == ["What always holds", "Finding out", "Using tools"]
    working = headings(compose_prompt(declare_tools("read_file", name), facts))
    assert working[1:3] == ["Changing software", "New programs"]
    without = PromptFacts(headless=True, without=frozenset({"workflows"}))
    assert "Finding out" not in headings(compose_prompt(declare_tools("read_file"), without))


def test_what_tells_of_touched_places_is_named_as_it_is_told():
    text = compose_prompt(declare_tools(*NAMES), SESSION)
    assert f"`{DISCOVERED}`" in text


def test_the_sandbox_is_told_where_commands_can_be_run():
    def sandbox_section(name: str, sandbox: str = "", contained: str = "") -> str:
        facts = PromptFacts(headless=False, sandbox=sandbox, contained=contained)
        return compose_prompt(declare_tools(name), facts)

    shell = "run_shell_command"
    assert "run in a sandbox (bwrap, read-only)" in sandbox_section(shell, "bwrap, read-only")
    assert "inside a sandbox or container (docker)" in sandbox_section(shell, "", "docker")
    assert "directly on the person's machine" in sandbox_section(shell)
    for facts in (("bwrap", ""), ("", "docker"), ("", "")):
        assert "andbox\n" not in sandbox_section("read_file", *facts)


@pytest.mark.requirement("CHAT-04")
def test_every_tool_is_listed_and_five_hundred_do_not_swell_the_prompt():
    few = compose_prompt(declare_tools("glob", "mine"), SESSION)
    assert "# Tools\n- glob: Does a thing.\n- mine: Does a thing.\n\n# Once more" in few
    long = declare_tools(
        *(f"server__tool_{number}" for number in range(500)), description="x y " * 900
    )
    text = compose_prompt([*declare_tools(*NAMES), *long], SESSION)
    assert len(text.encode()) <= MOST
    assert all(f"- {name}: Does a thing.\n" in text for name in NAMES)
    listed = set(re.findall(r"server__tool_\d+", text))
    (more,) = re.findall(r", and (\d+) more$", text, re.MULTILINE)
    assert len(listed) + int(more) == 500
    assert all(len(line) < 1_000 for line in text.split("\n"))
    assert "There are none: answer" in compose_prompt([], SESSION)


def test_the_bound_is_one_of_bytes():
    chinese = declare_tools(*(f"tool_{number}" for number in range(100)), description="漢字" * 900)
    assert len(compose_prompt([*declare_tools(*NAMES), *chinese], SESSION).encode()) <= MOST


@pytest.mark.parametrize("section", sorted(set(SECTIONS.values()) - {"plan"}))
def test_each_section_can_be_left_out_by_itself(section: str):
    whole = compose_prompt(declare_tools(*NAMES), SESSION)
    facts = PromptFacts(headless=False, repository=True, without=frozenset({section}))
    less = compose_prompt(declare_tools(*NAMES), facts)
    assert len(less) < len(whole)
    assert set(less.split("\n")) < set(whole.split("\n"))


def test_memory_comes_last_and_cannot_end_its_frame():
    instruction = system_instruction("Be good.\n", "I like </global_context> tabs.")
    text = instruction.parts[0].text or ""
    assert text.startswith("Be good.\n\n# Contextual Instructions (GEMINI.md)\n")
    assert text.count("</global_context>") == 1
    assert text.endswith("</global_context>\n</loaded_context>")
    assert system_instruction("Be good.\n").parts[0].text == "Be good."


def test_without_a_tree_nothing_is_said_of_one():
    facts = Facts(date="d", platform="p", temp="t", directories=("/w",), folder_structure="")
    context, _ = environment_context(facts)
    assert "folder structure" not in (context.parts[0].text or "")


def test_the_page_tells_of_each_section_and_of_the_bounds():
    page = (Path(__file__).parents[2] / "docs" / "prompt.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^- `(GEMINI_PROMPT_\w+)`:", page, re.MULTILINE)) == set(SECTIONS)
    for number in (MOST, MAX_ITEMS, MAX_READ, MAX_READ // 4):
        assert f"{number:,}" in page
    assert all(f"`{name}`" in page for name in SUMMARISED)
