"""Signs a person in to a server: discovery, registration, consent in a browser, tokens.

The SDK's client runs the flow: it verifies the resource (RFC 9728) and the issuer (RFC 8414, 9207)
and uses PKCE and a state. Its requests are sent by `OAuthHttp`, within limits and to allowed
addresses only. Token answers are parsed here, so that no error message quotes a secret.
"""

import logging
import re
import time
from collections.abc import Callable
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import httpx2
import msgspec
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.exceptions import OAuthFlowError, OAuthRegistrationError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types import LATEST_PROTOCOL_VERSION
from pydantic import ValidationError

from alhena.config.mcp_servers import McpOAuth, McpServer, McpTransport
from alhena.display_text import one_line
from alhena.errors import AlhenaError, ModelError
from alhena.mcp.connection import valid_scopes
from alhena.mcp.oauth.requests import (
    BASIC,
    McpTokenGrant,
    OAuthHttp,
    describe_origin,
    form_request,
    is_proxied,
    open_http,
    read_grant,
    refusal_words,
    require_safe,
    same_issuer,
)
from alhena.mcp.oauth.tokens import NO_RESOURCE, SignInError, StoredToken, TokenFile
from alhena.version import __version__

CLIENT_NAME = "alhena"
MAX_SAID = 300
_POST = "client_secret_post"

logging.getLogger("mcp.client.auth.oauth2").disabled = True  # its records quote tokens


class AuthorizationResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The authorization response from the browser."""

    code: str
    state: str
    issuer: str | None = None

    def __repr__(self) -> str:
        return f"Answered(issuer={self.issuer!r})"


class BrowserConsent(Protocol):
    """Consent of the person in a browser. `redirect_uri` receives the response."""

    @property
    def redirect_uri(self) -> str:
        """A redirect address that the person's browser can reach."""
        ...

    async def ask(self, url: str, state: str) -> AuthorizationResponse:
        """Opens the page and waits for the response with this state. Raises AlhenaError when the
        person refuses or does not respond."""
        ...


async def sign_in(
    name: str,
    server: McpServer,
    consent: BrowserConsent,
    tokens: TokenFile,
    now: Callable[[], float] = time.time,
) -> StoredToken:
    """Signs in and saves the new token; the previous one stays valid until then.

    Raises SignInError, and the errors of `consent` and of saving tokens.
    """
    address, oauth = server.address, server.oauth or McpOAuth()
    if address is None:
        raise SignInError(f"the MCP server '{name}' is a local process: it needs no sign-in")
    if oauth.token_param_name:
        raise SignInError(
            "tokenParamName is not supported: tokens are not put into URLs, which end up in logs",
            remedy=f"Remove mcpServers.{name}.oauth.tokenParamName, if the server takes headers.",
        )
    try:
        return await _sign_in(name, server, consent, tokens, now)
    except AlhenaError as error:
        error.remedy = _remedy(name, error)
        raise


_REMEDIES = (
    (
        r"invalid_target|AADSTS9010\d+|resource\W+(?:request )?parameter",
        "If it takes no resource parameter, set {oauth}.resource to false.",
    ),
    (r"resource .* does not match", "Correct the URL of mcpServers.{name}."),
    (
        r"invalid_client|unauthorized_client",
        "Correct {oauth}.clientId and clientSecret, or remove them to have alhena registered.",
    ),
    (r"invalid_scope", "Set {oauth}.scopes to scopes that it has."),
    (
        r"redirect_uri",
        "Register http://localhost:PORT/oauth/callback there, or set {oauth}.redirectUri.",
    ),
    (
        r"issuer|\biss\b",
        "If you trust it, set {oauth}.authorizationUrl and tokenUrl to its addresses.",
    ),
    (r"cannot be reached|did not answer|HTTP 5", "Check the network and its address. {again}"),
)


def _remedy(name: str, error: AlhenaError) -> str:
    """The remedy of a failed sign-in: its own, or what its words suggest."""
    again = f"Sign in again: alhena mcp auth {name} (or /mcp auth {name})."
    own = (error.remedy or "").replace("mcpServers.NAME", f"mcpServers.{name}")
    if own and isinstance(error, SignInError):
        return own
    for pattern, remedy in _REMEDIES:
        if re.search(pattern, error.message, re.IGNORECASE):
            return remedy.format(oauth=f"mcpServers.{name}.oauth", name=name, again=again)
    # A refusal in the browser has the remedy of another sign-in.
    return again if isinstance(error, ModelError) else own or again


