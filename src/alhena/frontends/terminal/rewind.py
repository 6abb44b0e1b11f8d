"""/rewind: the conversation, the files or both go back to before an earlier prompt."""

import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from alhena.display_text import escaped, one_line
from alhena.frontends.shared.listings import count_noun
from alhena.frontends.terminal.drawing.lines import Line, line
from alhena.frontends.terminal.drawing.menu import NOTHING_CHANGED, Menu, MenuOption
from alhena.frontends.terminal.session_commands import go_on
from alhena.frontends.terminal.work_commands import asks_to_end
from alhena.session.tags import EarlierPrompt

if TYPE_CHECKING:
    from alhena.agent.saved_conversations import SavedConversations
    from alhena.frontends.terminal.conversation import Conversation

LABEL, TITLE, NAMED_FILES = 200, 60, 5
NO_CHECKPOINTS = "Files stay as they are: there are no checkpoints (general.checkpointing.enabled)."


async def rewind(context: "Conversation", _rest: str) -> list[Line]:
    """Carries out `/rewind`. Raises SessionError, JournalError, CheckpointError."""
    saved = context.agent.checkpoints.conversations
    prompts = await saved.prompts()
    if not prompts:
        return [line("Nothing to rewind.")]
    cwd = context.toolset.workspace.cwd
    newest = tuple(_prompt_option(each, cwd) for each in reversed(prompts))
    picked = await context.screen.choose(Menu(title="Rewind to before", options=newest, search=""))
    if not picked:
        return [line(NOTHING_CHANGED)]
    at = len(prompts) - 1 - min(picked)
    how = await _how(context, prompts[at:])
    if how is None:
        return [line(NOTHING_CHANGED)]
    conversation, files = how
    if conversation and not await asks_to_end(context, "rewind"):
        return [line(NOTHING_CHANGED)]
    lines: list[Line] = []
    if files:
        lines += await _undo(context, prompts[at:], tell=not conversation)
    elif any(each.files for each in prompts[at:]) and not _checkpoints(prompts[at:]):
        lines.append(line(NO_CHECKPOINTS, "dim"))
    if conversation:
        lines = await _fork(context, saved, prompts, at) + lines
    return lines


def _prompt_option(prompt: EarlierPrompt, cwd: Path) -> MenuOption:
    from alhena.frontends.shared.descriptions import age_words  # it loads alhena.mcp

    age = age_words(time.time() - datetime.fromisoformat(prompt.at).timestamp())
    changed = f" · {count_noun(len(prompt.files), 'file')} changed" if prompt.files else ""
    paths = (path.removeprefix(f"{cwd}/") for path in prompt.files[:NAMED_FILES])
    label = one_line(prompt.text, LABEL)
    return MenuOption(label=label, detail=f"{age}{changed}", preview=", ".join(paths))


def _checkpoints(prompts: Sequence[EarlierPrompt]) -> frozenset[str]:
    return frozenset(name for each in prompts for name in each.checkpoints)


async def _how(
    context: "Conversation", prompts: Sequence[EarlierPrompt]
) -> tuple[bool, bool] | None:
    """Asks whether conversation and files go back, where files can; None when dismissed."""
    if not _checkpoints(prompts):
        return True, False
    paths = dict.fromkeys(path for each in prompts for path in each.files)
    changes = f"undoes changes of {count_noun(len(paths), 'file')}" if paths else "undoes changes"
    options = (
        MenuOption(label="Conversation and files", detail=changes),
        MenuOption(label="Conversation only", detail="files stay as they are"),
        MenuOption(label="Files only", detail="the conversation stays"),
    )
    title = f"Rewind to before: {one_line(prompts[0].text, TITLE)}"
    picked = await context.screen.choose(Menu(title=title, options=options, search=""))
    return ((True, True), (True, False), (False, True))[min(picked)] if picked else None


async def _undo(
    context: "Conversation", prompts: Sequence[EarlierPrompt], *, tell: bool
) -> list[Line]:
    from alhena.frontends.shared.descriptions import restored_words, undone_note

    restored = await context.agent.checkpoints.undo_since(_checkpoints(prompts))
    if restored is None:
        return [line("No file was changed since.")]
    if tell:
        context.tell(undone_note(restored))
    return [line(escaped(text), "warning" if bad else "") for bad, text in restored_words(restored)]


async def _fork(
    context: "Conversation", saved: "SavedConversations", prompts: Sequence[EarlierPrompt], at: int
) -> list[Line]:
    """Continues as a session that has the conversation before a prompt, which returns to the input
    line."""
    before, _ = context.identity
    session_id = await saved.fork(prompts, at)
    await go_on(context, saved, session_id)
    text = prompts[at].text
    context.screen.draft(text)
    lines = [
        line(f'Back before "{one_line(text, TITLE)}"', "bold"),
        line(f"Previous branch: alhena --resume {before}", "dim"),
    ]
    if not context.keys:
        lines += [line("The prompt was:"), *(line(each) for each in text.split("\n"))]
    return lines
