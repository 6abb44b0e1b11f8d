"""A person's answers to calls that need one, through the MCP client (elicitation)."""

import asyncio
import secrets
from typing import Any

import msgspec
from mcp_types import ElicitRequestFormParams, ElicitResult

from alhena.display_text import escaped, one_line
from alhena.scheduler.confirm import Answer, ConfirmationRequest
from alhena.tools.confirmation import (
    AskUserConfirmation,
    ConfirmationDetails,
    EditConfirmation,
    ExecConfirmation,
    ExitPlanModeConfirmation,
    InfoConfirmation,
    McpConfirmation,
    ToolConfirmationOutcome,
)

WORDS = {
    ToolConfirmationOutcome.PROCEED_ONCE: "Allow once",
    ToolConfirmationOutcome.PROCEED_ALWAYS: "Allow from now on",
    ToolConfirmationOutcome.PROCEED_ALWAYS_AND_SAVE: "Allow from now on, in later sessions too",
    ToolConfirmationOutcome.PROCEED_ALWAYS_TOOL: "Allow this tool from now on",
    ToolConfirmationOutcome.PROCEED_ALWAYS_SERVER: "Allow this server from now on",
    ToolConfirmationOutcome.CANCEL: "Do not allow",
}
FIELD = "answer"
MOST_SHOWN = 8_000
"""Characters of a command or a difference that a question shows."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits. `token` names it where the answer comes with another request."""

    request: ConfirmationRequest
    answer: "asyncio.Future[Answer]"
    token: str

    @classmethod
    def about(cls, request: ConfirmationRequest) -> "Question":
        """A question whose answer is still open."""
        made: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        return cls(request=request, answer=made, token=secrets.token_urlsafe(18))

    def form(self) -> ElicitRequestFormParams:
        """The question as a form with one field: what may be answered."""
        choices = [WORDS[each] for each in _outcomes(self.request)]
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {FIELD: {"type": "string", "title": "Allow it?", "enum": choices}},
            "required": [FIELD],
        }
        return ElicitRequestFormParams(message=_message(self.request), requested_schema=schema)

    def take(self, result: ElicitResult | None) -> None:
        """What the client says; anything but a choice of those offered means no."""
        if self.answer.done():
            return
        said = (result.content or {}).get(FIELD) if result and result.action == "accept" else None
        outcomes = _outcomes(self.request)
        chosen = next((each for each in outcomes if WORDS[each] == said), None)
        self.answer.set_result(Answer(chosen or ToolConfirmationOutcome.CANCEL))


def _outcomes(request: ConfirmationRequest) -> list[ToolConfirmationOutcome]:
    given = [ToolConfirmationOutcome(each) for each in request.outcomes]
    return [each for each in given if each in WORDS]


def _message(request: ConfirmationRequest) -> str:
    details = request.details
    lines = [one_line(details.title), escaped(_shown(details)[:MOST_SHOWN], block=True)]
    if request.reason:
        lines.append(f"Asked because {one_line(request.reason)}")
    lines += (f"Warning: {one_line(each)}" for each in getattr(details, "warnings", ()))
    for rule in request.lasting:
        lines.append(f"From now on: {one_line(rule.words)}")
    return "\n".join(filter(None, lines))


def _shown(details: ConfirmationDetails) -> str:
    match details:
        case ExecConfirmation():
            return details.command_shown
        case EditConfirmation():
            return f"{details.file_path}\n{details.file_diff}"
        case InfoConfirmation():
            return details.prompt
        case McpConfirmation():
            args = msgspec.json.encode(details.tool_args).decode("utf-8")
            return f"{details.server_name}: {details.tool_name}({args})"
        case AskUserConfirmation() | ExitPlanModeConfirmation():
            return ""
