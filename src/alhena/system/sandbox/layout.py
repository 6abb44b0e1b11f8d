"""The request for a sandbox, its protected and hidden paths, and placeholders for absent ones.

A mount needs a target, so an empty directory (or file) is created in the workspace and removed with
the sandbox. Each one has a shared lock for as long as a session needs it: the last session removes
it; files created by a user stay.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from enum import StrEnum

import msgspec

from alhena.config.settings import SandboxSettings, ToolSettings
from alhena.system.errors import SandboxError, printable
from alhena.system.workspace import is_within


class Profile(StrEnum):
    """The writable area of commands: a private temporary directory, and with the second the
    workspace."""

    READ_ONLY = "read-only"
    WORKSPACE_WRITE = "workspace-write"


class Mechanism(StrEnum):
    """The mechanism that restricts a command."""

    BWRAP = "bwrap"
    LANDLOCK = "landlock"


class SandboxRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The requested sandbox and the source of the request (`origin`, for messages). `mechanism`
    None: any that works.

    `allowed_paths` are writable like the workspace; absolute, or beginning with `~`.
    """

    origin: str
    mechanism: Mechanism | None = None
    profile: Profile = Profile.WORKSPACE_WRITE
    network: bool = True
    allowed_paths: tuple[str, ...] = ()


class PathType(StrEnum):
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


def choose_sandbox(
    settings: ToolSettings, flag: bool | None, environ: Mapping[str, str]
) -> SandboxRequest | None:
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
    return _configured_sandbox(settings)


def is_inside(environ: Mapping[str, str]) -> bool:
    """True when this process reports that it already runs in a sandbox."""
    return bool(environ.get("SANDBOX"))


def _configured_sandbox(settings: ToolSettings) -> SandboxRequest | None:
    value = settings.sandbox
    if isinstance(value, str):
        return _read(value, "tools.sandbox", _plain(settings))
    if isinstance(value, SandboxSettings):
        return _details(settings) if value.enabled else None
    return _plain(settings) if value else None


def _details(settings: ToolSettings) -> SandboxRequest:
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


def _plain(settings: ToolSettings) -> SandboxRequest:
    return SandboxRequest(
        origin="tools.sandbox",
        network=settings.sandbox_network_access is not False,
        allowed_paths=settings.sandbox_allowed_paths,
    )


def _read(text: str, origin: str, base: SandboxRequest) -> SandboxRequest | None:
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


Look = Callable[[str], PathType]

SECRETS = (
    *(".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", ".oci", ".password-store"),
    *(".netrc", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".git-credentials", ".vault-token"),
    *(".s3cfg", ".boto", ".gem/credentials", ".cargo/credentials", ".cargo/credentials.toml"),
    *(".m2/settings-security.xml", ".terraform.d", ".bash_history", ".zsh_history"),
    *(".python_history", ".psql_history", ".mysql_history", ".Xauthority", ".1password"),
    *(".mozilla", ".thunderbird", ".colima", ".lima", ".orbstack", ".rd", ".minikube"),
    *(".config/gcloud", ".config/gh", ".config/hub", ".config/doctl", ".config/op"),
    *(".config/rclone", ".config/git/credentials", ".config/containers", ".config/google-chrome"),
    *(".config/chromium", ".config/BraveSoftware", ".local/share/keyrings"),
)
"""Below a home: credentials, histories, and the sockets of container engines."""

OWN_SECRETS = (
    *(".env", "oauth_creds.json", "google_accounts.json", "mcp-oauth-tokens.json"),
    *("mcp-oauth-tokens-v2.json", "a2a-oauth-tokens.json", "gemini-credentials.json"),
    "api_key.json",
)
"""Below `~/.gemini`: the agent's credentials."""

SOCKETS = (
    *("/var/snap/lxd/common/lxd/unix.socket", "/var/lib/lxd/unix.socket"),
    *("/var/lib/incus/unix.socket", "/var/snap/docker/run/docker.sock"),
)
"""Sockets outside /run of services that act for any client."""

_MADE_UP = (".git", ".gemini", ".vscode", ".idea", ".claude", ".codex", ".cursor")
_STANDING = (
    *(".devcontainer", ".zed", ".fleet", ".agents", ".mcp.json", ".envrc", ".husky"),
    ".pre-commit-config.yaml",
)
_GIT_PARTS = (
    ("hooks", Filler.DIRECTORY),
    ("config", Filler.EMPTY_FILE),
    ("commondir", Filler.SAME_DIRECTORY),
    ("config.worktree", Filler.EMPTY_FILE),
    ("modules", Filler.DIRECTORY),
    ("worktrees", Filler.DIRECTORY),
)
"""Parts of a git directory that make git run programs, or redirect it."""


def secrets(homes: tuple[str, ...], config_home: str) -> tuple[str, ...]:
    """All paths that may contain credentials; many will be absent."""
    below = (os.path.join(home, name) for home in homes for name in SECRETS)
    own = (os.path.join(config_home, name) for name in OWN_SECRETS)
    return (*below, *own, *SOCKETS)


def require_sound(layout: Layout) -> None:
    """Raises SandboxError when a writable directory contains a path that must not be written."""
    for top in layout.writable:
        if top == os.sep:
            raise SandboxError(
                "the sandbox cannot let commands write to everything: the workspace is /.",
                remedy="Start in a project's directory, or use the profile read-only.",
            )
        inside = next((home for home in layout.homes if is_within(home, top)), None)
        if inside is not None:
            raise SandboxError(
                f"the sandbox cannot keep the home directory {printable(inside)} unchanged: it "
                f"lies in {printable(top)}, which commands may write in.",
                remedy="Start in a project's directory, or use the profile read-only.",
            )


