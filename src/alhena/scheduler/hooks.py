"""The hooks around a call: before it runs, after it ran, and when a person is asked."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import msgspec

from alhena.hooks import inputs
from alhena.hooks.inputs import McpContext
from alhena.hooks.model import HookEvent, HookVerdict, InputForms, TailCall
from alhena.hooks.planning import Hooks
from alhena.scheduler.question import ConfirmationRequest
from alhena.scheduler.states import plain
from alhena.scheduler.tracked_call import TrackedCall
from alhena.tools.contract import (
    ConfirmationDetails,
    EditConfirmation,
    ExecConfirmation,
    FileDiff,
    InfoConfirmation,
    LlmContent,
    McpConfirmation,
    TerminalOutput,
    ToolDisplay,
    ToolErrorType,
    ToolFailure,
    ToolInvocation,
    ToolResult,
)
from alhena.tools.params import changes, with_aliases
from alhena.tools.registry import RegisteredTool
from alhena.tools.threads import Boundary, one_line
from alhena.wire.content import Part

LATER_NAMES = ("grep_search", "invoke_agent")
"""Names that later generations declare for some tools; hooks and models may use either name."""

AT_ONCE = 8
"""Maximum number of events of one session whose hooks run at the same time."""


class ToolHooks:
    """The hooks of a session, for its schedulers. `server` describes the server of an MCP tool to
    hooks, without secrets."""

    def __init__(
        self,
        hooks: Hooks,
        server: Callable[[RegisteredTool], McpContext | None] | None = None,
    ) -> None:
        self._hooks = hooks
        self._server = server or _server
        self._room = asyncio.Semaphore(AT_ONCE)
        self._beside = asyncio.Semaphore(AT_ONCE)
        self.before_heard = hooks.has(HookEvent.BEFORE_TOOL)
        self.after_heard = hooks.has(HookEvent.AFTER_TOOL)
        self.notification_heard = hooks.has(HookEvent.NOTIFICATION)

    async def before(self, call: TrackedCall) -> HookVerdict:
        """Fires BeforeTool hooks and returns their verdict. A failure to run them blocks the
        call."""
        boundary = Boundary()
        with boundary:
            return await self._fire(HookEvent.BEFORE_TOOL, call, self._fields(call))
        reason = "unknown" if boundary.failure is None else one_line(boundary.failure)
        return HookVerdict(block=f"the hooks could not be asked ({reason})")

    async def after(
        self, call: TrackedCall, result: ToolResult
    ) -> str | ToolFailure | TailCall | ToolResult:
        """Fires AfterTool hooks on a result. Returns text to add to it ("" for none), a failure or
        another result in its place, or the call to run instead."""
        if not self.after_heard:
            return ""
        error = result.error
        shown = with_notice(result, call.input_notice)
        fields = inputs.after_tool(
            self._fields(call),
            _content(shown.llm_content),
            _display(result.display),
            None if error is None else {"message": error.message, "type": str(error.type)},
        )
        said = await self._fire(HookEvent.AFTER_TOOL, call, fields)
        if said.stop is not None:
            return ToolFailure(describe_stop(said.stop), ToolErrorType.STOP_EXECUTION)
        if said.block is not None:
            return ToolFailure(f"Tool result blocked: {said.block}", ToolErrorType.EXECUTION_FAILED)
        if said.tail_call is not None:
            return said.tail_call
        context = said.additional_context
        notice = "" if context is None else f"<hook_context>{context}</hook_context>"
        if said.tool_result is None:
            return notice
        call.set_input_notice("")  # the hooks saw it
        return with_notice(_replace_content(result, said.tool_result), notice)

    def notify(self, request: ConfirmationRequest) -> None:
        """Fires Notification hooks in the background; their output changes nothing. They may
        outlast the question and the call: only the end of the session waits for them."""
        self._hooks.run_in_background(self._tell(request))

    async def _tell(self, request: ConfirmationRequest) -> None:
        details = plain(request.details)
        async with self._beside:
            await self._hooks.fire(
                HookEvent.NOTIFICATION, inputs.notification(_message(request.details), details)
            )

    async def _fire(
        self, event: HookEvent, call: TrackedCall, fields: dict[str, Any]
    ) -> HookVerdict:
        names = () if call.entry is None else call.policy_call(call.entry).names
        later = (name for name in names if name in LATER_NAMES)
        told = (fields["tool_name"], *names[:1], *later, call.current.name, *names)
        async with self._room:
            return await self._hooks.fire(
                event, fields, match=tuple(dict.fromkeys(told)), forms=_forms(call)
            )

    def _fields(self, call: TrackedCall) -> dict[str, Any]:
        entry = call.entry
        replaced = call.replacements > 0
        called = call.current.name
        # Hooks do not match aliases: they get the declared name.
        known = entry is None or called in (entry.wire_name, *LATER_NAMES) or entry.server
        return inputs.before_tool(
            called if known or entry is None else entry.tool.name,
            _forms(call).shown(plain(call.params)),
            mcp_context=None if entry is None else self._server(entry),
            original_request_name=call.request.name if replaced else None,
        )


def tool_hooks(
    hooks: Hooks, server: Callable[[RegisteredTool], McpContext | None] | None = None
) -> ToolHooks | None:
    """The hooks around calls; None if none are configured. `server` as for ToolHooks."""
    events = (HookEvent.BEFORE_TOOL, HookEvent.AFTER_TOOL, HookEvent.NOTIFICATION)
    return ToolHooks(hooks, server) if any(map(hooks.has, events)) else None


def describe_stop(reason: str) -> str:
    """The message to the model when a hook ends the run."""
    return f"Agent execution stopped by hook: {reason}"


_OLD_PATH = "absolute_path"
_PATH = "file_path"


def _forms(call: TrackedCall) -> InputForms:
    """The input of a call with all accepted parameter names, because hooks may use any of them."""
    entry = call.entry
    if entry is None:
        return InputForms(dict, lambda _told, given: given)
    name, schema = entry.tool.name, entry.tool.parameter_schema

    def with_names(params: dict[str, Any]) -> dict[str, Any]:
        shown = with_aliases(name, params, schema)
        if _OLD_PATH not in call.request.args and _PATH in shown:
            shown.pop(_OLD_PATH, None)  # the reference has it no more
        return shown

    return InputForms(
        with_names,
        lambda told, given: changes(name, told, given, schema),
        call.current.call_id,
    )


def rebuilt(
    call: TrackedCall, entry: RegisteredTool, given: dict[str, Any]
) -> ToolInvocation | ToolFailure | None:
    """The call with parameters changed by a hook; None if they are the same."""
    forms = _forms(call)
    changed = forms.changes(forms.shown(call.params), given)
    if not changed:
        return None
    before = call.params
    boundary = Boundary()
    built: ToolInvocation | ToolFailure | None = None
    with boundary:
        built = entry.tool.build({**before, **changed})
        if not isinstance(built, ToolFailure):
            call.change(built)
    if boundary.failure is not None or built is None:
        reason = "nothing" if boundary.failure is None else one_line(boundary.failure)
        built = ToolFailure(f"the tool made {reason} of it")
    if isinstance(built, ToolFailure):
        return ToolFailure.of_params(
            f"Tool parameters modified by hook are invalid: {built.message}",
        )
    keys = ", ".join(key for key in changed if _differs(before, built.params, key))
    if not keys:
        return None
    call.set_input_notice(f"[System] Tool input parameters ({keys}) were modified by hook")
    return built


def _replace_content(result: ToolResult, content: Any) -> ToolResult:
    """The result with other content, for the model and for people."""
    made: LlmContent
    try:
        made = content if isinstance(content, str) else _parts_of(content)
    except msgspec.ValidationError as error:
        reason = f"the hooks gave a result that cannot be used: {str(error).replace('`', '')}"
        return ToolResult.from_failure(reason)
    text = content if isinstance(content, str) else "(replaced by a hook)"
    error = None if result.error is None else ToolFailure(text, result.error.type)
    return ToolResult(llm_content=made, display=text, error=error)


def _parts_of(content: Any) -> tuple[Part, ...]:
    items = cast("list[Any]", content if isinstance(content, list) else [content])
    return msgspec.convert(items, tuple[Part, ...])


def with_notice(result: ToolResult, notice: str) -> ToolResult:
    """Appends a notice for the model to the result, or to the error message of a failed one."""
    if not notice:
        return result
    error = result.error
    if error is not None:
        error = ToolFailure(f"{error.message}\n\n{notice}", error.type)
    return msgspec.structs.replace(
        result, llm_content=_append_notice(result.llm_content, notice), error=error
    )


def _append_notice(content: LlmContent, notice: str) -> LlmContent:
    if isinstance(content, str):
        return f"{content}\n\n{notice}"
    items = (content,) if isinstance(content, Part) else content
    return (*items, Part(text=notice))


def _differs(before: dict[str, Any], after: dict[str, Any], key: str) -> bool:
    return (key in before, before.get(key)) != (key in after, after.get(key))


def _display(display: ToolDisplay) -> Any:
    """The display of a result as the reference gives it to hooks."""
    if isinstance(display, TerminalOutput):
        return plain(display.text)
    found = plain(display)
    if isinstance(display, FileDiff):
        found["isNewFile"] = display.original_content is None
    return found


def _content(content: LlmContent) -> Any:
    """The content for the model as JSON values."""
    if isinstance(content, str | Part):
        return plain(content)
    return [plain(item) for item in content]


def _message(details: ConfirmationDetails) -> str:
    match details:
        case EditConfirmation():
            return f"Tool {details.title} requires editing"
        case ExecConfirmation():
            return f"Tool {details.title} requires execution"
        case McpConfirmation():
            return f"Tool {details.title} requires MCP"
        case InfoConfirmation():
            return f"Tool {details.title} requires information"
        case _:
            return "Tool requires confirmation"


def _server(entry: RegisteredTool) -> McpContext | None:
    if entry.server is None:
        return None
    name = entry.tool.name.removeprefix(f"{entry.server}__")
    return McpContext(server_name=entry.server, tool_name=name)
