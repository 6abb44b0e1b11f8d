"""Whose a session or a checkpoint is: namesakes may once have shared a directory, and projects are
moved."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from alhena.config.home import former_roots, project_of, project_temp
from alhena.session.errors import ForeignError
from alhena.session.names import SUFFIX, is_session_id
from alhena.system.errors import printable
from alhena.wire.text import scrub

if TYPE_CHECKING:
    from alhena.session.checkpoints import Checkpoint


class Ownership:
    """Tells what belongs to the project at `project`, whose temporary directory is `temp`."""

    def __init__(self, environ: Mapping[str, str], temp: Path, project: Path) -> None:
        self._environ = environ
        self._temp = temp
        self._project = project

    def has(self, said: str) -> bool:
        """Whether what says that it is of the project `said` belongs to this one: it is the same
        folder, or one that this project was in before. What says nothing does."""
        if said in ("", scrub(str(self._project))):
            return True
        if os.path.realpath(said) == os.path.realpath(self._project):
            return True
        return said in map(scrub, former_roots(self._temp))

    def said(self, checkpoint: "Checkpoint") -> str:
        """The project that a checkpoint says it is of, itself or by its session's record; ""."""
        session_id = checkpoint.session_id
        if checkpoint.project or not is_session_id(session_id):
            return checkpoint.project
        return project_of(self._temp / "sessions" / f"{session_id}{SUFFIX}")

    def parted(
        self, checkpoints: "Iterable[tuple[str, Checkpoint]]"
    ) -> "tuple[tuple[tuple[str, Checkpoint], ...], tuple[tuple[str, str], ...]]":
        """Those that belong to the project; and the names of the others, with whose they are."""
        own: list[tuple[str, Checkpoint]] = []
        foreign: list[tuple[str, str]] = []
        for name, checkpoint in checkpoints:
            said = self.said(checkpoint)
            if self.has(said):
                own.append((name, checkpoint))
            else:
                foreign.append((name, said))
        return tuple(own), tuple(foreign)

    def require(self, said: str, what: str, journal: Path | None = None) -> None:
        """Raises ForeignError unless `what` belongs to the project. A session, of which this is the
        `journal`, can be brought to its own."""
        if self.has(said):
            return
        folder = printable(said)
        if not os.path.isdir(said):
            remedy = f"If that folder was moved here: alhena sessions adopt {folder}"
        elif journal is None:
            remedy = "Name another one"
        else:
            place = project_temp(self._environ, Path(said)) / journal.parent.name
            remedy = (
                f"Go on with it in that folder, once its file {printable(journal)} is in "
                f"{printable(place)}"
            )
        raise ForeignError(f"{what} is of another project: {folder}.", remedy=f"{remedy}.")
