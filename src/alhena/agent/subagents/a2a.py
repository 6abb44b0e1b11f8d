"""A conversation with a remote agent over A2A, by the official SDK (extra `a2a`)."""

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from typing import cast

import httpx
import msgspec
from a2a.client.card_resolver import parse_agent_card
from a2a.client.client import Client, ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.types.a2a_pb2 import (
    AgentCard,
    Artifact,
    AuthorizationCodeOAuthFlow,
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskState,
    TaskStatus,
)
from a2a.utils.constants import TransportProtocol
from a2a.utils.errors import A2AError
from google.protobuf.json_format import MessageToDict, ParseError

from alhena.agent.subagents.credentials import AgentCredentials
from alhena.agent.subagents.remote import RemoteAgent, checked_url
from alhena.display_text import one_line
from alhena.errors import AlhenaError
from alhena.http.addresses import refusal
from alhena.http.certificates import tls_context
from alhena.tools.contract import ToolResult
from alhena.version import __version__

logging.getLogger("a2a").addHandler(logging.NullHandler())  # else it warns on stderr

OPERATION_S = 30.0
CANCEL_S = 2.0
"""Seconds that a cancelled call takes at most to cancel the remote task."""

MAX_ANSWER = 16 * 1024 * 1024
"""Maximum bytes of one HTTP answer, a stream included."""

POLL_S = 1.0
"""Seconds between polls of a task without a stream."""

MAX_SAID = 500
_BINDINGS = (TransportProtocol.JSONRPC.value, TransportProtocol.HTTP_JSON.value)
_GOING_ON = {
    TaskState.TASK_STATE_UNSPECIFIED,
    TaskState.TASK_STATE_SUBMITTED,
    TaskState.TASK_STATE_WORKING,
}
_WAITING = {TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED}
_BAD_ANSWER = (ParseError, ValueError, TypeError, LookupError, AttributeError, RecursionError)
"""Errors of the SDK about answers that are no A2A, which it does not check."""
_FAILURES = (AlhenaError, A2AError, httpx.HTTPError, httpx.InvalidURL, *_BAD_ANSWER)
_ENDINGS = {
    TaskState.TASK_STATE_AUTH_REQUIRED: "it wants the user to sign in first.",
    TaskState.TASK_STATE_REJECTED: "it rejected the task.",
    TaskState.TASK_STATE_CANCELED: "the task was cancelled there.",
}
_STATES = {state: name.removeprefix("TASK_STATE_").lower() for name, state in TaskState.items()}


class RemoteError(AlhenaError):
    """A remote agent could not be asked, or answered with an error."""


