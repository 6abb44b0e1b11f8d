"""Limits and loops as a person at the command line meets them."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from alhena.errors import UsageError
from alhena.events import LoopDetectedEvent
from alhena.frontends.headless.output import is_news, loop_words
from alhena.frontends.shared.arguments import RunArguments, parse_run
from alhena.frontends.terminal.drawing.view import View
from alhena.values import Limits
from alhena.wire.conformance.json_body import check_json
from alhena.wire.errors import Severity
from tests.frontends.terminal.kit import played
from tests.support.command import alhena, keyed
from tests.support.each import for_each
from tests.support.patience import PATIENCE_S
from tests.support.server import ScriptedServer, call, chunk, json_reply, sse, text

USED = {"promptTokenCount": 900, "candidatesTokenCount": 100, "totalTokenCount": 1000}
EACH = (900 * 0.75 + 100 * 3.75) / 1e6


def looks(server: ScriptedServer, count: int, *, same: bool = False) -> None:
    for n in range(count):
        args = {"path": "."} if same else {"path": ".", "n": n}
        server.reply(sse(chunk(call("list_directory", args), finish="STOP", usage=USED)))


@pytest.mark.parametrize(
    ("flags", "kind", "requests"),
    [
        (("--max-turns", "2"), "turn_limit", 2),
        (("--max-tokens", "2500"), "token_limit", 3),
        (("--max-cost", str(EACH * 1.5)), "cost_limit", 2),
        (("--max-seconds", "0.000001"), "time_limit", 0),
    ],
)
def test_each_limit_ends_the_run_with_53(
    server: ScriptedServer, flags: tuple[str, str], kind: str, requests: int
):
    looks(server, 5)
    ran = alhena("-p", "x", "-o", "json", *flags, **keyed(server))
    assert ran.code == 53
    assert ran.json["error"]["type"] == kind
    assert ran.json["error"]["code"] == 53
    assert len(server.requests) == requests
    assert "limit" in ran.err


def test_the_turns_of_subagents_count_and_end_the_run_with_53(server: ScriptedServer):
    objective = {"agent_name": "codebase_investigator", "objective": "look"}
    server.reply(sse(chunk(call("delegate_to_agent", objective), finish="STOP")))
    looks(server, 5)
    ran = alhena("-p", "x", "-o", "json", "--max-turns", "2", **keyed(server))
    assert (ran.code, ran.json["error"]["type"]) == (53, "turn_limit")
    assert len(server.requests) == 2


def test_a_flag_wins_over_the_settings(server: ScriptedServer, home: Path):
    (home / ".gemini").mkdir()
    settings = {"model": {"budget": {"maxTokens": 1000}}}
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    looks(server, 5)
    ran = alhena("-p", "x", "-o", "json", **keyed(server))
    assert (ran.code, len(server.requests)) == (53, 1)
    ran = alhena("-p", "x", "-o", "json", "--max-tokens", "2000", **keyed(server))
    assert (ran.code, len(server.requests)) == (53, 3)


def test_what_was_done_before_a_limit_is_recorded_and_goes_on(server: ScriptedServer):
    looks(server, 2)
    server.reply(sse(text("Done.")))
    ran = alhena("-p", "x", "--max-turns", "2", **keyed(server))
    assert ran.code == 53
    ran = alhena("-r", "latest", "-p", "go on", **keyed(server))
    assert (ran.code, ran.out) == (0, "Done.\n")
    body = server.requests[2].json
    kinds = [next(iter(content["parts"][0])) for content in body["contents"]]
    calls = ["functionCall", "functionResponse"] * 2
    assert kinds == ["text", "text", "text", *calls, "text", "text"]
    assert not [item for item in check_json(body) if item.level is Severity.ERROR]


def test_a_limit_of_cost_without_a_price_is_said_before_anything_is_sent(server: ScriptedServer):
    ran = alhena("-p", "x", "-o", "json", "-m", "m", "--max-cost", "1", **keyed(server))
    assert ran.code == 52
    assert "the price of m is not known" in ran.json["error"]["message"]
    assert server.requests == []


@for_each("flag", ["--max-turns", "--max-tokens", "--max-seconds", "--max-cost"])
@for_each("value", ["0", "-2", "x", "inf", "nan", ""])
def test_a_limit_that_is_none_is_wrong_usage(flag: str, value: str):
    with pytest.raises(UsageError, match=f"{flag}.*number above 0"):
        parse_run(["-p", "x", f"{flag}={value}"])


def test_limits_are_read_as_they_are_given():
    given = parse_run(["--max-turns", "3", "--max-seconds", "1.5", "--max-cost", "0.25"])
    assert given == RunArguments(limits=Limits(turns=3, seconds=1.5, cost=0.25))
    assert parse_run(["x"]) == RunArguments(prompt="x", words=("x",))
    assert parse_run(["x", "--max-turns", "-1"]).limits == Limits(turns=-1)


def test_a_limit_of_time_ends_an_answer_that_goes_on_for_ever(server: ScriptedServer):
    server.reply(sse(text("So far", None), text("."), hold=threading.Event()))
    ran = alhena("-p", "x", "-o", "json", "--max-seconds", "1", **keyed(server))
    assert (ran.code, ran.json["error"]["type"]) == (53, "time_limit")
    assert server.disconnected.wait(PATIENCE_S)
    server.reply(sse(text("Done.")))
    ran = alhena("-r", "latest", "-p", "go on", **keyed(server))
    assert (ran.code, ran.out) == (0, "Done.\n")


def test_a_limit_of_time_ends_a_command_and_what_it_started(server: ScriptedServer):
    wait = {"command": "mkfifo stays; echo > begun; cat stays"}
    server.reply(sse(chunk(call("run_shell_command", wait), finish="STOP")))
    ran = alhena(
        "-y", "--skip-trust", "-p", "x", "-o", "json", "--max-seconds", "2", **keyed(server)
    )
    assert (ran.code, ran.json["error"]["type"]) == (53, "time_limit")
    assert len(server.requests) <= 1
    if Path("stays").exists():  # nobody reads any more: who would write finds no reader
        with pytest.raises(OSError, match="No such device"):
            os.open("stays", os.O_WRONLY | os.O_NONBLOCK)


def test_a_wait_past_the_limit_of_time_is_not_begun(server: ScriptedServer):
    server.reply(json_reply({"error": {"code": 429, "message": "slow down"}}, 429,
                            headers={"retry-after": "50"}))  # fmt: skip
    ran = alhena("-p", "x", "-o", "json", "--max-seconds", "40", **keyed(server))
    assert (ran.code, ran.json["error"]["type"]) == (53, "time_limit")
    assert "would reach the limit of 40 seconds" in ran.json["error"]["message"]
    assert "slow down" in ran.json["error"]["message"]
    assert "trying again" not in ran.err.lower()
    assert len(server.requests) == 1


def test_the_result_says_what_a_run_cost_where_that_is_known(server: ScriptedServer):
    for _ in range(3):
        server.reply(sse(text("hi") | {"usageMetadata": USED}))
    ran = alhena("-p", "x", "-o", "json", **keyed(server))
    assert ran.json["stats"]["estimatedCostUsd"] == pytest.approx(EACH, abs=1e-6)
    ran = alhena("-p", "x", "-o", "stream-json", **keyed(server))
    result = json.loads(ran.out.splitlines()[-1])
    assert result["stats"]["estimated_cost_usd"] == pytest.approx(EACH, abs=1e-6)
    ran = alhena("-p", "x", "-o", "json", "-m", "m", **keyed(server))
    assert "estimatedCostUsd" not in ran.json["stats"]


def test_a_loop_is_said_when_it_is_found_and_ends_with_1(server: ScriptedServer):
    looks(server, 12, same=True)
    ran = alhena("-p", "x", "-o", "json", **keyed(server))
    assert ran.code == 1
    assert ran.json["error"]["type"] == "loop_detected"
    assert "Loop detected, stopping execution" in ran.json["error"]["message"]
    (warning,) = ran.json["warnings"]
    assert warning.startswith("The model repeats itself (`list_directory`")
    assert ran.err.count("repeats itself") == 1
    assert len(server.requests) == 10
    noted = server.requests[5].json["contents"][-1]["parts"]
    assert [list(part) for part in noted] == [["functionResponse"], ["text"]]


def test_stream_json_has_a_line_for_each_loop_and_the_result_last(server: ScriptedServer):
    looks(server, 12, same=True)
    ran = alhena("-p", "x", "-o", "stream-json", **keyed(server))
    lines = [json.loads(each) for each in ran.out.splitlines()]
    loops = [each for each in lines if each["type"] == "loop_detected"]
    assert [each["action"] for each in loops] == ["corrected", "ended"]
    assert loops[0]["kind"] == "consecutive_identical_tool_calls"
    assert [each["type"] for each in lines[-2:]] == ["error", "result"]
    assert lines[-1]["error"]["type"] == "loop_detected"


def loop(action: Any, role: str = "main") -> LoopDetectedEvent:
    return LoopDetectedEvent(
        kind="k",
        detail="`f` was called",
        action=action,
        prompt_id="p",
        role=role,
    )


def test_what_the_error_says_is_not_said_twice():
    assert [is_news(loop(action)) for action in ("corrected", "ignored", "ended")] == [
        True,
        True,
        False,
    ]
    assert is_news(loop("ended", "subagent"))
    assert loop_words(loop("ended", "subagent")).startswith("A subagent repeats itself")


def test_the_terminal_shows_a_loop_as_a_warning():
    view, shown = played(loop("corrected"), loop("ended"))
    assert isinstance(view, View)
    assert shown.count("repeats itself") == 1
    assert "! The model repeats itself (`f` was called). It was asked to stop once." in shown


def test_one_of_something_is_said_as_one(server: ScriptedServer, project: Path):
    looks(server, 2)
    ran = alhena("-p", "x", "--max-turns", "1", **keyed(server))
    assert ran.code == 53
    assert "the limit of 1 turn for one prompt" in ran.err
    rule = '[[rule]]\ntoolName = "glob"\ndecision = "allow"\npriority = 1\nmatch = "{}"\n'
    (project / "one.toml").write_text(rule, encoding="utf-8")
    ran = alhena("policy", "test", "one.toml")
    assert ran.out.splitlines()[-1] == "1 rule, 1 example, 0 failed"
