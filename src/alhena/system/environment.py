"""The environment of a child process, no secrets in it; this process's own memory kept from others.

A child gets an environment without secrets. It runs as the same user, though, and could read them
where the system shows the memory of its parent: in /proc/<pid>/environ and mem, and by ptrace.
"""

import sys
from collections.abc import Mapping
from functools import cache

from alhena.config.environment import SanitisedEnvironment, is_hijacking, own_environment, sanitised
from alhena.config.settings import EnvironmentRedaction
from alhena.system.errors import ProcessStartError

UNATTENDED: Mapping[str, str] = {
    "GEMINI_CLI": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "TERM": "dumb",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "DEBIAN_FRONTEND": "noninteractive",
}
"""Set for every command: nobody sits at its terminal, so nothing may page, prompt or paint; and
what only looks at a repository does not write to its index."""

UNATTENDED_DEFAULTS: Mapping[str, str] = {"CI": "1"}
"""Set where the user's own environment says nothing."""


def child_environment(
    parent: Mapping[str, str],
    rules: EnvironmentRedaction | None = None,
    *,
    extra: Mapping[str, str] | None = None,
) -> SanitisedEnvironment:
    """`parent` without secrets and without what a project's .env file says, with `UNATTENDED` and
    then `extra` set over it.

    For every child process. `extra` is what a configuration wants set; of it, a variable by which
    other programs are made to run code (LD_PRELOAD, BASH_ENV) is left out and counts as removed.
    """
    clean = sanitised(own_environment(parent), rules or EnvironmentRedaction())
    wanted = extra or {}
    refused = {name for name in wanted if is_hijacking(name)}
    added = {name: value for name, value in wanted.items() if name not in refused}
    return SanitisedEnvironment(
        {**UNATTENDED_DEFAULTS, **clean.variables, **UNATTENDED, **added},
        tuple(sorted({*clean.removed, *refused})),
    )


_PR_SET_DUMPABLE = 4


@cache
def shield_memory() -> None:
    """To be called before a child is started; the first call does it for good, in about 2 ms.

    On Linux no other process of this user can look into this one from now on, nor can a debugger,
    and it leaves no core dump; a privileged one still can (CAP_SYS_PTRACE, CAP_PERFMON), such as
    any of root's. Elsewhere nothing is done. The processes above this one are not shielded: a key
    that was exported before one of them was started stands in its environment, too. Raises
    ProcessStartError.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        from ctypes import CDLL, c_ulong, get_errno
    except ImportError as error:
        raise _not_shielded("this Python has no ctypes") from error
    nothing = c_ulong(0)
    library = CDLL(None, use_errno=True)
    if library.prctl(_PR_SET_DUMPABLE, nothing, nothing, nothing, nothing):
        from os import strerror

        raise _not_shielded(strerror(get_errno()))


def _not_shielded(reason: str) -> ProcessStartError:
    return ProcessStartError(
        f"No command is started, as it could read this process's secrets: {reason}.",
        remedy="Run where prctl(PR_SET_DUMPABLE) is allowed, with a Python that has ctypes.",
    )
