import base64
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.system.encoding import window_of_bytes
from alhena.system.workspace import Workspace
from alhena.tools.builtin.read_file import ReadFile
from alhena.tools.contract import ExecutionContext, ToolFailure
from alhena.tools.reading import FILE_LIMIT
from alhena.wire.content import Part
from tests.support.media import GIF, JPEG, mp4, pdf, png
from tests.tools.files import call, failure_type, text_of, unprivileged

PNG = png(bytes(range(256)))


@pytest.fixture
def read(project: Path) -> ReadFile:
    return ReadFile(Workspace(project))


@pytest.mark.requirement("TOOLS-01")
def test_the_declaration_names_the_parameters_of_the_wire(read: ReadFile) -> None:
    declared = read.declaration()
    assert declared.name == "read_file"
    assert declared.parameters_json_schema is not None
    assert list(declared.parameters_json_schema["properties"]) == [
        "absolute_path",
        "offset",
        "limit",
    ]
    assert declared.parameters_json_schema["required"] == ["absolute_path"]
    assert "`offset`" in declared.description


@pytest.mark.requirement("TOOLS-08")
async def test_a_small_file_comes_back_as_it_is(read: ReadFile, project: Path) -> None:
    (project / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    for path in ("a.txt", str(project / "a.txt"), "./x/../a.txt", "@a.txt"):
        assert text_of(await call(read, absolute_path=path)) == "one\ntwo\n"
    assert text_of(await call(read, file_path="a.txt")) == "one\ntwo\n"


@pytest.mark.requirement("TOOLS-08")
async def test_a_long_file_is_cut_and_says_where_to_go_on(read: ReadFile, project: Path) -> None:
    (project / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 5001)), encoding="utf-8")
    text = text_of(await call(read, absolute_path="a.txt"))
    header, content = text.split("--- FILE CONTENT (truncated) ---\n")
    assert "Status: Showing lines 1-2000 of 5000 total lines." in header
    assert "use offset: 2000." in header
    assert content.split("\n")[0] == "line 1"
    assert content.split("\n")[-1] == "line 2000"
    following = text_of(await call(read, absolute_path="a.txt", offset=2000, limit=2))
    assert "Showing lines 2001-2002 of 5000" in following
    assert following.endswith("---\nline 2001\nline 2002")


async def test_start_and_end_line_count_from_one_and_include_the_end(
    read: ReadFile, project: Path
) -> None:
    (project / "a.txt").write_text("a\nb\nc\nd\n", encoding="utf-8")
    text = text_of(await call(read, file_path="a.txt", start_line=2, end_line=3))
    assert "Showing lines 2-3 of 4" in text
    assert text.endswith("---\nb\nc")


@pytest.mark.requirement("TOOLS-08")
async def test_a_range_up_to_the_end_keeps_the_final_newline(read: ReadFile, project: Path) -> None:
    (project / "a.txt").write_text("a\nb\nc\n", encoding="utf-8")
    text = text_of(await call(read, absolute_path="a.txt", offset=1, limit=5))
    assert text.endswith("---\nb\nc\n")
    assert "This is the end of the file" in text


@pytest.mark.requirement("TOOLS-08")
async def test_long_lines_are_cut_at_2000_characters(read: ReadFile, project: Path) -> None:
    (project / "a.txt").write_text("é" * 2001 + "\n" + "x" * 2000 + "\n", encoding="utf-8")
    text = text_of(await call(read, absolute_path="a.txt"))
    assert "é" * 2000 + "... [truncated]\n" + "x" * 2000 + "\n" in text
    assert "Lines longer than 2000 characters were cut: 1" in text


@pytest.mark.requirement("TOOLS-08")
async def test_past_the_end_names_the_number_of_lines(read: ReadFile, project: Path) -> None:
    (project / "a.txt").write_text("a\nb", encoding="utf-8")
    text = text_of(await call(read, absolute_path="a.txt", offset=2))
    assert text == "The file a.txt has 2 lines; offset 2 is past its end. Use an offset below 2."


@pytest.mark.requirement("TOOLS-08")
async def test_an_empty_file_has_no_line_to_begin_at(read: ReadFile, project: Path) -> None:
    (project / "a.txt").touch()
    text = text_of(await call(read, absolute_path="a.txt", offset=5, limit=2))
    assert text == "The file a.txt is empty: there is no line at offset 5."


async def test_an_empty_file_is_empty_text(read: ReadFile, project: Path) -> None:
    (project / "a.txt").touch()
    assert text_of(await call(read, absolute_path="a.txt")) == ""


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\xef\xbb\xbfa\r\nb\r\n", "a\nb\n"),
        ("\ufeffé\r\n漢\n".encode("utf-16-le"), "é\n漢\n"),
        ("\ufeffé\n".encode("utf-16-be"), "é\n"),
        ("\ufeffé\n".encode("utf-32-le"), "é\n"),
        (b"progress 1\rprogress 2\n", "progress 1\rprogress 2\n"),
        (b"<svg xmlns='x'/>", "<svg xmlns='x'/>"),
    ],
)
async def test_encodings_and_line_ends_come_as_plain_text(
    read: ReadFile, project: Path, data: bytes, expected: str
) -> None:
    (project / "a.svg").write_bytes(data)
    assert text_of(await call(read, absolute_path="a.svg")) == expected


