"""Native tool calls for programs with a loop of their own, which keep their history in Anthropic's
form and have tools in OpenAI's.

    async with NativeProvider("gemini-3.8-flash") as provider:
        parser = AssistantMessageParser()
        async for chunk in provider.create_message("Be brief.", history, tools=tools):
            parser.feed(chunk)
        parser.finish()
        history.append(parser.message)
        calls = [block for block in parser.content_blocks if block["type"] == "tool_use"]
        history.append(tool_results([run(call) for call in calls]))

Any model of alhena answers; the dialects convert the history.
"""

import os
import secrets
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any, Self

import msgspec

from alhena.errors import ConfigError
from alhena.models.combined import name_of, require_model
from alhena.models.dialect_requests import sendable
from alhena.models.generator import ContentGenerator
from alhena.wire.content import CallIds, FunctionCall, Part
from alhena.wire.dialects.anthropic.reading import read_request
from alhena.wire.dialects.anthropic.response import blocks_of
from alhena.wire.dialects.conversation import DialectRequest, NewId, ToolNameMap, unique_id
from alhena.wire.dialects.fields import DialectError, Fields, read_arguments, write_arguments
from alhena.wire.dialects.tool_forms import declare_tool
from alhena.wire.request import (
    FunctionCallingConfig,
    FunctionCallingMode,
    ToolConfig,
    ToolDeclarations,
)
from alhena.wire.response import GenerateContentResponse, UsageMetadata

__all__ = [
    "AssistantMessageParser",
    "NativeFunction",
    "NativeProvider",
    "NativeToolCall",
    "NativeToolCallsChunk",
    "ProviderChunk",
    "ReasoningChunk",
    "TextChunk",
    "UsageChunk",
    "tool_results",
]


