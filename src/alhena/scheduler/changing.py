"""A call as a person wants it."""

from collections.abc import Awaitable, Callable

from alhena.tools.contract import ExecutionContext, ToolErrorType, ToolFailure, ToolInvocation
from alhena.tools.editing import ProposedContents
from alhena.tools.modify import ModifiableInvocation

UNCHANGED = "The editor left the proposed change as it was."


async def change(
    invocation: ModifiableInvocation,
    given: str | None,
    edit: Callable[[ProposedContents], Awaitable[str | ToolFailure]] | None,
    context: ExecutionContext,
) -> ToolInvocation | ToolFailure:
    """The call that writes what a person wants: `given`, or what they leave in their editor.

    The same call when `given` is what it writes anyway; a failure when the editor fails or leaves
    everything as it was, or when the content cannot be written.
    """
    contents = await invocation.contents(context)
    if isinstance(contents, ToolFailure):
        return contents
    text: str | ToolFailure | None = given
    if text is None:
        text = None if edit is None else await edit(contents)
        if text is None:
            return ToolFailure("There is no editor.", ToolErrorType.EXECUTION_FAILED)
        if text == contents.proposed:
            return ToolFailure(UNCHANGED, ToolErrorType.EXECUTION_FAILED)
    if isinstance(text, ToolFailure):
        return text
    if text == contents.proposed:
        return invocation
    changed = invocation.with_content(text)
    if isinstance(changed, ModifiableInvocation):
        checked = await changed.contents(context)
        if isinstance(checked, ToolFailure):
            return checked
    return changed
