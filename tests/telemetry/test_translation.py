"""Events as records: which attributes, with which values."""

import json
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.chat.turn import InvalidResponseError
from alhena.config.settings import TelemetrySettings
from alhena.events import (
    ApiRequestEvent,
    ApiResponseEvent,
    ContentEvent,
    ErrorEvent,
    Event,
    HookCallEvent,
    ModelFallbackEvent,
    OutputTruncatedEvent,
    RetryEvent,
    ToolCallRequestEvent,
    ToolCallResponseEvent,
)
from alhena.telemetry.languages import mime_type, programming_language
from alhena.telemetry.metrics import BOUNDARIES, Metrics
from alhena.telemetry.options import TelemetryOptions, telemetry_options
from alhena.telemetry.records import DETAILS, Redaction, TelemetryRecord, Translation
from alhena.telemetry.telemetry import RecordFormatter, RecordOrigin
from alhena.tools.edit.splicing import unified_diff
from tests.support.each import for_each
from tests.telemetry.reading import ATTRIBUTES, differences, objects


def records(*events: Event, texts: bool = True) -> list[TelemetryRecord]:
    translation = Translation(Redaction({"GEMINI_API_KEY": "k-123456"}), texts=texts)
    return [record for event in events for record in translation.records(event)]


def ended(**fields: Any) -> ToolCallResponseEvent:
    given: dict[str, Any] = {"call_id": "c", "name": "t", "status": "success", **fields}
    return ToolCallResponseEvent(**given)


def asked(name: str = "t", **args: Any) -> ToolCallRequestEvent:
    return ToolCallRequestEvent(call_id="c", name=name, args=args, prompt_id="s#1")


def edited(old: str, new: str, **stat: int) -> dict[str, Any]:
    """The display of an edit, as events have it."""
    diff, counted = unified_diff(old, new, "a.py")
    counts = {
        "ai_added_lines": counted.ai_added_lines,
        "ai_removed_lines": counted.ai_removed_lines,
    }
    return {
        "type": "file_diff",
        "fileDiff": diff,
        "fileName": "a.py",
        "filePath": "/p/a.py",
        "originalContent": old,
        "newContent": new,
        "diffStat": counts | {"user_added_lines": 0, "user_removed_lines": 0} | stat,
    }


@pytest.mark.requirement("TEL-01")
@pytest.mark.parametrize("status", ["success", "error", "cancelled"])
def test_each_end_of_a_call_is_one_record(status: str):
    error = None if status == "success" else "it went wrong"
    (found,) = records(asked(), ended(status=status, error=error, duration_ms=12.6))
    assert found.name == "tool_call"
    assert found.attributes["success"] is (status == "success")
    assert found.attributes["duration_ms"] == 13
    assert found.attributes.get("error") == error
    success = str(status == "success").lower()
    assert found.body == f"Tool call: t. Decision: auto_accept. Success: {success}. Duration: 13ms."


@pytest.mark.requirement("TEL-01")
def test_a_call_to_a_server_names_it():
    (found,) = records(asked(), ended(tool_type="mcp", mcp_server_name="files"))
    assert found.attributes["tool_type"] == "mcp"
    assert found.attributes["mcp_server_name"] == "files"


@pytest.mark.requirement("TEL-01")
@pytest.mark.parametrize(
    ("fields", "decision"),
    [
        ({"decision": "accept"}, "accept"),
        ({"decision": "modify"}, "modify"),
        ({"decision": "auto_accept"}, "auto_accept"),
        ({"decision": "reject", "denied": True, "status": "error"}, "reject"),
        ({"decision": "reject", "status": "cancelled"}, None),
    ],
)
def test_the_decision_is_told_where_there_was_one(fields: dict[str, Any], decision: str | None):
    (found,) = records(asked(), ended(**fields))
    assert found.attributes.get("decision") == decision


LINES = st.lists(st.text("ab +-@\\", max_size=4), max_size=8)


@pytest.mark.requirement("TEL-01")
@given(old=LINES, new=LINES)
def test_characters_of_an_edit_are_those_of_its_lines(old: list[str], new: list[str]):
    before, after = ("".join(f"{line}\n" for line in lines) for lines in (old, new))
    found = records(asked(), ended(display=edited(before, after)))[-1]
    stat = json.loads(found.attributes["metadata"])
    lines = [stat[f"model_{what}_lines"] for what in ("added", "removed")]
    characters = [stat[f"model_{what}_chars"] for what in ("added", "removed")]
    assert lines[0] - lines[1] == len(new) - len(old)
    grown = len(after) - len(before) - (len(new) - len(old))
    assert characters[0] - characters[1] == grown


