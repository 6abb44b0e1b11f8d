"""The sandbox of a session: wraps commands, with bubblewrap or Landlock, and detects failures it
has caused.

With bubblewrap everything is read-only except bound mounts. A mount point can be neither removed
nor renamed, so a protected path cannot be replaced; the directories between it and the top of the
writable area are made mount points too, because renaming one would remove the protection.
"""

import os
import re
import shutil
import stat
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, assert_never

import msgspec

from alhena.system.errors import SandboxError, printable
from alhena.system.sandbox.layout import (
    Layout,
    Mechanism,
    PathType,
    Placeholders,
    Profile,
    Protected,
    SpawnPlan,
    protections,
    summary,
)
from alhena.system.workspace import is_within

if TYPE_CHECKING:
    from alhena.system.processes import ProcessCommand
from enum import IntEnum

from alhena.system.sandbox.layout import Look

TEMP = os.path.join(os.sep, "tmp")
PRIVATE = {TEMP: "tmp", os.path.join(os.sep, "var", "tmp"): "var-tmp"}
"""Private directories seen by commands at these paths: names in `Layout.temp`."""

_RUNTIME = ("/run", "/var/run")
_RUNTIME_KEPT = (
    *("/run/current-system", "/run/booted-system", "/run/wrappers", "/run/opengl-driver"),
    *("/run/resolvconf", "/run/systemd/resolve/resolv.conf"),
    *("/run/systemd/resolve/stub-resolv.conf", "/run/NetworkManager/resolv.conf"),
)
"""The visible parts of /run: the rest contains sockets of engines, agents and buses."""


class Rank(IntEnum):
    """Precedence of mounts at the same path: the highest wins."""

    PIN = 0
    SHOWN = 1
    WRITABLE = 2
    PRIVATE = 3
    EMPTY = 4
    PROTECTED = 5
    HIDDEN = 6


class Mount(msgspec.Struct, frozen=True):
    """A mount at `path`: of `source`, or of an empty directory without one."""

    path: str
    rank: Rank
    source: str | None = None

    @property
    def writable(self) -> bool:
        """True when commands may write there."""
        return self.rank in {Rank.PIN, Rank.WRITABLE, Rank.PRIVATE, Rank.EMPTY}


def mounts(layout: Layout, protected: tuple[Protected, ...], look: Look) -> tuple[Mount, ...]:
    """The mounts over the read-only root, outer paths before inner ones."""
    found: list[Mount] = []
    tops = layout.writable
    for path, name in PRIVATE.items():
        if look(path) is PathType.DIRECTORY:
            found.append(Mount(path, Rank.PRIVATE, os.path.join(layout.temp, name)))
    found += (Mount(path, Rank.EMPTY) for path in _RUNTIME if look(path) is PathType.DIRECTORY)
    shown = {*_RUNTIME_KEPT, *layout.roots, *layout.homes, layout.config_home, *layout.allowed}
    found += (Mount(path, Rank.SHOWN, path) for path in shown - {"/"} if look(path) in _STANDING)
    found += (Mount(path, Rank.WRITABLE, path) for path in tops if look(path) in _STANDING)
    found += (
        Mount(item.path, Rank.PROTECTED, item.path)
        for item in protected
        if look(item.path) in _STANDING
    )
    for path in layout.hidden:
        if look(path) is PathType.DIRECTORY:
            found.append(Mount(path, Rank.HIDDEN))
        elif look(path) is PathType.OTHER:
            found.append(Mount(path, Rank.HIDDEN, os.devnull))
    closed = [mount.path for mount in found if mount.rank >= Rank.PROTECTED]
    found += [
        pin
        for mount in found
        for pin in _pins(mount, tops)
        if not any(is_within(pin.path, path) for path in closed)
    ]
    best: dict[str, Mount] = {}
    for mount in found:
        if mount.path not in best or best[mount.path].rank < mount.rank:
            best[mount.path] = mount
    return tuple(sorted(best.values(), key=lambda mount: (mount.path.count("/"), mount.path)))


