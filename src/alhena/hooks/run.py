"""Runs one hook command: JSON in, what it wrote and how it ended out. Nothing of it is left."""

import os
import shlex
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from alhena.config.settings import EnvironmentRedaction
from alhena.events import timestamp
from alhena.hooks.model import OUTPUT_LIMIT, HookDefinition, HookRun
from alhena.system.environment import child_environment
from alhena.system.errors import ProcessStartError
from alhena.system.processes import Command, Limits, ProcessGroups, Stop, run_process, shell_path


def iso_now() -> str:
    """This moment in the form of `timestamp`: UTC, milliseconds."""
    return timestamp(time.time_ns())


class HookSurroundings(msgspec.Struct, kw_only=True):
    """What the hooks of a session share. `groups` guards their processes while they run, `running`
    holds their ids, `now` gives the timestamp of an event."""

    session_id: str
    cwd: str
    environ: Mapping[str, str]
    project_dir: str
    plans_dir: str = ""
    transcript_path: str = ""
    redaction: EnvironmentRedaction = EnvironmentRedaction()
    groups: ProcessGroups | None = None
    running: set[int] = msgspec.field(default_factory=set[int])
    now: Callable[[], str] = iso_now

    def base_input(self, event: str) -> dict[str, Any]:
        """What every hook is told."""
        return {
            "session_id": self.session_id,
            "transcript_path": self.transcript_path,
            "cwd": self.cwd,
            "hook_event_name": event,
            "timestamp": self.now(),
        }

    @property
    def variables(self) -> dict[str, str]:
        """What is set for hooks beyond the user's environment."""
        return {
            "GEMINI_PROJECT_DIR": self.project_dir,
            "GEMINI_PLANS_DIR": self.plans_dir,
            "GEMINI_CWD": self.cwd,
            "GEMINI_SESSION_ID": self.session_id,
            "CLAUDE_PROJECT_DIR": self.project_dir,
        }

    def kill(self) -> None:
        """Ends the hooks that run, at once; for an exit without waiting."""
        for pid in tuple(self.running):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)


class _Capture:
    """The beginning of a stream, and how long it was."""

    def __init__(self) -> None:
        self.kept = bytearray()
        self.length = 0

    def feed(self, data: bytes) -> None:
        """Takes what came."""
        self.length += len(data)
        room = OUTPUT_LIMIT - len(self.kept)
        if room > 0:
            self.kept += data[:room]


async def run_hook(hook: HookDefinition, document: bytes, around: HookSurroundings) -> HookRun:
    """Runs a hook with `document` as all of its standard input.

    It has a session of its own. When it ends, out of time, or this is cancelled, everything it has
    started ends with it: SIGTERM, a grace of 0.2 s, SIGKILL.
    """
    started = time.perf_counter()
    out, errors = _Capture(), _Capture()
    problem, exit_code = "", None
    pids: list[int] = []

    def running(pid: int) -> None:
        pids.append(pid)
        around.running.add(pid)

    try:
        ending = await run_process(
            _command(hook, document, around),
            out.feed,
            errors=errors.feed,
            limits=Limits(inactivity=0, total=hook.timeout_ms / 1000),
            groups=around.groups,
            started=running,
        )
        exit_code = ending.exit_code
        if ending.stopped is Stop.TOTAL:
            problem, exit_code = f"Hook timed out after {hook.timeout_ms}ms", None
        elif exit_code is None:
            problem = f"it was ended by {_signal_name(ending.signal)}"
    except ProcessStartError as error:
        problem = str(error)
    finally:
        around.running.difference_update(pids)
    return HookRun(
        exit_code=exit_code,
        stdout=bytes(out.kept),
        stderr=bytes(errors.kept),
        stdout_bytes=out.length,
        duration_ms=round((time.perf_counter() - started) * 1000, 3),
        problem=problem,
    )


def _command(hook: HookDefinition, document: bytes, around: HookSurroundings) -> Command:
    variables = around.variables
    clean = child_environment(around.environ, around.redaction).variables
    # A hook's own variables are as trusted as its command, which could set any of them itself.
    env = {**clean, **variables, **hook.env}
    bash = shell_path(env)
    if bash is None:
        raise ProcessStartError("bash, which runs hooks, is not on the PATH.")
    return Command(
        argv=(bash, "-c", substituted(hook.command, variables)),
        cwd=around.cwd,
        env=env,
        merge_stderr=False,
        stdin=document,
        leaves_nothing=True,
        label=hook.label or "hook",  # what makes a session of its own is ended, too
    )


def substituted(command: str, variables: Mapping[str, str]) -> str:
    """`command` with each unquoted `$NAME` and `${NAME}` of `variables` as one quoted word.

    Bash would split an unquoted value at its spaces. Between double quotes it puts the same value
    in by itself, and quotes there would be part of it.
    """
    out: list[str] = []
    position = 0
    quote = ""
    while position < len(command):
        char = command[position]
        if char == "\\" and quote != "'":
            out.append(command[position : position + 2])
            position += 2
            continue
        if char in "'\"" and quote in ("", char):
            quote = "" if quote else char
        name = _variable_at(command, position) if char == "$" and not quote else ""
        if name.strip("${}") in variables and name:
            out.append(shlex.quote(variables[name.strip("${}")]))
            position += len(name)
        else:
            out.append(char)
            position += 1
    return "".join(out)


def _variable_at(command: str, position: int) -> str:
    """The `$NAME` or `${NAME}` that starts here; "" when there is none."""
    braced = command.startswith("${", position)
    start = position + 2 if braced else position + 1
    end = start
    while end < len(command) and (command[end] == "_" or command[end].isalnum()):
        end += 1
    if braced:
        return command[position : end + 1] if command.startswith("}", end) else ""
    return command[position:end]


def _signal_name(number: int | None) -> str:
    if number is None:
        return "a signal"
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
