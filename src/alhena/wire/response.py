"""Responses, usage and finish reasons; streaming yields chunks of the same type."""

from enum import StrEnum
from typing import Any

from msgspec.structs import force_setattr

from alhena.values import Value
from alhena.wire.content import Content, Part, Wire

COUNTS = (
    "prompt_token_count",
    "candidates_token_count",
    "total_token_count",
    "cached_content_token_count",
    "thoughts_token_count",
    "tool_use_prompt_token_count",
    "cache_write_token_count",
    "cache_write_hour_token_count",
)
"""The fields of UsageMetadata that count tokens."""


class FinishReason(StrEnum):
    """The finish reason of a candidate. Unknown reasons stay strings: the field is typed `str`."""

    STOP = "STOP"
    MAX_TOKENS = "MAX_TOKENS"
    SAFETY = "SAFETY"
    RECITATION = "RECITATION"
    LANGUAGE = "LANGUAGE"
    OTHER = "OTHER"
    BLOCKLIST = "BLOCKLIST"
    PROHIBITED_CONTENT = "PROHIBITED_CONTENT"
    SPII = "SPII"
    MALFORMED_FUNCTION_CALL = "MALFORMED_FUNCTION_CALL"
    UNEXPECTED_TOOL_CALL = "UNEXPECTED_TOOL_CALL"
    TOO_MANY_TOOL_CALLS = "TOO_MANY_TOOL_CALLS"
    IMAGE_SAFETY = "IMAGE_SAFETY"
    IMAGE_PROHIBITED_CONTENT = "IMAGE_PROHIBITED_CONTENT"
    IMAGE_RECITATION = "IMAGE_RECITATION"
    IMAGE_OTHER = "IMAGE_OTHER"
    NO_IMAGE = "NO_IMAGE"
    MISSING_THOUGHT_SIGNATURE = "MISSING_THOUGHT_SIGNATURE"
    MALFORMED_RESPONSE = "MALFORMED_RESPONSE"
    MODEL_ARMOR = "MODEL_ARMOR"
    ESCALATION = "ESCALATION"
    PUP_LIMITED_DISABLED = "PUP_LIMITED_DISABLED"
    CONTINUATION = "CONTINUATION"


CUT_CALL = "the output limit cut off a call to "
"""Prefix of the finish message, at MAX_TOKENS, for an incomplete call; the tool's name follows.
Such a call is not part of the answer."""
NO_REASON = "the stream ended without a finish reason"
"""The finish message, at STOP, of a text without a finish reason."""

STOPPED_AT = "the answer reached the stop sequence "
"""Prefix of the finish message, at STOP, of an answer that was ended before a stop sequence."""


class UsageMetadata(Wire, frozen=True, kw_only=True):
    """Token counts from the server (WIRE-08). Negative ones become 0. `service_tier` is that of the
    request, if known; it changes the price. The two counts of cache writes are part of the prompt,
    those kept for an hour part of both; only Anthropic's service has them."""

    prompt_token_count: int = 0
    candidates_token_count: int = 0
    total_token_count: int = 0
    cached_content_token_count: int = 0
    thoughts_token_count: int = 0
    tool_use_prompt_token_count: int = 0
    cache_write_token_count: int = 0
    cache_write_hour_token_count: int = 0
    prompt_tokens_details: list[Any] | None = None
    cache_tokens_details: list[Any] | None = None
    candidates_tokens_details: list[Any] | None = None
    tool_use_prompt_tokens_details: list[Any] | None = None
    traffic_type: str | None = None
    service_tier: str | None = None

    def __post_init__(self) -> None:
        for name in COUNTS:
            if getattr(self, name) < 0:
                force_setattr(self, name, 0)


class PromptFeedback(Wire, frozen=True, kw_only=True):
    """Set when the prompt itself was blocked."""

    block_reason: str | None = None
    block_reason_message: str | None = None
    safety_ratings: list[Any] | None = None


class Candidate(Wire, frozen=True, kw_only=True):
    """An answer. A chunk's `content` has only its new parts. With `continuation_token` the request
    is sent again for what comes after this chunk."""

    content: Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    index: int = 0
    safety_ratings: list[Any] | None = None
    citation_metadata: dict[str, Any] | None = None
    grounding_metadata: dict[str, Any] | None = None
    url_context_metadata: dict[str, Any] | None = None
    token_count: int | None = None
    avg_logprobs: float | None = None
    logprobs_result: dict[str, Any] | None = None
    continuation_token: str | None = None


class GenerateContentResponse(Wire, Value, frozen=True, kw_only=True):
    """An answer, or one chunk of it."""

    candidates: tuple[Candidate, ...] = ()
    prompt_feedback: PromptFeedback | None = None
    usage_metadata: UsageMetadata | None = None
    model_version: str | None = None
    response_id: str | None = None
    create_time: str | None = None
    automatic_function_calling_history: tuple[Content, ...] = ()

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of the first candidate."""
        if not self.candidates or self.candidates[0].content is None:
            return ()
        return self.candidates[0].content.parts

    @property
    def finish_reason(self) -> str | None:
        """The first candidate's finish reason."""
        return self.candidates[0].finish_reason if self.candidates else None

    @property
    def is_partial(self) -> bool:
        """True if other requests may belong to the answer, or other pieces to a call of it."""
        if not self.candidates:
            return False
        candidate = self.candidates[0]
        if candidate.continuation_token or candidate.finish_reason == FinishReason.CONTINUATION:
            return True
        for part in self.parts:
            call = part.function_call
            if call is not None and (call.will_continue or call.partial_args):
                return True
        return False


class CountTokensResponse(Wire, frozen=True, kw_only=True):
    """The answer of countTokens."""

    total_tokens: int = 0
    cached_content_token_count: int = 0


class Embedding(Wire, Value, frozen=True, kw_only=True):
    """One vector."""

    values: tuple[float, ...] = ()


class EmbedContentResponse(Wire, Value, frozen=True, kw_only=True):
    """Vectors, one per content asked about."""

    embeddings: tuple[Embedding, ...] = ()