class RemoteConversation:
    """The conversation of a session with one remote agent: its card, context and open task."""

    def __init__(
        self, agent: RemoteAgent, credentials: AgentCredentials | None, environ: Mapping[str, str]
    ) -> None:
        self._agent = agent
        self._credentials = credentials
        self._environ = environ
        self._card: AgentCard | None = None
        self._context_id = ""
        self._task_id = ""

    async def run(
        self, objective: str, output: Callable[[str], None], traceparent: str = ""
    ) -> ToolResult:
        """Sends the objective and returns the agent's result. `output` takes what it says
        meanwhile, requests carry the `traceparent`. Every failure is a value; cancellation cancels
        the remote task."""
        limit = self._agent.time_limit_s
        reply = _Reply(output)
        try:
            async with asyncio.timeout(limit), self._http(traceparent) as http:
                await self._converse(http, objective, reply)
        except TimeoutError:
            return self._make_failure(f"it gave no result within {limit / 60:g} minutes.", reply)
        except _FAILURES as error:
            return self._make_failure(_cause(error), reply)
        finally:
            self._context_id = reply.context_id or self._context_id
            self._task_id = reply.task_id if reply.state in _WAITING else ""
        return self._result(reply)

    async def _converse(self, http: httpx.AsyncClient, objective: str, reply: "_Reply") -> None:
        if self._card is None:
            self._card = self._usable(await self._read_card(http))
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[*_BINDINGS])
        client = ClientFactory(config).create(self._card)
        message = Message(
            message_id=uuid.uuid4().hex,
            role=Role.ROLE_USER,
            parts=[Part(text=objective)],
            context_id=self._context_id,
            task_id=self._task_id,
        )
        self._task_id = ""  # a call at the same time begins a task of its own
        try:
            await _listen(client, message, reply)
        except asyncio.CancelledError:
            if reply.task_id and reply.state in _GOING_ON:
                with suppress(TimeoutError, *_FAILURES):
                    async with asyncio.timeout(CANCEL_S):
                        await client.cancel_task(CancelTaskRequest(id=reply.task_id))
            raise

    async def sign_in_flow(self) -> AuthorizationCodeOAuthFlow | None:
        """The addresses and scopes that the agent card names for signing in. Raises
        RemoteError."""
        try:
            async with self._http() as http:
                card = await self._read_card(http)
        except (A2AError, httpx.HTTPError, httpx.InvalidURL) as error:
            raise RemoteError(f"remote agent '{self._agent.name}': {_cause(error)}") from error
        schemes = card.security_schemes.values()
        flows = [each.oauth2_security_scheme.flows.authorization_code for each in schemes]
        return next((flow for flow in flows if flow.token_url), None)

    def _http(self, traceparent: str = "") -> httpx.AsyncClient:
        """A client that follows no redirect and limits answers."""
        traced = {"traceparent": traceparent} if traceparent else {}
        return httpx.AsyncClient(
            auth=None if self._credentials is None else _Access(self._credentials),
            headers={
                "Accept-Encoding": "identity",
                "User-Agent": f"alhena/{__version__}",
                **traced,
            },
            timeout=httpx.Timeout(OPERATION_S, read=self._agent.time_limit_s),
            verify=tls_context(self._environ),
            event_hooks={"request": [_require_public], "response": [_bound_response]},
        )

    async def _read_card(self, http: httpx.AsyncClient) -> AgentCard:
        text = self._agent.card.encode()
        if not self._agent.is_inline:
            response = await http.get(self._agent.card_url, timeout=OPERATION_S)
            response.raise_for_status()
            text = response.content
        try:
            return parse_agent_card(msgspec.json.decode(text))
        except _BAD_ANSWER as error:
            reason = one_line(str(error), MAX_SAID)
            raise RemoteError(f"its agent card cannot be used: {reason}.") from error

    def _usable(self, card: AgentCard) -> AgentCard:
        """The card with the interfaces that may be asked: those at the place of the card, so that
        a card cannot send the task and its credentials elsewhere."""
        # An inline card has no place, and may lead anywhere.
        place = self._agent.card_url and checked_url(self._agent.card_url, "the agent card").place
        known = [each for each in card.supported_interfaces if each.protocol_binding in _BINDINGS]
        if not known:
            raise RemoteError(f"its agent card names no interface of {' or '.join(_BINDINGS)}.")
        places = [checked_url(each.url, "the interface of its agent card").place for each in known]
        kept = [each for each, at in zip(known, places, strict=True) if place in ("", at)]
        if not kept:
            raise RemoteError(
                f"its agent card leads to {one_line(known[0].url, 100)}, not to {place}.",
                remedy="If that is right, give the card itself as agent_card_json.",
            )
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(kept)
        return card

    def _result(self, reply: "_Reply") -> ToolResult:
        name, said = self._agent.name, reply.said
        match reply.state:
            case TaskState.TASK_STATE_COMPLETED:
                text = reply.artifacts or said or "It returned no text."
                told = f"Subagent '{name}' finished.\nTermination Reason: GOAL\nResult:\n{text}"
            case TaskState.TASK_STATE_INPUT_REQUIRED:
                text = "\n\n".join(filter(None, (reply.artifacts, said)))
                told = (
                    f"Subagent '{name}' needs an answer to continue. Call it again with the answer "
                    f"as its objective.\nIts question:\n{text}"
                )
            case _:
                how = _ENDINGS.get(reply.state, "" if said else "it gave no reason.")
                return self._make_failure(f"{how} {said}".strip(), reply)
        return ToolResult(llm_content=told, display=text, data=self._data(reply))

    def _make_failure(self, reason: str, reply: "_Reply") -> ToolResult:
        told = f"Remote agent '{self._agent.name}' failed: {reason}"
        before = [text for text in (reply.artifacts, reply.said) if text and text not in reason]
        if before:
            told = "\n\n".join((f"{told}\nBefore that it said:", *before))
        if self._credentials is not None:
            told = self._credentials.redacted(told)
        return msgspec.structs.replace(ToolResult.from_failure(told), data=self._data(reply))

    def _data(self, reply: "_Reply") -> dict[str, str]:
        state = _STATES.get(reply.state, "unknown")
        ids = {"task_id": reply.task_id, "context_id": reply.context_id}
        return {"agent": self._agent.name, "state": state, **ids}


