"""`@tool`: a typed Python function with a docstring as a tool."""

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isawaitable
from typing import Any, cast, overload

import msgspec

from alhena.tools.boundary import Boundary, one_line
from alhena.tools.confirmation import ConfirmationDetails, InfoConfirmation
from alhena.tools.contract import (
    ExecutionContext,
    Kind,
    LlmContent,
    ToolFailure,
    ToolInvocation,
    ToolLocation,
    ToolResult,
)
from alhena.tools.daemon import in_daemon_thread
from alhena.tools.docstring import read_docstring
from alhena.tools.names import is_declarable
from alhena.tools.params import validate
from alhena.tools.schema import excerpt, respelled
from alhena.tools.signature import Signature
from alhena.wire.content import Part
from alhena.wire.request import FunctionDeclaration

NO_OUTPUT = "(no output)"

Function = Callable[..., Any]
Confirm = bool | Callable[..., str]


class FunctionTool:
    """A Python function as a tool; calling it calls the function.

    A function that takes an `ExecutionContext` is given it, under any parameter name; the model
    does not see that parameter. Functions that are not async run in a thread of their own.
    """

    is_output_markdown = False

    def __init__(
        self, function: Function, *, name: str | None, kind: Kind, confirm: Confirm
    ) -> None:
        self.name = name or str(getattr(function, "__name__", ""))
        if not is_declarable(self.name):
            raise TypeError(f"a tool cannot be named {self.name!r}; give it one: @tool(name=...)")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{self.name}(): a generator has no single result to return")
        docstring = read_docstring(inspect.getdoc(function) or "")
        if not docstring.summary:
            raise TypeError(f"{self.name}() has no docstring; it is what tells a model its use")
        self.function = function
        self.signature = Signature(function, docstring.parameters)
        self.display_name = self.name
        self.description = docstring.summary
        self.kind = kind
        self.confirm = confirm
        self.parameter_schema = self.signature.schema
        self.can_update_output = self.signature.context_parameter is not None
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself."""
        return self.function(*args, **kwargs)

    def declaration(self) -> FunctionDeclaration:
        """The tool as the model sees it."""
        return FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema=self.parameter_schema,
        )

    def build(self, params: dict[str, Any]) -> ToolInvocation | ToolFailure:
        """Schema, then conversion to the hinted types; a failure is a value."""
        normal = respelled(self.parameter_schema, params)
        failure = validate(self.parameter_schema, normal)
        if failure is not None:
            return failure
        values = self.signature.arguments(normal)
        return (
            values if isinstance(values, ToolFailure) else FunctionInvocation(self, normal, values)
        )


class FunctionInvocation:
    """One call of a function. `values` are its arguments, `params` the same as JSON."""

    def __init__(self, tool: FunctionTool, params: dict[str, Any], values: dict[str, Any]) -> None:
        self._tool = tool
        self._params = params
        self._values = values

    @property
    def params(self) -> dict[str, Any]:
        """The parameters as the model gave them, in their proper types."""
        return self._params

    def describe(self) -> str:
        """The call as one would write it."""
        shown = ", ".join(f"{name}={_brief(value)}" for name, value in self._params.items())
        return f"{self._tool.name}({shown})"

    def locations(self) -> tuple[ToolLocation, ...]:
        """Nothing is known of what a function touches."""
        return ()

    async def confirmation(self, context: ExecutionContext) -> ConfirmationDetails | None:
        """The call and what the function is for, unless it was declared to need no approval."""
        del context
        confirm = self._tool.confirm
        if confirm is False:
            return None
        prompt = self.describe() if confirm is True else confirm(**self._values)
        return InfoConfirmation(title=f"Run {self._tool.display_name}?", prompt=prompt)

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Runs the function; what it raises is the failure of this call."""
        boundary = Boundary()
        reason = "it was left without a result"
        try:
            with boundary:
                return _result(await self._returned(context))
        except SystemExit:
            # A function of a tool does not end the program that the tool serves.
            reason = "it called sys.exit()"
        if boundary.failure is not None:
            reason = one_line(boundary.failure)
        return ToolResult.failed(f"{self._tool.name} failed: {reason}")

    async def _returned(self, context: ExecutionContext) -> object:
        args, kwargs = self._tool.signature.bind(self._values, context)
        call = partial(self._tool.function, *args, **kwargs)
        if inspect.iscoroutinefunction(self._tool.function):
            return await call()
        returned = await in_daemon_thread(call)
        return await cast("Awaitable[object]", returned) if isawaitable(returned) else returned


@overload
def tool(function: Function, /) -> FunctionTool: ...


@overload
def tool(
    *, name: str | None = None, kind: Kind = Kind.OTHER, confirm: Confirm = True
) -> Callable[[Function], FunctionTool]: ...


def tool(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    kind: Kind = Kind.OTHER,
    confirm: Confirm = True,
) -> FunctionTool | Callable[[Function], FunctionTool]:
    """Makes a function a tool, as `@tool` or `@tool(name=..., kind=..., confirm=...)`.

    The docstring is the description; its section on parameters, or `Annotated[T, "..."]`,
    describes them; type hints give the schema, and a default makes a parameter optional. What the
    function returns goes to the model: text as it is, `Part`s as media, anything else as JSON.
    `confirm`: whether a person is asked where the policy wants one asked; or a function of the
    same arguments that returns the question. Raises TypeError for a function that cannot be put
    to a model.
    """

    def decorate(decorated: Function) -> FunctionTool:
        return FunctionTool(decorated, name=name, kind=kind, confirm=confirm)

    return decorate if function is None else decorate(function)


def _result(returned: object) -> ToolResult:
    match returned:
        case ToolResult():
            return returned
        case None:
            return ToolResult(llm_content=NO_OUTPUT, display=NO_OUTPUT)
        case str():
            return ToolResult(llm_content=returned, display=returned)
        case Part():
            return ToolResult(llm_content=returned, display=_shown(returned))
        case list() | tuple():
            items = cast("list[object]", returned)
            if any(isinstance(item, Part) for item in items):
                content = tuple(item if isinstance(item, Part) else _text(item) for item in items)
                return ToolResult(llm_content=content, display=_shown(content))
        case _:
            pass
    text = _text(cast("object", returned))
    return ToolResult(llm_content=text, display=text)


def _text(value: object) -> str:
    """Text as it is, anything else as JSON; raises what msgspec raises when there is no JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode("utf-8")


def _shown(content: LlmContent) -> str:
    """Text and the kinds of media, for people."""
    if isinstance(content, str):
        return content
    if isinstance(content, Part):
        data = content.inline_data or content.file_data
        return content.text or (f"({data.mime_type})" if data is not None else "")
    return "\n".join(filter(None, map(_shown, content)))


def _brief(value: object) -> str:
    text = excerpt(value)
    return text.removeprefix("string ") if isinstance(value, str) else text.split(" ", 1)[-1]
