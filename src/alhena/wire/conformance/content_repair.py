"""Repairs within one content, and between calls and their responses."""

from collections.abc import Callable, Iterator, Sequence
from operator import is_

import msgspec
from msgspec.structs import replace

from alhena.wire.conformance.history import (
    SIGNATURE_STAND_INS,
    UNKNOWN_OUTCOME,
    OpenCalls,
    has_calls,
    has_responses,
)
from alhena.wire.content import (
    DATA_FIELDS,
    MODEL,
    USER,
    Content,
    FunctionCall,
    FunctionResponse,
    FunctionResponsePart,
    Part,
    takes_media,
    without_thoughts,
)

Note = Callable[[str, int, str], None]
"""Receives a rule, the index of a content, and a description of the repair."""

_MODELS = frozenset({"assistant", "ai", "bot"})


def mend_content(
    content: Content, index: int, note: Note, *, signed: bool, thoughts: bool = False
) -> Content | None:
    """The content with sendable parts, None if there are none; the same object if unchanged. Unless
    `signed`, signatures are removed; with `thoughts`, thoughts are kept."""
    role = _role(content, index, note)
    parts = list(content.parts)
    if not thoughts and any(part.thought for part in parts):
        parts = without_thoughts(parts)
        note("S5", index, "thoughts were left out, with their signatures.")
    if role == USER or not signed:
        parts = _remove_signatures(parts, index, note, "S2" if signed else "S6")
    parts = list(_single(parts, index, note))
    if any(part.function_response is not None for part in parts):
        parts = [_without_media(part, index, note) for part in parts]
    parts = [_whole_call(part, index, note) for part in parts]
    _take_stand_ins(parts, index, note)
    if not parts:
        note("C2", index, "a content without parts was left out.")
        return None
    if role == content.role and _same(parts, content.parts):
        return content
    return Content(role=role, parts=tuple(parts))


def _same(parts: Sequence[Part], given: Sequence[Part]) -> bool:
    return len(parts) == len(given) and all(map(is_, parts, given))


def _role(content: Content, index: int, note: Note) -> str:
    if content.role in (USER, MODEL):
        return content.role
    calls = any(part.function_call is not None for part in content.parts)
    role = MODEL if calls or content.role in _MODELS else USER
    note("C1", index, f"the role became {role}.")
    return role


def _remove_signatures(parts: Sequence[Part], index: int, note: Note, rule: str) -> list[Part]:
    if all(part.thought_signature is None for part in parts):
        return list(parts)
    note(rule, index, "thought signatures were removed.")
    return [
        part if part.thought_signature is None else replace(part, thought_signature=None)
        for part in parts
    ]


def _single(parts: Sequence[Part], index: int, note: Note) -> Iterator[Part]:
    """Repairs C3: splits parts into ones with exactly one data field. The signature goes with the
    call, else with the first."""
    for part in parts:
        fields = [name for name in DATA_FIELDS if getattr(part, name) is not None]
        if part.text == "" and (len(fields) > 1 or not part.thought_signature):
            fields.remove("text")
            note("C3", index, "an empty text was left out.")
            if fields:
                part = replace(part, text=None)
        elif not fields:
            note("C3", index, "a part without data was left out.")
        if len(fields) > 1:
            note("C3", index, "a part with several data fields became several parts.")
            yield from _split(part, fields)
        elif fields:
            yield part


def _split(part: Part, fields: Sequence[str]) -> Iterator[Part]:
    signed = "function_call" if "function_call" in fields else fields[0]
    for name in fields:
        others = {other: None for other in fields if other != name}
        signature = part.thought_signature if name == signed else None
        yield replace(part, **others, thought_signature=signature)


