"""The provider flow: what a stream of Gemini's yields to an editor that keeps its history in
Anthropic's form, and how that history is kept whole."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from alhena.wire.content import FunctionCall, Part
from alhena.wire.dialects.anthropic.blocks import blocks_of
from alhena.wire.dialects.anthropic.reading import read_request
from alhena.wire.dialects.arguments import read_arguments, write_arguments
from alhena.wire.dialects.conversation import DialectRequest, NewId, unique_id
from alhena.wire.dialects.errors import DialectError
from alhena.wire.dialects.fields import Fields
from alhena.wire.dialects.names import ToolNames
from alhena.wire.dialects.openai.settings import read_tools
from alhena.wire.request import (
    FunctionCallingConfig,
    FunctionCallingMode,
    GenerationConfig,
    ToolConfig,
)
from alhena.wire.response import GenerateContentResponse, UsageMetadata


class _Chunk(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", rename="camel"):
    """Base of what a provider's stream yields; `msgspec.to_builtins` gives the plain objects."""


class TextChunk(_Chunk, frozen=True, tag="text"):
    """Words of the answer. A signature belongs to exactly these words."""

    text: str
    signature: str | None = None


class ReasoningChunk(_Chunk, frozen=True, tag="reasoning"):
    """Words of a thought."""

    text: str


class UsageChunk(_Chunk, frozen=True, tag="usage"):
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


class NativeToolCallsChunk(_Chunk, frozen=True, tag="native_tool_calls"):
    """Calls that came together."""

    tool_calls: tuple[NativeToolCall, ...]


ProviderChunk = TextChunk | ReasoningChunk | UsageChunk | NativeToolCallsChunk


def provider_chunks(
    response: GenerateContentResponse,
    *,
    names: ToolNames,
    new_id: NewId,
    taken: set[str] | None = None,
) -> list[ProviderChunk]:
    """What one chunk of an answer yields. A call without an id, or with that of another call of the
    answer, gets one here, once: it is the same wherever the call appears from then on (NATIVE-01).

    `taken` are the ids of the calls in the chunks before, to which those of this one are added.
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
        """What an editor shows and acts on."""
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
        """The whole answer as it enters the history, in Anthropic's form."""
        content = blocks_of(self._parts, ToolNames(), _no_id)
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
    tools: Sequence[Mapping[str, Any]] = (),
    mode: FunctionCallingMode | None = None,
    generation: GenerationConfig | None = None,
) -> DialectRequest:
    """A request from a history in Anthropic's form and tools in OpenAI's (NATIVE-02).

    `mode` ANY forces a tool in each answer; None leaves the choice to the model.
    """
    read = read_request({"model": model, "system": system, "messages": list(messages)})
    declared = read_tools(Fields({"tools": list(tools)}), read.names)
    calling = FunctionCallingConfig(mode=mode)
    config = msgspec.structs.replace(
        read.config,
        tools=declared,
        tool_config=ToolConfig(function_calling_config=calling) if mode and declared else None,
        generation_config=generation,
    )
    return msgspec.structs.replace(read, config=config)
