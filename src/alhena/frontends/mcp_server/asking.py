"""A person's answers to calls that need one, through the MCP client (elicitation)."""

import asyncio
import secrets
from collections.abc import Iterator
from typing import Any, assert_never

import msgspec
from mcp_types import ElicitRequestFormParams, ElicitResult

from alhena.display_text import escaped, exact, one_line
from alhena.scheduler.confirmation import Answer, ConfirmationRequest
from alhena.tools.confirmation import (
    AskUserConfirmation,
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
MOST_SHOWN = 20_000
"""Characters of a difference that a question shows, of its beginning and its end."""

_FOR_THE_CALL = (ToolConfirmationOutcome.PROCEED_ONCE, ToolConfirmationOutcome.CANCEL)


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
    """What may be answered. Of what is not shown whole nothing is approved beyond the call."""
    given = [ToolConfirmationOutcome(each) for each in request.outcomes]
    cut = isinstance(request.details, EditConfirmation) and _cut(request.details.file_diff)
    return [each for each in given if each in WORDS and (not cut or each in _FOR_THE_CALL)]


def _message(request: ConfirmationRequest) -> str:
    details, offered = request.details, _outcomes(request)
    lines = [one_line(details.title), *_shown(request)]
    if request.reason:
        lines.append(f"Asked because {one_line(request.reason)}")
    lines += (f"Warning: {one_line(each)}" for each in getattr(details, "warnings", ()))
    rules = [one_line(rule.words) for rule in request.lasting if rule.outcome in offered]
    lines += (f"From now on: {each}" for each in dict.fromkeys(rules))
    return "\n".join(filter(None, lines))


def _shown(request: ConfirmationRequest) -> list[str]:
    """The call, with nothing in it hidden. All of it, but for a long difference."""
    match request.details:
        case ExecConfirmation() as details:
            return [*_where(request), escaped(details.command_shown, block=True)]
        case EditConfirmation() as details:
            return [_inline(details.file_path), _difference(details.file_diff)]
        case InfoConfirmation() as details:
            return [exact(details.prompt), *map(_inline, details.urls)]
        case McpConfirmation() as details:
            args = msgspec.json.encode(details.tool_args).decode("utf-8")
            called = exact(f"{details.server_name}: {details.tool_name}({args})")
            server = exact(", ".join(details.server))
            return [called, f"The server is: {server}"] if server else [called]
        case AskUserConfirmation() | ExitPlanModeConfirmation():
            return []
        case _:
            assert_never(request.details)


def _where(request: ConfirmationRequest) -> Iterator[str]:
    directory = request.args.get("directory")
    if isinstance(directory, str) and directory:
        yield f"In the directory {_inline(directory)}"
    if request.args.get("is_background"):
        yield "In the background"


def _cut(diff: str) -> bool:
    return len(diff) > MOST_SHOWN


def _difference(diff: str) -> str:
    if not _cut(diff):
        return exact(diff)
    half = MOST_SHOWN // 2
    left = f"[… {len(diff) - 2 * half:,} more characters, which are not shown …]"
    return f"{exact(diff[:half])}\n{left}\n{exact(diff[-half:])}"


def _inline(text: str) -> str:
    """All of a text on one line, nothing in it hidden."""
    return escaped(exact(text))
