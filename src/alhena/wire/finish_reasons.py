"""The meaning of each finish reason, its words for people, and its exit code."""

from enum import StrEnum

from alhena.values import Value
from alhena.wire.response import FinishReason


class FinishMeaning(StrEnum):
    """COMPLETE, LIMITED: an answer. CUT: an answer if it has text, without its calls if they are
    `withheld`. REPEATED: unreadable, requested again. UNSIGNED: the conversation lacks a signature,
    which can be mended once. FAILED: no answer, also after some text."""

    COMPLETE = "complete"
    LIMITED = "limited"
    CUT = "cut"
    REPEATED = "repeated"
    UNSIGNED = "unsigned"
    FAILED = "failed"


class FinishInfo(Value, frozen=True):
    """The end of an answer. `words` are the beginning of a message; `withheld`: for its content,
    a refusal to clients."""

    meaning: FinishMeaning
    words: str = ""
    remedy: str = "Rephrase the prompt."
    withheld: bool = False
    exit_code: int = 1

    @property
    def is_error(self) -> bool:
        """True if such an answer is unusable, whatever came before its end."""
        return self.meaning in (
            FinishMeaning.REPEATED,
            FinishMeaning.UNSIGNED,
            FinishMeaning.FAILED,
        )


_AGAIN = "Run the prompt again."
_IMAGE = "Rephrase the prompt, or choose another model with -m."


def _withheld(why: str) -> FinishInfo:
    return FinishInfo(FinishMeaning.CUT, f"the model's answer was withheld: {why}", withheld=True)


def _image(what: str, *, withheld: bool = False) -> FinishInfo:
    return FinishInfo(FinishMeaning.FAILED, what, _IMAGE, withheld)


_UNKNOWN = FinishInfo(FinishMeaning.CUT, "the model's answer was withheld")

ENDINGS: dict[str, FinishInfo] = {
    FinishReason.STOP: FinishInfo(FinishMeaning.COMPLETE),
    FinishReason.MAX_TOKENS: FinishInfo(
        FinishMeaning.LIMITED, "the answer reached the output limit"
    ),
    FinishReason.SAFETY: _withheld("it may be unsafe"),
    FinishReason.RECITATION: _withheld("it may repeat a source word for word"),
    FinishReason.BLOCKLIST: _withheld("it has a forbidden word"),
    FinishReason.PROHIBITED_CONTENT: _withheld("its content may be prohibited"),
    FinishReason.SPII: _withheld("it may have sensitive data of persons"),
    FinishReason.LANGUAGE: FinishInfo(
        FinishMeaning.CUT, "the model's answer was withheld: its language is not supported"
    ),
    FinishReason.OTHER: _UNKNOWN,
    FinishReason.MALFORMED_FUNCTION_CALL: FinishInfo(
        FinishMeaning.REPEATED, "the model produced a call that cannot be read", _AGAIN
    ),
    FinishReason.UNEXPECTED_TOOL_CALL: FinishInfo(
        FinishMeaning.REPEATED, "the model produced a call that was not expected", _AGAIN
    ),
    FinishReason.MALFORMED_RESPONSE: FinishInfo(
        FinishMeaning.REPEATED, "the model produced an answer that cannot be read", _AGAIN
    ),
    FinishReason.CONTINUATION: FinishInfo(
        FinishMeaning.REPEATED,
        "the model's service ended an unfinished answer without a continuation token",
        _AGAIN,
    ),
    FinishReason.MISSING_THOUGHT_SIGNATURE: FinishInfo(
        FinishMeaning.UNSIGNED,
        "the model's service misses a thought signature in the conversation",
        "Begin a new session, or choose another model with -m.",
    ),
    FinishReason.TOO_MANY_TOOL_CALLS: FinishInfo(
        FinishMeaning.FAILED,
        "the model made more calls than one answer may have",
        "Ask for less at once.",
    ),
    FinishReason.ESCALATION: FinishInfo(
        FinishMeaning.FAILED, "an escalation rule of the service withheld the answer", withheld=True
    ),
    FinishReason.MODEL_ARMOR: FinishInfo(
        FinishMeaning.FAILED,
        "Model Armor withheld the answer",
        "Rephrase the prompt, or have the project's Model Armor settings changed.",
        withheld=True,
    ),
    FinishReason.PUP_LIMITED_DISABLED: FinishInfo(
        FinishMeaning.FAILED,
        "the account is limited or disabled, because it broke the Prohibited Use Policy",
        "Check the account at the service, or use another one.",
        exit_code=41,
    ),
    FinishReason.IMAGE_SAFETY: _image("the image was withheld: it may be unsafe", withheld=True),
    FinishReason.IMAGE_PROHIBITED_CONTENT: _image(
        "the image was withheld: its content may be prohibited", withheld=True
    ),
    FinishReason.IMAGE_RECITATION: _image(
        "the image was withheld: it may repeat a source", withheld=True
    ),
    FinishReason.IMAGE_OTHER: _image("the image could not be made"),
    FinishReason.NO_IMAGE: _image("the model made no image"),
}
"""The meaning of each known reason. One that is not known ends an answer as OTHER does."""


def finish_info(reason: str) -> FinishInfo:
    """The meaning of a finish reason."""
    return ENDINGS.get(reason, _UNKNOWN)