async def _sign_in(
    name: str,
    server: McpServer,
    consent: BrowserConsent,
    tokens: TokenFile,
    now: Callable[[], float],
) -> StoredToken:
    address, oauth = server.address or "", server.oauth or McpOAuth()
    require_safe(address, address)
    tokens.find_by_name(name)  # report an unusable file before the sign-in, not after
    given = (oauth.authorization_url, oauth.token_url, oauth.issuer, oauth.registration_url)
    async with open_http(address, [url for url in given if url]) as http:
        challenge = await _challenge(address, server, http.record_address)
        flow = SignInFlow(address, oauth, consent, http, tokens.find(name, address))
        asked = now()
        grant = await flow.run(challenge)
    client = flow.client
    token = StoredToken(
        server_name=name,
        server_url=address,
        access_token=grant.access_token,
        refresh_token=grant.refresh_token or "",
        expires_at=None if grant.expires_in is None else asked + grant.expires_in,
        scope=grant.scope or flow.context.client_metadata.scope or "",
        client_id=client.client_id,
        client_secret=client.client_secret or "",
        auth_method=client.token_endpoint_auth_method or "none",
        token_url=flow.token_url,
        issuer=flow.issuer,
        resource=flow.context.get_resource_url() if oauth.resource else NO_RESOURCE,
        audience=" ".join(oauth.audiences),
    )
    async with tokens.alone(name):  # a running renewal must not overwrite the new token
        await tokens.save(token, now())
    return token