def test_characters_are_left_out_where_a_person_changed_the_proposal():
    display = edited("a\n", "b\nc\n", user_added_lines=1)
    stat = json.loads(records(asked(), ended(display=display))[-1].attributes["metadata"])
    assert stat == {
        "model_added_lines": 2,
        "model_removed_lines": 1,
        "user_added_lines": 1,
        "user_removed_lines": 0,
    }


def test_characters_are_left_out_where_the_diff_is_cut():
    display = edited("", "".join(f"{'x' * 90}\n" for _ in range(2000)))
    stat = json.loads(records(asked(), ended(display=display))[-1].attributes["metadata"])
    assert stat["model_added_lines"] == 2000
    assert "model_added_chars" not in stat


def test_an_edit_that_failed_changed_no_file():
    display = edited("a\n", "b\n")
    (found,) = records(asked(), ended(display=display, status="cancelled", error="no"))
    assert "metadata" not in found.attributes


def test_a_file_that_was_read_is_told_with_its_kind():
    file, _ = records(asked("read_file", absolute_path="/p/x.html"), ended(name="read_file"))
    assert file.attributes == {
        "tool_name": "read_file",
        "operation": "read",
        "mimetype": "text/html",
        "extension": ".html",
        "programming_language": "html",
        "prompt_id": "s#1",
    }


@pytest.mark.parametrize("path", [None, "", 3, ["a"]])
def test_a_path_that_is_none_is_no_file(path: Any):
    (found,) = records(asked("read_file", file_path=path), ended(name="read_file"))
    assert found.name == "tool_call"


def test_a_truncation_belongs_to_its_calls_prompt():
    event = OutputTruncatedEvent(
        call_id="c", name="t", original_length=9, truncated_length=5, threshold=4
    )
    (found,) = records(asked(), event)
    assert found.attributes == {
        "eventName": "tool_output_truncated",
        "tool_name": "t",
        "original_content_length": 9,
        "truncated_content_length": 5,
        "threshold": 4,
        "prompt_id": "s#1",
    }


@pytest.mark.requirement("TEL-02")
def test_all_token_counts_of_an_answer_are_told():
    found, details = records(
        ApiResponseEvent(
            model="m",
            prompt_id="s#1",
            duration_ms=2.4,
            finish_reason="MAX_TOKENS",
            input_tokens=1,
            output_tokens=2,
            cached_tokens=3,
            cache_write_tokens=6,
            thoughts_tokens=4,
            tool_tokens=5,
            total_tokens=15,
            role="subagent",
        )
    )
    counts = {key: value for key, value in found.attributes.items() if key.endswith("_count")}
    assert counts == {
        "input_token_count": 1,
        "output_token_count": 2,
        "cached_content_token_count": 3,
        "thoughts_token_count": 4,
        "tool_token_count": 5,
        "total_token_count": 15,
    }
    assert found.attributes["finish_reasons"] == ["max_tokens"]
    assert found.attributes["role"] == "subagent"
    assert details.event_name == DETAILS
    assert details.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "gcp.gen_ai",
        "gen_ai.request.model": "m",
        "gen_ai.response.model": "m",
        "gen_ai.response.finish_reasons": ["max_tokens"],
        "gen_ai.usage.input_tokens": 1,
        "gen_ai.usage.output_tokens": 2,
        "gen_ai.usage.cache_read.input_tokens": 3,
        "gen_ai.usage.cache_creation.input_tokens": 6,
    }


def test_an_approved_plan_and_a_model_that_never_answered_are_told():
    plan = asked("exit_plan_mode"), ended(name="exit_plan_mode")
    *_, executed = records(*plan)
    assert executed.name == "plan.execution"
    (refused,) = records(asked("exit_plan_mode"), ended(name="exit_plan_mode", status="cancelled"))
    assert refused.name == "tool_call"
    retry = RetryEvent(
        model="m",
        prompt_id="s#1",
        attempt=3,
        max_attempts=3,
        delay_s=1,
        reason="empty",
        error_type=InvalidResponseError.kind,
        role="main",
    )
    over = ErrorEvent(error_type=InvalidResponseError.kind, message="empty")
    *_, failed = records(ApiRequestEvent(model="m", prompt_id="s#1", contents=1), retry, over)
    assert failed.name == "chat.content_retry_failure"
    assert failed.attributes["model"] == "m"
    assert failed.attributes["total_attempts"] == 3
    assert not records(ErrorEvent(error_type="network", message="no route"))


