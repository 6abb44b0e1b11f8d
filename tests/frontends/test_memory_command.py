"""`alhena memory`, and what `alhena -p` reads of memory files."""

import json
from pathlib import Path

import pytest

from tests.memory.kit import put
from tests.memory.test_hierarchy import block
from tests.support.command import alhena, alhena_reads
from tests.support.server import ScriptedServer, sse, text


@pytest.mark.requirement("MEM-01")
def test_show_prints_what_a_session_begins_with_and_where_it_comes_from(home: Path, project: Path):
    mine = put(home, ".gemini/GEMINI.md", "mine")
    ours = put(project, "GEMINI.md", "ours @./x.md")
    put(project, "x.md", "X")
    put(project, "sub/GEMINI.md", "later")
    ran = alhena("memory", "show", "--skip-trust")
    text = "ours <!-- Imported from: ./x.md -->\nX\n<!-- End of import from: ./x.md -->"
    assert (
        ran.out
        == f"""\
{block(mine, "mine")}

{block(ours, text)}

Memory Files
 L global: {mine}
 L project: GEMINI.md
            L x.md

Loaded when a tool uses a path there:
 L sub/GEMINI.md
"""
    )
    assert (ran.code, ran.err) == (0, "")


@pytest.mark.requirement("MEM-01")
@pytest.mark.requirement("MEM-06")
def test_show_as_json_is_content_and_tree(home: Path, project: Path):
    mine = put(home, ".gemini/GEMINI.md", "mine")
    ours = put(project, "GEMINI.md", "ours @./x.md")
    put(project, "x.md", "X")
    shown = alhena("memory", "show", "--json", GEMINI_CLI_TRUST_WORKSPACE="true").json
    assert shown["content"].startswith(block(mine, "mine"))
    assert shown["tree"] == [
        {"kind": "global", "path": str(mine)},
        {"kind": "project", "path": str(ours), "imports": [{"path": str(project / "x.md")}]},
    ]
    assert (shown["trusted"], shown["later"], shown["warnings"]) == (True, [], [])


def test_show_reads_nothing_of_a_folder_nobody_trusts(home: Path, project: Path):
    put(home, ".gemini/GEMINI.md", "mine")
    put(project, "GEMINI.md", "INJECTED")
    put(project, "sub/GEMINI.md", "INJECTED")
    ran = alhena("memory", "show", "--json")
    assert "INJECTED" not in ran.out
    assert "sub" not in ran.out
    assert ran.json["trusted"] is False
    assert "mine" in ran.json["content"]
    assert "not trusted" in ran.err


def test_show_says_when_there_is_nothing():
    assert (
        alhena("memory", "show").out
        == "No memory files. Add a fact with /memory add FACT, or write GEMINI.md.\n"
    )


@pytest.mark.requirement("MEM-02")
@pytest.mark.requirement("MEM-06")
def test_import_gives_content_and_tree(project: Path):
    root = put(project, "main.md", "# Main\n@./a.md `@./a.md`\n")
    put(project, "a.md", "A @./none.md")
    ran = alhena("memory", "import", "main.md", "--json")
    assert ran.json["content"].startswith(
        "# Main\n<!-- Imported from: ./a.md -->\nA <!-- Import failed"
    )
    assert ran.json["content"].endswith("`@./a.md`\n")
    assert ran.json["tree"] == {"path": str(root), "imports": [{"path": str(project / "a.md")}]}
    assert ran.json["problems"] == [
        f"{project / 'a.md'}: Import failed: ./none.md - ENOENT: no such file or directory"
    ]
    printed = alhena("memory", "import", "main.md")
    assert printed.out == ran.json["content"]
    assert "Import failed: ./none.md" in printed.err
    tree = alhena("memory", "import", "main.md", "--tree").out
    assert tree == "Memory Files\n L project: main.md\n            L a.md\n"


