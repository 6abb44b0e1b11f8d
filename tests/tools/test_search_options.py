"""The parameters that a search takes without declaring them."""

from pathlib import Path
from typing import Any

import pytest

from alhena.system.workspace import Workspace
from alhena.tools.builtin.search_file_content import SearchFileContent
from tests.tools.files import call, failure_type, put, text_of


@pytest.fixture
def tool(project: Path) -> SearchFileContent:
    return SearchFileContent(Workspace(project))


@pytest.mark.requirement("TOOLS-14")
@pytest.mark.parametrize(
    ("params", "lines"),
    [
        ({"pattern": "foo"}, ["L1: Foo(1)", "L2: foo.x", "L3: foo+x"]),
        ({"pattern": "foo", "case_sensitive": True}, ["L2: foo.x", "L3: foo+x"]),
        ({"pattern": "foo", "case_sensitive": "true"}, ["L2: foo.x", "L3: foo+x"]),
        ({"pattern": "o.x", "fixed_strings": True}, ["L2: foo.x"]),
        ({"pattern": "Foo(", "fixed_strings": True}, ["L1: Foo(1)"]),
        ({"pattern": "a\nb", "fixed_strings": True}, []),
        ({"pattern": "foo", "exclude_pattern": r"\+"}, ["L1: Foo(1)", "L2: foo.x"]),
        ({"pattern": "foo", "include_pattern": "*.md"}, []),
    ],
)
async def test_what_counts_as_a_match(
    tool: SearchFileContent, project: Path, params: dict[str, Any], lines: list[str]
) -> None:
    put(project / "a.txt", "Foo(1)\nfoo.x\nfoo+x\nbar\n")
    text = text_of(await call(tool, **params))
    assert [line for line in text.split("\n") if line.startswith("L")] == lines


async def test_matches_of_one_file_can_be_capped(tool: SearchFileContent, project: Path) -> None:
    put(project / "a.txt", "foo\n" * 3)
    put(project / "b.txt", "foo\n")
    text = text_of(await call(tool, pattern="foo", max_matches_per_file=2))
    assert text == (
        'Found 3 matches for pattern "foo" in path ".":\n---\nFile: a.txt\nL1: foo\nL2: foo\n---\n'
        "File: b.txt\nL1: foo\n---\nNote: 1 file has more than the 2 matches shown of each."
    )


async def test_all_matches_can_be_capped_over_every_root(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    put(project / "a.txt", "foo\n" * 3)
    put(other / "b.txt", "foo\n" * 3)
    tool = SearchFileContent(Workspace(project, [other]))
    text = text_of(await call(tool, pattern="foo", total_max_matches=4))
    assert text.startswith('Found 4 matches for pattern "foo" across 2 workspace directories '
                           "(results limited to 4 matches):\n")  # fmt: skip
    assert text.count("\nL") == 4
    exact = text_of(await call(tool, pattern="foo", total_max_matches=6))
    assert "limited" not in exact
    one = text_of(await call(tool, pattern="foo", total_max_matches=3))
    assert "Found 3 matches" in one
    assert "(results limited to 3 matches)" in one


async def test_names_only_counts_files_not_matches(tool: SearchFileContent, project: Path) -> None:
    for name in ("c", "a", "b"):
        put(project / f"{name}.txt", "foo\n" * 9)
    text = text_of(await call(tool, pattern="foo", names_only=True, total_max_matches=2))
    assert text == (
        'Found 2 files with matches for pattern "foo" in path "." (results limited to 2 matches):\n'
        "a.txt\nb.txt"
    )


@pytest.mark.parametrize(
    ("params", "shown"),
    [
        ({"context": 1}, ["L2- b", "L3: foo", "L4- d", "L5- e", "L6: foo", "L7- g"]),
        ({"before": 1}, ["L2- b", "L3: foo", "L5- e", "L6: foo"]),
        ({"after": 2}, ["L3: foo", "L4- d", "L5- e", "L6: foo", "L7- g"]),
        ({"context": 2, "before": 0}, ["L3: foo", "L4- d", "L5- e", "L6: foo", "L7- g"]),
        ({"context": 9_999}, ["L1- a", "L2- b", "L3: foo", "L4- d", "L5- e", "L6: foo", "L7- g"]),
        ({"context": 1, "names_only": True}, []),
    ],
)
async def test_lines_around_matches_are_shown_apart(
    tool: SearchFileContent, project: Path, params: dict[str, Any], shown: list[str]
) -> None:
    put(project / "x.txt", "a\nb\nfoo\nd\ne\nfoo\ng\n")
    text = text_of(await call(tool, pattern="foo", **params))
    assert [line for line in text.split("\n") if line.startswith("L")] == shown


async def test_what_is_ignored_is_searched_when_asked_for(
    tool: SearchFileContent, project: Path
) -> None:
    put(project / ".gitignore", "*.log\n")
    put(project / ".geminiignore", "*.key\n")
    for name in ("a.log", "b.key", "c.txt", "node_modules/d.js"):
        put(project / name, "foo\n")
    text = text_of(await call(tool, pattern="foo", names_only=True, no_ignore=True))
    assert text.split("\n")[1:] == ["a.log", "c.txt", "node_modules/d.js"]


@pytest.mark.parametrize(
    "params",
    [{"max_matches_per_file": 0}, {"total_max_matches": 0}, {"context": -1}, {"names_only": 3},
     {"case_sensitive": "maybe"}, {"before": "x"}, {"exclude_pattern": 1}],
)  # fmt: skip
async def test_a_wrong_one_is_named(tool: SearchFileContent, params: dict[str, Any]) -> None:
    result = await call(tool, pattern="foo", **params)
    assert failure_type(result) == "invalid_tool_params"
    assert next(iter(params)) in text_of(result)


async def test_the_session_says_where_programs_and_ignore_rules_are(
    project: Path, tmp_path: Path
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    listed = "".join(f"{project}/{name}\\0" for name in ("a.txt", "a.log"))
    (programs / "rg").write_text(f"#!/bin/sh\nprintf '{listed}'\n", encoding="utf-8")
    (programs / "rg").chmod(0o755)
    (tmp_path / "theirs/git").mkdir(parents=True)
    (tmp_path / "theirs/git/ignore").write_text("*.log\n", encoding="utf-8")
    for name in ("a.txt", "a.log", "b.txt"):
        (project / name).write_text("needle\n", encoding="utf-8")
    environ = {"PATH": str(programs), "HOME": "/", "XDG_CONFIG_HOME": str(tmp_path / "theirs")}
    tool = SearchFileContent(Workspace(project), environ=environ)
    text = text_of(await call(tool, pattern="needle"))
    assert ("a.txt" in text, "a.log" in text, "b.txt" in text) == (True, False, False)


async def test_matches_in_a_legacy_encoding_are_shown_with_their_surroundings(
    tool: SearchFileContent, project: Path
) -> None:
    text = "Le menu\nUn café crème\nà la carte\n"
    (project / "a.txt").write_bytes(text.encode("latin-1"))
    result = await call(tool, pattern="CAFÉ", context=1)
    assert text_of(result).endswith(
        "File: a.txt\nL1- Le menu\nL2: Un café crème\nL3- à la carte\n---"
    )
