"""How an answer of Gemini's ended, in the three words that other dialects have."""

from enum import Enum

from alhena.wire.dialects.errors import UnusableAnswerError
from alhena.wire.response import (
    CUT_CALL,
    NO_REASON,
    Candidate,
    FinishReason,
    GenerateContentResponse,
)

_FILTERED = frozenset(
    {
        *(FinishReason.SAFETY, FinishReason.RECITATION, FinishReason.BLOCKLIST),
        *(FinishReason.PROHIBITED_CONTENT, FinishReason.SPII, FinishReason.IMAGE_SAFETY),
    }
)
_UNUSABLE = frozenset(
    {
        *(FinishReason.MALFORMED_FUNCTION_CALL, FinishReason.UNEXPECTED_TOOL_CALL),
        *(FinishReason.TOO_MANY_TOOL_CALLS, FinishReason.MISSING_THOUGHT_SIGNATURE),
    }
)


class Ending(Enum):
    """Whole, cut at the limit of tokens, or held back."""

    DONE = "done"
    LENGTH = "length"
    FILTERED = "filtered"


def ending_of(last: GenerateContentResponse, *, has_calls: bool) -> Ending:
    """How the answer ended whose last chunk this is.

    Raises UnusableAnswerError for one that ended with a call that cannot be used.
    """
    reason = last.finish_reason
    if reason in _UNUSABLE and not has_calls:
        said = last.candidates[0].finish_message
        raise UnusableAnswerError(
            f"the model's answer ended with {reason}{f': {said}' if said else '.'}"
        )
    if reason in _FILTERED or (last.prompt_feedback and last.prompt_feedback.block_reason):
        return Ending.FILTERED
    return Ending.LENGTH if reason == FinishReason.MAX_TOKENS else Ending.DONE


def malformed_call(name: str) -> Candidate:
    """The end of an answer with a call that cannot be read."""
    return Candidate(
        finish_reason=FinishReason.MALFORMED_FUNCTION_CALL,
        finish_message=f"the arguments of a call to {name} are no JSON object",
    )


def cut_call(name: str) -> Candidate:
    """The end of an answer that reached the limit of its tokens in the middle of a call, which is
    left out. Asking again in the same words would come to the same."""
    return Candidate(finish_reason=FinishReason.MAX_TOKENS, finish_message=f"{CUT_CALL}{name}")


def words_without_reason() -> Candidate:
    """The end of a stream of words alone that ended in good order and did not say why. Some
    services never say it, so that they are taken for whole."""
    return Candidate(finish_reason=FinishReason.STOP, finish_message=NO_REASON)
