"""Rules for single contents and between contents, and slices of a conversation that keep them.

For compression, routing and loop checks, which send a part of a history. Calls are never separated
from their responses.
"""

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import astuple

from alhena.wire.conformance import ConformanceFindings
from alhena.wire.content import (
    DATA_FIELDS,
    MODEL,
    SIGNATURE_SENTINEL,
    USER,
    Blob,
    Content,
    EncodedContent,
    FunctionCall,
    FunctionResponse,
    Part,
    takes_media,
)
from alhena.wire.errors import Severity

SIGNATURE_STAND_INS = (SIGNATURE_SENTINEL, "context_engineering_is_the_way_to_go")
"""Documented placeholders for calls that never had a signature (S4)."""

_ROLES = frozenset({USER, MODEL})
_FIELDS = len(Part.__struct_fields__)  # DATA_FIELDS come first
_ARGS = (dict, type(None))
_SIGNATURE = ".thoughtSignature"


class TurnFacts(msgspec.Struct, gc=False):
    """The properties of a content needed by the rules between contents.

    `calls` and `responses` include the index of their part; `signed` is True if the first call has
    a signature; `foreign` locates the first thought or signature of the model, by index and field.
    """

    index: int
    role: str | None
    calls: list[tuple[int, FunctionCall]] = []
    responses: list[tuple[int, FunctionResponse]] = []
    signed: bool = False
    foreign: tuple[int, str] | None = None

    @property
    def path(self) -> str:
        """Path of the content."""
        return f"contents[{self.index}]"

    @property
    def foreign_path(self) -> str:
        """Path of the first thought or signature of the model, which must exist."""
        position, field = self.foreign or (0, "")
        return f"{self.path}.parts[{position}]{field}"


def read_content(
    index: int, content: Content, findings: ConformanceFindings, *, forms: bool = True
) -> TurnFacts:
    """Checks the content at `index` and returns its properties for the rules between contents.
    `forms` enables the check of signatures (S3)."""
    turn = TurnFacts(index, content.role)
    if content.role not in _ROLES or not content.parts:
        _report_frame(turn, content, findings)
    for position, part in enumerate(content.parts):
        # This runs for every part of a history before its first send. Most parts have one field;
        # others have a signature as the second.
        things = _FIELDS - astuple(part).count(None)
        if things != 1:
            if things != 2 or forms or not _take_signed(turn, position, part):
                _read_part(turn, position, part, findings, forms=forms)
        elif part.text:
            continue
        elif (call := part.function_call) is not None:
            turn.calls.append((position, call))
            if not call.name or type(call.args) not in _ARGS or _is_piece(call):
                _report_call(turn, position, call, findings)
        elif (response := part.function_response) is not None:
            turn.responses.append((position, response))
            body = response.response
            if (
                not response.name
                or response.parts
                or type(body) is not dict
                or "output" not in body
            ):
                _check_response(turn, position, response, findings)
        else:
            _check_fields(turn, position, part, findings, forms=forms)
    if len(turn.calls) > 1:
        _check_ids(turn, "functionCall", turn.calls, findings)
    if turn.responses:
        _check_answers(turn, content, findings)
    return turn


def _take_signed(turn: TurnFacts, position: int, part: Part) -> bool:
    """Handles a model's call or text with a signature; False for parts that need the full check."""
    signature = part.thought_signature
    if not signature or turn.role != MODEL:
        return False
    call = part.function_call
    if call is not None:
        if not _is_plain(call):
            return False
        if not turn.calls:
            turn.signed = True
        elif signature in SIGNATURE_STAND_INS:
            return False
        turn.calls.append((position, call))
    elif part.text is None:
        return False
    if turn.foreign is None:
        turn.foreign = position, _SIGNATURE
    return True


def _report_frame(turn: TurnFacts, content: Content, findings: ConformanceFindings) -> None:
    if content.role not in _ROLES:
        role = "missing" if content.role is None else f'"{content.role}"'
        findings.add("C1", turn.path, f"the role is {role}; it must be user or model.")
    if not content.parts:
        findings.add("C2", turn.path, "the content has no parts.")


def _is_piece(call: FunctionCall) -> bool:
    """True when a call was still being streamed."""
    return call.will_continue is True or bool(call.partial_args)


