"""Answers by Code Assist, for a user who signs in with a Google account."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing

from alhena.config.settings import OAuthSettings
from alhena.http.client import Timeouts
from alhena.http.endpoint import Endpoint
from alhena.models.auth.store import PrivateFiles
from alhena.models.auth.tokens import BearerAccess, LoopLock
from alhena.models.code_assist.account import Account, given_project
from alhena.models.code_assist.setup import (
    AccountSetup,
    CodeAssistService,
    QuotaBucket,
    address_from,
    user_quota,
)
from alhena.models.errors import RequestRejectedError
from alhena.models.retry.quota import SHARED
from alhena.models.service import Access
from alhena.wire.decode import decode_count_tokens, decode_enveloped
from alhena.wire.encode import EncodedContent
from alhena.wire.envelope import enveloped_body, enveloped_count_tokens
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import EmbedContentResponse, GenerateContentResponse


class CodeAssist:
    """A ContentGenerator. The account is looked up, and a new one signed up, before the first
    request; who waits for that meanwhile waits once."""

    def __init__(self, service: CodeAssistService, setup: AccountSetup) -> None:
        self._service = service
        self._setup = setup
        self._account: Account | None = None
        self._gate = LoopLock()

    @property
    def endpoint(self) -> Endpoint:
        """Where requests go."""
        return self._service.endpoint

    async def account(self, model: str = "") -> Account:
        """The account that answers for requests. Raises ModelError or DecodeError; then the next
        request tries again."""
        if self._account is None:
            async with self._gate.here():
                if self._account is None:
                    self._account = await self._setup.run(model)
        return self._account

    async def quota(self) -> tuple[QuotaBucket, ...]:
        """What is left of the account's quota. Raises ModelError or DecodeError."""
        account = await self.account()
        return await user_quota(self._service, account.project)

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """The whole answer in one piece."""
        account = await self.account(request.model)
        body = enveloped_body(request, account.project)
        return await self._service.call("generateContent", request.model, body, decode_enveloped)

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        """The answer chunk by chunk; raises as `GeminiApi.stream` does."""
        account = await self.account(request.model)
        events = self._service.stream(
            request.model, lambda: enveloped_body(request, account.project), decode_enveloped
        )
        async with aclosing(events):
            async for chunk in events:
                yield chunk

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        """The number of tokens the contents take in this model's prompt."""
        body = enveloped_count_tokens(contents, model)
        return (
            await self._service.call("countTokens", model, body, decode_count_tokens)
        ).total_tokens

    async def embed(
        self, contents: Sequence[EncodedContent], *, model: str
    ) -> EmbedContentResponse:
        """Always RequestRejectedError: Code Assist has no embeddings."""
        del contents, model
        raise RequestRejectedError(
            "Code Assist computes no embeddings.",
            remedy="Use the Gemini API (GEMINI_API_KEY) or Vertex AI for them.",
        )

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._service.aclose()


def code_assist(
    environ: Mapping[str, str],
    access: Access,
    *,
    tell: Callable[[str], None] | None = None,
    timeouts: Timeouts | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> CodeAssist:
    """Code Assist where the environment says it is, for the project that it names.

    Read are CODE_ASSIST_ENDPOINT, CODE_ASSIST_API_VERSION, GEMINI_CLI_CUSTOM_HEADERS,
    GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_PROJECT_ID, proxies and certificates. `access` shows an
    access token; `tell` gets what a new user should read. Raises ConfigError. Nothing is sent
    before the first request.
    """
    address, project = address_from(environ), project_from(environ)
    tip = "" if project else SHARED
    service = CodeAssistService(address, access, environ=environ, timeouts=timeouts, quota_tip=tip)
    setup = AccountSetup(service, project, tell=tell, sleep=sleep)
    return CodeAssist(service, setup)


def project_from(environ: Mapping[str, str]) -> str:
    """The project of GOOGLE_CLOUD_PROJECT or else GOOGLE_CLOUD_PROJECT_ID, "" for none. Raises
    ConfigError for a project's number."""
    project = given_project(environ.get("GOOGLE_CLOUD_PROJECT", ""), "GOOGLE_CLOUD_PROJECT")
    other = environ.get("GOOGLE_CLOUD_PROJECT_ID", "")
    return project or given_project(other, "GOOGLE_CLOUD_PROJECT_ID")


Tell = Callable[[str], None]


def for_login(
    environ: Mapping[str, str],
    files: PrivateFiles | None,
    settings: OAuthSettings,
    *,
    tell: Tell | None = None,
) -> CodeAssist:
    """For the user who signed in with a Google account (oauth-personal). `tell` gets warnings, and
    what a new user should read. Raises CredentialsError when nobody has signed in, ConfigError."""
    from alhena.models.auth.user import signed_in

    found = signed_in(environ, files, settings, warn=tell)
    access = BearerAccess(found.tokens, remedy=found.remedy, quota_project=found.quota_project)
    return code_assist(environ, access, tell=tell)


def for_machine(environ: Mapping[str, str], *, tell: Tell | None = None) -> CodeAssist:
    """For the credentials of this machine (compute-default-credentials, cloud-shell): the metadata
    server is asked where there is no file. Raises CredentialsError, ConfigError."""
    from alhena.models.auth.adc import default_credentials

    found = default_credentials(environ, metadata=True)
    remedy = f"Check the credentials of {found.source}."
    access = BearerAccess(found.tokens, remedy=remedy, quota_project=found.quota_project)
    return code_assist(environ, access, tell=tell)
