"""google_web_search: answers a query with Google Search and lists the sources (TOOLS-18)."""

from typing import Any

from alhena.tools.base import BaseInvocation, DeclarativeTool
from alhena.tools.citations import answer_of, why_no_answer
from alhena.tools.contract import (
    ExecutionContext,
    ModelAccess,
    ToolErrorType,
    ToolFailure,
    ToolInvocation,
    ToolResult,
)
from alhena.wire.content import USER, text_content
from alhena.wire.request import Tool


class GoogleWebSearch(DeclarativeTool):
    """Searches with the service's search tool; `model` None means the session's model."""

    name = "google_web_search"

    def __init__(self, access: ModelAccess, *, model: str | None = None) -> None:
        self._access = access
        self._model = model

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """Rejects an empty query."""
        if params["query"].strip():
            return None
        return ToolFailure.of_params("The 'query' parameter cannot be empty.")

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """Builds the call."""
        return GoogleWebSearchInvocation(self._access, self._model, params)


class GoogleWebSearchInvocation(BaseInvocation):
    """A web search."""

    def __init__(self, access: ModelAccess, model: str | None, params: dict[str, Any]) -> None:
        super().__init__(params)
        self._access = access
        self._model = model

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
            return ToolResult.failed("Web search was cancelled.", ToolErrorType.CANCELLED)
        try:
            response = await self._access.generate(
                (text_content(USER, query),), tools=(Tool(google_search={}),), model=self._model
            )
        except DialectError:
            message = (
                "Error during web search: only Gemini searches with Google, and another service "
                "answers here. Look for another way, such as web_fetch with an address."
            )
            return ToolResult.failed(message, ToolErrorType.WEB_SEARCH_FAILED)
        except (ModelError, WireError) as error:
            message = f'Error during web search for query "{query}": {error}'
            return ToolResult.failed(message, ToolErrorType.WEB_SEARCH_FAILED)
        answer = answer_of(response)
        if not answer.text.strip():
            if reason := why_no_answer(response):
                message = (
                    f'Error during web search for query "{query}": {reason}. Reword the query.'
                )
                return ToolResult.failed(message, ToolErrorType.WEB_SEARCH_FAILED)
            found = f'No search results or information found for query: "{query}"'
            return ToolResult(llm_content=found, display="No information found.")
        sources = [{"title": source.title, "uri": source.uri} for source in answer.sources]
        return ToolResult(
            llm_content=f'Web search results for "{query}":\n\n{answer}',
            display=f'Search results for "{query}" returned.',
            data={"sources": sources},
        )