def hook(**fields: Any) -> HookCallEvent:
    given: dict[str, Any] = {
        "event": "BeforeTool",
        "name": "deny --because 'private words'",
        "kind": "command",
        "source": "user",
        "duration_ms": 3.2,
        "success": False,
        "outcome": "block",
        "message": "private reason",
        "stdout": "private out",
        "stderr": "private err",
        "input": {"prompt": "private", "token": "abc"},
    }
    return HookCallEvent(**(given | fields))


def test_what_hooks_read_and_write_is_told_only_when_prompts_are():
    (found,) = records(hook(), texts=False)
    assert "private" not in repr(found)
    assert found.attributes["hook_name"] == "deny"
    assert "exit_code" not in found.attributes
    (whole,) = records(hook(exit_code=2))
    assert whole.attributes["exit_code"] == 2
    assert json.loads(whole.attributes["hook_input"]) == {
        "prompt": "private",
        "token": "[redacted]",
    }
    assert json.loads(whole.attributes["hook_output"]) == {
        "decision": "deny",
        "reason": "private reason",
    }
    assert whole.attributes["error"] == "private reason"


def test_words_of_a_hook_that_are_no_json_are_its_output_as_what_they_mean():
    said = {"success": True, "outcome": "allow", "stderr": "", "message": ""}
    (plain,) = records(hook(stdout="well done\n", **said))
    assert json.loads(plain.attributes["hook_output"]) == {
        "decision": "allow",
        "systemMessage": "well done",
    }
    for stdout in ("", '{"cut": "sh [… 9 more characters]'):
        (found,) = records(hook(stdout=stdout, **said))
        assert "hook_output" not in found.attributes


@pytest.mark.requirement("TEL-01")
def test_a_call_has_the_arguments_that_ran_and_those_that_were_proposed_beside_them():
    ran = {"path": "b", "api_key": "abc"}
    (found,) = records(asked(path="a"), ended(args=ran, proposed_args={"path": "a"}))
    assert json.loads(found.attributes["function_args"]) == {"path": "b", "api_key": "[redacted]"}
    assert json.loads(found.attributes["proposed_function_args"]) == {"path": "a"}
    (same,) = records(asked(path="a"), ended())
    assert "proposed_function_args" not in same.attributes
    assert "_args" not in repr(records(asked(path="a"), ended(args=ran), texts=False))


def test_a_hook_without_a_name_has_none():
    (found,) = records(hook(name=""), texts=False)
    assert found.attributes["hook_name"] == ""


def test_events_that_are_of_no_account_make_no_record():
    assert records(ContentEvent(text="x"), asked()) == []


def test_the_table_of_attributes_notices_what_differs():
    common = {"session.id": "s", "installation.id": "i", "interactive": False}
    log = common | {"event.timestamp": "t", "event.name": "gemini_cli.user_prompt"}
    assert differences([log | {"prompt_length": 1, "prompt_id": "p"}]) == []
    assert differences([log | {"prompt_length": "1", "extra": "x"}]) == [
        "user_prompt lacks prompt_id",
        "user_prompt has extra",
        "user_prompt.prompt_length is '1'",
    ]
    assert set(ATTRIBUTES) >= {"tool_call", "api_request", "api_response", "api_error", "config"}


@pytest.mark.requirement("TEL-02")
@given(values=st.lists(st.integers(0, 20_000), min_size=1))
def test_a_distribution_counts_every_value_in_its_bucket(values: list[int]):
    metrics = Metrics()
    for value in values:
        facts = {"function_name": "t", "success": True, "tool_type": "native", "duration_ms": value}
        metrics.take(TelemetryRecord("tool_call", "", facts), 1)
    data = RecordFormatter(RecordOrigin(session_id="s", installation_id="i")).metrics(metrics, 2)
    (scope,) = objects(data)[0]["scopeMetrics"]
    (latency,) = (m for m in scope["metrics"] if m["descriptor"]["type"] == "HISTOGRAM")
    (point,) = latency["dataPoints"]
    value = point["value"]
    assert (value["count"], value["sum"]) == (len(values), sum(values))
    assert (value["min"], value["max"]) == (min(values), max(values))
    edges = [-1, *BOUNDARIES, 10**9]
    assert value["buckets"]["counts"] == [
        sum(low < item <= high for item in values) for low, high in pairwise(edges)
    ]
    assert not metrics.changed


