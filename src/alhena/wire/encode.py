"""Contents are encoded once; a request body is the join of what is encoded already."""

import msgspec

from alhena.wire.content import Content

_encoder = msgspec.json.Encoder()


class EncodedContent:
    """A content beside its JSON bytes. Equal when the bytes are."""

    __slots__ = ("content", "raw")

    def __init__(self, content: Content) -> None:
        self.content = content
        self.raw = msgspec.Raw(_encoder.encode(content))

    def __len__(self) -> int:
        """The number of encoded bytes."""
        return len(memoryview(self.raw))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EncodedContent) and bytes(self.raw) == bytes(other.raw)

    def __hash__(self) -> int:
        return hash(bytes(self.raw))

    def __repr__(self) -> str:
        return f"EncodedContent({bytes(self.raw)!r})"
