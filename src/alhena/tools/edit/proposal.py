"""Proposed change of one file: checks it, shows the diff, writes it; refuses placeholders for
omitted code."""

import os
import re
from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from alhena.system.encoding import (
    SAMPLE_SIZE,
    Codec,
    TextFile,
    decode_text,
    encode_text,
    is_binary,
    unencodable,
)
from alhena.system.errors import (
    ChangedFileError,
    FileError,
    MissingFileError,
    ReadFailureError,
    UnencodableTextError,
    printable,
)
from alhena.system.files import read_whole
from alhena.system.workspace import EditorFiles, Workspace
from alhena.tools.base import (
    BaseInvocation,
    failed_result,
    failure_of,
    is_kept_from_model,
    path_problem,
    real_location,
)
from alhena.tools.contract import (
    EditConfirmation,
    ExecutionContext,
    FileDiff,
    ProposedContents,
    ToolErrorType,
    ToolFailure,
    ToolInvocation,
    ToolLocation,
    ToolResult,
)
from alhena.tools.edit.matching import with_line_feeds
from alhena.tools.edit.splicing import rewritten
from alhena.tools.threads import run_blocking
from alhena.values import Value

if TYPE_CHECKING:
    from alhena.tools.edit.splicing import Window


EDIT_LIMIT = 64_000_000
"""Bytes of the largest file that is edited or overwritten."""


class CurrentFile(msgspec.Struct, frozen=True):
    """A file's current state: its text (None for a binary file) and the digest of its bytes."""

    text: TextFile | None
    digest: bytes


class EditProposal(Value, frozen=True, kw_only=True):
    """A change ready to be shown and applied. Texts have LF line endings; `original` None: new
    file.

    `file` is the file as read, None for a new or binary file. `proposed` is the model's content
    when a person changed it. `place` is the one range of `original` that changes, None when several
    ranges or the whole text change. `placeholder` is a new line in place of omitted code;
    writing it needs a person's approval.
    """

    real: Path
    before: bytes | None
    data: bytes
    original: str | None
    content: str
    message: str
    file: TextFile | None = None
    proposed: str | None = None
    place: tuple[int, int] | None = None
    details: dict[str, Any] | None = None
    placeholder: str | None = None


def current_file(real: Path, editor: EditorFiles | None = None) -> CurrentFile | None:
    """Reads the file at a real path, its text as the editor has it; None when there is none. Raises
    FileError."""
    try:
        data, digest = read_whole(real, EDIT_LIMIT)
    except MissingFileError:
        return None
    if is_binary(data[:SAMPLE_SIZE]):
        return CurrentFile(None, digest)
    shown = None if editor is None else editor.read(real)
    return CurrentFile(decode_text(data if shown is None else shown.encode()), digest)


def require_encodable(text: str, codec: Codec, path: Path) -> None:
    """Raises UnencodableTextError when the file's encoding lacks a character of `text`."""
    lacking = unencodable(text, codec)
    if lacking is None:
        return
    if codec.encoding.startswith("utf"):
        raise UnencodableTextError(
            f"The text for {printable(path)} holds U+{ord(lacking):04X}, half of a surrogate pair, "
            "which is no character.",
            remedy="Give the text without it.",
        )
    raise UnencodableTextError(
        f"File {printable(path)} is encoded in {codec.encoding}, which has no character "
        f"{lacking!r} (U+{ord(lacking):04X}); nothing was written.",
        remedy="Use characters of that encoding, or convert the file to UTF-8 first.",
    )


def target_problem(workspace: Workspace, path: str) -> ToolFailure | None:
    """The reason why a model's `file_path` cannot be changed."""
    problem = path_problem(workspace, path, "file_path")
    if problem is None and path.endswith("/"):
        return ToolFailure(
            f"Path is a directory, not a file: {printable(path)}. Give the path of the file, "
            "without a slash at its end.",
            ToolErrorType.TARGET_IS_DIRECTORY,
        )
    return problem


