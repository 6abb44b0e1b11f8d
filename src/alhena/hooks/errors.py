"""How hooks end a run."""

from alhena.errors import AlhenaError


class HookBlockedError(AlhenaError):
    """A hook did not let the prompt, the request or the answer pass; the run ends as blocked."""

    exit_code = 0
    kind = "hook_blocked"


class HookStopError(AlhenaError):
    """A hook asked for the end of the run (`"continue": false`)."""

    exit_code = 0
    kind = "hook_stop"