def _without_media(part: Part, index: int, note: Note) -> Part:
    """Repairs F13: replaces unsupported media by a sentence."""
    blob = part.inline_data
    if blob is not None and not takes_media(blob.mime_type):
        note("F13", index, f"data of type {blob.mime_type} was replaced by a text.")
        return Part(text=_left_out(blob.mime_type))
    response = part.function_response
    if response is None or response.parts is None:
        return part
    whole = tuple(item for item in response.parts if _is_whole(item))
    if len(whole) < len(response.parts):
        note("C3", index, "a part of a response without one medium was left out.")
        response = replace(response, parts=whole or None)
        part = replace(part, function_response=response)
    refused = [
        item.inline_data.mime_type
        for item in whole
        if item.inline_data is not None and not takes_media(item.inline_data.mime_type)
    ]
    if not refused:
        return part
    note("F13", index, f"data of type {', '.join(refused)} was taken out of a response.")
    return replace(part, function_response=_remove_refused_media(response, refused))


def _is_whole(part: FunctionResponsePart) -> bool:
    return (part.inline_data is None) != (part.file_data is None)


def _remove_refused_media(response: FunctionResponse, refused: Sequence[str]) -> FunctionResponse:
    kept = tuple(
        item
        for item in response.parts or ()
        if item.inline_data is None or takes_media(item.inline_data.mime_type)
    )
    body = dict(response.response)
    output = body.get("output")
    if isinstance(output, str) or "output" not in body:
        notes = "\n".join(map(_left_out, refused))
        body["output"] = f"{output}\n{notes}" if output else notes
    return replace(response, response=body, parts=kept or None)


def _left_out(mime_type: str) -> str:
    return f"[Data of type {mime_type} was left out: models take no media of this type.]"


def _whole_call(part: Part, index: int, note: Note) -> Part:
    """Repairs F12: removes streaming marks from a call."""
    call = part.function_call
    if call is None or not (call.partial_args or call.will_continue):
        return part
    note("F12", index, "a call lost the marks of one that is still being streamed.")
    return replace(part, function_call=replace(call, partial_args=None, will_continue=None))


def _take_stand_ins(parts: list[Part], index: int, note: Note) -> None:
    """Repairs S4: removes placeholders from calls after the first."""
    first = True
    for position, part in enumerate(parts):
        if part.function_call is None:
            continue
        if not first and part.thought_signature in SIGNATURE_STAND_INS:
            parts[position] = replace(part, thought_signature=None)
            note("S4", index, "a stand-in for a signature was removed after the first call.")
        first = False


class Draft(msgspec.Struct):
    """A content under repair, with its original index."""

    index: int
    content: Content


def unknown_responses(content: Content) -> tuple[Part, ...]:
    """Responses that report an unknown result for each call in `content`."""
    return tuple(
        Part(function_response=_unknown(part.function_call))
        for part in content.parts
        if part.function_call is not None
    )


def answer_calls(drafts: Sequence[Draft], note: Note, *, open_end: bool) -> Iterator[Draft]:
    """The drafts with exactly one content of responses after each content of calls, and none
    elsewhere.

    With `open_end`, calls in the last content stay unanswered.
    """
    position = 0
    while position < len(drafts):
        draft = drafts[position]
        position += 1
        if has_responses(draft.content) and not _drop_responses(draft, note):
            continue
        if not has_calls(draft.content):
            yield draft
            continue
        if draft.content.role == USER:
            draft.content = replace(draft.content, role=MODEL)
            note("F1", draft.index, "the role of a content with calls became model.")
        first = position
        while position < len(drafts) and _only_answers(drafts[position].content):
            position += 1
        step = _StepRepair(draft, drafts[first:position], note)
        if first == len(drafts) and open_end:
            step.rename()
            yield draft
            return
        yield from step.repair_step()


def _only_answers(content: Content) -> bool:
    return has_responses(content) and not has_calls(content)


def _drop_responses(draft: Draft, note: Note) -> bool:
    """Removes responses without calls; returns True if parts remain."""
    kept = tuple(part for part in draft.content.parts if part.function_response is None)
    note("F2", draft.index, "function responses without a call were left out.")
    draft.content = replace(draft.content, parts=kept)
    return bool(kept)


