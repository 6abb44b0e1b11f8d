"""The events that account for a request: sent, answered, failed."""

import time

import msgspec

from alhena.errors import AlhenaError, ModelError
from alhena.events import ApiErrorEvent, ApiRequestEvent, ApiResponseEvent
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import GenerateContentResponse, UsageMetadata


class Account:
    """One request's account; its time runs from here. `role` says on whose behalf it is; with
    `texts` the events have the request and the answer in them."""

    def __init__(
        self, request: GenerateContentRequest, *, role: str = "main", texts: bool = False
    ) -> None:
        self._request = request
        self._role = role
        self._pieces: list[GenerateContentResponse] | None = [] if texts else None
        self._usage = UsageMetadata()
        self._model_version = ""
        self._finish_reason = ""
        self._start = time.perf_counter()

    def sent(self) -> ApiRequestEvent:
        """The request goes out."""
        request = self._request
        return ApiRequestEvent(
            model=request.model,
            prompt_id=request.prompt_id,
            contents=len(request.contents),
            role=self._role,
            text=None if self._pieces is None else _contents(request),
        )

    def failed(self, error: AlhenaError) -> ApiErrorEvent:
        """It was not answered."""
        return ApiErrorEvent(
            model=self._request.model,
            prompt_id=self._request.prompt_id,
            duration_ms=self._elapsed(),
            error_type=error.kind,
            message=error.message,
            status=error.status if isinstance(error, ModelError) else None,
            role=self._role,
        )

    def feed(self, response: GenerateContentResponse) -> None:
        """Takes note of a chunk of the answer."""
        self._usage = response.usage_metadata or self._usage
        self._model_version = response.model_version or self._model_version
        self._finish_reason = response.finish_reason or self._finish_reason
        if self._pieces is not None:
            self._pieces.append(response)

    def answered(self) -> ApiResponseEvent:
        """It was answered in full."""
        usage = self._usage
        return ApiResponseEvent(
            model=self._model_version or self._request.model,
            prompt_id=self._request.prompt_id,
            duration_ms=self._elapsed(),
            finish_reason=self._finish_reason,
            input_tokens=usage.prompt_token_count,
            output_tokens=usage.candidates_token_count,
            cached_tokens=usage.cached_content_token_count,
            thoughts_tokens=usage.thoughts_token_count,
            tool_tokens=usage.tool_use_prompt_token_count,
            total_tokens=usage.total_token_count,
            role=self._role,
            text=None if self._pieces is None else _json(self._pieces),
        )

    def _elapsed(self) -> float:
        return round((time.perf_counter() - self._start) * 1000, 3)


def _contents(request: GenerateContentRequest) -> str:
    return f"[{','.join(bytes(content.raw).decode('utf-8') for content in request.contents)}]"


def _json(pieces: list[GenerateContentResponse]) -> str:
    return msgspec.json.encode(pieces).decode("utf-8")
