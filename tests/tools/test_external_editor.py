import asyncio
import os
import stat
import sys
from pathlib import Path

import pytest

from alhena.tools.contract import ProposedContents, ToolFailure
from alhena.tools.edit.external_editor import edit_externally

CONTENTS = ProposedContents("/w/some dir/a b.test.py", "old é\n", "new é\n")


class Editor:
    """A program in the place of an editor; keeps the names it was opened on."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.files: list[Path] = []

    def __call__(self, old: Path, new: Path) -> list[str]:
        self.files = [old, new]
        return [sys.executable, "-c", self.code, str(old), str(new)]

    def gone(self) -> bool:
        return not self.files[0].parent.exists()


async def edit(editor: Editor, contents: ProposedContents = CONTENTS) -> str | ToolFailure:
    return await edit_externally(contents, editor, os.environ)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.mark.requirement("TOOLS-21")
async def test_what_the_person_saves_comes_back(temporary: Path) -> None:
    editor = Editor(
        "import sys; old, new = (open(p, 'rb').read().decode() for p in sys.argv[1:]);"
        "open(sys.argv[2], 'wb').write((old + new + 'mine\\r\\n').encode('utf-8-sig'))"
    )
    assert await edit(editor) == "old é\nnew é\nmine\n"
    old, new = editor.files
    assert old.name.startswith("gemini-cli-modify-a_b.test-old")
    assert new.name.startswith("gemini-cli-modify-a_b.test-new")
    assert old.suffix == new.suffix == ".py"
    assert list(temporary.iterdir()) == []


@pytest.mark.requirement("TOOLS-21")
async def test_the_files_are_for_their_owner_only() -> None:
    editor = Editor(
        "import os, sys; modes = [oct(os.stat(p).st_mode & 0o777) for p in"
        " (os.path.dirname(sys.argv[1]), *sys.argv[1:])]; open(sys.argv[2], 'w').write(str(modes))"
    )
    umask = os.umask(0)
    try:
        assert await edit(editor) == "['0o700', '0o600', '0o600']"
    finally:
        os.umask(umask)


async def test_an_editor_that_puts_another_file_in_its_place_is_understood() -> None:
    editor = Editor(
        "import os, sys; p = sys.argv[2]; open(p + '~', 'w').write('saved'); os.replace(p + '~', p)"
    )
    assert await edit(editor) == "saved"
    assert editor.gone()


@pytest.mark.requirement("TOOLS-21")
@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import sys; sys.exit(3)", "ended with exit code 3"),
        ("import os; os.kill(os.getpid(), 9)", "ended by signal 9"),
        ("import os, sys; os.unlink(sys.argv[2])", "cannot be read: File not found"),
        (
            "import os, sys; os.unlink(sys.argv[2]); os.mkfifo(sys.argv[2])",
            "cannot be read: Not a regular file",
        ),
        (
            "import os, sys; os.unlink(sys.argv[2]); os.symlink('/etc/passwd', sys.argv[2])",
            "cannot be read: Not a regular file",
        ),
        ("import sys; open(sys.argv[2], 'wb').write(bytes(50))", "is not text"),
    ],
)
async def test_an_edit_that_came_to_nothing_is_a_failure_and_leaves_nothing(
    code: str, told: str
) -> None:
    editor = Editor(code)
    failure = await edit(editor)
    assert isinstance(failure, ToolFailure)
    assert told in failure.message
    assert failure.message.endswith("; the proposed change stays as it was.")
    assert editor.gone()


@pytest.mark.parametrize("argv", [[], ["/no/such/editor"], ["\0"]])
async def test_an_editor_that_cannot_be_started_is_a_failure(
    temporary: Path, argv: list[str]
) -> None:
    failure = await edit_externally(CONTENTS, lambda old, new: argv, os.environ)
    assert isinstance(failure, ToolFailure)
    assert list(temporary.iterdir()) == []


async def test_a_new_file_of_any_name_has_an_empty_old_one() -> None:
    editor = Editor(
        "import os, sys; open(sys.argv[2], 'a').write(str(os.path.getsize(sys.argv[1])))"
    )
    name = "/w/" + "\udcff;$(x) " * 40 + "." + "y" * 300
    assert await edit(editor, ProposedContents(name, None, "n")) == "n0"
    assert editor.gone()


async def test_cancelling_ends_the_editor_and_removes_the_files(tmp_path: Path) -> None:
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    editor = Editor(
        "import signal, sys; signal.signal(signal.SIGTERM, lambda *a: sys.exit());"
        f"f = open({str(fifo)!r}, 'w'); f.write('x'); f.flush(); signal.pause()"
    )
    reading = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    started = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(reading, lambda: os.read(reading, 1) and started.set())
    running = asyncio.ensure_future(edit(editor))
    await started.wait()
    loop.remove_reader(reading)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert editor.gone()
    os.set_blocking(reading, True)
    assert os.read(reading, 1) == b""  # the last writer is gone
    os.close(reading)
    assert stat.S_ISFIFO(fifo.stat().st_mode)
