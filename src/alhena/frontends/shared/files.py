"""Files of the user's that commands change or write: settings, exported conversations."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from alhena.config.jsonc import JsonEditError, with_value
from alhena.display_text import one_line
from alhena.errors import ConfigError, InputError
from alhena.system.private_files import change_file

if TYPE_CHECKING:
    from alhena.config.effective_settings import Place
    from alhena.config.settings import Settings


def change_json(
    file: Path,
    changed: Callable[[str], str],
    failure: str,
    *,
    remedy: str = "Change it in an editor.",
) -> None:
    """Puts what `changed` makes of a file in its place, in one step. Raises ConfigError with
    `remedy` when it cannot be changed so, with `failure` when it cannot be written: it holds what
    it held."""

    def rewritten(data: bytes) -> bytes:
        try:
            return changed(data.decode("utf-8")).encode("utf-8")
        except (JsonEditError, UnicodeError) as error:
            raise ConfigError(f"{file} {error}; it was left alone.", remedy=remedy) from error

    change_file(file, rewritten, failure)


def set_disabled(name: str, file: Path, *, disabled: bool) -> None:
    """Writes `skills.disabled` of a settings file with the skill in it, or not; the rest of the
    file stays as it is. Raises ConfigError."""
    from alhena.config.checking import load_settings
    from alhena.skills.files import fold_skill_name

    def names(settings: "Settings") -> list[str]:
        before = settings.skills.disabled
        kept = [each for each in before if fold_skill_name(each) != fold_skill_name(name)]
        return [*kept, name] if disabled else kept

    before = load_settings(file)
    if names(before) != list(before.skills.disabled):
        write_names(file, ("skills", "disabled"), names)


def write_names(
    file: Path, path: tuple[str, ...], names: "Callable[[Settings], list[str]]"
) -> None:
    """Sets a list in a settings file to what `names` makes of its settings, which no other command
    changes meanwhile. Raises ConfigError."""
    from alhena.config.checking import load_settings

    change_json(
        file,
        lambda text: with_value(text, path, names(load_settings(file))),
        f"{file} was not changed",
    )


def write_setting(file: Path, path: tuple[str, ...], value: object) -> None:
    """Sets one key of a settings file; the rest stays as it is. Raises ConfigError."""
    change_json(file, lambda text: with_value(text, path, value), f"{file} was not changed")


def form_of(path: str | Path | None) -> str:
    """The form that the name of a file asks for; Markdown where it asks for none."""
    suffix = "" if path is None else Path(path).suffix.lower()
    return {".json": "json", ".html": "html", ".htm": "html"}.get(suffix, "markdown")


def session_document(journal: Path, form: str, place: "Place") -> bytes:
    """A recorded session in this form: markdown, json or html; only html redacts secrets, by what
    is known in `place`. Raises SessionError, ConfigError."""
    if form == "html":
        from alhena.models.prices import Prices
        from alhena.telemetry.records import Redaction
        from alhena.tracing.page import as_page
        from alhena.tracing.timeline import read_timeline

        timeline = read_timeline(journal, Prices(place.settings.model.prices))
        return as_page(timeline, Redaction(place.environ), view="conversation")
    from alhena.session.transcript import as_json, as_markdown, read_transcript

    transcript = read_transcript(journal)
    if form == "json":
        return as_json(transcript)
    return as_markdown(transcript).encode("utf-8", "replace")


def write_document(path: str | Path, document: bytes, *, replaces: bytes | None = None) -> None:
    """Writes a new file that only its owner may read, as the session is that went into it. One that
    has the mark `replaces` at its beginning gives way. Raises InputError, also where there is
    another."""
    try:
        if replaces is not None and has_mark(path, replaces):
            os.unlink(path)
        with open(path, "xb", opener=_private) as file:
            file.write(document)
    except (OSError, ValueError) as error:  # a ValueError for a name that no file can have
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise InputError(
            f"cannot write {one_line(str(path))}: {why}.",
            remedy="Name a file that is not there yet.",
        ) from error


def has_mark(path: str | Path, mark: bytes) -> bool:
    """True for a regular file with the mark in its first kilobyte."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return mark in file.read(1_024)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
