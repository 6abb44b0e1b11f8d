"""Restricts itself by Landlock and seccomp, then executes a command: `landlock.py ASKED … -- ARGV`.

Runs as a separate program in the agent's Python: such code is not safe between fork and exec of a
threaded process. Imports only the standard library for that reason, and exits with 125 and a line
on stderr when it cannot apply all restrictions.

Landlock can only grant access below a path. Part of a tree is excluded by granting access to its
siblings one by one, so nothing new can be created in the directories on the way. `ASKED` are
`no-network`, and a letter, a colon and a path: r readable, h hidden, w writable, p protected.
"""

import ctypes
import os
import stat
import struct
import sys
from collections.abc import Iterator

FAILED = 125
MIN_ABI = 3
"""The first version that can deny truncation: Linux 6.2."""

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_AND_MAKE = 0b111111111 << 4
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
WRITE = WRITE_FILE | REMOVE_AND_MAKE | REFER | TRUNCATE | IOCTL_DEV
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
SCOPES = 0b11  # abstract sockets and signals stay within the sandbox

DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts")

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP = 38, 22
_CAPABILITY_VERSION = 0x20080522
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_IO_URING_SETUP = 425
_SIGPIPE, _SIGXFSZ = 13, 25  # importing signal takes longer than all the rest
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | 13  # EACCES

# machine: its audit number, socket(); the 32-bit mode: the same, and socketcall().
_MACHINES = {
    "x86_64": (0xC000003E, 41, (0x40000003, 359, 102)),
    "aarch64": (0xC00000B7, 198, (0x40000028, 281, 102)),
    "riscv64": (0xC00000F3, 198, None),
}


class CannotRestrictError(Exception):
    """The kernel does not support the requested restrictions."""


def main(argv: list[str]) -> int:
    """Restricts and replaces this process; returns only on failure."""
    words = [os.fsencode(word) for word in argv]
    end = words.index(b"--")
    asked, command = words[:end], words[end + 1 :]

    def paths(letter: bytes) -> set[bytes]:
        return {word[2:] for word in asked if word.startswith(letter + b":")}

    access = AccessRights(
        readable=paths(b"r"), hidden=paths(b"h"), writable=paths(b"w"), protected=paths(b"p")
    )
    try:
        restrict(access, network=b"no-network" not in asked)
    except (CannotRestrictError, OSError) as error:
        print(f"alhena: the sandbox could not be entered: {error}", file=sys.stderr)
        return FAILED
    return become(command)


def become(command: list[bytes]) -> int:
    """Replaces this process by the command; returns only on failure."""
    libc = ctypes.CDLL(None, use_errno=True)
    for number in (_SIGPIPE, _SIGXFSZ):  # Python ignores them, commands must not
        libc.signal(number, None)
    libc.execv(command[0], (ctypes.c_char_p * (len(command) + 1))(*command, None))
    reason = os.strerror(ctypes.get_errno())
    print(f"alhena: {os.fsdecode(command[0])!a}: {reason}", file=sys.stderr)
    return FAILED


def abi() -> int:
    """The kernel's Landlock version; 0 without Landlock."""
    return max(0, _syscall(_CREATE_RULESET, None, 0, 1))


def is_known_machine() -> bool:
    """True when the system call numbers of this processor are known."""
    return os.uname().machine in _MACHINES and sys.byteorder == "little"


class AccessRights:
    """Access rights: everything is readable except `hidden`, within which `readable` and `writable`
    paths are accessible again; `protected` paths in `writable` ones are read-only."""

    def __init__(
        self,
        *,
        readable: set[bytes],
        hidden: set[bytes],
        writable: set[bytes],
        protected: set[bytes],
    ) -> None:
        self.readable = readable
        self.hidden = hidden
        self.writable = writable
        self.protected = protected


def restrict(access: AccessRights, *, network: bool) -> None:
    """Restricts this process and its descendants. Raises CannotRestrictError."""
    version = abi()
    if version < MIN_ABI:
        raise CannotRestrictError(f"this kernel's Landlock has version {version}, not {MIN_ABI}")
    if not is_known_machine():
        raise CannotRestrictError(f"{os.uname().machine} is no processor known here")
    handled = READ | WRITE
    if version < 5:
        handled &= ~IOCTL_DEV
    attributes = struct.pack("=QQQ", handled, 0, SCOPES)
    size = 8 if version < 4 else 16 if version < 6 else 24
    rules = _require_success(
        _syscall(_CREATE_RULESET, attributes, size, 0), "landlock_create_ruleset"
    )
    for path, rights in permissions(access):
        _permit(rules, path, rights & handled)
    _require_success(_prctl(_PR_SET_NO_NEW_PRIVS, 1), "PR_SET_NO_NEW_PRIVS")
    if os.geteuid() == 0:
        _drop_capabilities()
    _require_success(_syscall(_RESTRICT_SELF, rules, 0, 0), "landlock_restrict_self")
    os.close(rules)
    _filter_sockets(network=network)


def permissions(access: AccessRights) -> Iterator[tuple[bytes, int]]:
    """Paths, with the rights granted at and below them."""
    for top in {b"/", *access.readable, *access.writable}:
        for path, whole in spread(top, access.hidden):
            yield path, READ if whole else READ_DIR
    for top in access.writable:
        for path, whole in spread(top, access.protected):
            if whole:
                yield path, WRITE
    for name in DEVICES:
        yield b"/dev/" + name.encode(), WRITE_FILE | IOCTL_DEV