class EditInvocation(BaseInvocation):
    """A change of one file. It writes exactly what was approved, or nothing."""

    verb = "Edit"
    parameter = "new_string"
    """The parameter that holds the new text."""

    def __init__(self, workspace: Workspace, params: dict[str, Any]) -> None:
        super().__init__(params)
        self._workspace = workspace
        self.path = workspace.resolve(params["file_path"])
        self.shown = printable(workspace.relative(self.path))
        self._name = printable(self.path.name)
        self._outcome: EditProposal | ToolFailure | None = None
        self._approved = False

    @abstractmethod
    def propose(self, real: Path) -> EditProposal | ToolFailure:
        """Computes the change to the file at a real path without applying it. Raises FileError."""

    def describe(self) -> str:
        """Names the file."""
        return f"{self.verb} {self.shown}"

    def locations(self) -> tuple[ToolLocation, ...]:
        """The file."""
        return (ToolLocation(printable(self.path)),)

    async def confirmation(self, context: ExecutionContext) -> EditConfirmation | None:
        """Shows the diff. None when the change is impossible: `execute` then reports the reason."""
        outcome = await self.cached_proposal(context)
        if isinstance(outcome, ToolFailure):
            return None
        from alhena.tools.edit.splicing import unified_diff

        diff, _ = unified_diff(outcome.original or "", outcome.content, self._name)
        placeholder = outcome.placeholder
        return EditConfirmation(
            title=f"Confirm {self.verb}: {self.shown}",
            file_path=printable(self.path),
            file_name=self._name,
            file_diff=diff,
            original_content=outcome.original,
            new_content=outcome.content,
            is_new_file=outcome.before is None,
            warnings=() if placeholder is None else (f"code may be left out: {placeholder}",),
        )

    def approve(self) -> None:
        """Allows a placeholder: a person has seen it."""
        self._approved = True

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Applies the change."""
        outcome = await self.cached_proposal(context)
        if isinstance(outcome, ToolFailure):
            return failed_result(outcome)
        if outcome.placeholder is not None and not self._approved:
            return ToolResult.from_failure(
                f"`{self.parameter}` contains an omission placeholder (for example 'rest of "
                f"methods ...'): {outcome.placeholder!r}. Provide the complete text.",
                ToolErrorType.INVALID_TOOL_PARAMS,
            )
        try:
            return await run_blocking(context.cancellation, self._write, outcome, context)
        except FileError as error:
            return failed_result(failure_of(error))

    async def contents(self, context: ExecutionContext) -> ProposedContents | ToolFailure:
        """The file's current and proposed content, to be viewed or changed."""
        outcome = await self.cached_proposal(context)
        if isinstance(outcome, ToolFailure):
            return outcome
        return ProposedContents(printable(self.path), outcome.original, outcome.content)

    def with_content(self, new_content: str) -> ToolInvocation:
        """Returns this call with a person's content for the whole file."""

        original = self._outcome.original if isinstance(self._outcome, EditProposal) else None
        params = {**self.modified_params(new_content, original), "modified_by_user": True}
        return ModifiedEdit(self._workspace, params, self, new_content)

    @abstractmethod
    def modified_params(self, content: str, original: str | None) -> dict[str, Any]:
        """The parameters of a call that changes the file from `original` to `content`."""

    @abstractmethod
    def modified_parameter(self, proposal: EditProposal, content: str) -> tuple[str, str] | None:
        """The parameter changed by a person's `content`, and its new value.

        None when no single value gives that content.
        """

    async def cached_proposal(self, context: ExecutionContext) -> EditProposal | ToolFailure:
        """Computes the change once and caches it, failures too: the approved change must not become
        another."""
        if self._outcome is None:
            self._outcome = await self.work_out(context)
        return self._outcome

    async def work_out(self, context: ExecutionContext) -> EditProposal | ToolFailure:
        """Computes the change to the current file."""
        return await run_blocking(context.cancellation, self._build_proposal)

    def _build_proposal(self) -> EditProposal | ToolFailure:
        real = real_location(self._workspace, self.path)
        if isinstance(real, ToolFailure):
            return real
        if os.path.lexists(real) and is_kept_from_model(self._workspace, real, self.path):
            # The model must not even see its lines around an edit.
            return ToolFailure.of_params(
                f"File path '{printable(self.path)}' is ignored by configured ignore patterns. It "
                "was left as it is.",
            )
        try:
            proposal = self.propose(real)
        except FileError as error:
            return self._preparation_failure(error)
        if isinstance(proposal, ToolFailure):
            return proposal

        found = omission_placeholder(self.path, proposal.content, proposal.original or "")
        return msgspec.structs.replace(proposal, placeholder=found)

    def _preparation_failure(self, error: FileError) -> ToolFailure:
        """Converts the error to the failure of a change that could not be computed."""
        if isinstance(error, ReadFailureError):
            return ToolFailure(
                f"Error preparing edit: {error} Nothing was written. Look at the file with "
                "run_shell_command.",
                ToolErrorType.EDIT_PREPARATION_FAILURE,
            )
        return failure_of(error)

    def _write(self, proposal: EditProposal, context: ExecutionContext) -> ToolResult:
        from alhena.tools.edit.splicing import changed_window, diff_of, diff_stat

        others = self._replace(proposal, context)
        original = proposal.original or ""
        window = changed_window(original, proposal.content, CONTEXT)
        diff, stat = diff_of(window, self._name)
        if proposal.proposed is not None:
            stat = diff_stat(original, proposal.proposed, proposal.content)
        display = FileDiff(
            file_diff=diff,
            file_name=self._name,
            file_path=printable(self.path),
            original_content=proposal.original,
            new_content=proposal.content,
            diff_stat=stat,
        )
        message = proposal.message
        if others:
            names = "name" if others == 1 else "names"
            message += f" The file has {others} more {names} (hard links), with the same content."
        if proposal.original is not None and proposal.content != proposal.original:
            snippet = snippet_of(window)
            message += f" Here is the updated code:\n{snippet}" if snippet else " It is empty now."
        return ToolResult(llm_content=message, display=display, data=proposal.details)

    def _replace(self, proposal: EditProposal, context: ExecutionContext) -> int:
        """Writes the file, and returns the number of its further names; through the editor, if
        there is one and it still has the text that was changed."""
        editor = self._workspace.editor
        if editor is None:
            from alhena.system.replacement import replace_file

            return replace_file(
                proposal.real,
                proposal.data,
                expected=proposal.before,
                limit=EDIT_LIMIT,
                cancellation=context.cancellation,
            )
        if proposal.file is not None:
            current = current_file(proposal.real, editor)
            if current is None or current.text is None or current.text.raw != proposal.file.raw:
                raise ChangedFileError(
                    f"File {printable(self.path)} has changed meanwhile; nothing was written.",
                    remedy="Read it again.",
                )
        editor.write(proposal.real, decode_text(proposal.data).raw)
        return 0


