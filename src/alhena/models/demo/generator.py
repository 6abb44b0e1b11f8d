"""The demo model as a ContentGenerator: a pure function of the request."""

import zlib
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, cast

import msgspec

from alhena.models.demo.intents import HELP, Call, parse
from alhena.models.errors import RequestRejectedError
from alhena.models.select import DEMO
from alhena.wire.content import MODEL, Content, FunctionCall, FunctionResponse, Part
from alhena.wire.encode import EncodedContent
from alhena.wire.request import FunctionCallingMode, GenerateContentConfig, GenerateContentRequest
from alhena.wire.response import (
    Candidate,
    EmbedContentResponse,
    FinishReason,
    GenerateContentResponse,
    UsageMetadata,
)

NOTICE = "Demo mode: this answer comes from fixed rules, not a model."
COMPLETE_TASK = "complete_task"
SHOWN_LINES = 40
_BYTES_PER_TOKEN = 4
_CHUNKS = 8
_FEWEST_CHARACTERS_PER_CHUNK = 120


class DemoGenerator:
    """Carries out plain requests through the declared tools, one call a turn."""

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """The whole answer. Raises RequestRejectedError when JSON is asked for."""
        answer = _Answer(request)
        return answer.response(answer.parts, last=True)

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncIterator[GenerateContentResponse]:
        """The call in one chunk, or the text in a few. Raises RequestRejectedError when JSON is
        asked for."""
        answer = _Answer(request)
        chunks = list(answer.chunks())
        for number, parts in enumerate(chunks, 1):
            yield answer.response(parts, last=number == len(chunks))

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        """An estimate: a token for every four bytes of JSON."""
        del model
        return _tokens(sum(map(len, contents)))

    async def embed(
        self, contents: Sequence[EncodedContent], *, model: str
    ) -> EmbedContentResponse:
        """Always RequestRejectedError: there are no embeddings."""
        del contents, model
        raise _rejected("the demo model computes no embeddings.")

    async def aclose(self) -> None:
        """Nothing is held open."""


