import asyncio
import json
import os
import shlex
import time
from pathlib import Path
from typing import Any

import pytest

from alhena.events import HookCallEvent
from alhena.hooks.model import HookEvent, HookSource, HookVerdict, InputForms, OnFailure
from alhena.hooks.planning import Hooks
from alhena.hooks.running import HookSurroundings
from alhena.tools.params import changes
from tests.hooks.kit import NOW, Heard, group, hook, surroundings
from tests.support.patience import PATIENCE_S

BEFORE = HookEvent.BEFORE_TOOL


def says(value: Any) -> str:
    return f"cat >/dev/null; echo {shlex.quote(json.dumps(value))}"


@pytest.mark.requirement("HOOK-04")
async def test_a_hook_is_told_of_the_event_and_its_answer_is_the_verdict(project: Path):
    heard = Heard(group(BEFORE, f"cat >input; {says({'decision': 'deny', 'reason': 'no'})}"))
    verdict = await heard.fire(BEFORE, "write_file", tool_name="write_file", tool_input={"a": "é"})
    assert verdict == HookVerdict(block="no")
    told = json.loads((project / "input").read_text(encoding="utf-8"))
    assert told == {
        "session_id": "s-1",
        "transcript_path": "",
        "cwd": str(project),
        "hook_event_name": "BeforeTool",
        "timestamp": NOW,
        "tool_name": "write_file",
        "tool_input": {"a": "é"},
    }
    (call,) = heard.calls
    assert (call.event, call.outcome, call.message, call.exit_code) == (BEFORE, "block", "no", 0)
    assert call.success
    assert call.input == told
    assert heard.warnings == []


async def test_nobody_who_hears_of_it_means_silence_and_no_process():
    heard = Heard(group(BEFORE, "touch ran", matcher="read_file"))
    assert await heard.fire(BEFORE, "write_file") == HookVerdict()
    assert await heard.fire(HookEvent.AFTER_TOOL, "read_file") == HookVerdict()
    assert await Hooks(()).fire(BEFORE, {}) == HookVerdict()
    assert heard.events == []
    assert heard.hooks.has(BEFORE)
    assert not heard.hooks.has(HookEvent.AFTER_TOOL)


@pytest.mark.requirement("HOOK-04")
async def test_hooks_run_together_unless_one_of_them_wants_a_sequence(project: Path):
    os.mkfifo("a")
    os.mkfifo("b")
    # Each waits for the other: one after the other they would never end.
    heard = Heard(group(BEFORE, "echo >a; read x <b", "read x <a; echo >b"))
    assert await asyncio.wait_for(heard.fire(BEFORE), PATIENCE_S) == HookVerdict()

    both = Heard(
        group(BEFORE, "echo 1 >>order", "echo 2 >>order"),
        group(BEFORE, "echo 3 >>order", sequential=True),
    )
    await both.fire(BEFORE)
    assert (project / "order").read_text(encoding="utf-8").split() == ["1", "2", "3"]


async def test_in_a_sequence_each_is_told_what_the_one_before_has_changed(project: Path):
    first = says({"hookSpecificOutput": {"tool_input": {"a": 2, "b": 3}}})
    heard = Heard(group(BEFORE, first, "cat >second", sequential=True))
    verdict = await heard.fire(BEFORE, "edit", tool_input={"a": 1, "c": 4})
    assert verdict.tool_input == {"a": 2, "b": 3}
    told = json.loads((project / "second").read_text(encoding="utf-8"))
    assert told["tool_input"] == {"a": 2, "b": 3, "c": 4}


async def test_what_failed_is_a_warning_or_a_block_and_seen_either_way():
    crash = "echo trouble >&2; exit 1"
    heard = Heard(group(BEFORE, hook(crash, name="careless")))
    assert await heard.fire(BEFORE) == HookVerdict()
    assert heard.calls[0].outcome == "warn"
    assert not heard.calls[0].success
    assert heard.warnings == [
        "the BeforeTool hook careless failed: it exited with code 1: trouble."
    ]
    strict = Heard(group(BEFORE, hook(crash, name="strict", on_failure=OnFailure.BLOCK)))
    reason = "the hook strict failed: it exited with code 1: trouble"
    assert await strict.fire(BEFORE) == HookVerdict(block=reason)
    assert strict.calls[0].outcome == "block"
    assert strict.warnings[0].endswith("Because of its onFailure, this blocks.")


