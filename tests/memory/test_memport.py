"""The document of the import processor: each of its statements, and its examples word for word."""

from itertools import pairwise
from pathlib import Path

import pytest

from alhena.memory import MemoryFile
from alhena.memory.files import MemoryKind, find_project_root, format_trees
from alhena.memory.imports import MAX_DEPTH, validate_import_path
from tests.memory.kit import import_file, put


@pytest.mark.requirement("MEM-02")
def test_the_syntax_example_imports_both_files_where_they_are_named(project: Path):
    main = """\
# Main GEMINI.md file

This is the main content.

@./components/instructions.md

More content here.

@./shared/configuration.md
"""
    put(project, "components/instructions.md", "Do this.")
    put(project, "shared/configuration.md", "Tabs.")
    result = import_file(put(project, "GEMINI.md", main))
    assert (
        result.content
        == """\
# Main GEMINI.md file

This is the main content.

<!-- Imported from: ./components/instructions.md -->
Do this.
<!-- End of import from: ./components/instructions.md -->

More content here.

<!-- Imported from: ./shared/configuration.md -->
Tabs.
<!-- End of import from: ./shared/configuration.md -->
"""
    )
    assert result.problems == ()


@pytest.mark.requirement("MEM-02")
@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("./file.md", "docs/file.md"),
        ("../file.md", "file.md"),
        ("./components/file.md", "docs/components/file.md"),
        ("file.md", "docs/file.md"),
    ],
)
def test_relative_paths_start_at_the_file_that_imports(project: Path, name: str, place: str):
    (project / ".git").mkdir()
    put(project, place, "found it")
    result = import_file(put(project, "docs/GEMINI.md", f"@{name}\n"))
    assert result.content == (
        f"<!-- Imported from: {name} -->\nfound it\n<!-- End of import from: {name} -->\n"
    )
    assert result.import_tree.imports == (MemoryFile(str(project / place)),)


@pytest.mark.requirement("MEM-02")
def test_absolute_paths_are_taken_as_they_are(project: Path):
    path = put(project, "absolute/path/to/file.md", "there")
    result = import_file(put(project, "GEMINI.md", f"@{path}"))
    assert result.content == (
        f"<!-- Imported from: {path} -->\nthere\n<!-- End of import from: {path} -->"
    )


@pytest.mark.requirement("MEM-02")
def test_the_basic_import_example(project: Path):
    text = "# My GEMINI.md\n\nWelcome to my project!\n\n@./get-started.md\n\n## Features\n\n@./features/overview.md\n"
    put(project, "get-started.md", "Start.")
    put(project, "features/overview.md", "Many.")
    content = import_file(put(project, "GEMINI.md", text)).content
    assert content.startswith("# My GEMINI.md\n\nWelcome to my project!\n\n<!-- Imported from")
    assert (
        content.index("\nStart.\n") < content.index("\n## Features\n") < content.index("\nMany.\n")
    )
    assert "@" not in content


@pytest.mark.requirement("MEM-02")
def test_the_nested_example_imports_several_files_of_one_line_and_what_they_import(project: Path):
    put(project, "header.md", "# header.md\n\n# Project Header\n\n@./shared/title.md\n")
    put(project, "shared/title.md", "The Title")
    put(project, "content.md", "The Content")
    put(project, "footer.md", "The Footer")
    main = put(project, "main.md", "# main.md\n\n@./header.md @./content.md @./footer.md\n")
    result = import_file(main)
    order = [result.content.index(word) for word in
             ("# Project Header", "The Title", "The Content", "The Footer")]  # fmt: skip
    assert order == sorted(order)
    assert result.import_tree == MemoryFile(
        str(main),
        (
            MemoryFile(str(project / "header.md"), (MemoryFile(str(project / "shared/title.md")),)),
            MemoryFile(str(project / "content.md")),
            MemoryFile(str(project / "footer.md")),
        ),
    )


@pytest.mark.requirement("MEM-03")
def test_the_circular_example_is_detected_prevented_and_said(project: Path):
    a = put(project, "file-a.md", "# file-a.md\n\n@./file-b.md\n")
    put(
        project,
        "file-b.md",
        "# file-b.md\n\n@./file-a.md <!-- This will be detected and prevented -->\n",
    )
    result = import_file(a)
    assert "<!-- File already processed: ./file-a.md --> <!-- This will be" in result.content
    assert result.content.count("# file-a.md") == 1
    assert [line.partition(": ")[2] for line in result.problems] == [
        "File already processed: ./file-a.md (circular import)"
    ]
    assert result.import_tree == MemoryFile(str(a), (MemoryFile(str(project / "file-b.md")),))


@pytest.mark.requirement("MEM-04")
def test_imports_come_only_from_the_allowed_directories(tmp_path: Path, project: Path):
    (project / ".git").mkdir()
    put(tmp_path, "secret.md", "SECRET")
    result = import_file(put(project, "GEMINI.md", "@../secret.md and on\n"))
    assert (
        result.content == "<!-- Import failed: ../secret.md - Path traversal attempt --> and on\n"
    )
    assert result.import_tree == MemoryFile(str(project / "GEMINI.md"))
    allowed = import_file(project / "GEMINI.md", tmp_path)
    assert "SECRET" in allowed.content


