"""The pieces of an answer that takes several requests, and of its calls, put together."""

import re
from copy import deepcopy
from typing import Any, cast

from msgspec.structs import replace

from alhena.errors import StreamCutError
from alhena.wire.content import Content, FunctionCall, Part
from alhena.wire.json_values import as_object
from alhena.wire.response import (
    COUNTS,
    CUT_CALL,
    Candidate,
    FinishReason,
    GenerateContentResponse,
    UsageMetadata,
)


def merge_chunks(chunks: list[GenerateContentResponse]) -> GenerateContentResponse:
    """One response of the chunks of an answer."""
    last = chunks[-1]
    candidate = last.candidates[0] if last.candidates else Candidate()
    parts: list[Part] = []
    for part in (part for chunk in chunks for part in chunk.parts):
        before = parts[-1] if parts else None
        if before is not None and _is_same_text(before, part):
            parts[-1] = replace(part, text=f"{before.text}{part.text}")
        else:
            parts.append(part)
    contents = [each.candidates[0].content for each in chunks if each.candidates]
    role = next((each.role for each in contents if each is not None), None)
    usage = next((each.usage_metadata for each in reversed(chunks) if each.usage_metadata), None)
    content = Content(role=role, parts=tuple(parts)) if parts else candidate.content
    return replace(
        last,
        candidates=(replace(candidate, content=content), *last.candidates[1:]),
        usage_metadata=usage,
    )


def _is_same_text(before: Part, part: Part) -> bool:
    """True if the text of `part` continues that of `before`, which has no signature."""
    if before.text is None or part.text is None or before.thought_signature:
        return False
    alike = Part(text="", thought=part.thought, thought_signature=part.thought_signature)
    return replace(part, text="") == alike and replace(before, text="") == Part(
        text="", thought=part.thought
    )


def sum_usage(spent: UsageMetadata | None, usage: UsageMetadata) -> UsageMetadata:
    """The usage of several requests: each counts its prompt, and what was made before."""
    if spent is None:
        return usage
    counts = {name: getattr(spent, name) + getattr(usage, name) for name in COUNTS}
    return replace(usage, **counts)


class _PartialCall:
    """A call of which pieces came. `part` is the first, which has its name and signature."""

    def __init__(self, part: Part, call: FunctionCall) -> None:
        self.part = part
        self.id = call.id
        self.name = call.name
        self.args: dict[str, Any] = {}

    def add(self, part: Part, call: FunctionCall) -> None:
        """Adds a piece. Raises ValueError for one that fits nowhere."""
        self.id = self.id or call.id
        self.name = self.name or call.name
        if part.thought_signature and not self.part.thought_signature:
            self.part = replace(self.part, thought_signature=part.thought_signature)
        self.args.update(deepcopy(call.args or {}))
        for piece in call.partial_args or ():
            _put(self.args, as_object(piece) or {})

    def whole(self) -> Part:
        """The part of the whole call."""
        made = FunctionCall(id=self.id, name=self.name, args=self.args)
        return replace(self.part, function_call=made)


class CallPieces:
    """Joins the pieces of the calls of an answer."""

    def __init__(self) -> None:
        self._open: list[_PartialCall] = []
        self._broken: str | None = None

    def take(self, part: Part) -> Part | None:
        """The part; of a call in pieces the whole with its last piece, None before."""
        call = part.function_call
        if call is None:
            return part
        found = self._find(call)
        if found is None:
            if not (call.will_continue or call.partial_args):
                return part
            found = _PartialCall(part, call)
            self._open.append(found)
        try:
            found.add(part, call)
        except (ValueError, RecursionError):
            self._broken = found.name or "a tool"
        if call.will_continue:
            return None
        self._open.remove(found)
        return found.whole()

    def end(self, candidate: Candidate) -> Candidate:
        """The end of an answer, which names a call that lacks its last piece or has a wrong
        one."""
        if self._broken is None and not self._open:
            return candidate
        name = self._broken or self._open[-1].name or "a tool"
        if self._broken is None and candidate.finish_reason == FinishReason.MAX_TOKENS:
            return replace(candidate, finish_message=f"{CUT_CALL}{name}")
        if self._broken is None and candidate.finish_reason != FinishReason.STOP:
            return candidate
        return replace(
            candidate,
            finish_reason=FinishReason.MALFORMED_FUNCTION_CALL,
            finish_message=f"the pieces of a call to {name} do not make a whole",
        )

    def _find(self, call: FunctionCall) -> _PartialCall | None:
        """The call that a piece belongs to."""
        for each in reversed(self._open):
            if call.id and each.id and call.id != each.id:
                continue
            if (call.id and call.id == each.id) or call.name in ("", each.name):
                return each
        return None


