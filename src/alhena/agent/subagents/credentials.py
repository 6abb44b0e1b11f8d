"""The credentials of remote agents: the headers that prove who asks, and OAuth: a person signs in
once, the token is stored and renewed."""

import asyncio
import base64
import time
from collections.abc import Mapping
from pathlib import Path
from typing import assert_never

from msgspec.structs import replace

from alhena.agent.subagents.remote import (
    ApiKeyAuth,
    Auth,
    GoogleAuth,
    HttpAuth,
    OAuth,
    RemoteAgent,
)
from alhena.config.environment import own_environment
from alhena.config.home import config_home
from alhena.http.addresses import Endpoint, is_header_value
from alhena.mcp.oauth.tokens import StoredToken, TokenFile
from alhena.models.auth.tokens import EARLY, Credentials, TimedGrant, ask_grant, token_endpoint
from alhena.models.errors import CredentialsError
from alhena.system.private_files import PrivateFiles

COMMAND_S = 60.0
MAX_OUTPUT = 64 * 1024
GOOGLE_APIS, CLOUD_RUN = ".googleapis.com", ".run.app"
"""Hosts that get an access token, which grants all that the account may do; and those that get an
identity token for themselves."""


class AgentCredentials:
    """The credentials of one remote agent. Commands run in `cwd`; variables are those of the user,
    never of a project's .env file."""

    def __init__(self, agent: RemoteAgent, environ: Mapping[str, str], cwd: Path) -> None:
        self._where = f"remote agent '{agent.name}'"
        self._agent = agent
        self._environ = own_environment(environ)
        self._cwd = cwd
        self._google: Credentials | None = None
        self._sent: set[str] = set()

    async def headers(self, endpoint: Endpoint, *, fresh: bool = False) -> dict[str, str]:
        """The headers for a request to `endpoint`; `fresh`: after others were refused. Raises
        CredentialsError and the errors of token endpoints; no message quotes a secret."""
        auth: Auth = self._agent.auth
        match auth:
            case ApiKeyAuth():
                headers = {auth.name: await self._value(auth.key, "key")}
            case HttpAuth():
                headers = {"Authorization": await self._authorization(auth)}
            case GoogleAuth():
                headers = await self._google_headers(endpoint, fresh=fresh)
            case OAuth():
                token = await stored_token(self._agent, self._environ, fresh=fresh)
                headers = {"Authorization": f"Bearer {token}"}
            case _:
                assert_never(auth)
        self._sent |= {value.split()[-1] for value in headers.values() if len(value) > 5}
        for name, value in headers.items():
            if not is_header_value(value) or not is_header_value(name):
                raise CredentialsError(
                    f"{self._where}: the value for the header {name!r:.60} cannot be sent.",
                    remedy="Header values are printable ASCII without line breaks.",
                )
        return headers

    def redacted(self, text: str) -> str:
        """The text without the secrets of earlier requests, which a server may quote."""
        for secret in self._sent:
            text = text.replace(secret, "[redacted]")
        return text

    async def _authorization(self, auth: HttpAuth) -> str:
        match auth.scheme.lower():
            case "bearer":
                return f"Bearer {await self._value(auth.token, 'token')}"
            case "basic":
                username = await self._value(auth.username, "username")
                password = await self._value(auth.password, "password")
                return f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"
            case _:
                return f"{auth.scheme} {await self._value(auth.value, 'value')}"

    async def _value(self, text: str, key: str) -> str:
        """The value of `$VARIABLE`, the output of `!command`, or the text; `$$` and `!!` begin a
        text with one of them."""
        if text.startswith(("$$", "!!")):
            return text[1:]
        if text.startswith("!"):
            return await self._output(text[1:].strip(), key)
        if not text.startswith("$"):
            return text
        value = self._environ.get(text[1:], "")
        if not value:
            raise CredentialsError(
                f"{self._where}: the variable {text[1:]} is not set.",
                remedy="Export it before you start alhena.",
            )
        return value

    async def _output(self, command: str, key: str) -> str:
        from alhena.system.environment import child_environment
        from alhena.system.processes import CommandLimits, ProcessCommand, run_process, shell_path

        why = await asyncio.to_thread(self._agent.why_held) if self._agent.why_held else ""
        if why:
            raise CredentialsError(f"{self._where}: the command for {key} was not run: {why}.")
        env = child_environment(self._environ).variables
        output = bytearray()
        ending = await run_process(
            ProcessCommand(
                argv=(shell_path(env) or "/bin/sh", "-c", command),
                cwd=str(self._cwd),
                env=env,
                merge_stderr=False,
                leaves_nothing=True,
            ),
            output.extend,
            limits=CommandLimits(inactivity=COMMAND_S, total=COMMAND_S, output=MAX_OUTPUT),
        )
        value = output.decode("utf-8", "replace").strip()
        how = "failed" if ending.exit_code != 0 else "" if value else "printed nothing"
        if ending.stopped is not None:
            how = f"was stopped ({ending.stopped})"
        if how:
            raise CredentialsError(
                f"{self._where}: the command for {key} {how}.", remedy="Run it in a shell."
            )
        return value

    async def _google_headers(self, endpoint: Endpoint, *, fresh: bool) -> dict[str, str]:
        host = f".{endpoint.host}"
        if not endpoint.secure or not host.endswith((GOOGLE_APIS, CLOUD_RUN)):
            raise CredentialsError(
                f"{self._where}: Google credentials are not sent to {endpoint.place}.",
                remedy="Only https hosts of googleapis.com and run.app get them: use another type.",
            )
        audience = endpoint.place if host.endswith(CLOUD_RUN) else ""
        if self._google is None:
            from alhena.models.auth.adc import default_credentials

            self._google = default_credentials(self._environ, audience=audience)
        token = await self._google.tokens.token(fresh=fresh)
        project = "" if audience else self._google.quota_project
        extra = {"x-goog-user-project": project} if project else {}
        return {"Authorization": f"Bearer {token}"} | extra


