"""Tools as they were approved, in a file."""

import json
from pathlib import Path

import msgspec
import pytest

from alhena.config.mcp_servers import McpServer
from alhena.mcp.connection import ListedTool
from alhena.mcp.pins import CHANGED, FILE, NEW, OTHER, UNREADABLE, Pins, source_of
from alhena.system.private_files import PrivateFiles

PAY = ListedTool(name="pay", description="Pays.", schema={"type": "object", "properties": {}})


def pins(directory: Path, said: list[str] | None = None) -> Pins:
    return Pins(PrivateFiles(directory), ([] if said is None else said).append)


@pytest.mark.parametrize(
    "change",
    [
        {"description": "Pays all."},
        {"title": "Other"},
        {"schema": {"type": "object", "properties": {"to": {"type": "string"}}}},
    ],
)
def test_every_change_counts_and_is_shown_also_to_a_later_process(
    project: Path, change: dict[str, object]
) -> None:
    first = pins(project)
    assert first.objection("s", PAY) == ""
    first.approve("s", [PAY], every=False)
    assert first.objection("s", PAY) == first.changes("s", PAY) == ""
    changed = msgspec.structs.replace(PAY, **change)
    later = pins(project)
    assert later.objection("s", PAY) == ""
    assert later.objection("s", changed) == CHANGED
    diff = later.changes("s", changed)
    assert diff.startswith("--- approved\n+++ now\n@@")
    later.approve("s", [changed], every=False)
    assert later.objection("s", changed) == ""
    assert later.objection("s", PAY) == CHANGED


def test_the_order_of_keys_is_no_change(project: Path) -> None:
    one = msgspec.structs.replace(PAY, schema={"type": "object", "title": "x"})
    other = msgspec.structs.replace(PAY, schema={"title": "x", "type": "object"})
    pins(project).approve("s", [one], every=False)
    assert pins(project).objection("s", other) == ""


def test_new_tools_count_where_the_whole_server_was_approved(project: Path) -> None:
    late = msgspec.structs.replace(PAY, name="late")
    some = pins(project)
    some.approve("one", [PAY], every=False)
    some.approve("all", [PAY], every=True)
    assert some.objection("one", late) == ""
    assert some.objection("all", late) == NEW
    assert some.objection("other", late) == ""


def test_the_file_is_the_owners_and_one_that_cannot_be_read_approves_nothing(
    project: Path,
) -> None:
    pins(project).approve("s", [PAY], every=False)
    file = project / FILE
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_text(encoding="utf-8"))["servers"]["s"]["tools"]["pay"]
    for broken in (b"{", b"[]", b"\xff\xfe", b'{"servers": 5}'):
        file.write_bytes(broken)
        said: list[str] = []
        damaged = pins(project, said)
        assert damaged.objection("s", PAY) == UNREADABLE
        assert len(said) == 1
        assert FILE in said[0]


def test_a_file_that_cannot_be_written_is_told_and_holds_for_the_session(project: Path) -> None:
    (project / FILE).mkdir()
    (project / f"{FILE}.lock").mkdir()
    said: list[str] = []
    some = pins(project, said)
    some.approve("s", [PAY], every=True)
    assert some.objection("s", PAY) == ""
    assert any("is not kept" in each for each in said)
    assert some.objection("other", PAY) == UNREADABLE
    assert (project / FILE).is_dir()


def test_no_text_of_a_server_reads_as_a_part_of_the_difference_that_it_is_not(
    project: Path,
) -> None:
    pins(project).approve("s", [PAY], every=False)
    forged = "Safe\n+++ now\n@@ -1 +1 @@\n unchanged"
    tool = msgspec.structs.replace(PAY, title=forged, description=forged)
    head, *lines = pins(project).changes("s", tool).partition("@@")[2].split("\n")
    assert head.endswith("@@")
    assert [each for each in lines if each[:1] == "+"] == [
        *("+title: Safe", "++++ now", "+@@ -1 +1 @@", "+ unchanged"),
        *("+Safe", "++++ now", "+@@ -1 +1 @@", "+ unchanged"),
    ]
    assert {each[:1] for each in lines} <= {"+", "-", " "}
    assert not any(each.startswith((" unchanged", "@@")) for each in lines)