class _ProviderChunk(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", rename="camel"):
    """Base of what a provider's stream yields; `msgspec.to_builtins` gives the plain objects."""


class TextChunk(_ProviderChunk, frozen=True, tag="text"):
    """Text of the answer. A signature belongs to exactly this text."""

    text: str
    signature: str | None = None


class ReasoningChunk(_ProviderChunk, frozen=True, tag="reasoning"):
    """Text of a thought."""

    text: str


class UsageChunk(_ProviderChunk, frozen=True, tag="usage"):
    """Token counts of the answer so far."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0


class NativeFunction(msgspec.Struct, frozen=True, kw_only=True):
    """The function of a call; `arguments` is JSON text."""

    name: str
    arguments: str


class NativeToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call. `signature` is the model's, to be sent back with it."""

    id: str
    type: str = "function"
    function: NativeFunction
    signature: str | None = None


class NativeToolCallsChunk(_ProviderChunk, frozen=True, tag="native_tool_calls"):
    """Calls that came together."""

    tool_calls: tuple[NativeToolCall, ...]


ProviderChunk = TextChunk | ReasoningChunk | UsageChunk | NativeToolCallsChunk


def provider_chunks(
    response: GenerateContentResponse,
    *,
    names: ToolNameMap,
    new_id: NewId,
    taken: set[str] | None = None,
) -> list[ProviderChunk]:
    """Converts one chunk of an answer. A call without an id, or with the id of another call of the
    answer, gets one here, once; the same id appears wherever the call appears later.

    `taken`: ids of the calls in earlier chunks; the ids of this one are added.
    """
    taken = set[str]() if taken is None else taken
    chunks: list[ProviderChunk] = []
    calls: list[NativeToolCall] = []
    for part in response.parts:
        call = part.function_call
        if call is not None:
            name, arguments = names.original(call.name), write_arguments(call.args)
            function = NativeFunction(name=name, arguments=arguments)
            made = unique_id(call, new_id, taken)
            calls.append(
                NativeToolCall(id=made, function=function, signature=part.thought_signature)
            )
            continue
        if calls:
            chunks.append(NativeToolCallsChunk(tool_calls=tuple(calls)))
            calls = []
        if part.thought:
            chunks += [ReasoningChunk(text=part.text)] if part.text else []
        elif part.text or part.thought_signature:
            chunks.append(TextChunk(text=part.text or "", signature=part.thought_signature))
    if calls:
        chunks.append(NativeToolCallsChunk(tool_calls=tuple(calls)))
    if response.usage_metadata is not None:
        chunks.append(_usage(response.usage_metadata))
    return chunks


def _usage(usage: UsageMetadata) -> UsageChunk:
    return UsageChunk(
        input_tokens=usage.prompt_token_count + usage.tool_use_prompt_token_count,
        output_tokens=usage.candidates_token_count + usage.thoughts_token_count,
        cache_read_tokens=usage.cached_content_token_count,
    )


class AssistantMessageParser:
    """Chunks in, content blocks out: `{type: "text", content, partial}` and `{type: "tool_use", id,
    name, params, partial: false}`, in the order in which they came."""

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._finished = False

    def feed(self, chunk: ProviderChunk) -> None:
        """One more chunk. Raises DialectError for a call whose arguments are no JSON object."""
        match chunk:
            case TextChunk():
                self._text(chunk)
            case NativeToolCallsChunk():
                self.process_native_tool_calls(chunk.tool_calls)
            case ReasoningChunk() | UsageChunk():
                pass

    def process_native_tool_calls(self, calls: Iterable[NativeToolCall]) -> None:
        """Adds calls; none of them when one cannot be read."""
        made: list[Part] = []
        for call in calls:
            args = read_arguments(call.function.arguments)
            if args is None:
                raise DialectError(
                    f"the arguments of the call to {call.function.name} are no JSON object.",
                    f"tool_calls[{len(made)}].function.arguments",
                )
            function = FunctionCall(id=call.id, name=call.function.name, args=args)
            made.append(Part(function_call=function, thought_signature=call.signature))
        self._parts += made

    def finish(self) -> None:
        """The stream is at its end: no text is partial any more."""
        self._finished = True

    @property
    def content_blocks(self) -> list[dict[str, Any]]:
        """The blocks an editor shows and acts on."""
        blocks: list[dict[str, Any]] = []
        for at, part in enumerate(self._parts):
            call = part.function_call
            if call is not None:
                block = {"type": "tool_use", "id": call.id, "name": call.name}
                blocks.append({**block, "params": call.args or {}, "partial": False})
            elif part.text:
                partial = not self._finished and at == len(self._parts) - 1
                blocks.append({"type": "text", "content": part.text, "partial": partial})
        return blocks

    @property
    def message(self) -> dict[str, Any]:
        """The whole answer, calls included, for the history, in Anthropic's form."""
        content = blocks_of(self._parts, ToolNameMap(), _no_id)
        return {"role": "assistant", "content": content or [{"type": "text", "text": ""}]}

    def _text(self, chunk: TextChunk) -> None:
        last = self._parts[-1] if self._parts else None
        joins = last is not None and last.text is not None and not last.thought_signature
        if joins and last is not None and not chunk.signature:
            self._parts[-1] = Part(text=f"{last.text}{chunk.text}")
        else:
            self._parts.append(Part(text=chunk.text, thought_signature=chunk.signature))


def _no_id(name: str) -> str:
    raise DialectError(f"the call to {name} has no id.")


def tool_results(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The message that gives results back: `{tool_use_id, content, is_error}` each."""
    return {"role": "user", "content": [{"type": "tool_result", **result} for result in results]}


def native_request(
    *,
    model: str,
    system: str,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None = (),
    mode: FunctionCallingMode | None = None,
    allowed_tools: Sequence[str] | None = None,
) -> DialectRequest:
    """A request from a history in Anthropic's form and tools in OpenAI's.

    `mode` ANY forces a tool call in each answer, so that the model never finishes with text; None
    leaves the choice to the model. `allowed_tools`: the only ones of the tools to call, by name.
    """
    read = read_request({"model": model, "system": system, "messages": list(messages)})
    functions = [
        Fields(tool.get("function"), f"tools[{at}].function") for at, tool in enumerate(tools or ())
    ]
    made = tuple(declare_tool(each, read.names) for each in functions)
    _require_names([each.required_text("name") for each in functions], allowed_tools)
    declared = (ToolDeclarations(function_declarations=made),) if made else None
    forced = mode is FunctionCallingMode.ANY
    if allowed_tools is not None and not forced:
        declared = _only(declared, {read.names.wire(name) for name in allowed_tools})
    config = msgspec.structs.replace(read.config, tools=declared)
    if declared and mode is not None:
        only = tuple(map(read.names.wire, allowed_tools or ())) if forced else ()
        calling = FunctionCallingConfig(mode=mode, allowed_function_names=only or None)
        config = msgspec.structs.replace(
            config, tool_config=ToolConfig(function_calling_config=calling)
        )
    return msgspec.structs.replace(read, config=config)


def _require_names(names: Sequence[str], allowed: Sequence[str] | None) -> None:
    """Raises DialectError for two tools of one name, and for one to call that is not there."""
    twice = next((at for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise DialectError(
            f"tools[{twice}].function.name: there is a tool {names[twice]!r} already"
        )
    absent = next((name for name in allowed or () if name not in names), None)
    if absent is not None:
        raise DialectError(f"there is no tool {absent!r}", "allowed_tools")


def _only(
    declared: tuple[ToolDeclarations, ...] | None, names: set[str]
) -> tuple[ToolDeclarations, ...] | None:
    """The declarations of these names; None for none."""
    kept = tuple(
        each
        for tool in declared or ()
        for each in tool.function_declarations or ()
        if each.name in names
    )
    return (ToolDeclarations(function_declarations=kept),) if kept else None


def _mode_of(mode: str | None) -> FunctionCallingMode | None:
    try:
        return None if mode is None else FunctionCallingMode(mode)
    except ValueError:
        known = ", ".join(FunctionCallingMode)
        raise ConfigError(
            f"mode cannot be {mode!r:.60}.", remedy=f"It is one of {known}."
        ) from None


class NativeProvider:
    """Streams answers of a model: its name, or an object of `alhena.models`, which whoever made it
    closes. `mode` is "AUTO", "ANY" (each answer has to call a tool), "NONE" or "VALIDATED"; None
    leaves it to the service."""

    def __init__(self, model: str | ContentGenerator, *, mode: str | None = None) -> None:
        self._mode = _mode_of(mode)
        self._ids = CallIds(secrets.token_hex(4))
        self._owned = isinstance(model, str)
        if isinstance(model, str):
            self._model, self.name = _open_model(model)
        else:
            self._model, self.name = require_model("model", model), name_of(model) or "model"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Closes the connections of a model that was given by its name."""
        await self.aclose()

    async def aclose(self) -> None:
        """As leaving the block does."""
        if self._owned:
            await self._model.aclose()

    async def create_message(
        self,
        system: str,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = (),
        *,
        allowed_tools: Sequence[str] | None = None,
        mode: str | None = None,
    ) -> AsyncGenerator[ProviderChunk, None]:
        """The answer to a conversation, chunk by chunk. Closing the iterator closes the answer.

        Args:
            system: the system prompt.
            messages: the conversation in Anthropic's form; `AssistantMessageParser.message` and
                `tool_results` give its messages.
            tools: in OpenAI's form.
            allowed_tools: the names of the only tools to call.
            mode: instead of that of the provider.

        Raises DialectError for what cannot be converted, and ModelError.
        """
        request = native_request(
            model=self.name,
            system=system,
            messages=messages,
            tools=tools,
            mode=self._mode if mode is None else _mode_of(mode),
            allowed_tools=allowed_tools,
        )
        answer = self._model.stream(sendable(request, model=self.name))
        taken: set[str] = set()
        try:
            async for response in answer:
                for chunk in provider_chunks(
                    response, names=request.names, new_id=self._ids.next, taken=taken
                ):
                    yield chunk
        finally:
            if isinstance(answer, AsyncGenerator):
                await answer.aclose()


def _open_model(written: str) -> tuple[ContentGenerator, str]:
    """The model of a name, with the credentials of the environment. Raises ConfigError,
    CredentialsError."""
    from alhena.config.settings import AuthSettings, SecuritySettings, Settings
    from alhena.models.catalogue import resolved_name, service_of
    from alhena.models.providers.select import AuthType, ModelChoice, choose_generator
    from alhena.models.retry import RetryPolicy

    service, name = service_of(written)
    kind = {"gemini": AuthType.API_KEY, "vertex": AuthType.VERTEX}.get(service)
    auth = AuthSettings(selected_type=None if kind is None else str(kind))
    choice = ModelChoice(
        model=resolved_name(name),
        environ=os.environ,
        settings=Settings(security=SecuritySettings(auth=auth)),
        retry=RetryPolicy(),
    )
    chosen = choose_generator(choice)
    return chosen.generator, chosen.model
