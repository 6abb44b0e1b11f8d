"""Options that narrow or widen a search mean the same in every backend."""

import os
from pathlib import Path

import pytest

from alhena.system.errors import PatternError
from alhena.system.search import FileSearch, Query, lines_around
from tests.system.searching import Write, find_matches


async def test_case_counts_when_asked_for(backend: FileSearch, tree: Path, write: Write) -> None:
    write("a.txt", "Needle one\nneedle TWO\n")
    lines = [n for _, n, _ in await find_matches(backend, "needle", tree, case_sensitive=True)]
    assert lines == [2]
    left = await find_matches(backend, "eedle", tree, case_sensitive=True, exclude="two")
    assert [n for _, n, _ in left] == [1, 2]


async def test_names_of_excluded_directories_are_no_matter_for_files(
    backend: FileSearch, tree: Path, write: Write
) -> None:
    write("sub/node_modules", "needle\n")
    write("node_modules/x", "needle\n")
    assert [name for name, _, _ in await find_matches(backend, "needle", tree)] == [
        "sub/node_modules"
    ]


LETTERS = [
    ("kiss", ["kiss", "KISS", "\u212aiss", "ki\u017fs", "Ki\u017f\u017f"]),
    ("session", ["se\u017fsion", "SESSION"]),
]


@pytest.mark.parametrize(("pattern", "words"), LETTERS)
async def test_letters_that_fold_to_ascii_are_found_by_all_alike(
    backend: FileSearch, tree: Path, write: Write, pattern: str, words: list[str]
) -> None:
    for number, word in enumerate(words):
        write(f"{number}.txt", f"é {word}\n")
    reference = [word for word in words if _matches(pattern, word)]
    assert [line[2:] for _, _, line in await find_matches(backend, pattern, tree)] == reference
    assert len(reference) >= 2


def _matches(pattern: str, word: str) -> bool:
    import regex

    return regex.search(pattern, word, regex.IGNORECASE) is not None


async def test_a_fifo_a_socket_and_a_link_in_the_place_of_a_file_are_passed_over(
    backend: FileSearch, tree: Path, write: Write
) -> None:
    write("a.txt", "needle\n")
    os.mkfifo(tree / "fifo")
    (tree / "link").symlink_to("a.txt")
    result = await backend.search(Query(pattern="needle", path=tree / "fifo", root=tree))
    assert result.matches == ()
    linked = await backend.search(Query(pattern="needle", path=tree / "link", root=tree))
    assert linked.matches == ()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_the_lines_around_are_those_of_the_file(tree: Path, write: Write, encoding: str) -> None:
    text = "".join(f"é {number}  \r\n" for number in range(1, 10)) + "x" * 9_000_000 + "\nend"
    write("a.txt", text.encode(encoding))
    around = lines_around(str(tree / "a.txt"), [2, 9], 2, 1)
    assert list(around) == [1, 3, 7, 8, 10]
    assert [around[n] for n in (1, 3, 7, 8)] == ["é 1", "é 3", "é 7", "é 8"]
    assert around[10] == "x" * 2_000 + "... [truncated]"
    assert lines_around(str(tree / "a.txt"), [11], 0, 3) == {}


@pytest.mark.parametrize(
    ("include", "names"),
    [
        ("app/[id]/page.tsx", ["app/[id]/page.tsx", "app/i/page.tsx"]),
        ("app/[id]/*.tsx", ["app/[id]/page.tsx", "app/i/page.tsx"]),
        ("./app/i/*.tsx", ["app/i/page.tsx"]),
        ("**/[id]/*.tsx", ["app/[id]/page.tsx", "app/i/page.tsx"]),
        ("[slug].ts", ["app/[slug].ts"]),
        ("a{b,c}.txt", ["ab.txt", "a{b,c}.txt"]),
    ],
)
async def test_brackets_and_braces_of_names_are_included(
    backend: FileSearch, tree: Path, write: Write, include: str, names: list[str]
) -> None:
    for name in ("app/[id]/page.tsx", "app/i/page.tsx", "app/[slug].ts", "a{b,c}.txt", "ab.txt"):
        write(name, "needle\n")
    assert [
        name for name, _, _ in await find_matches(backend, "needle", tree, include=include)
    ] == names


async def test_an_include_of_too_many_alternatives_is_refused(
    backend: FileSearch, tree: Path, write: Write
) -> None:
    write("a.txt", "needle\n")
    with pytest.raises(PatternError, match="Invalid include pattern"):
        await find_matches(backend, "needle", tree, include="{a,b}" * 11)