class _StepRepair:
    """A content with calls and the contents of responses that follow it."""

    def __init__(self, called: Draft, answers: Sequence[Draft], note: Note) -> None:
        self._called = called
        self._answers = answers
        self._note = note
        self._calls = {
            position: part.function_call
            for position, part in enumerate(called.content.parts)
            if part.function_call is not None
        }
        self._open = OpenCalls(self._calls.items())
        self._found: dict[int, Part] = {}
        self._beside: list[Part] = []

    def repair_step(self) -> Iterator[Draft]:
        """The resulting two contents."""
        for answer in self._answers:
            self._match(answer)
        index = self._answers[0].index if self._answers else self._called.index
        if len(self._answers) > 1:
            self._note("F3", self._answers[1].index, "responses were joined to one content.")
        for call in self._open.left.values():
            self._note("F10", self._called.index, f'the call of "{call.name}" was answered.')
        self.rename()
        yield self._called
        answered = [self._fit_response(position, index) for position in self._calls]
        parts = (*answered, *self._beside)
        given = self._answers[0].content if len(self._answers) == 1 else None
        if given is not None and given.role == USER and _same(given.parts, parts):
            yield self._answers[0]
            return
        if given is not None and list(self._found) != sorted(self._found):
            self._note("F7", index, "the responses were put in the order of their calls.")
        yield Draft(index, Content(role=USER, parts=parts))

    def _match(self, answer: Draft) -> None:
        """Matches a content's responses to calls; its other parts are kept separately."""
        behind = False
        for part in self._take_unsigned_parts(answer):
            response = part.function_response
            if response is None:
                self._beside.append(part)
                behind = True
                continue
            position = self._open.take(response)
            if position is None:
                message = f'a response of "{response.name}" that fits no call was left out.'
                self._note("F2", answer.index, message)
                continue
            self._found[position] = part
            if behind:
                self._note("F7", answer.index, "a response was put before the other parts.")
        if answer.content.role != USER:
            self._note("F2", answer.index, "the role of a content with responses became user.")

    def _take_unsigned_parts(self, answer: Draft) -> Iterator[Part]:
        """The parts of a content that becomes a user content (S2)."""
        for part in answer.content.parts:
            if part.thought_signature is None:
                yield part
                continue
            self._note("S2", answer.index, "a signature was taken off a part beside responses.")
            if part.text != "":
                yield replace(part, thought_signature=None)

    def rename(self) -> None:
        """Repairs F5: duplicate ids of calls."""
        taken = {call.id for call in self._calls.values()}
        seen: set[str] = set()
        numbers: dict[str, int] = {}
        parts = list(self._called.content.parts)
        for position, call in self._calls.items():
            if call.id and call.id in seen:
                given, number = call.id, numbers.get(call.id, 2)
                while f"{call.id}-{number}" in taken:
                    number += 1
                numbers[given] = number + 1
                call = replace(call, id=f"{call.id}-{number}")
                taken.add(call.id)
                self._calls[position] = call
                parts[position] = replace(parts[position], function_call=call)
                message = f'an id that stood twice became "{call.id}".'
                self._note("F5", self._called.index, message)
            seen.add(call.id or "")
        if not _same(parts, self._called.content.parts):
            self._called.content = replace(self._called.content, parts=tuple(parts))

    def _fit_response(self, position: int, index: int) -> Part:
        """The response to a call, with the call's name and id."""
        call = self._calls[position]
        part = self._found.get(position)
        if part is None or part.function_response is None:
            return Part(function_response=_unknown(call))
        response = part.function_response
        if response.name == call.name and (response.id or None) == (call.id or None):
            return part
        rule = "F4" if response.name != call.name else "F6"
        self._note(rule, index, f'a response got the name and id of its call of "{call.name}".')
        fitted = replace(response, name=call.name, id=call.id)
        return replace(part, function_response=fitted)


def _unknown(call: FunctionCall) -> FunctionResponse:
    return FunctionResponse(id=call.id, name=call.name, response={"error": UNKNOWN_OUTCOME})
