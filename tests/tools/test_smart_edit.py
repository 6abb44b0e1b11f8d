import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from alhena.models.errors import QuotaError
from alhena.system.workspace import Workspace
from alhena.tools.builtin.edit_files import SmartEdit
from alhena.tools.contract import EditConfirmation, ExecutionContext, ToolFailure
from tests.tools.files import call, failure_type, text_of

BEFORE = "def area(width, height):\r\n    return width * height\r\n"
WRONG = {
    "file_path": "a.py",
    "instruction": "Give areas in square metres.",
    "old_string": "def area(w, h):\n    return w * h",
    "new_string": "def area(w, h):\n    return w * h / 1e4",
}
RIGHT = {
    "search": "def area(width, height):\n    return width * height",
    "replace": "def area(width, height):\n    return width * height / 1e4",
    "explanation": "The parameters have longer names.",
}


class Model:
    """Answers every prompt alike and keeps the prompts."""

    def __init__(self, answer: object) -> None:
        self.answer = answer if isinstance(answer, str) else json.dumps(answer)
        self.prompts: list[str] = []

    async def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        return self.answer


def smart_edit(
    project: Path, ask: Callable[[str], Awaitable[str]] | None, timeout: float | None = None
) -> SmartEdit:
    (project / "a.py").write_bytes(BEFORE.encode())
    return SmartEdit(Workspace(project), ask, timeout)


def is_untouched(project: Path) -> bool:
    return (project / "a.py").read_bytes() == BEFORE.encode()


@pytest.mark.requirement("TOOLS-11")
@pytest.mark.parametrize("fence", ["{}", "```json\n{}\n```"])
async def test_a_miss_is_corrected_once_by_the_model(project: Path, fence: str) -> None:
    model = Model(fence.replace("{}", json.dumps({**RIGHT, "no_changes_required": False})))
    result = await call(smart_edit(project, model), **WRONG)
    assert (project / "a.py").read_bytes() == BEFORE.replace("t\r\n", "t / 1e4\r\n").encode()
    assert "a correction by the model was applied at line(s) 1-2: The parameters" in text_of(result)
    assert result.data == {"rung": "corrected", "lines": [[1, 2]], "replacements": 1}
    (prompt,) = model.prompts
    for said in (WRONG["instruction"], WRONG["old_string"], WRONG["new_string"]):
        assert said in prompt
    assert "def area(width, height):\n    return width * height\n" in prompt
    assert "0 occurrences found" in prompt


@pytest.mark.requirement("TOOLS-11")
@pytest.mark.parametrize(
    ("answer", "type", "told"),
    [
        ("no JSON", "edit_no_occurrence_found", "not in the form asked for"),
        ({**RIGHT, "more": 1}, "edit_no_occurrence_found", "not in the form asked for"),
        ({"search": "x"}, "edit_no_occurrence_found", "not in the form asked for"),
        ({**RIGHT, "search": 1}, "edit_no_occurrence_found", "not in the form asked for"),
        ("\ud800", "edit_no_occurrence_found", "not in the form asked for"),
        ({**RIGHT, "search": "nowhere"}, "edit_no_occurrence_found", "not in the file either"),
        ({**RIGHT, "search": "return  width"}, "edit_no_occurrence_found", "not in the file"),
        ({**RIGHT, "search": "width"}, "edit_no_occurrence_found", "occurs 2 times"),
        ({**RIGHT, "search": ""}, "edit_no_occurrence_found", "it changes nothing"),
        ({**RIGHT, "search": RIGHT["replace"]}, "edit_no_occurrence_found", "changes nothing"),
        (
            {**RIGHT, "replace": "# ... rest of code ..."},
            "edit_no_occurrence_found",
            "new text is not complete",
        ),
        (
            {"search": "", "replace": "", "explanation": "It\nis so.", "no_changes_required": True},
            "edit_no_change_llm_judgement",
            "It is so.",
        ),
        (
            {"search": "", "replace": "", "explanation": "Done.", "noChangesRequired": True},
            "edit_no_change_llm_judgement",
            "Done.",
        ),
        ({**RIGHT, "noChangesRequired": "yes"}, "edit_no_occurrence_found", "not in the form"),
        ({**RIGHT, "search": BEFORE, "replace": ""}, "edit_no_occurrence_found", "takes away"),
        (
            {**RIGHT, "replace": RIGHT["replace"] + "\n    send(password)"},
            "edit_no_occurrence_found",
            "it adds 'password', which the edit does not",
        ),
    ],
)
async def test_an_answer_that_cannot_be_applied_changes_nothing(
    project: Path, answer: object, type: str, told: str
) -> None:
    model = Model(answer)
    result = await call(smart_edit(project, model), **WRONG)
    assert failure_type(result) == type
    assert told in text_of(result)
    assert len(model.prompts) == 1
    assert is_untouched(project)


