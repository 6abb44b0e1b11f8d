"""Approvals are not lost, for any number of writers and any length of lists."""

import json
import os
from pathlib import Path

import msgspec
import pytest

from alhena.mcp.connection import ListedTool
from alhena.mcp.pins import (
    CHANGED,
    FILE,
    MAX_FILE,
    MAX_SERVER,
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
def test_a_file_that_cannot_be_read_is_moved_away_and_not_written_over(
    project: Path, broken: bytes
) -> None:
    (project / FILE).write_bytes(broken)
    (project / f"{FILE}.damaged-1").write_bytes(b"an older one")
    said: list[str] = []
    some = pins(project, said)
    some.approve("s", [PAY], every=False)
    assert (project / f"{FILE}.damaged-1").read_bytes() == b"an older one"
    assert (project / f"{FILE}.damaged-2").read_bytes() == broken
    assert f"{FILE}.damaged-2" in said[-1]
    later = pins(project, said := [])
    assert later.objection("s", PAY, approved=True) == ""
    assert later.objection("t", PAY, approved=True) == UNKNOWN_THEN
    assert said == []


def test_a_file_that_is_too_large_is_moved_away_too(project: Path) -> None:
    with (project / FILE).open("wb") as file:
        file.truncate(MAX_FILE + 1)
    said: list[str] = []
    pins(project, said).approve("s", [PAY], every=False)
    assert (project / f"{FILE}.damaged-1").stat().st_size == MAX_FILE + 1
    assert pins(project).objection("s", MEANER) == CHANGED


def test_what_is_no_file_at_all_is_moved_away_too_and_how_to_go_on_is_said(project: Path) -> None:
    (project / FILE).mkdir()
    said: list[str] = []
    some = pins(project, said)
    assert some.objection("s", PAY) == UNREADABLE
    assert said[-1].endswith("It is put aside when a tool is approved for more than one call.")
    some.approve("s", [PAY], every=False)
    assert (project / f"{FILE}.damaged-1").is_dir()
    os.mkfifo(project / "pipe")
    (project / "pipe").rename(project / FILE)
    pins(project).approve("s", [PAY], every=False)
    assert (project / f"{FILE}.damaged-2").is_fifo()
    assert pins(project).objection("s", MEANER) == CHANGED


def test_a_server_with_many_long_descriptions_takes_no_pin_from_anybody(project: Path) -> None:
    pins(project).approve("good", [PAY], every=False)
    tools = listed(400, "x" * 9_900)
    said: list[str] = []
    pins(project, said).approve("big", tools, every=True)
    assert (project / FILE).stat().st_size < MAX_SERVER * 1.1
    assert "too many tools" in said[0]
    pins(project).approve("other", [PAY], every=False)
    later = pins(project)
    assert {later.objection("big", tool) for tool in tools} == {"", NEW}
    assert later.objection("big", tools[0]) == ""
    assert later.objection("good", MEANER) == later.objection("other", MEANER) == CHANGED


def test_more_tools_than_are_kept_are_asked_about_later_and_not_now(project: Path) -> None:
    pins(project).approve("good", [PAY], every=False)
    tools = [
        msgspec.structs.replace(tool, name=tool.name + "\x01" * 290)
        for tool in listed(5_000, "Does it.")
    ]
    said: list[str] = []
    some = pins(project, said)
    some.approve("big", tools, every=True)
    assert {some.objection("big", tool, approved=True) for tool in tools} == {""}
    assert len(said) == 1
    assert "too many tools" in said[0]
    later = pins(project)
    found = [later.objection("big", tool, approved=True) for tool in tools]
    assert set(found) == {"", NEW}
    assert found.index(NEW) > 500  # the first, which was asked about, is kept
    assert later.objection("good", MEANER) == CHANGED
    assert len(msgspec.json.encode(json.loads((project / FILE).read_bytes()))) < MAX_SERVER + 10_000


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