def _is_plain(call: FunctionCall) -> bool:
    """True when a call needs no further check."""
    if not call.name or call.will_continue or call.partial_args:
        return False
    return type(call.args) in _ARGS


def _check_answers(turn: TurnFacts, content: Content, findings: ConformanceFindings) -> None:
    """Checks F5, F7, and F13 for parts beside the responses."""
    if len(turn.responses) > 1:
        _check_ids(turn, "functionResponse", turn.responses, findings)
    if len(content.parts) == len(turn.responses):
        return
    if turn.responses[-1][0] >= len(turn.responses):
        findings.add("F7", turn.path, "a function response comes after a part of another kind.")
    for position, part in enumerate(content.parts):
        if part.function_response is None and part.inline_data is not None:
            _check_medium(part.inline_data, f"{turn.path}.parts[{position}]", findings)


def _read_part(
    turn: TurnFacts, position: int, part: Part, findings: ConformanceFindings, *, forms: bool
) -> None:
    """Checks a part with a signature, with metadata, or with several fields."""
    _check_fields(turn, position, part, findings, forms=forms)
    if part.thought:
        _check_thought(turn, position, findings)
    call = part.function_call
    if call is not None:
        if not turn.calls:
            turn.signed = bool(part.thought_signature)
        elif part.thought_signature in SIGNATURE_STAND_INS:
            path = f"{turn.path}.parts[{position}]{_SIGNATURE}"
            findings.add("S4", path, "a stand-in signs a call that is not the first of its step.")
        turn.calls.append((position, call))
        _report_call(turn, position, call, findings)
    response = part.function_response
    if response is not None:
        turn.responses.append((position, response))
        _check_response(turn, position, response, findings)


def _check_fields(
    turn: TurnFacts, position: int, part: Part, findings: ConformanceFindings, *, forms: bool
) -> None:
    """Checks C3, and the signature."""
    path = f"{turn.path}.parts[{position}]"
    names = [
        name for name, value in zip(DATA_FIELDS, astuple(part), strict=False) if value is not None
    ]
    if not names:
        findings.add("C3", path, "the part contains no data.")
    elif len(names) > 1:
        findings.add("C3", path, f"the part contains several data fields: {', '.join(names)}.")
    elif part.text == "" and not part.thought_signature:
        findings.add("C3", path, "the part is an empty text without a signature.")
    signature = part.thought_signature
    if signature is None:
        return
    if turn.foreign is None:
        turn.foreign = position, _SIGNATURE
    if turn.role == USER:
        message = "a thought signature appears on a part of the user's."
        findings.add("S2", f"{path}{_SIGNATURE}", message)
    if forms and not is_signature(signature):
        message = "the thought signature is no standard base64."
        findings.add("S3", f"{path}{_SIGNATURE}", message)


def _check_thought(turn: TurnFacts, position: int, findings: ConformanceFindings) -> None:
    """Checks S5: a thought that is sent back."""
    path = f"{turn.path}.parts[{position}]"
    if turn.foreign is None:
        turn.foreign = position, ""
    findings.add("S5", path, "the part is a thought: thoughts are not sent back.")


def is_signature(text: str) -> bool:
    """True when a signature is well-formed (S3), or a placeholder."""
    return text in SIGNATURE_STAND_INS or _is_base64(text)


def _is_base64(text: str) -> bool:
    from binascii import Error, a2b_base64

    try:
        return bool(a2b_base64(text, strict_mode=True))
    except (Error, ValueError):  # ValueError: non-ASCII characters
        return False


def _report_call(
    turn: TurnFacts, position: int, call: FunctionCall, findings: ConformanceFindings
) -> None:
    path = f"{turn.path}.parts[{position}].functionCall"
    if not call.name:
        findings.add("F4", f"{path}.name", "the call names no function.")
    if type(call.args) not in _ARGS:
        findings.add("F8", f"{path}.args", "args is not a JSON object.")
    if _is_piece(call):
        findings.add("F12", path, "the call is a piece of one that was still being streamed.")


