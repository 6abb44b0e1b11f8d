"""@tool: turns a typed Python function with a docstring into a tool.

Reads the Google ("Args:"), Sphinx (":param x:") and NumPy ("Parameters" underlined) forms.
"""

import inspect
import re
import typing
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from inspect import isawaitable
from typing import Any, cast, overload

import msgspec

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
from alhena.tools.declared import declaration_of
from alhena.tools.names import is_declarable
from alhena.tools.params import validate
from alhena.tools.schema import excerpt, respelled
from alhena.tools.threads import Boundary, in_daemon_thread, one_line
from alhena.tools.value_types import (
    SUPPORTED,
    schema_without_references,
    value_from_json,
    value_to_json,
)
from alhena.wire.content import Part
from alhena.wire.request import FunctionDeclaration


class Signature:
    """The parameters of a function. Raises TypeError for types that no schema can express."""

    def __init__(self, function: Callable[..., Any], descriptions: Mapping[str, str]) -> None:
        self._name = str(getattr(function, "__name__", function))
        self._signature = inspect.signature(function)
        self._hints = self._resolved(function)
        self.context_parameter: str | None = None
        properties: dict[str, Any] = {}
        required: list[str] = []
        for parameter in self._signature.parameters.values():
            hint = self._hint(parameter)
            if hint is ExecutionContext:
                self.context_parameter = parameter.name
                continue
            node = self._schema(parameter.name, hint)
            description = _annotated_text(hint) or descriptions.get(parameter.name)
            if description:
                node = {**node, "description": description}
            if parameter.default is parameter.empty:
                required.append(parameter.name)
            else:
                node |= _default(parameter.default)
            properties[parameter.name] = node
        self.schema: dict[str, Any] = {"type": "object", "properties": properties}
        if required:
            self.schema["required"] = required

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
                values[name] = value_from_json(self._hints[name], value)
            except (msgspec.ValidationError, ValueError, RecursionError) as error:
                return ToolFailure.of_params(f"params/{name}: {' '.join(str(error).split())}")
        return values

    def bind(
        self, values: Mapping[str, Any], context: ExecutionContext
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments for the function, with the context if it takes one."""
        bound = self._signature.bind_partial()
        for name in self._signature.parameters:
            if name in values:
                bound.arguments[name] = values[name]
            elif name == self.context_parameter:
                bound.arguments[name] = context
        bound.apply_defaults()
        return bound.args, bound.kwargs

    def _resolved(self, function: Callable[..., Any]) -> dict[str, Any]:
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

    def _schema(self, name: str, hint: Any) -> dict[str, Any]:
        where = f"{self._name}(): parameter '{name}' has the hint {_shown_hint(hint)}"
        try:
            node = schema_without_references(hint, where)
        except TypeError as error:
            if str(error).startswith(where):
                raise
            reason = str(error).splitlines()[-1]
            raise TypeError(
                f"{where}, which cannot be put to a model ({reason}); {SUPPORTED}"
            ) from error
        if not node:
            raise TypeError(f"{where}, which says nothing about the value; {SUPPORTED}")
        return node


def _annotated_text(hint: Any) -> str | None:
    metadata: tuple[object, ...] = getattr(hint, "__metadata__", ())
    return next((item for item in metadata if isinstance(item, str)), None)


def _default(value: object) -> dict[str, Any]:
    """The `default` keyword of a schema; empty for None and for values without a JSON form."""
    if value is None:
        return {}
    try:
        return {"default": value_to_json(value)}
    except (TypeError, ValueError, RecursionError):
        return {}


def _shown_hint(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")


_GOOGLE_SECTION = re.compile(
    r"^(Args|Arguments|Parameters|Params|Returns?|Yields?|Raises|Examples?|Notes?|Attributes"
    r"|Warnings?|See Also|Todo)\s*:\s*$"
)
_PARAMETER_SECTIONS = frozenset({"Args", "Arguments", "Parameters", "Params", "Other Parameters"})
_NUMPY_RULE = re.compile(r"^\s*-{3,}\s*$")
_SPHINX_FIELD = re.compile(r"^:(\w+)(?:\s+([^:]*?))?\s*:\s*(.*)$")
_SPHINX_PARAMETER = frozenset({"param", "parameter", "arg", "argument", "key", "keyword"})
_GOOGLE_ENTRY = re.compile(r"^(\*{0,2}\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_NUMPY_ENTRY = re.compile(r"^(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")


class Docstring(msgspec.Struct, frozen=True):
    """`summary` is the text without its sections; `parameters` maps a name to its description."""

    summary: str
    parameters: dict[str, str]


def read_docstring(text: str) -> Docstring:
    """Parses a docstring with any indentation."""
    lines = _dedented(text)
    summary: list[str] = []
    parameters: dict[str, str] = {}
    index = 0
    while index < len(lines):
        line = lines[index]
        google = _GOOGLE_SECTION.match(line)
        underlined = index + 1 < len(lines) and _NUMPY_RULE.match(lines[index + 1])
        field = _SPHINX_FIELD.match(line)
        if underlined and line.strip():
            index, body = _until_section(lines, index + 2)
            if line.strip() in _PARAMETER_SECTIONS:
                parameters |= _numpy_entries(body)
        elif google:
            index, body = _indented(lines, index + 1)
            if google[1] in _PARAMETER_SECTIONS:
                parameters |= _google_entries(body)
        elif field:
            index, body = _indented(lines, index + 1)
            name = (field[2] or "").split()[-1:]
            if field[1] in _SPHINX_PARAMETER and name:
                parameters[name[0].lstrip("*")] = _joined([field[3], *body])
        else:
            summary.append(line)
            index += 1
    return Docstring("\n".join(summary).strip(), parameters)


def _dedented(text: str) -> list[str]:
    """Removes the common indentation of the lines; the first line has none."""
    lines = text.expandtabs().splitlines()
    margins = [len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()]
    margin = min(margins, default=0)
    return [line.strip() if i == 0 else line[margin:].rstrip() for i, line in enumerate(lines)]


def _indented(lines: list[str], start: int) -> tuple[int, list[str]]:
    """The indented (or empty) lines from `start`, and the index after them."""
    end = start
    while end < len(lines) and (not lines[end] or lines[end].startswith(" ")):
        end += 1
    return end, lines[start:end]


def _until_section(lines: list[str], start: int) -> tuple[int, list[str]]:
    end = start
    while end < len(lines) and not (
        end + 1 < len(lines) and lines[end].strip() and _NUMPY_RULE.match(lines[end + 1])
    ):
        end += 1
    return end, lines[start:end]


def _google_entries(body: list[str]) -> dict[str, str]:
    margin = min((len(line) - len(line.lstrip()) for line in body if line), default=0)
    return _entries([line[margin:] for line in body], _GOOGLE_ENTRY)


def _numpy_entries(body: list[str]) -> dict[str, str]:
    return _entries(body, _NUMPY_ENTRY)


def _entries(body: list[str], pattern: re.Pattern[str]) -> dict[str, str]:
    """Descriptions by name; indented lines continue the entry above them."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in body:
        entry = pattern.match(line)
        if entry and not line.startswith(" "):
            current = [entry[2]] if pattern.groups > 1 else []
            for name in entry[1].split(","):
                found[name.strip().lstrip("*")] = current
        else:
            current.append(line)
    return {name: _joined(texts) for name, texts in found.items()}


def _joined(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


NO_OUTPUT = "(no output)"

Function = Callable[..., Any]
Confirm = bool | Callable[..., str]


class FunctionTool:
    """A Python function as a tool; calling it calls the function.

    An `ExecutionContext` parameter, under any name, receives the context and is hidden from the
    model. Functions that are not async run in a thread of their own.
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
        """Calls the function itself."""
        return self.function(*args, **kwargs)

    def declaration(self) -> FunctionDeclaration:
        """The tool as the model sees it."""
        return declaration_of(self)

    def build(self, params: dict[str, Any]) -> ToolInvocation | ToolFailure:
        """Checks the schema, then converts to the hinted types; a failure is a value."""
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
        if confirm is False:
            return None
        prompt = self.describe() if confirm is True else confirm(**self._values)
        return InfoConfirmation(title=f"Run {self._tool.display_name}?", prompt=prompt)

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Runs the function; its exceptions become the failure of this call."""
        boundary = Boundary()
        reason = "it was left without a result"
        try:
            with boundary:
                return _result(await self._returned(context))
        except SystemExit:
            # sys.exit() in a tool must not end the host program.
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
    *, name: str | None = None, kind: Kind = Kind.OTHER, confirm: Confirm = False
) -> Callable[[Function], FunctionTool]: ...


def tool(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    kind: Kind = Kind.OTHER,
    confirm: Confirm = False,
) -> FunctionTool | Callable[[Function], FunctionTool]:
    """Makes a function a tool, as `@tool` or `@tool(name=..., kind=..., confirm=...)`.

    The docstring is the description; its section on parameters, or `Annotated[T, "..."]`,
    describes them; type hints give the schema, and a default makes a parameter optional. What the
    function returns goes to the model: text as it is, `Part`s as media, anything else as JSON.
    The program's own functions run without asking. `confirm=True` asks for approval before each
    call; a function of the same arguments that returns the question does so in its words. Raises
    TypeError for a function that cannot be put to a model.
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
    """Converts a value to text; non-strings become JSON. Raises msgspec's error without a JSON
    form."""
    return (
        value
        if isinstance(value, str)
        else msgspec.json.encode(value_to_json(value)).decode("utf-8")
    )


def _shown(content: LlmContent) -> str:
    """Text for people, with the kinds of media named."""
    if isinstance(content, str):
        return content
    if isinstance(content, Part):
        data = content.inline_data or content.file_data
        return content.text or (f"({data.mime_type})" if data is not None else "")
    return "\n".join(filter(None, map(_shown, content)))


def _brief(value: object) -> str:
    text = excerpt(value)
    return text.removeprefix("string ") if isinstance(value, str) else text.split(" ", 1)[-1]
