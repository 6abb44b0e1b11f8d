"""A session for people to read, as Markdown, and for programs, as JSON.

What is written here is read alike by every viewer: a fence has more backticks than anything in it
and appears at the beginning of a line, a code span ends on its line (and in its cell of a table),
and outside of these no `<`, `[` and reference to a character is left as such.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from alhena.display_text import one_line
from alhena.session.journal import Extent, read_session
from alhena.session.records import Header, title_of
from alhena.session.replay import Replay
from alhena.session.store import require_readable
from alhena.suspicious_text import write_hidden
from alhena.wire.content import MODEL, EncodedContent, Part, meant_call

_LANGUAGES = (
    "bash c c# c++ clojure console cpp cs css dart diff dockerfile elixir erlang f# go graphql "
    "haskell html ini java javascript js json json5 jsonc jsx julia kotlin lua make makefile "
    "markdown md objc ocaml patch perl php plain powershell proto py python r rb rs ruby rust "
    "scala scss sh shell sql swift tex text toml ts tsx txt typescript xml yaml yml zig zsh"
)
"""Languages that a block of code may say it is in; some viewers carry out what is in others."""

_OPENS = re.compile(r"([ \t]*)(`{3,}(?=[^`]*\Z)|~{3,})(.*)")
_CONTAINERS = re.compile(r"(?:[ \t>]|[-*+](?=[ \t])|[0-9]{1,9}[.)](?=[ \t]))*")
_RULE = re.compile(r"([ \t>]*)([-=*_+][-=*_+ \t]*)")
_PIECE = re.compile(r"\\[!-/:-@\[-`{-~]|`+|\[|<(?=[A-Za-z/!?])|&(?=[#A-Za-z])")
_INDENT = re.compile(r" {4}| {0,3}\t")
_MARK = re.compile(r"[\\`*\[\]<>&#|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}


def inline(text: str) -> str:
    """A text on one line, every character of it as it is."""
    return _MARK.sub(lambda mark: _ENTITIES.get(mark[0], f"\\{mark[0]}"), one_line(text))


def code_block(text: str, language: str = "") -> list[str]:
    """The lines of a block of code."""
    body = write_hidden(text).rstrip("\n")
    longest = max(map(len, re.findall("`+", body)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", body, fence]


def prose(text: str) -> list[str]:
    """The lines of words that are Markdown themselves. Code, lists, quotations, tables and emphasis
    stay; headings, rules, links, images and HTML are kept as written."""
    lines: list[str] = []
    found = write_hidden(text).split("\n")
    at, listed = 0, False
    while at < len(found):
        line = found[at]
        begins = at == 0 or not found[at - 1].strip()
        if opening := _OPENS.fullmatch(line):
            body, at = _block(found, at + 1, opening)
            info = opening[3].strip()
            known = info.lower() in _LANGUAGES.split()
            lines += [] if known or not info else [_line(info)]
            lines += code_block(body, info if known else "")
        elif begins and not listed and line.strip() and _INDENT.match(line):
            body, at = _indented_markdown(found, at)
            lines += code_block(body)
        else:
            containers = _CONTAINERS.match(line)
            marked = containers is not None and bool(containers[0].strip(" \t>"))
            listed = marked or (listed and (not line.strip() or not begins or line[0] in " \t"))
            lines.append(_line(line))
            at += 1
    return lines


def _block(lines: list[str], at: int, opening: re.Match[str]) -> tuple[str, int]:
    """The text between the fence that opens before `at` and its closing one, and the line after
    it."""
    indent, fence, _ = opening.groups()
    closing = re.compile(rf"[ \t]*{fence}{re.escape(fence[0])}*[ \t]*")
    body: list[str] = []
    while at < len(lines) and not closing.fullmatch(lines[at]):
        line = lines[at]
        body.append(line[len(indent) :] if line.startswith(indent) else line.lstrip(" \t"))
        at += 1
    return "\n".join(body), at + 1


def _indented_markdown(lines: list[str], at: int) -> tuple[str, int]:
    """The code that begins at a line as it is indented, and where the rest begins."""
    end = stop = at
    while stop < len(lines) and (_INDENT.match(lines[stop]) or not lines[stop].strip()):
        stop += 1
        end = stop if lines[stop - 1].strip() else end
    return "\n".join(_INDENT.sub("", line, count=1) for line in lines[at:end]), end


def _line(line: str) -> str:
    rule = _RULE.fullmatch(line)
    if rule is not None:
        return f"{rule[1]}\\{rule[2]}"
    containers = _CONTAINERS.match(line.rstrip(" \t"))
    start = containers.end() if containers else 0
    rest = line[start:]
    mark = "\\" if rest.startswith(("#", "~~~")) or _RULE.fullmatch(rest) else ""
    # A table is taken apart before anything else, so that nothing reaches from one cell to another.
    return f"{line[:start]}{mark}{'|'.join(map(_span, rest.split('|')))}"


def _span(text: str) -> str:
    """Words within one line, or one cell."""
    pieces: list[str] = []
    at = 0
    while (found := _PIECE.search(text, at)) is not None:
        pieces.append(text[at : found.start()])
        mark, at = found[0], found.end()
        if mark[0] == "`":
            end = _end_of_code(text, at, len(mark))
            if end is None:
                pieces.append("\\`" * len(mark))
            else:
                pieces.append(text[found.start() : end])
                at = end
        elif mark[-1] in _ENTITIES:
            pieces.append(_ENTITIES[mark[-1]])
        else:
            pieces.append("\\[" if mark == "[" else mark)
    return "".join([*pieces, text[at:]])


def _end_of_code(text: str, start: int, length: int) -> int | None:
    """The end of the code that begins at `start` after an opening run of `length` backticks."""
    runs = re.compile("`+").finditer(text, start)
    return next((run.end() for run in runs if len(run[0]) == length), None)


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A message or a call. `heading` names its author or tool; `body` is prose, or
    with `code` text as it is (`language` for its form). `call_id` is that of a call or a result."""

    at: str
    heading: str
    body: str
    code: bool = False
    language: str = ""
    role: str = "user"
    call_id: str = ""


