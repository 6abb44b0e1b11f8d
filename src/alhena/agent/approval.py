"""How a session asks its person: about one call at a time."""

import asyncio

from alhena.scheduler.confirm import Approver, ConfirmationRequest, Verdict, asked
from alhena.tools.confirmation import AskUserConfirmation, ToolConfirmationOutcome


def one_at_a_time(approver: Approver) -> Approver:
    """`approver`, asked about one call at a time although subagents work side by side.

    Calls of ask_user pass: the tool puts its questions to the person itself, and that can be
    declined.
    """
    turn = asyncio.Lock()

    async def answer(request: ConfirmationRequest) -> Verdict:
        if isinstance(request.details, AskUserConfirmation):
            return ToolConfirmationOutcome.PROCEED_ONCE
        async with turn:
            return await asked(approver, request)

    return answer
