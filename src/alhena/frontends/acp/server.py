"""`alhena --acp`: sessions for an editor, over standard input and output."""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import closing
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from alhena.agent.toolset.options import RecordOptions
from alhena.errors import AlhenaError, ConfigError
from alhena.frontends.acp.connection import (
    INTERNAL,
    INVALID_PARAMS,
    NO_CREDENTIALS,
    NOT_FOUND,
    UNKNOWN_METHOD,
    Connection,
    Reply,
    RpcError,
)
from alhena.frontends.shared.arguments import RunArguments
from alhena.frontends.shared.pipes import check_streams, open_incoming, open_outgoing
from alhena.version import __version__

if TYPE_CHECKING:
    from alhena.config.effective_settings import Place
    from alhena.frontends.acp.session import EditorSession
    from alhena.wire.content import Content

MAX_LINE = 128 << 20
"""Bytes of a message."""
CLOSING_S = 8.0
"""Seconds that sessions get to end in good order."""
AUTH_METHODS = [
    {
        "id": "gemini-api-key",
        "name": "Gemini API key",
        "description": "Set GEMINI_API_KEY in the environment of the agent.",
    },
    {
        "id": "oauth-personal",
        "name": "Google account",
        "description": "Run `alhena auth login` in a terminal (Standard or Enterprise licence).",
    },
    {
        "id": "vertex-ai",
        "name": "Vertex AI",
        "description": "Set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION, or GOOGLE_API_KEY.",
    },
]


def run_acp(arguments: RunArguments) -> int:
    """Serves the client until it has gone or a signal comes. Raises ConfigError without the
    package of the protocol."""
    if find_spec("acp") is None:
        from alhena.distribution import install_command

        raise ConfigError("--acp needs a package.", remedy=f"Install it: {install_command('acp')}")
    check_streams("ACP")
    asyncio.run(_serve(arguments))
    return 0


async def _serve(arguments: RunArguments) -> None:
    over = asyncio.Event()
    failures: list[AlhenaError] = []

    def note_end(error: AlhenaError | None) -> None:
        failures.extend(filter(None, [error]))
        over.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, over.set)
    server = EditorServer(arguments)
    with (
        closing(open_incoming(note_end, MAX_LINE)) as reading,
        closing(open_outgoing(note_end)) as writing,
    ):
        server.connection = Connection(reading, writing, server.request, server.notification)
        running = asyncio.create_task(server.connection.run())
        stop = asyncio.create_task(over.wait())
        await asyncio.wait({running, stop}, return_when=asyncio.FIRST_COMPLETED)
        killer = loop.call_later(CLOSING_S, server.kill)
        try:
            await server.close()
            running.cancel()
            await asyncio.wait({running})
        finally:
            killer.cancel()
            stop.cancel()
    if not running.cancelled():
        running.result()
    if failures:
        raise failures[0]


