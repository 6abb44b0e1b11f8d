"""The start of a session at a terminal: questions about the folder and access, then the session."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from alhena.agent.runner import SessionRunner
from alhena.agent.toolset.options import People, SessionSpec
from alhena.commands import sources_of
from alhena.config.effective_settings import Place
from alhena.config.home import config_home
from alhena.config.settings import UiSettings
from alhena.display_text import one_line
from alhena.errors import AlhenaError
from alhena.frontends.shared.arguments import RunArguments
from alhena.frontends.shared.current_settings import (
    SessionFolder,
    connect_early,
    load_choices,
    place_here,
    refused_mode,
    save_choices,
    session_options,
)
from alhena.frontends.terminal.console import ConsoleFactory
from alhena.frontends.terminal.conversation import Conversation, shorten_path
from alhena.frontends.terminal.drawing.lines import Line, line, warning_line
from alhena.frontends.terminal.drawing.remedies import sitting_words
from alhena.frontends.terminal.drawing.screen import Screen
from alhena.models.catalogue import DEMO, is_foreign_model, misspelt_model
from alhena.models.providers.select import auth_type, is_demo, login_files
from alhena.system.errors import printable
from alhena.version import __version__

_TIP = "? shows the keys, /help lists commands and keys"
_CHECKPOINTS = ("general", "checkpointing", "enabled")
_DEMO = "Demo mode: answers come from fixed rules, not a model. /auth connects a model."


def _place(arguments: RunArguments) -> Place:
    return place_here(skip_trust=arguments.skip_trust, told=False, extensions=arguments.extensions)


def _lacks_access(arguments: RunArguments, place: Place) -> bool:
    """True when nothing says how to reach a model."""
    model = arguments.model or place.environ.get("GEMINI_MODEL") or place.settings.model.name or ""
    if arguments.fake_responses or is_demo(model) or is_foreign_model(model):
        return False
    try:
        if auth_type(place.settings.security.auth, place.environ) is not None:
            return False
        from alhena.models.auth.store import load_key

        return not load_key(login_files(place.environ))
    except AlhenaError:  # the session says so
        return False


async def converse(
    arguments: RunArguments,
    screen: Screen,
    attach: Callable[[Conversation], None],
    *,
    console: ConsoleFactory | None = None,
) -> None:
    """Works off what a person sends until the person leaves. `attach` is given the conversation as
    soon as it takes input; `console` makes what gives commands a terminal. Raises ConfigError,
    CredentialsError and what else keeps a session from beginning."""
    folder = SessionFolder(lambda: _place(arguments))
    conversation = Conversation(screen, time.monotonic, folder, console)
    place = folder.place
    screen.adopt(place.settings)
    if place.undecided:
        from alhena.frontends.terminal.dialogs.trust import ask_trust

        if await ask_trust(place, screen.choose, conversation.print):
            place = folder.reread()
    if place.pending:
        from alhena.frontends.terminal.dialogs.trust import ask_changed

        if await ask_changed(place, screen.choose, conversation.print):
            place = folder.reread()
    if _lacks_access(arguments, place):
        if load_choices(place.environ).demo:
            arguments = msgspec.structs.replace(arguments, model=DEMO)
        else:
            from alhena.frontends.terminal.access_dialog import ask_access

            given = await ask_access(arguments, place, screen, conversation.print)
            if given is None:
                screen.close()
                return
            arguments = given
            place = folder.reread()
    connect_soon(arguments, conversation, arguments.model)
    async with _agent(arguments, conversation) as agent:
        ui = place.settings.ui
        conversation.view = conversation.view.with_looks(ui)
        conversation.print(_welcome_lines(agent, ui))
        words = (*refused_mode(arguments, place), *_model_words(agent.model))
        conversation.print(list(map(warning_line, words)))
        words = "" if ui.hide_context_summary else _memory_words(agent, place)
        if words:
            conversation.print([line(words, "dim")])
        _name_idle(place, conversation, keys=screen.keys)
        problems = conversation.prompts.load(sources_of(place))
        conversation.print(list(map(warning_line, problems)))
        if agent.toolset.links.resumed:
            from alhena.frontends.terminal.drawing.resume_view import load_earlier

            conversation.view, blocks = await load_earlier(
                agent, conversation.view, conversation.pages
            )
            screen.update(conversation.view, blocks)
            conversation.print([line(f"Resumed session {agent.session_id}.", "dim")])
        if arguments.prompt_interactive:
            conversation.submit(arguments.prompt_interactive, early=True)
        telling = asyncio.ensure_future(_tell_notices(agent, conversation))
        try:
            await conversation.run(agent, attach, ide=place.settings.ide.enabled)
        finally:
            telling.cancel()


async def _tell_notices(agent: SessionRunner, conversation: Conversation) -> None:
    """Shows what the session has to say before the first prompt, also of servers that fail."""
    control = agent.toolset.server_control
    failed = dict[str, None]()

    def tell() -> None:
        told = conversation.view.told
        fresh = [each for each in agent.toolset.warnings if each not in told]
        conversation.view = msgspec.structs.replace(conversation.view, told=(*told, *fresh))
        lines = [warning_line(sitting_words(one_line(each))) for each in fresh]
        for each in control.reports if control else ():
            if each.state == "disconnected" and each.name not in failed:
                failed[each.name] = None
                lines.append(line(f"  /mcp disable {each.name} turns it off.", "dim"))
        conversation.print(lines)

    tell()
    if control is not None:
        async for _ in control.each_settled():
            tell()


def connect_soon(arguments: RunArguments, conversation: Conversation, model: str | None) -> None:
    """Begins to open the connection of the next request in a thread, unless one is under way."""
    if arguments.fake_responses is None and not conversation.working:
        loop = asyncio.get_running_loop()
        loop.run_in_executor(None, connect_early, conversation.folder.place, model)


def _welcome_lines(agent: SessionRunner, ui: UiSettings) -> list[Line]:
    """The directory, the model that answers, and the way to help."""
    lines: list[str] = []
    if not ui.hide_banner:
        lines.append(
            f"alhena {__version__} in {shorten_path(agent.toolset.workspace.cwd, os.environ)}"
        )
        lines.append(
            _DEMO if is_demo(agent.model) else f"Model {one_line(agent.model)} (/model changes it)"
        )
    if not ui.hide_tips:
        lines.append(_TIP)
    return [line(each, "dim") for each in lines]


def _model_words(model: str) -> tuple[str, ...]:
    meant = misspelt_model(model)
    words = f"Unknown model {one_line(model, 60)}. Did you mean {meant}? /model changes it."
    return () if meant is None else (words,)


def _memory_words(agent: SessionRunner, place: Place) -> str:
    """Names the memory files that the session begins with; "" without any."""
    session = agent.toolset.memory
    files = () if session is None else session.memory.files
    homes = ((str(place.cwd), ""), (str(config_home(place.environ).parent), "~/"))
    return f"Memory files: {', '.join(_short(item.path, homes) for item in files)}" if files else ""


def _short(path: Path, homes: tuple[tuple[str, str], ...]) -> str:
    for top, short in homes:
        if path.is_relative_to(top):
            return f"{short}{printable(path.relative_to(top))}"
    return printable(path)


def _name_idle(place: Place, conversation: Conversation, *, keys: bool) -> None:
    """Names the settings, and the commands of keys, without effect that have not been named
    before, and problems of the file of keys. A misspelt setting is one of them."""
    idle = {"Settings": place.idle}
    if keys:
        from alhena.frontends.terminal.keybindings import NAME, read_key_file

        file = read_key_file(place.environ)
        idle[f"Commands of {NAME}"] = file.unknown
        conversation.print([warning_line(one_line(each)) for each in file.problems])
    if not any(idle.values()) and not place.remarks:
        return
    named = load_choices(place.environ).named_settings
    told = [each for each in place.remarks if each not in named]
    conversation.print([warning_line(one_line(each)) for each in told])
    for kind, names in idle.items():
        new = [name for name in names if name not in named]
        if new:
            told += new
            words = f"! {kind} without effect in this version: {', '.join(new)}"
            conversation.print([line(words, "warning")])
    if not told:
        return
    try:
        save_choices(place.environ, named_settings=(*named, *told))
    except AlhenaError as error:
        conversation.print([warning_line(one_line(str(error)))])


def _agent(arguments: RunArguments, conversation: Conversation) -> SessionRunner:
    def options() -> SessionSpec:
        asked = session_options(arguments, conversation.folder.place, attended=True)
        chosen = any(each.says(_CHECKPOINTS) for each in asked.place.layers)
        return msgspec.structs.replace(
            asked,
            place=msgspec.structs.replace(
                asked.place, directories=(*asked.place.directories, *conversation.folder.added)
            ),
            model=msgspec.structs.replace(
                asked.model, name=conversation.folder.model or asked.model.name
            ),
            people=People(
                approve=conversation.approve,
                ask=conversation.ask,
                edit=conversation.edit,
                interject=conversation.interject,
            ),
            client=msgspec.structs.replace(
                asked.client,
                console=conversation.console,
                checkpoints=not chosen,
                facts={**asked.client.facts, "output_format": "text"},
            ),
        )

    return SessionRunner(options)
