import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.hooks.model import ANSWER_LIMIT, OUTPUT_LIMIT, HookEvent, HookRun, HookVerdict, TailCall
from alhena.hooks.output import MESSAGE_LIMIT, HookAnswer, interpret
from tests.support.each import for_each

BEFORE = HookEvent.BEFORE_TOOL


def read_output(
    stdout: str | bytes | dict[str, Any] | list[Any],
    code: int | None = 0,
    *,
    stderr: bytes = b"",
    event: HookEvent = BEFORE,
    problem: str = "",
) -> HookAnswer:
    if isinstance(stdout, dict | list):
        stdout = json.dumps(stdout)
    data = stdout.encode() if isinstance(stdout, str) else stdout
    run = HookRun(
        exit_code=code,
        stdout=data[:ANSWER_LIMIT],
        stderr=stderr,
        stdout_bytes=len(data),
        duration_ms=1,
        problem=problem,
    )
    return interpret(event, run)


def test_silence_with_exit_code_0_says_nothing():
    assert read_output("") == HookAnswer(verdict=HookVerdict())


def test_text_with_exit_code_0_is_for_people():
    assert read_output(" hello \n").verdict == HookVerdict(system_messages=("hello",))
    assert read_output("", stderr=b"note").verdict == HookVerdict(system_messages=("note",))


def test_text_with_exit_code_1_is_a_failure_that_tells_it():
    answer = read_output("", 1, stderr=b"no such file")
    assert answer == HookAnswer(
        verdict=HookVerdict(), failure="it exited with code 1: no such file"
    )


@pytest.mark.parametrize("code", [2, 3, 126, 127, 255])
def test_any_other_exit_code_blocks_with_the_text_as_reason(code: int):
    assert read_output("", code, stderr=b" not that \n").verdict.block == "not that"
    assert read_output("", code).verdict.block == f"the hook ended with exit code {code}"
    assert read_output({"decision": "allow"}, code, stderr=b"no").verdict.block == "no"
    assert read_output({"decision": "ask", "reason": "why"}, code).verdict == HookVerdict(
        block="why"
    )
    assert read_output([1], code, stderr=b"no").verdict.block == "no"


def test_json_that_blocks_or_stops_counts_whatever_the_exit_code():
    for code in (0, 1, 2, 9, None):
        problem = "" if code is not None else "it was ended by SIGKILL"
        for decision in ("block", "deny"):
            answer = read_output({"decision": decision, "reason": "no"}, code, problem=problem)
            assert answer.verdict == HookVerdict(block="no"), code
        answer = read_output({"continue": False, "stopReason": "enough"}, code, problem=problem)
        assert answer.verdict == HookVerdict(stop="enough")


def test_what_was_allowed_before_a_crash_is_not():
    answer = read_output({"decision": "allow", "systemMessage": "m"}, None, problem="killed")
    assert answer == HookAnswer(verdict=HookVerdict(), failure="killed")


def test_an_explicit_allow_with_exit_code_1_is_one():
    assert read_output({"decision": "allow"}, 1) == HookAnswer(verdict=HookVerdict())
    assert read_output({"systemMessage": "hm"}, 1) == HookAnswer(
        verdict=HookVerdict(system_messages=("hm",)), failure="it exited with code 1"
    )


@for_each(
    ("written", "what"),
    [
        ("[1, 2]", "its output is JSON, but no object"),
        ("12", "its output is JSON, but no object"),
        ("1.5", "its output is JSON, but no object"),
        ("true", "its output is JSON, but no object"),
        ("null", "its output is JSON, but no object"),
        ('"[1]"', "its output is JSON, but no object"),
        ('{"decision": "perhaps"}', "its output cannot be used: Invalid enum value 'perhaps'"),
        ('{"continue": "true"}', "its output cannot be used: Expected bool | null, got str"),
        ('{"decision": "allow"', "its output is no valid JSON"),
        ('{"tool_input": {"decision": "deny"}, "continue": 1}', "its output cannot be used"),
        ('{"log": [{"decision": "deny"}], "reason": 5}', "its output cannot be used"),
        ('{"hookSpecificOutput": {"tool_input": []}}', "its output cannot be used"),
        (b"\xff\xfe{}", "its output is not UTF-8 (byte 0)"),
        ("[" * 100_000 + "]" * 100_000, ""),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "its output is no valid JSON"),
    ],
)
def test_what_nobody_can_have_meant_is_a_failure(written: str | bytes, what: str):
    answer = read_output(written)
    assert answer.failure.startswith(what)
    if what:
        assert answer.verdict == HookVerdict()


DENY = '{"decision": "deny", "reason": "no"}'


