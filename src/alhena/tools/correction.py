"""Asking a model once for an edit whose old text is not in the file."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from alhena.errors import AlhenaError

Ask = Callable[[str], Awaitable[str]]
"""Gives a prompt to a model and returns the text of its answer. Raises AlhenaError."""

TIMEOUT_S = 40.0
FILE_LIMIT = 60_000
"""Characters of the file that are sent; of a longer one what lies around the closest place."""

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
    """The model's answer: the edit as it should have been, or that none is needed.

    That none is needed may be said by either name: `noChangesRequired` is the one that models know
    from elsewhere.
    """

    search: str
    replace: str
    explanation: str
    no_changes_required: bool = False
    none_required: bool = msgspec.field(default=False, name="noChangesRequired")

    @property
    def needless(self) -> bool:
        """Whether the file already is as the edit wants it."""
        return self.no_changes_required or self.none_required

    @property
    def reason(self) -> str:
        """The explanation as one bounded line."""
        line = " ".join(self.explanation.split())
        return line if len(line) <= _EXPLANATION else line[:_EXPLANATION] + "…"


class FailedEdit(msgspec.Struct, frozen=True, kw_only=True):
    """An edit that found no place in `text`, and what the caller would be told."""

    instruction: str
    old: str
    new: str
    text: str
    error: str


def is_correctable(path: Path, text: str) -> bool:
    """Whether such a file is corrected: in JSON, by its name or by its text, quoting goes wrong too
    easily."""
    name = path.name.lower()
    if name in _JSON_NAMES or path.suffix.lower() in _JSON_ENDINGS:
        return False
    return not (text.lstrip()[:1] in {"{", "["} and _is_json(text))


def _is_json(text: str) -> bool:
    """Whether a text, or the first line of it that is no blank one, is JSON."""
    for whole in (text, text.lstrip().partition("\n")[0]):
        try:
            found: object = msgspec.json.decode(whole)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue
        if isinstance(found, dict | list) and found:
            return True
    return False


def correction_prompt(edit: FailedEdit) -> str | None:
    """What to ask; None when it would be too long, or no part of the file is near."""
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
    """The correction, or why there is none."""
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
    """The inside of an answer that is one fenced block, else the answer."""
    text = answer.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        return text[text.index("\n") + 1 : -3]
    return text


def _excerpt(text: str, old: str) -> str | None:
    """Whole lines around the place most like `old`, FILE_LIMIT characters at most."""
    from alhena.tools.nearest import nearest_line

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
