"""Conversations that outgrow their window, as the model, the disk and the journal see them."""

import re
from pathlib import Path
from typing import Any

import pytest

from alhena.agent.between_prompts import compress
from alhena.agent.limits import BusyError
from alhena.chat.prompt import ACKNOWLEDGEMENT
from alhena.chat.summary import SUMMARY_LEAD, TAKEN_NOTE
from alhena.config.settings import Settings, settings_of
from alhena.errors import ServerFaultError
from alhena.events import (
    ApiRequestEvent,
    CompressedEvent,
    OutputsMaskedEvent,
)
from tests.agent.kit import agent, conforming, events_of
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text

LONG = "The quick brown fox jumps over the lazy dog. " * 1_000
SNAPSHOT = "<state_snapshot>\n<overall_goal>foxes</overall_goal>\n</state_snapshot>"
WINDOW = 1_048_576


def set_to(threshold: float = 0.5, **masking: int) -> Settings:
    return settings_of(
        {
            "model": {"compressionThreshold": threshold},
            "contextManagement": {"tools": {"outputMasking": masking}},
        },
        "test",
    )


def used(tokens: int, said: str = "fine") -> list[Any]:
    """An answer to a request of so many tokens."""
    return [chunk({"text": said}, finish="STOP", usage={"promptTokenCount": tokens})]


def compression_events(events: list[Any]) -> list[CompressedEvent]:
    return [event for event in events if isinstance(event, CompressedEvent)]


@pytest.mark.parametrize(("window", "status"), [(7_000, ["compressed"]), (9_000, [])])
async def test_the_window_is_what_settings_say(window: int, status: list[str]):
    generator = ScriptedGenerator(
        used(1_000, "one"), used(4_000, "two"), *[[text(SNAPSHOT)]] * (2 * len(status)), used(1_000)
    )
    made = settings_of({"model": {"contextWindow": window}}, "test")
    async with agent(generator, settings=made) as running:
        await running.ask("first " + LONG[:9_000])
        await running.ask("second")
        events, error = await events_of(running, "third")
    assert error is None
    assert [event.status for event in compression_events(events)] == status


@pytest.mark.requirement("CHAT-06")
@pytest.mark.requirement("COST-02")
async def test_past_the_threshold_a_summary_and_the_tail_go_on_behind_the_environment_context():
    generator = ScriptedGenerator(
        used(1_000, "one"),
        used(600_000, "two"),
        [text(f"<scratchpad>hm</scratchpad>{SNAPSHOT}")],
        [text(SNAPSHOT.replace("foxes", "foxes and dogs"))],
        used(2_000, "three"),
    )
    async with agent(generator) as running:
        await running.ask("first " + LONG)
        await running.ask("second")
        events, error = await events_of(running, "third")
    assert error is None
    opening = generator.seen(0)[:2]
    asked, checked, sent = (generator.seen(index) for index in (2, 3, 4))
    assert asked[:-2] == generator.seen(1)
    assert asked[-2]["parts"] == [{"text": "two"}]
    assert asked[-1]["role"] == "user"
    (question,) = asked[-1]["parts"]
    assert "Call no tool" in question["text"]
    assert "<task_state>" in question["text"]
    for index in (2, 3):
        assert generator.requests[index].config == generator.requests[1].config
        assert generator.requests[index].session_id == generator.requests[1].session_id
    assert checked[: len(asked)] == asked
    assert [item["role"] for item in sent] == ["user", "model"] * 3 + ["user"]
    assert sent[:2] == opening
    assert sent[1]["parts"] == [{"text": ACKNOWLEDGEMENT}]
    summary = sent[2]["parts"][0]["text"]
    assert summary.startswith(SUMMARY_LEAD)
    assert "foxes and dogs" in summary
    assert "scratchpad" not in summary
    assert sent[3]["parts"] == [{"text": TAKEN_NOTE}]
    assert [item["parts"][0]["text"] for item in sent[4:]] == ["second", "two", "third"]
    assert conforming(generator)
    (event,) = compression_events(events)
    assert event.status == "compressed"
    assert event.trigger == "auto"
    assert event.original_tokens > 600_000 > event.new_tokens > 0
    roles = [event.role for event in events if isinstance(event, ApiRequestEvent)]
    assert roles == ["utility_compressor", "utility_compressor", "main"]


