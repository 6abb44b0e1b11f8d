"""Hooks as typed functions: a class for each event, whose methods make the answer.

    def redact(call: AfterTool) -> AfterTool | None:
        return call.replace(SECRET.sub("…", call.text))

    Agent(hooks={"AfterTool": redact})

A hook returns None, or what a method of its object returned. The fields are those of the event; the
object itself never changes.
"""

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import PurePath
from typing import Any, ClassVar, Self, cast

import msgspec

from alhena.hooks.model import HookEvent
from alhena.wire.content import Content, Part

Answer = Mapping[str, Any]
"""The answer of a hook, as docs/hooks.md describes it."""
_NOTHING: Answer = {}


class HookInput(msgspec.Struct, frozen=True, kw_only=True):
    """The base of all: `session_id` and `cwd` of the session."""

    event: ClassVar[HookEvent]

    session_id: str = ""
    cwd: str = ""
    answer: Answer = _NOTHING

    def block(self, why: str) -> Self:
        """Prevents what is about to happen, or withholds the result; the model reads why."""
        return self._answer(decision="block", reason=why)

    def stop(self, why: str) -> Self:
        """Ends the run: its stop_reason is "blocked", and `why` is among its warnings."""
        return self._answer(**{"continue": False, "stopReason": why})

    def _answer(self, **fields: Any) -> Self:
        return msgspec.structs.replace(self, answer={**self.answer, **fields})

    def _specific(self, **fields: Any) -> Self:
        before = self.answer.get("hookSpecificOutput", {})
        return self._answer(hookSpecificOutput={**before, **fields})


class BeforeTool(HookInput, frozen=True, kw_only=True):
    """A call of `tool_name` with `args` that is about to run."""

    event: ClassVar[HookEvent] = HookEvent.BEFORE_TOOL

    tool_name: str
    args: dict[str, Any]

    def replace(self, *, args: Mapping[str, Any]) -> Self:
        """Runs the call with these arguments in place of those of the same names. It passes the
        policy again."""
        if not isinstance(cast("object", args), Mapping):
            raise TypeError(f"args have to be a mapping of names to values, not {args!r:.60}")
        return self._specific(tool_input=dict(args))

    def ask(self, why: str) -> Self:
        """Asks a person first."""
        return self._answer(decision="ask", reason=why)


class AfterTool(HookInput, frozen=True, kw_only=True):
    """A call that ran: `text` is its result for the model, or its error with `failed`."""

    event: ClassVar[HookEvent] = HookEvent.AFTER_TOOL

    tool_name: str
    args: dict[str, Any]
    text: str
    failed: bool = False

    def replace(self, value: Any) -> Self:
        """Gives the model another result: a text, media, or a value that becomes JSON."""
        return self._specific(tool_response={"llmContent": _content(value)})

    def add_context(self, text: str) -> Self:
        """Adds a text for the model to the result."""
        return self._specific(additionalContext=text)


class BeforeModel(HookInput, frozen=True, kw_only=True):
    """A request with `contents` to the model that is about to be sent."""

    event: ClassVar[HookEvent] = HookEvent.BEFORE_MODEL

    model: str
    contents: tuple[Content, ...]
    changed: bool = False

    def replace(self, *, contents: Sequence[Content]) -> Self:
        """Sends these contents in place of the others, for this request only."""
        found = tuple(contents)
        if not found:
            raise ValueError("contents are empty: a request has at least one")
        for each in found:
            if not isinstance(cast("object", each), Content):
                raise TypeError(f"contents have to be Contents, not {type(each).__name__}")
        return msgspec.structs.replace(self, contents=found, changed=True)


class AfterModel(HookInput, frozen=True, kw_only=True):
    """An answer of the model: its `text`, "" where it only calls tools."""

    event: ClassVar[HookEvent] = HookEvent.AFTER_MODEL

    text: str

    def replace(self, text: str) -> Self:
        """Puts another text in place of that of the answer."""
        return self._specific(llm_response={"text": text})


class BeforeToolSelection(HookInput, frozen=True, kw_only=True):
    """A request to `model` with tools that is about to be sent."""

    event: ClassVar[HookEvent] = HookEvent.BEFORE_TOOL_SELECTION

    model: str

    def replace(self, *, tools: Sequence[str] | None = None, mode: str = "ANY") -> Self:
        """Lets the model call these tools only, and with the mode "ANY" makes it call one; "NONE"
        lets it call none."""
        names = {} if tools is None else {"allowedFunctionNames": list(tools)}
        return self._specific(toolConfig={"mode": mode, **names})


