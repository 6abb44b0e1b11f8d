"""The error object of Google APIs (google.rpc.Status in JSON)."""

from typing import Any

from alhena.values import Value


class ApiStatus(Value, frozen=True, kw_only=True):
    """What a service says went wrong.

    `code` is the HTTP status (0 when the body names none), `status` the canonical name such as
    "RESOURCE_EXHAUSTED", `details` the typed detail objects (`@type` ErrorInfo, RetryInfo, …).
    `words` are what services of other dialects say instead of these: the `code` and the `type` of
    an OpenAI error, the `type` of an Anthropic one ("insufficient_quota", "overloaded_error").
    """

    code: int = 0
    message: str = ""
    status: str = ""
    details: tuple[dict[str, Any], ...] = ()
    words: tuple[str, ...] = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons of all ErrorInfo details, such as "API_KEY_INVALID"."""
        found = (detail.get("reason") for detail in self.details)
        return tuple(reason for reason in found if isinstance(reason, str) and reason)
