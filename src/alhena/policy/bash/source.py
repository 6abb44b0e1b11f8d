"""A command line as the reader sees it: one character per byte, here documents set aside."""

import msgspec


class HereDocument(msgspec.Struct, frozen=True):
    """`<<WORD` and its body; `start` and `stop` are offsets of the body, its last line excluded."""

    delimiter: str
    quoted: bool
    strips_tabs: bool
    operator_stop: int
    start: int
    stop: int


class Source(msgspec.Struct, frozen=True):
    """`raw` holds one character per UTF-8 byte, so offsets are those of the parser. `text` is the
    same with here documents blanked out (and, in long commands, what stands between quotes): it is
    what is parsed and scanned. Not `certain`: bash may see the quotes or documents otherwise.
    """

    raw: str
    text: str
    ascii: bool
    documents: dict[int, HereDocument] = {}
    certain: bool = True

    def decode(self, text: str) -> str:
        """Characters as people write them, of a slice of `raw`."""
        if self.ascii:
            return text
        return text.encode("latin-1").decode("utf-8", "replace")

    def written(self, start: int, stop: int) -> str:
        """The command as written between two offsets."""
        return self.decode(self.raw[start:stop])


def plain_source(command: str, data: bytes) -> Source:
    """The command as it is; `data` is its UTF-8 form."""
    if command.isascii():
        return Source(command, command, ascii=True)
    raw = data.decode("latin-1")
    return Source(raw, raw, ascii=False)