class BeforeAgent(HookInput, frozen=True, kw_only=True):
    """A `prompt` that is about to be sent."""

    event: ClassVar[HookEvent] = HookEvent.BEFORE_AGENT

    prompt: str

    def add_context(self, text: str) -> Self:
        """Adds a text for the model to the prompt."""
        return self._specific(additionalContext=text)


class AfterAgent(HookInput, frozen=True, kw_only=True):
    """The answer `text` to a `prompt`. `block` sends its words as the next message to the model;
    `active`: a hook has done so for this prompt already."""

    event: ClassVar[HookEvent] = HookEvent.AFTER_AGENT

    prompt: str
    text: str
    active: bool = False


class PreCompress(HookInput, frozen=True, kw_only=True):
    """The history is about to be summarised; `trigger` is "auto" or "manual"."""

    event: ClassVar[HookEvent] = HookEvent.PRE_COMPRESS

    trigger: str


class SessionStart(HookInput, frozen=True, kw_only=True):
    """A session begins; `source` is "startup", "resume" or "clear"."""

    event: ClassVar[HookEvent] = HookEvent.SESSION_START

    source: str

    def add_context(self, text: str) -> Self:
        """Adds a text for the model to the first prompt."""
        return self._specific(additionalContext=text)


class SessionEnd(HookInput, frozen=True, kw_only=True):
    """A session ends; `reason` is such as "exit"."""

    event: ClassVar[HookEvent] = HookEvent.SESSION_END

    reason: str


class Notification(HookInput, frozen=True, kw_only=True):
    """A person is asked to approve a call."""

    event: ClassVar[HookEvent] = HookEvent.NOTIFICATION

    message: str


CLASSES: tuple[type[HookInput], ...] = (
    *(BeforeAgent, AfterAgent, BeforeModel, AfterModel, BeforeToolSelection),
    *(BeforeTool, AfterTool, PreCompress, SessionStart, SessionEnd, Notification),
)


class TypedHook:
    """A hook whose parameter is annotated with the class `kind`."""

    def __init__(self, function: Callable[[Any], Any], kind: type[HookInput]) -> None:
        self.function = function
        self.kind = kind
        self.__name__ = str(getattr(function, "__name__", type(function).__name__))

    def __call__(self, given: HookInput) -> Any:
        """Calls the function."""
        return self.function(given)


