"""The system prompt as the model gets it: composed, the user's own, written to a file."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alhena.errors import ConfigError
from alhena.events import Event, RunStartedEvent
from alhena.policy.model import ApprovalMode, PolicyOutcome, PolicyRule
from alhena.tools.registry import BUILT_IN
from tests.agent.kit import agent, conforming, events_of, instruction
from tests.memory.kit import put
from tests.support.command import alhena
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text
from tests.system.sandboxing import needs_bwrap

TRUSTED = {"skip_trust": True}


NO_SHELL = (
    PolicyRule(decision=PolicyOutcome.DENY, priority=500, tool_names=("run_shell_command",)),
)


async def prompt_of(*turns: Any, **options: Any) -> str:
    """The system instruction of the first request of a session."""
    generator = ScriptedGenerator(*(turns or ([text("hi")],)))
    async with agent(generator, **options) as running:
        await running.ask("hello")
    assert conforming(generator)
    return instruction(generator)


async def notices_of(**options: Any) -> tuple[str, ...]:
    generator = ScriptedGenerator([text("hi")])
    async with agent(generator, **options) as running:
        events: list[Event] = (await events_of(running, "hello"))[0]
    return next(each for each in events if isinstance(each, RunStartedEvent)).notices


def environ(home: Path, **extra: str) -> dict[str, str]:
    return {"HOME": str(home), "PATH": os.environ["PATH"], **extra}


@pytest.mark.requirement("CHAT-04")
async def test_the_prompt_lists_exactly_the_tools_that_are_declared():
    for approve in (None, lambda _request: True):
        generator = ScriptedGenerator([text("hi")])
        async with agent(generator, approve=approve) as running:
            await running.ask("hello")
        declared = generator.requests[0].config.function_names()
        _, _, listing = instruction(generator).partition("# Tools\n")
        listed = [line.split(":")[0] for line in listing.split("\n\n")[0].split("\n")]
        assert listed == [f"- {name}" for name in declared]
        absent = BUILT_IN - set(declared)
        assert "ask_user" in absent
        assert not [name for name in absent if f"`{name}`" in instruction(generator)]


async def test_a_run_that_can_start_no_command_is_told_nothing_of_commands_at_work():
    background = {"list_background_processes", "read_background_output"}
    for options, there in (
        ({"policy": NO_SHELL}, False),
        ({}, True),
        ({"approval_mode": ApprovalMode.YOLO}, True),
        ({"allowed_tools": ("run_shell_command(ls)",)}, True),
        ({"approve": lambda _request: True}, True),
    ):
        generator = ScriptedGenerator([text("hi")])
        async with agent(generator, **options) as running:
            await running.ask("hello")
        declared = set(generator.requests[0].config.function_names())
        assert ("run_shell_command" in declared) is there
        assert declared & background == (background if there else set())
        assert ("# Finding out" in instruction(generator)) is not there


async def test_the_repository_and_the_container_are_told(project: Path, home: Path):
    plain = await prompt_of(approval_mode=ApprovalMode.YOLO)
    assert "# Git" not in plain
    assert "# No sandbox" in plain
    (project / ".git").mkdir()
    (project / "deep" / "down").mkdir(parents=True)
    inside = await prompt_of(
        approval_mode=ApprovalMode.YOLO,
        cwd=project / "deep" / "down",
        environ=environ(home, SANDBOX="my\nbox"),
    )
    assert "# Git" in inside
    assert "inside a sandbox or container (my\\nbox)" in inside


@needs_bwrap
async def test_the_sandbox_of_commands_is_told():
    said = await prompt_of(approval_mode=ApprovalMode.YOLO, sandbox=True)
    assert "run in a sandbox (bwrap, workspace-write)" in said
    assert "# No sandbox" not in said


async def test_sections_are_taken_away_by_variables(home: Path):
    off = environ(home, GEMINI_PROMPT_COREMANDATES="0", GEMINI_PROMPT_FINALREMINDER=" False ")
    said = await prompt_of(environ=off, policy=NO_SHELL)
    assert "# What always holds" not in said
    assert "# Once more" not in said
    assert "# Finding out" in said
    on = environ(home, GEMINI_PROMPT_COREMANDATES="1", GEMINI_PROMPT_FINALREMINDER="")
    assert await prompt_of(environ=on) == await prompt_of()


async def test_two_sessions_alike_get_the_same_prompt_byte_for_byte():
    assert await prompt_of() == await prompt_of()


@pytest.mark.requirement("CHAT-04")
@pytest.mark.parametrize("place", ["~/own.md", "own.md", "{home}/own.md"])
async def test_the_users_own_prompt_stands_in_place_of_the_composed_one(
    project: Path, home: Path, place: str
):
    put(home, ".gemini/GEMINI.md", "I like brevity.")
    put(home, "own.md", "\ufeffYou are Bob.\r\nBe kind.\n\n")
    put(project, "own.md", "You are Bob.\nBe kind.")
    variables = environ(home, GEMINI_SYSTEM_MD=place.format(home=home))
    said = await prompt_of(environ=variables, **TRUSTED)
    first, _, memory = said.partition("\n\n")
    assert first.split() == ["You", "are", "Bob.", "Be", "kind."]
    assert memory.startswith("# Contextual Instructions (GEMINI.md)")
    assert "I like brevity." in memory
    assert "alhena, an agent" not in said


async def test_a_program_gives_a_prompt_that_counts_before_the_users_file(home: Path):
    put(home, ".gemini/GEMINI.md", "I like brevity.")
    put(home, "own.md", "You are Bob.")
    variables = environ(home, GEMINI_SYSTEM_MD="~/own.md", GEMINI_WRITE_SYSTEM_MD="~/w.md")
    said = await prompt_of(environ=variables, instructions="You are Eve: ${glob_ToolName}.\n")
    assert said.startswith("You are Eve: glob.\n\n# Contextual Instructions (GEMINI.md)")
    assert (home / "w.md").read_text(encoding="utf-8").startswith("You are alhena")


async def test_the_variables_of_an_own_prompt_are_told(project: Path, home: Path):
    put(
        home,
        "own.md",
        "Use ${read_file_ToolName}, ${grep_search_ToolName}, ${write_file_ToolName} and "
        "${nothing_ToolName}.\n${AvailableTools}\n[${SubAgents}]\n[${AgentSkills}]${HOME} $5",
    )
    generator = ScriptedGenerator([text("hi")])
    variables = environ(home, GEMINI_SYSTEM_MD="~/own.md")
    async with agent(generator, environ=variables) as running:
        await running.ask("hello")
    said = instruction(generator)
    assert said.startswith(
        "Use read_file, search_file_content, write_file and ${nothing_ToolName}.\n"
    )
    listed = "\n".join(f"- {name}" for name in generator.requests[0].config.function_names())
    assert f"\n{listed}\n[- codebase_investigator: " in said
    assert said.endswith("[]${HOME} $5")


async def test_the_workspaces_prompt_counts_once_the_folder_is_trusted(project: Path, home: Path):
    put(project, ".gemini/system.md", "INJECTED ${AvailableTools}")
    variables = environ(home, GEMINI_SYSTEM_MD="True")
    assert "INJECTED" not in await prompt_of(environ=variables)
    (notice,) = await notices_of(environ=variables)
    assert f"{project}/.gemini/system.md (GEMINI_SYSTEM_MD) is not used" in notice
    assert "not trusted (no decision" in notice
    assert (await prompt_of(environ=variables, **TRUSTED)).startswith("INJECTED - list_directory")
    assert await notices_of(environ=variables, **TRUSTED) == ()


@pytest.mark.parametrize("name", ["own.md", "link.md", "../home/back.md"])
async def test_no_way_into_an_untrusted_workspace_gets_around_that(
    project: Path, home: Path, name: str
):
    put(project, "own.md", "INJECTED")
    put(home, "outside.md", "INJECTED")
    os.symlink(home / "outside.md", project / "link.md")
    os.symlink(project / "own.md", home / "back.md")
    variables = environ(home, GEMINI_SYSTEM_MD=name)
    assert "INJECTED" not in await prompt_of(environ=variables)
    assert len(await notices_of(environ=variables)) == 1


@pytest.mark.parametrize("value", ["0", "false", "FALSE", "", "  "])
async def test_the_variable_can_say_no(project: Path, home: Path, value: str):
    put(project, ".gemini/system.md", "INJECTED")
    variables = environ(home, GEMINI_SYSTEM_MD=value, GEMINI_WRITE_SYSTEM_MD=value)
    assert await prompt_of(environ=variables, **TRUSTED) == await prompt_of()
    assert (project / ".gemini/system.md").read_text(encoding="utf-8") == "INJECTED"


def fifo(path: Path) -> None:
    os.mkfifo(path)


def latin(path: Path) -> None:
    path.write_bytes(b"caf\xe9")


def blank(path: Path) -> None:
    path.write_bytes(b" \n")


def huge(path: Path) -> None:
    path.write_bytes(b"x" * (1024 * 1024 + 1))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (fifo, "it is not a regular file"),
        (Path.mkdir, "Is a directory"),
        (latin, r"it is not UTF-8 \(byte 3\)"),
        (blank, "it is empty"),
        (huge, "it is larger than 1048576 bytes"),
    ],
)
async def test_a_prompt_that_cannot_be_used_ends_the_run_at_once(
    home: Path, make: Callable[[Path], object], reason: str
):
    make(home / "own.md")
    with pytest.raises(ConfigError, match=f"own.md cannot be used: {reason}"):
        await prompt_of(environ=environ(home, GEMINI_SYSTEM_MD="~/own.md"))


@pytest.mark.requirement("CHAT-04")
def test_a_missing_prompt_is_a_configuration_error_on_the_command_line(project: Path):
    ran = alhena("-p", "hi", "-m", "demo", "--skip-trust", GEMINI_SYSTEM_MD="1")
    assert ran.code == 52
    assert f"missing system prompt file '{project}/.gemini/system.md'" in ran.err
    odd = alhena("-p", "hi", "-m", "demo", GEMINI_SYSTEM_MD="/tmp/a\nb")
    assert odd.code == 52
    assert "missing system prompt file" in odd.err


@pytest.mark.requirement("CHAT-04")
@pytest.mark.parametrize(
    ("value", "place"),
    [("1", "{project}/.gemini/system.md"), ("~/made/new/p.md", "{home}/made/new/p.md")],
)
async def test_the_composed_prompt_is_written_out_without_memory(
    project: Path, home: Path, value: str, place: str
):
    put(home, ".gemini/GEMINI.md", "I like brevity.")
    said = await prompt_of(environ=environ(home, GEMINI_WRITE_SYSTEM_MD=value))
    written = Path(place.format(project=project, home=home))
    assert written.read_text(encoding="utf-8") == said.partition("\n\n# Contextual")[0] + "\n"
    assert [each.name for each in written.parent.iterdir()] == [written.name]
    before = written.stat().st_mtime_ns, written.stat().st_ino
    await prompt_of(environ=environ(home, GEMINI_WRITE_SYSTEM_MD=value))
    assert (written.stat().st_mtime_ns, written.stat().st_ino) == before


async def test_what_was_written_can_be_used_and_says_the_same(home: Path):
    composed = await prompt_of(environ=environ(home, GEMINI_WRITE_SYSTEM_MD="~/p.md"))
    assert await prompt_of(environ=environ(home, GEMINI_SYSTEM_MD="~/p.md")) == composed


async def test_an_own_prompt_is_not_written_over_by_the_composed_one(home: Path):
    put(home, "own.md", "You are Bob.")
    both = environ(home, GEMINI_SYSTEM_MD="~/own.md", GEMINI_WRITE_SYSTEM_MD=f"{home}/./own.md")
    with pytest.raises(ConfigError, match="GEMINI_SYSTEM_MD names the same file"):
        await prompt_of(environ=both)
    assert (home / "own.md").read_text(encoding="utf-8") == "You are Bob."
    apart = environ(home, GEMINI_SYSTEM_MD="~/own.md", GEMINI_WRITE_SYSTEM_MD="~/other.md")
    assert await prompt_of(environ=apart) == "You are Bob."
    assert (home / "other.md").read_text(encoding="utf-8").startswith("You are alhena")


async def test_a_link_in_the_workspace_leads_no_write_out_of_it(project: Path, home: Path):
    (project / ".gemini").mkdir()
    put(home, ".bashrc", "mine")
    os.symlink(home / ".bashrc", project / ".gemini" / "system.md")
    with pytest.raises(ConfigError, match=r"it leads elsewhere by a link"):
        await prompt_of(environ=environ(home, GEMINI_WRITE_SYSTEM_MD="1"), **TRUSTED)
    assert (home / ".bashrc").read_text(encoding="utf-8") == "mine"


async def test_what_cannot_be_written_ends_the_run(home: Path):
    put(home, "file", "x")
    with pytest.raises(ConfigError, match=r"was not written to .*file/p.md"):
        await prompt_of(environ=environ(home, GEMINI_WRITE_SYSTEM_MD="~/file/p.md"))
    (home / "dir").mkdir()
    with pytest.raises(ConfigError, match=r"was not written to .*dir"):
        await prompt_of(environ=environ(home, GEMINI_WRITE_SYSTEM_MD="~/dir"))


async def test_plan_mode_changes_neither_the_composed_prompt_nor_an_own_one(home: Path):
    put(home, "own.md", "Tools:\n${AvailableTools}")
    turns = (
        [chunk(call("enter_plan_mode", {"reason": "big"}, id="e"), finish="STOP")],
        [text("planned")],
    )
    for variables in ({}, {"GEMINI_SYSTEM_MD": "~/own.md"}):
        generator = ScriptedGenerator(*turns)
        options: dict[str, Any] = {"environ": environ(home, **variables)}
        async with agent(generator, approve=lambda _request: True, **options) as running:
            await running.ask("go")
        assert instruction(generator, 1) == instruction(generator, 0)
        assert "# Plan mode" not in instruction(generator, 0)
        assert "- exit_plan_mode" in instruction(generator, 0)
        assert "- enter_plan_mode" in instruction(generator, 0)
