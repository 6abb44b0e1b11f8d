"""What contents must keep towards each other (C5, C6, F1-F4, F6, F7, F10, S1)."""

from collections.abc import Collection, Sequence

from alhena.wire.conformance.contents import Turn
from alhena.wire.conformance.rules import Findings
from alhena.wire.content import MODEL, USER, FunctionCall, FunctionResponse
from alhena.wire.violation import Level

_Responses = Sequence[tuple[Turn, int, FunctionResponse]]


def check_history(turns: Sequence[Turn], findings: Findings) -> None:
    """The order of roles, and that every call is answered where it must be."""
    if not turns:
        findings.add("C1", "contents", "there are no contents.")
        return
    _check_ends(turns, findings)
    before: Turn | None = None
    answered_up_to = 0
    for turn in turns:
        if before is not None and before.role == turn.role:
            _check_neighbours(before, turn, findings)
        if turn.responses and turn.index >= answered_up_to:
            _report_stray(turn, before, findings)
        if turn.calls:
            answered_up_to = _check_step(turn, turns, findings)
        before = turn


def check_names(turns: Sequence[Turn], declared: Collection[str], findings: Findings) -> None:
    """Warns of calls to functions that are not declared, once for each name.

    A model may call what does not exist and is answered with an error (F11), and tools may have
    gone since: so this alone keeps no request from being sent.
    """
    reported: set[str] = set()
    for turn in turns:
        for position, call in turn.calls:
            if call.name and call.name not in declared and call.name not in reported:
                reported.add(call.name)
                path = f"{turn.path}.parts[{position}].functionCall.name"
                message = f'no function "{call.name}" is declared.'
                findings.add("F4", path, message, Level.WARNING)


def check_signatures(turns: Sequence[Turn], findings: Findings) -> None:
    """For models that want them: the first call of each step of the current turn is signed. The
    current turn starts at the last user content without responses."""
    for turn in reversed(turns):
        if turn.role == USER and not turn.responses:
            return
        if turn.role == MODEL and turn.calls and not turn.signed:
            path = f"{turn.path}.parts[{turn.calls[0][0]}]"
            name = turn.calls[0][1].name
            findings.add("S1", path, f'the call of "{name}" has no thoughtSignature.')


def _check_ends(turns: Sequence[Turn], findings: Findings) -> None:
    if turns[0].role == MODEL:
        findings.add("C5", turns[0].path, "the first content is the model's.")
    if turns[-1].role == MODEL:
        findings.add("C5", turns[-1].path, "the last content is the model's.")


def _check_neighbours(before: Turn, turn: Turn, findings: Findings) -> None:
    # A prompt is never merged into tool results, so these two may stand side by side; two contents
    # of results, or calls without results, are broken by graver rules.
    if before.responses or turn.responses or before.calls:
        return
    findings.add("C6", turn.path, f"two contents of the {turn.role} follow each other.")


def _report_stray(turn: Turn, before: Turn | None, findings: Findings) -> None:
    if before is None:
        message = "the conversation starts with a function response."
    elif before.responses:
        message = "two contents with function responses follow each other."
    else:
        message = "the content before this function response holds no function call."
    findings.add("F2", turn.path, message)


def _check_step(turn: Turn, turns: Sequence[Turn], findings: Findings) -> int:
    """Checks the answers to a content with calls. Returns the index behind those answers."""
    if turn.role == USER:
        findings.add("F1", turn.path, "a function call stands in a content of the user.")
    first = turn.index + 1
    end = first
    while end < len(turns) and turns[end].responses and not turns[end].calls:
        end += 1
    wanted = len(turn.calls)
    given = len(turns[first].responses) if end > first else 0
    total = sum(len(answer.responses) for answer in turns[first:end])
    if given == wanted:
        end = first + 1
    elif total == wanted:
        message = "the responses of one step are spread over several contents."
        findings.add("F3", turns[first + 1].path, message)
    else:
        end = min(end, first + 1)
        message = f"{wanted} function calls are followed by {given} function responses."
        findings.add("F1", turn.path, message)
    for answer in turns[first:end]:
        if answer.role == MODEL:
            findings.add("F2", answer.path, "a function response stands in the model's content.")
    responses = [
        (answer, position, response)
        for answer in turns[first:end]
        for position, response in answer.responses
    ]
    _pair(turn, responses, findings)
    return end


def _pair(turn: Turn, responses: _Responses, findings: Findings) -> None:
    if len(turn.calls) == len(responses) and all(
        call.name == response.name and (call.id or None) == (response.id or None)
        for (_, call), (_, _, response) in zip(turn.calls, responses, strict=True)
    ):
        return
    open_calls = dict(turn.calls)
    last = -1
    disordered = False
    for answer, position, response in responses:
        path = f"{answer.path}.parts[{position}].functionResponse"
        found = _call_of(response, open_calls)
        if found is None:
            findings.add("F6", path, f'no open call fits this response of "{response.name}".')
            continue
        _compare(open_calls.pop(found), response, path, findings)
        disordered = disordered or found < last
        last = found
    if disordered:
        path = responses[0][0].path
        findings.add("F7", path, "the responses are not in the order of their calls.")
    for position, call in open_calls.items():
        path = f"{turn.path}.parts[{position}].functionCall"
        findings.add("F10", path, f'the call of "{call.name}" is not answered.')


def _call_of(response: FunctionResponse, calls: dict[int, FunctionCall]) -> int | None:
    """The call that a response answers: the one with its id, else the first of its name, else,
    when only one is left, that one."""
    if response.id:
        for position, call in calls.items():
            if call.id == response.id:
                return position
    for position, call in calls.items():
        if call.name == response.name and not (call.id and response.id):
            return position
    return next(iter(calls)) if len(calls) == 1 else None


def _compare(call: FunctionCall, response: FunctionResponse, path: str, findings: Findings) -> None:
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
