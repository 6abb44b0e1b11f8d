"""/chat, /mcp, /model, /restore, /resume and /undo."""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from alhena.config.home import user_settings_path
from alhena.display_text import escaped, one_line
from alhena.frontends.shared.files import write_setting
from alhena.frontends.shared.listings import count_noun, session_rows
from alhena.frontends.shared.session_lists import OpenSession, list_servers
from alhena.frontends.terminal.drawing.lines import Line, line, list_lines
from alhena.frontends.terminal.drawing.menu import NOTHING_CHANGED, Menu, MenuOption
from alhena.frontends.terminal.work_commands import asks_to_end

if TYPE_CHECKING:
    from alhena.agent.restoring import Restored
    from alhena.agent.saved_conversations import SavedConversations
    from alhena.agent.toolset.mcp import ServerControl
    from alhena.frontends.terminal.conversation import Conversation
    from alhena.session.store import SessionSummary

USAGE = (
    "Usage: /chat list, /chat save NAME [--replace], /chat resume NAME, /chat delete NAME or "
    "/chat share [FILE.md|.json|.html]."
)
_REPLACE = "--replace"


async def chat(context: "Conversation", rest: str) -> list[Line]:
    """Carries out `/chat REST`. Raises SessionError, InputError, JournalError."""
    what, _, name = rest.strip().partition(" ")
    name = name.strip()
    saved = context.agent.checkpoints.conversations
    match what, bool(name):
        case (("" | "list"), False):
            return _saved_lines(saved)
        case "save", True:
            return await _save(saved, name)
        case (("resume" | "load"), True):
            return await _resume(context, saved, name)
        case "delete", True:
            saved.delete(name)
            return [line(f"{_quoted(name)} is deleted. Its session stays.")]
        case "share", _:
            return await _share(saved, context.toolset.workspace.cwd, name)
        case _:
            return [line(USAGE, "error")]


def _saved_lines(saved: "SavedConversations") -> list[Line]:
    tags = saved.all()
    if not tags:
        return [line("No saved conversations. Save this one with /chat save NAME.")]
    head = f"{count_noun(len(tags), 'saved conversation')}, newest first"
    return [
        line(head, "bold"),
        *(
            line(escaped(f"  {tag.name}  {tag.saved[:16]}  {one_line(tag.title)}"))
            for tag in reversed(tags)
        ),
    ]


async def _save(saved: "SavedConversations", said: str) -> list[Line]:
    words = said.split()
    replace = words[-1] == _REPLACE
    tag = await saved.save(" ".join(words[:-1] if replace else words), replace=replace)
    return [line(f"Saved as {_quoted(tag.name)}. To resume it: /chat resume {tag.name}")]


async def _resume(context: "Conversation", saved: "SavedConversations", name: str) -> list[Line]:
    before, _ = context.identity
    recorded = saved.recorded
    if not await asks_to_end(context, "resume that conversation"):
        return [line(NOTHING_CHANGED)]
    session_id = await saved.begin(name)
    await go_on(context, saved, session_id)
    lines = [line(f"{_quoted(name)} continues as a new session. Files stay as they are.")]
    if recorded:
        lines.append(line(f"The previous conversation: alhena --resume {before}", "dim"))
    return lines


async def go_on(context: "Conversation", saved: "SavedConversations", session_id: str) -> None:
    """Continues as a session that was begun for this."""
    try:
        await context.go_on(session_id)
    finally:
        if context.identity[0] != session_id:  # it did not come about
            saved.abandon(session_id)


async def export(context: "Conversation", rest: str) -> list[Line]:
    """Carries out `/export REST`. Raises SessionError, InputError, JournalError."""
    return await chat(context, f"share {rest}")


async def _share(saved: "SavedConversations", cwd: Path, given: str) -> list[Line]:
    journal = await saved.record()
    if journal is None:
        return [line("Nothing to share yet.", "warning")]
    name = given or time.strftime("conversation-%Y%m%d-%H%M%S.md")
    path = await asyncio.to_thread(_write_session, journal, cwd, name)
    return [line(f"Written to {escaped(str(path))}.")]


def _write_session(journal: Path, cwd: Path, name: str) -> Path:
    from alhena.config.effective_settings import open_place
    from alhena.frontends.shared.files import form_of, session_document, write_document

    path = cwd / os.path.expanduser(name)
    write_document(path, session_document(journal, form_of(path), open_place(cwd, os.environ)))
    return path


def _quoted(name: str) -> str:
    return f"'{one_line(' '.join(name.split()))}'"


_USAGE = (
    "Usage: /mcp, /mcp desc, /mcp schema, /mcp refresh, /mcp auth NAME, "
    "/mcp enable NAME or /mcp disable NAME [--session]."
)


