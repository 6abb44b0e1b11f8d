"""The calls of an answer as they come: whole, or in pieces that servers mark in their own ways."""

from collections.abc import Iterable
from typing import Any

import msgspec

from alhena.wire.content import FunctionCall, Part
from alhena.wire.dialects.arguments import answered_arguments
from alhena.wire.dialects.conversation import NewId, unique_id
from alhena.wire.dialects.endings import cut_call, malformed_call
from alhena.wire.dialects.fields import Fields
from alhena.wire.dialects.loose import inner, number, word
from alhena.wire.dialects.names import ToolNames
from alhena.wire.plain import as_object
from alhena.wire.response import Candidate

_MOST_TRIES = 200
_NAMELESS = "a tool without a name"


class _Call(msgspec.Struct):
    """A call as its pieces come."""

    id: str = ""
    name: str = ""
    signature: str | None = None
    texts: list[str] = msgspec.field(default_factory=list[str])
    given: dict[str, Any] | None = None
    tries: int = 0

    @property
    def begun(self) -> bool:
        """Whether anything of the arguments has come."""
        return self.given is not None or any(text.strip() for text in self.texts)

    @property
    def args(self) -> dict[str, Any] | None:
        """The arguments; None while they are no JSON object."""
        return self.given if self.given is not None else answered_arguments("".join(self.texts))

    def so_far(self) -> dict[str, Any] | None:
        """The same, without reading all of a text that goes on, again and again: one that was read
        in vain so often belongs to a server that names each piece."""
        goes_on = self.texts and self.texts[0].startswith("{") and self.texts[-1][-1:] != "}"
        if goes_on or self.tries >= _MOST_TRIES:
            return self.given
        found = self.args
        self.tries += found is None
        return found


class _Piece(msgspec.Struct, frozen=True):
    """What one element of `tool_calls` holds."""

    index: int | None
    id: str
    name: str
    text: str
    given: dict[str, Any] | None
    signature: str | None

    @property
    def begun(self) -> bool:
        """Whether it holds anything of the arguments."""
        return self.given is not None or bool(self.text.strip())

    @property
    def args(self) -> dict[str, Any] | None:
        """The arguments, if the piece holds them whole and not only their middle."""
        if self.given is not None:
            return self.given
        return answered_arguments(self.text) if self.text.strip() else None


class Calls:
    """The calls of one answer. `names` are those of the tools that it may call."""

    def __init__(self, names: ToolNames, new_id: NewId) -> None:
        self._names = names
        self._new_id = new_id
        self._calls: list[_Call] = []
        self._at: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}

    def add(self, element: Fields) -> None:
        """A whole call. Raises DialectError for arguments that are neither text nor an object."""
        self._take(self._begin(), _piece(element))

    def feed(self, elements: Iterable[Fields]) -> None:
        """The pieces in one chunk. Raises DialectError as `add` does.

        A piece belongs to the call of its index. Where servers give none, or every call the same,
        a name begins the next one, unless the arguments so far go on with it, or the name does.
        """
        touched: set[int] = set()
        for element in elements:
            piece = _piece(element)
            call = self._found(piece)
            if call is None or not self._continues(call, piece, again=id(call) in touched):
                call = self._begin()
            self._take(call, piece)
            touched.add(id(call))

    def finish(self, *, cut: bool, unended: bool = False) -> tuple[list[Part], Candidate | None]:
        """The calls that can be carried out, and how the answer ends if others cannot. `cut`: it
        ended at the limit of its tokens, so that the last call may not be whole. `unended`: nothing
        said that it ended; without its last call, where nothing of that came but the name, it has
        no reason for its end."""
        parts: list[Part] = []
        taken: set[str] = set()
        end: Candidate | None = None
        for call in self._calls:
            name = self._names.wire(call.name) if call.name else _NAMELESS
            args = call.args
            missing = (cut or unended) and call is self._calls[-1] and not call.begun
            if missing and not cut:
                end = end or Candidate()
                continue
            if args is None or missing or not call.name:
                end = cut_call(name) if cut else malformed_call(name)
                continue
            made = FunctionCall(id=call.id, name=name, args=args)
            made = msgspec.structs.replace(made, id=unique_id(made, self._new_id, taken))
            parts.append(Part(function_call=made, thought_signature=call.signature))
        return parts, end

    def _found(self, piece: _Piece) -> _Call | None:
        """The call to which a piece may belong."""
        if piece.index is not None:
            found = self._at.get(piece.index)
            if found is not None or piece.name or piece.id:
                return found
        elif piece.id:
            known = self._by_id.get(piece.id)
            if known is not None:
                return known
        return self._calls[-1] if self._calls else None

    def _continues(self, call: _Call, piece: _Piece, *, again: bool) -> bool:
        """Whether a piece goes on with the call that it may belong to. `again`: a piece of that
        call came in the same chunk."""
        if not piece.name or not call.name:
            return True
        other = bool(piece.id and call.id and piece.id != call.id)
        if not call.begun:
            return not other and not again and self._goes_on(call, piece)
        if piece.name != call.name:
            return False
        args = call.so_far()
        if args is None:
            return not (other or again) or piece.args is None
        if again or other or (piece.index is None and not piece.id):
            return False
        return not piece.begun or (bool(piece.id) and args in ({}, piece.args))

    def _goes_on(self, call: _Call, piece: _Piece) -> bool:
        """Whether the name of a piece repeats, or goes on with, that of a call that has no
        arguments yet."""
        if piece.name == call.name:
            return piece.index is not None or bool(piece.id)
        joined = _joined(call.name, piece.name)
        if self._names.knows(piece.name):
            return joined == piece.name and not self._names.knows(call.name)
        return self._names.knows(joined) or not self._names.knows(call.name)

    def _begin(self) -> _Call:
        call = _Call()
        self._calls.append(call)
        return call

    def _take(self, call: _Call, piece: _Piece) -> None:
        if piece.index is not None:
            self._at[piece.index] = call
        if piece.id:
            self._by_id[piece.id] = call
        call.id = call.id or piece.id
        if piece.name and not call.begun:
            call.name = _joined(call.name, piece.name)
        call.signature = call.signature or piece.signature
        if piece.text:
            call.texts.append(piece.text)
        call.given = piece.given or call.given or piece.given


def _joined(name: str, more: str) -> str:
    """A name with its next piece, which some servers begin with what they said before."""
    return more if more.startswith(name) else f"{name}{more}"


def _piece(element: Fields) -> _Piece:
    function = inner(element, "function")
    arguments = function.value("arguments")
    is_text = isinstance(arguments, str)
    return _Piece(
        index=number(element, "index"),
        id=word(element, "id") or _numeral(element.value("id")),
        name=word(function, "name") or "",
        text=(function.text("arguments") or "") if is_text else "",
        given=None if is_text or arguments is None else function.plain("arguments"),
        signature=signature_of(element),
    )


def _numeral(value: object) -> str:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def signature_of(holder: Fields) -> str | None:
    """`extra_content.google.thought_signature`, where Google's own endpoint keeps it (V4)."""
    google = as_object((as_object(holder.value("extra_content")) or {}).get("google")) or {}
    return word(Fields(google), "thought_signature") or None
