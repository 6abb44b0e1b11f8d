"""The seam by which a person changes what a call is about to write (TOOLS-21)."""

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from alhena.system.encoding import Codec, encode_text
from alhena.system.errors import printable
from alhena.system.workspace import Workspace
from alhena.tools.contract import ExecutionContext, ToolErrorType, ToolFailure, ToolInvocation
from alhena.tools.editing import EditInvocation, Proposal, ProposedContents, require_encodable
from alhena.tools.matching import with_line_feeds
from alhena.tools.splicing import rewritten

_QUOTED = 10_000
"""Characters of a changed parameter up to which the model is told all of it, else what changed."""

_BOM = "\ufeff"


@runtime_checkable
class ModifiableInvocation(ToolInvocation, Protocol):
    """A call whose proposed content somebody may change before it is written."""

    async def contents(self, context: ExecutionContext) -> ProposedContents | ToolFailure:
        """The file's path, what it holds and what it is to hold; or why the call will fail."""
        ...

    def with_content(self, new_content: str) -> ToolInvocation:
        """The call that writes `new_content`, which is all that the file is to hold, instead.

        The file has to be then what it was when the proposal was made.
        """
        ...


class ModifiedEdit(EditInvocation):
    """An edit of which a person changed the outcome; the model is told."""

    def __init__(
        self, workspace: Workspace, params: dict[str, Any], origin: EditInvocation, content: str
    ) -> None:
        super().__init__(workspace, params)
        self.verb = origin.verb
        self._origin = origin
        self._content = content
        self._proposal: Proposal | None = None
        self.approve()

    async def work_out(self, context: ExecutionContext) -> Proposal | ToolFailure:
        """The person's content for the file that the proposal was made for."""
        outcome = await self._origin.worked_out(context)
        if isinstance(outcome, ToolFailure):
            return outcome
        self._proposal = outcome
        return await super().work_out(context)

    def propose(self, real: Path) -> Proposal | ToolFailure:
        """The person's content; lines that it leaves alone keep their bytes."""
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
        content = with_line_feeds(text, file) if file else text.replace("\r\n", "\n")
        require_encodable(content, codec, self.path)
        raw = rewritten(file, content) if file else text
        proposed = proposal.content if proposal.proposed is None else proposal.proposed
        return Proposal(
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
        """The first proposal with another content."""
        return self._origin.with_content(new_content)

    def modified_params(self, content: str, original: str | None) -> dict[str, Any]:
        """As of the first proposal."""
        return self._origin.modified_params(content, original)

    def modified_parameter(self, proposal: Proposal, content: str) -> tuple[str, str] | None:
        """As of the first proposal."""
        return self._origin.modified_parameter(proposal, content)

    def _note(self, proposal: Proposal, proposed: str, content: str) -> str:
        """What the model is told of the person's change."""
        if content == proposed:
            return ""
        changed = self.modified_parameter(proposal, content)
        if changed is not None and len(changed[1]) <= _QUOTED:
            return f" User modified the `{changed[0]}` to be: {changed[1]}"
        from alhena.tools.diffing import unified_diff

        diff, _ = unified_diff(proposed, content, printable(self.path.name))
        return f" User modified what you proposed:\n{diff[:_QUOTED]}"
