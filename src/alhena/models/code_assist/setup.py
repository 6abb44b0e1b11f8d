"""Methods of the Code Assist service: loadCodeAssist, onboardUser, and the account's quota."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from alhena.errors import ModelError
from alhena.http.client import Timeouts
from alhena.http.endpoint import Endpoint, parse_endpoint, parse_headers
from alhena.http.exchange import Body
from alhena.models.code_assist.account import (
    CLOUD_SHELL_PROJECT,
    FREE_TIER,
    STANDARD_TIER,
    Account,
    LoadAnswer,
    Operation,
    Tier,
    decode_answer,
    no_project,
    settled,
    tier_to_join,
)
from alhena.models.errors import CredentialsError, ModelNotFoundError, RequestRejectedError
from alhena.models.service import Access, HttpService, parse_version
from alhena.wire.encoded import encode_value
from alhena.wire.json_values import excerpt

DEFAULT_ENDPOINT = "https://cloudcode-pa.googleapis.com"
DEFAULT_VERSION = "v1internal"

T = TypeVar("T")


class CodeAssistAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the service. `headers` are added to every request, by lower-case name; the
    repr does not show them."""

    endpoint: Endpoint
    version: str = DEFAULT_VERSION
    headers: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"CodeAssistAddress({self.endpoint.place}{self.endpoint.prefix}/{self.version})"


def address_from(environ: Mapping[str, str]) -> CodeAssistAddress:
    """The address from CODE_ASSIST_ENDPOINT and CODE_ASSIST_API_VERSION, with the headers of
    GEMINI_CLI_CUSTOM_HEADERS. Raises ConfigError for an invalid value."""
    endpoint = environ.get("CODE_ASSIST_ENDPOINT", "").strip() or DEFAULT_ENDPOINT
    version = environ.get("CODE_ASSIST_API_VERSION", "").strip() or DEFAULT_VERSION
    custom = environ.get("GEMINI_CLI_CUSTOM_HEADERS", "")
    return CodeAssistAddress(
        endpoint=parse_endpoint(endpoint, "CODE_ASSIST_ENDPOINT"),
        version=parse_version(version, "CODE_ASSIST_API_VERSION"),
        headers=parse_headers(custom, "GEMINI_CLI_CUSTOM_HEADERS"),
    )


class CodeAssistService:
    """Calls methods. `model` is sent in User-Agent; `quota_tip` is added to quota errors."""

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
        """Calls a method and decodes the answer by `decode`. Raises ModelError and the errors of
        `decode`."""
        return await self._http.ask(f"/{self._version}:{method}", model, body, decode)

    def stream(
        self, model: str, encode: Callable[[], Body], decode: Callable[[bytes], T]
    ) -> AsyncGenerator[T, None]:
        """Yields the events of streamGenerateContent, decoded by `decode`."""
        path = f"/{self._version}:streamGenerateContent?alt=sse"
        return self._http.events(path, model, encode, decode)

    async def operation(self, name: str, model: str, decode: Callable[[bytes], T]) -> T:
        """The state of a long-running operation. Raises the same errors as `call`."""
        path = f"/{self._version}/{quote(name.strip('/'), safe='/-._~')}"
        return await self._http.ask(path, model, None, decode)

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._http.aclose()


POLL_S = 5.0
MAX_POLLS = 60

_METADATA = {
    "ideType": "IDE_UNSPECIFIED",
    "platform": "PLATFORM_UNSPECIFIED",
    "pluginType": "GEMINI",
}


