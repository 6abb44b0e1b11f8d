"""The common part of replace and smart_edit: finds old text and replaces it, or describes the most
similar lines in the error."""

import re
from bisect import bisect_left
from pathlib import Path
from typing import Any, assert_never

from alhena.system.encoding import Codec, TextFile, encode_text, safe_text
from alhena.system.errors import printable
from alhena.system.workspace import Workspace
from alhena.tools.contract import ToolErrorType, ToolFailure
from alhena.tools.edit.indentation import Pair, indent_of, is_aligned, same_structure
from alhena.tools.edit.matching import (
    MAX_PLACES,
    EditMatch,
    MatchStep,
    find,
    with_line_feeds,
)
from alhena.tools.edit.proposal import (
    CurrentFile,
    EditInvocation,
    EditProposal,
    current_file,
    require_encodable,
)
from alhena.tools.edit.splicing import apply_edits, splice_file

_NAMED = 10


class TextEdit(EditInvocation):
    """An edit of one file; `fuzzy` allows similar text to match."""

    fuzzy = False

    def propose(self, real: Path) -> EditProposal | ToolFailure:
        """Proposes the file with every expected occurrence replaced."""
        current = current_file(real, self._workspace.editor)
        if not self.params["old_string"]:
            return self._propose_new_file(real, current)
        if current is None:
            return self.failure(
                "File not found",
                f"{namesakes(self._workspace, self.path)}Check the path, or give an empty "
                "old_string to create the file.",
                ToolErrorType.FILE_NOT_FOUND,
            )
        if current.text is None:
            return self.failure(
                "Cannot edit binary file",
                "Use write_file or run_shell_command.",
                ToolErrorType.READ_CONTENT_FAILURE,
            )
        if current.text.damaged:
            return self.failure(
                "Cannot edit, nothing was written: the file is not valid "
                f"{current.text.codec.encoding.upper()}",
                "Repair it by run_shell_command, or write the whole file with write_file.",
                ToolErrorType.READ_CONTENT_FAILURE,
            )
        return self.propose_edit(real, current, current.text)

    def propose_edit(
        self, real: Path, current: CurrentFile, file: TextFile
    ) -> EditProposal | ToolFailure:
        """Applies the edit described by the parameters."""
        old, new = self.params["old_string"], self.params["new_string"]
        if with_line_feeds(old) == with_line_feeds(new):
            return self.no_change_failure() if old == new else self._line_ends_only()
        expected = self.expected
        match = find(file, old, new, expected=expected, fuzzy=self.fuzzy)
        if match is None:
            return self._not_found(file, with_line_feeds(old))
        if match.edits is None:
            return self._mismatch(file, match, expected)
        return self.propose_match(real, current, file, match, with_line_feeds(new))

    @property
    def expected(self) -> int | None:
        """Required number of occurrences; None: any number."""
        if "expected_replacements" in self.params:
            return self.params["expected_replacements"]
        return None if self.params.get("allow_multiple") else 1

    def propose_match(
        self, real: Path, current: CurrentFile, file: TextFile, match: EditMatch, new: str
    ) -> EditProposal | ToolFailure:
        """Builds the proposal from a match; `new` is the model's text."""
        edits = match.edits or []
        require_encodable(new, file.codec, self.path)
        content = apply_edits(file.text, edits)
        if content == file.text:
            return self.no_change_failure()
        if problem := python_problem(real, file, match, content):
            return self.failure(
                "Failed to edit, nothing was written: old_string was found "
                f"{_describe_rung(match.rung)} at {places(file, match, 'lines ')}, and with "
                f"new_string indented to match, the Python would no longer parse ({problem}) in "
                "file",
                "Give old_string and new_string with the indentation that the file has.",
                ToolErrorType.EDIT_NO_OCCURRENCE_FOUND,
            )
        strict = file.codec.errors == "strict"
        return EditProposal(
            real=real,
            before=current.digest,
            data=encode_text(splice_file(file, edits), file.codec),
            original=file.shown,
            content=content if strict else safe_text(content),
            message=self._describe_success(match.count) + self.how(file, match),
            file=file,
            place=(edits[0].start, edits[0].end) if strict and len(edits) == 1 else None,
            details=_details(file, match),
        )

    def modified_params(self, content: str, original: str | None) -> dict[str, Any]:
        """Returns the whole file as old and new text."""
        old = self.params["old_string"] if original is None else original
        return {**self.params, "old_string": old, "new_string": content}

    def modified_parameter(self, proposal: EditProposal, content: str) -> tuple[str, str] | None:
        """Returns the new text, if the person changed nothing outside its place."""
        if proposal.original is None:
            return "new_string", content
        if proposal.place is None:
            return None
        start, end = proposal.place
        before, after = proposal.original[:start], proposal.original[end:]
        outside = len(before) + len(after)
        if len(content) < outside or not content.startswith(before) or not content.endswith(after):
            return None
        return "new_string", content[start : len(content) - len(after)]

    def no_change_failure(self) -> ToolFailure:
        """The failure of an edit that changes nothing."""
        return self.failure(
            "No changes to apply. The old_string and new_string are identical in file",
            "Give a new_string that differs.",
            ToolErrorType.EDIT_NO_CHANGE,
        )

    def _line_ends_only(self) -> ToolFailure:
        return self.failure(
            "No changes to apply. The old_string and new_string differ in line ends only, and "
            "those stay as they are in file",
            "To convert line ends use run_shell_command.",
            ToolErrorType.EDIT_NO_CHANGE,
        )

    def failure(self, what: str, remedy: str, type: ToolErrorType) -> ToolFailure:
        """Builds a failure that names the file."""
        return ToolFailure(f"{what}: {printable(self.path)}. {remedy}", type)

    def _propose_new_file(
        self, real: Path, current: CurrentFile | None
    ) -> EditProposal | ToolFailure:
        if current is not None:
            return self.failure(
                "File already exists, cannot create",
                "Give the text to replace as old_string, or use write_file.",
                ToolErrorType.ATTEMPT_TO_CREATE_EXISTING_FILE,
            )
        content: str = self.params["new_string"]
        require_encodable(content, Codec(), self.path)
        return EditProposal(
            real=real,
            before=None,
            data=encode_text(content, Codec()),
            original=None,
            content=content.replace("\r\n", "\n"),
            message=f"Created new file: {printable(self.path)} with provided content.",
        )

    def _describe_success(self, count: int) -> str:
        return f"Successfully modified file: {printable(self.path)} ({count} replacements)."

    def how(self, file: TextFile, match: EditMatch) -> str:
        """Explains the match to the model, unless it was exact."""
        if match.rung is MatchStep.EXACT:
            return ""
        where = places(file, match, "line(s) ")
        if match.rung is MatchStep.FUZZY:
            return f" Applied fuzzy match at {where}."
        return f" old_string was found {_describe_rung(match.rung)} at {where}."

    def _mismatch(self, file: TextFile, match: EditMatch, expected: int | None) -> ToolFailure:
        if match.misplaced:
            return self.failure(
                "Failed to edit, nothing was written: old_string begins within the indentation of "
                f"its line, at {places(file, match, 'lines ')}, and new_string is indented "
                "otherwise than that line in file",
                "Give both with the whole indentation of each line, as the file has it.",
                ToolErrorType.EDIT_NO_OCCURRENCE_FOUND,
            )
        noun = "occurrence" if expected in {1, None} else "occurrences"
        wanted = 1 if expected is None else expected
        how = "" if match.rung is MatchStep.EXACT else f", {_describe_rung(match.rung)},"
        where = places(file, match, "lines ")
        if match.count > MAX_PLACES:
            remedy = "They are too many for one call: do it with a program, by run_shell_command."
        elif match.overlapping:
            remedy = f"They overlap, at {where}: give more of the surrounding lines."
        elif expected is not None and match.count < expected:
            appear = "It appears" if match.count == 1 else "They appear"
            remedy = (
                f"{appear} at {where}. Set expected_replacements to {match.count} if that is all, "
                "or give an old_string that occurs as often as expected."
            )
        else:
            remedy = (
                f"They appear at {where}. Give more of the surrounding lines for one place, or, "
                "if all of them are meant, set expected_replacements to their number or "
                "allow_multiple to true."
            )
        return self.failure(
            f"Failed to edit, Expected {wanted} {noun} but found {match.count} for old_string{how} "
            "in file",
            remedy,
            ToolErrorType.EDIT_EXPECTED_OCCURRENCE_MISMATCH,
        )

    def _not_found(self, file: TextFile, old: str) -> ToolFailure:
        if "\r" in old and "\r" not in file.text:
            hint = "old_string has a carriage return (CR) without a line feed, the file has none."
        else:
            hint = nearest(file.text, old)
        return self.failure(
            "Failed to edit, 0 occurrences found for old_string in file",
            f"{hint} Read the lines with read_file and give old_string exactly as they are, blanks "
            "included.".lstrip(),
            ToolErrorType.EDIT_NO_OCCURRENCE_FOUND,
        )


