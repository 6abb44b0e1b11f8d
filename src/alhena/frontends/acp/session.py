"""One session of a client: its prompts, questions, modes and model."""

import asyncio
import base64
import binascii
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

import msgspec

from alhena.agent.between_prompts import compress, list_models, switch_model
from alhena.agent.runner import SessionRunner
from alhena.agent.toolset.options import People, SessionSpec
from alhena.agent.toolset.toolset import Toolset, window_of
from alhena.chat.turn import InvalidResponseError
from alhena.commands import sources_of
from alhena.errors import AlhenaError, InputError, ModelError
from alhena.events import (
    ApiResponseEvent,
    Event,
    RunFinishedEvent,
    ToolOutputEvent,
    timestamp,
)
from alhena.frontends.acp.connection import (
    INTERNAL,
    INVALID_PARAMS,
    NO_CREDENTIALS,
    Connection,
    RpcError,
)
from alhena.frontends.acp.questions import Questions
from alhena.frontends.acp.updates import CallUpdates, chunk
from alhena.frontends.shared.current_settings import SessionFolder
from alhena.frontends.shared.mentions import PromptCommands, attachment, command_word
from alhena.models.catalogue import (
    EMBEDDING,
    bare_name,
    conversing_models,
    foreign_service,
    is_foreign_model,
    model_info,
    today,
)
from alhena.models.errors import CredentialsError
from alhena.models.providers.select import is_demo
from alhena.models.served import near_models
from alhena.policy.model import ApprovalMode
from alhena.session.records import title_of
from alhena.system.errors import ProcessStartError, WriteFailureError
from alhena.system.processes import ProcessCommand, ProcessEnding
from alhena.wire.content import Blob, Content, Part
from alhena.wire.finish_reasons import FinishMeaning, finish_info

if TYPE_CHECKING:
    from alhena.scheduler.states import CompletedToolCall

MODES = {
    ApprovalMode.DEFAULT: ("Default", "Prompts for approval"),
    ApprovalMode.AUTO_EDIT: ("Auto Edit", "Auto-approves edit tools"),
    ApprovalMode.YOLO: ("YOLO", "Auto-approves all tools"),
    ApprovalMode.PLAN: ("Plan", "Read-only mode"),
}
COMMANDS = {
    "help": "Commands of this session",
    "memory": "Show, list or reload memory (show, list, refresh)",
    "tools": "Tools (desc: with descriptions)",
    "policies": "Policy rules",
    "hooks": "Hooks of this session",
    "mcp": "MCP servers (desc, schema)",
    "agents": "Subagents",
    "extensions": "Extensions of this session",
    "skills": "Skills of this session (reload; enable, disable NAME)",
    "commands": "Custom commands (reload)",
    "compress": "Replace the conversation with a summary",
}
OUTPUT_S = 0.2
"""Seconds between two updates with the live output of calls."""
ANSWER_S = 60.0
"""Seconds that the client gets to read or write a file."""
_ENDS = {
    "interrupted": "cancelled",
    "turn_limit": "max_turn_requests",
    "token_limit": "max_tokens",
    "time_limit": "max_turn_requests",
    "cost_limit": "max_turn_requests",
    "loop_detected": "max_turn_requests",
}