class AccountSetup:
    """Finds the account's project and tier; onboards a new user to the default tier. `project` is
    set by the user, "" for none; `tell` receives notices for a new user."""

    def __init__(
        self,
        service: CodeAssistService,
        project: str,
        *,
        tell: Callable[[str], None] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._service = service
        self._project = project
        self._tell = tell
        self._sleep = sleep

    async def run(self, model: str) -> Account:
        """Returns the account. Raises ModelError: CredentialsError with instructions when the
        account cannot be used."""
        answer = await self._load(model)
        account = settled(answer, self._project)
        if account is not None:
            return account
        return await self._join(tier_to_join(answer, self._project), answer, model)

    async def _load(self, model: str) -> LoadAnswer:
        body: dict[str, Any] = {"metadata": self._metadata(self._project)}
        if self._project:
            body = {"cloudaicompanionProject": self._project} | body
        try:
            return await self._call("loadCodeAssist", body, LoadAnswer, model)
        except ModelError as error:
            if _reasons(error) & {"SECURITY_POLICY_VIOLATED"}:
                # A perimeter of the user's organisation hides the tier; its members have this one.
                return LoadAnswer(current_tier=Tier(id=STANDARD_TIER))
            if error.status == 403 and self._project == CLOUD_SHELL_PROJECT:
                raise CredentialsError(
                    "the project that Cloud Shell sets may not be used for this account.",
                    remedy="Set GOOGLE_CLOUD_PROJECT to the id of a project of yours.",
                    status=403,
                ) from error
            raise

    async def _join(self, tier: Tier, answer: LoadAnswer, model: str) -> Account:
        # The free tier creates its own project and rejects any other.
        project = "" if tier.id == FREE_TIER else self._project
        body: dict[str, Any] = {"tierId": tier.id, "metadata": self._metadata(project)}
        if project:
            body["cloudaicompanionProject"] = project
        operation = await self._call("onboardUser", body, Operation, model)
        operation = await self._finished(operation, model)
        found = operation.project or self._project
        if not found:
            raise no_project(answer)
        if self._tell is not None and tier.notice:
            self._tell(tier.notice)
        return Account(project=found, tier=tier.id or "", tier_name=tier.name or "")

    async def _finished(self, operation: Operation, model: str) -> Operation:
        decode = partial(decode_answer, kind=Operation)
        name = operation.name
        polls = 0
        while not operation.done and name:
            if polls == MAX_POLLS:
                # A retry would not help: it would wait as long.
                raise CredentialsError(
                    f"signing up for Code Assist took longer than {MAX_POLLS * POLL_S:g} s.",
                    remedy="Try again later.",
                )
            polls += 1
            await self._sleep(POLL_S)
            operation = await self._service.operation(name, model, decode)
        if operation.error is not None:
            said = excerpt(operation.error.message or f"code {operation.error.code}", 300)
            raise CredentialsError(
                f"Code Assist did not sign this account up: {said}",
                remedy="Sign in with another account: alhena auth login.",
            )
        return operation

    async def _call(self, method: str, body: dict[str, Any], kind: type[T], model: str) -> T:
        decode = partial(decode_answer, kind=kind)
        try:
            return await self._service.call(method, model, encode_value(body), decode)
        except ModelNotFoundError as error:
            # The method is missing; another model would not help.
            raise RequestRejectedError(
                f"{self._service.endpoint.place} has no method {method}.",
                remedy="Check CODE_ASSIST_ENDPOINT and CODE_ASSIST_API_VERSION.",
                status=error.status,
            ) from error

    def _metadata(self, project: str) -> dict[str, str]:
        return _METADATA | ({"duetProject": project} if project else {})


def _reasons(error: ModelError) -> set[str]:
    found = (detail.get("reason") for detail in error.details)
    return {reason for reason in found if isinstance(reason, str)}


class QuotaBucket(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The remaining quota of one model: a fraction from 0 to 1, an amount if known, and the reset
    time (RFC 3339)."""

    model_id: str | None = None
    token_type: str | None = None
    remaining_fraction: float | None = None
    remaining_amount: str | None = None
    reset_time: str | None = None


class _Quota(msgspec.Struct, frozen=True, kw_only=True):
    buckets: tuple[QuotaBucket, ...] | None = None


async def user_quota(service: CodeAssistService, project: str) -> tuple[QuotaBucket, ...]:
    """The quota of the account for this project. Raises ModelError or DecodeError."""
    body = encode_value({"project": project} if project else {})
    answer = await service.call("retrieveUserQuota", "", body, partial(decode_answer, kind=_Quota))
    return answer.buckets or ()