_PYTHON = frozenset({".py", ".pyi", ".pyw"})
_PARSED = 2_000_000
"""Characters of a file up to which it is parsed."""


def python_problem(path: Path, file: TextFile, match: EditMatch, content: str) -> str:
    """The reason why a Python file that parses would no longer do so after new text was indented;
    "" if it would, or where nothing was."""
    if path.suffix not in _PYTHON or len(content) > _PARSED or match.is_literal(file.text):
        return ""
    return "" if _syntax_problem(file.text) else _syntax_problem(content)


def _syntax_problem(source: str) -> str:
    import ast
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(source)
    except (SyntaxError, ValueError) as error:
        line = f"line {error.lineno}: " if isinstance(error, SyntaxError) else ""
        return line + (error.msg if isinstance(error, SyntaxError) else str(error))
    except (RecursionError, MemoryError):  # nested too deeply for this parser: not known
        return ""
    return ""


def _describe_rung(rung: MatchStep) -> str:
    match rung:
        case MatchStep.EXACT:
            return "exactly"
        case MatchStep.LINE_ENDINGS:
            return "with line ends other than the file's"
        case MatchStep.EQUAL:
            return "with accented letters in another Unicode form"
        case MatchStep.WHITESPACE:
            return "with indentation, or blanks at the ends of lines, other than the file's"
        case MatchStep.TOKENS:
            return "with blanks between its words other than the file's"
        case MatchStep.FUZZY:
            return "by similarity"
        case MatchStep.CORRECTED:
            return "after a correction"
        case _:
            assert_never(rung)