def bwrap_arguments(bwrap: str, layout: Layout, found: tuple[Mount, ...], cwd: str) -> list[str]:
    """The arguments before the command. No new session: it identifies the members of a command."""
    words = [bwrap, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--cap-drop", "ALL"]
    if not layout.network:
        words.append("--unshare-net")
    words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for mount in found:
        if mount.source is None:
            words += ["--tmpfs", mount.path]
        else:
            words += ["--bind" if mount.writable else "--ro-bind", mount.source, mount.path]
    for mount in found:
        if mount.rank is Rank.HIDDEN and mount.source is None:
            words += ["--remount-ro", mount.path]
    return [*words, "--chdir", cwd, "--"]


_STANDING = frozenset({PathType.DIRECTORY, PathType.OTHER})


def _pins(mount: Mount, tops: tuple[str, ...]) -> list[Mount]:
    """Pins for the directories between a mount and the outermost writable directory around it."""
    top = min((top for top in tops if is_within(mount.path, top)), key=len, default=None)
    if top is None or mount.path == top:
        return []
    found: list[Mount] = []
    path = os.path.dirname(mount.path)
    while path != top:
        found.append(Mount(path, Rank.PIN, path))
        path = os.path.dirname(path)
    return found


_LOOKED_AT = 16_000
"""Characters at the end of the output that are searched: the last failure comes last."""

_SHOWN = 160
_WRITING = r"Read-only file system|\bEROFS\b|Device or resource busy|\bEBUSY\b"
_LANDLOCK = r"Permission denied|\bEACCES\b|Invalid cross-device link|\bEXDEV\b"
_NETWORK = (
    r"Network is unreachable|\bENETUNREACH\b|Could not resolve host|\bEAI_AGAIN\b"
    r"|Temporary failure in name resolution|Name or service not known|Couldn't connect to server"
)
_SERVICES = r"Cannot connect to the Docker daemon|unable to open a D-Bus|Failed to connect to bus"
_FAILED = r"(?m:^bwrap: )|(?m:^alhena: the sandbox could not be entered)"


def denied_line(output: str, mechanism: Mechanism, *, network: bool) -> str | None:
    """The last line of the output with an error typical of this sandbox; None without one."""
    found: str | None = None
    for match in _pattern(mechanism, network=network).finditer(
        output, max(0, len(output) - _LOOKED_AT)
    ):
        start = output.rfind("\n", 0, match.start()) + 1
        end = output.find("\n", match.end())
        found = output[start : end if end >= 0 else len(output)].strip()
    if found is None:
        return None
    return found if len(found) <= _SHOWN else f"{found[: _SHOWN - 1]}…"


@cache
def _pattern(mechanism: Mechanism, *, network: bool) -> re.Pattern[str]:
    parts = [_WRITING, _SERVICES, _FAILED]
    if mechanism is Mechanism.LANDLOCK:
        parts.append(_LANDLOCK)
    if not network:
        parts.append(_NETWORK)
    return re.compile("|".join(parts))


MARK = "SANDBOX"
_TEMP_NAMES = ("TMPDIR", "TMP", "TEMP")
_LAUNCHER = os.path.join(os.path.dirname(__file__), "landlock.py")


class Sandbox:
    """Wraps commands of any kind; call `close` when all of them have ended.

    `program` is the path of bubblewrap, or of the Python that applies Landlock. `note` is a notice
    for the person about this sandbox, "" for none.
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
        """Describes the sandbox to the model."""
        match self.mechanism:
            case Mechanism.BWRAP:
                own = (
                    "Every command has a process list of its own: end the processes of other "
                    "calls with read_background_output. Nothing outlives the session, not by "
                    "setsid either."
                )
            case Mechanism.LANDLOCK:
                own = (
                    "Nothing new can be made directly in a protected file's directory, which the "
                    "workspace's top and .git are, and /tmp is not $TMPDIR. End the processes of "
                    "other calls with read_background_output."
                )
            case _:
                assert_never(self.mechanism)
        return (
            f"Commands run in a sandbox ({self.name}). {summary(self.layout)} Credentials and the "
            f"sockets of other programs are out of reach. {own}"
        )

    def wrap(self, argv: Sequence[str | bytes], cwd: str, env: dict[str, str]) -> SpawnPlan:
        """The process to start so that `argv` runs inside, in the directory `cwd`, with `env`.

        Inspects the current workspace and creates placeholders for absent protected paths. Raises
        SandboxError when a path cannot be protected; then nothing may be started.
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

    def confine(self, command: "ProcessCommand") -> "ProcessCommand":
        """Wraps `command` to run inside. Raises SandboxError like `wrap`."""
        plan = self.wrap(command.argv, command.cwd, command.env)
        return msgspec.structs.replace(command, argv=plan.argv, env=plan.env)

    def refusal(self, output: str) -> str:
        """A sentence for the model when the output of a failed command looks like a denial by this
        sandbox, else ""."""
        line = denied_line(output, self.mechanism, network=self.layout.network)
        if line is None:
            return ""
        return (
            f"The sandbox ({self.name}) probably refused this: {printable(line)!r}. "
            f"{summary(self.layout)} Do not work around it: say what is needed; the user can "
            "change tools.sandbox."
        )

    def trusted_environment(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """`environ` for programs the agent runs outside, by name, for itself: its PATH has no
        directory in which commands can place programs."""
        directories = environ.get("PATH", os.defpath).split(os.pathsep)
        kept = [
            path
            for path in directories
            if os.path.isabs(path)
            and not any(is_within(os.path.realpath(path), top) for top in self.layout.writable)
        ]
        return {**environ, "PATH": os.pathsep.join(kept)}

    def close(self) -> None:
        """Removes the temporary directory and the placeholders. Can be called again."""
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
        hidden = [path for path in layout.hidden if entry_at(path) is not PathType.ABSENT]
        asked = [
            *(f"r:{path}" for path in (*layout.roots, *layout.allowed)),
            *(f"h:{path}" for path in hidden),
            *(f"w:{path}" for path in writable),
            *(f"p:{item.path}" for item in protected),
        ]
        if not layout.network:
            asked.append("no-network")
        return [self._program, "-I", "-S", "-B", _LAUNCHER, *asked, "--"]


def entry_at(path: str) -> PathType:
    """The type of a path; an inaccessible one counts as absent."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return PathType.ABSENT
    if stat.S_ISLNK(mode):
        return PathType.LINK
    return PathType.DIRECTORY if stat.S_ISDIR(mode) else PathType.OTHER
