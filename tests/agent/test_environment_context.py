"""The start of a session: working directory, folders, and on request the files themselves."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from alhena.agent.context import SHARE
from alhena.chat.prompt import ACKNOWLEDGEMENT, FULL_CONTEXT
from alhena.config.settings import ContextSettings, Settings
from alhena.errors import ConfigError
from alhena.models.catalogue import model_info
from alhena.policy.model import ApprovalMode, PolicyOutcome, PolicyRule
from tests.agent.kit import agent, conforming, events_of, warnings
from tests.memory.kit import put
from tests.support.command import alhena
from tests.support.scripted import ScriptedGenerator
from tests.support.server import ScriptedServer, call, chunk, sse, text

WHOLE = {"full_context": True}


def opening(generator: ScriptedGenerator, index: int = 0) -> list[str]:
    """The texts of the first content of a request."""
    return [part["text"] for part in generator.seen(index)[0]["parts"]]


async def opening_of(**options: Any) -> list[str]:
    generator = ScriptedGenerator([text("hi")])
    async with agent(generator, **options) as running:
        await running.ask("hello")
    assert generator.seen(0)[1] == {"role": "model", "parts": [{"text": ACKNOWLEDGEMENT}]}
    assert generator.seen(0)[2] == {"role": "user", "parts": [{"text": "hello"}]}
    assert conforming(generator)
    return opening(generator)


def rule(tool: str, outcome: PolicyOutcome, pattern: str | None = None) -> PolicyRule:
    return PolicyRule(
        decision=outcome,
        priority=500,
        tool_names=(tool,),
        args_pattern=pattern,
        source="a test",
    )


@pytest.mark.requirement("CHAT-05")
async def test_the_context_says_the_date_the_platform_the_directories_and_the_folders(
    project: Path, home: Path, tmp_path: Path
):
    put(project, "src/main.py", "x")
    put(tmp_path, "other/lib.py", "x")
    before = time.strftime("%A, %B %d, %Y")
    (said,) = await opening_of(include_directories=(str(tmp_path / "other"),))
    after = time.strftime("%A, %B %d, %Y")
    assert said.startswith("This is alhena. We are setting up the context for our chat.\n")
    assert f"Today's date is {before}." in said or f"Today's date is {after}." in said
    assert "My operating system is: linux\n" in said
    assert f"The project's temporary directory is: {home}/.gemini/tmp/project\n" in said
    assert f"I'm working in:\n  - {project}\n  - {tmp_path}/other\n" in said
    assert f"{project}/\n└───src/\n    └───main.py" in said
    assert f"{tmp_path}/other/\n└───lib.py" in said


async def test_the_tree_can_be_left_out(project: Path):
    put(project, "src/main.py", "x")
    settings = Settings(context=ContextSettings(include_directory_tree=False))
    (said,) = await opening_of(settings=settings)
    assert "main.py" not in said
    assert "folder structure" not in said
    assert said.endswith(f"I'm working in:\n  - {project}")


async def test_the_trees_of_many_directories_are_bounded_together(tmp_path: Path):
    for number in range(20):
        for file in range(100):
            put(tmp_path, f"more{number}/f{file}", "")
    folders = tuple(str(tmp_path / f"more{number}") for number in range(20))
    (said,) = await opening_of(include_directories=folders)
    assert 900 < said.count("───f") <= 1_000
    assert "Showing up to 47 items" in said


@pytest.mark.requirement("CHAT-05")
async def test_the_files_are_told_on_request_behind_the_first_content(project: Path):
    put(project, ".gitignore", "*.log\n")
    put(project, "src/main.py", "print('main')\n")
    put(project, "noise.log", "IGNORED")
    put(project, ".env", "TOKEN=SECRET")
    put(project, "node_modules/x/index.js", "DEPENDENCY")
    put(project, "deep/.venv/lib/site.py", "DEPENDENCY")
    (project / "data.bin").write_bytes(b"\0\1\2" * 100)
    (project / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 64)
    os.mkfifo(project / "pipe")
    plain = await opening_of()
    context, files = await opening_of(**WHOLE)
    assert [context] == plain
    assert files.startswith(FULL_CONTEXT)
    assert f"--- {project}/src/main.py ---\n\nprint('main')\n" in files
    for absent in ("IGNORED", "SECRET", "DEPENDENCY", "\\u0000"):
        assert absent not in files
    assert "logo.png: image/png" in files
    assert "pipe: a FIFO, not a regular file" in files
    assert "files are left out by ignore files" in files
    assert files.endswith("--- End of content ---")


async def test_a_cleared_conversation_begins_with_the_files_of_now(project: Path):
    path = put(project, "a.txt", "first")
    generator = ScriptedGenerator([text("one")], [text("two")])
    async with agent(generator, **WHOLE) as running:
        await running.ask("hello")
        path.write_text("second", encoding="utf-8")
        await running.clear()
        await running.ask("again")
    assert "second" in opening(generator, 1)[1]


async def test_a_resumed_conversation_keeps_what_it_was_told_and_says_so(project: Path):
    path = put(project, "a.txt", "first <project_context>")
    generator = ScriptedGenerator([text("one")])
    async with agent(generator, **WHOLE) as running:
        await running.ask("hello")
    path.write_text("second", encoding="utf-8")
    later = ScriptedGenerator([text("two")])
    async with agent(later, resume="latest", **WHOLE) as running:
        events, error = await events_of(running, "again")
    assert error is None
    assert opening(later) == opening(generator)
    assert "second" not in str(later.seen(0))
    notices: Any = events[0]
    assert any("the conversation has begun already" in each for each in notices.notices)
    assert later.seen(0)[-1]["parts"] == [{"text": "again"}]


async def test_what_does_not_fit_is_named_to_the_model_and_counted_for_the_person(project: Path):
    room = model_info("gemma-3-27b-it").input_limit // SHARE * 3
    put(project, "a_small.txt", "small")
    put(project, "b_chinese.txt", "\n".join(["漢字" * 500] * (room // 3000)))
    put(project, "c_again.txt", "\n".join(["latin" * 200] * (room // 1000)))
    put(project, "d_last.txt", "last")
    generator = ScriptedGenerator([text("hi")])
    async with agent(generator, model="gemma-3-27b-it", **WHOLE) as running:
        events, _ = await events_of(running, "hello")
    files = opening(generator)[1]
    assert len(files.encode()) <= room + 2_000
    assert "small" in files
    assert "--- " + str(project / "d_last.txt") in files
    assert "1 files did not fit into one result: " + str(project / "c_again.txt") in files
    (warning,) = warnings(events)
    assert "1 files did not fit into a quarter of the model's window" in warning


async def test_thousands_of_files_are_bounded(project: Path):
    for folder in range(20):
        (project / f"d{folder}").mkdir()
        for number in range(100):
            (project / f"d{folder}" / f"f{number}.txt").write_text("x" * 3_000, encoding="utf-8")
    files = (await opening_of(model="gemini-embedding-001", **WHOLE))[1]
    assert len(files) < 20_000
    assert "files did not fit into one result" in files


async def test_rules_about_reading_hold_for_the_files_too(project: Path):
    put(project, "open.txt", "OPEN")
    put(project, "private/key.txt", "PRIVATE")
    put(project, "asked/key.txt", "ASKED")
    policy = (
        rule("read_file", PolicyOutcome.DENY, "private"),
        rule("read_file", PolicyOutcome.ASK_USER, "asked"),
    )
    files = (await opening_of(policy=policy, approve=lambda _request: True, **WHOLE))[1]
    assert "OPEN" in files
    assert "PRIVATE" not in files
    assert "ASKED" not in files
    assert f"{project}/private/key.txt: the policy does not simply allow to read it" in files


async def test_where_reading_many_files_is_denied_the_run_says_so_and_sends_nothing(project: Path):
    put(project, "open.txt", "OPEN")
    generator = ScriptedGenerator([text("hi")])
    denied = (rule("read_many_files", PolicyOutcome.DENY),)
    async with agent(generator, policy=denied, **WHOLE) as running:
        _, error = await events_of(running, "hello")
    assert isinstance(error, ConfigError)
    assert "read_many_files is denied" in str(error)
    assert generator.requests == []


async def test_subagents_begin_without_the_files(project: Path):
    put(project, "a.txt", "CONTENT")
    task = {"agent_name": "codebase_investigator", "objective": "look"}
    report = {"summary_of_findings": "s", "exploration_trace": [], "relevant_locations": []}
    generator = ScriptedGenerator(
        [chunk(call("delegate_to_agent", task, id="d"), finish="STOP")],
        [chunk(call("complete_task", {"result": report}, id="c"), finish="STOP")],
        [text("done")],
    )
    async with agent(generator, approval_mode=ApprovalMode.YOLO, **WHOLE) as running:
        await running.ask("go")
    assert "CONTENT" in str(generator.seen(0))
    assert "CONTENT" not in str(generator.seen(1))
    assert str(project) in opening(generator, 1)[0]


@pytest.mark.parametrize("flag", ["-a", "--all-files"])
def test_the_flag_sends_the_files(project: Path, server: ScriptedServer, flag: str):
    put(project, "a.txt", "CONTENT")
    server.reply(sse(text("hello")))
    ran = alhena(
        *("-p", "hi", flag), GEMINI_API_KEY="x", GOOGLE_GEMINI_BASE_URL=server.url, GEMINI_MODEL="m"
    )
    assert ran.code == 0, ran.err
    parts = server.requests[0].json["contents"][0]["parts"]
    assert len(parts) == 2
    assert "CONTENT" in json.dumps(parts[1])
    assert "CONTENT" not in json.dumps(parts[0])


async def test_a_hook_that_clears_the_conversation_leaves_the_files(project: Path, home: Path):
    put(project, "a.txt", "CONTENT")
    hook = 'echo \'{"hookSpecificOutput": {"hookEventName": "AfterAgent", "clearContext": true}}\''
    hooks = {"hooks": {"AfterAgent": [{"hooks": [{"type": "command", "command": hook}]}]}}
    generator = ScriptedGenerator([text("one")], [text("two")])
    async with agent(generator, hooks=hooks, **WHOLE) as running:
        await running.ask("hello")
        await running.ask("again")
    assert opening(generator, 1) == opening(generator, 0)
    assert [content["parts"][0]["text"] for content in generator.seen(1)[2:]] == ["again"]


async def test_what_a_session_was_told_is_recorded_with_it(project: Path, home: Path):
    put(project, "a.txt", "CONTENT")
    generator = ScriptedGenerator([text("one")])
    async with agent(generator, **WHOLE) as running:
        await running.ask("hello")
    (record,) = (home / ".gemini/tmp/project/sessions").glob("*.jsonl")
    assert "CONTENT" in record.read_text(encoding="utf-8")
