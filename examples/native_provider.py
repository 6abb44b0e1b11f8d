"""Native tool calls for an editor that keeps its history in Anthropic's form.

Reads a file by a tool: `python examples/native_provider.py "What does config.json say?"`, with
GEMINI_API_KEY set."""

import asyncio
import os
import secrets
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from alhena.gateway.upstream import sendable
from alhena.models.generator import ContentGenerator
from alhena.models.providers.select import ModelChoice, choose_generator
from alhena.wire.content import CallIds, FunctionCall, Part
from alhena.wire.dialects.anthropic.reading import read_request
from alhena.wire.dialects.anthropic.response import blocks_of
from alhena.wire.dialects.conversation import DialectRequest, NewId, ToolNameMap, unique_id
from alhena.wire.dialects.fields import DialectError, Fields, read_arguments, write_arguments
from alhena.wire.dialects.tool_forms import declare_tool
from alhena.wire.request import (
    FunctionCallingConfig,
    FunctionCallingMode,
    GenerationConfig,
    ToolConfig,
    ToolDeclarations,
)
from alhena.wire.response import GenerateContentResponse, UsageMetadata


class _Chunk(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", rename="camel"):
    """Base of what a provider's stream yields; `msgspec.to_builtins` gives the plain objects."""


class TextChunk(_Chunk, frozen=True, tag="text"):
    """Text of the answer. A signature belongs to exactly this text."""

    text: str
    signature: str | None = None


class ReasoningChunk(_Chunk, frozen=True, tag="reasoning"):
    """Text of a thought."""

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
    tools: Sequence[Mapping[str, Any]] = (),
    mode: FunctionCallingMode | None = None,
    generation: GenerationConfig | None = None,
) -> DialectRequest:
    """A request from a history in Anthropic's form and tools in OpenAI's.

    `mode` ANY forces a tool call in each answer, so that the model never finishes with text; None
    leaves the choice to the model.
    """
    read = read_request({"model": model, "system": system, "messages": list(messages)})
    functions = [
        Fields(tool.get("function"), f"tools[{at}].function") for at, tool in enumerate(tools)
    ]
    made = tuple(declare_tool(each, read.names) for each in functions)
    declared = (ToolDeclarations(function_declarations=made),) if made else None
    calling = FunctionCallingConfig(mode=mode)
    config = msgspec.structs.replace(
        read.config,
        tools=declared,
        tool_config=ToolConfig(function_calling_config=calling) if mode and declared else None,
        generation_config=generation,
    )
    return msgspec.structs.replace(read, config=config)


class NativeProvider:
    """Streams answers of any generator. The ids it makes for calls are unique across sessions when
    `token` is random."""

    def __init__(self, generator: ContentGenerator, *, token: str) -> None:
        self._generator = generator
        self._ids = CallIds(token)

    async def create_message(self, request: DialectRequest) -> AsyncIterator[ProviderChunk]:
        """The answer to a request of `native_request`, chunk by chunk. Closing the iterator closes
        the answer."""
        answer = self._generator.stream(sendable(request, model=request.model))
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


READ_FILE = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Reads a text file.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"],
        },
    },
}


def run(call: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a read_file call."""
    try:
        content, failed = Path(call["params"]["path"]).read_text(encoding="utf-8"), False
    except (KeyError, OSError, ValueError) as error:
        content, failed = str(error), True
    return {"tool_use_id": call["id"], "content": content, "is_error": failed}


async def converse(prompt: str) -> list[dict[str, Any]]:
    """The history of one prompt: every answer is kept whole, every call gets its result."""
    chosen = choose_generator(ModelChoice(model="gemini-3.8-flash", environ=os.environ))
    provider = NativeProvider(chosen.generator, token=secrets.token_hex(4))
    history: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
    while True:
        parser = AssistantMessageParser()
        request = native_request(
            model=chosen.model, system="Be brief.", messages=history, tools=[READ_FILE]
        )
        async for chunk in provider.create_message(request):
            parser.feed(chunk)
        parser.finish()
        history.append(parser.message)
        calls = [block for block in parser.content_blocks if block["type"] == "tool_use"]
        if not calls:
            break
        history.append(tool_results([run(call) for call in calls]))
    await chosen.generator.aclose()
    return history


if __name__ == "__main__":
    for message in asyncio.run(converse(" ".join(sys.argv[1:]) or "What does README.md say?")):
        print(message)
