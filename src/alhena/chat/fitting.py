"""What of a conversation is left out or masked when it does not fit and no summary helps."""

from collections.abc import Mapping, Sequence

import msgspec

from alhena.chat.compression_split import Cut, assembled, cut_content, cuts_after
from alhena.chat.estimates import content_tokens, response_tokens
from alhena.chat.masking import Keep, masked
from alhena.wire.content import Blob, Content, FileData, FunctionResponse, Part
from alhena.wire.encoded import EncodedContent

MEDIA_NOTE = (
    "[A {what} was here. It is left out, for it does not fit into what you take at once: do not "
    "read it again as it is, but a part of it, or look for another way.]"
)
"""What stands in the place of media."""

_KINDS = frozenset({"audio", "image", "video"})


def shortened(content: Content, counted: int, most: int, keep: Keep) -> tuple[Content, int]:
    """What is sent next, and its tokens, of which there were `counted`: results of tools take
    `most`, as far as that can be. The longest are masked; where that is not enough, words stand for
    their media.

    What the service counted beyond the estimate stays, whatever is masked; unless media go, for
    then it is taken to have been theirs.
    """
    if not any(part.function_response for part in content.parts):
        return content, counted
    estimated = content_tokens(content)
    short = with_short_results(content, most, keep)
    tokens = content_tokens(short)
    left = counted - estimated + tokens if counted > estimated else min(counted, tokens)
    if left > most:
        bare = without_media(short)
        if bare is not short:
            return bare, min(counted, content_tokens(bare))
    return short, left


def media_in_words(entries: Sequence[EncodedContent], start: int) -> dict[int, Content]:
    """Those contents from `start` on whose results have media, with words in the place of these."""
    found: dict[int, Content] = {}
    for index in range(max(0, start), len(entries)):
        content = entries[index].content
        bare = without_media(content)
        if bare is not content:
            found[index] = bare
    return found


def parts_changed(changed: Mapping[int, Content], entries: Sequence[EncodedContent]) -> int:
    """How many parts of some contents are other ones than those that stand at their places."""
    return sum(
        now is not was
        for index, content in changed.items()
        for now, was in zip(content.parts, entries[index].content.parts, strict=True)
    )


def without_media(content: Content) -> Content:
    """A content that answers calls, with words in the place of media; itself where it has none, or
    answers no call."""
    if not any(part.function_response for part in content.parts):
        return content
    parts = tuple(map(_in_words, content.parts))
    if all(now is was for now, was in zip(parts, content.parts, strict=True)):
        return content
    return msgspec.structs.replace(content, parts=parts)


def _in_words(part: Part) -> Part:
    media = part.inline_data or part.file_data
    if media is not None:
        return Part(text=_note(media))
    response = part.function_response
    if response is None or not response.parts:
        return part
    found = (each.inline_data or each.file_data for each in response.parts)
    notes = "\n".join(_note(each) for each in found if each is not None)
    return msgspec.structs.replace(part, function_response=_with_notes(response, notes))


def _with_notes(response: FunctionResponse, notes: str) -> FunctionResponse:
    fields = dict(response.response)
    key = next((key for key in ("output", "error") if isinstance(fields.get(key), str)), None)
    if key is None:
        fields["left_out"] = notes
    else:
        fields[key] = f"{fields[key]}\n{notes}"
    return msgspec.structs.replace(response, response=fields, parts=None)


def _note(media: Blob | FileData) -> str:
    kind, _, form = (media.mime_type or "").partition("/")
    what = f"{form} {kind if kind in _KINDS else 'file'}".strip()
    name = f" ({media.display_name})" if media.display_name else ""
    size = f" of {len(media.data) * 3 // 4:,} bytes" if isinstance(media, Blob) else ""
    return MEDIA_NOTE.format(what=f"{what}{name}{size}")


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
