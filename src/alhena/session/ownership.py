"""Whose a session or a checkpoint is: namesakes may once have shared a directory, and projects are
moved."""

import os
from collections.abc import Mapping
from pathlib import Path

from alhena.config.home import former_roots, project_temp
from alhena.session.errors import ForeignError
from alhena.system.errors import printable
from alhena.wire.text import scrub


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
