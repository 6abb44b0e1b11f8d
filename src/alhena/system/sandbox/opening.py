"""Finds a working sandbox, or reports the reason why there is none."""

import os
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import assert_never

import msgspec

from alhena.config.home import config_home
from alhena.system.errors import ProcessStartError, SandboxError, printable
from alhena.system.sandbox.layout import (
    Layout,
    Mechanism,
    SandboxRequest,
    protections,
    require_sound,
    secrets,
)
from alhena.system.sandbox.sandbox import Sandbox, entry_at
from alhena.system.workspace import is_within

BWRAP_PLACES = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
PROBE = ("/bin/sh", "-c", ":")
PROBE_SECONDS = 10

_LANDLOCK_NOTE = (
    "commands run in a Landlock sandbox{}: they can make nothing directly in the workspace's top "
    "directory and in .git."
)
_IMPORT_NOTE = (
    "alhena itself looks for Python modules in {}, where commands may write: start it by the "
    "command alhena, or with PYTHONSAFEPATH=1."
)
_INSTALL = (
    "Install bubblewrap (apt install bubblewrap, dnf install bubblewrap, apk add bubblewrap); "
    "where user namespaces are forbidden, as in most containers, Landlock of Linux 6.2 or later "
    "serves instead. To run commands without a sandbox, say so: tools.sandbox false, no --sandbox, "
    "GEMINI_SANDBOX=false."
)


