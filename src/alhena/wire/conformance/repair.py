"""Repairs contents, or a body in plain JSON, that break rules.

An unchanged content stays the same object, so that its bytes are reused.
"""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from alhena.wire.conformance.content_repair import Draft, answer_calls, mend_content
from alhena.wire.conformance.history import has_calls, has_responses
from alhena.wire.content import (
    MODEL,
    USER,
    Content,
    EncodedContent,
    Part,
    sign_first_call,
    text_content,
)
from alhena.wire.request import FunctionCallingMode, GenerateContentConfig, ToolConfig

LEFT_OUT = "[The beginning of this conversation was left out.]"
GO_ON = "Please continue."

REPAIRED = frozenset(
    {
        *("C1", "C2", "C3", "C5", "C6", "C7", "F1", "F2", "F3", "F4", "F5", "F6", "F7", "F10"),
        *("F12", "F13", "S1", "S2", "S4", "S5", "S6"),
    }
)
"""The rules with a repair. It may not succeed: check again afterwards."""


class Repair(msgspec.Struct, frozen=True):
    """The broken rule, its index in the original contents, and a description of the repair."""

    rule: str
    path: str
    message: str


class RepairedContents(msgspec.Struct, frozen=True):
    """Contents, and their repairs."""

    contents: tuple[Content, ...]
    repairs: tuple[Repair, ...]


class Repairs:
    """The repairs in order."""

    def __init__(self) -> None:
        self.done: list[Repair] = []

    def note(self, rule: str, index: int, message: str) -> None:
        """Records a repair of the content originally at `index`."""
        self.done.append(Repair(rule, f"contents[{index}]", message))


def repair(
    contents: Sequence[Content],
    *,
    needs_signatures: bool = False,
    takes_signatures: bool = True,
    takes_thoughts: bool = False,
    open_end: bool = False,
) -> RepairedContents:
    """Repairs the conversation in `contents` as far as possible without guessing.

    Thoughts are dropped unless the service `takes_thoughts`, as in other dialects. With `open_end`
    the conversation will continue: it may end with a model content, even with unanswered calls.
    """
    repairs = Repairs()
    drafts = [
        Draft(index, mended)
        for index, content in enumerate(contents)
        if (
            mended := mend_content(
                content, index, repairs.note, signed=takes_signatures, thoughts=takes_thoughts
            )
        )
        is not None
    ]
    drafts = list(answer_calls(drafts, repairs.note, open_end=open_end))
    drafts = list(_merge_neighbours(drafts, repairs))
    if needs_signatures:
        _sign(drafts, repairs)
    repaired = _with_ends(drafts, repairs, open_end=open_end)
    return RepairedContents(tuple(repaired), tuple(repairs.done))


def repair_entries(
    entries: Sequence[EncodedContent],
    *,
    needs_signatures: bool,
    takes_signatures: bool = True,
    takes_thoughts: bool = False,
) -> tuple[tuple[EncodedContent, ...], tuple[Repair, ...]]:
    """The same for the contents of a request; unchanged ones keep their bytes."""
    done = repair(
        [entry.content for entry in entries],
        needs_signatures=needs_signatures,
        takes_signatures=takes_signatures,
        takes_thoughts=takes_thoughts,
    )
    known = {id(entry.content): entry for entry in entries}
    kept = tuple(known.get(id(item)) or EncodedContent(item) for item in done.contents)
    return kept, done.repairs


def _merge_neighbours(drafts: Sequence[Draft], repairs: Repairs) -> Iterator[Draft]:
    """Repairs C6: merges neighbours of one role. A prompt is never merged into responses."""
    run: list[Draft] = []
    for draft in drafts:
        # Only the last of a run can prevent merging.
        if run and not _mergeable(run[-1].content, draft.content):
            yield _join_run(run)
            run = []
        if run:
            repairs.note("C6", draft.index, "joined to the content before it.")
        run.append(draft)
    if run:
        yield _join_run(run)


def _join_run(run: Sequence[Draft]) -> Draft:
    first = run[0]
    if len(run) > 1:
        parts = tuple(part for draft in run for part in draft.content.parts)
        first.content = Content(role=first.content.role, parts=parts)
    return first


def _mergeable(before: Content, after: Content) -> bool:
    return before.role == after.role and not (
        has_responses(before) or has_responses(after) or has_calls(before)
    )


def _sign(drafts: Sequence[Draft], repairs: Repairs) -> None:
    """Repairs S4: adds the placeholder to steps of the current turn whose first call has no
    signature."""
    for draft in reversed(drafts):
        content = draft.content
        if content.role == USER and not has_responses(content):
            return
        parts: list[Part] = list(content.parts)
        if content.role == MODEL and sign_first_call(parts):
            draft.content = Content(role=MODEL, parts=tuple(parts))
            message = "the first call got the documented stand-in for a signature."
            repairs.note("S4", draft.index, message)


def _with_ends(drafts: Sequence[Draft], repairs: Repairs, *, open_end: bool) -> Iterator[Content]:
    """Repairs C5 and C7: the first content and, unless it continues, the last must be the
    user's."""
    if drafts and drafts[0].content.role == MODEL:
        repairs.note("C5", drafts[0].index, "a note of the user's was put before it.")
        yield text_content(USER, LEFT_OUT)
    for draft in drafts:
        yield draft.content
    if drafts and drafts[-1].content.role == MODEL and not open_end:
        repairs.note("C5", drafts[-1].index, "a request to continue was put after it.")
        yield text_content(USER, GO_ON)


PLACE = "toolConfig.functionCallingConfig"
NO_FUNCTIONS = "left out: no function is declared."


def without_idle_calling(config: GenerateContentConfig) -> GenerateContentConfig:
    """Drops a calling mode without declared functions, which services reject; the same object if
    there is none. A mode that requires a call stays: only the client can resolve the contradiction.
    """
    tools = config.tool_config
    calling = tools.function_calling_config if tools is not None else None
    if tools is None or calling is None or config.function_names():
        return config
    if calling.mode is FunctionCallingMode.ANY:
        return config
    rest = replace(tools, function_calling_config=None)
    return replace(config, tool_config=None if rest == ToolConfig() else rest)
