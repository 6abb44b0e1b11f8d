"""The value that a prompt or a subagent has to end with: its schema, its check, its corrections."""

import json
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from alhena.chat.chat import Chat
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

FINAL = "final_answer"
"""Name of the tool by which a model gives the value that a prompt asks for."""

_ACCEPTED = "The answer was taken."


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


class FinalAnswer:
    """`read` makes the value of the JSON that the model gives for `schema`, or raises ValueError
    with the reason, which the model gets at most `corrections` times. `name` and `description` are
    those of the tool by which it gives the value. With `only_by_tool` it has to be a call,
    and an answer as text ends the prompt without a value.

    With `by_form` the value is text in the form of the schema, also where there are tools: the
    first text that is no value has the model asked for it once more, then without the tools."""

    def __init__(
        self,
        schema: dict[str, Any],
        read: Callable[[Any], Any],
        corrections: int,
        *,
        name: str = FINAL,
        description: str = "Ends the work with its result. Call it once, when everything is done.",
        only_by_tool: bool = False,
    ) -> None:
        self.name = name
        self._description = description
        self._asks_again = not only_by_tool
        self._wrapped = schema.get("type") != "object"
        if self._wrapped:
            rest = {key: value for key, value in schema.items() if key != "$defs"}
            named = {"$defs": schema["$defs"]} if "$defs" in schema else {}
            schema = {"type": "object", "properties": {"value": rest}, "required": ["value"]}
            schema |= named
        self._schema = schema
        self._read = read
        self._left = corrections
        self._reasons: list[str] = []
        self._text = ""
        self.by_tool = only_by_tool
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
        if not self.by_tool:
            wanted = replace(
                config.generation_config or GenerationConfig(),
                response_mime_type="application/json",
                response_json_schema=self._schema,
            )
            return replace(config, generation_config=wanted)
        declaration = FunctionDeclaration(
            name=self.name,
            description=self._description,
            parameters_json_schema=self._schema,
        )
        *others, last = config.tools or (ToolDeclarations(),)
        kept = (each for each in last.function_declarations or () if each.name != self.name)
        declared = (*kept, declaration)
        return replace(config, tools=(*others, replace(last, function_declarations=declared)))

    def ask_by_tool(self, *, always: bool, by_form: bool = False) -> None:
        """Asks for the value by a tool: `always`, or where there are tools; or never, where
        `by_form` is set and the value may be text."""
        self.by_form = by_form and self._asks_again
        self.by_tool = always and not self.by_form

    @property
    def over(self) -> bool:
        """True when there is a value, or no further correction is allowed."""
        return self.given or self.error is not None

    def finish(self, chat: Chat) -> None:
        """Ends the conversation with the value. Raises OutputError."""
        if self.error is not None:
            raise self.error
        chat.history.add_model(text_content(MODEL, self._text))

    def read_text(self, text: str) -> Part | None:
        """Takes an answer as text; returns what to tell the model if it is not valid. Raises
        OutputError."""
        if self.by_tool:
            if not self._asks_again:
                return None
            reason = f"Give the answer by calling {self.name}, not as text."
        else:
            try:
                data = json.loads(text)
            except ValueError as error:
                reason = f"it is not JSON: {error}"
            else:
                reason = self._read_value(data)
        if not reason:
            return None
        if self.by_form and not self._formal:
            self._formal = True
            return Part(text="Now give the answer as one JSON value of the form that is asked for.")
        self._refuse(text, reason)
        if self.error is not None:
            raise self.error
        return Part(text=f"The answer is not valid. {reason} Answer again.")

    def read_call(self, call: ToolCallRequestInfo) -> tuple[Part, ToolCallResponseEvent]:
        """Takes a call of the tool; returns its response and its event. Sets `error` when no
        further correction is allowed."""
        reason = "An answer was given already." if self.given else self._read_value(call.args)
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

    def _read_value(self, data: Any) -> str:
        """Reads a value; returns the reason why it is none."""
        try:
            if self._wrapped:
                whole = as_object(data)
                if whole is None or "value" not in whole:
                    return 'It has to be an object with the field "value".'
                data = whole["value"]
            self.value = self._read(data)
        except ValueError as error:
            return f"{str(error).rstrip('.')}."
        self.given = True
        return ""

    def _refuse(self, text: str, reason: str) -> None:
        self._reasons.append(reason)
        if self._left <= 0:
            self.error = OutputError(text, tuple(self._reasons))
        self._left -= 1
