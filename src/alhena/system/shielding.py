"""What this process holds stays its own, its environment with the keys in it above all.

A child gets an environment without secrets. It runs as the same user, though, and could read them
where the system shows the memory of its parent: in /proc/<pid>/environ and mem, and by ptrace.
"""

import sys
from functools import cache

from alhena.system.errors import ProcessStartError

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
