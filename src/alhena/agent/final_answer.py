"""The value that a prompt or a subagent has to end with: its schema, its check, its corrections."""

import json
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from alhena.errors import AlhenaError
from alhena.events import ToolCallResponseEvent
from alhena.tools.response import error_parts, response_parts
from alhena.wire.content import MODEL, Part, ToolCallRequestInfo, text_content
from alhena.wire.json_values import as_object
from alhena.wire.request import (
    FunctionDeclaration,
    GenerateContentConfig,
    GenerationConfig,
    ToolDeclarations,
)

if TYPE_CHECKING:
    from alhena.chat.chat import Chat

FINAL = "final_answer"
"""Name of the tool by which a model gives the value that a prompt asks for."""

_ACCEPTED = "The answer was taken."
_SEVERAL = "It holds several values that fit; give exactly one."

_MAX_STARTS = 200
"""Brackets of a text at which a JSON value may begin, that are tried."""
_THINKING = re.compile(r"\s*<(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_THOUGHT_END = re.compile(r"</(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_FENCE = re.compile(
    r"^[ \t]*(```+|~~~+)[^\n`]*\n(.*?)\n?^[ \t]*\1[ \t]*$", re.DOTALL | re.MULTILINE
)
_BRACKET = re.compile(r"\{|(?:^|:)[ \t]*(?=\[)", re.MULTILINE)
"""The start of a value in prose. A list anywhere else may be a reference: see [1]."""


class OutputError(AlhenaError):
    """The model gave no valid value. `text` is its last answer, `reasons` say what was wrong with
    each one."""

    kind = "output"

    def __init__(self, text: str, reasons: tuple[str, ...]) -> None:
        super().__init__(
            f"the model gave no valid output: {reasons[-1]}",
            remedy="Allow more corrections=, or ask for less.",
        )
        self.text = text
        self.reasons = reasons


class FinalFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A function of the program that ends a run when the model calls it; `call` takes its arguments
    and returns the output, or raises ValueError with a correction."""

    name: str
    description: str
    schema: dict[str, Any]
    call: Callable[[dict[str, Any]], Awaitable[Any]]


class FinalAnswer:
    """`read` makes the value of the JSON that the model gives for `schema`, or raises ValueError
    with the reason, which the model gets at most `corrections` times. `name` and `description` are
    those of the tool by which it gives the value. With `only_by_tool` it has to be a call,
    and an answer as text ends the prompt without a value. `functions` end it too; with them the
    value is given by a tool, and without a `schema` only they do.

    With `by_form` the value is text in the form of the schema, also where there are tools: the
    first text that is no value has the model asked for it once more, then without the tools."""

    def __init__(  # noqa: PLR0913  each has its own default
        self,
        schema: dict[str, Any] | None,
        read: Callable[[Any], Any],
        corrections: int,
        *,
        functions: tuple[FinalFunction, ...] = (),
        name: str = FINAL,
        description: str = "Ends the work with its result. Call it once, when everything is done.",
        only_by_tool: bool = False,
    ) -> None:
        self.name = name
        self._description = description
        self._asks_again = not only_by_tool
        self._functions = {each.name: each for each in functions}
        self._wrapped = schema is not None and schema.get("type") != "object"
        self._words = _fixed_words(schema) if schema is not None and self._wrapped else False
        if schema is not None and self._wrapped:
            rest = {key: value for key, value in schema.items() if key != "$defs"}
            named = {"$defs": schema["$defs"]} if "$defs" in schema else {}
            schema = {"type": "object", "properties": {"value": rest}, "required": ["value"]}
            schema |= named
        self._schema = schema
        self._read = read
        self._left = corrections
        self._reasons: list[str] = []
        self._text = ""
        self.by_tool = self._always_by_tool = only_by_tool or bool(functions)
        self.by_form = self._formal = False
        self.value: Any = None
        self.given = False
        self.error: OutputError | None = None

    def adapt_config(self, config: GenerateContentConfig) -> GenerateContentConfig:
        """The settings of a request that asks for the value: where there are tools, by a tool."""
        if self.by_form:
            if config.tools and not self._formal:
                return config
            self._formal = True
            config = replace(config, tools=None, tool_config=None)
        self.by_tool = not self.by_form and (self.by_tool or bool(config.tools))
        if not self.by_tool and self._schema is not None:
            wanted = replace(
                config.generation_config or GenerationConfig(),
                response_mime_type="application/json",
                response_json_schema=self._schema,
            )
            return replace(config, generation_config=wanted)
        *others, last = config.tools or (ToolDeclarations(),)
        kept = (each for each in last.function_declarations or () if not self.takes(each.name))
        declared = (*kept, *self._declarations())
        return replace(config, tools=(*others, replace(last, function_declarations=declared)))

    def _declarations(self) -> Iterator[FunctionDeclaration]:
        if self._schema is not None:
            yield FunctionDeclaration(
                name=self.name,
                description=self._description,
                parameters_json_schema=self._schema,
            )
        for each in self._functions.values():
            yield FunctionDeclaration(
                name=each.name, description=each.description, parameters_json_schema=each.schema
            )

    def takes(self, name: str) -> bool:
        """True for a call that may give the value."""
        return name in self._functions or (name == self.name and self._schema is not None)

    def ask_by_tool(self, *, always: bool, by_form: bool = False) -> None:
        """Asks for the value by a tool: `always`, or where there are tools; or never, where
        `by_form` is set and the value may be text."""
        self.by_form = by_form and self._asks_again and not self._always_by_tool
        self.by_tool = (always or self._always_by_tool) and not self.by_form

    @property
    def over(self) -> bool:
        """True when there is a value, or no further correction is allowed."""
        return self.given or self.error is not None

    def finish(self, chat: "Chat") -> None:
        """Ends the conversation with the value. Raises OutputError."""
        if self.error is not None:
            raise self.error
        chat.history.add_model(text_content(MODEL, self._text))

    def read_text(self, text: str) -> Part | None:
        """Takes an answer as text; returns what to tell the model if it is not valid. Raises
        OutputError."""
        if self.by_tool and not self._asks_again:
            return None
        reason = self._read_values(text)
        if not reason:
            return None
        if self.by_form and not self._formal:
            self._formal = True
            return Part(text="Now give the answer as one JSON value of the form that is asked for.")
        if self.by_tool and reason != _SEVERAL:
            names = " or ".join(each.name for each in self._declarations())
            reason = f"Give the answer by calling {names}, not as text."
        self._refuse(text, reason)
        if self.error is not None:
            raise self.error
        return Part(text=f"The answer is not valid. {reason} Answer again.")

    async def read_call(self, call: ToolCallRequestInfo) -> tuple[Part, ToolCallResponseEvent]:
        """Takes a call of the tool, or of a function; returns its response and its event. Sets
        `error` when no further correction is allowed."""
        function = self._functions.get(call.name)
        if self.given:
            reason = "An answer was given already."
        elif function is None:
            reason = self._read_value(call.args)
        else:
            reason = await self._call_function(function, call.args)
        text = json.dumps(call.args, ensure_ascii=False)
        if not reason:
            self._text = text
        elif not self.given:
            self._refuse(text, reason)
        made = error_parts if reason else response_parts
        (part,) = made(call.answered_name, call.call_id, reason or _ACCEPTED)
        event = ToolCallResponseEvent(
            call_id=call.call_id,
            name=call.name,
            status="error" if reason else "success",
            display=reason or _ACCEPTED,
            error=reason or None,
        )
        return part, event

    def _read_values(self, text: str) -> str:
        """Reads the only value in a text that fits; returns the reason why there is none. Models
        put code fences, a line of prose or their thoughts around it."""
        text = text.strip("\ufeff \t\r\n")
        try:
            whole = json.loads(text)
        except (ValueError, RecursionError) as error:
            reason = f"it is not JSON: {error}"
        else:
            return self._read_value(whole)
        for said in _after_thoughts(text):
            values = _find_values(said, words=self._words)
            problems: list[str] = []
            fitting: list[Any] = []
            for each in values:
                problem = self._read_value(each)
                if not problem:
                    fitting.append((each, self.value))
                problems.append(problem)
            self.given = False
            if any(each != fitting[0][0] for each, _ in fitting):
                return _SEVERAL
            if fitting:
                self.value, self.given = fitting[0][1], True
                return ""
            reason = problems[0] if len(problems) == 1 else reason
        return reason

    def _read_value(self, data: Any) -> str:
        """Reads a value; returns the reason why it is none. Where the schema is wrapped, the bare
        value is good as well."""
        if not self._wrapped:
            return self._try_value(data)
        whole = as_object(data) or {}
        problem = 'It has to be an object with the field "value".'
        if "value" in whole:
            problem = self._try_value(whole["value"])
        return problem and (self._try_value(data) and problem)

    def _try_value(self, data: Any) -> str:
        try:
            self.value = self._read(data)
        except ValueError as error:
            return f"{str(error).rstrip('.')}."
        self.given = True
        return ""

    async def _call_function(self, function: FinalFunction, args: dict[str, Any]) -> str:
        """Calls a function for the value; returns the reason why there is none."""
        try:
            self.value = await function.call(args)
        except ValueError as error:
            return f"{str(error).rstrip('.')}."
        self.given = True
        return ""

    def _refuse(self, text: str, reason: str) -> None:
        self._reasons.append(reason)
        if self._left <= 0:
            self.error = OutputError(text, tuple(self._reasons))
        self._left -= 1


def _fixed_words(schema: dict[str, Any]) -> bool:
    """True for a schema of given words or dates, which a text without quotes can only mean."""
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    found = as_object((as_object(schema.get("$defs")) or {}).get(name)) or schema
    formats = ("date", "date-time", "time", "duration", "uuid")
    return "enum" in found or "const" in found or found.get("format") in formats


def _after_thoughts(text: str) -> Iterator[str]:
    """An answer without the thoughts before it, whose end their text or the answer may quote; none
    of thoughts without an end."""
    ends = [found.end() for found in _THOUGHT_END.finditer(text)]
    if ends:
        for end in dict.fromkeys((ends[0], ends[-1])):
            yield text[end:].strip()
    elif _THINKING.match(text) is None:
        yield text


def _find_values(text: str, *, words: bool) -> list[Any]:
    """The JSON values in a text: those in code fences, else objects and lists, else whole lines;
    with `words`, also the text itself."""
    fences = [found[2].strip() for found in _FENCE.finditer(text)]
    pieces = fences or [text]
    found = [value for piece in pieces for value in _scan(piece)]
    lines = [line for piece in pieces for line in piece.splitlines()[-_MAX_STARTS:]]
    found = found or [value for line in lines for value in _parse_line(line)]
    return [*pieces, *found] if words else found


def _parse_line(line: str) -> list[Any]:
    try:
        return [json.loads(line)]
    except (ValueError, RecursionError):
        return []


def _scan(text: str) -> Iterator[Any]:
    """The objects and lists in a text, none within another."""
    decoder = json.JSONDecoder()
    at = 0
    for _ in range(_MAX_STARTS):
        start = _BRACKET.search(text, at)
        if start is None:
            return
        begin = start.start() if start[0] == "{" else start.end()
        try:
            value, at = decoder.raw_decode(text, begin)
        except (ValueError, RecursionError):
            at = begin + 1
        else:
            yield value
