"""The end of a child and of all that came from it: SIGTERM, a grace, SIGKILL."""

import asyncio
import contextlib
import os
import signal

from alhena.system.child import Child

GRACE = 0.2
"""Seconds between SIGTERM and SIGKILL."""

_STEP = 0.02  # the system tells nobody that the last member of a session has ended


async def stop(child: Child, grace: float = GRACE) -> None:
    """Ends a child with all its members. Cancelled, it still sends SIGKILL."""
    try:
        child.signal(signal.SIGTERM)
        begin = child.now()
        await asyncio.wait({child.exited, child.eof}, timeout=grace)
        await _gone(child, begin + grace - child.now())
    finally:
        child.signal(signal.SIGKILL)
    # A process that was being forked when the signal went out is found by the next round.
    for _ in range(20):
        if await _gone(child, 0.1):
            return
        child.signal(signal.SIGKILL)


async def stop_member(child: Child, pid: int, grace: float = GRACE) -> None:
    """Ends one living member of a child and leaves the others."""
    waited = 0.0
    _signal(pid, signal.SIGTERM)
    while pid in child.members():
        if waited >= grace:
            _signal(pid, signal.SIGKILL)
        if waited >= 2 * grace:
            return  # it cannot be ended, being stuck in the system or another user's
        await asyncio.sleep(_STEP)
        waited += _STEP


def _signal(pid: int, number: int) -> None:
    # Gone meanwhile, or set-user-ID and out of reach: whoever lists the members is told.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


async def _gone(child: Child, seconds: float) -> bool:
    """Whether nothing is left of a child, waiting for it this long."""
    for _ in range(int(seconds / _STEP) + 1):
        if child.exited.done() and not child.members():
            return True
        await asyncio.sleep(_STEP)
    return False
