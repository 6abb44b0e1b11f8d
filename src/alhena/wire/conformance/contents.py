"""Rules for single contents (C1-C3, F5, F7-F9, F12, F13, S2-S6)."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import astuple

from alhena.wire.conformance.rules import Findings
from alhena.wire.content import (
    DATA_FIELDS,
    MODEL,
    SIGNATURE_SENTINEL,
    USER,
    Blob,
    Content,
    FunctionCall,
    FunctionResponse,
    Part,
    takes_media,
)

SIGNATURE_STAND_INS = (SIGNATURE_SENTINEL, "context_engineering_is_the_way_to_go")
"""Documented placeholders for calls that never had a signature (S4)."""

_ROLES = frozenset({USER, MODEL})
_FIELDS = len(Part.__struct_fields__)  # DATA_FIELDS come first
_ARGS = (dict, type(None))
_SIGNATURE = ".thoughtSignature"


class Turn(msgspec.Struct, gc=False):
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


def read_content(index: int, content: Content, findings: Findings, *, forms: bool = True) -> Turn:
    """Checks the content at `index` and returns its properties for the rules between contents.
    `forms` enables the check of signatures (S3)."""
    turn = Turn(index, content.role)
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


def _take_signed(turn: Turn, position: int, part: Part) -> bool:
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


def _report_frame(turn: Turn, content: Content, findings: Findings) -> None:
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


def _check_answers(turn: Turn, content: Content, findings: Findings) -> None:
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


def _read_part(turn: Turn, position: int, part: Part, findings: Findings, *, forms: bool) -> None:
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
    turn: Turn, position: int, part: Part, findings: Findings, *, forms: bool
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


def _check_thought(turn: Turn, position: int, findings: Findings) -> None:
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


def _report_call(turn: Turn, position: int, call: FunctionCall, findings: Findings) -> None:
    path = f"{turn.path}.parts[{position}].functionCall"
    if not call.name:
        findings.add("F4", f"{path}.name", "the call names no function.")
    if type(call.args) not in _ARGS:
        findings.add("F8", f"{path}.args", "args is not a JSON object.")
    if _is_piece(call):
        findings.add("F12", path, "the call is a piece of one that was still being streamed.")


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


def _check_medium(blob: Blob, path: str, findings: Findings) -> None:
    if not takes_media(blob.mime_type):
        message = f'the API takes no media of type "{blob.mime_type}" in the results of a call.'
        findings.add("F13", f"{path}.inlineData.mimeType", message)


def _check_ids(
    turn: Turn,
    kind: str,
    items: Sequence[tuple[int, FunctionCall | FunctionResponse]],
    findings: Findings,
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
