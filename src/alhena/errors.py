"""The root of every error this library raises.

    AlhenaError                          exit 1
    ├── UsageError                       exit 2    an argument is invalid
    ├── InputError                       exit 42   the prompt or a named file is unusable
    │   ├── session.records.SessionError  the named session is unusable
    │   │   ├── NoSessionError           it does not exist
    │   │   └── HeldSessionError         another process uses it
    │   └── session.checkpoints.records.NoCheckpointError  there is no such checkpoint
    ├── ProgramError                     exit 1    a function of the program failed
    ├── PendingRunError                  exit 1    a run waits for answers
    ├── InterruptedRunError              exit 130  the user stopped the run
    ├── ConfigError                      exit 52   settings, policies, environment
    │   └── DamagedError                 a file of user decisions is invalid
    ├── wire.errors.WireError
    │   ├── SseError                     not an event stream, or too large
    │   ├── DecodeError                  JSON of the wrong shape
    │   ├── EncodeError                  a value without a JSON form
    │   └── ConformanceError             a request that breaks a rule of the API
    ├── config.effective_settings.UntrustedFolderError  exit 55  the mode needs a trusted folder
    ├── system.errors.FileError          a file cannot be opened, read or written
    ├── system.errors.ProcessStartError  a command cannot be started
    │   └── SandboxError                 exit 44   the requested sandbox is unavailable
    ├── system.errors.SearchError        a search failed
    ├── system.web.url.FetchError        a web page cannot be read
    ├── ModelError
    │   ├── CredentialsError             exit 41   none found, 401, 403
    │   │   ├── ValidationRequiredError  the account has to be verified first
    │   │   ├── auth.tokens.GrantRefusedError a token endpoint gives no token
    │   │   ├── auth.exchange.ExpiredLoginError  the login has ended
    │   │   ├── auth.authorization.StrayAnswerError  an answer to another login
    │   │   ├── auth.login.NoAnswerError  no person to paste a code
    │   │   ├── providers.code_assist_setup.IneligibleAccountError the account is rejected
    │   │   └── providers.code_assist_setup.ProjectRequiredError the account needs a project
    │   ├── ModelNotFoundError           404
    │   ├── RequestRejectedError         any other 4xx
    │   │   ├── SignatureError           a thought signature is invalid or missing
    │   │   └── MediaRefusedError        a medium is broken, too large or not supported
    │   ├── QuotaError                   429
    │   │   ├── RateLimitError           a limit per minute
    │   │   ├── CapacityError            the model is overloaded
    │   │   └── SpentQuotaError          waiting does not help
    │   │       ├── DailyQuotaError      the daily quota is used up
    │   │       └── ZeroQuotaError       no quota for this model
    │   ├── ServerFaultError             5xx
    │   ├── NetworkError                 no connection, timeout, proxy
    │   │   └── NoServerError            nothing listens at an address of this machine
    │   ├── StreamCutError               the answer was truncated
    │   ├── UnusableAnswerError          the answer is empty
    │   └── RecordingError               a recorded response is missing or malformed
    ├── scheduler.errors.SchedulerError
    │   ├── TransitionError              an invalid change of state
    │   └── ConfirmationError            an answer without a waiting call
    ├── scheduler.bus.BusError           the request is already open
    ├── mcp.connection.McpError           an MCP server or its transport failed
    │   ├── McpConnectError              unreachable, or violates the protocol
    │   │   ├── McpAuthError             requires authentication
    │   │   └── oauth.tokens.SignInError exit 41   sign-in failed
    │   │       └── RefusedError         permanently refused
    │   ├── oauth.tokens.TokenFileError  exit 41   the token file is unusable
    │   ├── McpLostError                 the connection ended
    │   ├── McpTimeoutError              no answer in time
    │   └── McpRefusedError              answered with a JSON-RPC error
    ├── hooks.model.HookBlockedError     exit 0    a hook blocked something
    ├── hooks.model.HookStopError        exit 0    a hook ended the run
    ├── session.records.JournalError     the session cannot be recorded
    ├── session.checkpoints.records.CheckpointError  a snapshot or a restore failed
    │   ├── NoGitError                   git is missing
    │   ├── GitFailedError               a git command failed
    │   └── TooMuchError                 too much data for a snapshot
    ├── chat.turn.InvalidResponseError   an empty, blocked or malformed answer
    │   └── AccountLimitedError          exit 41   the service answers this account no more
    ├── chat.turn.ContextOverflowError   a request larger than the context window
    ├── chat.turn.ChantingError          a repetitive answer
    ├── frontends.shared.streams.OutputError    the result cannot be written
    ├── agent.limits.BusyError           a second prompt during a run
    ├── agent.limits.LoopError           the model repeats itself
    └── agent.limits.LimitError          exit 53
        ├── TurnLimitError               model turns of a prompt or a session
        ├── TokenLimitError              tokens of a session
        ├── TimeLimitError               the time of a run
        └── CostLimitError               the price of a session

A tool failure is a value (`tools.contract.ToolFailure`), never an exception. Tools of a program may
raise `ToolError`, which the model reads.
"""

