"""Functions of the program and their agent: `AgentProgram` for its tools, its approver guarded."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from alhena.errors import ProgramError
from alhena.scheduler.confirmation import call_approver
from alhena.scheduler.question import Answer, Approver, ConfirmationRequest, Verdict
from alhena.tools.contract import Deferred, ToolConfirmationOutcome

if TYPE_CHECKING:
    from alhena.agent.runner import SessionRunner


class AgentProgram:
    """The `tools.contract.HostProgram` of an agent."""

    def __init__(self, runner: "SessionRunner", fail: Callable[[str], object]) -> None:
        self.deps: Any = None
        self._runner = runner
        self._fail = fail

    async def ask_model(self, prompt: str) -> str:
        """The text by which the agent's model answers `prompt`. Raises ModelError."""
        ask = self._runner.toolset.host.models.ask
        if ask is None:
            raise ProgramError("this agent has no model to ask.")
        return await ask(prompt)

    def fail(self, message: str) -> None:
        """Ends the run with a ProgramError."""
        self._fail(message)


Fail = Callable[[str, Exception | None], Answer]
"""Ends the run with a ProgramError of this message and cause."""


def guard_approver(approve: Approver | None, fail: Fail) -> Approver | None:
    """The callback; when it fails, that ends the run. It may raise Deferred."""
    if approve is None:
        return None

    async def ask(request: ConfirmationRequest) -> Verdict:
        try:
            answer = cast("object", await call_approver(approve, request))
        except Deferred:
            raise
        except Exception as error:  # noqa: BLE001  a function of the program may raise anything
            return fail(f"approve raised {type(error).__name__}: {error}", error)
        if isinstance(answer, bool | Answer | ToolConfirmationOutcome):
            return answer
        kind = type(answer).__name__
        return fail(f"approve returned {kind} instead of True, False or an Answer", None)

    return ask
