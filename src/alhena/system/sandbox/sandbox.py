"""The sandbox of a session: turns what is to be started into what starts it inside."""

import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, assert_never

import msgspec

from alhena.system.errors import SandboxError, printable
from alhena.system.sandbox.bwrap import PRIVATE, TEMP, bwrap_arguments, mounts
from alhena.system.sandbox.denial import denied_line
from alhena.system.sandbox.layout import protections, summary
from alhena.system.sandbox.model import (
    Entry,
    Layout,
    Mechanism,
    Profile,
    Protected,
    SpawnPlan,
)
from alhena.system.sandbox.placeholders import Placeholders
from alhena.system.workspace import is_within

if TYPE_CHECKING:
    from alhena.system.processes import Command

MARK = "SANDBOX"
_TEMP_NAMES = ("TMPDIR", "TMP", "TEMP")
_LAUNCHER = os.path.join(os.path.dirname(__file__), "landlock.py")


class Sandbox:
    """Wraps commands of any kind; `close` when all of them have ended.

    `program` is bubblewrap's path, or that of the Python that enters Landlock. `note` is what a
    person should know of this sandbox, "" when nothing.
    """

    def __init__(self, mechanism: Mechanism, program: str, layout: Layout, note: str = "") -> None:
        self.mechanism = mechanism
        self.layout = layout
        self.note = note
        self._program = program
        self._placeholders = Placeholders()

    @property
    def name(self) -> str:
        """The mechanism and the profile, for people: `bwrap, workspace-write, no network`."""
        network = "" if self.layout.network else ", no network"
        return f"{self.mechanism}, {self.layout.profile}{network}"

    @property
    def description(self) -> str:
        """What a model is to know before it runs something."""
        match self.mechanism:
            case Mechanism.BWRAP:
                own = (
                    "Every command has a process list of its own, so PIDs are good for nothing but "
                    "a call that is only `kill -- -PID`, and nothing outlives the session, not by "
                    "setsid either."
                )
            case Mechanism.LANDLOCK:
                own = (
                    "Nothing new can be made directly in a protected file's directory, which the "
                    "workspace's top and .git are, and /tmp is not $TMPDIR. Processes of other "
                    "calls are ended by a call that is only `kill -- -PID`."
                )
            case _:
                assert_never(self.mechanism)
        return (
            f"Commands run in a sandbox ({self.name}). {summary(self.layout)} Credentials and the "
            f"sockets of other programs are out of reach. {own}"
        )

    def wrap(self, argv: Sequence[str | bytes], cwd: str, env: dict[str, str]) -> SpawnPlan:
        """What to start so that `argv` runs inside, in the directory `cwd`, with `env`.

        Looks at the workspace as it is now and makes what stands for absent protected paths.
        Raises SandboxError where it cannot protect something; then nothing may be started.
        """
        self._prepare_temp()
        protected = protections(self.layout, entry_at)
        match self.mechanism:
            case Mechanism.BWRAP:
                self._placeholders.fill(protected)
                found = mounts(self.layout, protected, entry_at)
                before = bwrap_arguments(self._program, self.layout, found, cwd)
                temp = TEMP
            case Mechanism.LANDLOCK:
                before = self._landlock(protected)
                temp = os.path.join(self.layout.temp, PRIVATE[TEMP])
            case _:
                assert_never(self.mechanism)
        changed = {name: temp for name in _TEMP_NAMES if name == "TMPDIR" or name in env}
        return SpawnPlan((*before, *argv), {**env, **changed, MARK: f"alhena-{self.mechanism}"})

    def confine(self, command: "Command") -> "Command":
        """The command that runs `command` inside. Raises SandboxError as `wrap` does."""
        plan = self.wrap(command.argv, command.cwd, command.env)
        return msgspec.structs.replace(command, argv=plan.argv, env=plan.env)

    def refusal(self, output: str) -> str:
        """A sentence for the model when a failed command's output looks like a refusal of this
        sandbox, else ""."""
        line = denied_line(output, self.mechanism, network=self.layout.network)
        if line is None:
            return ""
        return (
            f"The sandbox ({self.name}) probably refused this: {printable(line)!r}. "
            f"{summary(self.layout)} Do not work around it: say what is needed; the user can "
            "change tools.sandbox."
        )

    def trusted(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """`environ` for programs that the agent runs outside, by name, for itself: its PATH names
        no directory that commands can put a program of that name into."""
        directories = environ.get("PATH", os.defpath).split(os.pathsep)
        kept = [
            path
            for path in directories
            if os.path.isabs(path)
            and not any(is_within(os.path.realpath(path), top) for top in self.layout.writable)
        ]
        return {**environ, "PATH": os.pathsep.join(kept)}

    def close(self) -> None:
        """Removes the temporary directory and what stood for absent paths. Can be called again."""
        self._placeholders.close()
        temp, self.layout = self.layout.temp, msgspec.structs.replace(self.layout, temp="")
        if temp:
            shutil.rmtree(temp, ignore_errors=True)

    def _prepare_temp(self) -> None:
        if self.layout.temp and os.path.isdir(self.layout.temp):
            return
        import tempfile

        try:
            temp = os.path.realpath(tempfile.mkdtemp(prefix="alhena-sandbox-"))
            for name in PRIVATE.values():
                os.mkdir(os.path.join(temp, name), mode=0o700)
        except OSError as error:
            raise SandboxError(
                f"no temporary directory for the sandbox: {error.strerror}."
            ) from error
        self.layout = msgspec.structs.replace(self.layout, temp=temp)

    def _landlock(self, protected: tuple[Protected, ...]) -> list[str]:
        layout = self.layout
        writable = [layout.temp]
        if layout.profile is Profile.WORKSPACE_WRITE:
            own = {item.path for item in protected}
            writable += [path for path in layout.writable if path not in own]
        hidden = [path for path in layout.hidden if entry_at(path) is not Entry.ABSENT]
        asked = [
            *(f"r:{path}" for path in (*layout.roots, *layout.allowed)),
            *(f"h:{path}" for path in hidden),
            *(f"w:{path}" for path in writable),
            *(f"p:{item.path}" for item in protected),
        ]
        if not layout.network:
            asked.append("no-network")
        return [self._program, "-I", "-S", "-B", _LAUNCHER, *asked, "--"]


def entry_at(path: str) -> Entry:
    """What stands at a path now; what cannot be looked at counts as absent."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return Entry.ABSENT
    if stat.S_ISLNK(mode):
        return Entry.LINK
    return Entry.DIRECTORY if stat.S_ISDIR(mode) else Entry.OTHER
