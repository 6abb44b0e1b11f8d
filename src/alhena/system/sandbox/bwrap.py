"""Builds bubblewrap's arguments for a layout. Pure: `look` inspects paths.

Everything is read-only except bound mounts. A mount point can be neither removed nor renamed, so a
protected path cannot be replaced; the directories between it and the top of the writable area are
made mount points too, because renaming one would remove the protection.
"""

import os
from enum import IntEnum

import msgspec

from alhena.system.sandbox.layout import Look
from alhena.system.sandbox.model import Entry, Layout, Protected
from alhena.system.workspace import is_within

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
        if look(path) is Entry.DIRECTORY:
            found.append(Mount(path, Rank.PRIVATE, os.path.join(layout.temp, name)))
    found += (Mount(path, Rank.EMPTY) for path in _RUNTIME if look(path) is Entry.DIRECTORY)
    shown = {*_RUNTIME_KEPT, *layout.roots, *layout.homes, layout.config_home, *layout.allowed}
    found += (Mount(path, Rank.SHOWN, path) for path in shown - {"/"} if look(path) in _STANDING)
    found += (Mount(path, Rank.WRITABLE, path) for path in tops if look(path) in _STANDING)
    found += (
        Mount(item.path, Rank.PROTECTED, item.path)
        for item in protected
        if look(item.path) in _STANDING
    )
    for path in layout.hidden:
        if look(path) is Entry.DIRECTORY:
            found.append(Mount(path, Rank.HIDDEN))
        elif look(path) is Entry.OTHER:
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


_STANDING = frozenset({Entry.DIRECTORY, Entry.OTHER})


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
