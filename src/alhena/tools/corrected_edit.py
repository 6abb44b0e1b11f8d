"""An edit that looks for similar text too, and has a model correct it once when none is found.

The correction is made only if it is the edit that was asked for (`correction_bound`).
"""

from pathlib import Path
from typing import Any

import msgspec

from alhena.system.encoding import TextFile
from alhena.system.workspace import Workspace
from alhena.tools.contract import ExecutionContext, ToolErrorType, ToolFailure
from alhena.tools.correction import (
    Ask,
    Correction,
    FailedEdit,
    corrected,
    correction_prompt,
    is_correctable,
)
from alhena.tools.correction_bound import Change, refusal
from alhena.tools.editing import CurrentFile, Proposal
from alhena.tools.matching import Match, Rung, find_exact, with_line_feeds
from alhena.tools.omission import omission_placeholder
from alhena.tools.text_edit import TextEdit, places
from alhena.tools.threads import run_blocking


class CorrectedEdit(TextEdit):
    """One edit of one file."""

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

    async def work_out(self, context: ExecutionContext) -> Proposal | ToolFailure:
        """The edit as it was given; when its old text is nowhere, as a model corrects it."""
        missed = await super().work_out(context)
        if (
            self._ask is None
            or not isinstance(missed, ToolFailure)
            or missed.type is not ToolErrorType.EDIT_NO_OCCURRENCE_FOUND
            or self.expected != 1
            or not is_correctable(self.path, self._text)
        ):
            return missed
        edit = FailedEdit(
            instruction=self.params["instruction"],
            old=self.params["old_string"],
            new=self.params["new_string"],
            text=self._text,
            error=missed.message,
        )
        prompt = await run_blocking(context.cancellation, correction_prompt, edit)
        if prompt is None:
            return missed
        answer = await corrected(self._ask, prompt, self._timeout)
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

    def edited(self, real: Path, current: CurrentFile, file: TextFile) -> Proposal | ToolFailure:
        """The edit as given, or as corrected."""
        self._text = file.shown
        if self._correction is None:
            return super().edited(real, current, file)
        search, replace = self._correction.search, self._correction.replace
        if omission_placeholder(self.path, replace, search) is not None:
            return self._refused("its new text is not complete")
        if not search or search == replace:
            return self._refused("it changes nothing")
        match = find_exact(file, search, replace)
        if match is None:
            return self._refused("its old text is not in the file either")
        if match.edits is None:
            return self._refused(f"its old text occurs {match.count} times")
        old, new, search, replace = (
            with_line_feeds(text, file)
            for text in (self.params["old_string"], self.params["new_string"], search, replace)
        )
        problem = refusal(file.text, match.spans[0], Change(old, new), Change(search, replace))
        if problem is not None:
            return self._refused(problem)
        match = msgspec.structs.replace(match, rung=Rung.CORRECTED)
        return self.proposed(real, current, file, match, replace)

    def how(self, file: TextFile, match: Match) -> str:
        """How the old text was found, when that was not as it was given."""
        if self._correction is None:
            return super().how(file, match)
        reason = self._correction.reason or "no explanation was given"
        return (
            " old_string does not occur in the file; a correction by the model was applied at "
            f"{places(file, match, 'line(s) ')}: {reason.rstrip('.')}."
        )

    def _refused(self, reason: str) -> ToolFailure:
        """The miss as it was before the correction, and why that was not made."""
        return ToolFailure(
            f"{self._missed} Correction refused: {reason}.",
            ToolErrorType.EDIT_NO_OCCURRENCE_FOUND,
        )