_PLACEHOLDER = (
    r"(?:(?://|#|/\*|<!--|--|;|%|\*|\{/\*) ?)?\(? ?(?:(?:\.\.\.|\u2026) ?)?"
    r"(?:(?:the )?rest of (?:the )?|remaining |unchanged |existing )"
    r"(?:code|methods?|functions?|file|class|content|lines|implementation|imports)"
    r" ?(?:\.\.\.|\u2026) ?\)? ?(?:\*/\}?|-->)?"
)
_LONGEST = 120
_PROSE = frozenset({".adoc", ".markdown", ".md", ".mdx", ".org", ".rst", ".tex", ".text", ".txt"})
_QUOTES = ('"""', "'''", "`")
"""Delimiters of multi-line strings."""


def omission_placeholder(path: Path, text: str, known: str) -> str | None:
    """The first placeholder for omitted code in `text`, the proposed content of `path`; None
    without.

    Prose, multi-line strings and lines already in the file (`known`) are not searched.
    """
    prose = path.suffix.lower() in _PROSE or (not path.suffix and path.name.isupper())  # README
    if prose or not ("..." in text or "\u2026" in text):
        return None
    at = 0
    for line in text.split("\n"):
        stripped = line.strip()
        # Single blanks keep the pattern from backtracking.
        if (
            len(stripped) <= _LONGEST
            and ("..." in stripped or "\u2026" in stripped)
            and re.fullmatch(_PLACEHOLDER, " ".join(stripped.split()), re.IGNORECASE)
            and stripped not in known
            and not any(text.count(quote, 0, at) % 2 for quote in _QUOTES)
        ):
            return stripped
        at += len(line) + 1
    return None


CONTEXT = 5
_LINES = 80
_REGION = 30
_LINE = 300
GAP = "..."


