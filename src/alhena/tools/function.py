"""@tool: turns a typed Python function with a docstring into a tool."""

import inspect
import threading
import types
import typing
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from inspect import isawaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, cast, overload

import msgspec

from alhena.errors import ProgramError, ToolError
from alhena.threads import in_daemon_thread, is_cancelled
from alhena.tools.base import declaration_of
from alhena.tools.contract import (
    ConfirmationDetails,
    Deferred,
    ExecutionContext,
    InfoConfirmation,
    Kind,
    LlmContent,
    Tool,
    ToolErrorType,
    ToolFailure,
    ToolInvocation,
    ToolLocation,
    ToolResult,
)
from alhena.tools.docstring import read_docstring
from alhena.tools.media import Medium
from alhena.tools.params import convert_spellings, validate
from alhena.tools.registry import is_declarable
from alhena.tools.schema_errors import excerpt
from alhena.tools.threads import Boundary, one_line
from alhena.tools.value_types import SUPPORTED, Field, Types, default_of, value_to_json
from alhena.values import FailedCall
from alhena.wire.content import Part
from alhena.wire.request import FunctionDeclaration

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    DepsT = TypeVar("DepsT", default=None)
else:
    TypeVar = typing.TypeVar
    DepsT = TypeVar("DepsT")

_POLL_S = 0.1


class ToolContext(Generic[DepsT]):
    """The context of a call, for its tool: a parameter of this type is not declared to the model.

    `deps` is what the program gave the agent; `cwd` is the workspace; `call_id` identifies the call
    in events.
    """

    def __init__(self, execution: ExecutionContext) -> None:
        from asyncio import get_running_loop

        self._execution = execution
        self._loop = get_running_loop()
        self._thread = threading.get_ident()
        self.timed_out = False
        self.cwd: Path = execution.cwd
        self.call_id: str = execution.call_id

    @property
    def deps(self) -> DepsT:
        """The `deps` of the run, or of its agent."""
        program = self._execution.program
        return cast("DepsT", None if program is None else program.deps)

    @property
    def cancelled(self) -> bool:
        """True once the call was cancelled or timed out; functions in threads look at it."""
        return self.timed_out or self._execution.cancellation.is_set()

    def progress(self, news: str | float) -> None:
        """Shows a text, or a fraction from 0 to 1, while the tool runs."""
        self._execution.update_output(news if isinstance(news, str) else f"{news:.0%}")

    def ask_model(self, prompt: str) -> Any:
        """The text by which the agent's model answers `prompt`, without the conversation: awaited
        in an async tool, returned in another. Raises ModelError."""
        program = self._execution.program
        if program is None:
            raise ProgramError("ask_model needs an agent; this call runs without one.")
        asking = program.ask_model(prompt)
        if threading.get_ident() == self._thread:
            return asking
        from asyncio import run_coroutine_threadsafe

        asked = run_coroutine_threadsafe(asking, self._loop)
        while True:
            try:
                return asked.result(_POLL_S)
            except TimeoutError:
                if asked.done():
                    raise
                if self.cancelled:
                    asked.cancel()


