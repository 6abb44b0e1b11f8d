"""Files that cannot be written when they are put back leave everything as it was."""

import subprocess
import sys
from pathlib import Path

from tests.session.repositories import put

NO_ROOM = """
import os, resource, sys
from pathlib import Path
from alhena.session.checkpoints.records import Checkpoint
from alhena.session.checkpoints.repository import Repository
from alhena.session.checkpoints.restore import Goal, restore

project, large = Path(sys.argv[1]), os.urandom(20_000)

def put(name, data, mode=0o644):
    (project / name).parent.mkdir(parents=True, exist_ok=True)
    (project / name).write_bytes(data)
    (project / name).chmod(mode)

put("changed", large)
put("gone/private", large, 0o600)
put("was-file", large)
put("small", b"old")
repository = Repository(Path(sys.argv[2]), project, os.environ)
with repository.hold_lock():
    snapshot = repository.snapshot()
put("changed", b"new")
(project / "gone/private").unlink()
(project / "gone").rmdir()
(project / "was-file").unlink()
(project / "was-file").symlink_to("nowhere")
put("small", b"new")
put("extra", b"new")

def no_room(_plans):
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

done = restore(repository, Goal(Checkpoint(commit_hash=snapshot.tree, notes=snapshot.notes)), no_room)
print(done.written, done.removed, sorted((path, "EFBIG" in why) for path, why in done.left))
"""


def test_what_cannot_be_written_is_left_as_it_was(project: Path, tmp_path: Path):
    put(project / "stays")
    command = [sys.executable, "-c", NO_ROOM, str(project), str(tmp_path / "history")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    left = [(name, True) for name in ("changed", "gone/private", "was-file")]
    assert ran.stdout == f"('small',) ('extra',) {left}\n"
    assert (project / "changed").read_text() == "new"
    assert (project / "was-file").readlink() == Path("nowhere")
    assert not (project / "gone").exists()
