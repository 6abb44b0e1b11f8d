"""How a model can fail to answer. `status` is the HTTP status when there was one."""

from alhena.errors import AlhenaError


class ModelError(AlhenaError):
    """The model did not answer."""

    kind = "api_error"

    def __init__(
        self, message: str, *, remedy: str | None = None, status: int | None = None
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.status = status


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


class QuotaError(ModelError):
    """Too many requests or no quota left (429)."""

    kind = "quota"


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
