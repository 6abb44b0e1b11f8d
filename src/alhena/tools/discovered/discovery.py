"""Runs a discovery command, once, and reads what it prints."""

import os
from typing import TYPE_CHECKING

from alhena.display_text import one_line
from alhena.system.errors import ProcessStartError
from alhena.tools.discovered.listing import Listing, arguments, read_listing

if TYPE_CHECKING:
    from alhena.system.processes import ProcessGroups
    from alhena.system.sandbox.sandbox import Sandbox

DISCOVERY_SECONDS = 30.0
"""How long a discovery command may take."""
MAX_LISTING = 10 << 20
"""Bytes that a discovery command may print on stdout."""
MAX_SAID = 10 * MAX_LISTING
"""Bytes that it may write in all, with what it says on stderr."""
_SHOWN = 500


async def discover(
    command: str,
    cwd: str,
    env: dict[str, str],
    groups: "ProcessGroups | None" = None,
    sandbox: "Sandbox | None" = None,
) -> Listing:
    """The tools that `command` lists, run in `cwd` with `env`. When it fails in any way there are
    none, and the problem says why. What it leaves running is ended."""
    from alhena.system.processes import Command, Limits, Stop, run_process
    from alhena.system.terminal_text import OutputCapture

    try:
        words = arguments(command)
    except ValueError as error:
        return Listing(problems=(f"it cannot be run: {error}",))
    process = Command(
        argv=tuple(map(os.fsencode, words)),
        cwd=cwd,
        env=env,
        merge_stderr=False,
        leaves_nothing=True,
        label=command,
    )
    printed = bytearray()

    def take(data: bytes) -> None:
        printed.extend(data[: MAX_LISTING + 1 - len(printed)])

    said = OutputCapture(head=_SHOWN, tail=_SHOWN)
    limits = Limits(inactivity=0, total=DISCOVERY_SECONDS, output=MAX_SAID)
    try:
        ending = await run_process(
            process if sandbox is None else sandbox.confine(process),
            take,
            limits=limits,
            groups=groups,
            errors=said.feed,
        )
    except ProcessStartError as error:
        return Listing(problems=(str(error).removesuffix("."),))
    diagnostics = one_line(said.captured().text.strip(), 2 * _SHOWN)
    behind = f"; it said: {diagnostics}" if diagnostics else ""
    if len(printed) > MAX_LISTING:
        return Listing(problems=(f"it printed more than {MAX_LISTING >> 20} MB",))
    if ending.stopped is Stop.OUTPUT:
        return Listing(problems=(f"it wrote more than {MAX_SAID >> 20} MB{behind}",))
    if ending.stopped is not None:
        return Listing(problems=(f"it took more than {DISCOVERY_SECONDS:g} s{behind}",))
    if ending.exit_code != 0:
        how = f"signal {ending.signal}" if ending.exit_code is None else str(ending.exit_code)
        return Listing(problems=(f"it ended with {how}{behind}",))
    try:
        return read_listing(bytes(printed))
    except ValueError as error:
        return Listing(problems=(f"{error}{behind}",))
