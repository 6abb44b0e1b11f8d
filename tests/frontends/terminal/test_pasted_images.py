"""Images in prompts: by path, by a pasted path, and from the clipboard."""

import base64
import shlex
from pathlib import Path

import pytest

from alhena.frontends.terminal.entry import image_path
from alhena.frontends.terminal.looks.clipboard import read_clipboard
from tests.frontends.terminal.session import ENTER, PLACEHOLDER, at, leave
from tests.support.each import for_each
from tests.support.media import png
from tests.support.server import ScriptedServer, sse, text

IMAGE = png()
CTRL_V = "\x16"


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


def sent_images(server: ScriptedServer, request: int) -> list[bytes]:
    parts = server.requests[request].json["contents"][-1]["parts"]
    blobs = [part["inlineData"] for part in parts if "inlineData" in part]
    assert {each["mimeType"] for each in blobs} <= {"image/png"}
    return [base64.b64decode(each["data"]) for each in blobs]


def test_images_are_sent_by_path_by_pasted_path_and_from_the_clipboard(
    server: ScriptedServer, home: Path, project: Path, tmp_path: Path
):
    (project / "shot.png").write_bytes(IMAGE + b"one")
    elsewhere = tmp_path / "a b.png"
    elsewhere.write_bytes(IMAGE + b"two")
    clip = tmp_path / "clip.png"
    clip.write_bytes(IMAGE + b"three")
    script = f'case "$*" in *image/png*) exec /bin/cat {shlex.quote(str(clip))};; esac; exit 1'
    program(tmp_path / "bin", "wl-paste", script)
    server.reply(*[sse(text(f"Seen {number}.")) for number in range(3)])
    environ = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "WAYLAND_DISPLAY": "w"}
    with at(server, columns=300, **environ) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("look at @shot.png now" + ENTER)
        terminal.until("Seen 0.")
        terminal.send(f"\x1b[200~'{elsewhere}'\x1b[201~")
        terminal.until("/images/pasted-")
        terminal.send("and this" + ENTER)
        terminal.until("Seen 1.")
        terminal.send("third " + CTRL_V)
        terminal.until("> third @")
        terminal.send("and that" + ENTER)
        terminal.until("Seen 2.")
        leave(terminal)
    for request, end in enumerate((b"one", b"two", b"three")):
        assert sent_images(server, request) == [IMAGE + end]


@for_each(
    ("pasted", "path"),
    [
        ("shot.png", "shot.png"),
        ("'a b.JPG'\n", "a b.JPG"),
        ('"a b.JPG"', "a b.JPG"),
        ("a\\ b.JPG", "a b.JPG"),
        ("FILE", "FILE"),
        ("gone.png", ""),
        ("see shot.png", ""),
        ("notes.txt", ""),
        ("shot.png\nshot.png", ""),
        ("", ""),
    ],
)
def test_only_a_path_of_an_image_and_nothing_else_becomes_one(
    pasted: str, path: str, project: Path
):
    for name in ("shot.png", "a b.JPG", "notes.txt"):
        (project / name).touch()
    whole = str(project / "a b.JPG")
    if pasted == "FILE":
        pasted, path = f"file://{whole}".replace(" ", "%20"), whole
    assert image_path(pasted) == path


@pytest.mark.parametrize("name", ["wl-paste", "xclip", "pngpaste", "powershell.exe"])
async def test_the_clipboard_is_read_by_the_program_there_is(name: str, tmp_path: Path):
    clip = tmp_path / "clip"
    data = base64.b64encode(IMAGE) if name == "powershell.exe" else IMAGE
    clip.write_bytes(data)
    folder = tmp_path / "bin"
    program(folder, name, f"exec /bin/cat {shlex.quote(str(clip))}")
    environ = {"PATH": str(folder), "DISPLAY": ":0", "WAYLAND_DISPLAY": "w"}
    assert await read_clipboard(environ) == IMAGE
    if name == "pngpaste":
        program(folder, "pbpaste", "echo words")
    clip.write_text("words\n", encoding="utf-8")
    assert await read_clipboard(environ) == "words\n"
    assert await read_clipboard({"PATH": str(tmp_path)}) == ""