class _Answer:
    """The parts that answer a request: one call, or text."""

    def __init__(self, request: GenerateContentRequest) -> None:
        generation = request.config.generation_config
        if generation and (
            generation.response_mime_type == "application/json"
            or generation.response_schema is not None
            or generation.response_json_schema is not None
        ):
            raise _rejected("the demo model cannot answer in JSON.")
        self._request = request
        self._stamp = _stamp(request)
        answer = _next(request)
        if isinstance(answer, Call):
            call = FunctionCall(id=f"{DEMO}-{self._stamp}", name=answer.name, args=answer.args)
            self.parts = (Part(function_call=call),)
        else:
            self.parts = (Part(text=f"{NOTICE}\n\n{answer}"),)

    def chunks(self) -> Iterator[tuple[Part, ...]]:
        """The parts as they stream."""
        text = self.parts[0].text
        if text is None:
            yield self.parts
            return
        size = max(_FEWEST_CHARACTERS_PER_CHUNK, len(text) // _CHUNKS)
        for start in range(0, len(text), size):
            yield (Part(text=text[start : start + size]),)

    def response(self, parts: tuple[Part, ...], *, last: bool) -> GenerateContentResponse:
        """Parts of this answer as a response; the last one has the finish reason and the usage."""
        candidate = Candidate(
            content=Content(role=MODEL, parts=parts),
            finish_reason=FinishReason.STOP if last else None,
        )
        return GenerateContentResponse(
            candidates=(candidate,),
            usage_metadata=self._usage() if last else None,
            model_version=DEMO,
            response_id=f"{DEMO}-{self._stamp}",
        )

    def _usage(self) -> UsageMetadata:
        config = msgspec.json.encode(self._request.config)
        prompt = _tokens(sum(map(len, self._request.contents)) + len(config))
        said = _tokens(len(msgspec.json.encode(self.parts)))
        return UsageMetadata(
            prompt_token_count=prompt,
            candidates_token_count=said,
            total_token_count=prompt + said,
        )


def _next(request: GenerateContentRequest) -> Call | str:
    """The next call of the last prompt, or the report once all calls are answered."""
    prompt, responses = _conversation(request)
    tools = _declared(request.config)
    asked, unknown = parse(prompt)
    calls = [_typed(call, tools[call.name]) for call in asked if call.name in tools]
    missing = dict.fromkeys(call.name for call in asked if call.name not in tools)
    if len(responses) < len(calls):
        return calls[len(responses)]
    parts = [_told(call, response) for call, response in zip(calls, responses, strict=False)]
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        parts.append(f"Not available here: {names}.")
    if unknown:
        parts.append(f"No rule covers: {'; '.join(unknown)}\n\n{HELP}")
    report = "\n\n".join(parts) or HELP
    if COMPLETE_TASK in tools and len(responses) == len(calls):
        return Call(COMPLETE_TASK, _filled(tools[COMPLETE_TASK], f"{NOTICE}\n\n{report}"))
    return report


def _conversation(request: GenerateContentRequest) -> tuple[str, list[FunctionResponse]]:
    """The last prompt, and the responses to the calls since."""
    responses: list[FunctionResponse] = []
    for encoded in reversed(request.contents):
        content = encoded.content
        if content.role == MODEL:
            continue
        found = [part.function_response for part in content.parts if part.function_response]
        if not found:
            texts = (part.text for part in content.parts if part.text and not part.thought)
            return "\n\n".join(texts), responses
        responses = found + responses
    return "", responses


def _declared(config: GenerateContentConfig) -> dict[str, dict[str, Any]]:
    """The schemas of the tools that may be called, by name."""
    calling = config.tool_config.function_calling_config if config.tool_config else None
    if calling and calling.mode is FunctionCallingMode.NONE:
        return {}
    allowed = calling.allowed_function_names if calling else None
    return {
        declaration.name: declaration.parameters_json_schema or declaration.parameters or {}
        for tool in config.tools or ()
        for declaration in tool.function_declarations or ()
        if not allowed or declaration.name in allowed
    }


def _typed(call: Call, schema: dict[str, Any]) -> Call:
    """The call with its texts as values of the declared types, where they can be read so."""
    args = dict(call.args)
    for key, text in call.texts.items():
        args[key] = text
        if str(_properties(schema).get(key, {}).get("type", "string")).lower() != "string":
            try:
                args[key] = msgspec.json.decode(text)
            except msgspec.MsgspecError:
                continue
    return Call(call.name, args)


def _filled(schema: dict[str, Any], text: str) -> Any:
    """A value of this schema that says `text`: all required strings are it, arrays are empty."""
    match str(schema.get("type", "string")).lower():
        case "object":
            properties = _properties(schema)
            required = cast("list[str]", schema.get("required") or list(properties))
            return {name: _filled(properties.get(name, {}), text) for name in required}
        case "array":
            return []
        case _:
            return text


def _properties(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return cast("dict[str, dict[str, Any]]", schema.get("properties") or {})


def _told(call: Call, response: FunctionResponse) -> str:
    """A call and the beginning of its result."""
    body = response.response
    given = ", ".join(f"{key}={value!r}" for key, value in call.args.items())
    if "error" in body:
        return f"`{call.name}` failed ({given}): {_text(body['error'])}"
    lines = _text(body.get("output", body)).strip("\n").split("\n")
    more = len(lines) - SHOWN_LINES
    shown = "\n".join([*lines[:SHOWN_LINES], *([f"… {more} more lines"] if more > 0 else [])])
    return f"`{call.name}` ({given}):\n\n````\n{shown}\n````"


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode("utf-8")


def _rejected(problem: str) -> RequestRejectedError:
    return RequestRejectedError(problem, remedy="Set GEMINI_API_KEY to use a model.")


def _stamp(request: GenerateContentRequest) -> str:
    """A name for a request, by the number and the bytes of its contents."""
    checksum = 0
    for content in request.contents:
        checksum = zlib.crc32(bytes(content.raw), checksum)
    return f"{len(request.contents)}-{checksum:08x}"


def _tokens(size: int) -> int:
    return -(-size // _BYTES_PER_TOKEN)
