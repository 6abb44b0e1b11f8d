"""The refusals and failures of a model service (`alhena.errors.ModelError`) by their kinds, and the
details of a request that their messages name."""

import re
from collections.abc import Iterable

from alhena.errors import ModelError
from alhena.wire.json_values import excerpt

KEY_REMEDY = "Set GEMINI_API_KEY to a valid key (https://aistudio.google.com/apikey)."
PERSONAL_ENDED = (
    "Code Assist ended for personal accounts (free, Pro, Ultra) on 2026-06-18; Standard and "
    "Enterprise licences work. Otherwise use an API key (GEMINI_API_KEY) or Vertex AI "
    "(GOOGLE_GENAI_USE_VERTEXAI=true)."
)
"""Said before a sign-in with a Google account, and where it fails."""
MESSAGE_LIMIT = 500


class UnusableAnswerError(ModelError):
    """An answer was empty, blocked or unreadable."""

    kind = "invalid_response"


class CredentialsError(ModelError):
    """No credentials, or the service refused them (401, 403)."""

    exit_code = 41
    kind = "auth"
    page = "models"


class NoSignInError(CredentialsError):
    """No way to sign in is set, or another one than the permitted. The `kind` is the
    reference's."""

    kind = "Error"


class ModelNotFoundError(ModelError):
    """The service knows no such model (404)."""

    kind = "model_not_found"


class RequestRejectedError(ModelError):
    """The service refused the request (400 and other 4xx)."""

    kind = "bad_request"


class SignatureError(RequestRejectedError):
    """The service refused a thought signature of the conversation, or misses one (400)."""


class MediaRefusedError(RequestRejectedError):
    """The service refused media of the conversation: broken, too large, or of a type that the model
    does not take (400)."""


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


class RequestDetails:
    """Details of a request for error messages; `secrets` are redacted from them.

    `source` is the variable of the address, `remedy` the advice for rejected credentials,
    `quota_tip` an addition to quota errors.
    """

    __slots__ = ("_secrets", "model", "place", "quota_tip", "remedy", "source")

    def __init__(
        self,
        model: str,
        place: str,
        secrets: Iterable[str] = (),
        *,
        source: str = "GOOGLE_GEMINI_BASE_URL",
        remedy: str = KEY_REMEDY,
        quota_tip: str = "",
    ) -> None:
        self.model = model
        self.place = place
        self.source = source
        self.remedy = remedy
        self.quota_tip = quota_tip
        self._secrets = tuple(sorted((s for s in secrets if s), key=len, reverse=True))

    @property
    def usual(self) -> bool:
        """True for an address of Google's, which goes without saying."""
        return self.place.endswith(".googleapis.com")

    @property
    def service(self) -> str:
        """The name of the service in messages."""
        return "The model's service" if self.usual else self.place

    def clean(self, text: str, limit: int = MESSAGE_LIMIT) -> str:
        """`text` on one line, at most `limit` characters, with secrets redacted."""
        for secret in self._secrets:
            # A short secret is only replaced as a whole word: "x" is in every other word.
            edge = r"(?<![\w-])", r"(?![\w-])"
            pattern = re.escape(secret)
            text = re.sub(pattern if len(secret) >= 8 else pattern.join(edge), "[redacted]", text)
        return excerpt(text, limit)
