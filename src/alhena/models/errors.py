"""The refusals and failures of a model service (`alhena.errors.ModelError`) by their kinds."""

from alhena.errors import ModelError


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


class RecordingError(ModelError):
    """A file of recorded responses holds no fitting response for a request."""

    kind = "recording"
