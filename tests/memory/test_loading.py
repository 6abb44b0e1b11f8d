"""Imports and what may be on a disk: links out, FIFOs, odd encodings, huge files, odd names."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.memory import FILE_LIMIT, ImportLimits, read_memory
from alhena.memory.imports import PARSE_LIMIT, ImportLoader, ImportSource, Refused, expand
from alhena.system.errors import FilePermissionError, FileTooLargeError
from tests.memory.kit import import_file, put


def of(project: Path, text: str, **options: object) -> str:
    """Memory text of a project whose GEMINI.md has this content."""
    return import_file(put(project, "GEMINI.md", text), **options).content


@pytest.mark.requirement("MEM-04")
@pytest.mark.parametrize(
    "name", ["https://h/a.md", "http://h/a", "file:///etc/passwd", "ftp://h/x.md"]
)
def test_urls_are_refused(project: Path, name: str):
    assert of(project, f"@{name}") == f"<!-- Import failed: {name} - URLs are not imported -->"


@pytest.mark.requirement("MEM-04")
def test_a_symlink_out_of_the_project_is_refused_whatever_it_leads_to(
    tmp_path: Path, project: Path
):
    put(tmp_path, "secret.md", "SECRET")
    (project / "link.md").symlink_to(tmp_path / "secret.md")
    (project / "nothing.md").symlink_to(tmp_path / "no-such.md")
    (project / "out").symlink_to(tmp_path)
    content = of(project, "@./link.md @./nothing.md @./out/secret.md @./out/none.md")
    assert content == " ".join(
        f"<!-- Import failed: {name} - Path traversal attempt -->"
        for name in ("./link.md", "./nothing.md", "./out/secret.md", "./out/none.md")
    )


def test_a_symlink_inside_the_project_is_followed_and_its_imports_start_where_it_leads(
    project: Path,
):
    put(project, "docs/real.md", "real @./beside.md")
    put(project, "docs/beside.md", "BESIDE")
    (project / "link.md").symlink_to("docs/real.md")
    assert "BESIDE" in of(project, "@./link.md")


@pytest.mark.requirement("MEM-03")
def test_a_circle_through_links_is_one_all_the_same(project: Path):
    root = put(project, "GEMINI.md", "top @./soft.md @./hard.md")
    (project / "soft.md").symlink_to("GEMINI.md")
    os.link(root, project / "hard.md")
    content = import_file(root).content
    assert content == (
        "top <!-- File already processed: ./soft.md --> <!-- File already processed: ./hard.md -->"
    )


@pytest.mark.requirement("MEM-04")
def test_what_is_no_readable_text_leaves_a_comment_and_blocks_nothing(project: Path):
    os.mkfifo(project / "fifo.md")
    (project / "folder.md").mkdir()
    (project / "loop.md").symlink_to("loop.md")
    (project / "binary.md").write_bytes(b"\0\1\2" * 1000)
    with open(project / "huge.md", "wb") as file:
        file.truncate(FILE_LIMIT + 1)
    content = of(project, "@./fifo.md @./folder.md @./loop.md @./binary.md @./huge.md")
    reasons = ("not a regular file", "EISDIR: it is a directory", "not a regular file",
               "it cannot be read as text", "too large, by itself or with all others")  # fmt: skip
    names = ("fifo", "folder", "loop", "binary", "huge")
    assert content == " ".join(
        f"<!-- Import failed: ./{name}.md - {reason} -->"
        for name, reason in zip(names, reasons, strict=True)
    )


@pytest.mark.requirement("MEM-04")
@pytest.mark.skipif(os.geteuid() == 0 or sys.platform == "win32", reason="root may read anything")
def test_a_file_without_permission_leaves_a_comment(project: Path):
    put(project, "x.md", "X").chmod(0)
    assert of(project, "@./x.md") == "<!-- Import failed: ./x.md - EACCES: permission denied -->"


@pytest.mark.parametrize(
    ("encoding", "text"),
    [("utf-8-sig", "Käse"), ("utf-16", "Käse\n" * 9), ("latin-1", "Käse und Brot\n")],
)  # fmt: skip
def test_files_in_other_encodings_are_read_as_their_text(project: Path, encoding: str, text: str):
    (project / "x.md").write_bytes(text.encode(encoding))
    assert f"\n{text}\n" in of(project, "@./x.md")


def test_line_ends_come_as_line_feeds(project: Path):
    (project / "x.md").write_bytes(b"a\r\nb\r\n@./y.md\r\n")
    put(project, "y.md", "Y")
    assert "\nY\n" in of(project, "@./x.md")
    assert "\r" not in of(project, "@./x.md")


def test_what_stands_behind_a_path_in_a_sentence_is_no_part_of_it(project: Path):
    put(project, "x.md", "X")
    framed = "<!-- Imported from: ./x.md -->\nX\n<!-- End of import from: ./x.md -->"
    for text in (
        "See @./x.md, and",
        "(see @./x.md)",
        "See @./x.md.",
        "@./x.md<br>",
        "@./x.md<!-- n -->",
    ):
        assert of(project, text) == text.replace("@./x.md", framed)
    put(project, "y.md,", "with a comma")
    assert "with a comma" in of(project, "@./y.md,")


@pytest.mark.parametrize(
    "text", ["@someone", "@types/node", "@org/team", "@1.2.3", "@...", "@./", "@..", "@tests"]
)
def test_a_mention_is_no_import(project: Path, text: str):
    (project / "tests").mkdir()
    assert of(project, f"thanks to {text} for it") == f"thanks to {text} for it"


def test_a_bare_name_that_is_a_file_or_ends_like_one_is_an_import(project: Path):
    put(project, "Makefile", "all:")
    assert "\nall:\n" in of(project, "@Makefile")
    assert "Import failed: rules.md - ENOENT" in of(project, "@rules.md")


def test_a_name_cannot_end_the_comment_it_is_told_in(project: Path):
    content = of(project, "@./a-->b.md")
    assert content == "<!-- Import failed: ./a--&gt;b.md - ENOENT: no such file or directory -->"
    assert "\x1b" not in of(project, "@./\x1b[31m.md")


@pytest.mark.requirement("MEM-04")
def test_the_number_of_imports_is_bounded_however_they_multiply(project: Path):
    for level in range(5):
        put(project, f"{level}.md", f"@./{level + 1}.md " * 20)
    put(project, "5.md", "leaf")
    limits = ImportLimits(imports=100)
    result = import_file(project / "0.md", limits=limits)
    assert result.content.count("Imported from") == 100
    assert "more than 500 imports" in result.content


def test_the_size_of_all_imports_together_is_bounded(project: Path):
    put(project, "big.md", "x" * 1000)
    result = import_file(
        put(project, "GEMINI.md", "@./big.md " * 9), limits=ImportLimits(total=3_500)
    )
    assert result.content.count("x" * 1000) == 3
    assert result.content.count("too large") == 6


def test_one_file_past_the_limit_is_not_read(project: Path):
    path = put(project, "GEMINI.md", "x" * (FILE_LIMIT + 1))
    with pytest.raises(FileTooLargeError, match="is too large"):
        read_memory(path, [project], ImportLimits())
    with pytest.raises(FilePermissionError, match="outside the directories"):
        read_memory(path, [project / "sub"], ImportLimits())


def test_a_text_too_large_to_parse_stays_as_it_is_and_that_is_said(project: Path):
    put(project, "x.md", "X")
    text = "@./x.md\n" + "word\n" * (PARSE_LIMIT // 5)
    result = import_file(put(project, "GEMINI.md", text))
    assert result.content == text
    assert "too much text to parse" in result.problems[0]
    harmless = "@someone\n" * (PARSE_LIMIT // 5)
    assert import_file(put(project, "GEMINI.md", harmless)).problems == ()


def test_all_texts_that_are_parsed_are_bounded_together(project: Path):
    put(project, "leaf.md", "LEAF")
    filler = "word\n" * (PARSE_LIMIT // 10 - 20)
    for number in range(9):
        put(project, f"{number}.md", f"@./leaf.md\n{filler}")
    result = import_file(put(project, "GEMINI.md", "".join(f"@./{n}.md\n" for n in range(9))))
    assert result.content.count("LEAF") == 2
    assert len(result.problems) == 7


NAMES = ["a", "b", "c", "d"]


@given(
    st.dictionaries(
        st.sampled_from(NAMES), st.lists(st.sampled_from([*NAMES, "none"]), max_size=4)
    ),
    st.integers(0, 6),
    st.sampled_from(["tree", "flat"]),
)
def test_whatever_files_import_it_ends_and_every_file_is_framed(
    graph: dict[str, list[str]], depth: int, form: str
):
    def source(name: str) -> ImportSource:
        text = " ".join(f"@./{other}" for other in graph.get(name, ()))
        return ImportSource(f"/{name}", "/", f"[{name}] {text}", name)

    class Files(ImportLoader):
        def named(self, written: str, base: str) -> str | None:
            return written

        def load(self, name: str, base: str) -> ImportSource | Refused:
            assert base == "/"
            name = name.removeprefix("./")
            return Refused("gone") if name == "none" else source(name)

    result = expand(source("a"), Files((), ImportLimits()), format=form, max_depth=depth)
    opened = result.content.count("<!-- Imported from: ")
    assert opened == result.content.count("<!-- End of import from: ")

    def nodes(tree: object, level: int = 0) -> int:
        assert level <= depth
        return 1 + sum(nodes(each, level + 1) for each in tree.imports)

    count = nodes(result.import_tree)
    if form == "tree":
        assert opened == count - 1
    else:
        assert result.content.count("--- File: ") == count <= len(NAMES)
        paths = [line for line in result.content.splitlines() if line.startswith("--- File")]
        assert len(set(paths)) == len(paths)
