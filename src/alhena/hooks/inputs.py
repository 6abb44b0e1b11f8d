"""Builds the JSON input of hooks for each event, including requests and answers, and applies their
changes.

A message is the text of a content; contents without text are hidden, and stay where they are. The
shapes are checked when a hook's output is read (`hooks.output`).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from alhena.values import Value
from alhena.wire.content import MODEL, USER, Content, EncodedContent, Part, text_content
from alhena.wire.request import (
    FunctionCallingConfig,
    FunctionCallingMode,
    GenerateContentConfig,
    GenerateContentRequest,
    GenerationConfig,
    ToolConfig,
)
from alhena.wire.response import Candidate, GenerateContentResponse, UsageMetadata


class McpContext(Value, frozen=True, kw_only=True, omit_defaults=True):
    """The server of an MCP tool, without secrets. `tool_name` is the server's own name."""

    server_name: str
    tool_name: str
    command: str | None = None
    args: tuple[str, ...] | None = None
    cwd: str | None = None
    url: str | None = None
    tcp: str | None = None


def before_tool(
    tool_name: str,
    tool_input: Mapping[str, Any],
    *,
    mcp_context: McpContext | None = None,
    original_request_name: str | None = None,
) -> dict[str, Any]:
    """Input before a call runs. `original_request_name` is the model's call that a tail call
    replaced."""
    fields: dict[str, Any] = {"tool_name": tool_name, "tool_input": dict(tool_input)}
    if mcp_context is not None:
        fields["mcp_context"] = msgspec.to_builtins(mcp_context)
    if original_request_name is not None:
        fields["original_request_name"] = original_request_name
    return fields


def after_tool(
    before: Mapping[str, Any], llm_content: Any, return_display: Any, error: Any = None
) -> dict[str, Any]:
    """Input after a call ran. `before` is the input of BeforeTool with the final parameters;
    `error` is {message, type}, or None."""
    response = {"llmContent": llm_content, "returnDisplay": return_display, "error": error}
    return {**before, "tool_response": response}


def before_agent(prompt: str) -> dict[str, Any]:
    """Input for an accepted prompt."""
    return {"prompt": prompt}


def after_agent(prompt: str, prompt_response: str, *, stop_hook_active: bool) -> dict[str, Any]:
    """Input for an answered prompt. `stop_hook_active`: an AfterAgent hook has already made the
    agent continue, so that a hook can avoid an endless loop."""
    return {
        "prompt": prompt,
        "prompt_response": prompt_response,
        "stop_hook_active": stop_hook_active,
    }


def notification(message: str, details: Mapping[str, Any]) -> dict[str, Any]:
    """Input when a person is asked to approve a call; `details` is the encoded confirmation."""
    return {
        "notification_type": "ToolPermission",
        "message": message,
        "details": dict(details),
    }


def session_start(source: Literal["startup", "resume", "clear"]) -> dict[str, Any]:
    """Input at the start of a session."""
    return {"source": source}


def session_end(
    reason: Literal["exit", "clear", "logout", "prompt_input_exit", "other"],
) -> dict[str, Any]:
    """Input at the end of a session."""
    return {"reason": reason}


def pre_compress(trigger: Literal["manual", "auto"]) -> dict[str, Any]:
    """Input before the history is replaced by a summary."""
    return {"trigger": trigger}


def before_model(llm_request: Mapping[str, Any]) -> dict[str, Any]:
    """Input before a request is sent; also for BeforeToolSelection."""
    return {"llm_request": dict(llm_request)}


def after_model(llm_request: Mapping[str, Any], llm_response: Mapping[str, Any]) -> dict[str, Any]:
    """Input for a chunk of the answer, or the whole answer."""
    return {"llm_request": dict(llm_request), "llm_response": dict(llm_response)}


