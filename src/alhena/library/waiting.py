"""Runs of an agent that wait for answers, resumed; what a run is started with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from alhena.errors import InputError, PendingRunError
from alhena.library.result import Result, Run
from alhena.scheduler.question import Answer
from alhena.tools.function import DepsT
from alhena.values import Value

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from alhena.agent.waiting import WaitingRun
    from alhena.models.generator import Model
    from alhena.models.settings import ModelSettings

T = TypeVar("T")


class _Same:
    def __repr__(self) -> str:
        return "those of the agent"


SAME: Any = _Same()
"""The `deps` of a run that has those of its agent."""


class RunChoices(Value, frozen=True, kw_only=True):
    """The arguments of a run beside its prompt."""

    output: Any = str
    check: Any = None
    corrections: int = 1
    deps: Any = SAME
    model: Any = None
    model_settings: Any = None


def require_done(result: Result[Any]) -> Any:
    """The output of a run. Raises PendingRunError, with the `result`, for one that waits."""
    if result.stop_reason != "pending":
        return result.output
    calls = ", ".join(f"{each.tool_name} ({each.call_id})" for each in result.pending)
    error = PendingRunError(
        f"the run waits for answers to {calls}.",
        remedy="Keep error.result.state() and pass it to Agent.resume with the answers.",
    )
    error.result = result
    raise error


class ResumesRuns(Generic[DepsT]):
    """The methods of `Agent` that continue a run that waits."""

    def _launch_waiting(self, arguments: RunChoices, waiting: WaitingRun) -> Run[Any]:
        raise NotImplementedError

    def _claim(self) -> Callable[[str], Awaitable[None]] | None:
        raise NotImplementedError

    def _block_on(self, start: Callable[[], Run[Any]]) -> Result[Any]:
        raise NotImplementedError

    if TYPE_CHECKING:

        @overload
        def resume(
            self,
            state: bytes,
            answers: Mapping[str, Answer],
            *,
            deps: DepsT = ...,
            model: str | Model | None = None,
            model_settings: ModelSettings | None = None,
        ) -> Run[str]: ...
        @overload
        def resume(
            self,
            state: bytes,
            answers: Mapping[str, Answer],
            *,
            output: TypeForm[T],
            check: Callable[[T], T] | None = None,
            corrections: int = 1,
            deps: DepsT = ...,
            model: str | Model | None = None,
            model_settings: ModelSettings | None = None,
        ) -> Run[T]: ...
        @overload
        def resume(
            self,
            state: bytes,
            answers: Mapping[str, Answer],
            *,
            output: Sequence[Callable[..., T]],
            check: Callable[[T], T] | None = None,
            corrections: int = 1,
            deps: DepsT = ...,
            model: str | Model | None = None,
            model_settings: ModelSettings | None = None,
        ) -> Run[T]: ...
        @overload
        def resume(
            self,
            state: bytes,
            answers: Mapping[str, Answer],
            *,
            output: Mapping[str, Any] | Sequence[Callable[..., Any]],
            check: Callable[[Any], Any] | None = None,
            corrections: int = 1,
            deps: DepsT = ...,
            model: str | Model | None = None,
            model_settings: ModelSettings | None = None,
        ) -> Run[Any]: ...

    def resume(  # noqa: PLR0913  a library's front door
        self,
        state: bytes,
        answers: Mapping[str, Answer],
        *,
        output: Any = str,
        check: Any = None,
        corrections: int = 1,
        deps: Any = SAME,
        model: Any = None,
        model_settings: Any = None,
    ) -> Run[Any]:
        """Continues a run that ended with the stop_reason "pending", here or in another process.

        The agent needs the tools of the one that made the state. Approved calls pass its policy and
        hooks; calls that have run do not run again. Usage and limits count on.

        Args:
            state: what `Result.state` returned. With a `store` it is used once.
            answers: an Answer to each call of `Result.pending`, by call id.
            output: as in `run`, as well as the others.

        Raises InputError for a state of a newer version, and for an answer that is missing, is for
        another call or does not fit its call: then nothing has run.
        """
        from alhena.agent.waiting import WaitingRun, read_state

        waiting = WaitingRun(read_state(state), answers, self._claim())
        if waiting.state.asks and output is str:
            raise InputError(
                "the run was asked for a value.", remedy="Pass the same output= to resume."
            )
        arguments = RunChoices(
            output=output,
            check=check,
            corrections=corrections,
            deps=deps,
            model=model,
            model_settings=model_settings,
        )
        return self._launch_waiting(arguments, waiting)

    if TYPE_CHECKING:

        @overload
        def resume_sync(
            self,
            state: bytes,
            answers: Mapping[str, Answer],
            *,
            deps: DepsT = ...,
            model: str | Model | None = None,
            model_settings: ModelSettings | None = None,
        ) -> Result[str]: ...
        @overload
        def resume_sync(
            self,
            state: bytes,
            answers: Mapping[str, Answer],
            *,
            output: TypeForm[T],
            check: Callable[[T], T] | None = None,
            corrections: int = 1,
            deps: DepsT = ...,
            model: str | Model | None = None,
            model_settings: ModelSettings | None = None,
        ) -> Result[T]: ...
        @overload
        def resume_sync(
            self,
            state: bytes,
            answers: Mapping[str, Answer],
            *,
            output: Sequence[Callable[..., T]],
            check: Callable[[T], T] | None = None,
            corrections: int = 1,
            deps: DepsT = ...,
            model: str | Model | None = None,
            model_settings: ModelSettings | None = None,
        ) -> Result[T]: ...
        @overload
        def resume_sync(
            self,
            state: bytes,
            answers: Mapping[str, Answer],
            *,
            output: Mapping[str, Any] | Sequence[Callable[..., Any]],
            check: Callable[[Any], Any] | None = None,
            corrections: int = 1,
            deps: DepsT = ...,
            model: str | Model | None = None,
            model_settings: ModelSettings | None = None,
        ) -> Result[Any]: ...

    def resume_sync(self, state: bytes, answers: Mapping[str, Answer], **more: Any) -> Result[Any]:
        """Continues a run that waits, to its result; arguments are those of `resume`."""
        return self._block_on(lambda: self.resume(state, answers, **more))
