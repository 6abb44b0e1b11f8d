"""A person's sign-in to a remote agent."""

import asyncio
import time
from collections.abc import Mapping
from importlib.util import find_spec

from alhena.agent.subagents.credentials import ask_token, token_file, token_place, with_grant
from alhena.agent.subagents.remote import OAuth, RemoteAgent, missing_package
from alhena.errors import InputError
from alhena.mcp.oauth.tokens import StoredToken
from alhena.models.auth.authorization import authorization_url, listening
from alhena.models.auth.exchange import OAuthClient
from alhena.models.auth.login import Person, answer_from_browser, ways_from
from alhena.models.auth.tokens import token_endpoint
from alhena.models.errors import CredentialsError


async def sign_in(agent: RemoteAgent, person: Person, environ: Mapping[str, str]) -> None:
    """Signs a person in and stores the token. Raises InputError for an agent without OAuth,
    CredentialsError when the person refuses or does not answer, and other AlhenaErrors."""
    auth = agent.auth
    if not isinstance(auth, OAuth):
        raise InputError(
            f"remote agent '{agent.name}' has no sign-in.", remedy="Only auth of type oauth has."
        )
    page, token_url, scopes = await _addresses(agent, auth, environ)
    token_endpoint(page, f"authorization_url of remote agent '{agent.name}'")
    ways = ways_from(environ)
    remedy = f"Start again: alhena agents auth {agent.name}."
    try:
        async with asyncio.timeout(ways.limit), listening(ways.host, ways.port) as callback:
            attempt = callback.attempt
            client = OAuthClient(id=auth.client_id, secret=auth.client_secret)
            url = authorization_url(page, client, attempt, scopes)
            form = {
                "grant_type": "authorization_code",
                "code": await answer_from_browser(person, url, callback),
                "redirect_uri": attempt.redirect_uri,
                "code_verifier": attempt.verifier,
            }
            timed = await ask_token(agent, token_url, form, environ, remedy)
            token = StoredToken(
                server_name=agent.name,
                server_url=token_place(agent),
                access_token="",
                client_id=auth.client_id,
                token_url=token_url,
            )
            tokens = token_file(environ)
            async with tokens.alone(agent.name):  # a renewal must not overwrite the new token
                await tokens.save(with_grant(token, timed), time.time())
            callback.conclude(done=True)
    except TimeoutError as error:
        raise CredentialsError(
            f"not signed in to remote agent '{agent.name}' within {ways.limit / 60:g} minutes.",
            remedy=remedy,
        ) from error


async def _addresses(
    agent: RemoteAgent, auth: OAuth, environ: Mapping[str, str]
) -> tuple[str, str, tuple[str, ...]]:
    """The consent page, the token endpoint and the scopes: of the definition, else of the card."""
    page, token_url, scopes = auth.authorization_url, auth.token_url, auth.scopes
    if page and token_url:
        return page, token_url, scopes
    if find_spec("a2a") is None:
        raise InputError(f"remote agent '{agent.name}': {missing_package()}")
    from alhena.agent.subagents.a2a import RemoteConversation

    flow = await RemoteConversation(agent, None, environ).sign_in_flow()
    if flow is None:
        raise InputError(
            f"the agent card of '{agent.name}' names no sign-in by authorization code.",
            remedy="Set authorization_url and token_url in its auth.",
        )
    page, scopes = page or flow.authorization_url, scopes or tuple(flow.scopes)
    return page, token_url or flow.token_url, scopes
