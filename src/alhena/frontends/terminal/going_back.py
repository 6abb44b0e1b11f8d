"""/restore and /undo: back to a checkpoint, or to before the last turn's edits."""

from typing import TYPE_CHECKING, Protocol

from alhena.display_text import escaped
from alhena.frontends.terminal.ended import counted
from alhena.frontends.terminal.lines import Line, line

if TYPE_CHECKING:
    from alhena.agent.restoring import AgentCheckpoints, Restored


class GoingBack(Protocol):
    """What the two commands work with."""

    @property
    def checkpoints(self) -> "AgentCheckpoints":
        """What the session can go back to."""
        ...

    def tell(self, note: str) -> None:
        """Tells the model something, with the next prompt."""
        ...

    def propose(self) -> None:
        """Has the calls made again that the session went back to, when the command is over."""
        ...


async def restore(context: GoingBack, rest: str) -> list[Line]:
    """Lists the checkpoints, or goes back to one."""
    from alhena.frontends.checkpoint_words import listed

    name = rest.strip()
    if not name:
        found = context.checkpoints.list()
        if not found:
            return [line("There are no checkpoints (general.checkpointing.enabled makes them).")]
        head = line(
            f"{counted(len(found), 'checkpoint')}, the oldest first; /restore NAME goes back",
            "bold",
        )
        return [head, *(line(escaped(each)) for each in listed(found))]
    restored = await context.checkpoints.restore(name)
    lines = [line(f"Back at {escaped(restored.name)}.", "bold"), *_told(restored)]
    if restored.proposed:
        context.propose()
    return lines


async def undo(context: GoingBack, _rest: str) -> list[Line]:
    """Takes back what the last turn has changed in the files."""
    from alhena.frontends.checkpoint_words import undone_note

    restored = await context.checkpoints.undo()
    if restored is None:
        return [line("There are no edits of this session to undo.")]
    files = restored.files
    if files is None or not (files.written or files.removed):
        return [line("Nothing of the last turn's edits was undone.", "warning"), *_told(restored)]
    context.tell(undone_note(restored))
    which = "Some of the edits" if files.left else "The edits"
    return [line(f"{which} of the last turn are undone.", "bold"), *_told(restored)]


def _told(restored: "Restored") -> list[Line]:
    from alhena.frontends.checkpoint_words import restored_words

    return [
        line(escaped(text), "warning" if alarming else "")
        for alarming, text in restored_words(restored)
    ]
