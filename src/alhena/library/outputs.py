"""The output that a run is asked for: a type, a JSON schema, or one of several types and
functions."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Union, cast

from alhena.errors import ProgramError, ToolError
from alhena.library.options import function_of
from alhena.threads import in_daemon_thread
from alhena.tools.contract import ExecutionContext, ToolFailure
from alhena.tools.function import FunctionTool, ToolContext
from alhena.tools.value_types import schema_of, value_from_json

if TYPE_CHECKING:
    from alhena.agent.final_answer import FinalAnswer, FinalFunction

Read = Callable[[Any], Any]
MakeContext = Callable[[], ExecutionContext]


def final_answer(
    output: Any, check: Any, corrections: Any, context: MakeContext
) -> "FinalAnswer | None":
    """The value that a run has to end with; None for text. `context` makes the context of a
    function among the outputs. Raises TypeError."""
    if output is str:
        if check is not None:
            raise TypeError("check needs output=, a type whose values it checks")
        return None
    if not isinstance(corrections, int) or isinstance(corrections, bool) or corrections < 0:
        raise TypeError(f"corrections has to be a number from 0, not {corrections!r:.60}")
    function_of("check", check)
    from alhena.agent.final_answer import FINAL, FinalAnswer

    if not isinstance(output, list | tuple):
        return FinalAnswer(*read_output_type(output, check), corrections)
    several = cast("list[Any]", output)
    functions = [each for each in several if _is_function(each)]
    kinds = [each for each in several if not _is_function(each)]
    if not several:
        raise TypeError("output has to name at least one type or function")
    schema, read = read_output_type(Union[tuple(kinds)], check) if kinds else (None, _refuse)  # noqa: UP007
    made = tuple(_final_function(each, check, context) for each in functions)
    names = [each.name for each in made] + [FINAL] * bool(kinds)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise TypeError(f"output: there are two of the name {twice!r}; rename the function")
    return FinalAnswer(schema, read, corrections, functions=made)


def require_free_names(final: "FinalAnswer", taken: Iterable[str]) -> None:
    """Raises TypeError if a function among the outputs has the name of a tool."""
    for name in taken:
        if name != final.name and final.takes(name):
            raise TypeError(f"output: there is a tool {name!r}; rename the function")


def output_types(output: Any) -> Any:
    """The types among the outputs, as one; `str` if there is none."""
    if not isinstance(output, list | tuple):
        return Any if isinstance(output, Mapping) else output
    kinds = tuple(each for each in cast("list[Any]", output) if not _is_function(each))
    return Union[kinds] if kinds else str  # noqa: UP007


def read_output_type(output: Any, check: Any) -> tuple[dict[str, Any], Read]:
    """The schema of a type, and what reads a value of it. Raises TypeError."""
    if isinstance(output, Mapping):
        return _by_schema(dict(cast("Mapping[str, Any]", output)), check)
    try:
        schema = schema_of(output)
    except TypeError as error:
        reason = str(error).splitlines()[-1]
        if _is_function(output) or isinstance(output, partial):
            reason = "a function with a name goes into a list, as output=[function]"
        raise TypeError(f"output cannot be {output!r:.100}: {reason}") from None

    def read(data: Any) -> Any:
        value = value_from_json(output, data)
        return value if check is None else check(value)

    return schema, read


def _by_schema(schema: dict[str, Any], check: Any) -> tuple[dict[str, Any], Read]:
    """A JSON schema, and what reads a value of it."""
    from alhena.tools.params import problem_with

    def read(data: Any) -> Any:
        problem = problem_with(schema, data)
        if problem is not None:
            raise ValueError(problem)
        return data if check is None else check(data)

    return schema, read


def _is_function(output: Any) -> bool:
    return isinstance(output, FunctionTool) or inspect.isroutine(output)


def _refuse(_data: Any) -> Any:
    raise ValueError("Call one of the functions.")


def _final_function(function: Any, check: Any, context: MakeContext) -> "FinalFunction":
    given = isinstance(function, FunctionTool)
    made = cast("FunctionTool[..., Any]", function) if given else FunctionTool(function)

    async def call(args: dict[str, Any]) -> Any:
        built = made.build(args)
        if isinstance(built, ToolFailure):
            raise ValueError(built.message)  # noqa: TRY004  the model is wrong, not the program
        value = await _call_function(made, cast("Any", built).values, ToolContext(context()))
        return value if check is None else check(value)

    from alhena.agent.final_answer import FinalFunction

    return FinalFunction(
        name=made.name,
        description=made.description,
        schema=made.parameter_schema,
        call=call,
    )


async def _call_function(
    made: FunctionTool[..., Any], values: dict[str, Any], context: ToolContext[Any]
) -> Any:
    args, kwargs = made.signature.bind(values, context)
    function = made.function
    try:
        if inspect.iscoroutinefunction(function):
            return await function(*args, **kwargs)
        returned: Any = await in_daemon_thread(lambda: function(*args, **kwargs))
        return await returned if isawaitable(returned) else returned
    except ToolError as error:
        raise ValueError(str(error)) from error
    except ValueError:
        raise
    except Exception as error:
        kind = type(error).__name__
        raise ProgramError(f"the output function {made.name} raised {kind}: {error}") from error
