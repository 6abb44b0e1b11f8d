"""The journal holds the rule of each decision, and the calls of subagents with their results."""

from pathlib import Path

from alhena.agent.subagents.event_relay import EventRelay
from alhena.events import ApiResponseEvent, Event, RetryEvent
from alhena.scheduler.scheduler import Caller
from tests.support.command import alhena
from tests.tracing.kit import PROMPT, events, place, record_journal


def test_each_decision_is_recorded_with_the_rule_and_its_words(project: Path):
    ended = {each["call_id"]: each for each in events(record_journal(), "tool_call_response")}
    assert ended["r1"]["rule"].startswith("default (reading.toml:")
    rule = ended["r1"]["rule"].removeprefix("default ")
    assert ended["r1"]["reason"] == f"allowed by the default policy {rule}"
    assert "curl uses the network" in ended["s1"]["reason"]
    assert ended["e1"]["rule"].startswith("default (auto-edit.toml:")
    assert ended["d1/l1"]["rule"] == ended["r1"]["rule"]


def test_calls_of_a_subagent_are_recorded_with_their_path_and_result(project: Path):
    requested = {each["call_id"]: each for each in events(record_journal(), "tool_call_request")}
    ended = {each["call_id"]: each for each in events(record_journal(), "tool_call_response")}
    assert requested["d1/l1"]["args"] == {"path": "."}
    assert requested["d1/l1"]["parent_call_id"] == ended["d1/l1"]["parent_call_id"] == "d1"
    (part,) = ended["d1/l1"]["parts"]
    assert "a.txt" in part["functionResponse"]["response"]["output"]
    assert "parts" not in ended["r1"]


def test_a_session_is_resumed_as_before(project: Path):
    place(record_journal(), project)
    shown = alhena("sessions", "export", "s")
    assert shown.code == 0
    assert "Result of delegate" in shown.out
    assert alhena("sessions", "list", "--json").json["sessions"][0]["title"] == PROMPT


def test_requests_and_retries_from_deeper_down_keep_their_own_parent():
    heard: list[Event] = []
    relay = EventRelay(Caller("worker", "worker-1", "p"), heard.append, lambda _text: None)
    retry = RetryEvent(
        model="m",
        prompt_id="p",
        attempt=2,
        max_attempts=3,
        delay_s=0.0,
        reason="",
        error_type="",
        retract=True,
    )
    response = ApiResponseEvent(model="m", prompt_id="p", duration_ms=1.0, parent_call_id="c")
    relay.emit(retry)
    relay.emit(response)
    first, second = heard
    assert isinstance(first, RetryEvent)
    assert isinstance(second, ApiResponseEvent)
    assert (first.parent_call_id, first.retract) == ("p", False)
    assert second.parent_call_id == "p/c"
