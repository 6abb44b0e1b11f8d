"""The methods of the Code Assist service, by name."""

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TypeVar
from urllib.parse import quote

import msgspec

from alhena.http.client import Timeouts
from alhena.http.endpoint import Endpoint, parse_endpoint, parse_headers
from alhena.http.exchange import Body
from alhena.models.service import Access, HttpService, parse_version

T = TypeVar("T")

DEFAULT_ENDPOINT = "https://cloudcode-pa.googleapis.com"
DEFAULT_VERSION = "v1internal"


class CodeAssistAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where the service is. `headers` are added to every request, by lower-case name; they do not
    show in the repr."""

    endpoint: Endpoint
    version: str = DEFAULT_VERSION
    headers: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"CodeAssistAddress({self.endpoint.place}{self.endpoint.prefix}/{self.version})"


def address_from(environ: Mapping[str, str]) -> CodeAssistAddress:
    """The address that CODE_ASSIST_ENDPOINT and CODE_ASSIST_API_VERSION name, with the headers of
    GEMINI_CLI_CUSTOM_HEADERS. Raises ConfigError for a value that cannot be used."""
    endpoint = environ.get("CODE_ASSIST_ENDPOINT", "").strip() or DEFAULT_ENDPOINT
    version = environ.get("CODE_ASSIST_API_VERSION", "").strip() or DEFAULT_VERSION
    custom = environ.get("GEMINI_CLI_CUSTOM_HEADERS", "")
    return CodeAssistAddress(
        endpoint=parse_endpoint(endpoint, "CODE_ASSIST_ENDPOINT"),
        version=parse_version(version, "CODE_ASSIST_API_VERSION"),
        headers=parse_headers(custom, "GEMINI_CLI_CUSTOM_HEADERS"),
    )


class CodeAssistService:
    """Calls methods. `model` is what the requests say they are for (in User-Agent); `quota_tip` is
    advised where a quota is the matter."""

    def __init__(
        self,
        address: CodeAssistAddress,
        access: Access,
        *,
        environ: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        quota_tip: str = "",
    ) -> None:
        self.endpoint = address.endpoint
        self._version = address.version
        self._http = HttpService(
            address.endpoint,
            access,
            environ=environ,
            timeouts=timeouts,
            headers=address.headers,
            quota_tip=quota_tip,
        )

    async def call(self, method: str, model: str, body: Body, decode: Callable[[bytes], T]) -> T:
        """The answer of a method, read by `decode`. Raises ModelError, and what `decode` raises."""
        return await self._http.ask(f"/{self._version}:{method}", model, body, decode)

    def stream(
        self, model: str, encode: Callable[[], Body], decode: Callable[[bytes], T]
    ) -> AsyncGenerator[T, None]:
        """The events of streamGenerateContent, each read by `decode`."""
        path = f"/{self._version}:streamGenerateContent?alt=sse"
        return self._http.events(path, model, encode, decode)

    async def operation(self, name: str, model: str, decode: Callable[[bytes], T]) -> T:
        """The state of a long-running operation. Raises as `call` does."""
        path = f"/{self._version}/{quote(name.strip('/'), safe='/-._~')}"
        return await self._http.ask(path, model, None, decode)

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._http.aclose()
