"""A call as a person wants it, and as it is shown to one."""

from collections.abc import Awaitable, Callable

import msgspec

from alhena.policy.names import is_shell
from alhena.scheduler.track import TrackedCall
from alhena.tools.confirmation import ConfirmationDetails, ExecConfirmation
from alhena.tools.contract import ExecutionContext, ToolErrorType, ToolFailure, ToolInvocation
from alhena.tools.editing import ProposedContents
from alhena.tools.modify import ModifiableInvocation
from alhena.tools.registry import RegisteredTool

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


def refined(
    details: ConfirmationDetails, call: TrackedCall, entry: RegisteredTool
) -> ConfirmationDetails:
    """`details`, with all programs of a command as the policy sees them, those inside
    substitutions too."""
    asked = call.asked(entry)
    if not isinstance(details, ExecConfirmation) or not is_shell(asked):
        return details
    from alhena.policy.bash.reader import analyse
    from alhena.policy.bash.suggest import root_commands

    roots = root_commands(analyse(details.command))
    if not roots:
        return details
    return msgspec.structs.replace(details, root_command=", ".join(roots), root_commands=roots)