def test_import_takes_form_depth_and_further_directories(tmp_path: Path, project: Path):
    put(tmp_path, "shared/s.md", "SHARED")
    put(project, "main.md", "@../shared/s.md @./a.md")
    put(project, "a.md", "A @./b.md")
    put(project, "b.md", "B")
    assert "Path traversal" in alhena("memory", "import", "main.md").out
    assert "SHARED" in alhena("memory", "import", "main.md", "--allow", "../shared").out
    shallow = alhena("memory", "import", "main.md", "--max-depth", "1").out
    assert "A @./b.md" in shallow
    flat = alhena("memory", "import", "main.md", "--format", "flat").out
    assert f"--- File: {project / 'b.md'} ---\nB\n--- End of File" in flat


def test_import_in_debug_mode_tells_each_step(project: Path):
    put(project, "main.md", "@./a.md")
    put(project, "a.md", "A")
    assert f"@./a.md is {project / 'a.md'}" in alhena("memory", "import", "main.md", "--debug").err


def test_import_reads_standard_input_as_a_file_of_this_directory(project: Path):
    put(project, "a.md", "A")
    assert "\nA\n" in alhena_reads(b"@./a.md\n", "memory", "import", "-").out


def test_a_depth_below_nothing_is_an_error_of_the_settings(home: Path, project: Path):
    put(home, ".gemini/settings.json", '{"context": {"maxImportDepth": -1}}')
    ran = alhena("memory", "show")
    assert (ran.code, ran.out) == (52, "")
    assert "context.maxImportDepth" in ran.err
    put(home, ".gemini/settings.json", '{"context": {"maxImportDepth": 0}}')
    put(project, "GEMINI.md", "@./a.md")
    assert "\n@./a.md\n" in alhena("memory", "show", "--skip-trust").out


@pytest.mark.parametrize("name", [".env", ".env.local", "e.md"])
def test_a_file_of_variables_is_not_imported_and_a_warning_says_so(project: Path, name: str):
    put(project, ".env", "KEY=SECRET")
    put(project, ".env.local", "KEY=SECRET")
    (project / "e.md").symlink_to(".env")
    put(project, "GEMINI.md", f"Use @./{name} for it.")
    ran = alhena("memory", "show", "--skip-trust")
    assert "SECRET" not in ran.out + ran.err
    assert f"Import failed: ./{name} - files that may hold secrets" in ran.out
    assert f"warning: memory: {project / 'GEMINI.md'}: Import failed: ./{name}" in ran.err
    assert ran.err.count("files that may hold secrets") == 1
    assert "warning: " in alhena("memory", "import", "GEMINI.md").err


@pytest.mark.parametrize("name", ["none.md", ".", "fifo"])
def test_a_file_that_cannot_be_imported_is_one_line_and_exit_42(project: Path, name: str):
    import os

    os.mkfifo("fifo")
    ran = alhena("memory", "import", name)
    assert (ran.code, ran.out) == (42, "")
    assert ran.err.startswith("alhena: ")
    assert ran.err.count("\n") == 1
    assert ran.err.endswith(" Name a text file, or - for standard input.\n")
    assert "list_directory" not in ran.err


@pytest.mark.parametrize(
    "words",
    [
        ["memory"],
        ["memory", "show", "x"],
        ["memory", "import"],
        ["memory", "lose", "--json"],
        ["memory", "import", "a.md", "--max-depth", "-1"],
        ["memory", "import", "a.md", "--max-depth", "x"],
    ],
)
def test_wrong_words_are_exit_2(words: list[str]):
    ran = alhena(*words)
    assert (ran.code, ran.out) == (2, "")


@pytest.mark.parametrize("trusted", [False, True])
def test_a_run_reads_a_projects_file_only_where_the_folder_is_trusted(
    server: ScriptedServer, home: Path, project: Path, trusted: bool
):
    put(home, ".gemini/GEMINI.md", "of the user")
    put(project, "GEMINI.md", "of the project")
    if trusted:
        put(home, ".gemini/trustedFolders.json", json.dumps({str(project): "TRUST_FOLDER"}))
    server.reply(sse(text("hello")))
    ran = alhena("-p", "hi", "-m", "m", GEMINI_API_KEY="x", GOOGLE_GEMINI_BASE_URL=server.url)
    assert (ran.code, ran.out) == (0, "hello\n")
    body = server.requests[0].json
    assert "of the user" in str(body["systemInstruction"])
    assert ("of the project" in str(body["contents"])) is trusted
