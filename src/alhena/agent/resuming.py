"""Going on with a session that another run began."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from alhena.agent.recording import Beginning, Recording
from alhena.chat.history import INTERRUPTED
from alhena.config.home import project_temp
from alhena.events import Event
from alhena.session.store import LATEST, Resumed, project_store
from alhena.system.errors import printable
from alhena.version import __version__
from alhena.wire.content import MODEL, USER, Content, text_content
from alhena.wire.encoded import EncodedContent

GONE = (
    "[What was said and done behind this point is gone: the record of this session was damaged. "
    "Tools may have been called there, and what they did stands. Check before you repeat anything "
    "that changes something.]"
)


def resumed(
    name: str, cwd: Path, environ: Mapping[str, str], emit: Callable[[Event], None]
) -> Beginning | None:
    """The session that is meant; None for the latest where there is none. Raises SessionError,
    HeldSessionError, JournalError, ConfigError."""
    store = project_store(environ, cwd)
    if name == LATEST and not store.summaries():
        return None
    found = store.resume(name, __version__)
    replay = found.replay
    beginning = Beginning(found.journal.path.stem)
    beginning.kept = tuple(replay.contents)
    beginning.contents = (*beginning.kept, *told_behind(found, beginning.kept, replay.unanswered()))
    beginning.opening = 0 if replay.header is None else replay.header.opening
    beginning.prompts = replay.prompts
    beginning.model = replay.model
    beginning.counted = replay.counted
    beginning.notices = notices_of(found)
    temp = project_temp(environ, cwd)
    beginning.recording = Recording(beginning.session_id, temp, cwd, emit)
    beginning.recording.go_on(found)
    return beginning


def told_behind(
    found: Resumed, contents: Sequence[EncodedContent], answers: Content | None
) -> tuple[EncodedContent, ...]:
    """What the model is told behind `contents`, with which the conversation goes on: the `answers`
    to the calls that end them, and that what came behind them is gone, if it is."""
    told = () if answers is None else (EncodedContent(answers),)
    if not (found.replay.incomplete and contents):
        return told
    if told or contents[-1].content.role == USER:
        told = (*told, EncodedContent(text_content(MODEL, INTERRUPTED)))
    return (*told, EncodedContent(text_content(USER, GONE)))


def notices_of(found: Resumed) -> tuple[str, ...]:
    """What a person should know of a session that goes on, and has not heard yet."""
    path = found.journal.path
    notices = [
        f"the record of this session was damaged: {damage.dropped} bytes of its end were moved to "
        f"{printable(path.with_name(damage.moved_to))}, and what comes before them was restored."
        for damage in found.replay.damage
    ]
    unknown = found.replay.unknown_calls()
    if unknown:
        notices.append(
            f"{', '.join(unknown)} {'may have' if found.replay.incomplete else 'had'} started when "
            "this session ended, and no result was recorded: whether it took effect is unknown. It "
            "is not repeated."
        )
    return tuple(notices)
