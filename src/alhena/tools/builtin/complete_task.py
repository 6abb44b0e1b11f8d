"""complete_task: submits the result of a subagent."""

from collections.abc import Callable
from typing import Any

from alhena.tools.base import BaseInvocation, DeclarativeTool
from alhena.tools.contract import (
    ExecutionContext,
    ToolFailure,
    ToolInvocation,
    ToolResult,
)

SUBMITTED = "Result submitted and task completed."


class CompleteTask(DeclarativeTool):
    """Passes a result that fits `result_schema` to `submit`; only the first one counts."""

    name = "complete_task"

    def __init__(self, result_schema: dict[str, Any], submit: Callable[[Any], bool]) -> None:
        """`submit` takes a result and returns whether it was the first."""
        self.parameter_schema = self.parameter_schema | {"properties": {"result": result_schema}}
        self._submit = submit

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """Rejects an empty text."""
        result: object = params["result"]
        if isinstance(result, str) and not result.strip():
            return ToolFailure.of_params(
                'Missing required "result" argument. You must provide your findings when calling '
                "complete_task.",
            )
        return None

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """Builds the call."""
        return CompleteTaskInvocation(self._submit, params)


class CompleteTaskInvocation(BaseInvocation):
    """A call that submits one result."""

    def __init__(self, submit: Callable[[Any], bool], params: dict[str, Any]) -> None:
        super().__init__(params)
        self._submit = submit

    def describe(self) -> str:
        """Describes the call."""
        return "Completing task"

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Submits the result."""
        del context
        if self._submit(self.params["result"]):
            return ToolResult(llm_content=SUBMITTED, display=SUBMITTED)
        return ToolResult.failed("The task is completed already: the first result counts.")