@pytest.mark.requirement("CHAT-06")
async def test_the_work_on_one_long_prompt_is_compressed_and_the_prompt_stays(project: Path):
    (project / "a.txt").write_text("alpha\n" * 1_900, encoding="utf-8")
    reads = [
        [
            chunk(
                {"text": f"step {number}"},
                call("read_file", {"absolute_path": "a.txt", "offset": number}, id=f"c{number}"),
                finish="STOP",
                usage={"promptTokenCount": 600_000 if number == 7 else 1_000},
            )
        ]
        for number in range(8)
    ]
    generator = ScriptedGenerator(*reads, [text(SNAPSHOT)], [text(SNAPSHOT)], used(2_000, "done"))
    async with agent(generator) as running:
        events, error = await events_of(running, "Read it eight times.")
    assert error is None
    assert [event.status for event in compression_events(events)] == ["compressed"]
    sent = generator.seen(-1)
    assert SNAPSHOT in sent[2]["parts"][0]["text"]
    assert sent[4]["parts"] == [{"text": "Read it eight times."}]
    steps = [item["parts"][0]["text"] for item in sent[5::2]]
    assert steps == [f"step {number}" for number in (5, 6, 7)]
    assert "functionResponse" in sent[-1]["parts"][0]
    assert conforming(generator)


async def test_results_of_tools_go_with_the_question_for_a_summary(project: Path):
    (project / "a.txt").write_text("alpha\n", encoding="utf-8")
    read = call("read_file", {"absolute_path": "a.txt"}, id="c")
    usage = {"promptTokenCount": 600_000}
    generator = ScriptedGenerator(
        used(1_000, "one"),
        [chunk({"text": "look"}, read, finish="STOP", usage=usage)],
        *[[text(SNAPSHOT)]] * 2,
        used(2_000, "done"),
    )
    async with agent(generator) as running:
        await running.ask("first " + LONG)
        events, error = await events_of(running, "second")
    assert error is None
    assert [event.status for event in compression_events(events)] == ["compressed"]
    asked = generator.seen(2)
    assert asked[: len(generator.seen(1))] == generator.seen(1)
    result, question = asked[-1]["parts"]
    assert result["functionResponse"]["name"] == "read_file"
    assert "Call no tool" in question["text"]
    assert conforming(generator)


async def test_a_model_that_calls_instead_of_summarising_is_asked_once_in_another_form(
    project: Path,
):
    read = call("write_file", {"file_path": "x", "content": "y"}, id="c")
    generator = ScriptedGenerator(
        used(1_000, "one"),
        used(600_000, "two"),
        [chunk({"text": "First I write."}, read, finish="STOP")],
        *[[text(SNAPSHOT)]] * 2,
        used(2_000, "three"),
    )
    async with agent(generator, approval_mode="yolo") as running:
        await running.ask("first " + LONG)
        await running.ask("second")
        events, error = await events_of(running, "third")
    assert error is None
    assert [event.status for event in compression_events(events)] == ["compressed"]
    assert not (project / "x").exists()
    assert generator.requests[2].config == generator.requests[1].config
    for index in (3, 4):
        config = generator.requests[index].config
        assert config.tools is None
        assert config.system_instruction is not None
        assert "<task_state>" in (config.system_instruction.parts[0].text or "")
    assert generator.seen(3)[:-1] == generator.seen(1)[:4]
    assert conforming(generator)


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        ([[text(SNAPSHOT.replace("foxes", LONG * 3))]] * 2, "failed_inflated"),
        ([[text(" ")]], "failed_empty_summary"),
        ([[text("I'm sorry, I cannot help with that.")]], "failed_empty_summary"),
        ([[chunk({"text": SNAPSHOT}, finish="MAX_TOKENS")]], "failed_empty_summary"),
        ([[ServerFaultError("down", status=503)]], "failed_request"),
    ],
)
async def test_an_attempt_that_fails_leaves_the_conversation_and_is_not_made_again_at_once(
    answers: list[Any], status: str
):
    generator = ScriptedGenerator(
        used(1_000, "one"), used(4_000, "two"), *answers, used(4_100, "three"), used(4_200, "four")
    )
    small = settings_of({"model": {"compressionThreshold": 0.002}}, "test")
    async with agent(generator, settings=small) as running:
        await running.ask("first " + LONG[:9_000])
        await running.ask("second")
        before = running.history
        events, error = await events_of(running, "third")
        assert error is None
        assert running.history[: len(before)] == before
        assert [event.status for event in compression_events(events)] == [status]
        (event,) = compression_events(events)
        assert event.new_tokens == event.original_tokens
        later, error = await events_of(running, "fourth")
    assert error is None
    assert compression_events(later) == []
    assert generator.turns == []
    assert conforming(generator)