class _Shape(Value, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Absent fields are unspecified."""


class LlmMessage(_Shape, frozen=True, kw_only=True):
    """One message."""

    role: Literal["user", "model", "system"]
    content: str


class LlmConfig(_Shape, frozen=True, kw_only=True):
    """Generation settings."""

    temperature: float | None = None
    max_output_tokens: int | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: tuple[str, ...] | None = None
    candidate_count: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None


class LlmRequest(_Shape, frozen=True, kw_only=True):
    """`llm_request`."""

    model: str | None = None
    messages: tuple[LlmMessage, ...] | None = None
    config: LlmConfig | None = None

    def leaves_nothing(self) -> bool:
        """True when it sets messages, but none that the model could answer."""
        given = self.messages
        return given is not None and not any(
            each.content and each.role != "system" for each in given
        )


class LlmText(_Shape, frozen=True, kw_only=True):
    """A part as an object."""

    text: str


class LlmContent(_Shape, frozen=True, kw_only=True):
    """The content of a candidate."""

    role: str = MODEL
    parts: tuple[str | LlmText, ...] = ()


class LlmCandidate(_Shape, frozen=True, kw_only=True):
    """One answer."""

    content: LlmContent | None = None
    finish_reason: str | None = None
    index: int | None = None
    safety_ratings: list[Any] | None = None


class LlmUsage(_Shape, frozen=True, kw_only=True):
    """Token counts."""

    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    total_token_count: int | None = None


class LlmResponse(_Shape, frozen=True, kw_only=True):
    """`llm_response`."""

    text: str | None = None
    candidates: tuple[LlmCandidate, ...] | None = None
    usage_metadata: LlmUsage | None = None

    def answer_text(self) -> str | None:
        """The text of the first candidate, or else `text`; None without either."""
        if self.candidates and self.candidates[0].content is not None:
            parts = self.candidates[0].content.parts
            return "".join(part if isinstance(part, str) else part.text for part in parts)
        return self.text

    def finish_reason(self) -> str | None:
        """The finish reason of the first candidate."""
        return self.candidates[0].finish_reason if self.candidates else None


def request_for_hooks(request: GenerateContentRequest) -> dict[str, Any]:
    """Converts a request to `llm_request`."""
    given = request.config.generation_config or GenerationConfig()
    settings = {name: getattr(given, name) for name in LlmConfig.__struct_fields__}
    shown = LlmRequest(
        model=request.model,
        messages=tuple(message for _, message in _messages(request.contents)),
        config=LlmConfig(**settings),
    )
    return msgspec.to_builtins(shown)


def apply_request_changes(
    request: GenerateContentRequest, changes: dict[str, Any]
) -> GenerateContentRequest:
    """`request` with a hook's changes to its `llm_request`.

    If as many messages came back as were shown, the text of changed ones is replaced and their
    other parts stay; otherwise whole contents are replaced. Raises msgspec.ValidationError for
    another shape.
    """
    wanted = msgspec.convert(changes, LlmRequest)
    config = request.config
    if wanted.config is not None:
        set_values = {
            name: value
            for name in LlmConfig.__struct_fields__
            if (value := getattr(wanted.config, name)) is not None
        }
        base = config.generation_config or GenerationConfig()
        config = msgspec.structs.replace(
            config, generation_config=msgspec.structs.replace(base, **set_values)
        )
    contents = request.contents
    if wanted.messages is not None:
        system = [each.content for each in wanted.messages if each.role == "system"]
        if system:
            config = _with_instruction(config, system)
        spoken = [each for each in wanted.messages if each.role != "system"]
        contents = _merge_messages(contents, spoken)
    return msgspec.structs.replace(
        request, model=wanted.model or request.model, config=config, contents=contents
    )


def with_tool_choice(
    request: GenerateContentRequest, choice: dict[str, Any]
) -> tuple[GenerateContentRequest, tuple[str, ...]]:
    """`request` with a hook's `toolConfig`, and its ineffective names.

    Names require ANY: unknown tools are dropped, and if none remains, calls are disabled.
    """
    declared = request.config.function_names()
    if not declared:
        return request, ()
    mode = FunctionCallingMode(choice.get("mode") or FunctionCallingMode.AUTO)
    named: list[str] = choice.get("allowedFunctionNames") or []
    allowed = tuple(name for name in named if name in declared)
    if mode is not FunctionCallingMode.ANY:
        allowed = ()
    elif named and not allowed:
        mode = FunctionCallingMode.NONE
    calling = FunctionCallingConfig(
        mode=mode,
        allowed_function_names=allowed
        if allowed and mode is not FunctionCallingMode.NONE
        else None,
    )
    config = msgspec.structs.replace(
        request.config, tool_config=ToolConfig(function_calling_config=calling)
    )
    unused = tuple(name for name in named if name not in allowed)
    return msgspec.structs.replace(request, config=config), unused


def response_for_hooks(chunks: Sequence[GenerateContentResponse]) -> dict[str, Any]:
    """Converts an answer in chunks to `llm_response`: its text, without thoughts and calls."""
    texts = [
        part.text for chunk in chunks for part in chunk.parts if part.text and not part.thought
    ]
    last = next((chunk for chunk in reversed(chunks) if chunk.candidates), None)
    usage = next((each.usage_metadata for each in reversed(chunks) if each.usage_metadata), None)
    counts = usage or UsageMetadata()
    shown = LlmResponse(
        text="".join(texts),
        candidates=(
            LlmCandidate(
                content=LlmContent(role=MODEL, parts=tuple(texts)),
                finish_reason=last.finish_reason if last else None,
                index=0,
                safety_ratings=last.candidates[0].safety_ratings if last else None,
            ),
        ),
        usage_metadata=LlmUsage(
            prompt_token_count=counts.prompt_token_count,
            candidates_token_count=counts.candidates_token_count,
            total_token_count=counts.total_token_count,
        ),
    )
    found = msgspec.to_builtins(shown)
    found["candidates"][0]["content"].setdefault("role", MODEL)
    return found


def synthetic_response(answer: dict[str, Any]) -> GenerateContentResponse:
    """The answer of a hook in place of the model's. Raises msgspec.ValidationError."""
    given = msgspec.convert(answer, LlmResponse)
    text = given.answer_text() or ""
    counts = given.usage_metadata or LlmUsage()
    return GenerateContentResponse(
        candidates=(
            Candidate(
                content=text_content(MODEL, text), finish_reason=given.finish_reason() or "STOP"
            ),
        ),
        usage_metadata=UsageMetadata(
            prompt_token_count=counts.prompt_token_count or 0,
            candidates_token_count=counts.candidates_token_count or 0,
            total_token_count=counts.total_token_count or 0,
        ),
    )


def apply_response_changes(
    chunks: Sequence[GenerateContentResponse], answer: dict[str, Any]
) -> list[GenerateContentResponse]:
    """An answer with its text replaced by a hook; thoughts, calls and signatures stay. Raises
    msgspec.ValidationError."""
    given = msgspec.convert(answer, LlmResponse)
    text, found = given.answer_text(), list(chunks)
    if text is not None:
        placed = False
        for index, chunk in enumerate(found):
            parts: list[Part] = []
            for part in chunk.parts:
                if part.text is None or part.thought:
                    parts.append(part)
                elif not placed:
                    placed = True
                    parts.append(msgspec.structs.replace(part, text=text))
                elif part.thought_signature:
                    parts.append(msgspec.structs.replace(part, text=""))
            found[index] = _with_parts(chunk, tuple(parts))
        if not placed and text:
            first = GenerateContentResponse(
                candidates=(Candidate(content=text_content(MODEL, text)),)
            )
            found.insert(0, first)
    reason = given.finish_reason()
    if reason is not None and found and found[-1].candidates:
        last = msgspec.structs.replace(found[-1].candidates[0], finish_reason=reason)
        found[-1] = msgspec.structs.replace(found[-1], candidates=(last,))
    return found


def _with_parts(chunk: GenerateContentResponse, parts: tuple[Part, ...]) -> GenerateContentResponse:
    if parts == chunk.parts:
        return chunk
    first = chunk.candidates[0]
    content = msgspec.structs.replace(first.content or Content(role=MODEL), parts=parts)
    candidate = msgspec.structs.replace(first, content=content)
    return msgspec.structs.replace(chunk, candidates=(candidate, *chunk.candidates[1:]))


def _messages(contents: Sequence[EncodedContent]) -> list[tuple[int, LlmMessage]]:
    """The visible messages of contents, each with its index."""
    found: list[tuple[int, LlmMessage]] = []
    for index, entry in enumerate(contents):
        content = entry.content
        text = "".join(part.text for part in content.parts if part.text and not part.thought)
        if text:
            role = MODEL if content.role == MODEL else USER
            found.append((index, LlmMessage(role=role, content=text)))
    return found


def _merge_messages(
    contents: tuple[EncodedContent, ...], wanted: Sequence[LlmMessage]
) -> tuple[EncodedContent, ...]:
    """`contents` with these messages; equal ones at both ends are unchanged."""
    shown = _messages(contents)
    start = 0
    while start < min(len(shown), len(wanted)) and shown[start][1] == wanted[start]:
        start += 1
    left, right = len(shown), len(wanted)
    while left > start and right > start and shown[left - 1][1] == wanted[right - 1]:
        left, right = left - 1, right - 1
    old, new = shown[start:left], wanted[start:right]
    if len(old) == len(new) and all(
        was.role == now.role for (_, was), now in zip(old, new, strict=True)
    ):
        edited = list(contents)
        for (index, _), now in zip(old, new, strict=True):
            edited[index] = _with_text(contents[index].content, now.content)
        return tuple(edited)
    begin = old[0][0] if old else shown[left][0] if left < len(shown) else len(contents)
    end = old[-1][0] + 1 if old else begin
    between = tuple(EncodedContent(text_content(each.role, each.content)) for each in new)
    return (*contents[:begin], *between, *contents[end:])


def _with_text(content: Content, text: str) -> EncodedContent:
    """A content with its texts replaced by this text."""
    parts: list[Part] = []
    placed = False
    for part in content.parts:
        if not part.text or part.thought:
            parts.append(part)
        elif not placed:
            placed = True
            parts.append(msgspec.structs.replace(part, text=text))
    return EncodedContent(msgspec.structs.replace(content, parts=tuple(parts)))


def _with_instruction(config: GenerateContentConfig, texts: list[str]) -> GenerateContentConfig:
    """`config` with these texts appended to its system instruction."""
    given = config.system_instruction
    before = () if given is None else given.parts
    parts = (*before, *(Part(text=text) for text in texts))
    return msgspec.structs.replace(config, system_instruction=Content(role=USER, parts=parts))
