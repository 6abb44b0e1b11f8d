"""The program around an agent: its approver, its dependencies and its functions that fail."""

from collections.abc import Callable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, cast

from alhena.errors import AlhenaError, ProgramError
from alhena.scheduler.question import Answer, Approver, ConfirmationRequest, Verdict
from alhena.tools.contract import Deferred, ToolConfirmationOutcome
from alhena.tools.threads import one_line
from alhena.values import FailedCall

if TYPE_CHECKING:
    from logging import Logger

    from alhena.agent.runner import SessionRunner

OnToolError = Callable[[FailedCall], str | None]
"""Takes a call whose function raised; returns what the model reads, or None for the usual text.
What it raises ends the run."""


_ARGUMENTS = {
    "--max-turns": "Limits(turns=…)",
    "--max-seconds": "Limits(seconds=…)",
    "--max-tokens": "Limits(tokens=…)",
    "--max-cost": "Limits(cost=…)",
    "--approval-mode": "approval_mode=…",
    "--all-files": "AgentOptions(full_context=True)",
    "--skip-trust": "AgentOptions(skip_trust=True)",
    "--allowed-tools": "AgentOptions(allowed_tools=…)",
    "--include-directories": "AgentOptions(include_directories=…)",
    "--policy": "policy=…",
    "-m MODEL": "model=…",
}
"""Flags of the command -> what a program gives in their place."""


def address_program(error: AlhenaError) -> AlhenaError:
    """The error with a remedy for programs, which have arguments where the command has flags."""
    for flag, argument in _ARGUMENTS.items():
        if error.remedy and flag in error.remedy:
            error.remedy = error.remedy.replace(flag, argument)
        if flag in error.message:
            error.message = error.message.replace(flag, argument)
    return error


def find_logger(name: str) -> "Logger":
    """A logger of this package: it prints nothing unless the program has set up logging."""
    import logging

    package = logging.getLogger("alhena")
    if not package.handlers:
        package.addHandler(logging.NullHandler())
    return logging.getLogger(name)


class AgentProgram:
    """The `tools.contract.HostProgram` of an agent. `failed` has the failures of the current run,
    `fault` what ends it."""

    def __init__(self, on_tool_error: OnToolError | None) -> None:
        self.deps: Any = None
        self.failed: list[FailedCall] = []
        self.fault: Exception | None = None
        self._on_tool_error = on_tool_error
        self._runner: SessionRunner | None = None

    def serve(self, runner: "SessionRunner") -> None:
        """Sets the runner whose runs it ends."""
        self._runner = runner

    def begin(self, deps: Any) -> None:
        """Begins a run with these dependencies."""
        self.deps = deps
        self.failed = []

    async def ask_model(self, prompt: str) -> str:
        """The text by which the agent's model answers `prompt`. Raises ModelError."""
        ask = self._runner and self._runner.toolset.host.models.ask
        if ask is None:
            raise ProgramError("this agent has no model to ask.")
        return await ask(prompt)

    def fail(self, message: str, cause: Exception | None = None) -> None:
        """Ends the run with a ProgramError."""
        error = ProgramError(message)
        error.__cause__ = cause
        self.end_run(error)

    def end_run(self, error: Exception) -> None:
        """Ends the run with an error; the first one counts."""
        self.fault = self.fault or error
        if self._runner is not None:
            self._runner.interrupt()

    def note_failure(self, failed: FailedCall) -> str:
        """Logs a call whose function raised, keeps it for the Result, and asks `on_tool_error`."""
        error = failed.exception
        find_logger("alhena.tools").warning(
            "%s failed: %s", failed.name, one_line(error), exc_info=error
        )
        self.failed.append(failed)
        if self._on_tool_error is None:
            return ""
        try:
            said = cast("object", self._on_tool_error(failed))
        except Exception as raised:  # noqa: BLE001  a function of the program may raise anything
            self.end_run(raised)
            return ""
        if said is None or isinstance(said, str):
            return said or ""
        kind = type(said).__name__
        self.fail(f"on_tool_error returned {kind} instead of a text or None.")
        return ""

    async def call(self, name: str, function: Any, argument: Any) -> str:
        """The text that a function of the program returns, async or not. Raises ProgramError."""
        try:
            said = function(argument)
            said = await said if isawaitable(said) else said
        except Exception as error:
            kind = type(error).__name__
            raise ProgramError(f"{name} raised {kind}: {error}") from error
        if not isinstance(said, str):
            raise ProgramError(f"{name} returned {type(said).__name__} instead of a text.")
        return said

    def take_fault(self, error: AlhenaError) -> Exception:
        """The error of the program that ended the run, or else the error itself."""
        fault, self.fault = self.fault, None
        return fault or address_program(error)

    def guard_approver(self, approve: Approver | None) -> Approver | None:
        """The callback; when it fails, that ends the run. It may raise Deferred."""
        if approve is None:
            return None
        from alhena.scheduler.confirmation import call_approver

        async def ask(request: ConfirmationRequest) -> Verdict:
            try:
                answer = cast("object", await call_approver(approve, request))
            except Deferred:
                raise
            except Exception as error:  # noqa: BLE001  a function of the program may raise anything
                self.fail(f"approve raised {type(error).__name__}: {error}", error)
                return Answer.no(stop=True)
            if isinstance(answer, bool | Answer | ToolConfirmationOutcome):
                return answer
            kind = type(answer).__name__
            self.fail(f"approve returned {kind} instead of True, False or an Answer")
            return Answer.no(stop=True)

        return ask