def protections(layout: Layout, look: Look) -> tuple[Protected, ...]:
    """The read-only paths inside the writable directories, in the order of `layout.writable`.

    Raises SandboxError for a symbolic link: it leads elsewhere, and can be replaced.
    """
    found: list[Protected] = []
    for top in layout.writable:
        if is_within(top, layout.config_home):
            found.append(Protected(top))
            continue
        if top.endswith(".git") or _is_git_directory(top, look):
            found += _repository(top)
            continue
        for name in _MADE_UP:
            path = os.path.join(top, name)
            # Without a HEAD it is not a repository, and no existing file needs to be writable.
            if name == ".git" and look(os.path.join(path, "HEAD")) is not PathType.ABSENT:
                found += _repository(path)
            else:
                found.append(Protected(path, Filler.DIRECTORY))
        found += (Protected(os.path.join(top, name)) for name in _STANDING)
        if is_within(layout.config_home, top):
            found.append(Protected(layout.config_home, Filler.DIRECTORY))
        found += (Protected(path) for path in layout.program if is_within(path, top))
    link = next((item.path for item in found if look(item.path) is PathType.LINK), None)
    if link is not None:
        raise SandboxError(
            f"{printable(link)} is a symbolic link, which the sandbox cannot protect.",
            remedy="Put the file or directory itself there.",
        )
    return tuple({item.path: item for item in found}.values())


def _is_git_directory(directory: str, look: Look) -> bool:
    """True for a bare repository, or the git directory of a linked worktree."""
    inside = (look(os.path.join(directory, name)) for name in ("HEAD", "objects", "commondir"))
    head, objects, common = (entry is not PathType.ABSENT for entry in inside)
    return head and (objects or common)


def _repository(directory: str) -> list[Protected]:
    return [Protected(os.path.join(directory, name), filler) for name, filler in _GIT_PARTS]


def summary(layout: Layout) -> str:
    """Describes the permissions of commands in a sentence for people and the model."""
    network = "" if layout.network else " There is no network."
    if layout.profile is Profile.READ_ONLY:
        return f"Nothing can be written but $TMPDIR.{network}"
    places = ", ".join(printable(path) for path in layout.writable)
    return (
        f"Only {places} and $TMPDIR can be written, and there not .git/config, .git/hooks, "
        f".gemini and the like.{network}"
    )


_CONTENT = {Filler.EMPTY_FILE: b"", Filler.SAME_DIRECTORY: b".\n"}


class Placeholders:
    """The placeholders of one session."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[int, Filler]] = {}

    def fill(self, protected: Iterable[Protected]) -> None:
        """Creates absent paths. Raises SandboxError when that fails although a command might
        succeed.

        Missing permissions are no problem: they apply to commands too.
        """
        for item in protected:
            if item.filler is None or self._stands(item.path):
                continue
            try:
                made = _create_placeholder(item.path, item.filler)
            except (PermissionError, FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                if error.errno == errno.EROFS:
                    continue
                raise SandboxError(
                    f"the sandbox cannot protect {printable(item.path)}: {error.strerror}."
                ) from error
            if made or _is_empty(item.path, item.filler):
                self._hold(item.path, item.filler, made=made)

    def close(self) -> None:
        """Removes the placeholders that no other session needs."""
        for path, (descriptor, filler) in self._held.items():
            if _lock(descriptor, exclusive=True) and _is_same(path, descriptor):
                _remove(path, filler)
            os.close(descriptor)
        self._held.clear()

    def _stands(self, path: str) -> bool:
        held = self._held.get(path)
        if held is None:
            return False
        if _is_same(path, held[0]):
            return True
        os.close(held[0])
        del self._held[path]
        return False

    def _hold(self, path: str, filler: Filler, *, made: bool) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:  # unreadable or already gone
            return
        # An empty, unlocked directory or file belongs to the user; only this program creates
        # files with a dot, which a killed session leaves behind.
        ours = made or filler is Filler.SAME_DIRECTORY
        if not ours and _lock(descriptor, exclusive=True):
            os.close(descriptor)
            return
        _lock(descriptor, exclusive=False)
        self._held[path] = (descriptor, filler)


def _create_placeholder(path: str, filler: Filler) -> bool:
    """Creates a placeholder; False when the path exists."""
    try:
        if filler is Filler.DIRECTORY:
            os.mkdir(path)
            return True
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        return False
    try:
        os.write(descriptor, _CONTENT[filler])
    finally:
        os.close(descriptor)
    return True


def _is_empty(path: str, filler: Filler) -> bool:
    """True when the existing entry equals the placeholder."""
    try:
        status = os.lstat(path)
        if filler is Filler.DIRECTORY:
            return stat.S_ISDIR(status.st_mode) and not os.listdir(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size != len(_CONTENT[filler]):
            return False
        with open(path, "rb") as file:
            return file.read() == _CONTENT[filler]
    except OSError:
        return False


def _remove(path: str, filler: Filler) -> None:
    with suppress(OSError):  # it has content now
        if filler is Filler.DIRECTORY:
            os.rmdir(path)
        elif _is_empty(path, filler):
            os.unlink(path)


def _is_same(path: str, descriptor: int) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return os.path.samestat(found, os.fstat(descriptor))


def _lock(descriptor: int, *, exclusive: bool) -> bool:
    """True when the lock is available, always so on a file system without locks."""
    import fcntl

    kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