class PromptUsage:
    """The tokens that a prompt took, of all its requests."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def add(self, event: ApiResponseEvent) -> None:
        """Adds those of a request."""
        prompt = event.input_tokens + event.tool_tokens
        for key, count in (
            ("totalTokens", prompt + event.output_tokens + event.thoughts_tokens),
            ("inputTokens", prompt),
            ("outputTokens", event.output_tokens),
            ("thoughtTokens", event.thoughts_tokens),
            ("cachedReadTokens", event.cached_tokens),
        ):
            self.counts[key] = self.counts.get(key, 0) + count


class EditorSession:
    """A session that an editor talks to; one prompt at a time, and a second one cancels the
    first."""

    def __init__(
        self,
        given: SessionSpec,
        folder: SessionFolder,
        connection: Connection,
        client: Mapping[str, Any],
    ) -> None:
        self.questions = Questions(self, connection, client)
        files = ClientFiles(self, client)
        able = client.get("terminal") is True
        terminal = ClientTerminal(self, connection) if able else None
        options = msgspec.structs.replace(
            given,
            people=People(approve=self.questions.approve, ask=self.questions.put),
            client=msgspec.structs.replace(
                given.client, editor=files if files.any else None, terminal=terminal
            ),
        )
        self._connection = connection
        self.folder = folder
        self._lock = asyncio.Lock()
        self.cancelled = self._busy = False
        self._cancellations = 0
        self.resumed = given.record.resume is not None
        self._switching = False
        self._used: PromptUsage | None = None
        self._titled = self.resumed
        self._showing: asyncio.TimerHandle | None = None
        self.runner = SessionRunner(options)
        self.prompts = PromptCommands(lambda: self.toolset, COMMANDS)

    async def open(self) -> None:
        """Opens the session. Raises AlhenaError."""
        await self.runner.__aenter__()
        bench = self.toolset
        self.session_id: str = self.runner.session_id
        self.calls = CallUpdates(bench.registry, str(bench.workspace.cwd))
        self._opening = () if self.resumed else self.runner.history
        bench.authority.modes.subscribe(self._mode_changed)
        self.prompts.load(sources_of(self.folder.place))

    async def close(self) -> None:
        """Stops what runs and closes the session."""
        self.cancel()
        if self._showing is not None:
            self._showing.cancel()
        await self.runner.__aexit__(None, None, None)

    @property
    def toolset(self) -> Toolset:
        """The tools, and the policy over them."""
        return self.runner.toolset

    @property
    def state(self) -> dict[str, Any]:
        """The modes and options of the session, as a client reads them."""
        modes = self.toolset.authority.modes
        models = dict.fromkeys(
            (self.runner.model, *(each.name for each in conversing_models(today())))
        )
        known = [
            {"id": mode, "name": name, "description": what}
            for mode, (name, what) in MODES.items()
            if modes.allows(mode)
        ]
        return {
            "modes": {"currentModeId": modes.mode, "availableModes": known},
            "models": {
                "currentModelId": self.runner.model,
                "availableModels": [{"modelId": each, "name": each} for each in models],
            },
            "configOptions": [
                {
                    "id": "model",
                    "name": "Model",
                    "category": "model",
                    "type": "select",
                    "currentValue": self.runner.model,
                    "options": [{"value": each, "name": each} for each in models],
                }
            ],
        }

    def announce(self) -> None:
        """Tells the client which commands there are."""
        found = {**COMMANDS, **dict(self.prompts.names())}
        commands = [
            {"name": name, "description": what or name, "input": {"hint": "arguments"}}
            for name, what in found.items()
        ]
        self.update({"sessionUpdate": "available_commands_update", "availableCommands": commands})

    def update(self, update: dict[str, Any]) -> None:
        """Sends an update of this session."""
        params = {"sessionId": self.session_id, "update": update}
        self._connection.notify("session/update", params)

    async def replay(self, contents: tuple[Content, ...] | None) -> None:
        """Shows an earlier conversation, None for the one of this open session."""
        if contents is None:
            contents = self.runner.history[len(self._opening) :]
        shown = CallUpdates(self.calls.registry, str(self.toolset.workspace.cwd))
        for update in shown.replay(contents, self.calls.start_running):
            self.update(update)
            await self._connection.wait_drained()

    def cancel(self) -> None:
        """Ends the prompt in good order; questions about it are withdrawn. Those that wait for its
        end do not begin."""
        self._cancellations += 1
        if not self._busy:
            return
        self.cancelled = True
        self.runner.interrupt()
        self.questions.withdraw()

    async def prompt(self, blocks: list[dict[str, Any]]) -> dict[str, Any]:
        """Carries a prompt to its end. Raises RpcError."""
        text, attached, linked = read_prompt(blocks, self.toolset.workspace.cwd)
        self.cancel()
        cancellations = self._cancellations
        async with self._lock:
            if cancellations != self._cancellations:
                return {"stopReason": "cancelled"}
            self._busy, self.cancelled = True, False
            self._used = None
            try:
                reason = await self._carry(text, attached, linked)
            finally:
                for update in self.calls.end_open_calls():
                    self.update(update)
                self._busy = False
        self._tell_info(text)
        answer: dict[str, Any] = {"stopReason": "cancelled" if self.cancelled else reason}
        if self._used is not None:
            answer["usage"] = self._used.counts
        return answer

    def _tell_info(self, text: str) -> None:
        """Tells the client the time of the session and, after its first prompt, its title."""
        title = {} if self._titled else {"title": title_of(text)}
        self._titled = True
        told = {"sessionUpdate": "session_info_update", "updatedAt": timestamp(time.time_ns())}
        self.update({**told, **title})

    def switch_mode(self, mode_id: str) -> None:
        """Changes the approval mode. Raises RpcError."""
        modes = self.toolset.authority.modes
        known = [each["id"] for each in self.state["modes"]["availableModes"]]
        if mode_id not in known:
            raise RpcError(INVALID_PARAMS, f"Invalid or unavailable mode: {mode_id}")
        self._switching = True
        try:
            modes.switch(ApprovalMode(mode_id))
        finally:
            self._switching = False

    async def switch_model(self, name: str) -> None:
        """Switches to another model after the running prompt. Raises RpcError."""
        if not name.strip():
            raise RpcError(INVALID_PARAMS, "Invalid params: the model has no name")
        async with self._lock:
            try:
                await self._require_model(name)
                await switch_model(self.runner, name)
            except AlhenaError as error:
                raise RpcError(INVALID_PARAMS, str(error)) from error

    async def _require_model(self, name: str) -> None:
        """Raises RpcError for a model that the service does not have, as far as it tells."""
        if foreign_service(name) != foreign_service(self.runner.model) or is_demo(name):
            return  # of another service: that is refused in other words
        if model_info(name).tier == EMBEDDING:
            message = f"{name!r} makes vectors, and answers no prompts. Choose another model."
            raise RpcError(INVALID_PARAMS, message)
        if name == self.runner.model or model_info(name).listed:
            return
        known = await list_models(self.runner)
        names = {bare_name(each) for each in known.names}
        if bare_name(name) in names or not (known.complete or _is_odd(name)):
            return
        near = near_models(name, known.names)
        raise RpcError(
            INVALID_PARAMS, f"There is no model {name!r:.100}. There are {', '.join(near)}."
        )

    def _mode_changed(self) -> None:
        if not self._switching:
            mode = self.toolset.authority.modes.mode
            self.update({"sessionUpdate": "current_mode_update", "currentModeId": mode})

    async def _carry(self, text: str, attached: tuple[Part, ...], linked: tuple[str, ...]) -> str:
        try:
            called = command_word(text)
            if called is not None and (answer := await self._command(*called)) is not None:
                self.update(chunk("agent_message_chunk", answer))
                return "end_turn"
            if called is not None and called[0] in self.prompts:
                filled = await self.prompts.fill(*called, self._call, self.warn)
                text, within = filled.text, filled.within
            else:
                within = ()
            if linked:
                done = await self._call("read_many_files", {"paths": list(linked)})
                if done is not None and not done.response.error:
                    attached += attachment(done.response.response_parts)
            return await self._run(text, attached, within)
        except AlhenaError as error:
            if self.cancelled:
                return "cancelled"
            ended = _ENDS.get(error.kind)
            if isinstance(error, InvalidResponseError) and error.withheld:
                ended = "refusal"
            if ended is not None:
                self.update(chunk("agent_thought_chunk", f"{error}\n"))
                return ended
            raise _rpc_error(error) from error

    async def _run(
        self, text: str, attached: tuple[Part, ...], within: tuple[tuple[int, Part], ...]
    ) -> str:
        end: RunFinishedEvent | None = None
        if self.cancelled:
            return "cancelled"
        run = self.runner.run(
            text, attached=attached, within=within, listen=lambda _session: self._hear
        )
        async for event in run:
            if self.cancelled:
                self.runner.interrupt()
            if isinstance(event, RunFinishedEvent):
                end = event
            await self._connection.wait_drained()
        if end is None or end.reason in ("stopped", "blocked"):
            return "end_turn"
        ending = finish_info(end.finish_reason)
        if ending.meaning is FinishMeaning.LIMITED:
            return "max_tokens"
        return "refusal" if ending.withheld else _ENDS.get(end.reason, "end_turn")

    def _hear(self, event: Event) -> None:
        for update in self.calls.of(event):
            self.update(update)
        if isinstance(event, ToolOutputEvent) and self._showing is None:
            self._show_output()
        if isinstance(event, ApiResponseEvent):
            self._count(event)

    def _count(self, event: ApiResponseEvent) -> None:
        """Adds the tokens of a request to the prompt's; tells the client how full the window is."""
        self._used = self._used or PromptUsage()
        self._used.add(event)
        if event.role != "main":
            return
        used = event.input_tokens + event.output_tokens + event.thoughts_tokens
        update: dict[str, Any] = {
            "sessionUpdate": "usage_update",
            "used": used,
            "size": window_of(self.toolset, self.runner.model),
        }
        cost = self.toolset.spending.cost()
        if cost is not None:
            update["cost"] = {"amount": cost, "currency": "USD"}
        self.update(update)

    def _show_output(self) -> None:
        """Shows what running calls have written, at most once in `OUTPUT_S`."""
        self._showing = None
        if not self.calls.written:
            return
        if not self._connection.behind:
            for update in self.calls.output():
                self.update(update)
        loop = asyncio.get_running_loop()
        self._showing = loop.call_later(OUTPUT_S, self._show_output)

    async def _command(self, name: str, rest: str) -> str | None:
        """The answer to a command that needs no model; None for any other."""
        if name == "help":
            names = {**COMMANDS, **dict(self.prompts.names())}
            return "\n".join(f"- `/{each}`: {what}" for each, what in names.items())
        if name not in COMMANDS:
            return None
        if name == "compress":
            from alhena.frontends.headless.output import compressed_words

            return compressed_words(await compress(self.runner))
        from alhena.frontends.shared.listings import as_markdown
        from alhena.frontends.shared.session_lists import SESSION_LISTS, OpenSession

        if name == "mcp" and (control := self.toolset.server_control) is not None:
            await control.wait_for_servers()
        session = OpenSession(self.toolset, self.folder, self.prompts)
        return as_markdown(SESSION_LISTS[name](session, rest))

    async def _call(self, name: str, args: Mapping[str, object]) -> "CompletedToolCall | None":
        run = self.runner.call(name, dict(args))
        async for _event in run:
            pass
        return run.completed

    def warn(self, text: str) -> None:
        """Shows a warning."""
        self.update(chunk("agent_thought_chunk", f"Warning: {text}\n"))


