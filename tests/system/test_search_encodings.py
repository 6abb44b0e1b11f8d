"""Every backend finds in a file what reading it shows, whatever its encoding is."""

from pathlib import Path

import pytest
import regex

from alhena.system.encoding import WHOLE, decode_text
from alhena.system.search import FileSearch, Query, lines_around
from tests.system.searching import Write, find_matches

FRENCH = "Le café est fermé.\nUne naïve élève, déjà là\nKISS the needle\nfin\n"
MIXED = "Größe\nпривет, мир\nκαλημέρα κόσμε needle\n世界 日本語の needle です\n한국어\n"
TEXTS = {
    **dict.fromkeys(("latin-1", "cp1252", "utf-8-sig", "utf-16"), FRENCH),
    **dict.fromkeys(("utf-8", "utf-32"), MIXED),
}

PATTERNS = ["café", "CAFÉ", "caf.", r"na\wve", "[à-ÿ]l", r"^\W*é?une.*là$", "needle", "n[e]edle",
            "needle.{1,3}$", "kiss", "привет", "[а-я]+, мир", "κόσμε",
            "世界", "日本語. needle", "한국어", r"\bfin\b", "é", "."]  # fmt: skip


def contents() -> dict[str, bytes]:
    """A file for each encoding, and some that are in none."""
    made = {f"{encoding}.txt": text.encode(encoding) for encoding, text in TEXTS.items()}
    made["mostly-utf-8.txt"] = "déjà vu à côté\n".encode() + b"caf\xe9 needle\n" + "é\n".encode()
    made["crlf.txt"] = FRENCH.replace("\n", "\r\n").encode("cp1252")
    made["late.txt"] = b"plain\n" * 5_000 + FRENCH.encode("latin-1")
    return made


@pytest.mark.requirement("TOOLS-14")
async def test_each_pattern_finds_the_lines_that_reading_shows(
    backend: FileSearch, tree: Path, write: Write
) -> None:
    expected: dict[str, list[tuple[str, int, str]]] = {pattern: [] for pattern in PATTERNS}
    for name, data in sorted(contents().items()):
        write(name, data)
        text = decode_text(data).shown
        if name.removesuffix(".txt") in TEXTS:
            assert text == TEXTS[name.removesuffix(".txt")], name
        for pattern, lines in expected.items():
            wanted = regex.compile(pattern, regex.IGNORECASE)
            lines += [
                (name, number, line)
                for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1)
                if wanted.search(line)
            ]
    for pattern, lines in expected.items():
        assert await find_matches(backend, pattern, tree) == lines, pattern
        assert lines, pattern


async def test_a_large_file_is_read_in_the_encoding_of_its_first_block(
    backend: FileSearch, tree: Path, write: Write
) -> None:
    write("early.txt", (("été " * 50 + "\n") * (WHOLE // 200) + "café needle\n").encode("latin-1"))
    write("wide.txt", (("plain " * 50 + "\n") * (WHOLE // 400) + "café needle\n").encode("utf-16"))
    assert [(name, line) for name, _, line in await find_matches(backend, "café", tree)] == [
        ("early.txt", "café needle"),
        ("wide.txt", "café needle"),
    ]


async def test_binary_files_are_passed_over_by_patterns_that_match_anything(
    backend: FileSearch, tree: Path, write: Write
) -> None:
    write("a.bin", bytes(range(256)) * 20)
    write("b.bin", "needle".encode("utf-16-le") + bytes(900))
    write("image.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR needle \xe9\n")
    write("text.txt", "é needle\n".encode("latin-1"))
    for pattern in (".", "é", "needle"):
        assert await find_matches(backend, pattern, tree) == [("text.txt", 1, "é needle")], pattern


async def test_case_counts_in_every_encoding_when_asked_for(
    backend: FileSearch, tree: Path, write: Write
) -> None:
    write("a.txt", FRENCH.encode("latin-1"))
    write("b.txt", FRENCH.upper().encode("utf-16"))
    result = await backend.search(Query(pattern="CAFÉ", path=tree, root=tree, case_sensitive=True))
    assert [(match.path.name, match.text) for match in result.matches] == [
        ("b.txt", "LE CAFÉ EST FERMÉ.")
    ]


@pytest.mark.parametrize("encoding", [*TEXTS])
def test_the_lines_around_are_read_in_the_same_encoding(
    tree: Path, write: Write, encoding: str
) -> None:
    text = TEXTS[encoding]
    write("a.txt", text.encode(encoding))
    lines = text.splitlines()
    assert lines_around(str(tree / "a.txt"), [2], 1, 1) == {
        number: line for number, line in enumerate(lines, start=1) if number in {1, 3}
    }