async def mcp(context: "Conversation", rest: str) -> list[Line]:
    """Carries out `/mcp REST`."""
    listed = OpenSession(context.toolset, context.folder, context.prompts)
    control = context.toolset.server_control
    if control is None:
        return list_lines(list_servers(listed, "list"))
    what, *words = rest.split() or ["list"]
    session = "--session" in words
    names = [word for word in words if word != "--session"]
    match what, names:
        case (("list" | "desc" | "schema"), []):
            if control.connecting:
                context.print([line("Waiting for MCP servers to connect…", "dim")])
                await control.wait_for_servers()
            return list_lines(list_servers(listed, what))
        case (("refresh" | "reload"), []):
            context.print([line("Reconnecting to all MCP servers…", "dim")])
            await control.refresh()
            return list_lines(list_servers(listed, "list"))
        case "auth", []:
            return _to_sign_in(control)
        case "auth", [name]:
            await control.sign_in(name, SignInPerson(context.print))
            return [line(f"Signed in to MCP server '{one_line(name)}'.", "ok")]
        case (("enable" | "disable"), [name]):
            enabled = what == "enable"
            await control.turn(name, enabled=enabled, lasting=not session)
            word = "on" if enabled else "off"
            how_long = " for this session" if session else ""
            return [line(f"MCP server '{one_line(name)}' is turned {word}{how_long}.")]
        case _:
            return [line(_USAGE, "error")]


class SignInPerson:
    """The person at this terminal, while a sign-in runs."""

    def __init__(self, show: Callable[[list[Line]], None]) -> None:
        self._show = show

    def tell(self, text: str) -> None:
        """Shows a line. Addresses are left whole, so that they can be copied."""
        self._show([line(text)])

    async def ask(self, question: str) -> str | None:
        """No code is asked for here."""
        del question

    async def open(self, url: str) -> bool:
        """Shows a page in the browser."""
        from alhena.models.auth.authorization import open_browser
        from alhena.system.own_programs import begin_browser

        return await open_browser(url, begin_browser)


def _to_sign_in(control: "ServerControl") -> list[Line]:
    waiting = [each.name for each in control.reports if each.state == "needs_auth"]
    if not waiting:
        return [line("No MCP server needs you to sign in. To sign in again: /mcp auth NAME")]
    head = line("These MCP servers need you to sign in:", "bold")
    return [head, *(line(f"  /mcp auth {one_line(name, 60)}") for name in waiting)]


async def restore(context: "Conversation", rest: str) -> list[Line]:
    """Lists the checkpoints, or goes back to one."""
    from alhena.frontends.shared.descriptions import checkpoint_lines

    name = rest.strip()
    if not name:
        found = context.agent.checkpoints.list()
        if not found:
            return [line("No checkpoints. They precede changes, unless /settings turns them off.")]
        head = line(
            f"{count_noun(len(found), 'checkpoint')}, newest first; /restore NUMBER restores one",
            "bold",
        )
        return [head, *(line(escaped(each)) for each in checkpoint_lines(found))]
    restored = await context.agent.checkpoints.restore(name)
    lines = [line(f"Back at {escaped(restored.name)}.", "bold"), *_restored_lines(restored)]
    if restored.proposed:
        context.propose()
    return lines


async def undo(context: "Conversation", _rest: str) -> list[Line]:
    """Takes back what the last turn has changed in the files."""
    from alhena.frontends.shared.descriptions import undone_note

    restored = await context.agent.checkpoints.undo()
    if restored is None:
        return [line("Nothing to undo: this session has edited no file.")]
    files = restored.files
    if files is None or not (files.written or files.removed):
        return [
            line("None of the last turn's edits were undone.", "warning"),
            *_restored_lines(restored),
        ]
    context.tell(undone_note(restored))
    which = "Some of the edits" if files.left else "The edits"
    return [line(f"{which} of the last turn are undone.", "bold"), *_restored_lines(restored)]


def _restored_lines(restored: "Restored") -> list[Line]:
    from alhena.frontends.shared.descriptions import restored_words

    return [
        line(escaped(text), "warning" if alarming else "")
        for alarming, text in restored_words(restored)
    ]


PERSIST = "--persist"


async def model(context: "Conversation", rest: str) -> list[Line]:
    """Carries out `/model REST`. Raises AlhenaError."""
    from alhena.agent.between_prompts import switch_model

    words = rest.split()
    if words[:1] == ["set"]:
        del words[0]
    saved = PERSIST in words
    names = [word for word in words if word != PERSIST]
    if len(names) > 1 or (saved and not names):
        return [line(f"Usage: /model, or /model set NAME [{PERSIST}]", "error")]
    if not names:
        picked = await _pick_model(context)
        if picked is None:
            return [line(NOTHING_CHANGED)]
        names, saved = [picked[0]], picked[1]
    name = await _confirm_model(context, names[0]) if words else names[0]
    if name is None:
        return [line(NOTHING_CHANGED)]
    lines: list[Line] = []
    if saved:
        environ = context.folder.place.environ
        file = user_settings_path(environ)
        write_setting(file, ("model", "name"), name)
        lines.append(line(f"Saved as model.name in {one_line(str(file))}.", "dim"))
    await switch_model(context.agent, name)
    context.folder.model = name
    context.show_status()
    return [line(f"Model: {one_line(context.identity[1])}."), *lines]


