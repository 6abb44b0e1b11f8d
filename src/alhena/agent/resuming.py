"""Going on with a session that another run began."""

from collections.abc import Callable, Mapping
from pathlib import Path

from alhena.agent.recording import Beginning, Recording
from alhena.config.home import project_temp
from alhena.events import Event
from alhena.session.store import LATEST, Resumed, open_store
from alhena.version import __version__
from alhena.wire.encoded import EncodedContent


def resumed(
    name: str, cwd: Path, environ: Mapping[str, str], emit: Callable[[Event], None]
) -> Beginning | None:
    """The session that is meant; None for the latest where there is none. Raises SessionError,
    HeldSessionError, JournalError, ConfigError."""
    temp = project_temp(environ, cwd)
    store = open_store(temp)
    if name == LATEST and not any(status.st_size for _, status in store.files()):
        return None
    found = store.resume(name, __version__)
    replay = found.replay
    beginning = Beginning(found.journal.path.stem)
    beginning.kept = tuple(replay.contents)
    beginning.contents = beginning.kept
    answers = replay.unanswered()
    if answers is not None:
        beginning.contents = (*beginning.kept, EncodedContent(answers))
    beginning.opening = 0 if replay.header is None else replay.header.opening
    beginning.prompts = replay.prompts
    beginning.model = replay.model
    beginning.counted = replay.counted
    beginning.notices = _told(found)
    beginning.recording = Recording(beginning.session_id, temp, cwd, emit)
    beginning.recording.go_on(found)
    return beginning


def _told(found: Resumed) -> tuple[str, ...]:
    """What a person should know of a session that goes on."""
    notices: list[str] = []
    damage = found.extent.damage
    if damage is not None:
        notices.append(
            f"the record of this session was damaged at line {damage.line}: {damage.size} bytes "
            f"were moved to {found.moved}, and what comes before them was restored."
        )
    unknown = found.replay.unknown_calls()
    if unknown:
        notices.append(
            f"{', '.join(unknown)} {'may have' if found.replay.incomplete else 'had'} started when "
            "this session ended, and no result was recorded: whether it took effect is unknown. It "
            "is not repeated."
        )
    return tuple(notices)