DENY = '{"decision": "deny", "reason": "no"}'


@pytest.mark.parametrize(
    ("command", "fields", "why"),
    [
        ("sleep 60", {"timeout_ms": 100}, "timed out after 100ms"),
        ("kill -9 $$", {}, "ended by SIGKILL"),
        ("echo '{broken'", {}, "no valid JSON"),
        ("echo '[1]'", {}, "JSON, but no object"),
        ("printf '\\377'", {}, "not UTF-8"),
        ("head -c 2000000 /dev/zero", {}, "wrote 2000000 bytes"),
    ],
)
async def test_a_hook_that_must_not_fail_blocks_however_it_fails(
    command: str, fields: dict[str, Any], why: str
):
    strict = Heard(group(BEFORE, hook(command, on_failure=OnFailure.BLOCK, **fields)))
    verdict = await strict.fire(BEFORE)
    assert verdict.block is not None
    assert why in verdict.block
    lax = Heard(group(BEFORE, hook(command, **fields)))
    assert await lax.fire(BEFORE) == HookVerdict()
    assert why in lax.warnings[0]


async def test_a_flood_blocks_unless_the_answer_comes_first():
    flood = "head -c 20000000 /dev/zero"
    heard = Heard(group(BEFORE, hook(flood)))
    assert "wrote 20000000 bytes" in str((await heard.fire(BEFORE)).block)
    assert heard.calls[0].outcome == "block"
    late = Heard(group(BEFORE, hook(f"head -c 1500000 /dev/zero; echo '{DENY}'")))
    assert (await late.fire(BEFORE)).block == "no"
    allows = """echo '{"decision": "allow"}'; """
    assert (await Heard(group(BEFORE, hook(allows + flood))).fire(BEFORE)).block is None


async def test_input_that_is_no_json_is_a_failure_and_odd_text_is_none(project: Path):
    strict = Heard(group(BEFORE, hook("cat >in", on_failure=OnFailure.BLOCK)))
    verdict = await strict.fire(BEFORE, tool_input={"x": object()})
    assert verdict.block is not None
    assert "no JSON form" in verdict.block
    assert not (project / "in").exists()
    assert await strict.fire(BEFORE, tool_input={"\udcff": "\ud800", "n": float("nan")}) == (
        HookVerdict()
    )
    told = json.loads((project / "in").read_text(encoding="utf-8"))
    assert told["tool_input"]["\ufffd"] == "\ufffd"


async def test_messages_for_people_are_warnings():
    heard = Heard(group(BEFORE, hook("echo mind the gap", name="polite")))
    assert (await heard.fire(BEFORE)).system_messages == ("mind the gap",)
    assert heard.warnings == ["the BeforeTool hook polite says: mind the gap"]


async def test_cancelled_every_hook_that_runs_ends_and_is_told_of(project: Path):
    os.mkfifo("a")
    os.mkfifo("b")
    heard = Heard(group(BEFORE, "echo $$ >a; sleep 60", "echo $$ >b; sleep 60"))
    firing = asyncio.ensure_future(heard.fire(BEFORE))
    pids = [int(await asyncio.to_thread(Path(name).read_text)) for name in ("a", "b")]
    firing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await firing
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert [call.outcome for call in heard.calls] == ["cancelled", "cancelled"]
    assert not heard.around.running


async def test_a_project_hook_whose_script_changes_while_the_session_runs_does_not_run(
    project: Path,
):
    from alhena.hooks.trust import with_fingerprints

    script = project / "check.sh"
    script.write_text("echo first", encoding="utf-8")
    mine = hook("bash check.sh", source=HookSource.PROJECT, place="p")
    (trusted,) = with_fingerprints([group(BEFORE, mine)], str(project))
    heard = Heard(trusted)
    assert (await heard.fire(BEFORE)).system_messages == ("first",)
    script.write_text("echo second", encoding="utf-8")
    assert await heard.fire(BEFORE) == HookVerdict()
    assert "not what was trusted" in heard.warnings[-1]


