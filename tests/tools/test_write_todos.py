from typing import Any

import pytest

from alhena.tools.builtin.write_todos import WriteTodos
from alhena.tools.contract import TodoItem, TodoList, ToolFailure
from tests.tools.files import call, failure_type, text_of


def todos(*entries: tuple[str, str]) -> list[dict[str, str]]:
    return [{"description": text, "status": status} for text, status in entries]


@pytest.mark.requirement("TOOLS-20")
async def test_the_list_is_repeated_to_the_model_and_shown_as_a_list() -> None:
    given = todos(("read\nit", "completed"), ("write it", "in_progress"), ("test it", "pending"))
    result = await call(WriteTodos(), todos=given)
    assert text_of(result) == (
        "Successfully updated the todo list. The current list is now:\n"
        "1. [completed] read it\n2. [in_progress] write it\n3. [pending] test it"
    )
    assert result.display == TodoList(
        todos=(
            TodoItem(description="read it", status="completed"),
            TodoItem(description="write it", status="in_progress"),
            TodoItem(description="test it", status="pending"),
        )
    )


async def test_an_empty_list_clears() -> None:
    result = await call(WriteTodos(), todos=[])
    assert text_of(result) == "Successfully cleared the todo list."
    assert result.display == TodoList(todos=())


@pytest.mark.requirement("TOOLS-20")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (todos(("a", "in_progress"), ("b", "pending"), ("c", "in_progress")), "Only one task"),
        (todos(("  ", "pending")), "Todo 1 must have a non-empty description"),
        (todos(("a", "done")), "must be equal to one of the allowed values"),
        ([{"description": "a"}], "must have required property 'status'"),
        ("a", "must be array"),
        (todos(*[("a", "pending")] * 201), "200"),
    ],
)
async def test_a_list_that_makes_no_sense_is_refused(given: Any, said: str) -> None:
    result = await call(WriteTodos(), todos=given)
    assert failure_type(result) == "invalid_tool_params"
    assert said in text_of(result)


@pytest.mark.parametrize("status", ["pending", "in_progress", "completed", "cancelled", "blocked"])
async def test_every_status_is_taken(status: str) -> None:
    result = await call(WriteTodos(), todos=todos(("a", status)))
    assert f"1. [{status}] a" in text_of(result)


def test_the_description_says_how_far_the_work_is() -> None:
    built = WriteTodos().build({"todos": todos(("a", "completed"), ("b", "pending"))})
    assert not isinstance(built, ToolFailure)
    assert built.describe() == "Set 2 todo(s), 1 completed"