FILE = "a2a-oauth-tokens.json"


def token_file(environ: Mapping[str, str]) -> TokenFile:
    """The tokens of remote agents, among the user's files."""
    return TokenFile(PrivateFiles(config_home(environ)), name=FILE)


async def stored_token(agent: RemoteAgent, environ: Mapping[str, str], *, fresh: bool) -> str:
    """The access token of an agent, renewed if it ends soon or another is wanted. Raises
    CredentialsError when not signed in or the sign-in has ended, and other AlhenaErrors."""
    tokens = token_file(environ)
    remedy = f"Sign in: alhena agents auth {agent.name}."
    async with tokens.alone(agent.name):
        found = tokens.find(agent.name, token_place(agent))
        if found is None:
            raise CredentialsError(f"not signed in to remote agent '{agent.name}'.", remedy=remedy)
        if not fresh and found.holds_for(EARLY, time.time()):
            return found.access_token
        if not found.refresh_token:
            raise CredentialsError(
                f"the sign-in to remote agent '{agent.name}' has ended.", remedy=remedy
            )
        form = {"grant_type": "refresh_token", "refresh_token": found.refresh_token}
        timed = await ask_token(agent, found.token_url, form, environ, remedy)
        new = with_grant(found, timed)
        await tokens.save(new, time.time())
        return new.access_token


async def ask_token(
    agent: RemoteAgent, url: str, form: dict[str, str], environ: Mapping[str, str], remedy: str
) -> TimedGrant:
    """Asks the token endpoint at `url` for a grant. Raises AlhenaErrors."""
    auth: OAuth = agent.auth
    endpoint = token_endpoint(url, f"token_url of remote agent '{agent.name}'")
    form = form | {"client_id": auth.client_id}
    if auth.client_secret:
        form["client_secret"] = auth.client_secret
    return await ask_grant(endpoint, form, environ=environ, remedy=remedy)


def with_grant(token: StoredToken, timed: TimedGrant) -> StoredToken:
    """The stored token with what a token endpoint has given."""
    grant = timed.grant
    return replace(
        token,
        access_token=grant.access_token,
        refresh_token=grant.refresh_token or token.refresh_token,
        expires_at=None if grant.expires_in is None else timed.at + grant.expires_in,
        scope=grant.scope or token.scope,
    )


def token_place(agent: RemoteAgent) -> str:
    """The place that a token is for: a token is not sent elsewhere."""
    return agent.card_url or f"inline:{agent.name}"