def program_directories() -> tuple[str, ...]:
    """The directories of this process's code."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    found = [os.path.abspath(path) for path in (sys.prefix, sys.base_prefix, package)]
    return tuple(dict.fromkeys([*found, *map(os.path.realpath, found)]))


class CommandEnvironment(msgspec.Struct, frozen=True):
    """The environment of commands: the workspace's directories, the agent's environment, its code
    (`program`) and import paths (`imports`)."""

    roots: tuple[str, ...]
    environ: Mapping[str, str]
    platform: str = sys.platform
    bwrap_places: tuple[str, ...] = BWRAP_PLACES
    program: tuple[str, ...] = msgspec.field(default_factory=program_directories)
    imports: tuple[str, ...] = msgspec.field(default_factory=lambda: tuple(sys.path))


def open_sandbox(wish: SandboxRequest, around: CommandEnvironment) -> Sandbox:
    """Opens and tests the requested sandbox. Raises SandboxError when it is unavailable."""
    if not around.platform.startswith("linux"):
        raise SandboxError(
            f"{wish.origin} asks for a sandbox, and there is none for {around.platform} yet.",
            remedy="Run alhena in a container or virtual machine of your own, with SANDBOX set "
            "there; or run without: tools.sandbox false, no --sandbox, GEMINI_SANDBOX=false.",
        )
    layout = layout_of(wish, around)
    require_sound(layout)
    reasons: list[str] = []
    for mechanism in [wish.mechanism] if wish.mechanism else list(Mechanism):
        try:
            sandbox = _test_sandbox(mechanism, layout, around, "; ".join(reasons))
        except ProcessStartError as error:
            reasons.append(f"{mechanism}: {error.message.rstrip('.')}")
        else:
            return sandbox
    raise SandboxError(
        f"{wish.origin} asks for a sandbox and none works here: {'; '.join(reasons)}.",
        remedy=_INSTALL,
    )


def layout_of(wish: SandboxRequest, around: CommandEnvironment) -> Layout:
    """The layout for a request in this environment."""
    environ = around.environ
    own = os.path.realpath(config_home(environ))
    homes = tuple(dict.fromkeys(os.path.realpath(home) for home in _homes(environ)))
    allowed = tuple(_resolve_allowed_path(path, homes) for path in wish.allowed_paths)
    hidden = [*secrets(homes, own), *_sockets(environ)]
    return Layout(
        profile=wish.profile,
        network=wish.network,
        roots=around.roots,
        homes=homes,
        config_home=own,
        allowed=allowed,
        program=around.program,
        hidden=tuple(
            path
            for path in dict.fromkeys(os.path.realpath(each) for each in hidden)
            if path not in {*allowed, *around.roots}
        ),
    )


def _test_sandbox(
    mechanism: Mechanism, layout: Layout, around: CommandEnvironment, before: str
) -> Sandbox:
    """A sandbox in which a test command succeeded. `before` is the reason why another one
    failed."""
    notes: list[str] = []
    match mechanism:
        case Mechanism.BWRAP:
            program = _bwrap(around)
        case Mechanism.LANDLOCK:
            program = _python()
            if layout.writable:
                notes.append(_LANDLOCK_NOTE.format(f" ({before})" if before else ""))
        case _:
            assert_never(mechanism)
    notes += _import_notes(layout, around)
    sandbox = Sandbox(mechanism, program, layout, " ".join(notes))
    try:
        _try_out(sandbox, around)
    finally:
        sandbox.close()  # leave nothing behind until the first command
    return sandbox


def _try_out(sandbox: Sandbox, around: CommandEnvironment) -> None:
    import subprocess

    from alhena.system.environment import shield_memory

    cwd = around.roots[0]
    shield_memory()
    plan = sandbox.wrap(PROBE, cwd, {"PATH": os.defpath})
    try:
        ran = subprocess.run(
            plan.argv,
            cwd=cwd,
            env=plan.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=PROBE_SECONDS,
            start_new_session=True,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxError(f"it does not start: {error}.") from error
    if ran.returncode:
        said = ran.stderr.decode("utf-8", "replace").strip() or f"exit code {ran.returncode}"
        raise SandboxError(f"it does not work: {printable(said[:300])}.")


def _bwrap(around: CommandEnvironment) -> str:
    """Never uses a program in the workspace: commands could replace it."""
    path = [
        item for item in around.environ.get("PATH", "").split(os.pathsep) if os.path.isabs(item)
    ]
    for directory in (*around.bwrap_places, *path):
        found = os.path.realpath(os.path.join(directory, "bwrap"))
        if any(is_within(found, root) for root in around.roots):
            continue
        if os.path.isfile(found) and os.access(found, os.X_OK):
            return found
    raise SandboxError("bubblewrap (bwrap) is not installed.")


def _import_notes(layout: Layout, around: CommandEnvironment) -> list[str]:
    """Warnings about import paths of this process that commands can write."""
    protected = [item.path for item in protections(layout, entry_at)]
    found = [
        real
        for real in dict.fromkeys(os.path.realpath(path) for path in around.imports)
        if any(is_within(real, top) for top in layout.writable)
        and not any(is_within(real, path) for path in protected)
    ]
    return [_IMPORT_NOTE.format(", ".join(map(printable, found)))] if found else []


def _python() -> str:
    from alhena.system.sandbox.landlock import MIN_ABI, abi, is_known_machine

    version = abi()
    if version < MIN_ABI:
        have = f"has version {version}" if version else "is absent or switched off"
        raise SandboxError(
            f"the kernel's Landlock {have}, version {MIN_ABI} (Linux 6.2) is needed."
        )
    if not is_known_machine():
        raise SandboxError("this processor's system calls are not known.")
    if getattr(sys, "frozen", False) or not os.path.isabs(sys.executable or ""):
        raise SandboxError("there is no Python interpreter to enter it with.")
    # Not the link to it in a virtual environment of the workspace.
    return os.path.realpath(sys.executable)


def _homes(environ: Mapping[str, str]) -> list[str]:
    """HOME, and the account's home directory: a session may have another HOME."""
    import pwd

    found = [environ.get("HOME", "")]
    with suppress(KeyError):  # a user without an account, as in some containers
        found.append(pwd.getpwuid(os.geteuid()).pw_dir)
    return [home for home in found if os.path.isabs(home) and os.path.realpath(home) != os.sep]


def _resolve_allowed_path(path: str, homes: tuple[str, ...]) -> str:
    if path == "~" or path.startswith("~/"):
        path = (homes[0] if homes else "") + path[1:]
    if not os.path.isabs(path):
        raise SandboxError(
            f"the path {printable(path)!r} that the sandbox should allow is not absolute.",
            remedy="Write it from / or from ~/ (tools.sandboxAllowedPaths, allowedPaths).",
        )
    return os.path.realpath(path)


def _sockets(environ: Mapping[str, str]) -> list[str]:
    """The sockets named in variables: of agents, engines, terminals."""
    found: list[str] = []
    for value in environ.values():
        for part in value.split(","):
            path = part[part.find("/") :] if part.startswith(("unix:", "/")) else ""
            path = "/" + path.lstrip("/") if path else ""
            try:
                if path and "\0" not in path and stat.S_ISSOCK(os.stat(path).st_mode):
                    found.append(path)
            except OSError:  # not a path, or gone
                continue
    return found