class SignInFlow(OAuthClientProvider):
    """The SDK's flow, run once. Settings replace discovered values; `kept` is the previous
    token."""

    def __init__(
        self,
        server_url: str,
        oauth: McpOAuth,
        consent: BrowserConsent,
        http: OAuthHttp,
        kept: StoredToken | None,
    ) -> None:
        try:
            wanted = OAuthClientMetadata.model_validate(
                {
                    "redirect_uris": [consent.redirect_uri],
                    "client_name": CLIENT_NAME,
                    "token_endpoint_auth_method": "none",
                }
            )
        except ValidationError as error:
            raise SignInError("the redirect address is no URL") from error
        super().__init__(
            server_url,
            wanted,
            _Unkept(),
            redirect_handler=self._go,
            callback_handler=self._return,
        )
        self._initialized = True
        self._oauth = oauth
        self._consent = consent
        self._http = http
        self._kept = kept
        self._status = 0
        self._challenged = False
        self._page = self._state = ""
        self._secrets: tuple[str, ...] = ()
        self._grant: McpTokenGrant | None = None
        self.context.auth_server_url = oauth.issuer or None
        self.context.oauth_metadata = _metadata_of(oauth)
        if oauth.client_id:
            self.context.client_info = OAuthClientInformationFull(
                client_id=oauth.client_id, client_secret=oauth.client_secret or None
            )

    @property
    def client(self) -> OAuthClientInformationFull:
        """The client that was registered, or that of the settings."""
        if self.context.client_info is None:
            raise SignInError("the sign-in ended without a client")
        return self.context.client_info

    @property
    def token_url(self) -> str:
        """URL of the token endpoint."""
        return self._get_token_endpoint()

    @property
    def issuer(self) -> str:
        """The issuer of the tokens; "" if unknown."""
        if self._oauth.authorization_url and self._oauth.token_url:
            return self._oauth.issuer or ""
        metadata = self.context.oauth_metadata
        return "" if metadata is None else str(metadata.issuer)

    async def run(self, challenge: httpx2.Response) -> McpTokenGrant:
        """Obtains the tokens. `challenge` is the server's answer to a request without a token.
        Raises SignInError, and the errors of the consent."""
        self._status = challenge.status_code
        self._challenged = self._status in (401, 403)
        steps = self._auth_flow(challenge.request)
        response = self._understood(challenge)
        place = describe_origin(self.context.server_url)
        try:
            await anext(steps)  # the request that got the challenge
            while True:
                request = await steps.asend(response)
                if self._grant is not None:
                    return self._grant
                if request.method == "POST" and self.context.client_info is None:
                    await self._require_metadata(registers=True)
                place = describe_origin(str(request.url))
                response = self._align_issuer(await self._http.send(request))
                self._status = response.status_code
        except OAuthRegistrationError:
            # Not chained: the message quotes the answer, in which a secret may stand.
            _, said = refusal_words(response.content, ())
            words = f"HTTP {response.status_code}" + (f", {said}" if said else "")
            raise SignInError(
                f"{place} does not register alhena as a client ({words})",
                remedy="Register one by hand, and set mcpServers.NAME.oauth.clientId.",
            ) from None
        except OAuthFlowError as error:
            raise SignInError(one_line(str(error), MAX_SAID)) from error
        finally:
            await steps.aclose()

    def _understood(self, challenge: httpx2.Response) -> httpx2.Response:
        """The challenge in the form that makes the SDK start with discovery or, with the addresses
        of the settings, without."""
        named = challenge.headers.get("www-authenticate", "Bearer")
        if self.context.oauth_metadata is None:
            return httpx2.Response(401, headers={"www-authenticate": named})
        told = f'Bearer error="insufficient_scope", {named}'
        return httpx2.Response(403, headers={"www-authenticate": told})

    def _select_authorization_server(self, advertised: list[str]) -> str:
        wanted = self._oauth.issuer
        if not wanted:
            return super()._select_authorization_server(advertised)
        for each in advertised:
            if same_issuer(each, wanted):
                return each
        raise SignInError(
            f"it does not name {one_line(wanted, 200)} among those that sign in for it",
            remedy="Correct mcpServers.NAME.oauth.issuer, or remove it.",
        )

    def _align_issuer(self, response: httpx2.Response) -> httpx2.Response:
        """Metadata of an authorization server, with the issuer as it was named before."""
        try:
            told = msgspec.json.decode(response.content, type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return response
        issuer = told.get("issuer")
        if not isinstance(issuer, str) or "token_endpoint" not in told:
            return response
        expected = self._expected_issuer()
        if issuer == expected or not same_issuer(issuer, expected):
            return response
        return httpx2.Response(
            response.status_code, json=told | {"issuer": expected}, request=response.request
        )

    def _expected_issuer(self) -> str:
        if self.context.auth_server_url is None and not self._challenged:
            raise SignInError(
                "it does not ask who you are, and does not say where to sign in",
                remedy="If it needs a sign-in all the same, set authorizationUrl and tokenUrl in "
                "mcpServers.NAME.oauth.",
            )
        return super()._expected_issuer()

    async def _require_metadata(self, *, registers: bool) -> None:
        """Raises SignInError before a registration, or a page in the browser, that cannot lead to
        a token or must not be opened."""
        metadata = self.context.oauth_metadata
        if metadata is None:
            if self.context.auth_server_url is not None:
                named = one_line(self.context.auth_server_url, 200)
                raise SignInError(f"{named} does not say how to sign in (HTTP {self._status})")
            return
        methods = metadata.code_challenge_methods_supported
        if methods is not None and "S256" not in methods:
            raise SignInError("the authorization server does not know PKCE with S256")
        if registers and metadata.registration_endpoint is None:
            raise SignInError(
                f"{describe_origin(str(metadata.token_endpoint))} does not take clients that it "
                "does not know",
                remedy="Register one there, and set mcpServers.NAME.oauth.clientId (and "
                "clientSecret).",
            )
        for url in (metadata.authorization_endpoint, metadata.token_endpoint):
            await self._http.require(str(url))

    async def _perform_authorization(self) -> httpx2.Request:
        await self._require_metadata(registers=False)
        if self.client.token_endpoint_auth_method is None:
            self.client.token_endpoint_auth_method = self._secret_method()
        self.context.client_metadata.scope = self._scope()
        request = await super()._perform_authorization()
        form = dict(parse_qsl(request.content.decode("utf-8")))
        hidden = ("code", "code_verifier", "client_secret")
        self._secrets = tuple(form[each] for each in hidden if each in form)
        if self._oauth.audiences:
            form["audience"] = " ".join(self._oauth.audiences)
        if not self._oauth.resource:
            form.pop("resource", None)
        return form_request(self.token_url, form, request.headers.get("authorization"))

    def _secret_method(self) -> str:
        if not self.client.client_secret:
            return "none"
        metadata = self.context.oauth_metadata
        methods = None if metadata is None else metadata.token_endpoint_auth_methods_supported
        return BASIC if methods and BASIC in methods and _POST not in methods else _POST

    def _scope(self) -> str | None:
        """The scopes to request: those of the settings, or those that the server names, with those
        required since the last sign-in and those it had."""
        if self._oauth.scopes:
            return " ".join(self._oauth.scopes)
        scope, kept = self.context.client_metadata.scope, self._kept
        if kept is None or not kept.wanted:
            return scope
        return " ".join(valid_scopes(f"{scope or ''} {kept.scope} {kept.wanted}".split()))

    async def _go(self, url: str) -> None:
        """Rebuilds the authorization URL: an endpoint may have its own query."""
        page, _, asked = url.rpartition("?")
        parts = urlsplit(page)
        own = parse_qsl(asked)
        if not self._oauth.resource:
            own = [(name, value) for name, value in own if name != "resource"]
        self._state = dict(own)["state"]
        fields = [*parse_qsl(parts.query, keep_blank_values=True), *own]
        if self._oauth.audiences:
            fields.append(("audience", " ".join(self._oauth.audiences)))
        self._page = urlunsplit(parts._replace(query=urlencode(fields)))

    async def _return(self) -> AuthorizationCodeResult:
        answered = await self._consent.ask(self._page, self._state)
        # An unknown issuer cannot be verified.
        issuer = answered.issuer if self.issuer else None
        metadata = self.context.oauth_metadata
        if (
            issuer is not None
            and metadata is not None
            and same_issuer(issuer, str(metadata.issuer))
        ):
            issuer = str(metadata.issuer)
        return AuthorizationCodeResult(code=answered.code, state=answered.state, iss=issuer)

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        self._grant = read_grant(
            response.status_code, response.content, self.token_url, self._secrets
        )


def _metadata_of(oauth: McpOAuth) -> OAuthMetadata | None:
    """The metadata of an authorization server whose addresses are in the settings, else None."""
    if not (oauth.authorization_url and oauth.token_url):
        return None
    try:
        return OAuthMetadata.model_validate(
            {
                "issuer": oauth.issuer or oauth.authorization_url,
                "authorization_endpoint": oauth.authorization_url,
                "token_endpoint": oauth.token_url,
                "registration_endpoint": oauth.registration_url or None,
            }
        )
    except ValidationError as error:
        raise SignInError(
            "the addresses of the sign-in in the settings are no URLs",
            remedy="Correct authorizationUrl and tokenUrl in mcpServers.NAME.oauth.",
        ) from error


class _Unkept:
    """A token storage for the SDK that stores nothing: the sign-in saves its token at the end."""

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        del tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        del client_info


async def _challenge(
    address: str, server: McpServer, reached: Callable[[str], None]
) -> httpx2.Response:
    """The server's answer to an unauthenticated request; `reached` receives its address. An event
    stream is not read."""
    events = server.transport is McpTransport.SSE
    body = msgspec.json.encode(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": LATEST_PROTOCOL_VERSION,
                "capabilities": {},
                "clientInfo": {"name": CLIENT_NAME, "version": __version__},
            },
        }
    )
    headers = {
        **server.headers,
        "Accept": "text/event-stream" if events else "application/json, text/event-stream",
        "Content-Type": "application/json",
        MCP_PROTOCOL_VERSION_HEADER: LATEST_PROTOCOL_VERSION,
    }
    try:
        async with httpx2.AsyncClient(timeout=20.0) as client:
            method = "GET" if events else "POST"
            content = None if events else body
            async with client.stream(method, address, headers=headers, content=content) as said:
                stream = said.extensions.get("network_stream")
                where = None if stream is None else stream.get_extra_info("server_addr")
                if where and not is_proxied(address):
                    reached(str(where[0]))
                kept = said.headers.get("www-authenticate")
                told = {} if kept is None else {"www-authenticate": kept}
                return httpx2.Response(said.status_code, headers=told, request=said.request)
    except httpx2.HTTPError as error:
        raise SignInError(
            f"{describe_origin(address)} cannot be reached ({type(error).__name__})"
        ) from error
