"""From a login to an account that can ask: loadCodeAssist, and onboardUser for who is new."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from alhena.errors import ModelError
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
from alhena.models.code_assist.service import CodeAssistService
from alhena.models.errors import CredentialsError, ModelNotFoundError, RequestRejectedError
from alhena.wire.encoded import encode_value
from alhena.wire.text import excerpt

T = TypeVar("T")

POLL_S = 5.0
MAX_POLLS = 60

_METADATA = {
    "ideType": "IDE_UNSPECIFIED",
    "platform": "PLATFORM_UNSPECIFIED",
    "pluginType": "GEMINI",
}


class AccountSetup:
    """Finds the account's project and tier; a user who has none is signed up for the default tier.
    `project` is the one the user set, "" for none; `tell` gets what a new user should read."""

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
        """The account. Raises ModelError: CredentialsError when it cannot be used as it is,
        with what the user has to do."""
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
        # The free tier gives a project of its own, and refuses any other.
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
                # No fault that a retry of the whole would mend: each would wait as long.
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
            # It is the method that is not there, and another model would not help.
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
