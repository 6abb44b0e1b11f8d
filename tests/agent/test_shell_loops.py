"""Commands that are run again and again, as they come through a whole agent."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from alhena.agent.limits import LoopError
from alhena.config.settings import settings_of
from alhena.events import LoopDetectedEvent
from tests.agent.kit import agent, conforming, events_of
from tests.support.scripted import Script, ScriptedGenerator
from tests.support.server import call, chunk, text

Calls = Iterable[tuple[str, dict[str, Any]]]


def turns(calls: Calls) -> list[Script]:
    return [
        [chunk(call(name, args, id=f"c{number}"), finish="STOP")]
        for number, (name, args) in enumerate(calls)
    ]


async def loops(calls: Calls, **options: Any) -> tuple[list[tuple[str, str]], int, Any]:
    """The loops that are found while the model makes these calls, a turn each; how many of its
    turns it got; and what the run ended with."""
    generator = ScriptedGenerator(*turns(calls), [text("done")], [text("done")])
    options = {"approval_mode": "yolo", "max_turns": -1, **options}
    async with agent(generator, **options) as running:
        events, error = await events_of(running, "go")
    assert conforming(generator)
    found = [(e.kind, e.action) for e in events if isinstance(e, LoopDetectedEvent)]
    return found, len(generator.requests), error


def shell(command: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "run_shell_command", {"command": command, **more}


TWICE = [
    ("consecutive_identical_tool_calls", "corrected"),
    ("consecutive_identical_tool_calls", "ended"),
]


@pytest.mark.parametrize(
    "say",
    [
        lambda n: shell("echo hi"),
        lambda n: shell("echo hi", description=f"Attempt {n}: does it work now?"),
        lambda n: shell(" " * (n % 3) + "echo hi" + "\n" * (n % 4)),
        lambda n: shell("echo wrong >&2; exit 3"),
        lambda n: shell("sleep 60 & echo hi"),
        lambda n: shell("sleep 60", is_background=True, delay_ms=1),
        lambda n: shell("printf '%0400d' 7"),
    ],
)
async def test_a_command_run_again_and_again_is_a_loop_the_fifth_time(project: Path, say: Any):
    small = settings_of({"tools": {"truncateToolOutputThreshold": 250}}, "test")
    found, requests, error = await loops(map(say, range(14)), settings=small)
    assert found == TWICE
    assert requests == 10
    assert isinstance(error, LoopError)


async def test_a_cycle_of_commands_is_found(project: Path):
    found, _, error = await loops(shell(f"echo {'abc'[n % 3]}") for n in range(40))
    assert found[0] == ("repeating_tool_call_cycle", "corrected")
    assert isinstance(error, LoopError)


async def test_a_command_that_finds_something_new_each_time_is_progress(project: Path):
    found, requests, _ = await loops(shell("echo x >> log; wc -l < log") for _ in range(30))
    assert (found, requests) == ([], 31)


async def test_an_edit_with_another_reason_each_time_is_the_same_edit(project: Path):
    (project / "a.txt").write_text("text\n", encoding="utf-8")
    edit = {"file_path": "a.txt", "old_string": "none", "new_string": "x"}
    found, requests, _ = await loops(
        ("replace", {**edit, "instruction": f"reason {n}"}) for n in range(24)
    )
    assert [action for _, action in found] == ["corrected", "ended"]
    assert requests == 20  # each miss asks the model once for the right text
    assert "reason" not in json.dumps(found)


@pytest.mark.parametrize(
    "say",
    [
        lambda n: f"echo same # {n}",
        lambda n: f"echo same # try {'again ' * n}",
        lambda n: f"# attempt {n}\necho same",
        lambda n: f"echo 'a # b' same {'' if n % 2 else '# now'}",
    ],
)
async def test_a_command_with_another_comment_is_the_same_command(project: Path, say: Any):
    found, requests, error = await loops(shell(say(n)) for n in range(14))
    assert found == TWICE
    assert requests == 10
    assert isinstance(error, LoopError)


@pytest.mark.parametrize("say", ["echo 'same # {0}'", "echo same; cat <<E\n# {0}\nE"])
async def test_what_only_looks_like_a_comment_counts(project: Path, say: str):
    found, requests, error = await loops(shell(say.format(n)) for n in range(30))
    assert (found, requests, error) == ([], 31, None)


@pytest.mark.parametrize(
    "say",
    [
        "mkdir d{0}",  # says nothing, and does something
        "grep nothing{0} lines.txt",  # finds nothing
        "sed -n {0}p lines.txt",  # pages
        "echo {0} >> log; wc -l < log",
    ],
)
async def test_commands_that_count_up_and_get_on_are_no_loop(project: Path, say: str):
    lines = "".join(f"line {n}\n" for n in range(1, 201))
    (project / "lines.txt").write_text(lines, encoding="utf-8")
    found, requests, error = await loops(shell(say.format(n)) for n in range(1, 61))
    assert (found, requests, error) == ([], 61, None)


@pytest.mark.parametrize(
    "guess",
    [
        lambda n: ("read_file", {"absolute_path": f"missing{n}"}),
        lambda n: ("read_file", {"absolute_path": f"src/deep{n}/../a{n}.txt"}),
        lambda n: ("list_directory", {"path": f"gone{n}/"}),
        lambda n: ("replace", {"file_path": f"f{n}", "old_string": "a", "new_string": f"{n}"}),
        lambda n: ("search_file_content", {"pattern": f"no{n}(pe"}),
        lambda n: ("run_shell_command", {"command": "ls", "directory": f"none{n}"}),
        lambda n: ("web_fetch", {"prompt": f"http://127.0.0.1:1/{n}"}),
        lambda n: ("read_tool_output", {"path": f"q{n}x"}),
    ],
)
async def test_guesses_whose_errors_repeat_them_are_a_loop(project: Path, guess: Any):
    found, requests, error = await loops(map(guess, range(10, 40)))
    assert found == [("repeated_tool_error", "corrected"), ("repeated_tool_error", "ended")]
    assert requests == 20
    assert isinstance(error, LoopError)