@for_each(
    "written",
    [
        '{"decision": "deny", "reason": 5}',
        '{"decision": "deny", "hookSpecificOutput": []}',
        '{"decision": "deny", "systemMessage": {}, "suppressOutput": "x"}',
        '{"decision": "DENY"}',
        '{"decision": " block\\n"}',
        '{"Decision": "Denied"}',
        '{"decision": false}',
        '{"decision": ["deny"]}',
        '{"decision": {"behavior": "deny"}}',
        '{"permissionDecision": "deny"}',
        '{"hookSpecificOutput": {"permissionDecision": "deny", "tool_input": []}}',
        '{"hookSpecificOutput": {"decision": "block"}}',
        '{"decision": "deny", "decision": "allow"}',
        '{"decision": "allow", "decision": "deny"}',
        '{"\\u0064ecision": "\\u0064eny"}',
        '{"decision": "deny"',
        '{"decision": "deny", "reason": "it is',
        '{"decision": "deny',
        f"checking ...\n{DENY}",
        f"[INFO] {{checking\n{DENY}\ndone",
        f"it's fine: no\n{DENY}",
        f'{{"msg": "started\n{DENY}',
        f"[{DENY}]",
        f'{{"decision": "allow"}}\n{DENY}',
        f'{DENY}{{"decision": "allow"}}',
        f"\ufeff\ufeff{DENY}",
        json.dumps(json.dumps({"decision": "deny", "reason": 5})),
        "{'decision': 'deny', 'reason': None}",
        "{decision: deny}",
        '{"decision": "deny", "x": NaN}',
        '{"decision": "deny",}',
        b'{"decision": "deny", "reason": "\xff"}',
        DENY.encode("utf-16"),
        DENY.encode("utf-16-be"),
        DENY.replace("deny", "\x1b[31mdeny\x1b[0m"),
        json.dumps({"decision": "\x1b[1;31mdeny\x1b[0m"}),
        json.dumps({"\x1b[1mdecision\x1b[0m": "deny"}),
        f"\x1b[32m{DENY}\x1b[0m",
        "\x1b]0;title\x07" + DENY.replace(":", "\x1b[0m:\x1b[33m"),
        DENY.replace('"', '\x1b[34m"\x1b[0m'),
        f'checked "src {DENY}',
        f'checked "src\t{DENY}"',
        "decision=deny",
        "decision: 'deny'",
    ],
)
def test_a_no_stands_whatever_else_is_wrong(written: str | bytes):
    data = written.encode() if isinstance(written, str) else written
    for code, problem in ((0, ""), (1, ""), (2, ""), (None, "Hook timed out")):
        for event in HookEvent:
            run = HookRun(
                exit_code=code, stdout=data, stdout_bytes=len(data), duration_ms=1, problem=problem
            )
            assert interpret(event, run).verdict.block is not None, (code, event)
    errors = HookRun(exit_code=0, stdout=b"done", stderr=data, stdout_bytes=4, duration_ms=1)
    assert interpret(BEFORE, errors).verdict.block is not None


@for_each(
    "written",
    [
        "x" * OUTPUT_LIMIT + f"\n{DENY}",
        '{"log": "' + "x" * 1_500_000 + '", "decision": "deny"}',
        '{"log": [' + '{"line": "it is"},' * 80_000 + '{}], "decision": "deny"}',
        '{"decision": "allow"}\n' * 60_000 + DENY,
    ],
)
def test_a_no_at_the_end_of_a_long_output_stands(written: str):
    assert read_output(written).verdict.block is not None
    assert read_output("", stderr=written.encode()).verdict.block is not None


@for_each("value", ["false", "False", " NO ", 0, False])
def test_a_run_that_may_not_continue_stops_however_that_is_written(value: object):
    answer = read_output({"continue": value, "stopReason": "enough", "hookSpecificOutput": 7})
    assert answer.verdict.stop == "enough"


def test_a_wish_to_ask_stands_whatever_else_is_wrong():
    for problem in ("", "killed"):
        answer = read_output({"decision": "Ask", "reason": ["sure?"]}, 0, problem=problem)
        assert answer.verdict == HookVerdict(ask=True, reason="sure?")


def test_the_reason_is_that_of_the_no():
    assert read_output('{"decision": "allow", "reason": "fine"}' + DENY).verdict.block == "no"
    assert read_output({"decision": "deny", "reason": 5}).verdict.block == "5"


@given(st.text(max_size=30), st.text(alphabet="{}[]:,\"'\\ \nab", max_size=30), st.booleans())
def test_a_no_in_a_line_of_its_own_is_found_behind_any_text_without_braces(
    before: str, after: str, pretty: bool
):
    plain = "".join(each for each in before if each not in "{}[]:,\"'")
    written = json.dumps({"reason": after, "decision": "deny"}, indent=2 if pretty else None)
    assert read_output(f"{plain}\n{written}\n{after}").verdict.block is not None


def test_a_start_of_a_session_that_only_fails_is_no_refusal():
    answer = read_output("", 128, stderr=b"no commits", event=HookEvent.SESSION_START)
    assert answer == HookAnswer(
        verdict=HookVerdict(), failure="it exited with code 128: no commits"
    )