@pytest.mark.requirement("TOOLS-11")
async def test_a_model_that_does_not_answer_in_time_is_not_waited_for(project: Path) -> None:
    async def forever(prompt: str) -> str:
        await asyncio.Event().wait()
        raise AssertionError("nothing sets this event")

    result = await call(smart_edit(project, forever, 0.0), **WRONG)
    assert failure_type(result) == "edit_no_occurrence_found"
    assert "none came within 0 s" in text_of(result)
    assert is_untouched(project)


async def test_a_model_that_fails_leaves_the_miss_as_it_was(project: Path) -> None:
    async def refuse(prompt: str) -> str:
        raise QuotaError("No quota\nis left.")

    result = await call(smart_edit(project, refuse), **WRONG)
    assert failure_type(result) == "edit_no_occurrence_found"
    assert "0 occurrences found" in text_of(result)
    assert "the model did not answer: No quota is left." in text_of(result)


async def test_cancelling_while_the_model_thinks_changes_nothing(project: Path) -> None:
    asked = asyncio.Event()

    async def forever(prompt: str) -> str:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError("nothing sets this event")

    running = asyncio.ensure_future(call(smart_edit(project, forever), **WRONG))
    await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert is_untouched(project)


@pytest.mark.requirement("TOOLS-11")
@pytest.mark.parametrize(
    "name",
    [
        "a.json", "a.JSONC", "a.json5", "a.ipynb", "a.jsonl", "a.ndjson", "a.geojson",
    ],
)  # fmt: skip
async def test_nothing_like_json_is_corrected(project: Path, name: str) -> None:
    model = Model(RIGHT)
    tool = smart_edit(project, model)
    (project / name).write_bytes(BEFORE.encode())
    result = await call(tool, **{**WRONG, "file_path": name})
    assert failure_type(result) == "edit_no_occurrence_found"
    assert model.prompts == []
    assert (project / name).read_bytes() == BEFORE.encode()


@pytest.mark.parametrize(
    ("before", "asked"),
    [
        ('{"def area(width, height)": 1}\n', 0),
        ('\n  [\n  "def area(width, height)"\n]\n', 0),
        ('{ def area(width, height)": 1\n', 1),
        ("[]\ndef area(width, height):\n", 1),
        ("[table]\nkey = 1\n", 1),
    ],
)
async def test_json_is_known_by_its_text_whatever_the_name(
    project: Path, before: str, asked: int
) -> None:
    model = Model(RIGHT)
    tool = smart_edit(project, model)
    (project / "state").write_text(before, encoding="utf-8")
    result = await call(tool, **{**WRONG, "file_path": "state"})
    assert failure_type(result) == "edit_no_occurrence_found"
    assert len(model.prompts) == asked


@pytest.mark.requirement("TOOLS-11")
@pytest.mark.parametrize(
    "params",
    [
        {"old_string": "width", "new_string": "w"},  # ambiguous, not missing
        {"old_string": "x" * 30_000},  # too much to send
        {"expected_replacements": 2},
        {"allow_multiple": True},
        {"file_path": "missing.py"},
        {"new_string": WRONG["old_string"]},
    ],
)
async def test_only_a_single_edit_that_found_nothing_is_corrected(
    project: Path, params: dict[str, object]
) -> None:
    model = Model(RIGHT)
    result = await call(smart_edit(project, model), **{**WRONG, **params})
    assert result.error is not None
    assert model.prompts == []
    assert is_untouched(project)