@pytest.mark.parametrize(
    "check",
    [
        [ServerFaultError("down", status=503)],
        [text("The record is correct and complete. No changes are needed.")],
        [chunk({"text": SNAPSHOT.replace("foxes", "dogs")}, finish="MAX_TOKENS")],
        [text("<state_snapshot>-</state_snapshot>")],
    ],
)
async def test_a_check_that_comes_to_no_whole_summary_leaves_the_first_one(check: Any):
    generator = ScriptedGenerator(
        used(1, "one"), used(1, "two"), [text(SNAPSHOT)], check, used(1, "three")
    )
    async with agent(generator) as running:
        await running.ask("first " + LONG)
        await running.ask("second")
        event = await compress(running)
        assert event.status == "compressed"
        assert event.trigger == "manual"
        await running.ask("third")
    assert "foxes" in generator.seen(-1)[2]["parts"][0]["text"]


@pytest.mark.requirement("CHAT-06", "HOOK-04")
async def test_one_exchange_is_enough_for_a_person_and_hooks_hear_of_what_is_compressed_only(
    project: Path,
):
    command = "cat >/dev/null; echo heard >> heard.txt"
    hooks = {"hooks": {"PreCompress": [{"hooks": [{"command": command}]}]}}
    generator = ScriptedGenerator(
        [text("hello")], [text(SNAPSHOT)], [text(SNAPSHOT)], [text("again")]
    )
    async with agent(generator, hooks=hooks) as running:
        assert (await compress(running)).status == "noop"
        assert not (project / "heard.txt").exists()
        await running.ask("hi " + LONG)
        event = await compress(running)
        assert event.status == "compressed"
        assert event.new_tokens < event.original_tokens
        assert (await compress(running)).status == "noop"
        await running.ask("more")
    assert (project / "heard.txt").read_text(encoding="utf-8") == "heard\n"
    sent = generator.seen(-1)
    assert SNAPSHOT in sent[2]["parts"][0]["text"]
    assert [item["parts"][0]["text"] for item in sent[3:]] == [TAKEN_NOTE, "more"]
    assert len(generator.requests) == 4
    assert conforming(generator)


async def test_a_record_and_what_was_said_since_are_compressed_again_when_a_person_wants_it():
    fresh = SNAPSHOT.replace("foxes", "hens")
    generator = ScriptedGenerator(
        [text("hello")], *[[text(SNAPSHOT)]] * 2, [text("two")], *[[text(fresh)]] * 2
    )
    async with agent(generator) as running:
        await running.ask("hi " + LONG)
        assert (await compress(running)).status == "compressed"
        await running.ask("second " + LONG)
        assert (await compress(running)).status == "compressed"
        lead = running.history[2].parts[0].text or ""
    assert "hens" in lead
    assert "foxes" not in lead


