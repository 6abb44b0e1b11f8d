"""A file that is mounted on its own, as containers do it, cannot be replaced; it can be written."""

from pathlib import Path

import pytest

from tests.support.disk import with_own_mounts

MOUNTED = """
import json, os, subprocess, sys
from pathlib import Path
from alhena.system.errors import ChangedFileError
from alhena.system.files import read_whole
from alhena.system.replacement import replace_file

top = Path(sys.argv[1])
(top / "source").write_text("old")
(top / "target").touch()
subprocess.run(["mount", "--bind", top / "source", top / "target"], check=True)
path = top / "target"
try:
    os.rename(top / "source", path)
    print("replaceable")
except OSError as error:
    before = read_whole(path, 1000)[1]
    others = replace_file(path, b"new content", expected=before, limit=1000)
    told = ""
    try:
        replace_file(path, b"late", expected=before, limit=1000)
    except ChangedFileError as changed:
        told = str(changed)
    print(json.dumps([error.errno, others, (top / "source").read_text(), told,
                      sorted(os.listdir(top))]))
"""


@pytest.mark.requirement("TOOLS-09")
def test_a_mounted_file_is_written_in_place(project: Path) -> None:
    code, others, content, told, names = with_own_mounts(MOUNTED, project)
    assert (code, others, content) == (16, 0, "new content")
    assert "changed since it was read" in told
    assert names == ["source", "target"]
