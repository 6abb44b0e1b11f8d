"""Commands that change a session's settings, or show and copy what there is in it."""

import os
import platform
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

import alhena
from alhena.agent.between_prompts import Upcoming, find_upcoming
from alhena.agent.runner import SessionRunner
from alhena.agent.toolset.toolset import add_root, window_of
from alhena.chat.estimates import content_tokens, part_tokens, text_tokens, value_tokens
from alhena.config.effective_settings import Place
from alhena.config.home import user_settings_path
from alhena.config.jsonc import with_value, without_value
from alhena.config.layers import LayerKind
from alhena.config.settings import DEFAULT_NAMES
from alhena.display_text import escaped, money, one_line
from alhena.errors import InputError
from alhena.frontends.shared.files import change_json
from alhena.frontends.shared.setting_values import (
    layer_of,
    list_settings,
    parse_setting,
    setting_at,
    value_choices,
    value_text,
)
from alhena.frontends.terminal.drawing.lines import Line, line
from alhena.frontends.terminal.drawing.menu import NOTHING_CHANGED, Menu, MenuOption
from alhena.frontends.terminal.looks.clipboard import copy
from alhena.memory.files import LoadedMemory, MemoryKind
from alhena.models.prices import Prices, Tokens
from alhena.models.providers.select import is_demo
from alhena.near_names import near_name
from alhena.policy.model import ApprovalMode
from alhena.version import __version__
from alhena.wire.content import Content, Part, meant_call

if TYPE_CHECKING:
    from alhena.frontends.terminal.conversation import Conversation
    from alhena.frontends.terminal.drawing.screen import Screen

CONTEXT = 2
"""Contents that each session begins with."""
INIT = (
    "Look at this project and write a GEMINI.md in its top folder for agents that work on it: what "
    "it is, how its parts are arranged, the commands that build, test and check it, and the rules "
    "its code keeps. Read before you write; leave out what cannot be known from the files."
)


async def authenticate(context: "Conversation", _rest: str) -> list[Line]:
    """/auth: another way to reach models."""
    from alhena.frontends.terminal.access_dialog import change_access

    if not await change_access(context.folder.place, context.screen, context.print):
        return [line(NOTHING_CHANGED)]
    context.folder.reread()
    context.folder.model = ""
    return await context.begin_again()


async def copy_answer(context: "Conversation", _rest: str) -> list[Line]:
    """/copy: the last answer to the clipboard."""
    text = next(_answers(context.agent), "")
    if not text:
        return [line("Nothing to copy yet.", "warning")]
    way = await copy(text, os.environ, context.screen.control)
    if not way:
        return [
            line("The terminal cannot take the answer. /export writes it to a file.", "warning")
        ]
    return [line(f"Copied {len(text):,} characters by {way}.", "dim")]


def _answers(agent: SessionRunner) -> Iterator[str]:
    """The model's texts, the newest first."""
    for content in reversed(agent.history[CONTEXT:]):
        parts = content.parts if content.role == "model" else ()
        text = "".join(part.text or "" for part in parts if not part.thought)
        if text.strip():
            yield text


async def about(context: "Conversation", _rest: str) -> list[Line]:
    """/about and /bug: version, system, model, session."""
    session, model = context.identity
    settings = context.folder.place.settings
    rows = {
        "version": f"alhena {__version__}",
        "Python": platform.python_version(),
        "system": platform.platform(),
        "terminal": os.environ.get("TERM", ""),
        "model": model,
        "sign-in": "none: demo mode"
        if is_demo(model)
        else settings.security.auth.selected_type or "by environment",
        "sandbox": context.toolset.sandbox or "none",
        "session": session,
    }
    return [line(f"  {name:10} {one_line(text)}") for name, text in rows.items()]


async def bug(context: "Conversation", rest: str) -> list[Line]:
    """/bug: the lines that a report needs."""
    head = line("Put these lines into your report, and `alhena trace` for what happened:", "bold")
    rows = await about(context, rest)
    wanted = context.folder.place.settings.advanced.bug_command
    if wanted is None:
        return [head, *rows]
    info = "\n".join("".join(text for _, text in each).strip() for each in rows)
    filled = {"title": rest.strip(), "info": info}
    address = re.sub(
        r"\{(title|info)\}", lambda found: quote(filled[found[1]], safe=""), wanted.url_template
    )
    return [head, *rows, line(f"Report it: {one_line(address)}")]


async def docs(_context: "Conversation", _rest: str) -> list[Line]:
    """/docs: the folder of the documentation."""
    inside = Path(alhena.__file__).parent / "docs"
    folder = inside if inside.is_dir() else Path(alhena.__file__).parents[2] / "docs"
    return [line(f"Documentation: {one_line(str(folder))}. The model can read it: ask it.")]


