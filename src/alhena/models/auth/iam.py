"""Google's service for tokens of a service account that another identity may act as."""

from collections.abc import Mapping

import msgspec

from alhena.errors import ModelError, ServerFaultError
from alhena.http.client import open_transport
from alhena.http.endpoint import Endpoint
from alhena.models.auth.grant import TIMEOUTS, fetch
from alhena.models.auth.tokens import TokenSource, other_token
from alhena.models.errors import CredentialsError
from alhena.models.status import Asked
from alhena.version import __version__
from alhena.wire.decode import decode_error


class IamService(msgspec.Struct, frozen=True, kw_only=True):
    """Where a token is asked for. `environ` is read for proxies and certificates; `what` and
    `remedy` are for the error when there is none."""

    endpoint: Endpoint
    environ: Mapping[str, str]
    what: str
    remedy: str

    async def ask(self, path: str, body: bytes, actor: TokenSource) -> bytes:
        """The answer to a JSON body, for the identity of `actor`, whose token is renewed once when
        the service refuses it. Raises ModelError when it is no token; no message quotes the one
        that was sent."""
        token = await actor.token()
        status, answer = await self._answer(path, body, token)
        if status == 401 and (other := await other_token(actor, token)) is not None:
            token = other
            status, answer = await self._answer(path, body, token)
        if status != 200:
            place = self.endpoint
            asked = Asked("", place.place, [token], source=place.source, remedy=self.remedy)
            raise _no_token(status, answer, asked, self.what)
        return answer

    async def _answer(self, path: str, body: bytes, token: str) -> tuple[int, bytes]:
        headers = [
            ("host", self.endpoint.authority),
            ("user-agent", f"alhena/{__version__}"),
            ("authorization", f"Bearer {token}"),
            ("content-type", "application/json"),
            ("accept", "application/json"),
        ]
        transport = open_transport(self.endpoint, self.environ, TIMEOUTS)
        response, answer = await fetch(transport, "POST", path, headers, body)
        return response.status, answer


def _no_token(status: int, answer: bytes, asked: Asked, what: str) -> ModelError:
    """The error of a token that is not given. What is missing here is no model, and no quota of
    one, so the words for those (`status.refusal`) do not fit."""
    api = decode_error(answer)
    said = f"HTTP {status}" + (f": {asked.clean(api.message)}" if api is not None else "")
    message = f"{asked.place} gives no {what} ({said})."
    if status == 429 or status >= 500:
        return ServerFaultError(message, remedy="Run again.", status=status)
    return CredentialsError(message, remedy=asked.remedy, status=status)
