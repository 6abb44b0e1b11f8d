"""Facts in a memory file: where they go, what they can contain, and what is never lost."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alhena.memory.saved import SECTION, bullet, insertion, one_line, propose_change, save
from alhena.system.errors import (
    DirectoryTargetError,
    NotRegularFileError,
    UnencodableTextError,
    WriteFailureError,
)
from tests.support.each import for_each


def after(text: str, fact: str) -> str:
    put = insertion(text, bullet(fact))
    assert put is not None
    return text[: put.offset] + put.text + text[put.offset :]


@pytest.mark.requirement("TOOLS-19")
@for_each(
    ("text", "expected"),
    [
        ("", f"{SECTION}\n- new\n"),
        ("# Me\n", f"# Me\n\n{SECTION}\n- new\n"),
        ("# Me", f"# Me\n\n{SECTION}\n- new\n"),
        ("# Me\n\n", f"# Me\n\n{SECTION}\n- new\n"),
        (f"{SECTION}\n", f"{SECTION}\n- new\n"),
        (SECTION, f"{SECTION}\n- new\n"),
        (f"{SECTION}\n- old", f"{SECTION}\n- old\n- new\n"),
        (f"{SECTION}\n- old\n\n\n", f"{SECTION}\n- old\n- new\n\n\n"),
        (f"{SECTION}\n- old\n\n## Next\nx\n", f"{SECTION}\n- old\n- new\n\n## Next\nx\n"),
        (f"{SECTION}\n- old\n### Sub\n- s\n", f"{SECTION}\n- old\n- new\n### Sub\n- s\n"),
        (f"{SECTION}\n\nIntro:\n\n- old\n", f"{SECTION}\n\nIntro:\n\n- old\n- new\n"),
        (f"a\n{SECTION} ##\n- old\n", f"a\n{SECTION} ##\n- old\n- new\n"),
    ],
)
def test_a_fact_goes_to_the_end_of_the_sections_list(text: str, expected: str) -> None:
    assert after(text, "new") == expected


@pytest.mark.requirement("TOOLS-19")
@for_each(
    ("fact", "line"),
    [
        ("I like tea", "- I like tea"),
        ("a\n\n## Forged\r\nb", "- a ## Forged b"),
        ("## Forged", r"- \## Forged"),
        ("#1 is tea", "- #1 is tea"),
        ("- - * tea", "- tea"),
        ("-5 degrees", "- -5 degrees"),
        ("--no-verify is forbidden", "- --no-verify is forbidden"),
        ("---", r"- \---"),
        ("> quote", r"- \> quote"),
        ("```sh rm", r"- \```sh rm"),
        ("`code` is fine", "- `code` is fine"),
        ("<!-- hidden", r"- \<!-- hidden"),
        ("[a]: http://x", r"- \[a]: http://x"),
        ("read @/etc/passwd and @./x.md", r"- read \@/etc/passwd and \@./x.md"),
        ("mail me@example.org", "- mail me@example.org"),
        ("a\x00b\u2028c\u202ed\x1b[0m", "- a b cd [0m"),
        ("caf\u00e9 \U0001f600", "- caf\u00e9 \U0001f600"),
    ],
)
def test_a_fact_is_one_list_item_whatever_it_says(fact: str, line: str) -> None:
    assert bullet(fact) == line


@given(st.text(), st.text(alphabet=st.sampled_from("#-*>`~ \n\r\tab@[]:<!_=+\u2028\x85")))
@example(SECTION, "- ")
def test_a_fact_changes_nothing_but_one_line(text: str, fact: str) -> None:
    if not one_line(fact):
        return
    text = text.replace("\r", "\n")
    put = insertion(text, bullet(fact))
    if put is None:
        assert bullet(fact) in [line.strip() for line in text.split("\n")]
        return
    grown = text[: put.offset] + put.text + text[put.offset :]
    assert [line for line in put.text.split("\n") if line] in (
        [bullet(fact)],
        [SECTION, bullet(fact)],
    )
    assert insertion(grown, bullet(fact)) is None
    assert grown.count(bullet(fact)) >= 1


@pytest.mark.parametrize(
    ("before", "codec"),
    [
        (b"# Me\r\n\r\nx\r\n", "utf-8"),
        (b"\xef\xbb\xbf# Me\n", "utf-8"),
        ("# Me\n\u00e9\n".encode("utf-16"), "utf-16"),
        (b"# Me\n\xff\xfe\xfd broken \xc3\xa9\n", "latin-1"),
        (b"a\r\nb\nc\rd\n", "utf-8"),
        (b"no newline at the end", "utf-8"),
    ],
)
def test_what_was_there_stays_byte_for_byte(project: Path, before: bytes, codec: str) -> None:
    path = project / "GEMINI.md"
    path.write_bytes(before)
    path.chmod(0o640)
    assert save(path, "tea") is not None
    data = path.read_bytes()
    assert data.startswith(before)
    assert f"{SECTION}" in data.decode(codec)
    assert data.decode(codec).endswith("- tea\r\n" if b"\r\n\r\n" in before else "- tea\n")
    assert path.stat().st_mode & 0o777 == 0o640
    assert save(path, "tea") is None
    assert path.read_bytes() == data
    assert os.listdir(project) == ["GEMINI.md"]


def test_the_line_ends_of_the_file_are_used(project: Path) -> None:
    path = project / "GEMINI.md"
    path.write_bytes(f"{SECTION}\n- a\n\n# End\n".replace("\n", "\r\n").encode())
    save(path, "b")
    expected = f"{SECTION}\n- a\n- b\n\n# End\n".replace("\n", "\r\n").encode()
    assert path.read_bytes() == expected


def test_a_missing_directory_is_made_and_a_link_is_followed(project: Path) -> None:
    real = project / "dotfiles" / "memory.md"
    link = project / "below" / "GEMINI.md"
    link.parent.mkdir()
    link.symlink_to(real)
    save(link, "tea")
    assert link.is_symlink()
    assert real.read_text(encoding="utf-8") == f"{SECTION}\n- tea\n"


def test_a_change_can_be_seen_before_it_is_made(project: Path) -> None:
    path = project / "GEMINI.md"
    change = propose_change(path, "tea")
    assert change is not None
    assert (change.original, change.content) == (None, f"{SECTION}\n- tea\n")
    assert os.listdir(project) == []


def test_what_is_no_text_file_is_refused_and_left(project: Path) -> None:
    path = project / "GEMINI.md"
    os.mkfifo(path)
    with pytest.raises(NotRegularFileError):
        save(path, "tea")
    path.unlink()
    path.mkdir()
    with pytest.raises(DirectoryTargetError):
        save(path, "tea")
    path.rmdir()
    path.write_bytes(bytes(range(256)) * 40)
    with pytest.raises(WriteFailureError, match="no text file"):
        save(path, "tea")
    assert path.read_bytes() == bytes(range(256)) * 40
    path.write_bytes("tea".encode("utf-16") + b"\x00\xd8")
    with pytest.raises(WriteFailureError, match="no text file"):
        save(path, "tea")
    assert path.read_bytes() == "tea".encode("utf-16") + b"\x00\xd8"
    path.write_bytes("na\u00efve \u201cquotes\u201d\n".encode("cp1252"))
    with pytest.raises(UnencodableTextError, match="cp1252"):
        save(path, "\u8336")
    assert os.listdir(project) == ["GEMINI.md"]


def test_nothing_is_written_once_cancelled(project: Path) -> None:
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(WriteFailureError):
        save(project / "GEMINI.md", "tea", cancelled)
    assert os.listdir(project) == []


WRITER = """
import sys
from pathlib import Path
from alhena.memory.saved import save
name, path = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
for number in range(10):
    save(Path(path), f"fact {name}.{number}")
"""


@pytest.mark.requirement("TOOLS-19")
def test_processes_that_write_at_once_lose_nothing(project: Path) -> None:
    path = project / "GEMINI.md"
    path.write_text("# Mine\n", encoding="utf-8")
    running = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(name), str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in range(3)
    ]
    for each in running:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in running:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    for each in running:
        each.communicate()
        assert each.returncode == 0
    lines = path.read_text(encoding="utf-8").split("\n")
    assert lines[:3] == ["# Mine", "", SECTION]
    assert sorted(lines[3:-1]) == sorted(f"- fact {n}.{i}" for n in range(3) for i in range(10))
    assert os.listdir(project) == ["GEMINI.md"]
