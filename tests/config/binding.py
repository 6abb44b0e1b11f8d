"""A workspace whose servers and commands are accepted, as tests need it."""

import os
from pathlib import Path

from alhena.config.effective_settings import Place, open_place
from alhena.frontends.shared.folder_trust import accept


def here(project: Path, **environ: str) -> Place:
    """The folder as it is now, with no settings of an administrator."""
    given = {"GEMINI_CLI_SYSTEM_SETTINGS_PATH": "/nowhere/settings.json", **os.environ, **environ}
    return open_place(project, given)


def accept_pending(project: Path, **environ: str) -> None:
    """Accepts all that is held back."""
    place = here(project, **environ)
    accept(place, place.pending)
    assert here(project, **environ).pending == ()


def pending(place: Place) -> dict[str, str]:
    """Why what is held back."""
    return {each.key: each.why for each in place.pending}