def line_ranges(file: TextFile, match: EditMatch, limit: int = _NAMED) -> list[tuple[int, int]]:
    """First and last line, counted from 1, of the first places of a match."""
    found: list[tuple[int, int]] = []
    line, at = 1, 0
    for start, end in match.spans[:limit]:
        line += file.text.count("\n", at, start)
        at = start
        found.append((line, line + file.text.count("\n", start, max(start, end - 1))))
    return found


def places(file: TextFile, match: EditMatch, noun: str) -> str:
    """The lines of a match in words: "3-5, 9 and 12 more"."""
    ranges = line_ranges(file, match)
    shown = ", ".join(dict.fromkeys(str(a) if a == b else f"{a}-{b}" for a, b in ranges))
    if ", " not in shown and "-" not in shown:
        noun = noun.replace("lines ", "line ")
    # Only some overlapping places are known.
    more = 0 if match.overlapping else match.count - len(ranges)
    return f"{noun}{shown}" + (f" and {more} more" if more > 0 else "")


def _details(file: TextFile, match: EditMatch) -> dict[str, Any]:
    lines = [list(pair) for pair in line_ranges(file, match, 100)]
    return {"rung": match.rung.value, "lines": lines, "replacements": match.count}


_LOOKED_AT = 20_000
_NAMED_NAMESAKES = 3