async def test_of_a_long_file_the_part_around_the_closest_lines_is_sent(project: Path) -> None:
    model = Model({**RIGHT, "search": "value_7000 = 7000\n", "replace": "value_7000 = 0\n"})
    tool = smart_edit(project, model)
    before = "".join(f"value_{n} = {n}\n" for n in range(20_000))
    (project / "a.py").write_text(before, encoding="utf-8")
    params = {**WRONG, "old_string": "value_7000 = 70\n", "new_string": "value_7000 = 0\n"}
    result = await call(tool, **params)
    assert result.error is None
    after = (project / "a.py").read_text(encoding="utf-8")
    assert after == before.replace("value_7000 = 7000\n", "value_7000 = 0\n")
    assert len(model.prompts[0]) < 65_000
    assert "\nvalue_7000 = 7000\n" in model.prompts[0]
    assert "only the part of it" in model.prompts[0]


@pytest.mark.requirement("TOOLS-11")
async def test_a_correction_of_far_more_text_than_the_edit_names_is_refused(project: Path) -> None:
    before = BEFORE + "".join(f"value_{n} = {n}\r\n" for n in range(40))
    model = Model(
        {**RIGHT, "search": before, "replace": before.replace("* height", "* height / 1e4")}
    )
    tool = smart_edit(project, model)
    (project / "a.py").write_bytes(before.encode())
    result = await call(tool, **WRONG)
    assert failure_type(result) == "edit_no_occurrence_found"
    assert "much longer than the one given" in text_of(result)
    assert (project / "a.py").read_bytes() == before.encode()


@pytest.mark.requirement("TOOLS-11")
async def test_approval_shows_the_corrected_edit_and_that_is_what_is_made(project: Path) -> None:
    model = Model(RIGHT)
    built = smart_edit(project, model).build(WRONG)
    assert not isinstance(built, ToolFailure)
    context = ExecutionContext(project)
    shown = await built.confirmation(context)
    assert isinstance(shown, EditConfirmation)
    assert "+    return width * height / 1e4" in shown.file_diff
    model.answer = "something else"
    assert (await built.execute(context)).error is None
    assert len(model.prompts) == 1
    assert (project / "a.py").read_bytes() == BEFORE.replace("t\r\n", "t / 1e4\r\n").encode()


@pytest.mark.requirement("TOOLS-11")
async def test_similar_text_is_found_and_the_slip_does_not_get_into_the_file(project: Path) -> None:
    tool = smart_edit(project, None)
    (project / "a.py").write_bytes(
        b"def area(breadth, diameter):\r\n    return breadth * diameter\r\n"
    )
    params = {
        **WRONG,
        "old_string": "def area(breadht, diameter):\n    return breadth * diametr",
        "new_string": "def area(breadht, diameter):\n    return breadth * diametr / 1e4",
    }
    result = await call(tool, **params)
    assert "Applied fuzzy match at line(s) 1-2." in text_of(result)
    assert (project / "a.py").read_bytes() == (
        b"def area(breadth, diameter):\r\n    return breadth * diameter / 1e4\r\n"
    )


async def test_without_a_model_a_miss_is_a_miss(project: Path) -> None:
    result = await call(smart_edit(project, None), **WRONG)
    assert failure_type(result) == "edit_no_occurrence_found"
    assert is_untouched(project)


@pytest.mark.parametrize("missing", ["instruction", "old_string", "new_string", "file_path"])
async def test_every_declared_parameter_is_required(project: Path, missing: str) -> None:
    params = {key: value for key, value in WRONG.items() if key != missing}
    result = await call(smart_edit(project, None), **params)
    assert failure_type(result) == "invalid_tool_params"
    assert missing in text_of(result)


@pytest.mark.requirement("TOOLS-11")
async def test_a_correction_has_forty_seconds(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float | None] = []
    bounded = asyncio.timeout

    def noting(delay: float | None) -> asyncio.Timeout:
        given.append(delay)
        return bounded(delay)

    monkeypatch.setattr(asyncio, "timeout", noting)
    await call(smart_edit(project, Model(RIGHT)), **WRONG)
    assert given == [40.0]
