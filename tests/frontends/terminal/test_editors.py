from pathlib import Path

import pytest

from alhena.frontends.terminal.console import editor_command

OLD, NEW = Path("/t/old.py"), Path("/t/new.py")


@pytest.mark.parametrize(
    ("environ", "argv"),
    [
        ({"EDITOR": "ed"}, ["ed", "/t/new.py"]),
        ({"EDITOR": "ed", "VISUAL": "joe"}, ["joe", "/t/new.py"]),
        ({"EDITOR": "/usr/bin/vim"}, ["/usr/bin/vim", "-d", "/t/new.py", "/t/old.py"]),
        ({"EDITOR": "vim -n"}, ["vim", "-n", "/t/new.py"]),
        ({"EDITOR": "code"}, ["code", "--wait", "--diff", "/t/old.py", "/t/new.py"]),
        ({"EDITOR": "code --wait"}, ["code", "--wait", "--diff", "/t/old.py", "/t/new.py"]),
        ({"EDITOR": "subl -n"}, ["subl", "-n", "--wait", "/t/new.py"]),
        ({"EDITOR": "'my editor' -x"}, ["my editor", "-x", "/t/new.py"]),
        ({"EDITOR": "it's"}, ["it's", "/t/new.py"]),
    ],
)
def test_the_editor_of_the_environment_is_started_so_that_it_waits(
    environ: dict[str, str], argv: list[str]
):
    command = editor_command(environ)
    assert command is not None
    assert command(OLD, NEW) == argv


def test_without_one_the_first_that_is_there_is_taken(tmp_path: Path):
    assert editor_command({"PATH": str(tmp_path)}) is None
    for name in ("vi", "nano"):
        (tmp_path / name).touch(mode=0o755)
    command = editor_command({"PATH": str(tmp_path), "EDITOR": " "})
    assert command is not None
    assert command(OLD, NEW) == ["nano", "/t/new.py"]