def _check_response(
    turn: TurnFacts, position: int, response: FunctionResponse, findings: ConformanceFindings
) -> None:
    body = response.response
    plain = type(body) is dict and ("output" in body or "error" in body or not body)
    if plain and response.name and response.parts is None:
        return
    path = f"{turn.path}.parts[{position}].functionResponse"
    if not response.name:
        findings.add("F4", f"{path}.name", "the response names no function.")
    if type(body) is not dict:
        findings.add("F8", f"{path}.response", "response is not a JSON object.")
    elif not plain:
        message = "the response has neither an output nor an error key."
        findings.add("F9", f"{path}.response", message)
    for index, media in enumerate(response.parts or ()):
        if (media.inline_data is None) == (media.file_data is None):
            findings.add(
                "C3",
                f"{path}.parts[{index}]",
                "a part of a response contains either inlineData or fileData.",
            )
        elif media.inline_data is not None:
            _check_medium(media.inline_data, f"{path}.parts[{index}]", findings)


def _check_medium(blob: Blob, path: str, findings: ConformanceFindings) -> None:
    if not takes_media(blob.mime_type):
        message = f'the API takes no media of type "{blob.mime_type}" in the results of a call.'
        findings.add("F13", f"{path}.inlineData.mimeType", message)


def _check_ids(
    turn: TurnFacts,
    kind: str,
    items: Sequence[tuple[int, FunctionCall | FunctionResponse]],
    findings: ConformanceFindings,
) -> None:
    if len(items) == 2 and items[0][1].id != items[1][1].id:  # the usual case
        return
    if len({item.id for _, item in items}) == len(items):
        return
    seen: set[str] = set()
    for position, item in items:
        if item.id and item.id in seen:
            path = f"{turn.path}.parts[{position}].{kind}.id"
            findings.add("F5", path, f'the id "{item.id}" appears twice in this content.')
        seen.add(item.id or "")


_Responses = Sequence[tuple[TurnFacts, int, FunctionResponse]]


class HistoryWalk:
    """Walks along a conversation once, content by content, and keeps the state for later ones.

    `feed` reports problems that no later content can change; `finish` reports those of a
    conversation that ends here, without changing state, so that the walk can continue when contents
    are appended.
    """

    def __init__(self) -> None:
        self._before: TurnFacts | None = None
        self._open: TurnFacts | None = None
        self._answers: list[TurnFacts] = []
        self._unsigned: list[TurnFacts] = []
        self._called: dict[str, str] = {}
        self._foreign: TurnFacts | None = None

    def feed(self, turn: TurnFacts, findings: ConformanceFindings) -> None:
        """Adds the next content."""
        before, step = self._before, self._open
        if step is not None and turn.responses and not turn.calls:
            self._answer(step, turn, findings)
        else:
            if step is not None:
                self._settle(findings)
            if turn.responses or before is None or before.role == turn.role:
                self._report(turn, findings)
            if turn.calls:
                self._open, self._answers = turn, []
        self._before = turn
        if turn.foreign is not None and self._foreign is None:
            self._foreign = turn
        if turn.calls:
            self._note_calls(turn)
        elif turn.role == USER and not turn.responses:
            self._unsigned.clear()  # start of the current turn

    def finish(
        self, findings: ConformanceFindings, *, needs_signatures: bool, takes_signatures: bool
    ) -> None:
        """Reports problems of a conversation that ends here."""
        last = self._before
        if last is None:
            findings.add("C1", "contents", "there are no contents.")
            return
        if self._open is not None:
            _check_step(self._open, self._answers, findings)
        if last.role == MODEL:
            findings.add("C5", last.path, "the last content is the model's.")
        if needs_signatures:
            for turn in self._unsigned:
                position, call = turn.calls[0]
                path = f"{turn.path}.parts[{position}]"
                findings.add("S1", path, f'the call of "{call.name}" has no thoughtSignature.')
        if not takes_signatures and self._foreign is not None:
            message = "this model takes no thoughts and no signatures."
            findings.add("S6", self._foreign.foreign_path, message)

    def check_names(self, declared: Collection[str], findings: ConformanceFindings) -> None:
        """Warns of calls to undeclared functions, once for each name.

        A model may call an unknown function and gets an error as answer (F11), and tools may have
        been removed: so this alone prevents no request.
        """
        for name, path in self._called.items():
            if name not in declared:
                message = f'no function "{name}" is declared.'
                findings.add("F4", path, message, Severity.WARNING)

    def _note_calls(self, turn: TurnFacts) -> None:
        if turn.role == MODEL and not turn.signed:
            self._unsigned.append(turn)
        elif turn.role == USER and not turn.responses:
            self._unsigned.clear()
        called = self._called
        for position, call in turn.calls:
            if call.name and call.name not in called:
                called[call.name] = f"{turn.path}.parts[{position}].functionCall.name"

    def _answer(self, step: TurnFacts, turn: TurnFacts, findings: ConformanceFindings) -> None:
        """Handles a content of responses after open calls."""
        if not self._answers and _is_answered(step, turn):
            self._open = None
            return
        self._answers.append(turn)
        if len(self._answers) == 1 and len(turn.responses) == len(step.calls):
            self._settle(findings)

    def _report(self, turn: TurnFacts, findings: ConformanceFindings) -> None:
        """Reports a misplaced content that answers no open call."""
        before = self._before
        if before is None:
            if turn.role == MODEL:
                findings.add("C5", turn.path, "the first content is the model's.")
            if turn.calls or turn.responses:
                message = "the conversation starts in the middle of calls and their responses."
                findings.add("C7", turn.path, message)
        elif before.role == turn.role:
            _check_neighbours(before, turn, findings)
        if turn.responses:
            _report_stray(turn, before, findings)

    def _settle(self, findings: ConformanceFindings) -> None:
        """Closes the open calls: no further content can answer them."""
        step, answers = self._open, self._answers
        self._open, self._answers = None, []
        if step is not None:
            _check_step(step, answers, findings)