async def plan(context: "Conversation", rest: str) -> list[Line]:
    """/plan: plan mode, with the rest of the line as a prompt."""
    context.toolset.authority.modes.switch(ApprovalMode.PLAN)
    if rest.strip():
        context.submit(rest)
    return [line("Plan mode: nothing is changed until you approve a plan. Shift-Tab leaves it.")]


async def init(context: "Conversation", _rest: str) -> list[Line]:
    """/init: has the model write a GEMINI.md."""
    here = context.toolset.workspace.cwd
    for name in DEFAULT_NAMES:
        if (here / name).exists():
            return [line(f"There is already a file {name} here. Ask for changes to it.", "warning")]
    context.submit(INIT)
    return []


async def todos(context: "Conversation", _rest: str) -> list[Line]:
    """/todos: the model's list of tasks."""
    from alhena.frontends.terminal.drawing.call_result import task_lines

    for content in reversed(context.agent.history):
        for part in reversed(content.parts):
            call = part.function_call and meant_call(part.function_call)
            if call is not None and call.name == "write_todos":
                return task_lines((call.args or {}).get("todos", [])) or [line("No tasks.")]
    return [line("No tasks. The model lists them for longer work.")]


async def show(context: "Conversation", rest: str) -> list[Line]:
    """/show: a list of the blocks that the pager opens, or the whole text of one."""
    pages, number = dict(context.pages.number_blocks()), rest.strip()
    if number.isdecimal() and int(number) in pages:
        return [line(each) for each in pages[int(number)].whole.split("\n")]
    if number:
        return [line(f"There is no block {one_line(number, 20)}. /show lists them.", "error")]
    if not pages:
        return [line("Nothing to show yet.")]
    rows = [line(f"  {at} {one_line(each.title, 200)}") for at, each in pages.items()]
    gone = context.pages.dropped
    older = f", without {gone:,} older ones" if gone else ""
    return [line(f"{len(pages)} blocks{older}; /show NUMBER prints one", "bold"), *rows]


async def directory(context: "Conversation", rest: str) -> list[Line]:
    """/directory show|add DIR: the directories of the workspace. Raises InputError."""
    what, _, given = rest.strip().partition(" ")
    workspace = context.toolset.workspace
    if what in ("", "show"):
        return [line(one_line(str(root))) for root in workspace.roots]
    if what != "add" or not given.strip():
        return [line("Usage: /directory show, or /directory add DIR", "error")]
    path = _directory(workspace.cwd, given.strip())
    if path in workspace.roots:
        return [line("It belongs to the workspace already.")]
    context.folder.added.append(str(path))
    added = [line(f"Added {escaped(str(path))} to the workspace.", "dim")]
    if not context.view.totals.requests:
        await context.clear()
        return added
    add_root(context.toolset, path)
    context.tell(f"The directory {path} belongs to the workspace from now on.")
    if context.toolset.sandbox:
        told = "! Commands in the sandbox reach it from the next session on: /clear begins one."
        added.append(line(told, "warning"))
    return added


def _directory(cwd: Path, given: str) -> Path:
    path = Path(os.path.realpath(cwd / os.path.expanduser(given)))
    if not path.is_dir():
        raise InputError(f"there is no directory {path}.")
    return path


async def settings(context: "Conversation", rest: str) -> list[Line]:
    """/settings [WORD | KEY VALUE | reset KEY]: a menu of settings (those with WORD in their
    names), or one that is set or removed. Raises ConfigError."""
    words = rest.removeprefix("set ").split(None, 1)
    if words == ["ui.theme"]:
        return await theme(context, "")
    if len(words) == 2 and words[0] == "ui.theme":
        return await theme(context, words[1])
    kinds = list_settings()
    place = context.folder.place
    if len(words) == 2 and words[0] == "reset" and words[1].strip() in kinds:
        return _reset(context, words[1].strip())
    if len(words) == 2 and words[0] in kinds:
        return _set(context, words[0], parse_setting(words[0], words[1].strip()))
    wanted = [key for key in kinds if rest.strip().casefold() in key.casefold()]
    if not wanted:
        return [line(f"No setting has {one_line(rest.strip())!r} in its name.", "error")]
    options = tuple(
        MenuOption(
            label=f"{key}: {value_text(setting_at(place.settings, key))}",
            detail=f"({layer_of(place, key)})",
        )
        for key in wanted
    )
    picked = await context.screen.choose(Menu(title="Which setting?", options=options, search=""))
    key = wanted[min(picked)] if picked else ""
    return await _change(context, key, kinds[key]) if key else [line(NOTHING_CHANGED)]


