"""The metadata server of Google's machines, which gives out tokens of the machine's account."""

import time
from collections.abc import Callable, Mapping

from alhena.errors import NetworkError, ServerFaultError
from alhena.http.client import Timeouts
from alhena.http.endpoint import parse_endpoint
from alhena.models.auth.grant import fetch, read_grant
from alhena.models.auth.tokens import AccessToken, RenewedTokens
from alhena.models.errors import CredentialsError
from alhena.version import __version__

ADDRESS = "169.254.169.254"
"""By number: a name could be answered by whoever answers for names here."""

LIMITS = Timeouts(connect=1.0, idle=5.0)
_PATH = "/computeMetadata/v1/instance/service-accounts/default/token"
_REMEDY = "Attach a service account with the scope cloud-platform to this machine."


def metadata_tokens(
    environ: Mapping[str, str], *, now: Callable[[], float] = time.time, limits: Timeouts = LIMITS
) -> RenewedTokens:
    """Tokens of the account that is attached to this machine; GCE_METADATA_HOST may say where.

    The server is asked directly, never through a proxy. Raises ConfigError for an address that
    cannot be used.
    """
    host = environ.get("GCE_METADATA_HOST", "").strip() or ADDRESS
    endpoint = parse_endpoint(f"http://{host}", "GCE_METADATA_HOST")
    headers = [
        ("host", endpoint.authority),
        ("user-agent", f"alhena/{__version__}"),
        ("metadata-flavor", "Google"),
        ("accept", "application/json"),
    ]

    answered = False

    async def renew() -> AccessToken:
        nonlocal answered
        from alhena.http.client import Transport

        at = now()
        transport = Transport(endpoint, limits, {})
        try:
            response, body = await fetch(transport, "GET", endpoint.prefix + _PATH, headers)
        except NetworkError as error:
            if answered:
                raise
            raise CredentialsError(
                f"the metadata server gives no token: {error.message}",
                remedy=f"Run this on a machine of Google's. {_REMEDY}",
            ) from error
        if response.header("metadata-flavor").lower() != "google":
            raise CredentialsError(
                f"{endpoint.place} is no metadata server.", remedy="Check GCE_METADATA_HOST."
            )
        if response.status >= 500:
            raise ServerFaultError(
                f"the metadata server failed (HTTP {response.status}).", status=response.status
            )
        if response.status != 200:
            raise CredentialsError(
                f"the metadata server gives no token (HTTP {response.status}).",
                remedy=_REMEDY,
                status=response.status,
            )
        token = read_grant(body, endpoint).access(at)
        answered = True
        return token

    return RenewedTokens(renew, now=now)