@pytest.mark.requirement("MEM-03")
def test_imports_go_five_levels_deep_unless_something_else_is_said(project: Path):
    for level in range(9):
        put(project, f"{level}.md", f"level {level}\n@./{level + 1}.md")
    result = import_file(project / "0.md")
    assert MAX_DEPTH == 5
    assert "level 5\n@./6.md" in result.content
    assert "level 6" not in result.content
    assert "5 levels" in result.problems[0]
    assert "level 2" in import_file(project / "0.md", max_depth=2).content
    assert "level 3" not in import_file(project / "0.md", max_depth=2).content
    assert import_file(project / "0.md", max_depth=0).content == "level 0\n@./1.md"


@pytest.mark.requirement("MEM-04")
def test_a_missing_file_leaves_an_error_comment(project: Path):
    result = import_file(put(project, "GEMINI.md", "a @./none.md b"))
    reason = "ENOENT: no such file or directory"
    assert result.content == f"a <!-- Import failed: ./none.md - {reason} --> b"
    assert len(result.problems) == 1


@pytest.mark.requirement("MEM-06")
def test_the_example_tree_is_printed_as_in_the_document(project: Path):
    chain = ["a", "b", "c", "d", "e", "f"]
    for name, following in pairwise(chain):
        put(project, f"{name}.md", f"@./{following}.md\n")
    put(project, "f.md", "the end")
    put(project, "included.md", "also")
    root = put(project, "GEMINI.md", "@./a.md\n\n@./included.md\n")
    tree = import_file(root, max_depth=6).import_tree
    assert (
        format_trees([(MemoryKind.PROJECT, tree)], str(project))
        == """\
Memory Files
 L project: GEMINI.md
            L a.md
              L b.md
                L c.md
                  L d.md
                    L e.md
                      L f.md
            L included.md"""
    )


@pytest.mark.requirement("MEM-06")
def test_the_flat_form_is_one_linear_document_with_marked_boundaries(project: Path):
    put(project, "b.md", "text of b\n@./c.md\n")
    put(project, "c.md", "text of c\n")
    root = put(project, "GEMINI.md", "top\n@./b.md\n@./c.md\n@./b.md\n")
    result = import_file(root, format="flat")
    blocks = [
        f"--- File: {project / name} ---\n{text}\n--- End of File: {project / name} ---"
        for name, text in (
            ("GEMINI.md", "top\n@./b.md\n@./c.md\n@./b.md"),
            ("b.md", "text of b\n@./c.md"),
            ("c.md", "text of c"),
        )
    ]
    assert result.content == "\n\n".join(blocks)
    assert format_trees([(MemoryKind.PROJECT, result.import_tree)], str(project)).splitlines()[1:] == [
        " L project: GEMINI.md", "            L b.md", "              L c.md"
    ]  # fmt: skip


@pytest.mark.requirement("MEM-06")
def test_the_flat_form_says_what_could_not_be_imported(project: Path):
    put(project, "b.md", "@./GEMINI.md\n")
    root = put(project, "GEMINI.md", "@./b.md @./none.md\n")
    content = import_file(root, format="flat").content
    assert "<!-- File already processed: ./GEMINI.md -->" in content
    assert "<!-- Import failed: ./none.md - ENOENT" in content
    assert content.count("--- File: ") == 2


def test_the_tree_names_the_files(project: Path):
    root = put(project, "GEMINI.md", "@./x.md")
    put(project, "x.md", "X")
    result = import_file(root)
    assert "\nX\n" in result.content
    assert result.import_tree.imports == (MemoryFile(str(project / "x.md")),)
    assert result.import_tree.plain() == {
        "path": str(root), "imports": [{"path": str(project / "x.md")}]
    }  # fmt: skip


def test_debugging_tells_each_step(project: Path):
    root = put(project, "GEMINI.md", "@./x.md")
    put(project, "x.md", "@./none.md @someone")
    lines: list[str] = []
    import_file(root, log=lines.append)
    assert lines == [
        f"{root}: @./x.md is {project / 'x.md'}",
        f"{project / 'x.md'}: @someone is no import",
        f"{project / 'x.md'}: Import failed: ./none.md - ENOENT: no such file or directory",
    ]


@pytest.mark.requirement("MEM-04")
@pytest.mark.parametrize(
    ("import_path", "valid"),
    [
        ("./a.md", True), ("a.md", True), ("sub/../a.md", True), ("../base/a.md", True),
        ("../a.md", False), ("/etc/passwd", False), ("sub/../../a.md", False),
        ("http://h/a.md", False), ("https://h/a.md", False), ("file:///etc/passwd", False),
        ("FILE:a.md", False), ("ftp://h/a.md", False), ("a\0.md", False),
    ],
)  # fmt: skip
def test_validate_import_path_says_whether_a_path_is_inside(
    project: Path, import_path: str, valid: bool
):
    base = project / "base"
    base.mkdir()
    assert validate_import_path(import_path, base, [base]) is valid
    assert not validate_import_path(import_path, base, [])
    assert not validate_import_path(import_path, base, [project / "bas"])


@pytest.mark.requirement("MEM-06")
def test_find_project_root_looks_for_git_upwards_and_else_stays(project: Path):
    deep = project / "a" / "b"
    deep.mkdir(parents=True)
    assert find_project_root(deep) == deep
    (project / ".git").mkdir()
    assert find_project_root(deep) == project
    (project / "a" / ".git").write_text("gitdir: elsewhere", encoding="utf-8")
    assert find_project_root(deep) == project / "a"
    assert find_project_root(deep, ["Makefile"]) == deep