async def _change(context: "Conversation", key: str, kind: Any) -> list[Line]:
    """Asks for the value of a setting."""
    if key == "ui.theme":
        return await theme(context, "")
    place, values = context.folder.place, value_choices(kind)
    options = [MenuOption(label=value_text(each)) for each in values] or [
        MenuOption(label="Another value")
    ]
    if layer_of(place, key) == LayerKind.USER:
        options.append(MenuOption(label="Reset", detail="removes it from your settings"))
    chosen: frozenset[int] | None = frozenset({0})
    if len(options) > 1:
        menu = Menu(title=f"{key} ({layer_of(place, key)})", options=tuple(options), search="")
        chosen = await context.screen.choose(menu)
    if chosen and options[min(chosen)].label == "Reset":
        return _reset(context, key)
    if chosen and values:
        return _set(context, key, values[min(chosen)])
    now = value_text(setting_at(place.settings, key))
    text = await context.screen.ask_text(f"{key}:", now) if chosen else None
    return _set(context, key, parse_setting(key, text)) if text else [line(NOTHING_CHANGED)]


async def theme(context: "Conversation", rest: str) -> list[Line]:
    """/theme [NAME]: a list of the themes, or the one of a name, saved for the user."""
    ui, name = context.folder.place.settings.ui, one_line(rest.strip(), 60)
    if rest.strip().endswith(".json"):
        return _set(context, "ui.theme", rest.strip())
    themes = context.screen.themes(ui.custom_themes)
    known = {each.casefold(): each for each in themes}
    if name and themes and name.casefold() not in known:
        near = near_name(name, themes)
        if near is None:
            return [line(f"No theme {name}. /theme lists them.", "error")]
        name = await confirm_near(context.screen, "theme", name, near) or ""
    elif not themes and not name:
        return [line("Plain lines have no colours. /theme NAME sets those of later sessions.")]
    elif name:
        name = known.get(name.casefold(), name)
    elif themes:
        now = ui.theme or ""
        options = tuple(
            MenuOption(label=each, detail="current" if each == now else "", sample=sample)
            for each, sample in themes.items()
        )
        selected = list(themes).index(now) if now in themes else 0
        menu = Menu(title="Theme", options=options, selected=selected, search="")
        picked = await context.screen.choose(menu)
        name = options[min(picked)].label if picked else ""
    return _set(context, "ui.theme", name) if name else [line(NOTHING_CHANGED)]


async def confirm_near(screen: "Screen", kind: str, name: str, near: str | None) -> str | None:
    """Asks what was meant by a name that is not known: the near one, if any, or, of a model, which
    the service may know, the name as it is; None for neither."""
    answers: dict[MenuOption, str | None] = {}
    if near is not None:
        answers[MenuOption(label=f"Yes, use {near}"[:LABEL], key="y")] = near
    if kind == "model":
        answers[MenuOption(label=f"Use {name} as written"[:LABEL], key="u")] = name
    answers[MenuOption(label="No, change nothing", key="n")] = None
    title = f"Unknown {kind} {name}. {f'Did you mean {near}?' if near else 'Use it?'}"
    menu = Menu(title=title, options=tuple(answers), escape="change nothing")
    picked = await screen.choose(menu)
    return answers[menu.options[min(picked)]] if picked else None


LABEL = 60
"""Characters of an answer."""


def _set(context: "Conversation", key: str, value: Any) -> list[Line]:
    changed = partial(with_value, path=tuple(key.split(".")), value=value)
    file, place = _write(context, changed)
    lines = [line(f"{key} is {value_text(value)} in {one_line(str(file))}.")]
    if setting_at(place.settings, key) != value:
        above = layer_of(place, key)
        told = f"! The {above} settings outweigh it: `alhena settings show --origin`"
        lines.append(line(told, "warning"))
    return lines + _when(key)


def _reset(context: "Conversation", key: str) -> list[Line]:
    file, place = _write(context, partial(without_value, path=tuple(key.split("."))))
    value = f"{value_text(setting_at(place.settings, key))} ({layer_of(place, key)})"
    return [line(f"{key} is not in {one_line(str(file))} any more; it is {value}."), *_when(key)]


def _write(context: "Conversation", changed: Callable[[str], str]) -> tuple[Path, Place]:
    """Changes the user's settings and adopts them."""
    file = user_settings_path(os.environ)
    change_json(file, changed, f"{file} cannot be written")
    place = context.folder.reread()
    context.screen.adopt(place.settings)
    return file, place


def _when(key: str) -> list[Line]:
    if key.startswith(("ui.", "general.vim", "general.notif", "general.enableNotif")):
        return []
    return [line("It takes effect in the next session.", "dim")]


