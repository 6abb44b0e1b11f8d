import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alhena.system.ignore import IgnoreRules

TREE = (
    "a", "b.o", "B.O", "build/a", "build/b.o", "build/keep/x.txt", "src/a", "src/b.o",
    "src/build/a", "src/deep/er/a", "src/deep/er/b.o", "src/a b", "src/a ", "docs/é.txt",
    "docs/#x", "docs/!x", "docs/[x]", "docs/x\\y", "docs/a-b", "docs/]", ".hidden/a", "foo/bar/a",
    "foobar/a", "foo/baz",
)  # fmt: skip
DIRECTORIES = ("", "src/", "src/deep/", "build/", "docs/", "foo/")


def git(*args: str, stdin: bytes = b"", cwd: Path | None = None) -> bytes:
    done = subprocess.run(["git", *args], input=stdin, capture_output=True, check=False, cwd=cwd)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def make_tree(top: Path, paths: tuple[str, ...] = TREE) -> list[str]:
    for path in paths:
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text("x", encoding="utf-8")
    below = [found.relative_to(top) for found in top.rglob("*")]
    return sorted(str(path) for path in below if path.parts[0] != ".git")


def ignored_by_git(top: Path, paths: list[str]) -> set[str]:
    names = b"\0".join(os.fsencode(path) for path in paths)
    out = git("check-ignore", "-z", "--stdin", "--no-index", stdin=names, cwd=top)
    return {os.fsdecode(path) for path in out.split(b"\0") if path}


def ignored_here(top: Path, paths: list[str]) -> set[str]:
    rules = IgnoreRules(top)
    return {path for path in paths if rules.is_ignored(top / path, (top / path).is_dir())}


PIECES = st.sampled_from(
    ["a", "b", "o", ".o", "build", "src", "deep", "er", "foo", "bar", "docs", "*", "**", "?", "/",
     "/", "[ab]", "[!a]", "[]x]", "[a-c]", "[[:alpha:]]", "[[:punct:]]", "[x", "\\", "\\#", "#",
     "!", " ", "\\ ", "é", ".", "*.", "x", "[^/]", "[z-a]", "-"]
)  # fmt: skip
LINES = st.builds(
    lambda start, pieces, end: start + "".join(pieces) + end,
    st.sampled_from(["", "", "", "!", "/", "!/", "**/"]),
    st.lists(PIECES, min_size=1, max_size=5),
    st.sampled_from(["", "", "/", "/*", "/**", "\r", " "]),
)
FILES = st.dictionaries(st.sampled_from(DIRECTORIES), st.lists(LINES, max_size=5), max_size=4)


@pytest.fixture
def repository(project: Path) -> Path:
    git("init", "-q")
    make_tree(project)
    return project


@pytest.mark.requirement("TOOLS-12")
@given(files=FILES, exclude=st.lists(LINES, max_size=2), everywhere=st.lists(LINES, max_size=2))
@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_exactly_the_paths_git_ignores_are_ignored(
    repository: Path,
    home: Path,
    files: dict[str, list[str]],
    exclude: list[str],
    everywhere: list[str],
) -> None:
    for directory in DIRECTORIES:
        (repository / directory / ".gitignore").unlink(missing_ok=True)
    for directory, lines in files.items():
        (repository / directory / ".gitignore").write_bytes("\n".join(lines).encode())
    (repository / ".git/info/exclude").write_bytes("\n".join(exclude).encode())
    (home / ".config/git").mkdir(parents=True, exist_ok=True)
    (home / ".config/git/ignore").write_bytes("\n".join(everywhere).encode())
    paths = make_tree(repository)
    assert ignored_here(repository, paths) == ignored_by_git(repository, paths)
