"""Repairs between calls and their responses (F1-F7, F10)."""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from alhena.wire.conformance.history import OpenCalls
from alhena.wire.conformance.mending import Note
from alhena.wire.conformance.slices import has_calls, has_responses
from alhena.wire.content import MODEL, USER, Content, FunctionCall, FunctionResponse, Part

UNKNOWN_OUTCOME = (
    "No result of this call was recorded: it was interrupted, and whether it took effect is "
    "unknown. Check before you repeat it."
)


class Draft(msgspec.Struct):
    """A content under repair, with its position in what was given."""

    index: int
    content: Content


def unanswered(content: Content) -> tuple[Part, ...]:
    """Responses that say of each call in `content` that its outcome is unknown."""
    return tuple(
        Part(function_response=_unknown(part.function_call))
        for part in content.parts
        if part.function_call is not None
    )


def answer_calls(drafts: Sequence[Draft], note: Note, *, open_end: bool) -> Iterator[Draft]:
    """The drafts with one content of responses behind each content of calls, and none elsewhere.

    With `open_end`, calls in the last content are left for others to answer.
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
        step = _Step(draft, drafts[first:position], note)
        if first == len(drafts) and open_end:
            step.rename()
            yield draft
            return
        yield from step.repaired()


def _only_answers(content: Content) -> bool:
    return has_responses(content) and not has_calls(content)


def _drop_responses(draft: Draft, note: Note) -> bool:
    """Takes out responses to which there are no calls; whether anything is left."""
    kept = tuple(part for part in draft.content.parts if part.function_response is None)
    note("F2", draft.index, "function responses without a call were left out.")
    draft.content = replace(draft.content, parts=kept)
    return bool(kept)


class _Step:
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

    def repaired(self) -> Iterator[Draft]:
        """The two contents that the step comes to."""
        for answer in self._answers:
            self._match(answer)
        index = self._answers[0].index if self._answers else self._called.index
        if len(self._answers) > 1:
            self._note("F3", self._answers[1].index, "responses were joined to one content.")
        for call in self._open.left.values():
            self._note("F10", self._called.index, f'the call of "{call.name}" was answered.')
        self.rename()
        yield self._called
        answered = [self._fitted(position, index) for position in self._calls]
        parts = (*answered, *self._beside)
        given = self._answers[0].content if len(self._answers) == 1 else None
        if given is not None and given.role == USER and _same(given.parts, parts):
            yield self._answers[0]
            return
        if given is not None and list(self._found) != sorted(self._found):
            self._note("F7", index, "the responses were put in the order of their calls.")
        yield Draft(index, Content(role=USER, parts=parts))

    def _match(self, answer: Draft) -> None:
        """Finds the calls that a content answers; the rest of it stands beside."""
        behind = False
        for part in self._unsigned(answer):
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

    def _unsigned(self, answer: Draft) -> Iterator[Part]:
        """The parts of a content that is the user's from now on (S2)."""
        for part in answer.content.parts:
            if part.thought_signature is None:
                yield part
                continue
            self._note("S2", answer.index, "a signature was taken off a part beside responses.")
            if part.text != "":
                yield replace(part, thought_signature=None)

    def rename(self) -> None:
        """F5: ids of calls that stand twice."""
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

    def _fitted(self, position: int, index: int) -> Part:
        """The response to a call, under its name and id."""
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


def _same(given: Sequence[Part], parts: Sequence[Part]) -> bool:
    return len(given) == len(parts) and all(
        one is other for one, other in zip(given, parts, strict=True)
    )


def _unknown(call: FunctionCall) -> FunctionResponse:
    return FunctionResponse(id=call.id, name=call.name, response={"error": UNKNOWN_OUTCOME})