class ClientFiles:
    """The client's files: read and written through it where it says that it can."""

    def __init__(self, session: EditorSession, client: Mapping[str, Any]) -> None:
        able = client.get("fs")
        known = cast("dict[str, Any]", able) if isinstance(able, dict) else {}
        self.any = bool(known.get("readTextFile") and known.get("writeTextFile"))
        self._session = session
        self._loop = asyncio.get_running_loop()

    def read(self, path: Path) -> str | None:
        """The text of a file; None where the client cannot give it."""
        match self._ask("fs/read_text_file", {"path": str(path)}):
            case {"content": str(text)}:
                return text
            case _:
                return None

    def write(self, path: Path, text: str) -> None:
        """Has the client write a file. Raises FileError."""
        done = self._ask("fs/write_text_file", {"path": str(path), "content": text})
        if isinstance(done, Exception):
            raise WriteFailureError(
                f"The editor did not write {path}: {done}", remedy="Look at the file."
            )

    def _ask(self, method: str, params: dict[str, Any]) -> Any:
        """The client's answer, or the error instead of one."""
        asking = asyncio.run_coroutine_threadsafe(
            self._session.questions.ask(method, params), self._loop
        )
        try:
            return asking.result(ANSWER_S)
        except (AlhenaError, CancelledError, TimeoutError) as error:
            asking.cancel()
            return error if isinstance(error, AlhenaError) else TimeoutError("it gave no answer")


