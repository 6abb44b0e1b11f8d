"""Generates answers through Code Assist, for users who sign in with a Google account."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing

from alhena.config.settings import OAuthSettings
from alhena.http.addresses import Endpoint
from alhena.models.auth.store import LoginFiles
from alhena.models.auth.tokens import LoopLock
from alhena.models.generator import WithoutEmbeddings
from alhena.models.providers.code_assist_setup import (
    AccountSetup,
    CodeAssistAccount,
    CodeAssistService,
    QuotaBucket,
    given_project,
    user_quota,
)
from alhena.models.quota import SHARED
from alhena.models.service import Access, ServiceOptions
from alhena.wire.encode import (
    EncodedContent,
    decode_count_tokens,
    decode_enveloped,
    enveloped_body,
    enveloped_count_tokens,
)
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import GenerateContentResponse


class CodeAssistGenerator(WithoutEmbeddings):
    """A ContentGenerator. Looks up the account, and onboards a new one, before the first request;
    concurrent requests share that step."""

    def __init__(self, service: CodeAssistService, setup: AccountSetup) -> None:
        self._service = service
        self._setup = setup
        self._account: CodeAssistAccount | None = None
        self._gate = LoopLock()

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint of requests."""
        return self._service.endpoint

    async def account(self, model: str = "") -> CodeAssistAccount:
        """The account of requests. Raises ModelError or DecodeError; then the next request tries
        again."""
        if self._account is None:
            async with self._gate.here():
                if self._account is None:
                    self._account = await self._setup.run(model)
        return self._account

    async def quota(self) -> tuple[QuotaBucket, ...]:
        """The remaining quota of the account. Raises ModelError or DecodeError."""
        account = await self.account()
        return await user_quota(self._service, account.project)

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """Returns the whole answer."""
        account = await self.account(request.model)
        body = enveloped_body(request, account.project)
        return await self._service.call("generateContent", request.model, body, decode_enveloped)

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        """Yields the answer in chunks; raises the same errors as `GeminiApi.stream`."""
        account = await self.account(request.model)
        events = self._service.stream(
            request.model, lambda: enveloped_body(request, account.project), decode_enveloped
        )
        async with aclosing(events):
            async for chunk in events:
                yield chunk

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        """Counts the tokens of the contents for this model."""
        body = enveloped_count_tokens(contents, model)
        return (
            await self._service.call("countTokens", model, body, decode_count_tokens)
        ).total_tokens

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._service.aclose()


def code_assist(
    environ: Mapping[str, str],
    access: Access,
    *,
    tell: Callable[[str], None] | None = None,
    connection: ServiceOptions = ServiceOptions(),  # noqa: B008  it is frozen
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> CodeAssistGenerator:
    """Builds Code Assist for the endpoint and project of the environment.

    Reads CODE_ASSIST_ENDPOINT, CODE_ASSIST_API_VERSION, GEMINI_CLI_CUSTOM_HEADERS,
    GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_PROJECT_ID, proxies and certificates. `access` adds the
    access token; `tell` receives notices for a new user. Raises ConfigError. Sends nothing before
    the first request.
    """
    project = project_from(environ)
    tip = "" if project else SHARED
    service = CodeAssistService(environ, access, connection=connection, quota_tip=tip)
    setup = AccountSetup(service, project, tell=tell, sleep=sleep)
    return CodeAssistGenerator(service, setup)


def project_from(environ: Mapping[str, str]) -> str:
    """The project of GOOGLE_CLOUD_PROJECT or else GOOGLE_CLOUD_PROJECT_ID, "" for none. Raises
    ConfigError for a project number."""
    project = given_project(environ.get("GOOGLE_CLOUD_PROJECT", ""), "GOOGLE_CLOUD_PROJECT")
    other = environ.get("GOOGLE_CLOUD_PROJECT_ID", "")
    return project or given_project(other, "GOOGLE_CLOUD_PROJECT_ID")


Tell = Callable[[str], None]


def for_login(
    environ: Mapping[str, str],
    files: LoginFiles | None,
    settings: OAuthSettings,
    connection: ServiceOptions = ServiceOptions(),  # noqa: B008  it is frozen
    *,
    tell: Tell | None = None,
) -> CodeAssistGenerator:
    """Code Assist for a signed-in Google account (oauth-personal). `tell` receives warnings and
    notices for a new user. Raises CredentialsError when not signed in, ConfigError."""
    from alhena.models.auth.login import signed_in

    access = signed_in(environ, files, settings, warn=tell).access()
    return code_assist(environ, access, tell=tell, connection=connection)


def for_machine(
    environ: Mapping[str, str],
    connection: ServiceOptions = ServiceOptions(),  # noqa: B008  it is frozen
    *,
    tell: Tell | None = None,
) -> CodeAssistGenerator:
    """Code Assist for this machine's credentials (compute-default-credentials, cloud-shell), by
    default from the metadata server. Raises CredentialsError, ConfigError."""
    from alhena.models.auth.adc import default_credentials

    access = default_credentials(environ, metadata=True).access()
    return code_assist(environ, access, tell=tell, connection=connection)
