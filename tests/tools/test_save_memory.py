import json
from pathlib import Path
from typing import Any

import pytest

from alhena.memory.saved import SECTION
from alhena.tools.builtin.save_memory import MAX_FACT, SaveMemory
from alhena.tools.contract import (
    EditConfirmation,
    ExecutionContext,
    ToolFailure,
)
from tests.tools.files import call, failure_type, text_of


@pytest.fixture
def memory(home: Path) -> Path:
    return home / ".gemini" / "GEMINI.md"


@pytest.mark.requirement("TOOLS-19")
async def test_a_fact_is_kept_in_the_users_memory_and_told_as_json(memory: Path) -> None:
    tool = SaveMemory(memory)
    result = await call(tool, fact="My favorite color is blue")
    assert json.loads(text_of(result)) == {
        "success": True,
        "message": 'Okay, I\'ve remembered that: "My favorite color is blue"',
    }
    assert memory.read_text(encoding="utf-8") == f"{SECTION}\n- My favorite color is blue\n"
    await call(tool, fact="- I drink\ntea")
    await call(tool, fact="I drink tea")
    assert memory.read_text(encoding="utf-8") == (
        f"{SECTION}\n- My favorite color is blue\n- I drink tea\n"
    )


@pytest.mark.requirement("TOOLS-19")
async def test_a_failure_is_json_too(memory: Path) -> None:
    memory.mkdir(parents=True)
    result = await call(SaveMemory(memory), fact="tea")
    assert failure_type(result) == "memory_tool_execution_error"
    told = json.loads(result.error.message if result.error else "")
    assert told["success"] is False
    assert told["error"].startswith("Failed to save memory. Detail: Path is a directory")


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({}, "must have required property 'fact'"),
        ({"fact": ""}, "must be a non-empty string"),
        ({"fact": " - \n"}, "must be a non-empty string"),
        ({"fact": 7}, "must be string"),
        ({"fact": "x" * (MAX_FACT + 1)}, "over the limit of 4,000"),
    ],
)
async def test_what_is_no_fact_is_refused(memory: Path, params: Any, said: str) -> None:
    result = await call(SaveMemory(memory), **params)
    assert failure_type(result) == "invalid_tool_params"
    assert said in text_of(result)
    assert not memory.exists()


async def test_the_question_shows_the_diff_and_writes_nothing(memory: Path) -> None:
    memory.parent.mkdir()
    memory.write_text("# Me\n", encoding="utf-8")
    built = SaveMemory(memory).build({"fact": "tea"})
    assert not isinstance(built, ToolFailure)
    assert built.describe() == "in ~/.gemini/GEMINI.md"
    details = await built.confirmation(ExecutionContext(Path.cwd()))
    assert isinstance(details, EditConfirmation)
    assert details.title == "Confirm Memory Save: ~/.gemini/GEMINI.md"
    assert f"+{SECTION}\n+- tea\n" in details.file_diff
    assert (details.original_content, details.is_new_file) == ("# Me\n", False)
    assert memory.read_text(encoding="utf-8") == "# Me\n"
    memory.write_text("# Me, changed\n", encoding="utf-8")
    await built.execute(ExecutionContext(Path.cwd()))
    assert memory.read_text(encoding="utf-8") == f"# Me, changed\n\n{SECTION}\n- tea\n"