class EditorServer:
    """Answers one client. The first message is `initialize`; everything that is heavy is loaded
    after its answer."""

    connection: Connection

    def __init__(self, arguments: RunArguments) -> None:
        self._arguments = arguments
        self._sessions: dict[str, EditorSession] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._listed: dict[str, str] = {}  # the directory of each session that was listed
        self._client: dict[str, Any] = {}
        self._schema: asyncio.Future[Any] | None = None
        self._methods: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
            "authenticate": ("AuthenticateRequest", self._authenticate),
            "session/new": ("NewSessionRequest", self._new),
            "session/load": ("LoadSessionRequest", self._load),
            "session/resume": ("ResumeSessionRequest", self._resume),
            "session/fork": ("ForkSessionRequest", self._fork),
            "session/list": ("ListSessionsRequest", self._list),
            "session/close": ("CloseSessionRequest", self._close),
            "session/delete": ("DeleteSessionRequest", self._delete),
            "logout": ("LogoutRequest", self._logout),
            "session/prompt": ("PromptRequest", self._prompt),
            "session/set_mode": ("SetSessionModeRequest", self._set_mode),
            "session/set_config_option": (
                "SetSessionConfigOptionSelectRequest",
                self._set_option,
            ),
            "session/set_model": ("", self._set_model),
        }

    async def request(self, method: str, params: Any) -> Reply:
        """Carries out a request. Raises RpcError."""
        if method == "initialize":
            return self._initialize(params)
        found = self._methods.get(method)
        if found is None:
            raise RpcError(UNKNOWN_METHOD, f"Method not found: {method}")
        model, carry = found
        await self._require(model, params)
        return await carry(params)

    def notification(self, method: str, params: Any) -> None:
        """Takes a notification: `session/cancel`."""
        if method == "session/cancel" and isinstance(params, dict):
            session = self._sessions.get(str(cast("dict[str, Any]", params).get("sessionId")))
            if session is not None:
                session.cancel()

    async def close(self) -> None:
        """Closes every session in good order."""
        closing_all = (session.close() for session in tuple(self._sessions.values()))
        await asyncio.gather(*closing_all, return_exceptions=True)

    def kill(self) -> None:
        """Ends at once."""
        for session in self._sessions.values():
            session.runner.kill()
        os._exit(1)

    def _initialize(self, params: Any) -> Reply:
        match params:
            case {"protocolVersion": bool() | str() | float() | None as given}:
                raise RpcError(
                    INVALID_PARAMS,
                    f"Invalid params: protocolVersion has to be a whole number such as 1, not "
                    f"{json.dumps(given)[:60]}",
                )
            case {"protocolVersion": int()}:
                pass
            case _:
                raise RpcError(
                    INVALID_PARAMS, "Invalid params: protocolVersion is missing: a number such as 1"
                )
        able = cast("dict[str, Any]", params).get("clientCapabilities")
        self._client = cast("dict[str, Any]", able) if isinstance(able, dict) else {}
        return Reply(
            {
                "protocolVersion": 1,
                "agentInfo": {"name": "alhena", "title": "Alhena", "version": __version__},
                "authMethods": AUTH_METHODS,
                "agentCapabilities": {
                    "loadSession": True,
                    "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
                    "mcpCapabilities": {"http": True, "sse": True},
                    "sessionCapabilities": {
                        "list": {},
                        "resume": {},
                        "fork": {},
                        "close": {},
                        "delete": {},
                        "additionalDirectories": {},
                    },
                    "auth": {"logout": {}},
                },
            },
            self._load_rest,
        )

    def _load_rest(self) -> None:
        if self._schema is None:
            self._schema = asyncio.ensure_future(asyncio.to_thread(import_module, "acp.schema"))

    async def _require(self, model: str, params: Any) -> None:
        """Raises RpcError for parameters that are not those of the protocol."""
        if not model:  # a method that the package of the protocol has no model for
            match params:
                case {"sessionId": str(), "modelId": str()}:
                    return
                case _:
                    raise RpcError(INVALID_PARAMS, "Invalid params: sessionId and modelId")
        self._load_rest()
        schema = await asyncio.shield(cast("asyncio.Future[Any]", self._schema))
        from pydantic import ValidationError

        try:
            getattr(schema, model).model_validate(params)
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False, include_input=False)
            where = ".".join(str(each) for each in problems[0]["loc"])
            message = f"Invalid params: {where}: {problems[0]['msg']}"
            data = [{"path": list(each["loc"]), "message": each["msg"]} for each in problems[:5]]
            raise RpcError(INVALID_PARAMS, message, data) from error

    async def _authenticate(self, params: dict[str, Any]) -> Reply:
        known = {each["id"]: each for each in AUTH_METHODS}
        method = known.get(params["methodId"])
        if method is None:
            raise RpcError(INVALID_PARAMS, f"Invalid params: no method {params['methodId']!r}")
        from alhena.models.catalogue import default_model
        from alhena.models.errors import CredentialsError
        from alhena.models.providers.select import ModelChoice, choose_generator

        place = self._place(os.getcwd())
        try:
            chosen = choose_generator(
                ModelChoice(
                    model=self._arguments.model or default_model(),
                    environ=place.environ,
                    settings=place.settings,
                    fake_responses=self._arguments.fake_responses,
                )
            )
        except CredentialsError as error:
            raise RpcError(NO_CREDENTIALS, f"{error} {method['description']}") from error
        await chosen.generator.aclose()
        return Reply({})

    async def _new(self, params: dict[str, Any]) -> Reply:
        session = await self._open(params)
        return Reply({"sessionId": session.session_id, **session.state}, session.announce)

    async def _load(self, params: dict[str, Any]) -> Reply:
        session = await self._resume_session(params)
        earlier = None
        if session.resumed:
            cwd = str(session.runner.toolset.workspace.cwd)
            earlier, _ = await self._read_recorded(session.session_id, cwd)
        await session.replay(earlier)
        return Reply(session.state, session.announce)

    async def _resume(self, params: dict[str, Any]) -> Reply:
        session = await self._resume_session(params)
        return Reply(session.state, session.announce)

    async def _fork(self, params: dict[str, Any]) -> Reply:
        found = self._sessions.get(params["sessionId"])
        lost = 0
        if found is not None:
            history = found.runner.history
        else:
            history, lost = await self._read_recorded(
                params["sessionId"], params["cwd"], whole=True
            )
        session = await self._open(params, history=history)

        def announce() -> None:
            session.announce()
            if lost:
                session.warn(f"the record is damaged: its last {lost} bytes are not in this fork")

        return Reply({"sessionId": session.session_id, **session.state}, announce)

    async def _list(self, params: dict[str, Any]) -> Reply:
        from alhena.frontends.shared.listings import session_rows
        from alhena.session.store import project_store

        place = self._place(params.get("cwd") or os.getcwd())
        store = project_store(place.environ, place.cwd)
        found = await asyncio.to_thread(store.summaries)
        rows = session_rows(reversed(found))
        self._listed |= {row.facts["sessionId"]: str(place.cwd) for row in rows}
        return Reply({"sessions": [_session_entry(row.facts, place.cwd) for row in rows]})

    async def _close(self, params: dict[str, Any]) -> Reply:
        session = self._session(params)
        del self._sessions[session.session_id]
        await session.close()
        return Reply({})

    async def _delete(self, params: dict[str, Any]) -> Reply:
        """Ends a session and removes its record; one that there is not is deleted already."""
        own = params["sessionId"]
        found = self._sessions.pop(own, None)
        cwd = self._listed.get(own) or os.getcwd()
        if found is not None:
            cwd = str(found.runner.toolset.workspace.cwd)
            await found.close()
        from alhena.session.records import SessionError

        place = self._place(cwd)
        try:
            await asyncio.to_thread(_delete_session, place, own)
        except SessionError as error:
            raise RpcError(INTERNAL, str(error), {"kind": error.kind}) from error
        return Reply({})

    async def _logout(self, params: dict[str, Any]) -> Reply:
        del params
        from alhena.config.home import config_home
        from alhena.models.auth.store import sign_out
        from alhena.system.private_files import PrivateFiles

        await sign_out(PrivateFiles(config_home(os.environ)))
        return Reply({})

    async def _prompt(self, params: dict[str, Any]) -> Reply:
        return Reply(await self._session(params).prompt(params["prompt"]))

    async def _set_mode(self, params: dict[str, Any]) -> Reply:
        self._session(params).switch_mode(params["modeId"])
        return Reply({})

    async def _set_option(self, params: dict[str, Any]) -> Reply:
        session = self._session(params)
        if params["configId"] != "model":
            raise RpcError(INVALID_PARAMS, f"Invalid params: no option {params['configId']!r}")
        await session.switch_model(params["value"])
        return Reply({"configOptions": session.state["configOptions"]})

    async def _set_model(self, params: dict[str, Any]) -> Reply:
        await self._session(params).switch_model(params["modelId"])
        return Reply({})

    def _session(self, params: dict[str, Any]) -> "EditorSession":
        session = self._sessions.get(params["sessionId"])
        if session is None:
            raise RpcError(INVALID_PARAMS, f"Session not found: {params['sessionId']}")
        return session

    async def _resume_session(self, params: dict[str, Any]) -> "EditorSession":
        """The session, which may be at work here. Raises RpcError."""
        own = params["sessionId"]
        async with self._opening.setdefault(own, asyncio.Lock()):
            found = self._sessions.get(own)
            if found is not None:
                return found
            place = self._place(params["cwd"])
            from alhena.session.store import project_store

            store = project_store(place.environ, place.cwd)
            if not await asyncio.to_thread(os.path.exists, _path(store, own)):
                raise RpcError(NOT_FOUND, f"Session not found: {own}")
            return await self._open(params, resume=own)

    async def _read_recorded(
        self, session_id: str, cwd: str, *, whole: bool = False
    ) -> "tuple[tuple[Content, ...], int]":
        """The readable part of a conversation on disk, and how many bytes of its end are not.
        Raises RpcError."""
        from alhena.session.journal import read_session
        from alhena.session.records import SessionError
        from alhena.session.replay import Replay
        from alhena.session.store import project_store, require_readable

        place = self._place(cwd)
        replay = Replay()
        path = _path(project_store(place.environ, place.cwd), session_id)
        try:
            extent = await asyncio.to_thread(read_session, path, replay.feed)
            header = require_readable(path, replay.header)
        except SessionError as error:
            raise RpcError(NOT_FOUND, str(error), {"kind": error.kind}) from error
        contents = replay.contents[0 if whole else header.opening :]
        lost = 0 if extent.damage is None else extent.damage.size
        return tuple(entry.content for entry in contents), lost

    def _place(self, cwd: str) -> "Place":
        if not os.path.isabs(cwd) or not os.path.isdir(cwd):
            raise RpcError(INVALID_PARAMS, f"Invalid params: cwd: there is no directory {cwd!r}")
        from alhena.config.effective_settings import open_place

        return open_place(
            Path(cwd),
            os.environ,
            skip_trust=self._arguments.skip_trust,
            extensions=self._arguments.extensions,
        )

    async def _open(
        self,
        params: dict[str, Any],
        *,
        resume: str | None = None,
        history: "tuple[Content, ...]" = (),
    ) -> "EditorSession":
        """Opens a session with the servers that the client gives it. Raises RpcError."""
        from alhena.frontends.acp.session import EditorSession
        from alhena.frontends.shared.current_settings import (
            SessionFolder,
            refused_mode,
            session_options,
        )
        from alhena.models.errors import CredentialsError
        from alhena.session.records import SessionError

        place = self._place(params["cwd"])
        beside = _directories(params.get("additionalDirectories") or [])
        try:
            options = session_options(self._arguments, place, attended=True)
            settings = options.place.settings
            servers = _servers(params.get("mcpServers") or [])
            servers = {**settings.mcp_servers, **servers}
            refused = refused_mode(self._arguments, place)
            options = msgspec.structs.replace(
                options,
                place=msgspec.structs.replace(
                    options.place,
                    settings=msgspec.structs.replace(settings, mcp_servers=servers),
                    warnings=(*options.place.warnings, *refused),
                    directories=(*options.place.directories, *beside),
                ),
                record=RecordOptions(resume=resume, history=history),
            )
            folder = SessionFolder(lambda: self._place(params["cwd"]), "alhena trust")
            session = EditorSession(options, folder, self.connection, self._client)
            await session.open()
        except CredentialsError as error:
            raise RpcError(NO_CREDENTIALS, str(error), {"kind": error.kind}) from error
        except SessionError as error:
            raise RpcError(NOT_FOUND, str(error), {"kind": error.kind}) from error
        except AlhenaError as error:
            raise RpcError(INTERNAL, str(error), {"kind": error.kind}) from error
        self._sessions[session.session_id] = session
        return session


