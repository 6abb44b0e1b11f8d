"""Reading the texts that tools return."""

from hypothesis import given
from hypothesis import strategies as st

from alhena.models.rehearsal.results import (
    FileText,
    Match,
    command_result,
    count_found,
    file_text,
    listing,
    matches,
    paths,
)


def test_a_listing_gives_folders_files_and_sizes() -> None:
    found = listing(
        "Directory listing for /w/x:\n[DIR] src\nREADME.md (12 bytes)\na (b).txt (0 bytes)\n\n(3 ignored)"
    )
    assert found.root == "/w/x"
    assert found.folders == ("src",)
    assert found.files == (("README.md", 12), ("a (b).txt", 0))


def test_an_empty_folder_has_a_place_and_no_entries() -> None:
    found = listing("Directory /w/x is empty.")
    assert (found.root, found.folders, found.files) == ("/w/x", (), ())


def test_found_paths_are_relative_to_the_folder_searched() -> None:
    text = (
        'Found 2 file(s) matching "**/*.py" within /w (3 additional files were ignored), sorted by '
        "modification time (newest first):\n/w/a.py\n/w/src/b.py\n\n(cut off)"
    )
    assert paths(text) == ("a.py", "src/b.py")
    assert paths('Found 1 file(s) matching "*" across 2 workspace directories:\n/v/a') == ("/v/a",)
    assert paths('No files found matching pattern "*.x" within /w') == ()


def test_found_paths_are_read_from_a_result_whose_middle_was_left_out() -> None:
    head = "Output too large. Showing first 8 and last 9 characters. For full output see: /t/a.txt"
    text = (
        f'{head}\nFound 1064 file(s) matching "*" within /w, sorted by x:\n/w/a.py\n/w/b.py\nz.py'
    )
    assert paths(text) == ("a.py", "b.py")
    assert count_found(text) == 1064
    assert count_found('No files found matching pattern "*.x" within /w') == 0


def test_matches_keep_file_line_and_text() -> None:
    text = (
        'Found 3 matches for pattern "x" in path ".":\n---\nFile: a.py\nL1: x = 1\nL22:   x\n---\n'
        "File: b c.py\nL3: L4: x\n---\n"
    )
    assert matches(text) == (
        Match("a.py", 1, "x = 1"),
        Match("a.py", 22, "  x"),
        Match("b c.py", 3, "L4: x"),
    )
    assert matches('No matches found for pattern "x" in path ".".') == ()


def test_a_part_of_a_file_knows_how_long_the_whole_is() -> None:
    text = (
        "\nIMPORTANT: The file content has been truncated.\nStatus: Showing lines 1-2 of 9 total "
        "lines.\nAction: read on.\n\n--- FILE CONTENT (truncated) ---\na\nb\n"
    )
    assert file_text(text) == FileText("a\nb\n", 2, 9)
    assert file_text(text).lines == 9


def test_a_note_on_the_encoding_is_no_part_of_the_file() -> None:
    text = "NOTE: The file is not valid UTF-8.\n\n--- FILE CONTENT ---\ncaf\u00e9\n"
    assert file_text(text) == FileText("caf\u00e9\n")


def test_a_file_that_quotes_the_header_is_still_whole() -> None:
    text = "about read_file:\n--- FILE CONTENT (truncated) ---\nrest\n"
    assert file_text(text) == FileText(text)


def test_labels_in_a_commands_output_are_not_taken_for_its_result() -> None:
    found = command_result(
        "Command: x\nDirectory: (root)\nOutput: one\nError: two\nExit Code: 7\nthree\n"
        "Error: (none)\nExit Code: 0\nSignal: (none)\nBackground PIDs: (none)\nProcess Group PGID: 5"
    )
    assert found.output == "one\nError: two\nExit Code: 7\nthree"
    assert (found.error, found.exit_code, found.signal) == ("", "0", "")


def test_a_command_ended_by_a_signal_names_it() -> None:
    found = command_result(
        "Command: x\nDirectory: a\nOutput: (empty)\nError: (none)\nExit Code: (none)\nSignal: 9"
    )
    assert (found.output, found.exit_code, found.signal) == ("", "(none)", "9")


@given(st.text())
def test_any_text_can_be_read_as_any_result(text: str) -> None:
    assert listing(text).files is not None
    assert isinstance(paths(text), tuple)
    assert isinstance(matches(text), tuple)
    assert file_text(text).lines >= 0
    assert command_result(text).output is not None