LARGEST = 10
NAME_COLUMNS = 200
SYSTEM, TOOLS, MEMORY = "System prompt", "Tools", "Memory"
CONVERSATION, RESULTS = "Conversation", "Results"
KINDS = (SYSTEM, TOOLS, MEMORY, CONVERSATION, RESULTS)


class WindowItem(msgspec.Struct, frozen=True):
    """A part of the window, of one of the KINDS."""

    kind: str
    name: str
    tokens: int


async def context(context: "Conversation", _rest: str) -> list[Line]:
    """/context: the parts of the context window, by their sizes."""
    bench, model = context.toolset, context.identity[1]
    request = await find_upcoming(context.agent)
    files = () if bench.memory is None else bench.memory.memory.files
    items = [each for each in window_items(request, files) if each.tokens]
    estimated = sum(each.tokens for each in items)
    used, how = estimated, "estimated; the service has counted nothing yet"
    if request.measured is not None:
        length, counted = request.measured
        later = sum(map(content_tokens, request.contents[length:]))
        used, how = (
            counted + later,
            f"{counted:,} counted by the service, {later:,} estimated since",
        )
    window = window_of(bench, model)
    lines = [
        line(f"Context: {used:,} of {window:,} tokens ({used / window:.1%})", "bold"),
        line(f"  {how}", "dim"),
    ]
    prices = Prices(bench.settings.model.prices)

    def cost(tokens: int, cached: int = 0) -> float | None:
        return prices.cost(model, Tokens(prompt=tokens, cached=cached), size=used)

    if (fresh := cost(used)) is not None:
        told = f"{money(fresh)} a request, {money(cost(used, used))} where the cache has it"
        lines.append(line(f"  {told}", "dim"))
    parts = [WindowItem(kind, kind, _sum(items, kind)) for kind in KINDS]
    lines += (_row(each, estimated, cost(each.tokens)) for each in parts)
    lines.append(line("Largest", "bold"))
    largest = sorted(items, key=lambda each: each.tokens, reverse=True)[:LARGEST]
    return [*lines, *(_row(each, estimated, cost(each.tokens)) for each in largest)]


def _sum(items: Iterable[WindowItem], kind: str) -> int:
    return sum(each.tokens for each in items if each.kind == kind)


def _row(item: WindowItem, whole: int, cost: float | None) -> Line:
    share = f"{item.tokens / max(whole, 1):>4.0%}"
    price = "" if cost is None else f"{money(cost):>10}"
    name = one_line(item.name, NAME_COLUMNS)
    return (("dim", f"  {item.tokens:>9,} {share}{price}  "), *line(name))


def window_items(request: Upcoming, files: Iterable[LoadedMemory]) -> Iterator[WindowItem]:
    """The parts of the next request with estimates of their tokens. The project's memory is in its
    first content, all other memory in the system prompt."""
    system = request.config.system_instruction
    tokens = 0 if system is None else content_tokens(system)
    memory = 0
    for each in files:
        size = int(text_tokens(each.block))
        if each.kind is MemoryKind.PROJECT:
            memory += size
        else:
            tokens -= size
        yield WindowItem(MEMORY, str(each.path), size)
    yield WindowItem(SYSTEM, "system prompt", max(tokens, 0))
    for tool in request.config.tools or ():
        for declared in tool.function_declarations or ():
            yield WindowItem(TOOLS, declared.name, int(value_tokens(declared)))
    told: dict[str, str] = {}
    for content in request.contents:
        for item in _content_items(content, told):
            less = min(memory, item.tokens) if item.kind == CONVERSATION else 0
            memory -= less
            yield msgspec.structs.replace(item, tokens=item.tokens - less)


def _content_items(content: Content, told: dict[str, str]) -> Iterator[WindowItem]:
    """A content's results and calls, and the rest of it in one. `told` has the calls by their
    ids."""
    words = list[Part]()
    for part in content.parts:
        call, response = part.function_call, part.function_response
        if call is not None:
            call = meant_call(call)
            about = next((each for each in (call.args or {}).values() if isinstance(each, str)), "")
            name = f"{call.name} {about}"
            told[call.id or ""] = name
            yield WindowItem(CONVERSATION, f"call: {name}", int(part_tokens(part)))
        elif response is not None:
            name = told.get(response.id or "", response.name)
            yield WindowItem(RESULTS, f"result: {name}", int(part_tokens(part)))
        else:
            words.append(part)
    if words:
        who = "answer" if content.role == "model" else "prompt"
        text = next((part.text for part in words if part.text and not part.thought), "")
        tokens = int(sum(map(part_tokens, words)))
        yield WindowItem(CONVERSATION, f"{who}: {text or 'media'}", tokens)
