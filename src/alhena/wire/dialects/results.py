"""Tool results, and parts without an equivalent in another dialect, as text.

The response has `output`, or `error` when the tool failed. If media are between texts, a line
`[media 1]` marks the position of each; lines of the text itself that look like a mark get another
pair of brackets.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from alhena.values import Value
from alhena.wire.content import (
    USER,
    Content,
    FunctionResponse,
    FunctionResponsePart,
    Part,
    encode_value,
    media_label,
)
from alhena.wire.dialects.conversation import answer_schema
from alhena.wire.dialects.fields import DialectError, Fields, word
from alhena.wire.json_values import as_array, as_object
from alhena.wire.request import GenerateContentConfig, GenerationConfig, ToolDeclarations
from alhena.wire.response import GenerateContentResponse

Piece = str | FunctionResponsePart

_MARK = re.compile(r"^\[media ([1-9][0-9]*)\]$", re.MULTILINE)
_LIKE_MARK = re.compile(r"^\[+media [1-9][0-9]*\]+$", re.MULTILINE)
_ESCAPED = re.compile(r"^\[(\[+media [1-9][0-9]*\]+)\]$", re.MULTILINE)


def to_response(
    pieces: Iterable[Piece], *, failed: bool
) -> tuple[dict[str, Any], tuple[FunctionResponsePart, ...]]:
    """The response object and the media of a result. Adjacent texts are joined by a line break;
    media after all text need no mark."""
    items = list(pieces)
    if not all(isinstance(item, str) for item in items):
        items = [_LIKE_MARK.sub(r"[\g<0>]", i) if isinstance(i, str) else i for i in items]
    last_text = max((at for at, item in enumerate(items) if isinstance(item, str)), default=-1)
    lines: list[str] = []
    media: list[FunctionResponsePart] = []
    for at, item in enumerate(items):
        if isinstance(item, str):
            lines.append(item)
            continue
        media.append(item)
        if at < last_text:
            lines.append(f"[media {len(media)}]")
    return {"error" if failed else "output": "\n".join(lines)}, tuple(media)


def from_response(answer: FunctionResponse) -> tuple[list[Piece], bool]:
    """The pieces of a result in order, and True for a failure. Empty texts are dropped unless
    nothing else is left."""
    text = _text(answer.response)
    media = list(answer.parts or ())
    pieces: list[Piece] = []
    start = 0
    for number, mark in enumerate(_marks(text, len(media))):
        before = _own(text[start : mark.start()].removesuffix("\n"))
        if before:
            pieces.append(before)
        pieces.append(media[number])
        start = mark.end() + 1
    placed = sum(not isinstance(piece, str) for piece in pieces)
    if start < len(text) or not media:
        pieces.append(_own(text[start:]) if media else text[start:])
    pieces += media[placed:]
    return pieces, "error" in answer.response


def _own(text: str) -> str:
    """The tool's own text; removes the extra brackets of lines that look like marks."""
    return _ESCAPED.sub(r"\g<1>", text)


def _marks(text: str, count: int) -> list["re.Match[str]"]:
    """The marks in a text; none unless they match `count` media."""
    found = list(_MARK.finditer(text)) if count else []
    numbers = [int(mark[1]) for mark in found]
    return found if numbers == list(range(1, len(found) + 1)) and len(found) <= count else []


def _text(response: dict[str, Any]) -> str:
    """The text of a response object; other forms are encoded as JSON."""
    for key in ("error", "output"):
        value = response.get(key)
        if len(response) == 1 and isinstance(value, str):
            return value
    return encode_value(response).decode() if response else ""


def beside_results(contents: Sequence[Content]) -> tuple[Content, ...]:
    """The contents with media moved after all results of their content, as models before Gemini 3
    require (F13); a line names their call."""
    return tuple(map(_move_media, contents))


def _move_media(content: Content) -> Content:
    if not any(part.function_response and part.function_response.parts for part in content.parts):
        return content
    answers: list[Part] = []
    behind: list[Part] = []
    for part in content.parts:
        answer = part.function_response
        if answer is None:
            behind.append(part)
            continue
        media = answer.parts or ()
        answers.append(Part(function_response=msgspec.structs.replace(answer, parts=None)))
        if media:
            behind.append(Part(text=media_label(answer)))
        behind += [Part(inline_data=one.inline_data, file_data=one.file_data) for one in media]
    return Content(role=content.role, parts=(*answers, *behind))


def words_for(part: Part) -> str:
    """The text of a part, or a description of other content. Calls and responses have none."""
    if part.text is not None:
        return part.text
    if part.executable_code is not None:
        code = part.executable_code
        return f"\n```{code.language.lower()}\n{code.code}\n```\n"
    if part.code_execution_result is not None:
        result = part.code_execution_result
        return f"\n```\n{result.output or result.outcome}\n```\n"
    if part.inline_data is not None:
        return f"[{part.inline_data.mime_type}, which cannot be shown here]"
    if part.file_data is not None:
        return f"[{part.file_data.mime_type or 'file'}: {part.file_data.file_uri}]"
    return ""