def test_more_than_can_be_read_is_a_failure():
    answer = read_output('{"a": "' + "x" * OUTPUT_LIMIT + '"}')
    assert answer.failure == f"it wrote {OUTPUT_LIMIT + 9} bytes, of which {OUTPUT_LIMIT} are read"


@for_each("stream", ["stdout", "stderr"])
def test_more_than_is_searched_blocks_what_a_refusal_could_have_blocked(stream: str):
    cut: dict[str, Any] = {stream: b"x" * 10, f"{stream}_bytes": 11}
    for event in HookEvent:
        for code in (0, 1):
            answer = interpret(event, HookRun(exit_code=code, **cut))
            blocks = event.startswith("Before") or event in (HookEvent.AFTER_MODEL, "AfterTool")
            assert (answer.verdict.block is not None) == blocks, event
            assert not blocks or "11 bytes" in str(answer.verdict.block)
    allowing = b'{"decision": "allow"}'
    run = HookRun(exit_code=0, **{**cut, stream: allowing, f"{stream}_bytes": 99})
    assert interpret(BEFORE, run).verdict.block is None


def test_json_in_a_json_string_is_read():
    assert (
        read_output(json.dumps(json.dumps({"decision": "block", "reason": "r"}))).verdict.block
        == "r"
    )
    assert read_output('"just text"').verdict.system_messages == ('"just text"',)


def test_fields_may_be_null_and_unknown_ones_are_left_alone():
    answer = read_output({"decision": None, "reason": None, "hookSpecificOutput": None, "new": 1})
    assert answer == HookAnswer(verdict=HookVerdict())


def test_a_byte_order_mark_is_no_part_of_it():
    assert read_output(b'\xef\xbb\xbf{"decision": "deny"}').verdict.block == "No reason provided"


def test_asking_is_for_tools_only_and_stopping_goes_before_blocking():
    ask = {"decision": "ask", "reason": "sure?"}
    assert read_output(ask).verdict == HookVerdict(ask=True, reason="sure?")
    assert read_output(ask, event=HookEvent.AFTER_TOOL).verdict == HookVerdict()
    both = {"continue": False, "decision": "deny", "reason": "b", "stopReason": "s"}
    assert read_output(both).verdict == HookVerdict(stop="s")


def test_a_permission_as_claudes_hooks_give_it_counts():
    specific = {"permissionDecision": "deny", "permissionDecisionReason": "no"}
    assert read_output({"hookSpecificOutput": specific}).verdict.block == "no"
    assert read_output({"decision": "allow", "hookSpecificOutput": specific}).verdict.block == "no"


SPECIFIC: dict[str, Any] = {
    "additionalContext": "a <b> c",
    "tool_input": {"x": 1},
    "llm_request": {"model": "m"},
    "llm_response": {"text": "t"},
    "toolConfig": {"mode": "ANY", "allowedFunctionNames": ["a"]},
    "clearContext": True,
    "tailToolCallRequest": {"name": "n", "args": {"k": 1}},
}


@pytest.mark.parametrize(
    ("event", "own"),
    [
        (HookEvent.BEFORE_TOOL, {"tool_input": {"x": 1}}),
        (HookEvent.AFTER_TOOL, {"tail_call": TailCall("n", {"k": 1})}),
        (HookEvent.AFTER_AGENT, {"clear_context": True}),
        (
            HookEvent.BEFORE_MODEL,
            {"llm_request": {"model": "m"}, "llm_response": {"text": "t"}},
        ),
        (HookEvent.AFTER_MODEL, {"llm_response": {"text": "t"}}),
        (
            HookEvent.BEFORE_TOOL_SELECTION,
            {"tool_config": {"mode": "ANY", "allowedFunctionNames": ["a"]}},
        ),
        (HookEvent.SESSION_START, {}),
        (HookEvent.NOTIFICATION, {}),
    ],
)
def test_each_event_takes_what_is_its_own(event: HookEvent, own: dict[str, Any]):
    verdict = read_output(
        {"hookSpecificOutput": SPECIFIC, "suppressOutput": True}, event=event
    ).verdict
    context = "a &lt;b&gt; c"
    assert verdict == HookVerdict(additional_context=context, suppress_output=True, **own)


def test_long_words_are_cut_with_a_word_on_it():
    reason = read_output({"decision": "deny", "reason": "x" * (MESSAGE_LIMIT + 5)}).verdict.block
    assert reason == "x" * MESSAGE_LIMIT + " [… 5 more characters]"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(
    st.binary() | JSON.map(json.dumps).map(str.encode),
    st.binary(max_size=20),
    st.none() | st.integers(0, 255),
    st.sampled_from(HookEvent),
)
def test_whatever_is_written_is_understood_or_a_failure_and_2_never_passes(
    out: bytes, errors: bytes, code: int | None, event: HookEvent
):
    answer = read_output(
        out, code, stderr=errors, event=event, problem="" if code is not None else "p"
    )
    if code is None:
        assert answer.failure
    elif code >= 2 and event is not HookEvent.SESSION_START:
        assert answer.verdict.block or answer.verdict.stop