async def _confirm_model(context: "Conversation", name: str) -> str | None:
    """The name as it is meant: one that neither the catalogue nor the service has is asked about.
    None: nothing is to change."""
    from alhena.agent.between_prompts import list_models
    from alhena.frontends.terminal.setting_commands import confirm_near
    from alhena.models.catalogue import DEMO, is_alias, is_foreign_model, served_models, today
    from alhena.models.status import near_model

    elsewhere = is_foreign_model(name) != is_foreign_model(context.identity[1])
    known = {DEMO, *(each.name for each in served_models(today()))}
    bare = name.removeprefix("models/")
    if elsewhere or is_alias(name) or bare in known:
        return name
    found = await list_models(context.agent)
    near = near_model(bare, found.names)
    if bare in found.names or (near is None and not found.complete):
        return name
    return await confirm_near(context.screen, "model", one_line(name, 60), near)


async def _pick_model(context: "Conversation") -> tuple[str, bool] | None:
    """The model that was picked, and whether it is saved."""
    from alhena.agent.between_prompts import list_models
    from alhena.models.catalogue import served_models, today

    limits = {each.name: f"{each.input_limit:,} tokens" for each in served_models(today())}
    found = await list_models(context.agent)
    names = found.names
    now = context.identity[1]
    options = tuple(
        MenuOption(
            label=name,
            detail=", ".join(
                filter(None, (limits.get(name, ""), "current" if name == now else ""))
            ),
        )
        for name in names
    )
    title = "Model" if found.complete else "Model (known by name; the service listed none)"
    selected = names.index(now) if now in names else 0
    menu = Menu(title=title, options=options, selected=selected, search="")
    picked = await context.screen.choose(menu)
    if not picked:
        return None
    how = Menu(
        title=f"Use {one_line(names[min(picked)])}",
        options=(
            MenuOption(label="For this session"),
            MenuOption(label="For this and later sessions", detail="model.name in your settings"),
        ),
        search="",
    )
    answer = await context.screen.choose(how)
    return None if not answer else (names[min(picked)], min(answer) == 1)


MAX_SESSIONS = 50
"""Newest sessions that /resume offers."""
_TAIL_BYTES = 200_000


async def resume(context: "Conversation", rest: str) -> list[Line]:
    """Carries out `/resume REST`. Raises SessionError, JournalError."""
    from alhena.session.store import project_store

    now, _ = context.identity
    store = project_store(os.environ, context.toolset.workspace.cwd)
    if rest.strip():
        session_id = (await asyncio.to_thread(store.find, rest.strip())).session_id
    else:
        sessions = await asyncio.to_thread(store.summaries)
        sessions = [each for each in reversed(sessions) if each.session_id != now][:MAX_SESSIONS]
        if not sessions:
            return [line("No earlier sessions of this project.")]
        options = await asyncio.to_thread(lambda: tuple(map(_session_option, sessions)))
        picked = await context.screen.choose(
            Menu(title="Resume a session", options=options, search="")
        )
        if not picked:
            return [line(NOTHING_CHANGED)]
        session_id = sessions[min(picked)].session_id
    if session_id == now:
        return [line("That is this session.")]
    if not await asks_to_end(context, "resume that session"):
        return [line(NOTHING_CHANGED)]
    await context.go_on(session_id)
    return [line(f"Resumed session {one_line(session_id)}.", "dim")]


def _session_option(session: "SessionSummary") -> MenuOption:
    (row,) = session_rows((session,))
    return MenuOption(
        label=row.text,
        detail=f"{row.state} · {max(session.size // 1024, 1):,} KiB · {row.name[:8]}",
        preview=_last_prompt(session),
    )


def _last_prompt(session: "SessionSummary") -> str:
    """The last prompt of a session, as far as the end of its journal has it."""
    from alhena.session.records import Prompted, record_of

    try:
        with open(session.path, "rb") as file:
            file.seek(max(session.size - _TAIL_BYTES, 0))
            rows = file.read().split(b"\n")
    except OSError:
        return ""
    for each in reversed(rows):
        if each.startswith(b'{"type":"prompt",'):
            with suppress(msgspec.DecodeError):
                said = record_of(each)
                return f"last: {said.text}" if isinstance(said, Prompted) else ""
    return ""
