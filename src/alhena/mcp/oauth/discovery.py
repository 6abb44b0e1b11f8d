"""Where to sign in to a server: from its challenge to the metadata of its authorization server.

What it finds is held against what it was looked for by: the resource has to be the server, the
issuer the one that was named (RFC 9728, RFC 8414).
"""

import httpx2
import msgspec
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    create_oauth_metadata_request,
    extract_resource_metadata_from_www_auth,
    extract_scope_from_www_auth,
    get_client_metadata_scopes,
    handle_auth_metadata_response,
    handle_protected_resource_response,
    issuers_match,
)
from mcp.shared.auth import DEFAULT_GRANT_TYPES, OAuthMetadata, ProtectedResourceMetadata
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from pydantic import ValidationError

from alhena.config.mcp_servers import McpOAuth
from alhena.display_text import one_line
from alhena.mcp.oauth.errors import SignInError
from alhena.mcp.oauth.http import OAuthHttp, origin


class Authority(msgspec.Struct, frozen=True, kw_only=True):
    """Who signs people in for a server. `metadata` is None where it publishes none: the addresses
    of the first generation are then at the server's own origin. `issuer` is "" when nobody has
    said who that is."""

    metadata: OAuthMetadata | None
    resource: ProtectedResourceMetadata | None
    issuer: str
    scope: str | None


async def discover(
    http: OAuthHttp, server_url: str, challenge: httpx2.Response, oauth: McpOAuth
) -> Authority:
    """Finds out. `challenge` is the answer of the server to a request without a token; what the
    settings say goes before what is found. Raises SignInError."""
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
    """What the server says of itself. Raises SignInError when it says it of another one."""
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
        # Whether it says anything is not known, so nothing is guessed.
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
    """The metadata of an issuer, or of the server itself. Raises SignInError when they are those of
    another issuer, or when one that was named has none."""
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
    """What was found with the addresses of the settings in it."""
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
