"""What services say when a request is too large for their model's window."""

import re

import msgspec

from alhena.errors import AlhenaError, ModelError
from alhena.models.errors import QuotaError

_FORMS = (
    # Gemini: The input token count (1058724) exceeds the maximum number of tokens allowed (…).
    r"input token count\D{0,20}(?P<used>\d+)?.{0,40}?exceeds? the maximum.{0,60}?(?P<most>\d+)",
    # OpenAI: maximum context length is 128000 tokens. However, your messages resulted in 130000 …
    r"maximum context length is (?P<most>\d+) tokens(?:.{0,80}?(?P<used>\d+) tokens)?",
    # Anthropic: prompt is too long: 210000 tokens > 200000 maximum
    r"prompt is too long(?:: (?P<used>\d+) tokens > (?P<most>\d+))?",
    # Anthropic: input length and `max_tokens` exceed context limit: 181488 + 32000 > 200000
    r"exceed context limit: (?P<used>\d+) \+ (?P<answer>\d+) > (?P<most>\d+)",
    # llama.cpp: the request exceeds the available context size (4096 tokens)
    r"exceeds the available context size\D{0,20}(?P<most>\d+)?",
)


class TooLarge(msgspec.Struct, frozen=True):
    """`used` tokens were sent, `most` are taken; None for what was not said."""

    used: int | None
    most: int | None


def too_large(error: AlhenaError) -> TooLarge | None:
    """What an error says of a request that was too large; None for any other error."""
    if not isinstance(error, ModelError) or isinstance(error, QuotaError):
        return None
    message = error.message.replace(",", "")
    for form in _FORMS:
        found = re.search(form, message, re.IGNORECASE)
        if found is not None:
            said = found.groupdict()
            used, most = said.get("used"), said.get("most")
            # Where there has to be room for the answer, too, so much less can be sent.
            rest = int(most) - int(said.get("answer") or 0) if most else None
            return TooLarge(int(used) if used else None, rest)
    return None
