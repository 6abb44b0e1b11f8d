"""google_web_search: answers a query with Google Search and lists the sources (TOOLS-18); citation
marks in grounded text."""

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from alhena.tools.base import BaseInvocation, DeclarativeTool
from alhena.tools.contract import (
    ExecutionContext,
    ModelAccess,
    ToolErrorType,
    ToolFailure,
    ToolInvocation,
    ToolResult,
)
from alhena.values import Value
from alhena.wire.content import USER, Part, text_content
from alhena.wire.json_values import as_array
from alhena.wire.request import ToolDeclarations
from alhena.wire.response import GenerateContentResponse

T = TypeVar("T")


class WebSource(msgspec.Struct, frozen=True):
    """A page that supports an answer."""

    title: str
    uri: str


class SearchAnswer(Value, frozen=True):
    """A model's text with `[n]` after the passages that source n supports; sources count from 1."""

    text: str
    sources: tuple[WebSource, ...] = ()

    def __str__(self) -> str:
        if not self.sources:
            return self.text
        listed = "\n".join(
            f"[{number}] {source.title} ({source.uri})"
            for number, source in enumerate(self.sources, start=1)
        )
        return f"{self.text}\n\nSources:\n{listed}"


class _Web(msgspec.Struct, rename="camel"):
    uri: str | None = None
    title: str | None = None


class _Chunk(msgspec.Struct, rename="camel"):
    web: _Web | None = None


class _Segment(msgspec.Struct, rename="camel"):
    part_index: int = 0
    end_index: int = 0


class _Support(msgspec.Struct, rename="camel"):
    segment: _Segment | None = None
    grounding_chunk_indices: list[int] = []


_ENDED_WELL = frozenset({None, "STOP", "FINISH_REASON_UNSPECIFIED"})


def why_no_answer(response: GenerateContentResponse) -> str:
    """Half a sentence that explains an answer without text; "" when nothing is wrong: the model
    returned no text."""
    feedback = response.prompt_feedback
    if feedback is not None and feedback.block_reason:
        return _with_message(
            f"the service blocked the prompt ({feedback.block_reason})",
            feedback.block_reason_message,
        )
    candidate = response.candidates[0] if response.candidates else None
    if candidate is None or candidate.finish_reason in _ENDED_WELL:
        return ""
    return _with_message(
        f"the service ended the answer before it said anything ({candidate.finish_reason})",
        candidate.finish_message,
    )


def _with_message(reason: str, message: str | None) -> str:
    return f"{reason}: {' '.join(message.split())}" if message else reason


def answer_of(response: GenerateContentResponse) -> SearchAnswer:
    """Extracts the text of an answer without thoughts, with citations and sources.

    Malformed grounding metadata counts as none.
    """
    texts, starts = _texts(response.parts)
    grounding = (response.candidates[0].grounding_metadata if response.candidates else None) or {}
    chunks = _items(grounding.get("groundingChunks"), _Chunk)
    marks: list[tuple[int, list[int]]] = []
    for support in _items(grounding.get("groundingSupports"), _Support):
        if support is None or support.segment is None or support.segment.end_index <= 0:
            continue
        start = starts.get(support.segment.part_index)
        numbers = [i + 1 for i in support.grounding_chunk_indices if 0 <= i < len(chunks)]
        if start is not None and numbers:
            marks.append((start + support.segment.end_index, numbers))
    return SearchAnswer(insert_citations("".join(texts), marks), tuple(map(_source, chunks)))


