import os
from pathlib import Path

import pytest

from alhena.system.workspace import Workspace
from alhena.tools.builtin import list_directory
from alhena.tools.builtin.list_directory import MOST_ENTRIES, ListDirectory
from tests.tools.files import call, failure_type, text_of, unprivileged


@pytest.fixture
def ls(project: Path) -> ListDirectory:
    return ListDirectory(Workspace(project))


@pytest.mark.requirement("TOOLS-12")
async def test_directories_come_first_then_files_with_sizes(
    ls: ListDirectory, project: Path
) -> None:
    (project / "b").mkdir()
    (project / "A").mkdir()
    (project / "c.txt").write_text("four", encoding="utf-8")
    (project / "B.txt").touch()
    for path in (".", str(project)):
        assert text_of(await call(ls, path=path)) == (
            f"Directory listing for {project}:\n[DIR] A\n[DIR] b\nB.txt (0 bytes)\nc.txt (4 bytes)"
        )
    assert text_of(await call(ls, dir_path="b")) == f"Directory {project}/b is empty."


@pytest.mark.requirement("TOOLS-12")
@pytest.mark.parametrize(
    ("options", "names", "ignored"),
    [
        (None, "k.txt", 4),
        ({"respect_git_ignore": False}, ".git build k.txt x.log", 1),
        ({"respect_gemini_ignore": False}, "k.txt secret", 3),
        (
            {"respect_git_ignore": False, "respect_gemini_ignore": False},
            ".git build k.txt secret x.log",
            0,
        ),
    ],
)
async def test_ignored_entries_are_counted(
    ls: ListDirectory, project: Path, options: dict[str, bool] | None, names: str, ignored: int
) -> None:
    for directory in (".git", "build"):
        (project / directory).mkdir()
    for name in ("x.log", "k.txt", "secret"):
        (project / name).touch()
    (project / ".gitignore").write_text("*.log\nbuild/\n", encoding="utf-8")
    (project / ".geminiignore").write_text("secret\n", encoding="utf-8")
    params = {"path": ".", "ignore": [".g*ignore"]}
    text = text_of(
        await call(ls, **params, **({"file_filtering_options": options} if options else {}))
    )
    listing, _, note = text.partition("\n\n")
    shown = [line.removeprefix("[DIR] ").split(" (")[0] for line in listing.split("\n")[1:]]
    assert " ".join(sorted(shown)) == names
    assert note == (f"({ignored} ignored)" if ignored else "")


async def test_odd_entries_are_listed_for_what_they_are(ls: ListDirectory, project: Path) -> None:
    os.mkfifo(project / "fifo")
    (project / "gone").symlink_to("nowhere")
    (project / "linked").symlink_to("/")
    (project / "new\nline").touch()
    (Path(os.fsdecode(os.fsencode(project) + b"/\xff"))).touch()
    text = text_of(await call(ls, path="."))
    assert text.split("\n")[1:] == [
        "[DIR] linked",
        "fifo (FIFO)",
        "gone (broken link)",
        "new\\nline (0 bytes)",
        "\\xff (0 bytes)",
    ]
    text.encode()


@pytest.mark.requirement("TOOLS-12")
@pytest.mark.parametrize(
    ("path", "type"),
    [
        ("file.txt", "path_is_not_a_directory"),
        ("missing", "ls_execution_error"),
        ("..", "path_not_in_workspace"),
        ("closed", "permission_denied"),
        (" ", "invalid_tool_params"),
    ],
)
async def test_what_cannot_be_listed_is_a_typed_failure(
    ls: ListDirectory, project: Path, path: str, type: str
) -> None:
    (project / "file.txt").touch()
    (project / "closed").mkdir(mode=0)
    with unprivileged(project):
        assert failure_type(await call(ls, path=path)) == type


async def test_a_bad_wildcard_is_refused(ls: ListDirectory) -> None:
    assert failure_type(await call(ls, path=".", ignore=["[a"])) == "invalid_tool_params"


async def test_a_huge_directory_is_cut(project: Path) -> None:
    for number in range(MOST_ENTRIES + 3):
        os.mknod(project / f"{number}")
    ls = ListDirectory(Workspace(project), most_characters=0)
    lines = text_of(await call(ls, path=".")).split("\n")
    assert len(lines) == MOST_ENTRIES + 3
    assert lines[-1] == "(3 more entries are not shown; use glob with a pattern)"


async def test_only_files_that_are_shown_are_looked_at(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_directory, "MOST_ENTRIES", 10)
    looked_at: list[str] = []
    describe = list_directory.ListDirectoryInvocation._describe  # pyright: ignore[reportPrivateUsage]

    def count(self: list_directory.ListDirectoryInvocation, entry: os.DirEntry[str]) -> str:
        looked_at.append(entry.name)
        return describe(self, entry)

    monkeypatch.setattr(list_directory.ListDirectoryInvocation, "_describe", count)
    (project / "folder").mkdir()
    for number in range(30):
        (project / f"{number:02}").touch()
    text = text_of(await call(ListDirectory(Workspace(project)), path="."))
    assert "(21 more entries are not shown" in text
    assert looked_at == [f"{number:02}" for number in range(9)]


async def test_an_unreadable_ignore_file_is_told(ls: ListDirectory, project: Path) -> None:
    (project / ".gitignore").mkdir()
    (project / "a").touch()
    text = text_of(await call(ls, path="."))
    assert "a (0 bytes)" in text
    assert "Path is a directory, not a file" in text


async def test_a_long_listing_ends_with_a_whole_line_and_says_what_is_left(
    ls: ListDirectory, project: Path
) -> None:
    for number in range(1_000):
        os.mknod(project / f"{number:04}-{'x' * 60}")
    text = text_of(await call(ls, path="."))
    assert 38_000 < len(text) <= 40_000
    *lines, empty, last = text.split("\n")[1:]
    assert lines == [f"{number:04}-{'x' * 60} (0 bytes)" for number in range(len(lines))]
    assert (empty, last) == (
        "",
        f"({1_000 - len(lines)} more entries are not shown; use glob with a pattern)",
    )


async def test_nothing_is_told_of_a_file_that_a_link_leads_to_outside(
    ls: ListDirectory, project: Path
) -> None:
    (project.parent / "secret").write_text("12345", encoding="utf-8")
    (project / "out").symlink_to("../secret")
    (project / "in").symlink_to("a")
    (project / "a").write_text("123", encoding="utf-8")
    assert text_of(await call(ls, path=".")).split("\n")[1:] == [
        "a (3 bytes)", "in (3 bytes)", "out (link out of the workspace)",
    ]  # fmt: skip
