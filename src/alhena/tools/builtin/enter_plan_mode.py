"""enter_plan_mode: restricts the session to read-only tools until a plan is approved."""

from typing import Any

from alhena.tools.base import BaseInvocation, DeclarativeTool
from alhena.tools.confirmation import InfoConfirmation, ModeSwitch
from alhena.tools.contract import (
    ExecutionContext,
    ToolErrorType,
    ToolFailure,
    ToolInvocation,
    ToolResult,
)


class EnterPlanMode(DeclarativeTool):
    """Turns plan mode on."""

    name = "enter_plan_mode"

    def __init__(self, modes: ModeSwitch) -> None:
        self._modes = modes

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """Fails when plan mode is already on."""
        del params
        return _planning_already() if self._modes.planning else None

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """Builds the call."""
        return EnterPlanModeInvocation(self._modes, params)


class EnterPlanModeInvocation(BaseInvocation):
    """A switch to plan mode."""

    def __init__(self, modes: ModeSwitch, params: dict[str, Any]) -> None:
        super().__init__(params)
        self._modes = modes

    def describe(self) -> str:
        """The model's reason for planning."""
        return " ".join(str(self.params.get("reason", "")).split()) or "Initiating Plan Mode"

    async def confirmation(self, context: ExecutionContext) -> InfoConfirmation:
        """Explains plan mode to the person."""
        del context
        return InfoConfirmation(
            title="Enter Plan Mode",
            prompt="This will restrict the agent to read-only tools until you approve its plan. "
            f"Reason: {self.describe()}",
        )

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Switches to plan mode."""
        del context
        if self._modes.planning:  # a concurrent call switched first
            failure = _planning_already()
            return ToolResult.failed(failure.message, failure.type)
        self._modes.enter_plan_mode()
        reason = " ".join(str(self.params.get("reason", "")).split())
        shown = f"Switching to Plan mode: {reason}" if reason else "Switching to Plan mode."
        return ToolResult(llm_content="Switching to Plan mode.", display=shown)


def _planning_already() -> ToolFailure:
    return ToolFailure(
        "Plan mode is on already. Read what you need and present the plan with exit_plan_mode.",
        ToolErrorType.EXECUTION_FAILED,
    )
