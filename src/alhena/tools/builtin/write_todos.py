"""write_todos: the agent's task list, shown to the user (TOOLS-20)."""

from typing import Any

from alhena.tools.base import BaseInvocation, DeclarativeTool
from alhena.tools.contract import (
    ExecutionContext,
    TodoItem,
    TodoList,
    ToolFailure,
    ToolInvocation,
    ToolResult,
)


class WriteTodos(DeclarativeTool):
    """Validates and displays the list; it is stored only in the conversation."""

    name = "write_todos"

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """Requires a description for every task, and at most one task in progress."""
        todos: list[dict[str, str]] = params["todos"]
        for number, todo in enumerate(todos, 1):
            if not todo["description"].strip():
                return _invalid(f"Todo {number} must have a non-empty description.")
        working = [n for n, todo in enumerate(todos, 1) if todo["status"] == "in_progress"]
        if len(working) > 1:
            numbers = ", ".join(map(str, working))
            return _invalid(
                f'Only one task can be "in_progress" at a time, but tasks {numbers} are. '
                "Mark the others pending or completed."
            )
        return None

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """Builds the call."""
        return WriteTodosInvocation(params)


class WriteTodosInvocation(BaseInvocation):
    """A new list that replaces the previous one."""

    def describe(self) -> str:
        """Counts the tasks and the completed ones."""
        todos = self._todos()
        if not todos:
            return "Cleared the todo list"
        done = sum(todo.status == "completed" for todo in todos)
        return f"Set {len(todos)} todo(s), {done} completed"

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Returns the list as text, so that the model sees how it was understood."""
        del context
        todos = self._todos()
        if not todos:
            return ToolResult(
                llm_content="Successfully cleared the todo list.", display=TodoList(todos=())
            )
        listed = "\n".join(
            f"{number}. [{todo.status}] {todo.description}" for number, todo in enumerate(todos, 1)
        )
        text = f"Successfully updated the todo list. The current list is now:\n{listed}"
        return ToolResult(llm_content=text, display=TodoList(todos=todos))

    def _todos(self) -> tuple[TodoItem, ...]:
        return tuple(
            TodoItem(description=" ".join(todo["description"].split()), status=todo["status"])
            for todo in self.params["todos"]
        )


def _invalid(message: str) -> ToolFailure:
    return ToolFailure.of_params(f"Invalid parameters: {message}")
