"""The conversation history: append-only, encoded once, curated (CHAT-03)."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from alhena.models.catalogue import bare_name, model_info
from alhena.wire.conformance.check import RequestChecker, calls_for_repair
from alhena.wire.conformance.history import has_calls
from alhena.wire.content import (
    INTERRUPTED,
    MODEL,
    USER,
    Content,
    Part,
    for_another_model,
    holds_data,
    many_encoder,
    text_content,
)
from alhena.wire.encode import EncodedContent

Watch = Callable[[int, Sequence[EncodedContent]], None]
"""Called with a number of contents that the history keeps and the contents that now follow them."""

CUT_OFF = "\n[The user interrupted the answer here.]"
"""Appended to the text of an interrupted answer."""
ENDED_EARLY = "\n[The answer ended here before it was complete.]"
"""Appended to the text of an answer whose rest could not be had."""


class History:
    """The contents in order, sent byte for byte as appended. `watch` is called on every change;
    `restatements` counts changes of earlier contents."""

    def __init__(self, contents: Iterable[Content | EncodedContent] = ()) -> None:
        """Curates `contents` (of a resumed or given conversation) and repairs those that break
        rules; the last may be calls still to be answered. Encoded contents keep their bytes.
        `checker` has already checked them."""
        self.checker = RequestChecker()
        self.watch: Watch | None = None
        self.restatements = 0
        encode = many_encoder()
        entries = [
            item if isinstance(item, EncodedContent) else EncodedContent(item, encode)
            for item in contents
        ]
        self._entries = _sound(entries, self.checker)

    def report_to(self, watch: Watch) -> None:
        """Calls `watch` on every change from now on."""
        self.watch = watch

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def contents(self) -> tuple[EncodedContent, ...]:
        """All contents, ready for a request."""
        return tuple(self._entries)

    def add_user(self, parts: tuple[Part, ...]) -> None:
        """Appends a user content. Before a prompt, completes the history: unanswered tool results
        get a model turn that says the answer is missing, so that the two are never merged (C6);
        unanswered calls get responses that say their outcome is unknown (F10)."""
        length = len(self._entries)
        answers = any(part.function_response for part in parts)
        if not answers and self._entries and has_calls(self._entries[-1]):
            from alhena.wire.conformance.content_repair import unknown_responses

            missing = unknown_responses(self._entries[-1].content)
            self._entries.append(EncodedContent(Content(role=USER, parts=missing)))
        if not answers and self._entries and self._entries[-1].content.role == USER:
            self._entries.append(EncodedContent(text_content(MODEL, INTERRUPTED)))
        self._entries.append(EncodedContent(Content(role=USER, parts=parts)))
        self._notify_watch(length)

    def add_model(self, content: Content) -> None:
        """Appends a model content."""
        self._entries.append(EncodedContent(content))
        self._notify_watch(len(self._entries) - 1)

    def rollback(self, length: int) -> None:
        """Removes the contents after the first `length`."""
        if length < len(self._entries):
            del self._entries[length:]
            self._notify_watch(length)

    def restate(self, change: Callable[[Content], Content]) -> None:
        """Applies `change` to every content, for a switch to another model; unchanged contents keep
        their bytes."""
        changed: dict[int, Content] = {}
        for index, entry in enumerate(self._entries):
            content = change(entry.content)
            if content != entry.content:
                changed[index] = content
        self.amend(changed)

    def amend(self, contents: Mapping[int, Content]) -> None:
        """Replaces the contents at these positions."""
        if not contents:
            return
        for index, content in contents.items():
            self._entries[index] = EncodedContent(content)
        self.restatements += 1
        self._notify_watch(min(contents))

    def add_automatic_calls(self, history: Sequence[Content], turn: Content | None) -> None:
        """Adds calls that the server made itself (automaticFunctionCallingHistory).

        The server repeats the request and its answer: contents already in the history, and those
        whose parts are all in `turn`, are skipped.
        """
        length = len(self._entries)
        known = set(self._entries)
        fresh: list[EncodedContent] = []
        for content in history:
            encoded = EncodedContent(content)
            repeats_turn = turn is not None and all(part in turn.parts for part in content.parts)
            if encoded not in known and not repeats_turn and content.parts:
                fresh.append(encoded)
                known.add(encoded)
        self._entries.extend(fresh)
        if fresh:
            self._notify_watch(length)

    def _notify_watch(self, keep: int) -> None:
        if self.watch is not None:
            self.watch(keep, self._entries[keep:])


def curate(contents: Sequence[Content]) -> tuple[Content, ...]:
    """`contents` without invalid model turns: a run of model contents with an empty content or part
    is dropped whole; user contents stay.

    The responses to calls in a dropped run are dropped too, so that no response is left without its
    call (conformance F2).
    """
    if not any(map(_is_invalid_turn, contents)):
        return tuple(contents)
    kept: list[Content] = []
    index = 0
    while index < len(contents):
        content = contents[index]
        if content.role != MODEL:
            kept.append(content)
            index += 1
            continue
        end = index
        while end < len(contents) and contents[end].role == MODEL:
            end += 1
        run = contents[index:end]
        if not any(map(_is_invalid_turn, run)):
            kept.extend(run)
        elif end < len(contents) and _answers(contents[end]):
            end += 1
        index = end
    return tuple(kept)


def _curate_entries(entries: list[EncodedContent]) -> list[EncodedContent]:
    contents = [entry.content for entry in entries]
    kept = curate(contents)
    if len(kept) == len(entries):
        return entries
    known = {id(content): entry for content, entry in zip(contents, entries, strict=True)}
    return [known[id(content)] for content in kept]


def _sound(entries: list[EncodedContent], checker: RequestChecker) -> list[EncodedContent]:
    """Returns `entries` if they keep the rules, else curated, and repaired if that is not enough.
    The last may be calls still to be answered."""
    if _keeps_the_rules(entries, checker):
        return entries  # turns that curation drops break rules themselves (C2, C3)
    kept = _curate_entries(entries)
    if len(kept) < len(entries) and _keeps_the_rules(kept, checker):
        return kept
    from alhena.wire.conformance.repair import repair

    repaired = repair([entry.content for entry in kept], open_end=True)
    return list(map(EncodedContent, repaired.contents))


def _keeps_the_rules(entries: list[EncodedContent], checker: RequestChecker) -> bool:
    return not any(map(calls_for_repair, checker.learn(tuple(entries))))


def _is_invalid_turn(content: Content) -> bool:
    if content.role != MODEL:
        return False
    for part in content.parts:
        plain = part.text or (part.function_call is not None and part.text is None)
        if not plain and not _is_valid_part(part):
            return True
    return not content.parts


def _is_valid_part(part: Part) -> bool:
    if part.text == "" and not part.thought_signature:
        return False
    return holds_data(part)


def _answers(content: Content) -> bool:
    return any(part.function_response for part in content.parts)


def import_contents(contents: Sequence[Content], model: str) -> tuple[Content, ...]:
    """The contents of another conversation, for `model`: without what other models signed, as far
    as they say so (`Chat.export_contents`)."""
    sign, own = model_info(model).needs_signatures, bare_name(model)
    found: list[Content] = []
    for content in contents:
        signers = content.signed_by
        if signers is not None:
            content = replace(content, signed_by=None)
            if own not in signers:
                content = for_another_model(content, sign_calls=sign)
        found.append(content)
    return tuple(found)