def snippet_of(window: "Window") -> str:
    """The changed regions of the new text with five lines around each, gaps as "..."; bounded.

    At most 80 lines of at most 300 characters; a region over 30 lines loses its middle. The window
    has at least five lines of context.
    """
    lines = [line.rstrip("\n") for line in window.after]
    from alhena.tools.edit.splicing import group_changes

    out: list[str] = []
    end = 0
    for group in group_changes(window.changes, CONTEXT):
        start, stop = max(group[0][3] - CONTEXT, 0), min(group[-1][4] + CONTEXT, len(lines))
        if len(out) >= _LINES:
            out.append(GAP)
            break
        if start > end or (start == 0 and window.base):
            out.append(GAP)
        out += _region(lines[start:stop])
        end = stop
    else:
        if not window.ends:
            out.append(GAP)
    return "\n".join(line if len(line) <= _LINE else line[:_LINE] + "\u2026" for line in out)


def _region(lines: list[str]) -> list[str]:
    if len(lines) <= _REGION:
        return lines
    return [*lines[: _REGION // 2], GAP, *lines[-_REGION // 2 :]]


_QUOTED = 10_000
"""Characters up to which a changed parameter is reported whole to the model, else as a diff."""


_BOM = "\ufeff"


class ModifiedEdit(EditInvocation):
    """An edit whose result a person changed; the model is notified."""

    def __init__(
        self, workspace: Workspace, params: dict[str, Any], origin: EditInvocation, content: str
    ) -> None:
        super().__init__(workspace, params)
        self.verb = origin.verb
        self._origin = origin
        self._content = content
        self._proposal: EditProposal | None = None
        self.approve()

    async def work_out(self, context: ExecutionContext) -> EditProposal | ToolFailure:
        """Returns the person's content for the file of the proposal."""
        outcome = await self._origin.cached_proposal(context)
        if isinstance(outcome, ToolFailure):
            return outcome
        self._proposal = outcome
        return await super().work_out(context)

    def propose(self, real: Path) -> EditProposal | ToolFailure:
        """Proposes the person's content; unchanged lines keep their bytes."""
        proposal = self._proposal
        if proposal is None or proposal.real != real:
            return ToolFailure(
                f"The path leads elsewhere since the change was proposed: {printable(self.path)}; "
                "nothing was written.",
                ToolErrorType.FILE_WRITE_FAILURE,
            )
        file = proposal.file
        codec = file.codec if file else Codec()
        text = self._content.removeprefix(_BOM) if codec.bom else self._content
        content = with_line_feeds(text)
        require_encodable(content, codec, self.path)
        raw = rewritten(file, content) if file else text
        proposed = proposal.content if proposal.proposed is None else proposal.proposed
        return EditProposal(
            real=real,
            before=proposal.before,
            data=encode_text(raw, codec),
            original=proposal.original,
            content=content,
            message=proposal.message + self._note(proposal, proposed, content),
            file=file,
            proposed=proposed,
            place=proposal.place,
            details=proposal.details,
        )

    def with_content(self, new_content: str) -> ToolInvocation:
        """Returns the original proposal with different content."""
        return self._origin.with_content(new_content)

    def modified_params(self, content: str, original: str | None) -> dict[str, Any]:
        """Delegates to the original proposal."""
        return self._origin.modified_params(content, original)

    def modified_parameter(self, proposal: EditProposal, content: str) -> tuple[str, str] | None:
        """Delegates to the original proposal."""
        return self._origin.modified_parameter(proposal, content)

    def _note(self, proposal: EditProposal, proposed: str, content: str) -> str:
        """Describes the person's change to the model."""
        if content == proposed:
            return ""
        changed = self.modified_parameter(proposal, content)
        if changed is not None and len(changed[1]) <= _QUOTED:
            return f" User modified the `{changed[0]}` to be: {changed[1]}"
        from alhena.tools.edit.splicing import unified_diff

        diff, _ = unified_diff(proposed, content, printable(self.path.name))
        return f" User modified what you proposed:\n{diff[:_QUOTED]}"


async def find_vain_edit(
    invocation: EditInvocation, shown: object, context: ExecutionContext
) -> ToolFailure | None:
    """The failure of an edit that cannot be made, or changes nothing: there is no question to ask
    about it. `shown` is what `confirmation` returned."""
    if shown is None:
        found = await invocation.contents(context)
        return found if isinstance(found, ToolFailure) else None
    if isinstance(shown, EditConfirmation) and shown.original_content == shown.new_content:
        words = f"{invocation.shown} has this content already: nothing to change."
        return ToolFailure(words, ToolErrorType.EDIT_NO_CHANGE)
    return None
