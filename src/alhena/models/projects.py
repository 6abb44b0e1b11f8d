"""The Google Cloud projects that requests count to, where an error is about one of them."""

import re
from collections.abc import Callable

from alhena.wire.plain import as_object
from alhena.wire.status import ApiStatus

SHARED = (
    "GOOGLE_CLOUD_PROJECT is not set, so that the requests count to a project that Code Assist "
    "shares among many users: set it to a project of your own, or use a key of your own "
    "(GEMINI_API_KEY)."
)
"""What to say of a quota where the user named no project."""

_CLIENTS = frozenset({"764086051850", "32555940559"})
"""The projects that gcloud signs its users in with. No service can be enabled in them."""

_ADDRESS = re.compile(r"https://[!-~]{1,2000}")
_NO_OWN = (
    "The requests count to a project of gcloud's, for which no service can be enabled: set "
    "GOOGLE_CLOUD_QUOTA_PROJECT to a project of your own, or let the credentials name it "
    "(gcloud auth application-default set-quota-project PROJECT)."
)


def project_remedy(api: ApiStatus, clean: Callable[[str], str]) -> str | None:
    """What to do about an error that is about a project; None for one that is not. `clean` makes
    names that the service gave fit to be shown."""
    from alhena.models.retry.hints import details_of

    for info in details_of(api, "ErrorInfo"):
        metadata = as_object(info.get("metadata")) or {}
        project = _text(metadata.get("consumer")).removeprefix("projects/")
        service = clean(_text(metadata.get("service"))) or "the API"
        named = f"the project {clean(project)}" if project else "the project"
        match info.get("reason"):
            case "SERVICE_DISABLED" if project in _CLIENTS:
                return _NO_OWN
            case "SERVICE_DISABLED":
                link = _text(metadata.get("activationUrl"))
                place = f" ({link})" if _ADDRESS.fullmatch(link) else ""
                return (
                    f"Enable {service} in {named}{place} and run again some minutes later, or use "
                    "credentials of another project."
                )
            case "USER_PROJECT_DENIED":
                return (
                    f"Ask for the role roles/serviceusage.serviceUsageConsumer in {named}, or set "
                    "GOOGLE_CLOUD_QUOTA_PROJECT to a project that you may use."
                )
            case "BILLING_DISABLED":
                return f"Set up billing for {named}, or use credentials of another project."
            case "CONSUMER_INVALID" | "RESOURCE_PROJECT_INVALID":
                return (
                    f"There is no usable project of that name ({clean(project) or 'none is told'}):"
                    " correct GOOGLE_CLOUD_PROJECT, and GOOGLE_CLOUD_QUOTA_PROJECT if it is set."
                )
            case _:
                continue
    return None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
