"""The refusals and failures of a model service (`alhena.errors.ModelError`) by their kinds."""

from alhena.errors import ModelError


class UnusableAnswerError(ModelError):
    """An answer was empty, blocked or unreadable."""

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
    """The account has to be verified first (403). `link` leads to it, `learn_more` explains it."""

    kind = "validation_required"
    link: str | None = None
    description: str | None = None
    learn_more: str | None = None


class QuotaError(ModelError):
    """Too many requests (429), of an unspecified limit."""

    kind = "quota"


class RateLimitError(QuotaError):
    """A per-minute limit of requests or tokens; waiting helps."""

    kind = "rate_limit"


class CapacityError(QuotaError):
    """The model is overloaded; the quota is not exhausted."""

    kind = "capacity"


class SpentQuotaError(QuotaError):
    """The quota is used up for longer than a run waits."""

    kind = "quota_spent"


class DailyQuotaError(SpentQuotaError):
    """The daily quota is used up."""

    kind = "daily_quota"


class ZeroQuotaError(SpentQuotaError):
    """The account has no quota for this model at all."""

    kind = "zero_quota"


class RecordingError(ModelError):
    """A file of recorded responses has no matching response."""

    kind = "recording"