from typing import Any, ClassVar


class AlhenaError(Exception):
    """An error that a caller can act on.

    `message` is one line with the cause and the place; `remedy`, if any, is what to do. `kind` is
    the stable name in `error.type` of JSON output; `exit_code` is the exit code of the command.
    `result` is the Result of the run that the error ended, None if it ended none. `page` is the
    page of the documentation (`alhena docs PAGE`) that helps, None if none does.
    """

    exit_code: ClassVar[int] = 1
    kind: ClassVar[str] = "error"
    page: str | None = None
    result: Any = None

    def __init__(self, message: str, *, remedy: str | None = None, page: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        if page is not None:
            self.page = page

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}" if self.remedy else self.message

    def __reduce__(self) -> "tuple[Any, ...]":
        """Pickles the error with its attributes, without those that cannot be pickled."""
        return _rebuild_error, (type(self), self.args, _pickle_values(self.__dict__))


def _rebuild_error(
    kind: "type[AlhenaError]", args: "tuple[Any, ...]", state: "dict[str, bytes]"
) -> AlhenaError:
    import pickle

    error = kind.__new__(kind, *args)
    error.__dict__.update({name: pickle.loads(value) for name, value in state.items()})  # noqa: S301
    return error


def _pickle_values(state: "dict[str, Any]") -> "dict[str, bytes]":
    import pickle

    found: dict[str, bytes] = {}
    for name, value in state.items():
        try:
            found[name] = pickle.dumps(value)
        except (pickle.PicklingError, TypeError, AttributeError, ValueError):
            continue
    return found


class ToolError(Exception):
    """An error that a tool raises for the model, which reads its text as it is. It is not logged
    and no failure of the program:

        raise ToolError("There is no such order. Ask for its number.")
    """


class UsageError(AlhenaError):
    """The command line is invalid."""

    exit_code = 2
    kind = "usage"


class InputError(AlhenaError):
    """No prompt was given, or a named input is unusable."""

    exit_code = 42
    kind = "input"


class PendingRunError(AlhenaError):
    """A run waits for answers to calls, so that it has no output yet; `result` is its Result."""

    kind = "pending"


class InterruptedRunError(AlhenaError):
    """The user stopped the run; completed work stays."""

    exit_code = 130
    kind = "interrupted"


class ProgramError(AlhenaError):
    """A function that the program gave to an agent failed; `__cause__` is what it raised."""

    kind = "program"


class ModelError(AlhenaError):
    """The model did not answer.

    `status` is the HTTP status if any, `details` are the typed detail objects of the service's
    error (google.rpc, as plain values), and `retry_after_s` is the requested wait in seconds.
    `attempts` is the number of times the request was sent; `too_long`: it was not retried because
    of that wait.
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
    """The service could not be reached, or timed out."""

    kind = "network"


class NoServerError(NetworkError):
    """Nothing listens at an address of this machine."""

    page = "models"


class StreamCutError(ModelError):
    """The stream ended before the answer did."""

    kind = "stream_cut"


class ConfigError(AlhenaError):
    """A configuration file or variable is unusable; the message names it and the position."""

    exit_code = 52
    kind = "config"


class DamagedError(ConfigError):
    """A file with recorded user decisions is invalid."""