class _RawContent(msgspec.Struct, frozen=True):
    parts: tuple[msgspec.Raw, ...]


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    """A session that was read. `contents` leave out what the environment said; `earlier` are those
    that are part of the conversation no more, `first` is the first prompt."""

    header: Header
    contents: tuple[tuple[str, EncodedContent], ...]
    earlier: tuple[tuple[str, EncodedContent], ...]
    prompts: int
    first: str
    model: str
    updated: str
    extent: Extent

    @property
    def title(self) -> str:
        """The beginning of the first prompt, or of the first content if none is known."""
        said = self.first or next((piece.body for piece in self.pieces()), "")
        return title_of(said)

    def pieces(self) -> Iterator[Piece]:
        """The current conversation."""
        names = dict[str, str]()
        for at, entry in self.contents:
            yield from _pieces(at, entry, names)

    def earlier_pieces(self) -> Iterator[Piece]:
        """Pieces that were replaced in the conversation."""
        names = dict[str, str]()
        for at, entry in self.earlier:
            yield from _pieces(at, entry, names)


def read_transcript(path: Path, beside: Callable[[bytes], None] | None = None) -> Transcript:
    """The session of a file, as far as it can be trusted; `beside` is given each sound line too.
    Raises SessionError."""
    replay = Replay(whole=True)

    def take(line: bytes) -> None:
        replay.feed(line)
        if beside is not None:
            beside(line)

    extent = read_session(path, take)
    header = require_readable(path, replay.header)
    timed = tuple(zip(replay.times, replay.contents, strict=True))
    return Transcript(
        header=header,
        contents=timed[header.opening :],
        earlier=tuple(replay.superseded),
        prompts=replay.prompts,
        first=replay.first,
        model=replay.model,
        updated=replay.last_at,
        extent=extent,
    )


def facts(transcript: Transcript) -> dict[str, Any]:
    """Metadata of a session."""
    damage = transcript.extent.damage
    header = transcript.header
    return {
        "sessionId": header.session_id,
        "title": transcript.title,
        "project": header.project,
        "started": header.at,
        "updated": transcript.updated,
        "model": transcript.model,
        "prompts": transcript.prompts,
        "contents": len(transcript.contents),
        "version": header.version,
        "writer": header.writer,
        "damagedBytes": 0 if damage is None else damage.size,
    }


