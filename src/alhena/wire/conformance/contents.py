"""What each content must keep by itself (C1-C3, F5, F7-F9, S2, S3)."""

from collections.abc import Sequence
from functools import lru_cache

from msgspec.structs import astuple

from alhena.wire.conformance.rules import Findings
from alhena.wire.content import (
    DATA_FIELDS,
    MODEL,
    SIGNATURE_SENTINEL,
    USER,
    Content,
    FunctionCall,
    FunctionResponse,
    Part,
)

SIGNATURE_STAND_INS = (SIGNATURE_SENTINEL, "context_engineering_is_the_way_to_go")
"""Values the API documents for calls that never had a signature (S4)."""

_ROLES = frozenset({USER, MODEL})
_DATA = len(DATA_FIELDS)  # the first fields of a part (a test holds them to that)


class Turn:
    """What the rules between contents need to know of one content.

    `calls` and `responses` stand with the position of their part.
    """

    __slots__ = ("calls", "index", "responses", "role", "signed")

    def __init__(self, index: int, role: str | None) -> None:
        self.index = index
        self.role = role
        self.calls: list[tuple[int, FunctionCall]] = []
        self.responses: list[tuple[int, FunctionResponse]] = []
        self.signed = False  # the first call carries a signature

    @property
    def path(self) -> str:
        """Where the content stands."""
        return f"contents[{self.index}]"


def read_contents(contents: Sequence[Content], findings: Findings) -> list[Turn]:
    """Checks each content and gives what the rules between them look at."""
    turns: list[Turn] = []
    for index, content in enumerate(contents):
        turn = Turn(index, content.role)
        turns.append(turn)
        if content.role not in _ROLES:
            role = "missing" if content.role is None else f'"{content.role}"'
            findings.add("C1", turn.path, f"the role is {role}; it must be user or model.")
        if not content.parts:
            findings.add("C2", turn.path, "the content has no parts.")
        for position, part in enumerate(content.parts):
            _read_part(turn, position, part, findings)
        if len(turn.calls) > 1 or len(turn.responses) > 1:
            _check_ids(turn, findings)
        if turn.responses and turn.responses[-1][0] >= len(turn.responses):
            findings.add(
                "F7", turn.path, "a function response stands behind a part of another kind."
            )
    return turns


def _read_part(turn: Turn, position: int, part: Part, findings: Findings) -> None:
    # This runs for every part of a history before every send; most parts need no closer look.
    lone = astuple(part)[:_DATA].count(None) == _DATA - 1
    if not lone or part.text == "" or part.thought_signature is not None:
        _check_fields(turn, position, part, findings)
    if lone and part.text is not None:
        return
    call = part.function_call
    if call is not None:
        if not turn.calls:
            turn.signed = bool(part.thought_signature)
        turn.calls.append((position, call))
        if not call.name or (call.args is not None and type(call.args) is not dict):
            _report_call(turn, position, call, findings)
    response = part.function_response
    if response is not None:
        turn.responses.append((position, response))
        _check_response(turn, position, response, findings)


def _check_fields(turn: Turn, position: int, part: Part, findings: Findings) -> None:
    """C3, and the signature."""
    path = f"{turn.path}.parts[{position}]"
    names = [name for name in DATA_FIELDS if getattr(part, name) is not None]
    if not names:
        findings.add("C3", path, "the part holds no data.")
    elif len(names) > 1:
        findings.add("C3", path, f"the part holds several data fields: {', '.join(names)}.")
    elif part.text == "" and not part.thought_signature:
        findings.add("C3", path, "the part is an empty text without a signature.")
    signature = part.thought_signature
    if signature is None:
        return
    if turn.role == USER:
        message = "a thought signature stands on a part of the user's."
        findings.add("S2", f"{path}.thoughtSignature", message)
    if signature not in SIGNATURE_STAND_INS and not _is_base64(signature):
        message = "the thought signature is no standard base64."
        findings.add("S3", f"{path}.thoughtSignature", message)


@lru_cache(maxsize=1024)
def _is_base64(text: str) -> bool:
    from binascii import Error, a2b_base64

    try:
        return bool(a2b_base64(text, strict_mode=True))
    except (Error, ValueError):  # ValueError: characters that are no ASCII
        return False


def _report_call(turn: Turn, position: int, call: FunctionCall, findings: Findings) -> None:
    path = f"{turn.path}.parts[{position}].functionCall"
    if not call.name:
        findings.add("F4", f"{path}.name", "the call names no function.")
    if call.args is not None and type(call.args) is not dict:
        findings.add("F8", f"{path}.args", "args is no JSON object.")


def _check_response(
    turn: Turn, position: int, response: FunctionResponse, findings: Findings
) -> None:
    body = response.response
    plain = type(body) is dict and ("output" in body or "error" in body or not body)
    if plain and response.name and response.parts is None:
        return
    path = f"{turn.path}.parts[{position}].functionResponse"
    if not response.name:
        findings.add("F4", f"{path}.name", "the response names no function.")
    if type(body) is not dict:
        findings.add("F8", f"{path}.response", "response is no JSON object.")
    elif not plain:
        message = "the response has neither an output nor an error key."
        findings.add("F9", f"{path}.response", message)
    for index, media in enumerate(response.parts or ()):
        if (media.inline_data is None) == (media.file_data is None):
            findings.add(
                "C3",
                f"{path}.parts[{index}]",
                "a part of a response holds either inlineData or fileData.",
            )


def _check_ids(turn: Turn, findings: Findings) -> None:
    for kind, items in (("functionCall", turn.calls), ("functionResponse", turn.responses)):
        seen: set[str] = set()
        for position, item in items:
            if item.id and item.id in seen:
                path = f"{turn.path}.parts[{position}].{kind}.id"
                findings.add("F5", path, f'the id "{item.id}" stands twice in this content.')
            seen.add(item.id or "")