def spread(top: bytes, kept_out: set[bytes]) -> Iterator[tuple[bytes, bool]]:
    """The fewest paths that together cover `top` without `kept_out`. The flag is False for a
    directory on the way to an excluded path, which may only be listed."""
    if top in kept_out:
        return
    leading = top if top.endswith(b"/") else top + b"/"
    if not any(path.startswith(leading) for path in kept_out):
        yield top, True
        return
    yield top, False
    try:
        names = os.listdir(top)
    except OSError:  # unreadable: grant nothing inside
        return
    for name in names:
        path = leading + name
        if not os.path.islink(path):
            yield from spread(path, kept_out)


def _permit(rules: int, path: bytes, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # gone or unreachable: grant nothing
        return
    try:
        mode = os.fstat(descriptor).st_mode
        rights &= -1 if stat.S_ISDIR(mode) else OF_FILES
        if rights and not stat.S_ISLNK(mode):
            attributes = struct.pack("=Qi", rights, descriptor)
            _require_success(_syscall(_ADD_RULE, rules, 1, attributes, 0), "landlock_add_rule")
    finally:
        os.close(descriptor)


def _drop_capabilities() -> None:
    """With no_new_privs, capabilities dropped now cannot be regained by the command."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    _require_success(libc.capset(header, bytes(24)), "capset")


def socket_filter(machine: str, *, network: bool) -> bytes:
    """A seccomp program that allows only network sockets, or none, and denies io_uring.

    Landlock does not restrict connections to UNIX sockets, so they are denied: engines, agents and
    buses would act outside for any client. Socket pairs are harmless and stay.
    """
    native, socket, also = _MACHINES[machine]
    families = (_AF_INET, _AF_INET6, _AF_NETLINK) if network else (_AF_NETLINK,)
    program = BpfProgram()
    program.load(4)
    program.unless_equal(native, "other")
    program.load(0)
    if machine == "x86_64":
        program.if_at_least(0x40000000, "refuse")  # x32
    program.if_equal(_IO_URING_SETUP, "refuse")
    program.if_equal(socket, "family")
    program.go("allow")
    program.mark("other")
    if also is not None:
        number, their_socket, socketcall = also
        program.unless_equal(number, "refuse")
        program.load(0)
        program.if_equal(_IO_URING_SETUP, "refuse")
        program.if_equal(socketcall, "refuse")
        program.if_equal(their_socket, "family")
        program.go("allow")
    else:
        program.go("refuse")
    program.mark("family")
    program.load(16)
    for family in families:
        program.if_equal(family, "allow")
    program.mark("refuse")
    program.give(_REFUSE)
    program.mark("allow")
    program.give(_ALLOW)
    return program.assemble()


class BpfProgram:
    """Classic BPF with labels; jumps go forward only."""

    def __init__(self) -> None:
        self._code: list[tuple[int, str, str, int]] = []
        self._labels: dict[str, int] = {}

    def load(self, offset: int) -> None:
        """Loads 32 bits of the call: 0 its number, 4 the machine, 16 the first argument."""
        self._code.append((0x20, "", "", offset))

    def if_equal(self, value: int, label: str) -> None:
        """Jumps if the loaded value is equal."""
        self._code.append((0x15, label, "", value))

    def unless_equal(self, value: int, label: str) -> None:
        """Jumps if the loaded value differs."""
        self._code.append((0x15, "", label, value))

    def if_at_least(self, value: int, label: str) -> None:
        """Jumps if the loaded value is equal or greater."""
        self._code.append((0x35, label, "", value))

    def go(self, label: str) -> None:
        """Jumps unconditionally."""
        self._code.append((0x35, label, label, 0))

    def give(self, verdict: int) -> None:
        """Returns this verdict."""
        self._code.append((0x06, "", "", verdict))

    def mark(self, label: str) -> None:
        """Marks the target of jumps."""
        self._labels[label] = len(self._code)

    def assemble(self) -> bytes:
        """The assembled bytes."""
        out = b""
        for at, (code, yes, no, value) in enumerate(self._code):
            jumps = [self._labels[label] - at - 1 if label else 0 for label in (yes, no)]
            out += struct.pack("=HBBI", code, *jumps, value)
        return out


def _filter_sockets(*, network: bool) -> None:
    code = ctypes.create_string_buffer(socket_filter(os.uname().machine, network=network))
    program = struct.pack("@HP", (len(code) - 1) // 8, ctypes.addressof(code))
    _require_success(_prctl(_PR_SET_SECCOMP, 2, program), "PR_SET_SECCOMP")


def _prctl(option: int, first: int, second: bytes | None = None) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    found: int = libc.prctl(
        ctypes.c_int(option), ctypes.c_ulong(first), zero if second is None else second, zero, zero
    )
    return found


def _syscall(number: int, *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    ready = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    found: int = libc.syscall(ctypes.c_long(number), *ready)
    return found


def _require_success(found: int, what: str) -> int:
    if found < 0:
        raise CannotRestrictError(f"{what}: {os.strerror(ctypes.get_errno())}")
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
