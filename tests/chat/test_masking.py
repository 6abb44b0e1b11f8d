"""Context usage through all changes of the history, and masking."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alhena.chat.chat import Chat, Outlets
from alhena.chat.estimates import config_tokens
from alhena.chat.history import History
from alhena.chat.masking import (
    CLOSE,
    OPEN,
    Gauge,
    Keep,
    MaskingLimits,
    mask_results,
    maskable_tokens,
    prefix_sums,
    preview,
    to_mask,
)
from alhena.chat.turn import ModelTraits
from alhena.wire.content import (
    MODEL,
    USER,
    Content,
    EncodedContent,
    FunctionCall,
    FunctionResponse,
    Part,
    text_content,
)
from alhena.wire.request import GenerateContentConfig
from tests.support.scripted import ScriptedGenerator
from tests.support.server import chunk, text

CONFIG = GenerateContentConfig(system_instruction=text_content(USER, "x" * 400))


def chat_over(generator: ScriptedGenerator | None = None) -> Chat:
    async def pace() -> None:
        pass

    return Chat(
        generator or ScriptedGenerator(),
        ModelTraits(name="m"),
        CONFIG,
        History(),
        Outlets(lambda _event: None, pace),
    )


def result(output: str, name: str = "read_file", call_id: str = "1") -> Content:
    response = FunctionResponse(id=call_id, name=name, response={"output": output})
    return Content(role=USER, parts=(Part(function_response=response),))


def asking(name: str = "read_file") -> Content:
    return Content(role=MODEL, parts=(Part(function_call=FunctionCall(id="1", name=name)),))


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ambrsn"), st.integers(0, 30), st.booleans())))
def test_the_gauge_says_what_a_new_one_would_say(changes: list[tuple[str, int, bool]]):
    chat = chat_over()
    gauge = Gauge(chat)
    for change, at, look in changes:
        history = chat.history
        if change == "a":
            history.add_user((Part(text="w" * at * 4),))
        elif change == "m":
            history.add_model(text_content(MODEL, "中" * at))
        elif change == "b":
            history.rollback(at)
        elif change == "r":
            history.restate(lambda content: text_content(content.role or USER, "same"))
        elif change == "s":
            chat.history = History(history.contents[at:])
        elif len(history):
            history.amend({at % len(history): text_content(USER, "n" * 40)})
        if look:
            gauge.follow()
    gauge.follow()
    fresh = Gauge(chat)
    fresh.follow()
    assert list(gauge.sums) == list(fresh.sums) == prefix_sums(chat.history.contents)
    assert gauge.history_tokens == fresh.history_tokens


async def test_what_the_service_counted_is_the_base_and_only_what_is_new_is_estimated():
    generator = ScriptedGenerator(
        [chunk({"text": "b" * 400}, finish="STOP", usage={"promptTokenCount": 7_000})],
        [text("no usage")],
    )
    chat = chat_over(generator)
    gauge = Gauge(chat)
    await chat.send((Part(text="a" * 4_000),), "p")
    gauge.follow()
    assert gauge.history_tokens == 7_100
    assert gauge.scale == 7_100 / (config_tokens(CONFIG) + 1_100)
    fresh, media = gauge.unmeasured_tokens((Part(text="c" * 40),))
    assert (fresh, media) == (110, 0)
    chat.history.rollback(0)
    gauge.follow()
    assert gauge.history_tokens == config_tokens(CONFIG) == 100
    await chat.send((Part(text="a" * 4_000),), "p")
    gauge.follow()
    assert gauge.history_tokens == 1_100 + 2


def test_the_newest_results_stay_and_the_one_that_completes_them_can_go():
    contents = [item for _ in range(5) for item in (asking(), result("x" * 4_000))]
    entries = [EncodedContent(content) for content in contents]
    each = maskable_tokens(contents[1])
    assert 1_000 <= each <= 1_010
    limits = MaskingLimits(protected=2 * each, least=each, latest=False)
    assert sorted(to_mask(entries, limits)) == [1, 3, 5]
    assert sorted(to_mask(entries, MaskingLimits(protected=2 * each, least=each))) == [1, 3]
    assert to_mask(entries, MaskingLimits(protected=2 * each, least=4 * each)) == {}


@pytest.mark.parametrize(
    "name", ["ask_user", "activate_skill", "enter_plan_mode", "exit_plan_mode"]
)
def test_answers_that_steer_the_work_are_never_masked(name: str):
    content = result("x" * 40_000, name)
    assert maskable_tokens(content) == 0
    assert to_mask([EncodedContent(content)] * 9, MaskingLimits(protected=0, least=1)) == {}


class Shelf:
    """Keeps texts, and says under which path."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.texts: list[str] = []

    def __call__(self, texts: Sequence[tuple[str, str, str]]) -> list[str | None]:
        self.texts += (text for _, _, text in texts)
        if self.folder is None:
            return [f"/kept/{call}" for _, call, _ in texts]
        paths = [self.folder / call for _, call, _ in texts]
        for path in paths:
            path.touch()
        return list(map(str, paths))


def alone(content: Content, keep: Keep) -> Content:
    """A content with its first part masked."""
    return mask_results({7: content}, {7: frozenset({0})}, keep).get(7, content)


def test_a_masked_result_is_not_masked_again_but_one_that_pretends_to_be_is():
    shelf = Shelf()
    once = alone(result("x" * 40_000), shelf)
    assert maskable_tokens(once) == 0
    assert shelf.texts == ["x" * 40_000]
    pretending = result(f"{OPEN}{'x' * 40_000}{CLOSE}")
    assert maskable_tokens(pretending) > 10_000


def test_only_what_gets_shorter_is_masked_and_other_forms_are_kept_as_json():
    shelf = Shelf()
    assert alone(result("short"), shelf) == result("short")
    assert shelf.texts == []
    response = FunctionResponse(id="1", name="x", response={"a": ["y" * 9_000], "b": 1})
    alone(Content(role=USER, parts=(Part(function_response=response),)), shelf)
    assert shelf.texts[0].startswith('{"a":["yyy')
    failed = FunctionResponse(id="1", name="x", response={"error": "z" * 9_000})
    (part,) = alone(Content(role=USER, parts=(Part(function_response=failed),)), Shelf()).parts
    assert part.function_response is not None
    assert list(part.function_response.response) == ["error"]


def test_each_mask_names_the_file_of_its_own_result():
    contents = {n: result(f"{n}" * 9_000, call_id=f"c{n}") for n in range(4)}
    changed = mask_results(contents, dict.fromkeys((3, 1), frozenset({0})), Shelf())
    assert changed.keys() == {1, 3}
    for n, content in changed.items():
        text = str(content)
        assert f"/kept/c{n}" in text
        assert f"{n}" * 200 in text


def test_of_a_command_the_first_and_the_last_lines_are_shown():
    lines = [f"line {number}" for number in range(100)]
    report = "\n".join([*lines, "Exit Code: 1", "Signal: (none)"])
    shown = preview("run_shell_command", report)
    assert "line 9\n... [82 lines omitted] ...\nline 92" in shown
    assert shown.endswith("Exit Code: 1\nSignal: (none)")
    assert len(preview("run_shell_command", "x" * 99_000 + "\n" * 50 + "y" * 99_000)) < 8_000
    assert preview("read_file", "a" * 600) == f"{'a' * 250}\n... [TRUNCATED] ...\n{'a' * 250}"
    assert preview("read_file", "a" * 500) == "a" * 500
