"""What of a conversation is left out or masked when it does not fit and no summary helps."""

from collections.abc import Sequence

from alhena.chat.compression_split import Cut, assembled, cut_content, cuts_after
from alhena.chat.estimates import content_tokens, response_tokens
from alhena.chat.masking import Keep, masked
from alhena.wire.content import Content
from alhena.wire.encoded import EncodedContent


def with_short_results(content: Content, most: int, keep: Keep) -> Content:
    """The results of one turn with the longest of them masked, so that they take `most` estimated
    tokens."""
    tokens = content_tokens(content)
    sizes = {
        place: int(response_tokens(part.function_response))
        for place, part in enumerate(content.parts)
        if part.function_response is not None
    }
    chosen: set[int] = set()
    for place in sorted(sizes, key=lambda place: -sizes[place]):
        if tokens <= most:
            break
        tokens -= sizes[place]
        chosen.add(place)
    return masked({0: content}, {0: frozenset(chosen)}, keep, always=True).get(0, content)


def without_beginning(
    entries: Sequence[EncodedContent], opening: int, sums: Sequence[int], most: float
) -> tuple[EncodedContent, ...] | None:
    """A conversation without as much of its beginning as has to go for the rest to take `most`
    estimated tokens; if need be, without all but the last step and the prompt it belongs to. None
    where nothing can go. `sums` are the tokens before each position."""
    end = len(entries)
    lead = cut_content(entries, opening)
    beside = sums[min(opening, end)] + content_tokens(lead.content)
    chosen: Cut | None = None
    for cut in cuts_after(entries, opening):
        chosen = cut
        tokens = beside + sums[end] - sums[cut.at]
        if cut.prompt is not None:
            tokens += sums[cut.prompt + 1] - sums[cut.prompt]
        if tokens <= most:
            break
    return None if chosen is None else assembled(entries, opening, chosen, lead)