def as_json(transcript: Transcript) -> bytes:
    """One document: `session`, and `contents` with their times as `at`, as they are sent."""
    shown = [
        {"at": at, "content": entry.raw, "current": current}
        for entries, current in ((transcript.earlier, False), (transcript.contents, True))
        for at, entry in entries
    ]
    document = msgspec.json.encode({"session": facts(transcript), "contents": shown})
    return msgspec.json.format(document, indent=2) + b"\n"


def as_markdown(transcript: Transcript) -> str:
    """Headings, prose that has none of its own, and fences around the rest."""
    known = facts(transcript)
    lines = [f"# {inline(transcript.title) or 'A session'}", ""]
    lines += [f"- {name}: {inline(str(known[name]))}" for name in _SHOWN if known[name]]
    lines += _markdown(transcript.pieces())
    earlier = _markdown(transcript.earlier_pieces())
    if earlier:
        lines += ["", "---", "", "What follows is not part of the conversation any more.", *earlier]
    return "\n".join(lines) + "\n"


_SHOWN = ("sessionId", "project", "started", "updated", "model", "damagedBytes")


def _markdown(pieces: Iterator[Piece]) -> list[str]:
    lines: list[str] = []
    for piece in pieces:
        level = "###" if piece.code else "##"
        lines += ["", f"{level} {inline(piece.heading)}", ""]
        lines += code_block(piece.body, piece.language) if piece.code else prose(piece.body)
    return lines


def _pieces(at: str, entry: EncodedContent, names: dict[str, str]) -> Iterator[Piece]:
    """The pieces of a content. `names` has the tools of the calls so far, by the calls' ids."""
    content = entry.content
    for place, part in enumerate(content.parts):
        raw = partial(_raw, entry, place)
        if part.function_call is not None:
            call = meant_call(part.function_call)
            names[call.id or ""] = call.name
            part = msgspec.structs.replace(part, function_call=call)
        elif part.function_response is not None:
            response = part.function_response
            name = names.get(response.id or "", response.name)
            part = msgspec.structs.replace(
                part, function_response=msgspec.structs.replace(response, name=name)
            )
        piece = _piece(at, "Model" if content.role == MODEL else "User", part, raw)
        if piece is not None:
            yield msgspec.structs.replace(piece, role="model" if content.role == MODEL else "user")


def _piece(at: str, who: str, part: Part, raw: Callable[[], bytes]) -> Piece | None:
    """Renders a part; an unknown kind gives all of `raw`, because a later version may know more."""
    if part.function_call is not None:
        call = part.function_call
        body = _format_json(msgspec.json.encode(call.args or {}))
        return Piece(
            at=at,
            heading=call.name,
            body=body,
            code=True,
            language="json",
            call_id=call.id or "",
        )
    if part.function_response is not None:
        response = part.function_response
        body = response_text(response.response)
        heading, call_id = f"Result of {response.name}", response.id or ""
        return Piece(at=at, heading=heading, body=body, code=True, call_id=call_id)
    if part.text:
        return Piece(at=at, heading=who, body=part.text)
    if part.inline_data is not None:
        size = len(part.inline_data.data) * 3 // 4
        body = f"{part.inline_data.mime_type}, {size:,} bytes"
        return Piece(at=at, heading=f"{who}: a file", body=body, code=True)
    if part.text == "":
        return None
    body = _format_json(raw())
    return Piece(at=at, heading=f"{who}: something else", body=body, code=True, language="json")


def _raw(entry: EncodedContent, place: int) -> bytes:
    return bytes(msgspec.json.decode(entry.raw, type=_RawContent).parts[place])


def _format_json(data: bytes) -> str:
    return msgspec.json.format(data, indent=2).decode()


def response_text(response: dict[str, Any]) -> str:
    """The response to a call as text: its only text, or indented JSON."""
    if len(response) == 1:
        (value,) = response.values()
        if isinstance(value, str):
            return value
    return _format_json(msgspec.json.encode(response))