def sole_text(chunk: GenerateContentResponse) -> str:
    """The text of a chunk with nothing else but token counts; "" for others. Nearly all chunks in
    the middle of an answer are like that."""
    if not chunk.candidates or chunk.prompt_feedback is not None:
        return ""
    candidate = chunk.candidates[0]
    if candidate.finish_reason or candidate.content is None or len(candidate.content.parts) != 1:
        return ""
    part = candidate.content.parts[0]
    if part.thought or part.thought_signature or part.function_call is not None:
        return ""
    return part.text or ""


class FoundPages(Value, frozen=True):
    """The search behind an answer: its queries, and the address and title of each page."""

    queries: tuple[str, ...] = ()
    pages: tuple[tuple[str, str], ...] = ()


def found_pages(response: GenerateContentResponse) -> FoundPages | None:
    """The search behind an answer or chunk; None without one. Odd metadata count as none."""
    grounding = response.candidates[0].grounding_metadata if response.candidates else None
    if not grounding:
        return None
    queries = [each for each in as_array(grounding.get("webSearchQueries")) or () if each]
    pages: list[tuple[str, str]] = []
    for chunk in as_array(grounding.get("groundingChunks")) or ():
        page = Fields(as_object((as_object(chunk) or {}).get("web")) or {})
        if url := word(page, "uri"):
            pages.append((url, word(page, "title") or url))
    if not queries and not pages:
        return None
    return FoundPages(tuple(map(str, queries)), tuple(pages))


_ELSEWHERE = "is not supported: another service than Gemini answers."
_SETTINGS = {
    "response_logprobs": "responseLogprobs",
    "logprobs": "logprobs",
    "speech_config": "speechConfig",
    "image_config": "imageConfig",
    "routing_config": "routingConfig",
    "model_selection_config": "modelSelectionConfig",
    "enable_affective_dialog": "enableAffectiveDialog",
}
_FORMATS = frozenset({"text/plain", "application/json"})


def refuse_lost(config: GenerateContentConfig) -> None:
    """Raises DialectError for a setting that would be lost and changes the answer: cached contents,
    server-side tools, modalities other than text."""
    if config.cached_content:
        raise DialectError(_ELSEWHERE, "cachedContent")
    if config.model_armor_config:
        raise DialectError(_ELSEWHERE, "modelArmorConfig")
    for at, tool in enumerate(config.tools or ()):
        own = msgspec.structs.replace(tool, function_declarations=None)
        if own != ToolDeclarations():
            (name, *_) = msgspec.to_builtins(own)
            raise DialectError(f"{name} {_ELSEWHERE}", f"tools[{at}]")
    _refuse_settings(config.generation_config or GenerationConfig())


def _refuse_settings(config: GenerationConfig) -> None:
    place = "generationConfig."
    for name, said in _SETTINGS.items():
        if getattr(config, name):
            raise DialectError(_ELSEWHERE, f"{place}{said}")
    if (config.candidate_count or 1) != 1:
        raise DialectError("only one answer can be asked for.", f"{place}candidateCount")
    if any(kind.upper() != "TEXT" for kind in config.response_modalities or ()):
        raise DialectError("answers are text.", f"{place}responseModalities")
    if config.response_mime_type and config.response_mime_type not in _FORMATS:
        raise DialectError("answers are text or JSON.", f"{place}responseMimeType")


JSON = "application/json"


def is_formed(config: GenerateContentConfig) -> bool:
    """True when the answer must be JSON."""
    given = config.generation_config
    return given is not None and (
        given.response_mime_type == JSON or answer_schema(given) is not None
    )


def with_form_in_words(config: GenerateContentConfig) -> GenerateContentConfig:
    """Moves the answer format from the settings to the instruction."""
    given = config.generation_config or GenerationConfig()
    words = form_in_words(answer_schema(given))
    before = config.system_instruction.parts if config.system_instruction is not None else ()
    return replace(
        config,
        system_instruction=Content(role=USER, parts=(*before, Part(text=words))),
        generation_config=replace(
            given, response_mime_type=None, response_schema=None, response_json_schema=None
        ),
    )


def form_in_words(schema: dict[str, Any] | None) -> str:
    """The instruction for the model; without a schema any object is accepted."""
    said = "When you answer in words and not with a call, answer with JSON alone, without any words"
    if schema is None:
        return f"{said} or marks around it: one JSON object."
    told = encode_value(schema).decode()
    return f"{said} or marks around it. It has to keep to this JSON Schema: {told}"