def _check_neighbours(before: TurnFacts, turn: TurnFacts, findings: ConformanceFindings) -> None:
    # A prompt is never merged into tool results, so both may be adjacent; two contents
    # of results, or calls without results, violate more serious rules.
    if before.responses or turn.responses or before.calls:
        return
    findings.add("C6", turn.path, f"two contents of the {turn.role} follow each other.")


def _report_stray(turn: TurnFacts, before: TurnFacts | None, findings: ConformanceFindings) -> None:
    if before is None:
        message = "the conversation starts with a function response."
    elif before.responses:
        message = "two contents with function responses follow each other."
    else:
        message = "the content before this function response contains no function call."
    findings.add("F2", turn.path, message)


def _check_step(
    turn: TurnFacts, answers: Sequence[TurnFacts], findings: ConformanceFindings
) -> None:
    """Checks a content with calls and the contents of responses after it."""
    if turn.role == USER:
        findings.add("F1", turn.path, "a content of the user contains a function call.")
    wanted = len(turn.calls)
    given = len(answers[0].responses) if answers else 0
    total = sum(len(answer.responses) for answer in answers)
    count = 1
    if given != wanted and total == wanted:
        count = len(answers)
        message = "the responses of one step are spread over several contents."
        findings.add("F3", answers[1].path, message)
    elif given != wanted:
        message = f"{wanted} function calls are followed by {given} function responses."
        findings.add("F1", turn.path, message)
    for answer in answers[:count]:
        if answer.role == MODEL:
            findings.add("F2", answer.path, "a content of the model contains a function response.")
    responses = [
        (answer, position, response)
        for answer in answers[:count]
        for position, response in answer.responses
    ]
    _pair(turn, responses, findings)
    for before, stray in zip(answers[count - 1 :], answers[count:], strict=False):
        _report_stray(stray, before, findings)


def _is_answered(turn: TurnFacts, answer: TurnFacts) -> bool:
    """True in the simple case: as many responses, in order, with the same names and ids."""
    calls, responses = turn.calls, answer.responses
    if turn.role != MODEL or answer.role != USER or len(responses) != len(calls):
        return False
    for (_, call), (_, response) in zip(calls, responses, strict=True):
        if call.name != response.name or (call.id or None) != (response.id or None):
            return False
    return True


def _pair(turn: TurnFacts, responses: _Responses, findings: ConformanceFindings) -> None:
    open_calls = OpenCalls(turn.calls)
    calls = dict(turn.calls)
    last = -1
    disordered = False
    for answer, position, response in responses:
        path = f"{answer.path}.parts[{position}].functionResponse"
        found = open_calls.take(response)
        if found is None:
            findings.add("F6", path, f'no open call fits this response of "{response.name}".')
            continue
        _compare(calls[found], response, path, findings)
        disordered = disordered or found < last
        last = found
    if disordered:
        path = responses[0][0].path
        findings.add("F7", path, "the responses are not in the order of their calls.")
    for position, call in open_calls.left.items():
        path = f"{turn.path}.parts[{position}].functionCall"
        findings.add("F10", path, f'the call of "{call.name}" is not answered.')