class ClientTerminal:
    """Terminals of the client: one a command, released when it has ended."""

    def __init__(self, session: EditorSession, connection: Connection) -> None:
        self._session = session
        self._connection = connection

    async def run(
        self, command: ProcessCommand, feed: Callable[[bytes], object], call_id: str
    ) -> ProcessEnding:
        """Runs a command to its end, passing on its output; kills it when cancelled. Raises
        ProcessStartError."""
        ask = self._session.questions.ask
        program, *args = command.argv
        of_session = {"sessionId": self._session.session_id}
        wanted = {"command": program, "args": args, "cwd": command.cwd, "env": _differing(command)}
        creating = asyncio.ensure_future(
            self._connection.ask("terminal/create", {**of_session, **wanted})
        )
        try:
            made = await asyncio.shield(creating)
            own = {"terminalId": str(made["terminalId"])}
        except asyncio.CancelledError:  # the client may have made it already
            creating.add_done_callback(self._release_late)
            raise
        except (RpcError, KeyError, TypeError) as error:
            raise ProcessStartError(f"The editor opened no terminal: {error}") from error
        shown = self._session.calls.in_terminal(call_id, own["terminalId"])
        if shown is not None:
            self._session.update(shown)
        try:
            ended = await ask("terminal/wait_for_exit", own)
            output = await ask("terminal/output", own)
        except RpcError as error:
            raise ProcessStartError(f"The editor's terminal failed: {error}") from error
        finally:
            self._connection.order("terminal/release", {**of_session, **own})
        feed(str(output.get("output", "")).encode())
        code = ended.get("exitCode")
        return ProcessEnding(pgid=0, exit_code=code, signal=None, stopped=None, background=())

    def _release_late(self, creating: "asyncio.Future[Any]") -> None:
        """Releases a terminal whose command was cancelled before the client told of it."""
        if not creating.cancelled() and creating.exception() is None:
            terminal = creating.result().get("terminalId")
            params = {"sessionId": self._session.session_id, "terminalId": terminal}
            self._connection.order("terminal/release", params)


