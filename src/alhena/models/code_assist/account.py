"""Parses the service's account data and derives project and tier. Pure."""

from typing import TypeVar

import msgspec

from alhena.config.errors import ConfigError
from alhena.models.errors import CredentialsError, ValidationRequiredError
from alhena.values import Value
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


class _Answer(Value, frozen=True, kw_only=True, rename="camel"):
    """A JSON object of the service; null means absent."""


class PrivacyNotice(_Answer, frozen=True, kw_only=True):
    """The privacy notice of a tier."""

    show_notice: bool | None = None
    notice_text: str | None = None


class Tier(_Answer, frozen=True, kw_only=True):
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


class IneligibleTier(_Answer, frozen=True, kw_only=True):
    """An unavailable tier, with the reason."""

    reason_code: str | None = None
    reason_message: str | None = None
    tier_id: str | None = None
    tier_name: str | None = None
    validation_error_message: str | None = None
    validation_url: str | None = None
    validation_learn_more_url: str | None = None


class LoadAnswer(_Answer, frozen=True, kw_only=True):
    """The answer of loadCodeAssist."""

    current_tier: Tier | None = None
    paid_tier: Tier | None = None
    allowed_tiers: tuple[Tier, ...] | None = None
    ineligible_tiers: tuple[IneligibleTier, ...] | None = None
    cloudaicompanion_project: str | None = None


class _Project(_Answer, frozen=True, kw_only=True):
    id: str | None = None


class _Onboarded(_Answer, frozen=True, kw_only=True):
    cloudaicompanion_project: _Project | None = None


class OperationFault(_Answer, frozen=True, kw_only=True):
    """The error of a failed operation."""

    code: int | None = None
    message: str | None = None


class Operation(_Answer, frozen=True, kw_only=True):
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


class Account(msgspec.Struct, frozen=True, kw_only=True):
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


def settled(answer: LoadAnswer, project: str) -> Account | None:
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
    return Account(project=found, tier=tier.id or "", tier_name=tier.name or "")


def tier_to_join(answer: LoadAnswer, project: str) -> Tier:
    """The tier for onboarding a new user.

    Raises IneligibleAccountError, or ProjectRequiredError when it needs a project and none is set.
    """
    legacy = Tier(id=LEGACY_TIER, user_defined_cloudaicompanion_project=True)
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
            remedy=f"{_SET_PROJECT} Or sign in with another account: alhena auth login.",
        )
    return ProjectRequiredError(
        "this account requires setting GOOGLE_CLOUD_PROJECT or GOOGLE_CLOUD_PROJECT_ID.",
        remedy=f"{_SET_PROJECT} See {PROJECT_PAGE}",
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