class _Reply:
    """An agent's answer so far; `said` is its last message."""

    def __init__(self, output: Callable[[str], None]) -> None:
        self.context_id = ""
        self.task_id = ""
        self.state = TaskState.TASK_STATE_UNSPECIFIED
        self._output = output
        self.said = ""
        self._artifacts: dict[str, str] = {}

    @property
    def artifacts(self) -> str:
        """The text of all artifacts."""
        return "\n\n".join(filter(None, self._artifacts.values()))

    def take(self, event: StreamResponse) -> None:
        """Adds an event of the stream."""
        match event.WhichOneof("payload"):
            case "task":
                self.take_task(event.task)
            case "message":
                self._belong(event.message.task_id, event.message.context_id)
                self._say(event.message)
                self.state = TaskState.TASK_STATE_COMPLETED
            case "status_update":
                self._belong(event.status_update.task_id, event.status_update.context_id)
                self._enter(event.status_update.status)
            case "artifact_update":
                update = event.artifact_update
                self._belong(update.task_id, update.context_id)
                self._add(update.artifact, append=update.append)
            case _:
                pass

    def take_task(self, task: Task) -> None:
        """Adds the whole state of the task."""
        self._belong(task.id, task.context_id)
        for artifact in task.artifacts:
            self._add(artifact, append=False)
        self._enter(task.status)

    def _belong(self, task_id: str, context_id: str) -> None:
        self.task_id = task_id or self.task_id
        self.context_id = context_id or self.context_id

    def _enter(self, status: TaskStatus) -> None:
        self.state = status.state
        self._say(status.message)

    def _say(self, message: Message) -> None:
        text = "\n".join(map(_text, message.parts))
        if text and text != self.said:
            self.said = text
            self._output(f"{text}\n")

    def _add(self, artifact: Artifact, *, append: bool) -> None:
        old = self._artifacts.get(artifact.artifact_id, "")
        text = "".join(map(_text, artifact.parts))  # parts may be the chunks of one text
        if append or text != old:
            self._output(text)
        self._artifacts[artifact.artifact_id] = old + text if append else text


def _text(part: Part) -> str:
    match part.WhichOneof("content"):
        case "text":
            return part.text
        case "data":
            return msgspec.json.encode(MessageToDict(part.data)).decode("utf-8")
        case "url":
            return f"[File {part.filename or part.media_type}: {part.url}]"
        case "raw":
            return f"[File {part.filename or part.media_type}: {len(part.raw):,} bytes]"
        case _:
            return ""


async def _listen(client: Client, message: Message, reply: _Reply) -> None:
    """Sends the message and takes events until the task ends or waits. A task without
    a stream is polled."""
    sent = client.send_message(SendMessageRequest(message=message))
    try:
        async with aclosing(cast("AsyncGenerator[StreamResponse]", sent)) as events:
            async for event in events:
                reply.take(event)
    except A2AError as error:
        if not reply.task_id or not isinstance(error.__cause__, httpx.TransportError):
            raise
    while reply.state in _GOING_ON:
        if not reply.task_id:
            raise RemoteError("it answered nothing.")
        await asyncio.sleep(POLL_S)
        reply.take_task(await client.get_task(GetTaskRequest(id=reply.task_id)))


class _Access(httpx.Auth):
    """Adds credentials to requests, and others when the first were refused."""

    def __init__(self, credentials: AgentCredentials) -> None:
        self._credentials = credentials

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Sends a request, and again with fresh credentials if they differ."""
        place = checked_url(str(request.url), "a request")
        first = await self._credentials.headers(place)
        request.headers.update(first)
        response = yield request
        if response.status_code not in {401, 403}:
            return
        fresh = await self._credentials.headers(place, fresh=True)
        if fresh != first:
            request.headers.update(fresh)
            yield request


async def _require_public(request: httpx.Request) -> None:
    if refused := refusal(request.url.host):
        raise RemoteError(refused)


async def _bound_response(response: httpx.Response) -> None:
    if response.headers.get("content-encoding", "identity") != "identity":
        # The compressed size does not bound the unpacked size.
        raise RemoteError("its answer is compressed, which was not asked for.")
    if isinstance(response.stream, httpx.AsyncByteStream):
        response.stream = _Bounded(response.stream)


_SEPARATORS = {char.encode(): b"\\u%04x" % ord(char) for char in "\x85\u2028\u2029"}


def _escaped(data: bytes) -> bytes:
    for separator, escape in _SEPARATORS.items():
        data = data.replace(separator, escape)
    return data


class _Bounded(httpx.AsyncByteStream):
    """A JSON body of limited length, line by line. Separators of Unicode in it, at which httpx
    would end a line of an event, are escaped."""

    def __init__(self, inner: httpx.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        length, rest = 0, b""
        async for chunk in self._inner:
            length += len(chunk)
            if length > MAX_ANSWER:
                raise RemoteError(f"its answer has more than {MAX_ANSWER:,} bytes.")
            lines, end, rest = (rest + chunk).rpartition(b"\n")
            yield _escaped(lines + end)
        yield _escaped(rest)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _cause(error: Exception) -> str:
    """The reason of a failure, for the model and for people."""
    if isinstance(error, AlhenaError):
        return str(error)
    cause = error if isinstance(error, httpx.HTTPStatusError) else error.__cause__
    if isinstance(cause, httpx.HTTPStatusError):
        answer = cause.response
        if answer.is_redirect:
            return f"it redirects (HTTP {answer.status_code}), which is not followed."
        hint = " Check the auth of its definition." if answer.status_code in {401, 403} else ""
        return f"it answered with HTTP {answer.status_code}.{hint}"
    said = one_line(str(error), MAX_SAID) or type(error).__name__
    return f"its answer is not A2A: {said}" if isinstance(error, _BAD_ANSWER) else said