class Signature:
    """The parameters of a function. Raises TypeError for types that no schema can express."""

    def __init__(self, function: Callable[..., Any], descriptions: Mapping[str, str]) -> None:
        self._name = str(getattr(function, "__name__", function))
        self._signature = inspect.signature(function)
        self._hints = self._resolve_hints(function)
        self._types = Types()
        self._read: dict[str, Callable[[Any, str], Any]] = {}
        self._supplied: dict[str, Callable[[], Any]] = {}
        self.context_parameter: str | None = None
        properties: dict[str, Any] = {}
        checked: dict[str, Any] = {}
        required: list[str] = []
        for parameter in self._signature.parameters.values():
            hint = self._hint(parameter)
            if ToolContext in (hint, typing.get_origin(hint)):
                self.context_parameter = parameter.name
                continue
            field = self._field(parameter, hint)
            node = self._schema(field.name, field.hint)
            description = _annotated_text(field.hint) or descriptions.get(field.name)
            if description:
                node = {**node, "description": description}
            if field.required:
                required.append(field.name)
            else:
                node = node | default_of(field.default)
            if field.supply is not None:
                self._supplied[field.name] = field.supply
            properties[field.name] = node
            checked[field.name] = {} if self._types.loose else node
        self.schema: dict[str, Any] = {"type": "object", "properties": properties}
        if required:
            self.schema["required"] = required
        if self._types.definitions:
            self.schema["$defs"] = self._types.definitions
        self.checked = self.schema
        if checked != properties:
            self.checked = {**self.schema, "properties": checked}
        self._check_returned()

    def arguments(self, params: Mapping[str, Any]) -> dict[str, Any] | ToolFailure:
        """Converts `params` to the hinted types, by parameter name."""
        known: Mapping[str, Any] = self.schema["properties"]
        unknown = [name for name in params if name not in known]
        if unknown:
            return ToolFailure.of_params(
                f"params must NOT have additional properties: {', '.join(map(repr, unknown[:10]))}"
            )
        values: dict[str, Any] = {}
        for name, value in params.items():
            try:
                values[name] = self._read[name](value, name)
            except (ValueError, RecursionError) as error:
                return ToolFailure.of_params(f"params/{' '.join(str(error).split())}")
        return values

    def bind(
        self, values: Mapping[str, Any], context: ToolContext[Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments for the function, with the context if it takes one."""
        bound = self._signature.bind_partial()
        for name in self._signature.parameters:
            if name in values:
                bound.arguments[name] = values[name]
            elif name == self.context_parameter:
                bound.arguments[name] = context
            elif name in self._supplied:
                bound.arguments[name] = self._supplied[name]()
        bound.apply_defaults()
        return bound.args, bound.kwargs

    def _resolve_hints(self, function: Callable[..., Any]) -> dict[str, Any]:
        target = function if inspect.isroutine(function) else type(function).__call__
        try:
            return typing.get_type_hints(target, include_extras=True)
        except NameError as error:
            raise TypeError(
                f"{self._name}(): a type hint cannot be resolved: {error}; use names that are "
                "defined at the top of the module"
            ) from error

    def _hint(self, parameter: inspect.Parameter) -> Any:
        where = f"{self._name}(): parameter '{parameter.name}'"
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            raise TypeError(f"{where} has no fixed name; a tool takes named parameters only")
        hint = self._hints.get(parameter.name)
        if hint is None:
            raise TypeError(f"{where} has no type hint; {SUPPORTED}")
        return hint

    def _field(self, parameter: inspect.Parameter, hint: Any) -> Field:
        """The parameter with what a `pydantic.Field` says of it, as its default or in its hint."""
        name, default = parameter.name, parameter.default
        metadata: tuple[Any, ...] = getattr(hint, "__metadata__", ())
        stated = next((item for item in metadata if type(item).__name__ == "FieldInfo"), None)
        if default is parameter.empty and stated is None:
            return Field(name, hint, required=True)
        if default is parameter.empty:
            made = Field(name, hint, required=True, default=stated).resolve_default()
            return made._replace(hint=hint)
        return Field(name, hint, required=False, default=default).resolve_default()

    def _schema(self, name: str, hint: Any) -> dict[str, Any]:
        self._types.loose = False
        where = f"{self._name}(): parameter '{name}' has the hint {_shown_hint(hint)}"
        try:
            form = self._types.form(hint)
        except TypeError as error:
            reason = str(error).splitlines()[-1]
            raise TypeError(
                f"{where}, which cannot be put to a model ({reason}); {SUPPORTED}"
            ) from error
        self._read[name] = form.read
        return form.schema

    def _check_returned(self) -> None:
        """Raises TypeError for a return hint that cannot be put to a model."""
        hint = self._hints.get("return", Any)
        try:
            _check_sayable(hint)
        except TypeError as error:
            raise TypeError(
                f"{self._name}() returns {_shown_hint(hint)}, which cannot be put to a model "
                f"({str(error).splitlines()[-1]}); {SUPPORTED}, a Part, an Image, Document, Audio "
                "or Video, or a ToolResult"
            ) from error


def _check_sayable(hint: Any) -> None:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, type) and issubclass(hint, Medium):
        return
    if hint in (Part, ToolResult, object, typing.NoReturn) or isinstance(hint, typing.TypeVar):
        return
    if origin in (list, tuple, typing.Union, types.UnionType, Awaitable, typing.Annotated):
        for each in args[:1] if origin is typing.Annotated else args:
            if each is not ...:
                _check_sayable(each)
        return
    Types().form(hint)


def _annotated_text(hint: Any) -> str:
    metadata: tuple[object, ...] = getattr(hint, "__metadata__", ())
    if not metadata or isinstance(metadata[0], str):
        return str(metadata[0]) if metadata else ""
    from alhena.tools.value_types.constraints import text_of

    return text_of(hint)


def _shown_hint(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")


NO_OUTPUT = "(no output)"

P = ParamSpec("P")
R = TypeVar("R")
Function = Callable[..., Any]
Confirm = bool | Callable[[dict[str, Any]], bool | str]


class FunctionTool(Generic[P, R]):
    """A Python function as a tool; calling it calls the function.

    A `ToolContext` parameter, under any name, is hidden from the model. Functions that are not
    async run in a thread of their own.
    """

    is_output_markdown = False

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        kind: Kind = Kind.OTHER,
        confirm: Confirm = False,
        timeout: float | None = None,
    ) -> None:
        self.name = name or str(getattr(function, "__name__", ""))
        if not is_declarable(self.name):
            raise TypeError(f"a tool cannot be named {self.name!r}; give it one: @tool(name=...)")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{self.name}(): a generator has no single result to return")
        docstring = read_docstring(inspect.getdoc(function) or "")
        if not (description or docstring.summary):
            raise TypeError(f"{self.name}() has no docstring; it is what tells a model its use")
        number = isinstance(cast("object", timeout), int | float) and not isinstance(timeout, bool)
        if timeout is not None and not (number and timeout > 0):
            raise TypeError(
                f"{self.name}(): timeout has to be a number of seconds above 0, not {timeout!r:.60}"
            )
        if not isinstance(cast("object", confirm), bool) and not callable(confirm):
            raise TypeError(f"{self.name}(): confirm has to be True, False or a function")
        self.function = function
        self.signature = Signature(function, docstring.parameters)
        self.display_name = self.name
        self.description = description or docstring.summary
        self.kind = Kind(kind)
        self.confirm = confirm
        self.timeout = timeout
        self.parameter_schema = self.signature.schema
        self.can_update_output = self.signature.context_parameter is not None
        self.__doc__ = function.__doc__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function itself."""
        return self.function(*args, **kwargs)

    def declaration(self) -> FunctionDeclaration:
        """The tool as the model sees it."""
        return declaration_of(self)

    def build(self, params: dict[str, Any]) -> ToolInvocation | ToolFailure:
        """Checks the schema, then converts to the hinted types; a failure is a value."""
        normal = convert_spellings(self.signature.checked, params)
        failure = validate(self.signature.checked, normal)
        if failure is not None:
            return failure
        values = self.signature.arguments(normal)
        return (
            values if isinstance(values, ToolFailure) else FunctionInvocation(self, normal, values)
        )


class FunctionInvocation:
    """One call of a function. `values` are its arguments, `params` the same as JSON."""

    def __init__(
        self, tool: FunctionTool[..., Any], params: dict[str, Any], values: dict[str, Any]
    ) -> None:
        self._tool = tool
        self._params = params
        self._values = values

    @property
    def values(self) -> dict[str, Any]:
        """The arguments as the function gets them."""
        return self._values

    @property
    def params(self) -> dict[str, Any]:
        """The model's parameters, converted to the hinted types."""
        return self._params

    def describe(self) -> str:
        """Formats the call as an expression."""
        shown = ", ".join(f"{name}={_brief(value)}" for name, value in self._params.items())
        return f"{self._tool.name}({shown})"

    def locations(self) -> tuple[ToolLocation, ...]:
        """Returns none: the paths a function uses are unknown."""
        return ()

    async def confirmation(self, context: ExecutionContext) -> ConfirmationDetails | None:
        """The call, or the question that `confirm` returns; None when it was not set."""
        del context
        confirm = self._tool.confirm
        prompt = confirm if isinstance(confirm, bool) else confirm(dict(self._params))
        if prompt is False:
            return None
        if prompt is True:
            prompt = self.describe()
        if not isinstance(cast("object", prompt), str):
            kind = type(prompt).__name__
            raise TypeError(f"confirm of {self._tool.name} returned {kind}, no text and no bool")
        return InfoConfirmation(title=f"Run {self._tool.display_name}?", prompt=prompt)

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Runs the function; its exceptions become the failure of this call. A result that cannot
        be put to a model ends the run: the program is wrong, not the call."""
        from asyncio import CancelledError

        boundary = Boundary()
        returned: object = None
        try:
            with boundary:
                returned = await self._call_function(ToolContext(context))
            raised = boundary.failure
        except SystemExit:
            # sys.exit() in a tool must not end the host program.
            raised = RuntimeError("it called sys.exit()")
        except CancelledError:
            if is_cancelled():
                raise
            raised = RuntimeError("something it awaited was cancelled")
        if isinstance(raised, Deferred):
            return ToolResult.from_failure(raised.reason, ToolErrorType.DEFERRED)
        if isinstance(raised, ToolError):
            return ToolResult.from_failure(str(raised))
        if raised is not None:
            message = f"{self._tool.name} failed: {one_line(raised)}"
            failure = ToolFailure(message, exception=raised)
            return ToolResult(llm_content=message, display=message, error=failure)
        try:
            return _result(returned)
        except (TypeError, ValueError, RecursionError) as error:
            kind = type(returned).__name__
            message = f"{self._tool.name} returned {kind}, which cannot be put to a model: {error}."
            if context.program is not None:
                context.program.fail(message)
            return ToolResult.from_failure(message)

    async def _call_function(self, context: ToolContext[Any]) -> object:
        from asyncio import timeout

        args, kwargs = self._tool.signature.bind(self._values, context)
        call = partial(self._tool.function, *args, **kwargs)
        limit = timeout(self._tool.timeout)
        try:
            async with limit:
                if inspect.iscoroutinefunction(self._tool.function):
                    return await call()
                returned = await in_daemon_thread(call)
                if isawaitable(returned):
                    return await cast("Awaitable[object]", returned)
                return returned
        except TimeoutError:
            context.timed_out = limit.expired()
            if limit.expired():
                raise TimeoutError(f"it took longer than {self._tool.timeout:g} s") from None
            raise


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    kind: Kind = Kind.OTHER,
    confirm: Confirm = False,
    timeout: float | None = None,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Function | None = None, /, **options: Any
) -> FunctionTool[..., Any] | Callable[[Function], FunctionTool[..., Any]]:
    """Makes a function a tool, as `@tool` or `@tool(name=..., confirm=...)`.

    The docstring is the description; its section on parameters, or `Annotated[T, "..."]`,
    describes them; type hints give the schema, and a default makes a parameter optional. What the
    function returns goes to the model: text as it is, `Part`s, `Image`s and other media as such,
    anything else as JSON. Raises TypeError for a function that cannot be put to a model.

    Args:
        name: instead of the function's name.
        description: instead of the docstring's text.
        kind: the category of the action; calls that change something (`Kind.EDIT`, …) run alone.
        confirm: True asks a person before each call. A function of the arguments (a dict) returns
            True, False, or the question in its own words; when it raises, the call does not run.
        timeout: seconds after which the call fails. A function in a thread runs on; it can look at
            `ToolContext.cancelled`.
    """
    if function is not None:
        return FunctionTool(function, **options)
    return partial(FunctionTool, **options)


def as_tool(item: Any, where: str = "tools") -> Tool:
    """A tool as it is, a function made into one. Raises TypeError, which begins with `where`."""
    if callable(getattr(item, "build", None)):
        return item
    if not callable(item) or isinstance(item, type):
        raise TypeError(f"{where}: {item!r:.60} is neither a tool nor a function")
    return FunctionTool(item)


class _TestProgram(msgspec.Struct):
    deps: Any

    async def ask_model(self, prompt: str) -> str:
        """Refuses: there is no model."""
        del prompt
        raise ProgramError("ask_model needs an agent; this call runs without one.")

    def fail(self, message: str) -> None:
        """Leaves it to the result to say why."""

    def note_failure(self, failed: FailedCall) -> str:
        """Leaves it to the result, whose error has the exception."""
        del failed
        return ""


async def call_tool(
    tool: Tool | Callable[..., Any], args: Mapping[str, Any], *, deps: Any = None
) -> ToolResult:
    """Validates arguments, builds the call and executes it, without policy or approval: for tests.

    The `error` of the result is None, or says why the call failed. Raises TypeError for what is no
    tool.
    """
    if not isinstance(cast("object", args), Mapping):
        raise TypeError(f"args has to be a mapping of arguments, not {args!r:.60}")
    built = as_tool(tool, "tool").build(dict(args))
    if isinstance(built, ToolFailure):
        return ToolResult.from_failure(built.message, built.type)
    boundary = Boundary()
    with boundary:
        return await built.execute(ExecutionContext(Path.cwd(), program=_TestProgram(deps)))
    raised = boundary.failure
    reason = "unknown" if raised is None else one_line(raised)
    failure = ToolFailure(reason, ToolErrorType.UNHANDLED_EXCEPTION, raised)
    return ToolResult(llm_content=reason, display=reason, error=failure)


def _result(returned: object) -> ToolResult:
    match returned:
        case ToolResult():
            return returned
        case None:
            return ToolResult(llm_content=NO_OUTPUT, display=NO_OUTPUT)
        case str():
            return ToolResult(llm_content=returned, display=returned)
        case Part():
            return ToolResult(llm_content=returned, display=_describe_content(returned))
        case Medium():
            return _result(returned.part)
        case list() | tuple():
            items = cast("list[object]", returned)
            if any(isinstance(item, Part | Medium) for item in items):
                parts = (item.part if isinstance(item, Medium) else item for item in items)
                content = tuple(item if isinstance(item, Part) else _text(item) for item in parts)
                return ToolResult(llm_content=content, display=_describe_content(content))
        case _:
            pass
    text = _text(cast("object", returned))
    return ToolResult(llm_content=text, display=text)


def result_of(value: object) -> ToolResult:
    """The result of a tool that returned `value`. Raises TypeError for one that cannot be put to a
    model."""
    return _result(value)


def _text(value: object) -> str:
    """A value as text, non-strings as JSON. Raises TypeError, ValueError for one without such a
    form."""
    return (
        value
        if isinstance(value, str)
        else msgspec.json.encode(value_to_json(value)).decode("utf-8")
    )


def _describe_content(content: LlmContent) -> str:
    """Text for people, with the kinds of media named."""
    if isinstance(content, str):
        return content
    if isinstance(content, Part):
        data = content.inline_data or content.file_data
        return content.text or (f"({data.mime_type})" if data is not None else "")
    return "\n".join(filter(None, map(_describe_content, content)))


def _brief(value: object) -> str:
    text = excerpt(value)
    return text.removeprefix("string ") if isinstance(value, str) else text.split(" ", 1)[-1]