async def test_nothing_is_compressed_while_a_run_is_at_work():
    generator = ScriptedGenerator([chunk({"text": "a"}), text("b")])
    async with agent(generator) as running:
        run = running.run("hi")
        await anext(run)
        with pytest.raises(BusyError):
            await compress(running)
        await run.aclose()


async def test_what_does_not_fit_and_cannot_be_summarised_is_left_out_behind_a_note():
    generator = ScriptedGenerator(
        used(1_000, "one"),
        used(1_000, "two"),
        used(1_046_000, "three"),
        used(9_000, "four"),
    )
    async with agent(generator, settings=set_to(0)) as running:
        await running.ask("first " + LONG)
        await running.ask("second " + LONG)
        await running.ask("third")
        events, error = await events_of(running, "fourth")
    assert error is None
    assert [event.status for event in compression_events(events)] == ["content_truncated"]
    sent = generator.seen(-1)
    assert sent[:2] == generator.seen(0)[:2]
    assert "was left out" in sent[2]["parts"][0]["text"]
    assert [item["parts"][0]["text"][:6] for item in sent[4:]] == [
        "second",
        "two",
        "third",
        "three",
        "fourth",
    ]
    assert conforming(generator)


async def test_old_results_are_masked_and_the_whole_can_be_read_on(project: Path):
    words = [f"{name} {name}\n" * 1_500 for name in ("alpha", "beta", "gamma", "delta")]
    for number, word in enumerate(words):
        (project / f"{number}.txt").write_text(word + "end", encoding="utf-8")
    reads = [
        [
            chunk(
                call("read_file", {"absolute_path": f"{number}.txt"}, id=f"c{number}"),
                finish="STOP",
            )
        ]
        for number in range(4)
    ]
    generator = ScriptedGenerator(*reads, [text("done")], [text("again")])
    limits = set_to(protectionThresholdTokens=5_000, minPrunableThresholdTokens=6_000)
    async with agent(generator, settings=limits) as running:
        events, error = await events_of(running, "read all")
        assert error is None
        (event,) = [event for event in events if isinstance(event, OutputsMaskedEvent)]
        session_id = running.session_id
        history = running.history
    assert event.results == 2
    assert event.new_tokens < event.original_tokens
    outputs = [
        item["parts"][0]["functionResponse"]["response"]["output"]
        for item in generator.seen(4)
        if "functionResponse" in item["parts"][0]
    ]
    assert [output.startswith("<tool_output_masked>\n") for output in outputs] == [
        True,
        True,
        False,
        False,
    ]
    assert outputs[2] == words[2] + "end"
    found = re.search(r"Full output available at: (.+)\n</tool_output_masked>$", outputs[0])
    assert found is not None
    assert Path(found[1]).read_text(encoding="utf-8") == words[0] + "end"
    assert len(outputs[0]) < 1_000
    assert conforming(generator)
    args = {"path": found[1]}
    later = ScriptedGenerator(
        [chunk(call("read_tool_output", args, id="r"), finish="STOP")], [text("seen")]
    )
    async with agent(later, resume=session_id) as running:
        assert running.history == history
        await running.ask("look again")
    assert "alpha alpha" in str(later.seen(-1)[-1])


async def test_a_compressed_session_goes_on_where_it_was(project: Path):
    generator = ScriptedGenerator(
        used(1, "one"), used(1, "two"), [text(SNAPSHOT)], [text(SNAPSHOT)]
    )
    async with agent(generator) as running:
        await running.ask("first " + LONG)
        await running.ask("second")
        assert (await compress(running)).status == "compressed"
        history = running.history
    later = ScriptedGenerator([text("three")])
    async with agent(later, resume="latest") as running:
        assert running.history == history
        await running.ask("third")
    assert SNAPSHOT in later.seen(0)[2]["parts"][0]["text"]
    assert conforming(later)
