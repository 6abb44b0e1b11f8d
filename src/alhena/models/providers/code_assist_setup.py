"""Code Assist: its methods, and the project and tier of an account."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from alhena.errors import ConfigError, ModelError
from alhena.http.addresses import parse_endpoint, parse_headers
from alhena.http.exchange import Body
from alhena.models.errors import (
    PERSONAL_ENDED,
    CredentialsError,
    ModelNotFoundError,
    RequestRejectedError,
    ValidationRequiredError,
)
from alhena.models.service import Access, HttpService, ServiceOptions, parse_version
from alhena.values import Value
from alhena.wire.content import encode_value
from alhena.wire.errors import DecodeError
from alhena.wire.json_values import excerpt

T = TypeVar("T")

FREE_TIER = "free-tier"
LEGACY_TIER = "legacy-tier"
STANDARD_TIER = "standard-tier"
CLOUD_SHELL_PROJECT = "cloudshell-gca"
PROJECT_PAGE = "https://goo.gle/gemini-cli-auth-docs#workspace-gca"
_SET_PROJECT = "Set GOOGLE_CLOUD_PROJECT to the id of a project of yours."


class IneligibleAccountError(CredentialsError):
    """The service rejects this account, with a reason."""

    kind = "ineligible_account"


class ProjectRequiredError(CredentialsError):
    """This account needs a Google Cloud project, and none is set."""

    kind = "project_required"


class _ServiceObject(Value, frozen=True, kw_only=True, rename="camel"):
    """A JSON object of the service; null means absent."""


class PrivacyNotice(_ServiceObject, frozen=True, kw_only=True):
    """The privacy notice of a tier."""

    show_notice: bool | None = None
    notice_text: str | None = None


class AccountTier(_ServiceObject, frozen=True, kw_only=True):
    """A service tier. With `user_defined_cloudaicompanion_project` its user has to name a
    project."""

    id: str | None = None
    name: str | None = None
    description: str | None = None
    user_defined_cloudaicompanion_project: bool | None = None
    is_default: bool | None = None
    privacy_notice: PrivacyNotice | None = None

    @property
    def notice(self) -> str:
        """The privacy notice to show, "" for none."""
        told = self.privacy_notice
        return told.notice_text or "" if told is not None and told.show_notice else ""


class IneligibleTier(_ServiceObject, frozen=True, kw_only=True):
    """An unavailable tier, with the reason."""

    reason_code: str | None = None
    reason_message: str | None = None
    validation_error_message: str | None = None
    validation_url: str | None = None
    validation_learn_more_url: str | None = None


class LoadAnswer(_ServiceObject, frozen=True, kw_only=True):
    """The answer of loadCodeAssist."""

    current_tier: AccountTier | None = None
    paid_tier: AccountTier | None = None
    allowed_tiers: tuple[AccountTier, ...] | None = None
    ineligible_tiers: tuple[IneligibleTier, ...] | None = None
    cloudaicompanion_project: str | None = None


class _Project(_ServiceObject, frozen=True, kw_only=True):
    id: str | None = None


class _Onboarded(_ServiceObject, frozen=True, kw_only=True):
    cloudaicompanion_project: _Project | None = None


class OperationFault(_ServiceObject, frozen=True, kw_only=True):
    """The error of a failed operation."""

    code: int | None = None
    message: str | None = None


class Operation(_ServiceObject, frozen=True, kw_only=True):
    """The long-running operation of onboardUser."""

    name: str | None = None
    done: bool | None = None
    error: OperationFault | None = None
    response: _Onboarded | None = None

    @property
    def project(self) -> str:
        """The resulting project, "" for none."""
        if self.response is None or self.response.cloudaicompanion_project is None:
            return ""
        return self.response.cloudaicompanion_project.id or ""


class CodeAssistAccount(msgspec.Struct, frozen=True, kw_only=True):
    """The account of requests: their project ("" for none) and tier."""

    project: str
    tier: str = ""
    tier_name: str = ""


def decode_answer(payload: bytes, kind: type[T]) -> T:
    """Decodes an answer of the service. Raises DecodeError, also for an API error object."""
    try:
        answer = msgspec.json.decode(payload, type=kind)
        plain = msgspec.json.decode(payload, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(f'the answer cannot be read: "{excerpt(payload)}".') from error
    if "error" in plain and not isinstance(answer, Operation):
        raise DecodeError(f'the answer is an error: "{excerpt(payload)}".')
    return answer


def given_project(text: str, source: str) -> str:
    """Reads a project id from a variable, "" when it is empty. Raises ConfigError for a project
    number, which the service rejects."""
    project = text.strip()
    if project.isdigit():
        raise ConfigError(
            f"{source} holds the number of a project ({project[:40]}), and not its id.",
            remedy="Set it to the id, such as my-project-1234 (gcloud projects list).",
        )
    if not project.isprintable() or " " in project:
        raise ConfigError(f"{source} is no project: {project[:40]!r}.", remedy=_SET_PROJECT)
    return project


def find_account(answer: LoadAnswer, project: str) -> CodeAssistAccount | None:
    """The account of a user with a tier; None for a user who must be onboarded first.

    Raises ValidationRequiredError, IneligibleAccountError or ProjectRequiredError.
    """
    if answer.current_tier is None:
        _require_validated(answer)
        return None
    tier = answer.paid_tier if answer.paid_tier and answer.paid_tier.id else answer.current_tier
    found = answer.cloudaicompanion_project or project
    if not found:
        raise no_project(answer)
    return CodeAssistAccount(project=found, tier=tier.id or "", tier_name=tier.name or "")


def tier_to_join(answer: LoadAnswer, project: str) -> AccountTier:
    """The tier for onboarding a new user.

    Raises IneligibleAccountError, or ProjectRequiredError when it needs a project and none is set.
    """
    legacy = AccountTier(id=LEGACY_TIER, user_defined_cloudaicompanion_project=True)
    allowed = answer.allowed_tiers or ()
    tier = next((one for one in allowed if one.is_default and one.id), legacy)
    if tier.user_defined_cloudaicompanion_project and tier.id != FREE_TIER and not project:
        raise no_project(answer)
    return tier


def no_project(answer: LoadAnswer) -> CredentialsError:
    """The error for a missing project."""
    reasons = [tier.reason_message for tier in answer.ineligible_tiers or () if tier.reason_message]
    if reasons:
        return IneligibleAccountError(
            f"Code Assist does not take this account: {excerpt(', '.join(reasons), 600)}",
            remedy=f"{_SET_PROJECT} Or sign in with another account: alhena auth login. "
            f"{PERSONAL_ENDED}",
        )
    return ProjectRequiredError(
        "this account requires setting GOOGLE_CLOUD_PROJECT or GOOGLE_CLOUD_PROJECT_ID.",
        remedy=f"{_SET_PROJECT} See {PROJECT_PAGE} {PERSONAL_ENDED}",
    )


def _require_validated(answer: LoadAnswer) -> None:
    for tier in answer.ineligible_tiers or ():
        link = _web_address(tier.validation_url)
        if tier.reason_code != "VALIDATION_REQUIRED" or not link:
            continue
        reason = tier.validation_error_message or tier.reason_message or "it has to be verified"
        more = _web_address(tier.validation_learn_more_url)
        error = ValidationRequiredError(
            f"Google wants this account verified first: {excerpt(reason, 300)}",
            remedy=f"Open {link} and go through the steps there, then try again."
            + (f" More: {more}" if more else ""),
        )
        error.link, error.description, error.learn_more = link, reason, more or None
        raise error


def _web_address(text: str | None) -> str:
    """A URL to show to a person; "" for anything but a plain web URL."""
    given = text or ""
    usable = given.startswith("https://") and given.isascii() and given.isprintable()
    return given if usable and " " not in given and len(given) <= 2000 else ""


DEFAULT_ENDPOINT = "https://cloudcode-pa.googleapis.com"
DEFAULT_VERSION = "v1internal"


class CodeAssistService:
    """Calls methods at CODE_ASSIST_ENDPOINT, with CODE_ASSIST_API_VERSION and the headers of
    GEMINI_CLI_CUSTOM_HEADERS. `model` is sent in User-Agent; `quota_tip` is added to quota errors.
    Raises ConfigError for an invalid value of a variable."""

    def __init__(
        self,
        environ: Mapping[str, str],
        access: Access,
        *,
        connection: ServiceOptions = ServiceOptions(),  # noqa: B008  it is frozen
        quota_tip: str = "",
    ) -> None:
        given = environ.get("CODE_ASSIST_ENDPOINT", "").strip() or DEFAULT_ENDPOINT
        version = environ.get("CODE_ASSIST_API_VERSION", "").strip() or DEFAULT_VERSION
        custom = environ.get("GEMINI_CLI_CUSTOM_HEADERS", "")
        self.endpoint = parse_endpoint(given, "CODE_ASSIST_ENDPOINT")
        self._version = parse_version(version, "CODE_ASSIST_API_VERSION")
        self._http = HttpService(
            self.endpoint,
            access,
            environ=environ,
            timeouts=connection.timeouts,
            headers={**parse_headers(custom, "GEMINI_CLI_CUSTOM_HEADERS"), **connection.headers},
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

    async def run(self, model: str) -> CodeAssistAccount:
        """Returns the account. Raises ModelError: CredentialsError with instructions when the
        account cannot be used."""
        answer = await self._load(model)
        account = find_account(answer, self._project)
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
                return LoadAnswer(current_tier=AccountTier(id=STANDARD_TIER))
            if error.status == 403 and self._project == CLOUD_SHELL_PROJECT:
                raise CredentialsError(
                    "the project that Cloud Shell sets may not be used for this account.",
                    remedy="Set GOOGLE_CLOUD_PROJECT to the id of a project of yours.",
                    status=403,
                ) from error
            raise

    async def _join(self, tier: AccountTier, answer: LoadAnswer, model: str) -> CodeAssistAccount:
        # The free tier creates its own project and rejects any other.
        project = "" if tier.id == FREE_TIER else self._project
        body: dict[str, Any] = {"tierId": tier.id, "metadata": self._metadata(project)}
        if project:
            body["cloudaicompanionProject"] = project
        operation = await self._call("onboardUser", body, Operation, model)
        operation = await self._poll_operation(operation, model)
        found = operation.project or self._project
        if not found:
            raise no_project(answer)
        if self._tell is not None and tier.notice:
            self._tell(tier.notice)
        return CodeAssistAccount(project=found, tier=tier.id or "", tier_name=tier.name or "")

    async def _poll_operation(self, operation: Operation, model: str) -> Operation:
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
