"""Asks a model once to correct an edit whose old text is not in the file.

The correction is applied only if it makes the requested change (`correction_bound`).
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from alhena.errors import AlhenaError
from alhena.system.encoding import TextFile
from alhena.system.workspace import Workspace
from alhena.tools.contract import ExecutionContext, ToolErrorType, ToolFailure
from alhena.tools.edit.correction_bound import Change, refusal
from alhena.tools.edit.matching import Match, Rung, find_exact, with_line_feeds
from alhena.tools.edit.proposal import CurrentFile, Proposal, omission_placeholder
from alhena.tools.edit.replacing import TextEdit, places
from alhena.tools.threads import run_blocking

Ask = Callable[[str], Awaitable[str]]
"""Sends a prompt to a model and returns the text of its answer. Raises AlhenaError."""

TIMEOUT_S = 40.0
FILE_LIMIT = 60_000
"""Maximum characters of the file to send; of a larger file, the region around the closest match."""

EDIT_LIMIT = 20_000
"""Characters of instruction, old and new text together; longer edits are not corrected."""

_JSON_ENDINGS = frozenset({
    ".json", ".jsonc", ".json5", ".jsonl", ".ndjson", ".jsonld", ".hjson", ".ipynb",
    ".geojson", ".geojsonl", ".topojson", ".webmanifest", ".importmap", ".har", ".gltf",
    ".map", ".avsc", ".arb", ".sarif", ".tfstate", ".code-workspace", ".sublime-project",
    ".sublime-settings", ".resjson", ".excalidraw", ".mcmeta", ".cdx", ".spdx",
})  # fmt: skip
_JSON_NAMES = frozenset({
    ".eslintrc", ".babelrc", ".prettierrc", ".stylelintrc", ".jshintrc", ".jscsrc", ".swcrc",
    ".bowerrc", ".nycrc", ".lintstagedrc", ".markdownlintrc", ".watchmanconfig",
    "composer.lock", "pipfile.lock", "flake.lock", "deno.lock", "bun.lock",
    "package.resolved",
})  # fmt: skip
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


class FailedEdit(msgspec.Struct, frozen=True, kw_only=True):
    """An edit whose old text was not found in `text`, and the error for the caller."""

    instruction: str
    old: str
    new: str
    text: str
    error: str


def is_correctable(path: Path, text: str) -> bool:
    """False for JSON, by name or content: models get its quoting wrong too easily."""
    name = path.name.lower()
    if name in _JSON_NAMES or path.suffix.lower() in _JSON_ENDINGS:
        return False
    return not (text.lstrip()[:1] in {"{", "["} and _is_json(text))


def _is_json(text: str) -> bool:
    """True when a text, or its first non-blank line, is JSON."""
    for whole in (text, text.lstrip().partition("\n")[0]):
        try:
            found: object = msgspec.json.decode(whole)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue
        if isinstance(found, dict | list) and found:
            return True
    return False


def correction_prompt(edit: FailedEdit) -> str | None:
    """Builds the prompt; None when it would be too long, or no part of the file is similar."""
    from string import Template

    if len(edit.instruction) + len(edit.old) + len(edit.new) > EDIT_LIMIT:
        return None
    text, scope = edit.text, ""
    if len(text) > FILE_LIMIT:
        excerpt = _excerpt(text, edit.old)
        if excerpt is None:
            return None
        text, scope = excerpt, " (only the part of it around the most similar lines)"
    template = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")
    return Template(template).substitute(
        instruction=edit.instruction,
        old=edit.old,
        new=edit.new,
        error=edit.error,
        text=text,
        scope=scope,
    )


async def corrected(ask: Ask, prompt: str, seconds: float = TIMEOUT_S) -> Correction | str:
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
        return msgspec.json.decode(_unfenced(answer), type=Correction)
    except (msgspec.DecodeError, UnicodeError):
        return "A correction was asked for, but the answer was not in the form asked for."


def _unfenced(answer: str) -> str:
    """Removes the fence from an answer that is a single fenced block."""
    text = answer.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        return text[text.index("\n") + 1 : -3]
    return text


def _excerpt(text: str, old: str) -> str | None:
    """Whole lines around the place most similar to `old`, at most FILE_LIMIT characters."""
    from alhena.tools.edit.nearest import nearest_line

    line = nearest_line(text, old)
    if line is None:
        return None
    at = 0
    for _ in range(line):
        at = text.index("\n", at) + 1
    start = max(0, at - FILE_LIMIT // 2)
    end = start + FILE_LIMIT
    if start:
        start = text.find("\n", start, at) + 1 or start
    if end < len(text):
        end = text.rfind("\n", at, end) + 1 or end
    return text[start:end]


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

    async def work_out(self, context: ExecutionContext) -> Proposal | ToolFailure:
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
        """Applies the edit as given or as corrected."""
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
        """Explains the match to the model, unless it was exact."""
        if self._correction is None:
            return super().how(file, match)
        reason = self._correction.reason or "no explanation was given"
        return (
            " old_string does not occur in the file; a correction by the model was applied at "
            f"{places(file, match, 'line(s) ')}: {reason.rstrip('.')}."
        )

    def _refused(self, reason: str) -> ToolFailure:
        """The original failure, with the reason why no correction was applied."""
        return ToolFailure(
            f"{self._missed} Correction refused: {reason}.",
            ToolErrorType.EDIT_NO_OCCURRENCE_FOUND,
        )