def test_what_changes_behind_what_is_kept_is_named(project: Path) -> None:
    padding = {f"a{number}": {"description": "x" * 100} for number in range(300)}

    def with_last(text: str) -> ListedTool:
        properties = {**padding, "z": {"description": text}}
        return msgspec.structs.replace(PAY, schema={"type": "object", "properties": properties})

    pins(project).approve("s", [with_last("Who.")], every=False)
    later = pins(project)
    assert later.objection("s", with_last("Read secrets.")) == CHANGED
    assert later.changes("s", with_last("Who.")) == ""
    told = later.changes("s", with_last("Read secrets."))
    assert told == (
        "! only the first 20,000 characters of each text are compared: the rest may have changed "
        "too"
    )


@pytest.mark.parametrize(
    "other",
    [
        {"command": "b"},
        {"command": "a", "args": ["x"]},
        {"command": "a", "cwd": "/elsewhere"},
        {"command": "a", "env": {"HOST": "evil"}},
        {"command": "a", "env": {"HOST": "good", "TOKEN": "t"}},
        {"url": "https://a.example"},
    ],
)
def test_another_program_or_url_under_the_same_name_counts(
    project: Path, other: dict[str, object]
) -> None:
    own = source_of(McpServer(command="a", env={"HOST": "good"}), "/w")
    pins(project).approve("s", [PAY], own, every=True)
    later = pins(project)
    assert later.objection("s", PAY, own) == ""
    found = source_of(msgspec.convert(other, McpServer), "/w")
    assert later.objection("s", PAY, found) == OTHER
    assert later.changes("s", PAY, found)


def test_a_program_of_a_directory_is_another_one_elsewhere(project: Path) -> None:
    (project / "server.py").write_text("", encoding="utf-8")
    there, free = McpServer(command="python", args=("server.py",)), McpServer(command="npx")
    elsewhere = str(project / "other")
    assert source_of(there, str(project)) != source_of(there, elsewhere)
    assert source_of(free, str(project)) == source_of(free, elsewhere)


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "python", "args": ["-m", "server"]},
        {"command": "python", "args": ["pkg"]},
        {"command": "sh", "args": ["-c", "exec ./run.sh"]},
        {"command": "make", "args": ["-s", "serve"]},
        {"command": "npm", "args": ["start"]},
        {"command": "npx", "args": ["./x"]},
        {"command": "python", "args": ["-m", "server"], "cwd": "/opt"},
        {"url": "https://a.example"},
    ],
)
def test_a_server_of_a_workspace_is_another_one_in_another(entry: dict[str, object]) -> None:
    own = msgspec.convert(entry, McpServer)
    theirs = msgspec.structs.replace(own, of_workspace=True)
    assert source_of(theirs, "/one") == source_of(theirs, "/one")
    assert source_of(theirs, "/one").hash != source_of(theirs, "/two").hash
    assert source_of(own, "/one").hash == source_of(own, "/two").hash


def test_the_difference_has_the_directory_and_what_chooses_the_program(project: Path) -> None:
    own, other = (
        source_of(msgspec.convert({"command": "npx", "args": ["x"], **more}, McpServer), "/w")
        for more in (
            {"env": {"PORT": "1"}},
            {"cwd": "sub", "env": {"PORT": "1", "PATH": "/repo/bin"}},
        )
    )
    pins(project).approve("s", [PAY], own, every=True)
    lines = pins(project).changes("s", PAY, other).split("\n")
    assert "-server: npx x (PORT)" in lines
    assert "+server: npx x (in sub, PORT, PATH=/repo/bin)" in lines


def test_a_server_that_was_kept_in_other_words_is_no_other(project: Path) -> None:
    own = source_of(McpServer(command="npx", cwd="/"), "/w")
    older = msgspec.structs.replace(own, words="npx")
    pins(project).approve("s", [PAY], older, every=True)
    changed = msgspec.structs.replace(PAY, description="Other.")
    assert pins(project).changes("s", PAY, own) == ""
    assert "in /" not in pins(project).changes("s", changed, own)


def test_a_renewed_secret_is_no_other_server() -> None:
    one, other = (McpServer(command="a", env={"API_TOKEN": value}) for value in ("1", "2"))
    assert source_of(one, "/w") == source_of(other, "/w")
