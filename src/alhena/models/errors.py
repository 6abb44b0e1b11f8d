"""How a model can fail to answer."""

from typing import Any

from alhena.errors import AlhenaError


class ModelError(AlhenaError):
    """The model did not answer.

    `status` is the HTTP status when there was one, `details` are the typed detail objects of the
    service's error (google.rpc, as plain values), and `retry_after_s` is when it said to ask again,
    in seconds. `attempts` is how often the request was sent in all; `too_long` says that this wait
    is why it was not sent again.
    """

    kind = "api_error"

    def __init__(
        self,
        message: str,
        *,
        remedy: str | None = None,
        status: int | None = None,
        details: tuple[dict[str, Any], ...] = (),
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.status = status
        self.details = details
        self.retry_after_s = retry_after_s
        self.attempts = 1
        self.too_long = False

    def __str__(self) -> str:
        text = super().__str__()
        if self.too_long and self.retry_after_s is not None:
            text = f"{text} (The service asks for a wait of {self.retry_after_s:.0f} s.)"
        return f"{text} (Tried {self.attempts} times.)" if self.attempts > 1 else text


class UnusableAnswerError(ModelError):
    """An answer came, and was empty, withheld or not to be read."""

    kind = "invalid_response"


class CredentialsError(ModelError):
    """No credentials, or the service refused them (401, 403)."""

    exit_code = 41
    kind = "auth"


class ModelNotFoundError(ModelError):
    """The service knows no such model (404)."""

    kind = "model_not_found"


class RequestRejectedError(ModelError):
    """The service refused the request (400 and other 4xx)."""

    kind = "bad_request"


class ValidationRequiredError(CredentialsError):
    """The account has to be verified first (403). `link` is where, `learn_more` what about."""

    kind = "validation_required"
    link: str | None = None
    description: str | None = None
    learn_more: str | None = None


class QuotaError(ModelError):
    """Too many requests (429); which limit it was the service did not say."""

    kind = "quota"


class RateLimitError(QuotaError):
    """More requests or tokens than a minute allows; a wait helps."""

    kind = "rate_limit"


class CapacityError(QuotaError):
    """The service has no room for this model now; the quota is not the matter."""

    kind = "capacity"


class SpentQuotaError(QuotaError):
    """The quota is used up for so long that no run waits for it."""

    kind = "quota_spent"


class DailyQuotaError(SpentQuotaError):
    """The quota of the day is used up."""

    kind = "daily_quota"


class ZeroQuotaError(SpentQuotaError):
    """The account has no quota for this model at all."""

    kind = "zero_quota"


class ServerFaultError(ModelError):
    """The service failed (5xx)."""

    kind = "server_error"


class NetworkError(ModelError):
    """The service could not be reached, or went silent past a time limit."""

    kind = "network"


class StreamCutError(ModelError):
    """The stream ended before the answer did."""

    kind = "stream_cut"


class RecordingError(ModelError):
    """A file of recorded responses holds no fitting response for a request."""

    kind = "recording"
