"""Approvals are not lost, for any number of writers and any length of lists."""

from pathlib import Path

import msgspec
import pytest

from alhena.mcp.connection import ListedTool
from alhena.mcp.pins import (
    CHANGED,
    FILE,
    MAX_FILE,
    NEW,
    UNKNOWN_THEN,
    UNREADABLE,
    Pins,
)
from alhena.system.private_files import PrivateFiles

PAY = ListedTool(name="pay", description="Pays.", schema={"type": "object", "properties": {}})
MEANER = msgspec.structs.replace(PAY, description="Pays all.")


def pins(directory: Path, said: list[str] | None = None) -> Pins:
    return Pins(PrivateFiles(directory), ([] if said is None else said).append, patience_s=0)


def listed(count: int, description: str) -> list[ListedTool]:
    return [
        ListedTool(name=f"t{number}", description=description, schema={"type": "object"})
        for number in range(count)
    ]


def test_what_two_sessions_approve_is_kept_of_both(project: Path) -> None:
    one, other = pins(project), pins(project)
    assert one.objection("s", PAY) == other.objection("s", PAY) == ""
    other.approve("s", [PAY], every=False)
    one.approve("t", [PAY], every=False)
    later = pins(project)
    assert later.objection("s", MEANER) == later.objection("t", MEANER) == CHANGED
    assert one.objection("s", MEANER) == CHANGED


def test_what_was_approved_of_which_nothing_is_kept_does_not_hold(project: Path) -> None:
    some = pins(project)
    assert some.objection("s", PAY, approved=True) == UNKNOWN_THEN
    some.approve("s", [PAY], every=False)
    assert some.objection("s", PAY, approved=True) == ""
    other = msgspec.structs.replace(PAY, name="other")
    assert some.objection("s", other) == ""
    assert some.objection("s", other, approved=True) == UNKNOWN_THEN
    some.approve("s", [PAY], every=True)
    assert some.objection("s", other, approved=True) == NEW


@pytest.mark.parametrize(
    "broken", [b"", b"{", b'{"servers": 5}', b"\xff\xfe", b'{"version": 2}', b"[" * 5000]
)
def test_a_file_that_cannot_be_read_is_left_as_it_is(project: Path, broken: bytes) -> None:
    (project / FILE).write_bytes(broken)
    said: list[str] = []
    some = pins(project, said)
    assert some.objection("s", PAY) == UNREADABLE
    some.approve("s", [PAY], every=False)
    assert (project / FILE).read_bytes() == broken
    assert "is not kept" in said[-1]
    assert "Move it away." in said[-1]
    assert some.objection("s", PAY, approved=True) == ""
    assert some.objection("s", MEANER) == CHANGED


def test_more_than_a_file_may_have_is_not_kept_and_takes_no_pin_from_anybody(project: Path) -> None:
    pins(project).approve("good", [PAY], every=False)
    tools = listed(MAX_FILE // 9_000, "x" * 9_900)
    said: list[str] = []
    some = pins(project, said)
    some.approve("big", tools, every=True)
    assert "is not kept" in said[0]
    assert some.objection("big", tools[0], approved=True) == ""
    later = pins(project)
    assert later.objection("big", tools[0], approved=True) == UNKNOWN_THEN
    assert later.objection("good", MEANER) == CHANGED


def test_what_could_not_be_kept_holds_here_and_is_kept_the_next_time(project: Path) -> None:
    said: list[str] = []
    some = pins(project, said)
    with PrivateFiles(project).hold(FILE) as held:
        assert held
        some.approve("s", [PAY], every=False)
    assert "is not kept: another program holds" in said[0]
    assert some.objection("s", PAY, approved=True) == ""
    assert some.objection("s", MEANER) == CHANGED
    assert pins(project).objection("s", PAY, approved=True) == UNKNOWN_THEN
    some.approve("t", [PAY], every=False)
    later = pins(project)
    assert later.objection("s", MEANER) == later.objection("t", MEANER) == CHANGED
    assert len(said) == 1
