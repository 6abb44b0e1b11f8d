"""The ways to give an agent a prompt: awaited, iterated, and from code that is not asynchronous."""

from __future__ import annotations  # help() shows the names of the types

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from alhena.agent.limits import BusyError
from alhena.events import Event
from alhena.library.blocking import LoopCaller, LoopThread, iterate, running_loop, wait_for
from alhena.library.prompts import Prompt
from alhena.library.result import Result, Run
from alhena.library.waiting import SAME, RunChoices, require_done
from alhena.tools.function import DepsT

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from typing_extensions import TypeForm

    from alhena.models.generator import Model
    from alhena.models.settings import ModelSettings

T = TypeVar("T")


class PromptEntry(ABC, Generic[DepsT]):
    """The calls that carry a prompt to its answer."""

    _thread: LoopThread | None = None
    _passing = False
    if TYPE_CHECKING:  # asyncio is loaded when an agent is opened
        _loop: AbstractEventLoop | None = None
    else:
        _loop = None

    @abstractmethod
    def _start(self, prompt: Prompt, choices: RunChoices) -> Run[Any]:
        """Makes a run."""

    if TYPE_CHECKING:

        @overload
        def run(
            self,
            prompt: Prompt,
            *,
            deps: DepsT = ...,
            model: str | Model | None = None,
            model_settings: ModelSettings | None = None,
        ) -> Run[str]: ...
        @overload
        def run(
            self,
            prompt: Prompt,
            *,
            output: TypeForm[T],
            check: Callable[[T], T] | None = None,
            corrections: int = 1,
            deps: DepsT = ...,
            model: str | Model | None = None,
            model_settings: ModelSettings | None = None,
        ) -> Run[T]: ...
        @overload
        def run(
            self,
            prompt: Prompt,
            *,
            output: Sequence[Callable[..., T]],
            check: Callable[[T], T] | None = None,
            corrections: int = 1,
            deps: DepsT = ...,
            model: str | Model | None = None,
            model_settings: ModelSettings | None = None,
        ) -> Run[T]: ...
        @overload
        def run(
            self,
            prompt: Prompt,
            *,
            output: Mapping[str, Any] | Sequence[Callable[..., Any]],
            check: Callable[[Any], Any] | None = None,
            corrections: int = 1,
            deps: DepsT = ...,
            model: str | Model | None = None,
            model_settings: ModelSettings | None = None,
        ) -> Run[Any]: ...

    def run(  # noqa: PLR0913  a library's front door
        self,
        prompt: Prompt,
        *,
        output: Any = str,
        check: Any = None,
        corrections: int = 1,
        deps: Any = SAME,
        model: Any = None,
        model_settings: Any = None,
    ) -> Run[Any]:
        """Starts a prompt: await the run for its Result, or iterate over its events.

        Args:
            prompt: text, media, or texts, `Part`s and media in order.
            output: a type, or a JSON schema: the model is asked for a value of it, which is the
                result's `output`. A list of types and functions: it gives a value of one of the
                types, or calls one of the functions, whose result is the output; their ValueError
                is a correction.
            check: a function of that value that returns it, or raises ValueError with what is
                wrong with it.
            corrections: number of corrections by the model before OutputError is raised.
            deps: instead of those of the agent, for this run.
            model: answers instead of the agent's, for this run.
            model_settings: before those of the agent and of its model, field by field.

        Raises InputError for an empty prompt and TypeError for a type that JSON cannot carry;
        awaiting and iterating raise the AlhenaError that ended the run (`LimitError` at a limit),
        and BusyError while another run is at work.
        """
        choices = RunChoices(
            output=output,
            check=check,
            corrections=corrections,
            deps=deps,
            model=model,
            model_settings=model_settings,
        )
        return self._start(prompt, choices)

    if TYPE_CHECKING:

        @overload
        def run_sync(
            self,
            prompt: Prompt,
            *,
            deps: DepsT = ...,
            model: str | Model | None = None,
            model_settings: ModelSettings | None = None,
        ) -> Result[str]: ...
        @overload
        def run_sync(
            self,
            prompt: Prompt,
            *,
            output: TypeForm[T],
            check: Callable[[T], T] | None = None,
            corrections: int = 1,
            deps: DepsT = ...,
            model: str | Model | None = None,
            model_settings: ModelSettings | None = None,
        ) -> Result[T]: ...
        @overload
        def run_sync(
            self,
            prompt: Prompt,
            *,
            output: Sequence[Callable[..., T]],
            check: Callable[[T], T] | None = None,
            corrections: int = 1,
            deps: DepsT = ...,
            model: str | Model | None = None,
            model_settings: ModelSettings | None = None,
        ) -> Result[T]: ...
        @overload
        def run_sync(
            self,
            prompt: Prompt,
            *,
            output: Mapping[str, Any] | Sequence[Callable[..., Any]],
            check: Callable[[Any], Any] | None = None,
            corrections: int = 1,
            deps: DepsT = ...,
            model: str | Model | None = None,
            model_settings: ModelSettings | None = None,
        ) -> Result[Any]: ...

    def run_sync(  # noqa: PLR0913  a library's front door
        self,
        prompt: Prompt,
        *,
        output: Any = str,
        check: Any = None,
        corrections: int = 1,
        deps: Any = SAME,
        model: Any = None,
        model_settings: Any = None,
    ) -> Result[Any]:
        """Carries a prompt to its result; arguments are those of `run`."""
        return self._block_on(
            lambda: self.run(
                prompt,
                output=output,
                check=check,
                corrections=corrections,
                deps=deps,
                model=model,
                model_settings=model_settings,
            )
        )

    def stream_sync(  # noqa: PLR0913  a library's front door
        self,
        prompt: Prompt,
        *,
        output: Any = str,
        check: Any = None,
        corrections: int = 1,
        deps: Any = SAME,
        model: Any = None,
        model_settings: Any = None,
    ) -> Iterator[Event]:
        """The events of a run, for code that is not asynchronous; arguments are those of `run`.
        Leaving the iteration early, or closing it, stops the run.

            for event in agent.stream_sync("…"):
                if isinstance(event, ContentEvent):
                    print(event.text, end="")
        """
        run = self.run(
            prompt,
            output=output,
            check=check,
            corrections=corrections,
            deps=deps,
            model=model,
            model_settings=model_settings,
        )
        return iterate(self._work_loop, run)

    def _block_on(self, start: Callable[[], Run[Any]]) -> Result[Any]:
        async def whole() -> Result[Any]:
            return await start()

        with self._work_loop() as call:
            return call(whole)

    @contextmanager
    def _work_loop(self) -> Generator[LoopCaller]:
        """Gives the function that runs work in the loop of this agent, from outside of it. Raises
        BusyError."""
        opened, loop = self._thread, self._loop
        if opened is not None:
            yield opened.call
        elif loop is None:
            thread = LoopThread()
            try:
                yield thread.call
            finally:
                thread.close()
        elif running_loop() is loop:
            raise BusyError(
                "this would block the event loop that this agent was opened in.",
                remedy="Use `await agent.run(…)`.",
            )
        elif self._passing:
            raise BusyError(
                "this agent is still at work on another prompt.",
                remedy="Wait for it, or use a second Agent.",
            )
        elif not loop.is_running():
            raise BusyError(
                "the event loop that this agent was opened in does not run.",
                remedy="Use `with agent:`, or call this while that loop runs.",
            )
        else:
            yield partial(wait_for, loop)

    if TYPE_CHECKING:

        @overload
        async def ask(
            self,
            prompt: Prompt,
            *,
            deps: DepsT = ...,
            model: str | Model | None = None,
            model_settings: ModelSettings | None = None,
        ) -> str: ...
        @overload
        async def ask(
            self,
            prompt: Prompt,
            *,
            output: TypeForm[T],
            check: Callable[[T], T] | None = None,
            corrections: int = 1,
            deps: DepsT = ...,
            model: str | Model | None = None,
            model_settings: ModelSettings | None = None,
        ) -> T: ...
        @overload
        async def ask(
            self,
            prompt: Prompt,
            *,
            output: Sequence[Callable[..., T]],
            check: Callable[[T], T] | None = None,
            corrections: int = 1,
            deps: DepsT = ...,
            model: str | Model | None = None,
            model_settings: ModelSettings | None = None,
        ) -> T: ...
        @overload
        async def ask(
            self,
            prompt: Prompt,
            *,
            output: Mapping[str, Any] | Sequence[Callable[..., Any]],
            check: Callable[[Any], Any] | None = None,
            corrections: int = 1,
            deps: DepsT = ...,
            model: str | Model | None = None,
            model_settings: ModelSettings | None = None,
        ) -> Any: ...

    async def ask(  # noqa: PLR0913  a library's front door
        self,
        prompt: Prompt,
        *,
        output: Any = str,
        check: Any = None,
        corrections: int = 1,
        deps: Any = SAME,
        model: Any = None,
        model_settings: Any = None,
    ) -> Any:
        """Carries a prompt to its answer and returns that; arguments are those of `run`."""
        run = self.run(
            prompt,
            output=output,
            check=check,
            corrections=corrections,
            deps=deps,
            model=model,
            model_settings=model_settings,
        )
        return require_done(await run)

    if TYPE_CHECKING:

        @overload
        def ask_sync(
            self,
            prompt: Prompt,
            *,
            deps: DepsT = ...,
            model: str | Model | None = None,
            model_settings: ModelSettings | None = None,
        ) -> str: ...
        @overload
        def ask_sync(
            self,
            prompt: Prompt,
            *,
            output: TypeForm[T],
            check: Callable[[T], T] | None = None,
            corrections: int = 1,
            deps: DepsT = ...,
            model: str | Model | None = None,
            model_settings: ModelSettings | None = None,
        ) -> T: ...
        @overload
        def ask_sync(
            self,
            prompt: Prompt,
            *,
            output: Sequence[Callable[..., T]],
            check: Callable[[T], T] | None = None,
            corrections: int = 1,
            deps: DepsT = ...,
            model: str | Model | None = None,
            model_settings: ModelSettings | None = None,
        ) -> T: ...
        @overload
        def ask_sync(
            self,
            prompt: Prompt,
            *,
            output: Mapping[str, Any] | Sequence[Callable[..., Any]],
            check: Callable[[Any], Any] | None = None,
            corrections: int = 1,
            deps: DepsT = ...,
            model: str | Model | None = None,
            model_settings: ModelSettings | None = None,
        ) -> Any: ...

    def ask_sync(  # noqa: PLR0913  a library's front door
        self,
        prompt: Prompt,
        *,
        output: Any = str,
        check: Any = None,
        corrections: int = 1,
        deps: Any = SAME,
        model: Any = None,
        model_settings: Any = None,
    ) -> Any:
        """Carries a prompt to its answer and returns that; arguments are those of `run`."""
        result = self.run_sync(
            prompt,
            output=output,
            check=check,
            corrections=corrections,
            deps=deps,
            model=model,
            model_settings=model_settings,
        )
        return require_done(result)
