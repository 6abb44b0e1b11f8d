"""What a sandbox is asked to be, as values."""

from enum import StrEnum

import msgspec


class Profile(StrEnum):
    """What commands may write: a temporary directory of their own, and with the second the
    workspace too."""

    READ_ONLY = "read-only"
    WORKSPACE_WRITE = "workspace-write"


class Mechanism(StrEnum):
    """What keeps a command in."""

    BWRAP = "bwrap"
    LANDLOCK = "landlock"


class SandboxWish(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for, and by what (`origin`, for messages). `mechanism` None: one that works.

    `allowed_paths` are writable as the workspace is; absolute, or beginning with `~`.
    """

    origin: str
    mechanism: Mechanism | None = None
    profile: Profile = Profile.WORKSPACE_WRITE
    network: bool = True
    allowed_paths: tuple[str, ...] = ()


class Entry(StrEnum):
    """What stands at a path; a symbolic link counts as itself."""

    ABSENT = "absent"
    DIRECTORY = "directory"
    LINK = "link"
    OTHER = "other"


class Filler(StrEnum):
    """What can stand for something absent, so that it cannot be made."""

    DIRECTORY = "directory"
    EMPTY_FILE = "empty file"
    SAME_DIRECTORY = "same directory"
    """A file with a dot: to git, a `commondir` that changes nothing."""


class Protected(msgspec.Struct, frozen=True):
    """A path that stays as it is. Without `filler` it is left alone while it is absent."""

    path: str
    filler: Filler | None = None


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """What commands may do where. All paths are absolute and real.

    `roots` are the workspace's directories, `allowed` what the user added; both are writable under
    `Profile.WORKSPACE_WRITE`. `homes` are where the user's files are, `config_home` the agent's
    own, `program` where its code is: it goes on loading that while commands run. `hidden` is never
    readable. `temp` is the sandbox's own temporary directory, "" before there is one.
    """

    profile: Profile
    network: bool
    roots: tuple[str, ...]
    homes: tuple[str, ...]
    config_home: str
    allowed: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    program: tuple[str, ...] = ()
    temp: str = ""

    @property
    def writable(self) -> tuple[str, ...]:
        """The directories commands may write in, apart from the temporary one."""
        if self.profile is Profile.READ_ONLY:
            return ()
        return tuple(dict.fromkeys((*self.roots, *self.allowed)))


class SpawnPlan(msgspec.Struct, frozen=True):
    """What to start instead of a command, and with which environment."""

    argv: tuple[str | bytes, ...]
    env: dict[str, str]