@for_each(
    ("settings", "environ", "expected"),
    [
        ({}, {}, None),
        ({"enabled": True}, {}, (None, False)),
        ({"enabled": True, "outfile": "a"}, {}, ("/w/a", True)),
        ({"enabled": True, "outfile": "/b", "log_prompts": True}, {}, ("/b", True)),
        ({"enabled": True, "outfile": "/b", "log_prompts": False}, {}, ("/b", False)),
        ({"enabled": True}, {"GEMINI_TELEMETRY_ENABLED": "0"}, None),
        ({"enabled": True}, {"GEMINI_TELEMETRY_ENABLED": "yes"}, None),
        ({"enabled": True}, {"GEMINI_TELEMETRY_ENABLED": ""}, (None, False)),
        ({}, {"GEMINI_TELEMETRY_ENABLED": "1"}, (None, False)),
        (
            {"outfile": "a", "log_prompts": True},
            {
                "GEMINI_TELEMETRY_ENABLED": "True",
                "GEMINI_TELEMETRY_OUTFILE": "/c",
                "GEMINI_TELEMETRY_LOG_PROMPTS": "false",
            },
            ("/c", False),
        ),
    ],
)
def test_the_environment_wins_over_settings(
    settings: dict[str, Any], environ: dict[str, str], expected: tuple[str | None, bool] | None
):
    found = telemetry_options(TelemetrySettings(**settings), environ, Path("/w"))
    if expected is None:
        assert found is None
    else:
        path, texts = expected
        within = Path("/w") if path is not None and path.startswith("/w/") else None
        assert found == TelemetryOptions(None if path is None else Path(path), texts, within)


def test_a_home_in_the_path_is_the_users(home: Path):
    settings = TelemetrySettings(enabled=True, outfile="~/t.log")
    found = telemetry_options(settings, {}, Path("/w"))
    assert found is not None
    assert found.outfile == home / "t.log"


@pytest.mark.parametrize(
    ("name", "language", "kind"),
    [
        ("a.py", "python", "text/x-python"),
        ("a.ts", "typescript", None),
        ("a.R", "r", None),
        ("Dockerfile", "dockerfile", None),
        ("a.png", None, "image/png"),
        ("README", None, None),
    ],
)
def test_files_are_known_by_their_names(name: str, language: str | None, kind: str | None):
    assert programming_language(PurePath("/p") / name) == language
    assert mime_type(PurePath("/p") / name) == kind


@pytest.mark.requirement("TEL-02")
def test_what_is_sent_again_is_told_by_why_and_counted():
    again = {"model": "m", "prompt_id": "s#1", "max_attempts": 10, "reason": "k-123456 failed"}
    network = RetryEvent(attempt=2, delay_s=5.25, error_type="rate_limit", **again)
    content = RetryEvent(attempt=3, delay_s=1, error_type=InvalidResponseError.kind, **again)
    fallback = ModelFallbackEvent(
        model="flash", instead_of="m", prompt_id="s#1", reason="full", error_type="capacity"
    )
    sent, unusable, switched = made = records(network, content, fallback)
    assert [record.name for record in made] == [
        "network_retry_attempt",
        "chat.content_retry",
        "flash_fallback",
    ]
    assert (sent.attributes["attempt"], sent.attributes["delay_ms"]) == (2, 5250)
    assert unusable.attributes["attempt_number"] == 1
    assert unusable.attributes["retry_delay_ms"] == 1000
    assert (switched.attributes["model"], switched.attributes["instead_of"]) == ("flash", "m")
    assert "k-123456" not in sent.body + unusable.body
    for record in made:
        known = ATTRIBUTES[record.name]
        assert set(known["required"]) <= set(record.attributes)
        assert set(record.attributes) <= {*known["required"], *known["optional"]}
    metrics = Metrics()
    for record in made:
        metrics.take(record, 1)
    named = {item["descriptor"]["name"] for item in metrics.scope_metrics({}, 2)}
    assert named == {"gemini_cli.network_retry.count", "gemini_cli.chat.content_retry.count"}