def _delete_session(place: "Place", session_id: str) -> None:
    """Removes the record of a session, of whichever project. Raises SessionError and RpcError."""
    from alhena.config.home import project_temp
    from alhena.session.store import open_store, project_store

    own = project_store(place.environ, place.cwd)
    path = _path(own, session_id)
    if path.exists():
        own.delete(session_id)
        return
    temp = project_temp(place.environ, place.cwd)
    below = path.relative_to(temp)
    for other in temp.parent.iterdir() if temp.parent.is_dir() else ():
        if (other / below).exists():
            open_store(other).delete(session_id)


def _directories(given: list[str]) -> tuple[str, ...]:
    """The further directories of a session. Raises RpcError."""
    for each in given:
        if not os.path.isabs(each) or not os.path.isdir(each):
            raise RpcError(
                INVALID_PARAMS,
                f"Invalid params: additionalDirectories: there is no directory {each!r}",
            )
    return tuple(given)


def _path(store: Any, session_id: str) -> Path:
    """The file of a session. Raises RpcError for what can be no id."""
    from alhena.session.records import is_session_id

    if not is_session_id(session_id):
        raise RpcError(NOT_FOUND, f"Session not found: {session_id}")
    return store.path(session_id)


def _session_entry(facts: Mapping[str, Any], cwd: Path) -> dict[str, Any]:
    from alhena.events import timestamp

    return {
        "sessionId": facts["sessionId"],
        "cwd": str(cwd),
        "title": facts["title"],
        "updatedAt": timestamp(int(facts["updated"] * 1_000_000_000)),
    }


def _servers(given: list[dict[str, Any]]) -> dict[str, Any]:
    """The client's servers as entries of settings."""
    found: dict[str, Any] = {}
    for each in given:
        kind = each.get("type")
        if kind in ("http", "sse"):
            headers = {item["name"]: item["value"] for item in each.get("headers") or ()}
            key = "httpUrl" if kind == "http" else "url"
            found[each["name"]] = {key: each["url"], "headers": headers}
        elif "command" in each:
            env = {item["name"]: item["value"] for item in each.get("env") or ()}
            args: list[str] = each.get("args") or []
            found[each["name"]] = {"command": each["command"], "args": args, "env": env}
        else:
            raise RpcError(INVALID_PARAMS, f"Invalid params: mcpServers: the type {kind!r}")
    return found