async def test_more_hooks_than_run_at_once_all_run():
    heard = Heard(group(BEFORE, *(f"echo n{number}" for number in range(30))))
    verdict = await heard.fire(BEFORE)
    assert verdict.system_messages == tuple(f"n{number}" for number in range(30))


async def test_an_event_of_a_hook_holds_the_beginning_of_what_it_wrote():
    heard = Heard(group(BEFORE, "head -c 50000 /dev/zero | tr '\\0' x; echo err >&2"))
    await heard.fire(BEFORE)
    (call,) = heard.calls
    assert isinstance(call, HookCallEvent)
    assert len(call.stdout) < 11_000
    assert call.stderr == "err\n"


async def test_without_groups_to_guard_them_hooks_run_as_well():
    around: HookSurroundings = surroundings(groups=None)
    heard = Heard(group(BEFORE, "echo hi"), around=around)
    assert (await heard.fire(BEFORE)).system_messages == ("hi",)


def test_time_is_told_in_the_form_of_the_reference():
    from alhena.hooks.running import iso_now

    assert time.strptime(iso_now()[:19], "%Y-%m-%dT%H:%M:%S")
    assert iso_now()[19] == "."
    assert iso_now().endswith("Z")
    assert len(iso_now()) == 24


NAMES = ("list_directory", "ls")
FORMS = InputForms(
    lambda params: {**params, "dir_path": params["path"]},
    lambda told, given: changes("list_directory", told, given),
)


async def test_a_hook_is_told_the_name_of_the_tool_that_its_matcher_means(project: Path):
    heard = Heard(
        group(BEFORE, "cat >all"), group(BEFORE, "cat >one", matcher="ls|nothing", sequential=True)
    )
    await heard.fire(BEFORE, NAMES, tool_name=NAMES[0], tool_input={})
    told = [json.loads((project / name).read_text("utf-8"))["tool_name"] for name in ("all", "one")]
    assert told == ["list_directory", "ls"]


@pytest.mark.parametrize("sequential", [True, False])
async def test_input_that_is_given_back_as_it_was_told_undoes_no_change(
    project: Path, sequential: bool
):
    give = 'python3 -c \'import json,sys; i=json.load(sys.stdin)["tool_input"]; {}; '
    give += "print(json.dumps(dict(hookSpecificOutput=dict(tool_input=i))))'"
    change, same = give.format('i["dir_path"]="b"'), give.format("pass")
    heard = Heard(group(BEFORE, change, f"tee seen | {same}", sequential=sequential))
    told = {"path": "a", "dir_path": "a"}
    verdict = await heard.hooks.fire(
        BEFORE, {"tool_name": "list_directory", "tool_input": told}, match=NAMES, forms=FORMS
    )
    assert verdict.tool_input == {"path": "b"}
    seen = json.loads((project / "seen").read_text("utf-8"))["tool_input"]
    assert seen == ({"path": "b", "dir_path": "b"} if sequential else told)


@pytest.mark.requirement("HOOK-04")
async def test_hooks_beside_the_session_are_waited_for_and_ended_when_that_is_given_up():
    heard = Heard(group(HookEvent.NOTIFICATION, "x"))
    enough, ended = asyncio.Event(), asyncio.Event()

    async def waiting() -> None:
        try:
            await enough.wait()
        finally:
            ended.set()

    heard.hooks.run_in_background(waiting())
    settling = asyncio.ensure_future(heard.hooks.settle())
    while not asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.sleep(0)
    assert not settling.done()
    enough.set()
    await settling
    enough.clear()
    ended.clear()
    heard.hooks.run_in_background(waiting())
    settling = asyncio.ensure_future(heard.hooks.settle())
    for _ in range(3):
        await asyncio.sleep(0)
    settling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await settling
    assert ended.is_set()
