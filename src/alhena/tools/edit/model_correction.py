"""Asks a model once to correct an edit whose old text is not in the file.

The correction is applied only at one exact place, and adds only words of the edit or of that place:
the model has read the file, which may contain injected instructions.
"""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from alhena.errors import AlhenaError
from alhena.system.encoding import TextFile
from alhena.system.workspace import Workspace
from alhena.tools.contract import ExecutionContext, ToolErrorType, ToolFailure
from alhena.tools.edit.matching import EditMatch, MatchStep, find_exact, with_line_feeds
from alhena.tools.edit.proposal import CurrentFile, EditProposal, omission_placeholder
from alhena.tools.edit.replacing import TextEdit, nearest_line, places
from alhena.tools.threads import run_blocking

Ask = Callable[[str], Awaitable[str]]
"""Sends a prompt to a model and returns the text of its answer. Raises AlhenaError."""

TIMEOUT_S = 40.0
FILE_LIMIT = 60_000
"""Maximum characters of the file to send; of a larger file, the region around the closest match."""

EDIT_LIMIT = 20_000
"""Characters of instruction, old and new text together; longer edits are not corrected."""

_LONGER, _SPARE = 2, 60
"""Maximum length of the corrected old text as a multiple of the given one, plus characters."""
_EXPLANATION = 300


class Correction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model's answer: the corrected edit, or the claim that none is needed.

    Both spellings of that claim are accepted: models know `noChangesRequired` from elsewhere.
    """

    search: str
    replace: str
    explanation: str
    no_changes_required: bool = False
    none_required: bool = msgspec.field(default=False, name="noChangesRequired")

    @property
    def needless(self) -> bool:
        """True when the file already contains the change."""
        return self.no_changes_required or self.none_required

    @property
    def reason(self) -> str:
        """The explanation as one bounded line."""
        line = " ".join(self.explanation.split())
        return line if len(line) <= _EXPLANATION else line[:_EXPLANATION] + "…"


def is_correctable(path: Path, text: str) -> bool:
    """False for JSON, by name or content: models get its quoting wrong too easily."""
    suffix = path.suffix.lower()
    if "json" in suffix or suffix == ".ipynb":
        return False
    try:
        return not isinstance(msgspec.json.decode(text), dict | list)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return True


def correction_prompt(params: dict[str, Any], text: str, error: str) -> str | None:
    """Builds the prompt; None when it would be too long, or no part of the file is similar."""
    from string import Template

    instruction, old, new = params["instruction"], params["old_string"], params["new_string"]
    if len(instruction) + len(old) + len(new) > EDIT_LIMIT:
        return None
    scope = ""
    if len(text) > FILE_LIMIT:
        line = nearest_line(text, old)
        if line is None:
            return None
        at = sum(len(each) + 1 for each in text.split("\n", line)[:line])
        text = text[max(at - FILE_LIMIT // 2, 0) : at + FILE_LIMIT // 2]
        scope = " (only the part of it around the most similar lines)"
    template = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")
    return Template(template).substitute(
        instruction=instruction, old=old, new=new, error=error, text=text, scope=scope
    )


async def request_correction(ask: Ask, prompt: str, seconds: float = TIMEOUT_S) -> Correction | str:
    """Returns the correction, or the reason why there is none."""
    import asyncio

    try:
        async with asyncio.timeout(seconds):
            answer = await ask(prompt)
    except TimeoutError:
        return f"A correction was asked for, but none came within {seconds:g} s."
    except AlhenaError as error:
        reason = " ".join(str(error).split())[:_EXPLANATION]
        return f"A correction was asked for, but the model did not answer: {reason}"
    try:
        return msgspec.json.decode(_strip_fence(answer), type=Correction)
    except (msgspec.DecodeError, UnicodeError):
        return "A correction was asked for, but the answer was not in the form asked for."


def _strip_fence(answer: str) -> str:
    """Removes the fence from an answer that is a single fenced block."""
    text = answer.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        return text[text.index("\n") + 1 : -3]
    return text


class CorrectedEdit(TextEdit):
    """An edit of one file, corrected by a model if needed."""

    fuzzy = True

    def __init__(
        self, workspace: Workspace, params: dict[str, Any], ask: Ask | None, timeout: float
    ) -> None:
        super().__init__(workspace, params)
        self._ask = ask
        self._timeout = timeout
        self._text = ""
        self._correction: Correction | None = None
        self._missed = ""

    async def work_out(self, context: ExecutionContext) -> EditProposal | ToolFailure:
        """Applies the edit as given; asks a model for a correction when its old text is not
        found."""
        missed = await super().work_out(context)
        if (
            self._ask is None
            or not isinstance(missed, ToolFailure)
            or missed.type is not ToolErrorType.EDIT_NO_OCCURRENCE_FOUND
            or self.expected != 1
            or not is_correctable(self.path, self._text)
        ):
            return missed
        prompt = await run_blocking(
            context.cancellation, correction_prompt, self.params, self._text, missed.message
        )
        if prompt is None:
            return missed
        answer = await request_correction(self._ask, prompt, self._timeout)
        if isinstance(answer, str):
            return ToolFailure(f"{missed.message} {answer}", missed.type)
        if answer.needless:
            return self.failure(
                "No changes to apply; the file seems to be as the edit wants it "
                f"({answer.reason or 'no explanation was given'})",
                "Read it to make sure.",
                ToolErrorType.EDIT_NO_CHANGE_LLM_JUDGEMENT,
            )
        self._correction, self._missed = answer, missed.message
        return await super().work_out(context)

    def propose_edit(
        self, real: Path, current: CurrentFile, file: TextFile
    ) -> EditProposal | ToolFailure:
        """Applies the edit as given or as corrected."""
        self._text = file.shown
        if self._correction is None:
            return super().propose_edit(real, current, file)
        search, replace = self._correction.search, self._correction.replace
        match = find_exact(file, search, replace) if search and search != replace else None
        problem = self._objection(match, search, replace)
        if match is None or problem is not None:
            return ToolFailure(
                f"{self._missed} Correction refused: {problem}.",
                ToolErrorType.EDIT_NO_OCCURRENCE_FOUND,
            )
        match = msgspec.structs.replace(match, rung=MatchStep.CORRECTED)
        return self.propose_match(real, current, file, match, with_line_feeds(replace))

    def how(self, file: TextFile, match: EditMatch) -> str:
        """Explains the match to the model, unless it was exact."""
        if self._correction is None:
            return super().how(file, match)
        reason = self._correction.reason or "no explanation was given"
        return (
            " old_string does not occur in the file; a correction by the model was applied at "
            f"{places(file, match, 'line(s) ')}: {reason.rstrip('.')}."
        )

    def _objection(self, match: EditMatch | None, search: str, replace: str) -> str | None:
        """The reason why the correction is not applied; None when it is."""
        if not search or search == replace:
            return "it changes nothing"
        if match is None:
            return "its old text is not in the file either"
        if match.edits is None:
            return f"its old text occurs {match.count} times"
        if omission_placeholder(self.path, replace, search) is not None:
            return "its new text is not complete"
        if self.params["new_string"].strip() and not replace.strip():
            return "it takes away what the edit changes"
        if len(search) > _LONGER * len(self.params["old_string"]) + _SPARE:
            return "its old text is much longer than the one given"
        added = _words(replace) - _words(search) - _words(self.params["new_string"])
        return f"it adds {min(added)!r}, which the edit does not" if added else None


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))
