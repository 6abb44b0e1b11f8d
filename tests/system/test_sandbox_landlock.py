"""Landlock rules requested from the kernel, and system calls the socket filter permits."""

import os
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.system.sandbox.landlock import (
    READ,
    READ_DIR,
    WRITE,
    AccessRights,
    permissions,
    socket_filter,
    spread,
)


def test_everything_but_what_is_kept_out_is_permitted_below_a_directory(project: Path):
    for name in ("a/b", "a/c", "d"):
        (project / name).mkdir(parents=True)
    (project / "link").symlink_to("a")
    top = os.fsencode(project)
    assert set(spread(top, {top + b"/a/b", top + b"/absent"})) == {
        (top, False),
        (top + b"/a", False),
        (top + b"/a/c", True),
        (top + b"/d", True),
    }
    assert list(spread(top, {b"/elsewhere", top + b"x"})) == [(top, True)]
    assert list(spread(top, {top})) == []


def test_writing_is_never_permitted_where_a_protected_path_lies_below(project: Path):
    (project / "src").mkdir()
    (project / ".git/hooks").mkdir(parents=True)
    top = os.fsencode(project)
    access = AccessRights(
        readable=set(), hidden={top + b"/src"}, writable={top}, protected={top + b"/.git/hooks"}
    )
    found = list(permissions(access))
    assert [path for path, rights in found if rights & WRITE and path.startswith(top)] == [
        top + b"/src"
    ]
    assert (top, READ_DIR) in found
    assert (top + b"/.git", READ) in found


def verdict(program: bytes, machine: int, number: int, argument: int) -> int:
    """Runs the filter as the kernel does."""
    data = {0: number, 4: machine, 16: argument}
    at, held = 0, 0
    while True:
        code, yes, no, value = struct.unpack_from("=HBBI", program, at * 8)
        at += 1
        if code == 0x20:
            held = data[value]
        elif code == 0x15:
            at += yes if held == value else no
        elif code == 0x35:
            at += yes if held >= value else no
        else:
            assert code == 0x06
            return int(value)


ALLOW, REFUSE = 0x7FFF0000, 0x0005000D
X86_64, I386, AARCH64, RISCV64 = 0xC000003E, 0x40000003, 0xC00000B7, 0xC00000F3


@pytest.mark.parametrize("network", [True, False])
@pytest.mark.parametrize(
    ("machine", "number", "socket"),
    [
        ("x86_64", X86_64, 41),
        ("x86_64", I386, 359),
        ("aarch64", AARCH64, 198),
        ("riscv64", RISCV64, 198),
    ],
)
def test_the_filter_leaves_only_sockets_of_the_network(
    machine: str, number: int, socket: int, network: bool
):
    program = socket_filter(machine, network=network)
    inet = ALLOW if network else REFUSE
    for family, expected in [
        (1, REFUSE),
        (2, inet),
        (10, inet),
        (16, ALLOW),
        (17, REFUSE),
        (40, REFUSE),
    ]:
        assert verdict(program, number, socket, family) == expected
    assert verdict(program, number, 425, 0) == REFUSE
    assert verdict(program, number, 1, 1) == ALLOW


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_the_filter_ends_with_a_verdict_for_any_call(machine: int, number: int, argument: int):
    program = socket_filter("x86_64", network=False)
    assert verdict(program, machine, number, argument) in {ALLOW, REFUSE}
    assert verdict(program, X86_64, number | 0x40000000, argument) == REFUSE
    if machine not in {X86_64, I386}:
        assert verdict(program, machine, number, argument) == REFUSE
    assert verdict(program, I386, 102, argument) == REFUSE