_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""")


def _steps(path: str) -> list[str | int]:
    """The names and positions of a JSON path such as `$.files[0].text`. Raises ValueError."""
    if not path.startswith("$"):
        raise ValueError(path)
    steps: list[str | int] = []
    at = 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            raise ValueError(path)
        name, position, single, double = found.groups()
        quoted = single if single is not None else double
        if position is not None:
            steps.append(int(position))
        else:
            steps.append(name if quoted is None else re.sub(r"\\(.)", r"\1", quoted))
        at = found.end()
    if not steps:
        raise ValueError(path)
    return steps


def _put(args: dict[str, Any], piece: dict[str, Any]) -> None:
    """Sets a value, or adds to a text, at the piece's place. Raises ValueError."""
    steps = _steps(str(piece.get("jsonPath", "")))
    holder: Any = args
    for step, below in zip(steps, [*steps[1:], None], strict=True):
        if below is None:
            _set(holder, step, _value(piece, _get(holder, step)))
        else:
            if _get(holder, step) is None:
                _set(holder, step, list[Any]() if isinstance(below, int) else dict[str, Any]())
            holder = _get(holder, step)


def _value(piece: dict[str, Any], before: object) -> Any:
    for key in ("numberValue", "boolValue"):
        if key in piece:
            return piece[key]
    if "nullValue" in piece:
        return None
    text = str(piece.get("stringValue", ""))
    return f"{before}{text}" if isinstance(before, str) else text


def _get(holder: object, step: str | int) -> Any:
    if isinstance(holder, dict) and isinstance(step, str):
        return cast("dict[str, Any]", holder).get(step)
    if isinstance(holder, list) and isinstance(step, int):
        items = cast("list[Any]", holder)
        return items[step] if step < len(items) else None
    raise ValueError(step)


def _set(holder: Any, step: str | int, value: Any) -> None:
    """Raises ValueError for a position behind the end of an array."""
    if isinstance(step, int):
        if step > len(holder):
            raise ValueError(step)
        holder[step : step + 1] = [value]
    else:
        holder[step] = value


class RepeatedParts:
    """Parts that were delivered and come once more: they are left out."""

    def __init__(self, parts: list[Part]) -> None:
        self.left = list(parts)

    def fresh(self, part: Part) -> Part | None:
        """The part, or what of it was not delivered yet. Raises StreamCutError for other words."""
        while self.left:
            expected = self.left[0]
            if not _are_texts(part, expected):
                if part != expected:
                    raise _differs()
                del self.left[0]
                return None
            text, said = part.text or "", expected.text or ""
            size = min(len(text), len(said))
            if text[:size] != said[:size]:
                raise _differs()
            if size == len(said):
                del self.left[0]
            else:
                self.left[0] = replace(expected, text=said[size:])
            if size == len(text):
                return replace(part, text="") if part.thought_signature else None
            part = replace(part, text=text[size:])
        return part


def _are_texts(part: Part, expected: Part) -> bool:
    same = bool(part.thought) == bool(expected.thought)
    return part.text is not None and expected.text is not None and same


def _differs() -> StreamCutError:
    return StreamCutError(
        "the model's answer broke off and did not continue in the same words.", remedy="Run again."
    )