def namesakes(workspace: Workspace, path: Path) -> str:
    """A sentence that lists up to three files with the same name as `path`; "" when there are none.

    Reads 20,000 entries at most.
    """
    from alhena.system.ignore import IgnoreRules
    from alhena.system.walk import WalkLimits, walk

    found: list[str] = []
    limits = WalkLimits(most=_LOOKED_AT)
    for root in workspace.roots:
        rules = IgnoreRules(root, custom=workspace.filtering.custom_ignore_file_paths)
        for entry in walk(root, rules, limits=limits):
            if entry.name == path.name:
                found.append(printable(workspace.relative(Path(entry.path))))
                if len(found) == _NAMED_NAMESAKES:
                    break
    if not found:
        return ""
    return f"There is {', '.join(dict.fromkeys(found))}. "


_PLACES = 200
_UNINDEXED = 2_000
_LINES = 400_000
_SHOWN = 120
_SIMILAR = 0.6
_RARE, _TELLING = 3, 6
"""A word this rare and this long identifies a line: half the similarity is enough."""
_QUOTES = str.maketrans(
    {"\u2018": '"', "\u2019": '"', "\u201c": '"', "\u201d": '"', "\u00b4": '"', "'": '"', "`": '"'}
)


def nearest(text: str, old: str) -> str:
    """Describes the line closest to `old` and the difference; "" if none is similar."""
    lines, wanted = text.split("\n", _LINES)[:_LINES], old.split("\n")
    start = _start(text, lines, wanted)
    return "" if start is None else _difference(lines, wanted, start)


def nearest_line(text: str, old: str) -> int | None:
    """Index of the line at which the place closest to `old` begins; None if none is similar."""
    lines = text.split("\n", _LINES)[:_LINES]
    start = _start(text, lines, old.split("\n"))
    return None if start is None else max(start, 0)


def _start(text: str, lines: list[str], wanted: list[str]) -> int | None:
    """Index of the line at which the closest place begins; negative if before the first line."""
    anchors = sorted(
        (index for index, line in enumerate(wanted) if line.strip()),
        key=lambda index: -len(wanted[index].strip()),
    )
    if not anchors:
        return None
    for anchor in anchors[:3]:
        key = _squeeze_line(wanted[anchor])
        places = [index for index, line in enumerate(lines) if key in _squeeze_line(line)][:_PLACES]
        if places:
            return max((at - anchor for at in places), key=lambda at: _agreeing(lines, wanted, at))
    return _similar(text, lines, wanted, anchors[0])


def _squeeze_line(line: str) -> str:
    """The line without blanks, in lower case, with one kind of quotes."""
    return _compose_letters("".join(line.split()).lower().translate(_QUOTES))


def _compose_letters(text: str) -> str:
    """Composes letters and combining marks into single characters (NFC)."""
    if text.isascii():
        return text
    import unicodedata

    return unicodedata.normalize("NFC", text)


def _agreeing(lines: list[str], wanted: list[str], start: int) -> int:
    """Number of wanted lines that match from `start` on."""
    here = lines[max(start, 0) : max(start + len(wanted), 0)]
    given = wanted[max(-start, 0) :]
    return sum(_squeeze_line(a) == _squeeze_line(b) for a, b in zip(here, given, strict=False))


def _similar(text: str, lines: list[str], wanted: list[str], anchor: int) -> int | None:
    """Finds the line most similar to the anchor among those with its rarest word."""
    from difflib import SequenceMatcher

    given = wanted[anchor].strip()
    counts = {word: text.count(word) for word in set(re.findall(r"\w{3,}", given[:1000]))}
    found = [(count, word) for word, count in counts.items() if count]
    places, enough = list(range(min(len(lines), _UNINDEXED))), _SIMILAR
    if found:
        count, rarest = min(found)
        if count <= _RARE and len(rarest) >= _TELLING:
            enough = _SIMILAR / 2
        places = [index for index, line in enumerate(lines) if rarest in line][:_PLACES]
    matcher = SequenceMatcher(None, b=given[:_SHOWN])
    best: tuple[float, int] = (enough, -1)
    for place in places:
        matcher.set_seq1(lines[place].strip()[:_SHOWN])
        if matcher.real_quick_ratio() > best[0] and matcher.quick_ratio() > best[0]:
            best = max(best, (matcher.ratio(), -place), key=lambda pair: pair[0])
    return -best[1] - anchor if best[0] > enough else None