async def test_invalid_utf8_is_shown_with_replacements_and_a_note(
    read: ReadFile, project: Path
) -> None:
    (project / "a.txt").write_bytes("é ".encode() + b"\xff\n")
    text = text_of(await call(read, absolute_path="a.txt"))
    assert "not valid UTF-8" in text
    assert text.endswith("é \ufffd\n")
    text.encode("utf-8")


async def test_latin_1_is_read_as_such_with_a_note(read: ReadFile, project: Path) -> None:
    (project / "a.txt").write_bytes(b"caf\xe9\n")
    text = text_of(await call(read, absolute_path="a.txt"))
    assert "shown as latin-1" in text
    assert text.endswith("café\n")


@pytest.mark.requirement("TOOLS-08")
@pytest.mark.parametrize(
    ("data", "mime"),
    [
        (PNG, "image/png"),
        (JPEG, "image/jpeg"),
        (GIF, "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\0\0\0\0WAVEfmt ", "audio/wav"),
        (pdf(), "application/pdf"),
        (b"ID3\x04\0\0\0\0\0\0\0\0", "audio/mp3"),
        (b"\xff\xfb\x90\x64" + bytes(20), "audio/mp3"),
        (b"OggS" + bytes(20), "audio/ogg"),
        (b"fLaC" + bytes(20), "audio/flac"),
        (b"\xff\xf1\x50\x80" + bytes(20), "audio/aac"),
        (b"FORM\0\0\0\0AIFFCOMM", "audio/aiff"),
        (mp4(), "video/mp4"),
        (mp4(b"qt  "), "video/quicktime"),
        (b"\x1aE\xdf\xa3\x9fB\x86\x81\x01B\x82\x84webm", "video/webm"),
        (b"\0\0\x01\xba" + bytes(20), "video/mpeg"),
    ],
)
async def test_media_come_as_inline_data_whatever_their_name(
    read: ReadFile, project: Path, data: bytes, mime: str
) -> None:
    (project / "file.txt").write_bytes(data)
    part = (await call(read, absolute_path="file.txt")).llm_content
    assert isinstance(part, Part)
    assert part.inline_data is not None
    assert part.inline_data.mime_type == mime
    assert base64.b64decode(part.inline_data.data) == data


async def test_large_media_are_read_whole(read: ReadFile, project: Path) -> None:
    data = png(os.urandom(3_000_000))
    (project / "a.png").write_bytes(data)
    part = (await call(read, absolute_path="a.png")).llm_content
    assert isinstance(part, Part)
    assert part.inline_data is not None
    assert base64.b64decode(part.inline_data.data) == data


@pytest.mark.requirement("TOOLS-08")
@pytest.mark.parametrize("start", [PNG, b"text\n", b"\0\1\2"])
async def test_a_file_over_the_limit_is_refused_whatever_it_is(
    read: ReadFile, project: Path, start: bytes
) -> None:
    with (project / "a.png").open("wb") as file:
        file.write(start)
        file.truncate(FILE_LIMIT + 1)
    result = await call(read, absolute_path="a.png", limit=1)
    assert failure_type(result) == "file_too_large"
    assert f"20MB limit: it has {FILE_LIMIT + 1} bytes" in text_of(result)


async def test_other_binary_files_are_named_and_not_shown(read: ReadFile, project: Path) -> None:
    (project / "sub").mkdir()
    (project / "sub/a.bin").write_bytes(bytes(range(256)) * 4)
    result = await call(read, absolute_path="sub/a.bin")
    assert text_of(result) == "Cannot display content of binary file: sub/a.bin"
    assert result.error is None


