"""enter_plan_mode and exit_plan_mode: plan with read-only tools until a plan is approved."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from alhena.system.errors import ChangedFileError, FileError, from_os_error, printable
from alhena.tools.base import BaseInvocation, DeclarativeTool, failed_result, failure_of
from alhena.tools.contract import (
    ExecutionContext,
    ExitPlanModeConfirmation,
    InfoConfirmation,
    ModeSwitch,
    ToolErrorType,
    ToolFailure,
    ToolInvocation,
    ToolLocation,
    ToolResult,
)
from alhena.tools.threads import run_blocking

PLAN_LIMIT = 1_000_000
"""Maximum size of a plan in bytes."""

_MODES = {
    "default": "Default mode (edits and commands are confirmed first)",
    "autoEdit": "auto_edit mode (edits are made without asking)",
    "yolo": "YOLO mode (everything runs without asking)",
}


class EnterPlanMode(DeclarativeTool):
    """Turns plan mode on; `describe_mode` gives the text that tells the model how to work in
    it."""

    name = "enter_plan_mode"

    def __init__(self, modes: ModeSwitch, describe_mode: Callable[[], str] = str) -> None:
        self._modes = modes
        self._describe_mode = describe_mode

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """Fails when plan mode is already on."""
        del params
        return _planning_already() if self._modes.planning else None

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """Builds the call."""
        return EnterPlanModeInvocation(self._modes, self._describe_mode, params)


class EnterPlanModeInvocation(BaseInvocation):
    """A switch to plan mode."""

    def __init__(
        self, modes: ModeSwitch, describe_mode: Callable[[], str], params: dict[str, Any]
    ) -> None:
        super().__init__(params)
        self._modes = modes
        self._describe_mode = describe_mode

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
            return ToolResult.from_failure(failure.message, failure.type)
        self._modes.enter_plan_mode()
        reason = " ".join(str(self.params.get("reason", "")).split())
        shown = f"Switching to Plan mode: {reason}" if reason else "Switching to Plan mode."
        text = f"Switching to Plan mode.\n\n{self._describe_mode()}".rstrip()
        return ToolResult(llm_content=text, display=shown)


def _planning_already() -> ToolFailure:
    return ToolFailure(
        "Plan mode is on already. Read what you need and present the plan with exit_plan_mode.",
        ToolErrorType.EXECUTION_FAILED,
    )


class ExitPlanMode(DeclarativeTool):
    """Stores plans as Markdown files in `plans`, which is created when needed.

    `plan_filename`, the name of a file there, is accepted instead of the plan's text.
    """

    name = "exit_plan_mode"

    def __init__(self, modes: ModeSwitch, plans: Path) -> None:
        self._modes = modes
        self._plans = Path(os.path.realpath(plans))

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """Requires plan mode and a plan."""
        if not self._modes.planning:
            return _not_planning()
        if "plan" in params:
            return _problem_with(params["plan"])
        name = params.get("plan_filename")
        if name is None:
            return ToolFailure.of_params("Give the plan, in Markdown, as 'plan'.")
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}\.md", name):
            return ToolFailure.of_params(
                "'plan_filename' must be the bare name of a .md file among this session's plans."
            )
        return None

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """Builds the call."""
        return ExitPlanModeInvocation(self._modes, self._plans, params)


class ExitPlanModeInvocation(BaseInvocation):
    """A submitted plan. The text shown for approval is the text that is stored."""

    def __init__(
        self,
        modes: ModeSwitch,
        plans: Path,
        params: dict[str, Any],
        *,
        text: str | ToolFailure | None = None,
        mode: str | None = None,
    ) -> None:
        super().__init__(params)
        self._modes = modes
        self._plans = plans
        self._text: str | ToolFailure | None = params.get("plan") if text is None else text
        self._mode = mode

    def with_mode(self, mode: str) -> ToolInvocation:
        """Returns the same call with the mode that follows approval."""
        return ExitPlanModeInvocation(
            self._modes, self._plans, self.params, text=self._text, mode=mode
        )

    def describe(self) -> str:
        """Describes the call."""
        return "Requesting plan approval"

    def locations(self) -> tuple[ToolLocation, ...]:
        """The plan file, when the call names one."""
        if "plan" in self.params:
            return ()
        return (ToolLocation(printable(self._plans / self.params["plan_filename"])),)

    async def confirmation(self, context: ExecutionContext) -> ExitPlanModeConfirmation | None:
        """Shows the plan; None when there is none to approve."""
        text = await self._plan(context)
        if isinstance(text, ToolFailure):
            return None
        return ExitPlanModeConfirmation(
            title="Plan Approval",
            plan_path=printable(self._path()),
            plan=text,
            next_mode=self._modes.next_mode,
        )

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Stores the approved plan and leaves plan mode."""
        text = await self._plan(context)
        if isinstance(text, ToolFailure):
            return failed_result(text)
        if not self._modes.planning:
            return failed_result(_not_planning())
        try:
            path = await run_blocking(context.cancellation, self._store, text, context)
        except FileError as error:
            return failed_result(failure_of(error))
        mode = self._mode or self._modes.next_mode
        self._modes.leave_plan_mode(mode)
        return ToolResult(
            llm_content=f"Plan approved. Switching to {_MODES.get(mode, mode)}.\n\n"
            f"The approved implementation plan is stored at: {printable(path)}\n"
            "Read and follow the plan strictly during implementation.",
            display=f"Plan approved: {printable(path)}",
        )

    async def _plan(self, context: ExecutionContext) -> str | ToolFailure:
        if self._text is None:
            self._text = await run_blocking(context.cancellation, self._read)
        return self._text

    def _read(self) -> str | ToolFailure:
        from alhena.system.encoding import decode_text
        from alhena.system.files import read_whole

        path = self._plans / self.params["plan_filename"]
        try:
            data, _ = read_whole(path, PLAN_LIMIT)
        except FileError as error:
            return failure_of(error)
        text = decode_text(data).shown
        return _problem_with(text) or text

    def _path(self) -> Path:
        if "plan" not in self.params:
            return self._plans / self.params["plan_filename"]
        number = 1
        while os.path.lexists(path := self._plans / f"plan-{number}.md"):
            number += 1
        return path

    def _store(self, text: str, context: ExecutionContext) -> Path:
        from alhena.system.replacement import replace_file

        try:
            os.makedirs(self._plans, mode=0o700, exist_ok=True)
        except OSError as error:
            raise from_os_error(error, self._plans, writing=True) from error
        while True:
            path = self._path()
            if "plan" not in self.params:
                return path
            try:
                replace_file(
                    path,
                    text.encode("utf-8", "replace"),
                    expected=None,
                    limit=PLAN_LIMIT,
                    cancellation=context.cancellation,
                )
            except ChangedFileError:  # another process created the file
                continue
            return path


def _problem_with(plan: str) -> ToolFailure | None:
    if not plan.strip():
        return ToolFailure.of_params(
            "The plan is empty. Write it down before you ask for approval."
        )
    if len(plan.encode("utf-8", "replace")) > PLAN_LIMIT:
        return ToolFailure.of_params(
            f"The plan is over the limit of {PLAN_LIMIT:,} bytes. Shorten it."
        )
    return None


def _not_planning() -> ToolFailure:
    return ToolFailure(
        "Plan mode is not on, so there is nothing to leave: continue the work, or turn it on "
        "with enter_plan_mode.",
        ToolErrorType.EXECUTION_FAILED,
    )