def _differing(command: ProcessCommand) -> list[dict[str, str]]:
    """The environment of a command in a terminal of the client, whose own it is added to: what
    differs from ours, which is the client's. What a child of ours does not get is set to nothing,
    for it cannot be taken away."""
    own, wanted = os.environ, command.env
    withheld = dict.fromkeys(own.keys() - wanted.keys(), "")
    changed = {name: value for name, value in wanted.items() if own.get(name) != value}
    return [{"name": name, "value": value} for name, value in sorted((withheld | changed).items())]


_NAMES_OF_GOOGLE = ("gemini", "gemma", "learnlm", "models/", "tunedModels/", "publishers/")


def _is_odd(name: str) -> bool:
    """True for a name that no model of Google's has."""
    return not is_foreign_model(name) and not name.startswith((*_NAMES_OF_GOOGLE, "projects/"))


def _rpc_error(error: AlhenaError) -> RpcError:
    if isinstance(error, RpcError):
        return error
    data = {"kind": error.kind}
    if isinstance(error, CredentialsError):
        return RpcError(NO_CREDENTIALS, str(error), data)
    if isinstance(error, InputError):
        return RpcError(INVALID_PARAMS, str(error), data)
    status = error.status if isinstance(error, ModelError) else None
    return RpcError(status or INTERNAL, str(error), data)


NO_TEXT = "See the attached content."


def read_prompt(
    blocks: list[dict[str, Any]], cwd: Path
) -> tuple[str, tuple[Part, ...], tuple[str, ...]]:
    """The text of a prompt, what is sent with it, and the files that it links to. Raises RpcError
    for a block that cannot be used."""
    text: list[str] = []
    attached: list[Part] = []
    linked: list[str] = []
    for block in blocks:
        match block["type"]:
            case "text":
                text.append(block["text"])
            case "image" | "audio":
                attached.append(_media(block["mimeType"], block["data"]))
            case "resource_link":
                path = _workspace_path(block["uri"], cwd)
                text.append(f"@{path or block['uri']}")
                if path is not None:
                    linked.append(path)
            case _:
                attached += _resource_parts(block["resource"])
    whole = "".join(text)
    return whole if whole.strip() else NO_TEXT, tuple(attached), tuple(linked)


def _resource_parts(resource: dict[str, Any]) -> list[Part]:
    head = f"\nContent from @{resource['uri']}:\n"
    if "blob" in resource:
        kind = resource.get("mimeType") or "application/octet-stream"
        return [Part(text=head), _media(kind, resource["blob"])]
    return [Part(text=head + resource["text"])]


def _media(mime_type: str, data: str) -> Part:
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RpcError(INVALID_PARAMS, f"Invalid params: {mime_type} is no base64") from error
    return Part(inline_data=Blob(mime_type=mime_type, data=data))


def _workspace_path(uri: str, cwd: Path) -> str | None:
    """The path of a link to a file of the workspace, None for any other."""
    parts = urlsplit(uri)
    if parts.scheme != "file":
        return None
    path = Path(unquote(parts.path))
    if not path.resolve().is_relative_to(cwd.resolve()):
        return None
    return str(path)