def typed_hook(event: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as a TypedHook where the hint of its parameter says so, else as it is. Raises
    TypeError for a class of another event, and for a function that does not take one argument."""
    _require_one_parameter(event, function)
    kinds = _annotated_classes(function)
    if not kinds:
        return function
    kind = next((each for each in kinds if each.event == event), None)
    if kind is None:
        name = kinds[0].__name__
        raise TypeError(f"hooks[{event!r}] takes a {event}, not the {name} of its hint")
    return TypedHook(function, kind)


def _require_one_parameter(event: str, function: Callable[..., Any]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin that has none
        return
    try:
        signature.bind(None)
    except TypeError:
        name = getattr(function, "__name__", type(function).__name__)
        raise TypeError(f"hooks[{event!r}]: {name}{signature} has to take one argument") from None


def _annotated_classes(function: Callable[..., Any]) -> list[type[HookInput]]:
    """The classes in the hint of the parameter that takes the input; others have defaults."""
    try:
        parameter = next(iter(inspect.signature(function).parameters.values()))
    except (TypeError, ValueError):
        return []
    stub = types.SimpleNamespace(__annotations__={"input": parameter.annotation})
    found: Any = parameter.annotation
    with suppress(NameError, TypeError, SyntaxError, AttributeError):  # imported for type checkers
        found = typing.get_type_hints(stub, _globals_of(function))["input"]
    if isinstance(found, str):
        names = re.findall(r"\w+", found)
        return [each for each in CLASSES if each.__name__ in names]
    return [each for each in CLASSES if each in _members(found)]


def _members(hint: Any) -> tuple[Any, ...]:
    """A hint, or those of a union."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return typing.get_args(hint)
    return (hint,)


def _globals_of(function: Any) -> dict[str, Any]:
    """The names of the module in which a function was written, also one in a partial, a method or
    an object that can be called."""
    while isinstance(function, partial):
        function = cast("Any", function.func)
    target: Any = function if inspect.isroutine(function) else type(function).__call__
    return getattr(inspect.unwrap(target), "__globals__", {})


def make_input(
    kind: type[HookInput], told: Mapping[str, Any], contents: tuple[Content, ...]
) -> HookInput:
    """The object of a class for the input of a hook; `contents` are those of the request."""
    base: dict[str, Any] = {"session_id": told["session_id"], "cwd": told["cwd"]}
    return kind(**base, **_FIELDS[kind.event](told, contents))


def output_of(given: object) -> tuple[dict[str, Any], tuple[Content, ...] | None]:
    """The answer of a hook as the documented dict, and the contents it put in place of those of the
    request. Raises TypeError for anything but an object of its class."""
    if given is None:
        return {}, None
    if not isinstance(given, HookInput):
        kind = type(given).__name__
        raise TypeError(
            f"it returned {kind} instead of None or what a method of its object returns"
        )
    changed = given.contents if isinstance(given, BeforeModel) and given.changed else None
    return dict(given.answer), changed


def _content(value: Any) -> Any:
    """A result as the model gets it, in JSON."""
    if isinstance(value, str):
        return value
    items: list[Any] = list(cast("Any", value)) if isinstance(value, list | tuple) else [value]
    parts = [getattr(each, "part", each) for each in items]
    if parts and all(isinstance(each, Part | str) for each in parts):
        made = (Part(text=each) if isinstance(each, str) else each for each in parts)
        return [msgspec.to_builtins(each) for each in made]
    return msgspec.json.encode(value, enc_hook=_plain).decode("utf-8")


def _plain(value: Any) -> Any:
    """A path, or a model of pydantic, which hooks do not import, in JSON. Raises TypeError."""
    if isinstance(value, PurePath):
        return str(value)
    if callable(dump := getattr(value, "model_dump", None)):
        return dump(mode="json")
    raise TypeError(f"a {type(value).__name__} has no form as JSON")


def _text(content: Any) -> str:
    """The text of a result in JSON."""
    if isinstance(content, str):
        return content
    items = cast("list[Any]", content if isinstance(content, list) else [content])
    return "\n".join(filter(None, map(_text_of, items)))


def _text_of(part: Any) -> str:
    return part if isinstance(part, str) else cast("dict[str, str]", part).get("text", "")


def _after_tool(told: Mapping[str, Any]) -> dict[str, Any]:
    response: Any = told["tool_response"]
    error: Any = response["error"]
    return {
        "tool_name": told["tool_name"],
        "args": told["tool_input"],
        "text": _text(response["llmContent"] if error is None else error["message"]),
        "failed": error is not None,
    }


_Make = Callable[[Mapping[str, Any], tuple[Content, ...]], dict[str, Any]]
_FIELDS: Mapping[HookEvent, _Make] = {
    HookEvent.BEFORE_TOOL: lambda told, _: {
        "tool_name": told["tool_name"],
        "args": told["tool_input"],
    },
    HookEvent.AFTER_TOOL: lambda told, _: _after_tool(told),
    HookEvent.BEFORE_MODEL: lambda told, contents: {
        "model": told["llm_request"]["model"],
        "contents": contents,
    },
    HookEvent.AFTER_MODEL: lambda told, _: {"text": told["llm_response"].get("text") or ""},
    HookEvent.BEFORE_TOOL_SELECTION: lambda told, _: {"model": told["llm_request"]["model"]},
    HookEvent.BEFORE_AGENT: lambda told, _: {"prompt": told["prompt"]},
    HookEvent.AFTER_AGENT: lambda told, _: {
        "prompt": told["prompt"],
        "text": told["prompt_response"],
        "active": told["stop_hook_active"],
    },
    HookEvent.PRE_COMPRESS: lambda told, _: {"trigger": told["trigger"]},
    HookEvent.SESSION_START: lambda told, _: {"source": told["source"]},
    HookEvent.SESSION_END: lambda told, _: {"reason": told["reason"]},
    HookEvent.NOTIFICATION: lambda told, _: {"message": told["message"]},
}
