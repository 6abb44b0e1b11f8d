"""Signs a person in to a server: discovery, registration, consent in a browser, tokens.

The SDK's client makes the requests of the code grant (PKCE, state, resource); answers are parsed
here, so that no error message quotes a secret.

Discovered metadata is verified: the resource has to be the server, the issuer the announced one
(RFC 9728, RFC 8414).
"""

import time
from collections.abc import AsyncGenerator, Callable
from typing import Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import httpx2
import msgspec
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.exceptions import OAuthFlowError, OAuthRegistrationError
from mcp.client.auth.oauth2 import check_registration_usable
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    create_client_registration_request,
    create_oauth_metadata_request,
    extract_resource_metadata_from_www_auth,
    extract_scope_from_www_auth,
    get_client_metadata_scopes,
    handle_auth_metadata_response,
    handle_protected_resource_response,
    handle_registration_response,
    issuers_match,
)
from mcp.shared.auth import (
    DEFAULT_GRANT_TYPES,
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types import LATEST_PROTOCOL_VERSION
from pydantic import AnyUrl, ValidationError

from alhena.config.mcp_servers import McpOAuth, McpServer, Transport
from alhena.display_text import one_line
from alhena.mcp.oauth.requests import (
    BASIC,
    Grant,
    OAuthHttp,
    is_proxied,
    opened,
    origin,
    posted,
    read_grant,
    refusal_words,
    require_safe,
    shown,
)
from alhena.mcp.oauth.tokens import SignInError, StoredToken, TokenFile
from alhena.mcp.scopes import joined
from alhena.version import __version__


class Authority(msgspec.Struct, frozen=True, kw_only=True):
    """The authorization server of an MCP server. `metadata` is None if it publishes none: the
    endpoints are then at the server's own origin, as in the first version. `issuer` is "" if
    unknown."""

    metadata: OAuthMetadata | None
    resource: ProtectedResourceMetadata | None
    issuer: str
    scope: str | None


async def discover(
    http: OAuthHttp, server_url: str, challenge: httpx2.Response, oauth: McpOAuth
) -> Authority:
    """Discovers the authorization server. `challenge` is the server's answer to a request without a
    token; settings take precedence. Raises SignInError."""
    if oauth.authorization_url and oauth.token_url:
        metadata = _of_settings(oauth, None)
        return Authority(
            metadata=metadata,
            resource=None,
            issuer=oauth.issuer or "",
            scope=_scope(oauth, challenge, None, None),
        )
    resource = await _resource(http, server_url, challenge)
    if resource is None and challenge.status_code not in (401, 403) and not oauth.issuer:
        raise SignInError(
            f"it does not ask who you are (HTTP {challenge.status_code}), and does not say where "
            "to sign in",
            remedy="If it needs a sign-in all the same, set authorizationUrl and tokenUrl in "
            "mcpServers.NAME.oauth.",
        )
    issuer = _issuer(resource, oauth)
    metadata = await _metadata(http, server_url, issuer)
    if metadata is not None or oauth.authorization_url or oauth.token_url:
        metadata = _of_settings(oauth, metadata)
    _require_s256(metadata)
    return Authority(
        metadata=metadata,
        resource=resource,
        issuer="" if metadata is None else str(metadata.issuer),
        scope=_scope(oauth, challenge, resource, metadata),
    )


async def _resource(
    http: OAuthHttp, server_url: str, challenge: httpx2.Response
) -> ProtectedResourceMetadata | None:
    """Fetches the server's resource metadata. Raises SignInError when it describes another
    resource."""
    named = extract_resource_metadata_from_www_auth(challenge)
    fault = 0
    for url in build_protected_resource_metadata_discovery_urls(named, server_url):
        response = await http.send(create_oauth_metadata_request(url))
        if response.status_code >= 500 or response.status_code == 429:
            fault = response.status_code
        found = await handle_protected_resource_response(response)
        if found is None:
            continue
        wanted = resource_url_from_server_url(server_url)
        if not check_resource_allowed(wanted, str(found.resource)):
            raise SignInError(
                "what it says of where to sign in is about another server: "
                f"{one_line(str(found.resource), 200)}"
            )
        return found
    if fault:
        # The metadata may exist: do not guess.
        raise SignInError(f"it cannot say now where to sign in (HTTP {fault})")
    return None


def _issuer(resource: ProtectedResourceMetadata | None, oauth: McpOAuth) -> str | None:
    named = [] if resource is None else [str(url) for url in resource.authorization_servers]
    if not oauth.issuer:
        return named[0] if named else None
    if named and not any(issuers_match(each, oauth.issuer) for each in named):
        raise SignInError(
            f"it does not name {one_line(oauth.issuer, 200)} among those that sign in for it",
            remedy="Correct mcpServers.NAME.oauth.issuer, or remove it.",
        )
    return next((each for each in named if issuers_match(each, oauth.issuer)), oauth.issuer)


async def _metadata(http: OAuthHttp, server_url: str, issuer: str | None) -> OAuthMetadata | None:
    """The metadata of an issuer, or of the server itself. Raises SignInError when it names another
    issuer, or when a named issuer has none."""
    for url in build_oauth_authorization_server_metadata_discovery_urls(issuer, server_url):
        response = await http.send(create_oauth_metadata_request(url))
        going_on, found = await handle_auth_metadata_response(response)
        if found is not None:
            _require_issuer(str(found.issuer), issuer, server_url)
            return found
        if not going_on:
            raise SignInError(f"{url} answered with HTTP {response.status_code}")
    if issuer is not None:
        raise SignInError(f"{one_line(issuer, 200)} does not say how to sign in")
    return None


def _require_issuer(found: str, issuer: str | None, server_url: str) -> None:
    if issuer is None:
        agrees = origin(found) == origin(server_url) and found.count("/") <= 3
    else:
        agrees = found == issuer or issuers_match(found, issuer)
    if not agrees:
        raise SignInError(
            f"the authorization server calls itself {one_line(found, 200)}, which is not who was "
            f"asked ({one_line(issuer or server_url, 200)})"
        )


def _of_settings(oauth: McpOAuth, found: OAuthMetadata | None) -> OAuthMetadata:
    """Merges endpoints from the settings into the discovered metadata."""
    given = {
        "issuer": oauth.issuer or oauth.authorization_url,
        "authorization_endpoint": oauth.authorization_url,
        "token_endpoint": oauth.token_url,
        "registration_endpoint": oauth.registration_url,
    }
    known = {} if found is None else found.model_dump(mode="json", exclude_none=True)
    wanted = {name: value for name, value in given.items() if value}
    if found is not None:
        wanted.pop("issuer", None)
    try:
        return OAuthMetadata.model_validate({**known, **wanted})
    except ValidationError as error:
        raise SignInError(
            "the settings of the sign-in are not complete, or no URLs",
            remedy="Give authorizationUrl and tokenUrl in mcpServers.NAME.oauth.",
        ) from error


def _require_s256(metadata: OAuthMetadata | None) -> None:
    methods = None if metadata is None else metadata.code_challenge_methods_supported
    if methods is not None and "S256" not in methods:
        raise SignInError("the authorization server does not know PKCE with S256")


def _scope(
    oauth: McpOAuth,
    challenge: httpx2.Response,
    resource: ProtectedResourceMetadata | None,
    metadata: OAuthMetadata | None,
) -> str | None:
    if oauth.scopes:
        return " ".join(oauth.scopes)
    asked = extract_scope_from_www_auth(challenge)
    return get_client_metadata_scopes(asked, resource, metadata, list(DEFAULT_GRANT_TYPES))


CLIENT_NAME = "alhena"
_POST = "client_secret_post"


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """The authorization response from the browser."""

    code: str
    state: str
    issuer: str | None = None

    def __repr__(self) -> str:
        return f"Answered(issuer={self.issuer!r})"


class Consent(Protocol):
    """Consent of the person in a browser. `redirect_uri` receives the response."""

    @property
    def redirect_uri(self) -> str:
        """A redirect address that the person's browser can reach."""
        ...

    async def ask(self, url: str, state: str) -> Answered:
        """Opens the page and waits for the response with this state. Raises AlhenaError when the
        person refuses or does not respond."""
        ...


async def sign_in(
    name: str,
    server: McpServer,
    consent: Consent,
    tokens: TokenFile,
    now: Callable[[], float] = time.time,
) -> StoredToken:
    """Signs in and saves the new token; the previous one stays valid until then.

    Raises SignInError, and the errors of `consent` and of saving tokens.
    """
    address, oauth = server.address, server.oauth or McpOAuth()
    if address is None:
        raise SignInError(f"the MCP server '{name}' is started here: nobody signs in to it")
    if oauth.token_param_name:
        raise SignInError(
            "tokenParamName is not supported: tokens are not put into URLs, which end up in logs",
            remedy=f"Remove mcpServers.{name}.oauth.tokenParamName, if the server takes headers.",
        )
    require_safe(address, address)
    tokens.named(name)  # report an unusable file before the sign-in, not after
    given = tuple(filter(None, (oauth.authorization_url, oauth.token_url)))
    given += tuple(filter(None, (oauth.issuer, oauth.registration_url)))
    async with opened(address, given) as http:
        challenge = await _challenge(address, server, http.reached)
        authority = await discover(http, address, challenge, oauth)
        authority = _stepped_up(authority, tokens.find(name, address), oauth)
        await _require_places(http, authority.metadata)
        client = await _client(http, address, consent.redirect_uri, authority, oauth)
        flow = CodeGrant(address, authority, client, consent, " ".join(oauth.audiences))
        asked = now()
        grant = await flow.grant(http)
    token = StoredToken(
        server_name=name,
        server_url=address,
        access_token=grant.access_token,
        refresh_token=grant.refresh_token or "",
        expires_at=None if grant.expires_in is None else asked + grant.expires_in,
        scope=grant.scope or authority.scope or "",
        client_id=client.client_id,
        client_secret=client.client_secret or "",
        auth_method=client.token_endpoint_auth_method or "none",
        token_url=flow.token_url,
        issuer=authority.issuer,
        resource=flow.resource,
        audience=" ".join(oauth.audiences),
    )
    async with tokens.alone(name):  # a running renewal must not overwrite the new token
        await tokens.save(token, now())
    return token


def _stepped_up(authority: Authority, kept: StoredToken | None, oauth: McpOAuth) -> Authority:
    """Adds the scopes required since the last sign-in, and those it had. Scopes from the settings
    replace all of them."""
    if kept is None or not kept.wanted or oauth.scopes:
        return authority
    scopes = joined(f"{authority.scope or ''} {kept.scope} {kept.wanted}".split())
    return msgspec.structs.replace(authority, scope=" ".join(scopes))


class CodeGrant(OAuthClientProvider):
    """The authorization code grant, from the consent to the tokens."""

    def __init__(
        self,
        server_url: str,
        authority: Authority,
        client: OAuthClientInformationFull,
        consent: Consent,
        audience: str,
    ) -> None:
        super().__init__(
            server_url,
            _wanted(consent.redirect_uri, authority.scope, client.token_endpoint_auth_method),
            _Unkept(),
            redirect_handler=self._go,
            callback_handler=self._return,
        )
        self.context.client_info = client
        self.context.oauth_metadata = authority.metadata
        self.context.protected_resource_metadata = authority.resource
        self.context.protocol_version = LATEST_PROTOCOL_VERSION
        self._issuer = authority.issuer
        self._consent = consent
        self._audience = audience
        self._url = self._state = ""

    @property
    def token_url(self) -> str:
        """URL of the token endpoint."""
        return self._get_token_endpoint()

    @property
    def resource(self) -> str:
        """The resource indicator of the tokens (RFC 8707)."""
        return self.context.get_resource_url()

    async def grant(self, http: OAuthHttp) -> Grant:
        """Obtains the tokens. Raises SignInError, and the errors of the consent."""
        try:
            request = await self._perform_authorization()
        except OAuthFlowError as error:
            # Not chained: the message may quote a state.
            said = "the answer of the browser is not the one that was asked for"
            issuer = " (it is of another issuer)" if "iss" in str(error).split() else ""
            raise SignInError(said + issuer) from None
        form = dict(parse_qsl(request.content.decode("utf-8")))
        if self._audience:
            form["audience"] = self._audience
        request = posted(self.token_url, form, request.headers.get("authorization"))
        response = await http.send(request)
        hidden = ("code", "code_verifier", "client_secret")
        secrets = tuple(form[each] for each in hidden if each in form)
        return read_grant(response.status_code, response.content, self.token_url, secrets)

    async def _go(self, url: str) -> None:
        """Rebuilds the authorization URL: an endpoint may have its own query."""
        page, _, asked = url.rpartition("?")
        parts = urlsplit(page)
        own = parse_qsl(asked)
        self._state = dict(own)["state"]
        fields = [*parse_qsl(parts.query, keep_blank_values=True), *own]
        if self._audience:
            fields.append(("audience", self._audience))
        self._url = urlunsplit(parts._replace(query=urlencode(fields)))

    async def _return(self) -> AuthorizationCodeResult:
        answered = await self._consent.ask(self._url, self._state)
        # An unknown issuer cannot be verified.
        issuer = answered.issuer if self._issuer else None
        return AuthorizationCodeResult(code=answered.code, state=answered.state, iss=issuer)

    async def _auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Unused: requests to the server carry the saved token (`access`)."""
        yield request


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
    events = server.transport is Transport.SSE
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
        raise SignInError(f"{shown(address)} cannot be reached ({type(error).__name__})") from error


async def _require_places(http: OAuthHttp, metadata: OAuthMetadata | None) -> None:
    """Raises SignInError for a page that must not be opened, before any request."""
    if metadata is None:
        return
    for url in (metadata.authorization_endpoint, metadata.token_endpoint):
        await http.require(str(url))


async def _client(
    http: OAuthHttp, address: str, redirect_uri: str, authority: Authority, oauth: McpOAuth
) -> OAuthClientInformationFull:
    """The OAuth client: from the settings, or newly registered."""
    metadata = authority.metadata
    methods = None if metadata is None else metadata.token_endpoint_auth_methods_supported
    if oauth.client_id:
        basic = methods is not None and _POST not in methods and BASIC in methods
        method = "none" if not oauth.client_secret else BASIC if basic else _POST
        return OAuthClientInformationFull(
            client_id=oauth.client_id,
            client_secret=oauth.client_secret or None,
            token_endpoint_auth_method=method,
        )
    if metadata is not None and metadata.registration_endpoint is None:
        raise SignInError(
            f"{shown(str(metadata.token_endpoint))} does not take clients that it does not know",
            remedy="Register one there, and set mcpServers.NAME.oauth.clientId (and clientSecret).",
        )
    wanted = next((each for each in ("none", _POST, BASIC) if each in (methods or ())), "none")
    scheme, host, port = origin(address)
    base = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
    request = create_client_registration_request(
        metadata, _wanted(redirect_uri, authority.scope, wanted), base
    )
    response = await http.send(request)
    try:
        client = await handle_registration_response(response)
        check_registration_usable(client)
    except OAuthRegistrationError:
        # Not chained: the message quotes the answer, in which a secret may stand.
        _, said = refusal_words(response.content, ())
        words = f"HTTP {response.status_code}" + (f", {said}" if said else "")
        raise SignInError(
            f"{shown(str(request.url))} does not register alhena as a client ({words})",
            remedy="Register one by hand, and set mcpServers.NAME.oauth.clientId.",
        ) from None
    if client.token_endpoint_auth_method is None:
        client.token_endpoint_auth_method = _POST if client.client_secret else "none"
    return client


def _wanted(redirect_uri: str, scope: str | None, method: str | None) -> OAuthClientMetadata:
    try:
        return OAuthClientMetadata.model_validate(
            {
                "redirect_uris": [AnyUrl(redirect_uri)],
                "client_name": CLIENT_NAME,
                "scope": scope,
                "token_endpoint_auth_method": method,
            }
        )
    except ValidationError as error:
        raise SignInError("the redirect address is no URL") from error
