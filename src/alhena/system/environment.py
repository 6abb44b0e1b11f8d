"""Builds the environment of child processes without secrets, and protects this process's memory.

A child gets an environment without secrets. But it runs as the same user, and could read them from
its parent's memory: in /proc/<pid>/environ and mem, and by ptrace.
"""

import sys
from collections.abc import Mapping
from functools import cache

from alhena.config.environment import (
    SanitisedEnvironment,
    is_hijacking,
    own_environment,
    sanitise_environment,
)
from alhena.config.home import BATCH_TASK, PROJECT_TEMP
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
"""Set for every command without a terminal: pagers, prompts and colours are off, and read-only git
commands do not write to the index."""

WATCHED: Mapping[str, str] = {name: UNATTENDED[name] for name in UNATTENDED if name != "TERM"}
"""Set for a command whose terminal has no input."""

ATTENDED: Mapping[str, str] = {"GEMINI_CLI": "1"}
"""Set for a command at the person's terminal."""

UNATTENDED_DEFAULTS: Mapping[str, str] = {"CI": "1"}
"""Set for a command without a terminal, unless the user's environment sets them."""


def child_environment(
    parent: Mapping[str, str],
    rules: EnvironmentRedaction | None = None,
    *,
    extra: Mapping[str, str] | None = None,
    fixed: Mapping[str, str] = UNATTENDED,
    defaults: Mapping[str, str] = UNATTENDED_DEFAULTS,
) -> SanitisedEnvironment:
    """`parent` without secrets and without variables of a project's .env file, overridden by
    `fixed` and then `extra`; `defaults` add to it, but for a person's terminal.

    For every child process. `extra` comes from configuration; variables in it that make other
    programs run code (LD_PRELOAD, BASH_ENV) are dropped and listed as removed.
    """
    clean = sanitise_environment(own_environment(parent), rules or EnvironmentRedaction())
    wanted = extra or {}
    refused = {name for name in wanted if is_hijacking(name)}
    added = {name: value for name, value in wanted.items() if name not in refused}
    for name in (PROJECT_TEMP, BATCH_TASK):  # they are of this session alone
        clean.variables.pop(name, None)
    if fixed is not UNATTENDED:
        defaults = {}
    return SanitisedEnvironment(
        {**defaults, **clean.variables, **fixed, **added},
        tuple(sorted({*clean.removed, *refused})),
    )


_PR_SET_DUMPABLE = 4


@cache
def shield_memory() -> None:
    """Makes this process non-dumpable; call it before a child is started. The first call takes
    about 2 ms.

    On Linux, other processes of this user and debuggers can then no longer read this process, and
    it leaves no core dump; privileged ones still can (CAP_SYS_PTRACE, CAP_PERFMON), such as root's.
    Does nothing on other systems. Parent processes are not protected: a key exported before their
    start is in their environment too. Raises ProcessStartError.
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
