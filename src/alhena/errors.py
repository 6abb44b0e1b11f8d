"""The root of every error this library raises.

    AlhenaError                          exit 1
    ├── UsageError                       exit 2    an argument is wrong
    ├── InputError                       exit 42   the prompt or a named file cannot be used
    │   ├── session.errors.SessionError  a session that was named cannot be used
    │   │   ├── NoSessionError           there is none
    │   │   └── HeldSessionError         another process is at work on it
    │   └── session.errors.NoCheckpointError  there is no such checkpoint
    ├── InterruptedRunError              exit 130  the user stopped the run
    ├── config.errors.ConfigError        exit 52   settings, policies, environment
    │   └── DamagedError                 a file of what the user has said holds something else
    ├── wire.errors.WireError
    │   ├── SseError                     bytes that are no event stream, or too large
    │   ├── DecodeError                  JSON that is not the documented shape
    │   ├── EncodeError                  a value that JSON cannot carry
    │   └── ConformanceError             a request that breaks a rule of the API
    ├── system.errors.FileError          a file cannot be opened, read or written
    ├── system.errors.ProcessStartError  a command cannot be started
    │   └── SandboxError                 exit 44   no such sandbox can be had
    ├── system.errors.SearchError        a search cannot be carried out
    ├── system.web.errors.FetchError     a web page cannot be read
    ├── ModelError
    │   ├── CredentialsError             exit 41   none found, 401, 403
    │   │   ├── ValidationRequiredError  the account has to be verified first
    │   │   ├── auth.grant.GrantRefusedError  a token endpoint gives no token
    │   │   ├── auth.exchange.ExpiredLoginError  a login that has ended
    │   │   ├── auth.authorization.StrayAnswerError  a browser with another login's answer
    │   │   ├── auth.login.NoAnswerError  nobody to paste a code
    │   │   ├── code_assist.account.IneligibleAccountError  an account that is not taken
    │   │   └── code_assist.account.ProjectRequiredError  an account without a project
    │   ├── ModelNotFoundError           404
    │   ├── RequestRejectedError         any other 4xx
    │   ├── QuotaError                   429
    │   │   ├── RateLimitError           a limit per minute
    │   │   ├── CapacityError            the model has no room now
    │   │   └── SpentQuotaError          no wait helps
    │   │       ├── DailyQuotaError      nothing left for today
    │   │       └── ZeroQuotaError       this account has none for the model
    │   ├── ServerFaultError             5xx
    │   ├── NetworkError                 no connection, timeout, proxy
    │   ├── StreamCutError               the answer stopped before its end
    │   ├── UnusableAnswerError          a whole answer with nothing in it
    │   └── RecordingError               a recorded response is missing or malformed
    ├── scheduler.errors.SchedulerError
    │   ├── TransitionError              a tool call cannot go from one state to the other
    │   └── ConfirmationError            an answer that no waiting call can take
    ├── scheduler.bus.BusError           a request that is open already
    ├── mcp.errors.McpError               an MCP server, or the way to it
    │   ├── McpConnectError              it cannot be reached, or does not speak the protocol
    │   │   ├── McpAuthError             it wants to know who asks
    │   │   └── oauth.errors.SignInError exit 41   nobody could be signed in to it
    │   │       └── RefusedError         an authorization server said no
    │   ├── oauth.errors.TokenFileError  exit 41   the file of the tokens cannot be used
    │   ├── McpLostError                 the connection ended
    │   ├── McpTimeoutError              no answer in time
    │   └── McpRefusedError              it answered with an error of the protocol
    ├── hooks.errors.HookBlockedError    exit 0    a hook did not let something pass
    ├── hooks.errors.HookStopError       exit 0    a hook asked for the end of the run
    ├── session.errors.JournalError      what happens cannot be recorded
    ├── session.errors.CheckpointError   files cannot be kept, or not be put back
    │   ├── NoGitError                   there is no git
    │   ├── GitFailedError               a git command has failed
    │   └── TooMuchError                 there is more than can be kept
    ├── chat.errors.InvalidResponseError an answer that is empty, blocked or malformed
    ├── chat.errors.ContextOverflowError a request that does not fit the model's window
    ├── chat.errors.ChantingError        an answer that says the same over and over
    ├── frontends.streams.OutputError    the result cannot be written
    ├── agent.errors.BusyError           a second prompt while one is at work
    ├── agent.errors.LoopError           the model goes in circles
    └── agent.errors.LimitError          exit 53
        ├── TurnLimitError               model turns of a prompt or a session
        ├── TokenLimitError              tokens of a session
        ├── TimeLimitError               the time of a run
        └── CostLimitError               the price of a session

A tool failure is a value (`tools.contract.ToolFailure`), never an exception.
"""

from typing import ClassVar

TYPE_CHECKING = False  # importing typing would cost `import alhena.errors` 5 ms
if TYPE_CHECKING:
    from typing import Any


class AlhenaError(Exception):
    """Something a caller can act on.

    `message` is one line that says what happened and where; `remedy`, when there is one, says what
    to do. `kind` is the stable name that JSON output uses as `error.type`; `exit_code` is what the
    command ends with.
    """

    exit_code: ClassVar[int] = 1
    kind: ClassVar[str] = "error"

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}" if self.remedy else self.message


class UsageError(AlhenaError):
    """The command line cannot be carried out as written."""

    exit_code = 2
    kind = "usage"


class InputError(AlhenaError):
    """No prompt was given, or an input that was named cannot be used."""

    exit_code = 42
    kind = "input"


class InterruptedRunError(AlhenaError):
    """The user stopped the run; what was done until then stands."""

    exit_code = 130
    kind = "interrupted"


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
        details: "tuple[dict[str, Any], ...]" = (),
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


class ServerFaultError(ModelError):
    """The service failed (5xx)."""

    kind = "server_error"


class NetworkError(ModelError):
    """The service could not be reached, or went silent past a time limit."""

    kind = "network"


class StreamCutError(ModelError):
    """The stream ended before the answer did."""

    kind = "stream_cut"