def insert_citations(text: str, marks: Iterable[tuple[int, Iterable[int]]]) -> str:
    """Inserts `[n]` marks into `text` at indexes into its UTF-8 bytes.

    An index inside a character means the end of that character; one past the end means the end.
    """
    data = text.encode("utf-8", "surrogatepass")
    wanted: dict[int, set[int]] = {}
    for index, numbers in marks:
        at = min(max(index, 0), len(data))
        while at < len(data) and data[at] & 0xC0 == 0x80:
            at += 1
        wanted.setdefault(at, set()).update(numbers)
    pieces: list[bytes] = []
    done = 0
    for at, numbers in sorted(wanted.items()):
        pieces.append(data[done:at])
        pieces.append("".join(f"[{number}]" for number in sorted(numbers)).encode("ascii"))
        done = at
    pieces.append(data[done:])
    return b"".join(pieces).decode("utf-8", "surrogatepass")


def _texts(parts: tuple[Part, ...]) -> tuple[list[str], dict[int, int]]:
    """The texts without thoughts, and the byte offset of each part's text in their join."""
    texts: list[str] = []
    starts: dict[int, int] = {}
    at = 0
    for index, part in enumerate(parts):
        if part.text is not None and not part.thought:
            starts[index] = at
            texts.append(part.text)
            at += len(part.text.encode("utf-8", "surrogatepass"))
    return texts, starts


def _source(chunk: _Chunk | None) -> WebSource:
    web = (chunk and chunk.web) or _Web()
    uri = " ".join((web.uri or "no address").split())
    return WebSource(" ".join((web.title or "Untitled").split()), uri)


def _items(value: object, type: type[T]) -> list[T | None]:
    """The elements of an array, None for malformed ones so that indexes stay right."""
    found: list[T | None] = []
    for item in as_array(value) or ():
        try:
            found.append(msgspec.convert(item, type))
        except msgspec.ValidationError:
            found.append(None)
    return found


class GoogleWebSearch(DeclarativeTool):
    """Searches with the service's search tool."""

    name = "google_web_search"

    def __init__(self, access: ModelAccess) -> None:
        self._access = access

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """Rejects an empty query."""
        if params["query"].strip():
            return None
        return ToolFailure.of_params("The 'query' parameter cannot be empty.")

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """Builds the call."""
        return GoogleWebSearchInvocation(self._access, params)


class GoogleWebSearchInvocation(BaseInvocation):
    """A web search."""

    def __init__(self, access: ModelAccess, params: dict[str, Any]) -> None:
        super().__init__(params)
        self._access = access

    def describe(self) -> str:
        """Describes the call to people in one line."""
        return f'Searching the web for: "{" ".join(self.params["query"].split())}"'

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Sends the query to the model, which searches."""
        from alhena.errors import ModelError
        from alhena.wire.dialects.fields import DialectError
        from alhena.wire.errors import WireError

        query: str = self.params["query"]
        if context.cancellation.is_set():
            return ToolResult.from_failure("Web search was cancelled.", ToolErrorType.CANCELLED)
        try:
            response = await self._access.generate(
                (text_content(USER, query),), tools=(ToolDeclarations(google_search={}),)
            )
        except DialectError:
            message = (
                "Error during web search: only Gemini searches with Google, and another service "
                "answers here. Look for another way, such as web_fetch with an address."
            )
            return ToolResult.from_failure(message, ToolErrorType.WEB_SEARCH_FAILED)
        except (ModelError, WireError) as error:
            message = f'Error during web search for query "{query}": {error}'
            return ToolResult.from_failure(message, ToolErrorType.WEB_SEARCH_FAILED)
        answer = answer_of(response)
        if not answer.text.strip():
            if reason := why_no_answer(response):
                message = (
                    f'Error during web search for query "{query}": {reason}. Reword the query.'
                )
                return ToolResult.from_failure(message, ToolErrorType.WEB_SEARCH_FAILED)
            found = f'No search results or information found for query: "{query}"'
            return ToolResult(llm_content=found, display="No information found.")
        sources = [{"title": source.title, "uri": source.uri} for source in answer.sources]
        return ToolResult(
            llm_content=f'Web search results for "{query}":\n\n{answer}',
            display=f'Search results for "{query}" returned.',
            data={"sources": sources},
        )