class OpenCalls:
    """Calls waiting for their responses, by index; finding one takes constant time. `left` are
    those without a response so far."""

    def __init__(self, calls: Iterable[tuple[int, FunctionCall]]) -> None:
        self.left = dict(calls)
        self._by_id: dict[str, deque[int]] = {}
        self._by_name: dict[str, deque[int]] = {}
        self._unnumbered: dict[str, deque[int]] = {}  # calls without an id, by name
        for position, call in self.left.items():
            self._by_name.setdefault(call.name, deque()).append(position)
            if call.id:
                self._by_id.setdefault(call.id, deque()).append(position)
            else:
                self._unnumbered.setdefault(call.name, deque()).append(position)

    def take(self, response: FunctionResponse) -> int | None:
        """Removes and returns the call that a response answers: the one with its id, else the first
        of its name, else the only one left."""
        found: int | None = None
        if response.id:
            found = self._take_first_open(self._by_id.get(response.id))
        if found is None:
            named = self._unnumbered if response.id else self._by_name
            found = self._take_first_open(named.get(response.name))
        if found is None and len(self.left) == 1:
            found = next(iter(self.left))
        if found is not None:
            del self.left[found]
        return found

    def _take_first_open(self, positions: deque[int] | None) -> int | None:
        while positions:
            position = positions.popleft()
            if position in self.left:
                return position
        return None


def _compare(
    call: FunctionCall, response: FunctionResponse, path: str, findings: ConformanceFindings
) -> None:
    if response.name != call.name:
        message = f'the response is named "{response.name}", its call "{call.name}".'
        findings.add("F4", f"{path}.name", message)
    if (call.id or None) == (response.id or None):
        return
    if not call.id:
        message = f'the response has the id "{response.id}", its call has none.'
    elif not response.id:
        message = f'the response lacks the id "{call.id}" of its call.'
    else:
        message = f'the response has the id "{response.id}", its call "{call.id}".'
    findings.add("F6", f"{path}.id", message)


Entry = TypeVar("Entry", Content, EncodedContent)


def slice_history(
    contents: Sequence[Entry],
    start: int = 0,
    stop: int | None = None,
    *,
    lead: Entry | None = None,
) -> tuple[Entry, ...]:
    """The part of `contents[start:stop]` that is valid by itself; negative indexes count from the
    end.

    The start moves to the next prompt. With a `lead`, a user content with a text about the omitted
    part, it moves at most to the next model content, preceded by the lead. Calls at the end without
    their responses are dropped. Empty if nothing remains.
    """
    begin, end, _ = slice(start, stop).indices(len(contents))
    begin = split_point(contents, begin, steps=lead is not None)
    while end > begin and has_calls(contents[end - 1]):
        end -= 1
    taken = tuple(contents[begin:end])
    if lead is not None and taken and _content(taken[0]).role == MODEL:
        return (lead, *taken)
    return taken


def split_point(contents: Sequence[Entry], at: int, *, steps: bool = False) -> int:
    """The first index from `at` on where a history may be split: before a prompt, and with `steps`
    also before a model content. The length of the history if there is none."""
    for index in range(max(at, 0), len(contents)):
        content = _content(contents[index])
        if content.role == USER and not has_responses(content):
            return index
        if steps and content.role == MODEL and not has_responses(content):
            return index
    return len(contents)


def has_calls(entry: Content | EncodedContent) -> bool:
    """True when a content contains a function call."""
    return any(part.function_call is not None for part in _content(entry).parts)


def has_responses(entry: Content | EncodedContent) -> bool:
    """True when a content contains a function response."""
    return any(part.function_response is not None for part in _content(entry).parts)


def _content(entry: Content | EncodedContent) -> Content:
    return entry if isinstance(entry, Content) else entry.content


UNKNOWN_OUTCOME = (
    "No result of this call was recorded: it was interrupted, and whether it took effect is "
    "unknown. Check before you repeat it."
)
"""Answer to a call of an interrupted session that may have run."""
