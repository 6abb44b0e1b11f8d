"""A file that is mounted on its own, as containers do it, cannot be replaced; it can be written."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
    own = ["unshare", "--user", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None or subprocess.run([*own, "true"], check=False).returncode:
        pytest.skip("no mounts of its own can be had here")
    run = subprocess.run(
        [*own, sys.executable, "-c", MOUNTED, project], capture_output=True, check=True
    )
    code, others, content, told, names = json.loads(run.stdout)
    assert (code, others, content) == (16, 0, "new content")
    assert "changed since it was read" in told
    assert names == ["source", "target"]
