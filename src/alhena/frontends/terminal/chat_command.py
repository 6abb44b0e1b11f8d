"""/chat: conversations that are kept under a name, taken up again, or written to a file."""

import asyncio
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from alhena.agent.workbench import Workbench
from alhena.display_text import escaped, one_line
from alhena.frontends.terminal.ended import counted
from alhena.frontends.terminal.lines import Line, line

if TYPE_CHECKING:
    from alhena.agent.conversations import SavedConversations

USAGE = (
    "It is /chat list, /chat save NAME [--replace], /chat resume NAME, /chat delete NAME or "
    "/chat share [FILE.md|.json|.html]."
)
_REPLACE = "--replace"


class ChatContext(Protocol):
    """What the command works with."""

    @property
    def workbench(self) -> Workbench:
        """Tools, policies and hooks of the session."""
        ...

    @property
    def identity(self) -> tuple[str, str]:
        """The session's id and its model."""
        ...

    async def go_on(self, session_id: str) -> None:
        """Goes on with another session."""
        ...


async def chat(context: ChatContext, rest: str) -> list[Line]:
    """Carries out `/chat REST`. Raises SessionError, InputError, JournalError."""
    what, _, name = rest.strip().partition(" ")
    name = name.strip()
    opened = context.workbench.conversations
    if opened is None:
        return [line("This session has no conversations to save.", "error")]
    saved = opened()
    match what, bool(name):
        case (("" | "list"), False):
            return _listed(saved)
        case "save", True:
            return await _save(saved, name)
        case (("resume" | "load"), True):
            return await _resume(context, saved, name)
        case "delete", True:
            saved.delete(name)
            return [line(f"{_quoted(name)} is not saved any more. Its session stays.")]
        case "share", _:
            return await _share(saved, context.workbench.workspace.cwd, name)
        case _:
            return [line(USAGE, "error")]


def _listed(saved: "SavedConversations") -> list[Line]:
    tags = saved.all()
    if not tags:
        return [line("No conversations are saved. To save this one: /chat save NAME")]
    head = f"{counted(len(tags), 'saved conversation')}, the oldest first"
    return [
        line(head, "bold"),
        *(line(escaped(f"  {tag.name}  {tag.saved[:16]}  {one_line(tag.title)}")) for tag in tags),
    ]


async def _save(saved: "SavedConversations", said: str) -> list[Line]:
    words = said.split()
    replace = words[-1] == _REPLACE
    tag = await saved.save(" ".join(words[:-1] if replace else words), replace=replace)
    return [line(f"Saved as {_quoted(tag.name)}. To take it up again: /chat resume {tag.name}")]


async def _resume(context: ChatContext, saved: "SavedConversations", name: str) -> list[Line]:
    before, _ = context.identity
    recorded = saved.recorded
    session_id = await saved.begin(name)
    try:
        await context.go_on(session_id)
    finally:
        if context.identity[0] != session_id:  # it did not come about
            saved.abandon(session_id)
    lines = [line(f"{_quoted(name)} goes on as a session of its own. Files are as they are now.")]
    if recorded:
        lines.append(line(f"What was said before: alhena --resume {before}", "dim"))
    return lines


async def _share(saved: "SavedConversations", cwd: Path, given: str) -> list[Line]:
    journal = await saved.record()
    if journal is None:
        return [line("Nothing was said yet that could be shared.", "warning")]
    name = given or time.strftime("conversation-%Y%m%d-%H%M%S.md")
    path = await asyncio.to_thread(_written, journal, cwd, name)
    return [line(f"Written to {escaped(str(path))}.")]


def _written(journal: Path, cwd: Path, name: str) -> Path:
    from alhena.frontends.exported import form_of, write_document
    from alhena.session.transcript import FORMS, read_transcript

    path = cwd / os.path.expanduser(name)
    write_document(path, FORMS[form_of(path)](read_transcript(journal)))
    return path


def _quoted(name: str) -> str:
    return f"'{one_line(' '.join(name.split()))}'"