@pytest.mark.requirement("TOOLS-08")
@pytest.mark.parametrize(
    ("path", "type"),
    [
        ("missing.txt", "file_not_found"),
        ("file.txt/below", "file_not_found"),
        ("directory", "target_is_directory"),
        ("fifo", "not_a_regular_file"),
        ("link-to-fifo", "not_a_regular_file"),
        ("socket", "not_a_regular_file"),
        ("../outside.txt", "path_not_in_workspace"),
        ("way-out/outside.txt", "path_not_in_workspace"),
        ("/dev/zero", "path_not_in_workspace"),
        ("loop", "not_a_regular_file"),
        ("x" * 5000, "file_not_found"),
        ("", "invalid_tool_params"),
        ("a\0b", "invalid_tool_params"),
        ("a\ud800b", "invalid_tool_params"),
    ],
)
async def test_what_is_no_readable_file_is_a_typed_failure(
    read: ReadFile, project: Path, path: str, type: str
) -> None:
    (project / "file.txt").touch()
    (project / "directory").mkdir()
    (project.parent / "outside.txt").touch()
    os.mkfifo(project / "fifo")
    (project / "link-to-fifo").symlink_to("fifo")
    (project / "way-out").symlink_to("..")
    (project / "loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        result = await call(read, absolute_path=path)
    assert failure_type(result) == type


async def test_a_device_is_not_read(tmp_path: Path) -> None:
    result = await call(ReadFile(Workspace("/dev")), absolute_path="/dev/zero")
    assert failure_type(result) == "not_a_regular_file"


async def test_a_file_without_permission_is_refused(read: ReadFile, project: Path) -> None:
    (project / "a.txt").write_text("secret", encoding="utf-8")
    (project / "a.txt").chmod(0)
    with unprivileged(project):
        result = await call(read, absolute_path="a.txt")
    assert failure_type(result) == "permission_denied"
    assert "a.txt" in text_of(result)


async def test_a_link_that_turns_outward_after_the_check_is_not_followed(
    read: ReadFile, project: Path
) -> None:
    (project.parent / "secret.txt").write_text("secret", encoding="utf-8")
    (project / "a.txt").write_text("mine", encoding="utf-8")
    built = read.build({"absolute_path": "a.txt"})
    assert not isinstance(built, ToolFailure)
    (project / "a.txt").unlink()
    (project / "a.txt").symlink_to("../secret.txt")
    result = await built.execute(ExecutionContext(project))
    assert failure_type(result) == "path_not_in_workspace"


async def test_the_end_of_a_large_file_is_read(read: ReadFile, project: Path) -> None:
    line = b"0123456789" * 10 + b"\r\n"
    (project / "a.log").write_bytes(line * 200_000)
    text = text_of(await call(read, absolute_path="a.log", offset=199_998, limit=10))
    assert "Showing lines 199999-200000 of 200000" in text
    assert text.endswith(("0123456789" * 10 + "\n") * 2)


async def test_one_endless_line_is_cut(read: ReadFile, project: Path) -> None:
    (project / "a.json").write_bytes(b"x" * 20_000_000)
    text = text_of(await call(read, absolute_path="a.json"))
    assert "Showing lines 1-1 of 1" in text
    assert text.endswith("x" * 2000 + "... [truncated]")


@given(
    text=st.text(alphabet="aé漢 \n", max_size=40),
    offset=st.integers(0, 13),
    limit=st.integers(1, 13),
)
def test_a_window_has_the_lines_from_its_offset(text: str, offset: int, limit: int) -> None:
    window = window_of_bytes(text.encode(), offset, limit)
    lines = text.removesuffix("\n").split("\n") if text else []
    assert window.total == len(lines)
    assert window.lines == lines[offset : offset + limit]
    if window.lines == lines:
        assert window.content() == text


@pytest.mark.requirement("TOOLS-08")
async def test_a_read_ends_with_a_whole_line_below_the_limit_of_a_result(
    read: ReadFile, project: Path
) -> None:
    lines = [f"{number:04}{'x' * 96}" for number in range(1_000)]
    (project / "a.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    seen: list[str] = []
    while len(seen) < 1_000:
        text = text_of(await call(read, absolute_path="a.txt", offset=len(seen), limit=700))
        assert len(text) <= 40_000
        header, _, content = text.partition("--- FILE CONTENT (truncated) ---\n")
        shown = content.splitlines()
        first, last = len(seen) + 1, len(seen) + len(shown)
        assert f"Showing lines {first}-{last} of 1000 total lines." in header
        assert last == 1_000 or f"use offset: {last}." in header
        seen += shown
    assert seen == lines


async def test_a_limit_of_results_is_what_the_session_says(project: Path) -> None:
    (project / "a.txt").write_text("line\n" * 1_000, encoding="utf-8")
    whole = ReadFile(Workspace(project), most_characters=0)
    assert text_of(await call(whole, absolute_path="a.txt")) == "line\n" * 1_000
    small = ReadFile(Workspace(project), most_characters=1_200)
    text = text_of(await call(small, absolute_path="a.txt"))
    assert "Showing lines 1-120 of 1000" in text
    assert text.count("line\n") == 119
    assert len(text) <= 1_200


@pytest.mark.parametrize(("text", "shown"), [("one\n", "1 line"), ("one\ntwo\n", "2 lines")])
async def test_people_are_told_how_many_lines_were_read(
    read: ReadFile, project: Path, text: str, shown: str
) -> None:
    (project / "a.txt").write_text(text, encoding="utf-8")
    assert (await call(read, absolute_path="a.txt")).display == f"Read {shown} from a.txt"
