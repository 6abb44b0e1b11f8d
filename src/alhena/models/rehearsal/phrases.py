"""From the words of a prompt to what it asks for."""

import re

import msgspec

from alhena.models.rehearsal import acting, looking
from alhena.models.rehearsal.intents import (
    CallTool,
    ConsultDocs,
    DescribeFolder,
    ExplainProject,
    FindFiles,
    Intent,
    ListFolder,
    NotUnderstood,
    OutlineFile,
    ReadFile,
    Remember,
    ReplaceText,
    RunCommand,
    SearchText,
    WriteFile,
)
from alhena.models.rehearsal.rule import Reading, read_clause
from alhena.models.rehearsal.targets import QUOTED, is_file_name, path_of

LONGEST = 2000
"""Characters of a prompt that are read as a request; a longer one is no plain request."""

MOST_STEPS = 20
"""Steps of one prompt that are carried out."""

_RULES = acting.RULES + looking.RULES
_LEAD = re.compile(
    r"(?:(?:please|pls|kindly|now|also|first(?:ly)?|second(?:ly)?|next|finally|then|and|after\s+that"
    r"|afterwards|hey|hi|hello|ok(?:ay)?|so|just|(?:can|could|would|will)\s+you"
    r"|i(?:'d|\s+would)\s+like\s+(?:you\s+)?to|i\s+(?:want|need)\s+(?:you\s+)?to|let'?s|let\s+us|go\s+ahead\s+and"
    r"|try\s+to|help\s+me(?:\s+to)?)(?:[\s,:!]+|$))+",
    re.IGNORECASE,
)
_TAIL = re.compile(
    r"(?:[\s,]+(?:please|pls|for\s+me|thanks|thank\s+you|right\s+now|too|as\s+well))*[\s.!?…]*$",
    re.IGNORECASE,
)
_SEAM = re.compile(
    rf"{QUOTED}|\{{[^{{}}]*\}}"
    r"|(?P<strong>\s*;\s*|\s*\n\s*|[\s,]+(?:and\s+)?then[\s,]+|[.!?]\s+)"
    r"|(?P<weak>\s*,\s+(?:and\s+)?(?:also\s+)?|\s+and\s+(?:also\s+)?|\s+&\s+)",
    re.IGNORECASE,
)
_BLOCK_HEAD = re.compile(
    r"(?:please\s+)?(?:create|write|make|save|add|overwrite)\s+(?:an?\s+|the\s+)?(?:new\s+)?(?:text\s+)?"
    r"(?:file\s+)?(?:(?:called|named)\s+)?(?P<file>\S+?),?\s+(?:with|containing|saying|that\s+says)"
    r"(?:\s+(?:the\s+)?(?:following\s+)?(?:text|contents?|lines?))?\s*:\s*",
    re.IGNORECASE,
)


class _Piece(msgspec.Struct, frozen=True):
    seam: str
    strong: bool
    text: str


def parse(prompt: str) -> tuple[Intent, ...]:
    """The intents of a prompt in their order; what no rule covers is `NotUnderstood`.

    Of several paragraphs the last is the request: what was piped in comes before it. One exception:
    a first line like "create notes.md with:" takes all that follows as the file's text.
    """
    prompt = prompt.strip()
    block = _block(prompt)
    if block is not None:
        return (block,)
    request = re.split(r"\n[ \t\r]*\n", prompt[-LONGEST - 2 :])[-1].strip()
    if len(request) > LONGEST:
        return (NotUnderstood(request[:80] + "…"),)
    intents: list[Intent] = []
    for clause in _clauses(request):
        intents.extend(_understand(clause, _last_file(intents)))
    if len(intents) > MOST_STEPS:
        over = len(intents) - MOST_STEPS
        intents[MOST_STEPS:] = [NotUnderstood(f"{over} more steps than fit one prompt")]
    return tuple(intents) or (NotUnderstood(request),)


def _block(prompt: str) -> WriteFile | None:
    head, _, rest = prompt.partition("\n")
    match = _BLOCK_HEAD.fullmatch(head[:LONGEST])
    if match is None or not rest.strip():
        return None
    text = rest.strip("\r\n")
    fenced = re.fullmatch(r"```[\w+-]*\n(.*?)\n?```\s*", text, re.DOTALL)
    return WriteFile(path_of(match["file"]), (fenced[1] if fenced else text) + "\n")


def _read(clause: str, last: str) -> Reading | None:
    bare = _LEAD.sub("", clause.strip(), count=1) if _LEAD.match(clause.strip()) else clause.strip()
    trimmed = _TAIL.sub("", bare, count=1)
    return read_clause(_RULES, bare, trimmed, last)


def _pieces(request: str) -> list[_Piece]:
    pieces: list[_Piece] = []
    seam, strong, start = "", True, 0
    for match in _SEAM.finditer(request):
        if match["strong"] is None and match["weak"] is None:
            continue
        pieces.append(_Piece(seam, strong, request[start : match.start()]))
        seam, strong, start = match[0], match["strong"] is not None, match.end()
    pieces.append(_Piece(seam, strong, request[start:]))
    return pieces


def _clauses(request: str) -> list[str]:
    """The request cut where a new step begins: at a seam after which a rule can read on."""
    clauses: list[str] = []
    between = ""
    for piece in _pieces(request):
        between += piece.seam
        if not piece.text.strip():
            continue
        if not clauses or _begins_step(clauses[-1], piece):
            clauses.append(piece.text)
        else:
            clauses[-1] += between + piece.text
        between = ""
    return clauses


def _begins_step(before: str, piece: _Piece) -> bool:
    # "x.py" stands in for the file that "it" may mean: which one it is does not matter here.
    after = _read(piece.text, "x.py")
    if after is None:
        return False
    current = _read(before, "x.py")
    if piece.strong or current is None or not current.free:
        return True
    runs = bool(current.intents) and isinstance(current.intents[0], RunCommand)
    if runs and "and" in piece.seam.lower().split():
        return True
    return not after.free and all(map(_is_firm, after.intents))


def _is_firm(intent: Intent) -> bool:
    """Whether words that follow free text after "and" are surely a step of their own."""
    match intent:
        case ReadFile(path) | OutlineFile(path) | ReplaceText(path=path) | WriteFile(path):
            return is_file_name(path)
        case ListFolder(path) | DescribeFolder(path) | SearchText(path=path):
            return path == "." or "/" in path
        case FindFiles() | ExplainProject() | RunCommand():
            return True
        case Remember() | CallTool() | ConsultDocs() | NotUnderstood():
            return False


def _understand(clause: str, last: str) -> tuple[Intent, ...]:
    """The clause as a whole, or as much of its beginning as a rule covers and the rest as words
    that were not understood."""
    reading = _read(clause, last)
    if reading is not None:
        return reading.intents
    pieces = _pieces(clause)
    for count in range(len(pieces) - 1, 0, -1):
        head = "".join(piece.seam + piece.text for piece in pieces[:count])
        reading = _read(head, last)
        if reading is not None:
            rest = "".join(piece.seam + piece.text for piece in pieces[count:])
            rest = rest.removeprefix(pieces[count].seam)
            return (*reading.intents, NotUnderstood(rest.strip()))
    return (NotUnderstood(clause.strip()),)


def _last_file(intents: list[Intent]) -> str:
    for intent in reversed(intents):
        match intent:
            case ReadFile(path) | OutlineFile(path) | ReplaceText(path=path) | WriteFile(path):
                return path
            case _:
                continue
    return ""