def _difference(lines: list[str], wanted: list[str], start: int) -> str:
    offset = _find_wrong_indentation(lines, wanted, start)
    if offset is not None:
        reason = "relative to the lines before it, the indentation differs"
        return _describe_difference(lines, wanted, start, offset, reason)
    for offset, given in enumerate(wanted):
        number = start + offset
        if number < 0:
            continue
        if number >= len(lines):
            return (
                f"The closest place begins at line {max(start, 0) + 1}, but the file ends before "
                f"line {offset + 1} of it."
            )
        if _fits(lines[number], given, first=offset == 0, last=offset == len(wanted) - 1):
            continue
        return _describe_difference(lines, wanted, start, offset, _reason(lines[number], given))
    if start < 0:
        return "The closest place is line 1, but old_string has more lines before it than the file."
    return ""


def _describe_difference(
    lines: list[str], wanted: list[str], start: int, offset: int, reason: str
) -> str:
    return (
        f"The closest place is line {start + offset + 1}: the file has "
        f"{_quote_line(lines[start + offset])}, old_string has {_quote_line(wanted[offset])} "
        f"({reason})."
    )


def _find_wrong_indentation(lines: list[str], wanted: list[str], start: int) -> int | None:
    """The first line with a wrong indentation relative to the lines before it.

    None when there is no such line, or when more than blanks differ.
    """
    here = lines[max(start, 0) : start + len(wanted)]
    if start < 0 or len(here) < len(wanted):
        return None
    rows: list[int] = []
    pairs: list[Pair] = []
    for offset, (line, given) in enumerate(zip(here, wanted, strict=True)):
        theirs, ours = "".join(line.split()), "".join(given.split())
        if theirs == ours != "":
            rows.append(offset)
            pairs.append((indent_of(given), indent_of(line)))
        elif not _fits(theirs, ours, first=offset == 0, last=offset == len(wanted) - 1):
            return None
    if not pairs or is_aligned(pairs):
        return None
    count = bisect_left(range(len(pairs)), True, key=lambda n: not same_structure(pairs[: n + 1]))
    return rows[count]


def _fits(line: str, given: str, *, first: bool, last: bool) -> bool:
    if first and last:
        return given in line
    if first:
        return line.endswith(given)
    return line.startswith(given) if last else line == given


def _reason(line: str, given: str) -> str:
    ours, theirs = "".join(given.split()), "".join(line.split())
    if ours not in theirs:
        return _reason_in_words(theirs, ours)
    if ("\r" in line) != ("\r" in given):
        return "there is a carriage return (CR) in one of them only"
    if ("\t" in indent_of(line)) != ("\t" in indent_of(given)):
        return "tabs and spaces differ"
    if line.lstrip().startswith(given.lstrip()):
        return "the indentation differs"
    if line.rstrip() == given.rstrip():
        return "the blanks at the end of the line differ"
    return "the blanks differ"


def _reason_in_words(theirs: str, ours: str) -> str:
    if ours.lower() in theirs.lower():
        return "upper and lower case differ"
    if ours.translate(_QUOTES) in theirs.translate(_QUOTES):
        return "the quotes differ"
    if _compose_letters(ours) in _compose_letters(theirs):
        return "letters with marks are composed differently: Unicode normalization, NFC and NFD"
    return "the text differs"


def _quote_line(line: str) -> str:
    return repr(line if len(line) <= _SHOWN else line[:_SHOWN] + "\u2026")
