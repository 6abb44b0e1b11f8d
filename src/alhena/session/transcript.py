"""What was said in a session, for people to read: as Markdown, as JSON, as a page."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from alhena.session.markdown import fenced, inline, prose
from alhena.session.reading import Extent, read_session
from alhena.session.records import Header, title_of
from alhena.session.replay import Replay
from alhena.session.store import require_readable
from alhena.suspicious_text import shown
from alhena.wire.content import MODEL, Part
from alhena.wire.encoded import EncodedContent


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was said or done. `heading` says by whom, or which tool; `body` is prose, or
    with `code` text as it is (`language` for its form)."""

    at: str
    heading: str
    body: str
    code: bool = False
    language: str = ""
    role: str = "user"


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
        """The beginning of the first prompt, or of what stands first where none is known."""
        said = self.first or next((piece.body for piece in self.pieces()), "")
        return title_of(said)

    def pieces(self) -> Iterator[Piece]:
        """The conversation as it stands."""
        for at, entry in self.contents:
            yield from _pieces(at, entry)

    def earlier_pieces(self) -> Iterator[Piece]:
        """What is part of it no more."""
        for at, entry in self.earlier:
            yield from _pieces(at, entry)


def read_transcript(path: Path) -> Transcript:
    """The session of a file, as far as it can be trusted. Raises SessionError."""
    replay = Replay(whole=True)
    extent = read_session(path, replay.feed)
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
    """What there is to know of a session besides what was said."""
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


def as_html(transcript: Transcript) -> str:
    """A page of its own, without scripts, that loads nothing."""
    from html import escape

    def told(text: str) -> str:
        return escape(shown(text))

    known = facts(transcript)
    listed = "".join(
        f"<dt>{name}</dt><dd>{told(str(known[name]))}</dd>" for name in _SHOWN if known[name]
    )
    body = "".join(_section(piece, told) for piece in transcript.pieces())
    earlier = "".join(_section(piece, told) for piece in transcript.earlier_pieces())
    if earlier:
        body += f"<hr><h2>Not part of the conversation any more</h2>{earlier}"
    title = told(transcript.title or "A session")
    return f"{_PAGE.format(title=title)}<h1>{title}</h1><dl>{listed}</dl>{body}\n</html>\n"


FORMS: dict[str, Callable[[Transcript], bytes]] = {
    "markdown": lambda transcript: as_markdown(transcript).encode("utf-8", "replace"),
    "json": as_json,
    "html": lambda transcript: as_html(transcript).encode("utf-8", "replace"),
}
"""The forms of an export."""

_SHOWN = ("sessionId", "project", "started", "updated", "model", "damagedBytes")

_PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
body {{ max-width: 60rem; margin: 2rem auto; padding: 0 1rem; font-family: sans-serif; }}
pre {{ white-space: pre-wrap; overflow-wrap: anywhere; background: #8881; padding: .7rem; }}
section {{ margin: 1.2rem 0; padding-left: .8rem; border-left: .25rem solid #8886; }}
section.model {{ border-color: #47c; }}
h3 small, dt {{ color: #888; font-weight: normal; }}
dt {{ float: left; width: 8rem; }}
</style>
"""


def _section(piece: Piece, told: Callable[[str], str]) -> str:
    heading = f"<bdi>{told(piece.heading)}</bdi> <small>{told(piece.at)}</small>"
    return (
        f'<section class="{piece.role}"><h3>{heading}</h3><pre>{told(piece.body)}</pre></section>'
    )


def _markdown(pieces: Iterator[Piece]) -> list[str]:
    lines: list[str] = []
    for piece in pieces:
        level = "###" if piece.code else "##"
        lines += ["", f"{level} {inline(piece.heading)}", ""]
        lines += fenced(piece.body, piece.language) if piece.code else prose(piece.body)
    return lines


def _pieces(at: str, entry: EncodedContent) -> Iterator[Piece]:
    content = entry.content
    for place, part in enumerate(content.parts):
        raw = partial(_raw, entry, place)
        piece = _piece(at, "Model" if content.role == MODEL else "User", part, raw)
        if piece is not None:
            yield msgspec.structs.replace(piece, role="model" if content.role == MODEL else "user")


def _piece(at: str, who: str, part: Part, raw: Callable[[], bytes]) -> Piece | None:
    """What a part says; of one that is of another kind all that was written, `raw`, as a later
    version may know more of it."""
    if part.function_call is not None:
        call = part.function_call
        body = _indented(msgspec.json.encode(call.args or {}))
        return Piece(at=at, heading=f"Call of {call.name}", body=body, code=True, language="json")
    if part.function_response is not None:
        response = part.function_response
        body = _result(response.response)
        return Piece(at=at, heading=f"Result of {response.name}", body=body, code=True)
    if part.text:
        return Piece(at=at, heading=who, body=part.text)
    if part.inline_data is not None:
        size = len(part.inline_data.data) * 3 // 4
        body = f"{part.inline_data.mime_type}, {size:,} bytes"
        return Piece(at=at, heading=f"{who}: a file", body=body, code=True)
    if part.text == "":
        return None
    body = _indented(raw())
    return Piece(at=at, heading=f"{who}: something else", body=body, code=True, language="json")


def _raw(entry: EncodedContent, place: int) -> bytes:
    return bytes(msgspec.json.decode(entry.raw, type=_RawContent).parts[place])


def _indented(data: bytes) -> str:
    return msgspec.json.format(data, indent=2).decode()


def _result(response: dict[str, Any]) -> str:
    if len(response) == 1:
        (value,) = response.values()
        if isinstance(value, str):
            return value
    return _indented(msgspec.json.encode(response))
