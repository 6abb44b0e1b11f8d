"""Values of a sandbox, and the request for one in settings and environment."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from alhena.config.settings import SandboxSettings, ToolSettings
from alhena.system.errors import SandboxError, printable


class Profile(StrEnum):
    """The writable area of commands: a private temporary directory, and with the second the
    workspace."""

    READ_ONLY = "read-only"
    WORKSPACE_WRITE = "workspace-write"


class Mechanism(StrEnum):
    """The mechanism that restricts a command."""

    BWRAP = "bwrap"
    LANDLOCK = "landlock"


class SandboxWish(msgspec.Struct, frozen=True, kw_only=True):
    """The requested sandbox and the source of the request (`origin`, for messages). `mechanism`
    None: any that works.

    `allowed_paths` are writable like the workspace; absolute, or beginning with `~`.
    """

    origin: str
    mechanism: Mechanism | None = None
    profile: Profile = Profile.WORKSPACE_WRITE
    network: bool = True
    allowed_paths: tuple[str, ...] = ()


class Entry(StrEnum):
    """The type of an existing path; symbolic links are not followed."""

    ABSENT = "absent"
    DIRECTORY = "directory"
    LINK = "link"
    OTHER = "other"


class Filler(StrEnum):
    """Placeholders that prevent the creation of an absent path."""

    DIRECTORY = "directory"
    EMPTY_FILE = "empty file"
    SAME_DIRECTORY = "same directory"
    """A file with a dot: to git, a `commondir` without effect."""


class Protected(msgspec.Struct, frozen=True):
    """A read-only path. Without `filler` it is ignored while it is absent."""

    path: str
    filler: Filler | None = None


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """The paths of a sandbox and their access. All are absolute and real.

    `roots` are the workspace's directories, `allowed` the user's additions; both are writable under
    `Profile.WORKSPACE_WRITE`. `homes` are the user's home directories, `config_home` the agent's
    configuration, `program` its code, which it still loads while commands run. `hidden` is never
    readable. `temp` is the sandbox's temporary directory, "" before it exists.
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
        """The writable directories, apart from the temporary one."""
        if self.profile is Profile.READ_ONLY:
            return ()
        return tuple(dict.fromkeys((*self.roots, *self.allowed)))


class SpawnPlan(msgspec.Struct, frozen=True):
    """The process to start instead of a command, with its environment."""

    argv: tuple[str | bytes, ...]
    env: dict[str, str]


_ELSEWHERE = frozenset({"docker", "podman", "runsc", "lxc", "windows-native", "sandbox-exec"})
_ON = frozenset({"true", "1"})
_OFF = frozenset({"false", "0"})
_WORDS = "true, false, bwrap, landlock, read-only, workspace-write, no-network"


def wished(
    settings: ToolSettings, flag: bool | None, environ: Mapping[str, str]
) -> SandboxWish | None:
    """The sandbox requested by `GEMINI_SANDBOX`, else the flag, else `tools.sandbox`; None for
    none.

    Details from the settings apply to all three unless overridden. Raises SandboxError for an
    unknown value, so that it never disables the sandbox.
    """
    given = environ.get("GEMINI_SANDBOX", "").strip()
    if given:
        return _read(given, "GEMINI_SANDBOX", _details(settings))
    if flag is not None:
        return msgspec.structs.replace(_details(settings), origin="--sandbox") if flag else None
    return _configured(settings)


def is_inside(environ: Mapping[str, str]) -> bool:
    """True when this process reports that it already runs in a sandbox."""
    return bool(environ.get("SANDBOX"))


def _configured(settings: ToolSettings) -> SandboxWish | None:
    value = settings.sandbox
    if isinstance(value, str):
        return _read(value, "tools.sandbox", _plain(settings))
    if isinstance(value, SandboxSettings):
        return _details(settings) if value.enabled else None
    return _plain(settings) if value else None


def _details(settings: ToolSettings) -> SandboxWish:
    """The request in the settings, as if the sandbox were on."""
    value = settings.sandbox
    if isinstance(value, str):
        return _read(value, "tools.sandbox", _plain(settings)) or _plain(settings)
    wish = _plain(settings)
    if not isinstance(value, SandboxSettings):
        return wish
    if value.command:
        wish = _read(value.command, "tools.sandbox.command", wish) or wish
    if value.profile:
        wish = _read(value.profile, "tools.sandbox.profile", wish) or wish
    network = value.network if value.network is not None else value.network_access
    return msgspec.structs.replace(
        wish,
        origin="tools.sandbox",
        network=wish.network if network is None else network and wish.network,
        allowed_paths=(*wish.allowed_paths, *value.allowed_paths),
    )


def _plain(settings: ToolSettings) -> SandboxWish:
    return SandboxWish(
        origin="tools.sandbox",
        network=settings.sandbox_network_access is not False,
        allowed_paths=settings.sandbox_allowed_paths,
    )


def _read(text: str, origin: str, base: SandboxWish) -> SandboxWish | None:
    """`base` changed by the words of `text`, joined by "+" or ","; None for a negative word."""
    words = [word.strip().lower() for word in text.replace(",", "+").split("+")]
    if words[0] in _OFF and len(words) == 1:
        return None
    wish = msgspec.structs.replace(base, origin=origin)
    for word in words:
        if word in _ON:
            continue
        if word in set(Mechanism):
            wish = msgspec.structs.replace(wish, mechanism=Mechanism(word))
        elif word in set(Profile):
            wish = msgspec.structs.replace(wish, profile=Profile(word))
        elif word == "no-network":
            wish = msgspec.structs.replace(wish, network=False)
        elif word in _ELSEWHERE:
            raise SandboxError(
                f"{origin}: a sandbox by {word} is not supported here.",
                remedy="Use bwrap, landlock, or true for the one that works; or start alhena "
                "inside a container of your own, with SANDBOX set there. false is none.",
            )
        else:
            raise SandboxError(
                f"{origin}: {printable(text)!r} names no sandbox.",
                remedy=f"Use of these, joined by +: {_WORDS}.",
            )
    return wish
