"""The slash commands: a table, and the answer of each."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from alhena.commands import sources_of
from alhena.display_text import money, one_line
from alhena.frontends.shared.listings import count_noun
from alhena.frontends.shared.session_lists import SESSION_LISTS, OpenSession
from alhena.frontends.terminal import setting_commands, work_commands
from alhena.frontends.terminal.drawing.call_result import duration
from alhena.frontends.terminal.drawing.lines import Line, line, list_lines, row
from alhena.frontends.terminal.drawing.menu import NOTHING_CHANGED
from alhena.frontends.terminal.rewind import rewind
from alhena.frontends.terminal.session_commands import (
    chat,
    export,
    mcp,
    model,
    restore,
    resume,
    undo,
)
from alhena.near_names import VERY_NEAR, near_name

if TYPE_CHECKING:
    from alhena.frontends.terminal.conversation import Conversation

KEYS = (
    ("Enter", "sends; Alt-Enter, Ctrl-J or a backslash at the end begins a new line"),
    ("Esc", "interrupts what runs, then asks about queued prompts; twice: goes back to a prompt"),
    ("Ctrl-C", "interrupts, or clears the input; twice in a row leaves"),
    ("Ctrl-D", "leaves, when the input is empty"),
    ("Shift-Tab", "changes the approval mode: default, auto_edit, plan"),
    ("Ctrl-Y", "everything runs without asking (yolo), and back"),
    ("Up, Down, Ctrl-R", "earlier prompts; in an empty line Up first takes back a queued one"),
    ("Tab", "completes a command, or a path after an @"),
    ("Ctrl-G", "the input in your editor (also Ctrl-X Ctrl-E)"),
    ("Ctrl-V", "pastes text, or an image as a file"),
    ("Ctrl-O", "opens the last output, diff, thoughts or long prompt in a pager"),
    ("Ctrl-L, Ctrl-Z", "clears the screen; suspends"),
    ("@path", "sends the file's content with the prompt"),
    ("!command", "runs a command; the model sees it with the next prompt"),
)
LINE_KEYS = (
    ("Enter", "sends"),
    ("Ctrl-C", "interrupts; where nothing runs it leaves"),
    ("Ctrl-D", "leaves, at the beginning of a line"),
    *KEYS[-2:],
)
"""The keys of a terminal that only reads lines."""


Carry = Callable[["Conversation", str], Awaitable[list[Line]]]


class SlashCommand(msgspec.Struct, frozen=True):
    """A command. `idle`: it is refused while something runs."""

    name: str
    summary: str
    carry: Carry
    aliases: tuple[str, ...] = ()
    idle: bool = False


async def _help(context: "Conversation", _rest: str) -> list[Line]:
    commands = [row(f"/{each.name}", _with_aliases(each)) for each in COMMANDS]
    keys = [row(key, what) for key, what in (KEYS if context.keys else LINE_KEYS)]
    own = [row(f"/{name}", summary) for name, summary in context.prompts.names()]
    own = [(), line("Prompts", "bold"), *own] if own else []
    tools = context.toolset
    names = {
        "Skills": () if tools.skills is None else tuple(tools.skills.active),
        "Agents": tuple(f"@{each.name}" for each in tools.agents.local),
        "Extensions": tuple(each.name for each in tools.spec.place.extensions if not each.why),
    }
    own += ((), *(row(kind, ", ".join(found)) for kind, found in names.items() if found))
    return [line("Commands", "bold"), *commands, *own, (), line("Keys", "bold"), *keys]


def _with_aliases(command: SlashCommand) -> str:
    also = ", ".join(f"/{name}" for name in command.aliases)
    return f"{command.summary} (also {also})" if also else command.summary


def _list(name: str) -> Carry:
    """The command that shows a list of the session."""

    async def carry(context: "Conversation", rest: str) -> list[Line]:
        session = OpenSession(context.toolset, context.folder, context.prompts)
        return list_lines(SESSION_LISTS[name](session, rest))

    return carry


async def _stats(context: "Conversation", _rest: str) -> list[Line]:
    totals = context.view.totals
    session, model = context.identity
    cost = context.toolset.spending.cost()
    return [
        line("Session", "bold"),
        row("session", session),
        row("model", model),
        row("time", duration(context.age_ms)),
        row("requests", f"{count_noun(totals.requests, 'request')}, {duration(totals.model_ms)}"),
        row(
            "tokens in",
            f"{totals.input_tokens:,} ({_cached_share(totals.cached_tokens, totals.input_tokens)})",
        ),
        row("tokens out", f"{totals.output_tokens:,}"),
        row("cost", "not known" if cost is None else f"about {money(cost)} (list prices)"),
        row(
            "tool calls",
            f"{totals.calls} ({totals.failed_calls} failed, {duration(totals.tool_ms)})",
        ),
    ]


async def _clear(context: "Conversation", _rest: str) -> list[Line]:
    if not await work_commands.asks_to_end(context, "start a new session"):
        return [line(NOTHING_CHANGED)]
    await context.clear()
    return [line("Started a new conversation.", "dim")]


async def _compress(context: "Conversation", _rest: str) -> list[Line]:
    from alhena.frontends.headless.output import compressed_words

    event = await context.compress()
    style = "dim" if event.status in ("compressed", "noop") else "warning"
    return [line(one_line(compressed_words(event), 2_000), style)]


async def _ide(context: "Conversation", rest: str) -> list[Line]:
    return await context.ide.command(rest)


async def _trust(context: "Conversation", rest: str) -> list[Line]:
    if rest.strip() not in ("", "trust"):
        return [line("Usage: /trust", "error")]
    from alhena.frontends.terminal.dialogs.trust import ask_trust

    place = context.folder.place
    if place.trust.trusted:
        return [line(f"This folder is trusted ({place.trust.reason}).")]
    if not await ask_trust(place, context.screen.choose, context.print):
        return [line(NOTHING_CHANGED)]
    context.prompts.load(sources_of(context.folder.reread()))
    return await context.begin_again()


async def _quit(context: "Conversation", _rest: str) -> list[Line]:
    context.leave()
    return []


COMMANDS: tuple[SlashCommand, ...] = (
    SlashCommand("help", "Commands and keys", _help, ("?",)),
    SlashCommand("commands", "Custom commands (`reload`)", _list("commands")),
    SlashCommand("tools", "Tools (`desc`: with descriptions)", _list("tools")),
    SlashCommand("policies", "Policy rules", _list("policies")),
    SlashCommand("hooks", "Hooks of this session", _list("hooks")),
    SlashCommand(
        "mcp", "MCP servers (`desc`, `schema`, `refresh`; `auth`, `enable`, `disable` NAME)", mcp
    ),
    SlashCommand(
        "ide", "The editor around the terminal (`status`, `enable`, `disable`, `install`)", _ide
    ),
    SlashCommand("agents", "Subagents", _list("agents")),
    SlashCommand("extensions", "Extensions of this session", _list("extensions")),
    SlashCommand(
        "skills", "Skills of this session (`reload`; `enable`, `disable` NAME)", _list("skills")
    ),
    SlashCommand(
        "memory",
        "Show, list or reload memory (`list`, `refresh`; `add FACT`)",
        _list("memory"),
    ),
    SlashCommand("stats", "Tokens, cost, calls and times", _stats, ("usage", "cost", "status")),
    SlashCommand("context", "Parts of the context window, by size", setting_commands.context),
    SlashCommand("clear", "Start a new session", _clear, ("new",)),
    SlashCommand(
        "compress",
        "Replace the conversation with a summary",
        _compress,
        ("summarize", "compact"),
    ),
    SlashCommand(
        "chat",
        "Saved conversations (`save NAME`, `list`, `resume`, `delete NAME`, `share FILE`)",
        chat,
    ),
    SlashCommand(
        "restore",
        "Restore a checkpoint: files, conversation, call (`NAME`)",
        restore,
    ),
    SlashCommand(
        "rewind",
        "Go back to an earlier prompt, with or without its file changes",
        rewind,
        idle=True,
    ),
    SlashCommand("diff", "All that this session changed, by file", work_commands.diff),
    SlashCommand(
        "trace", "Write this session's timeline as a page and open it", work_commands.trace
    ),
    SlashCommand("tasks", "What runs (`show NUMBER`, `stop NUMBER`)", work_commands.tasks),
    SlashCommand("undo", "Undo the last turn's file changes", undo),
    SlashCommand("model", "Choose the model (`set NAME [--persist]`)", model),
    SlashCommand("resume", "Resume an earlier session (`ID`, or pick one)", resume),
    SlashCommand("trust", "Trust this folder, or not", _trust, ("permissions",)),
    SlashCommand(
        "auth", "Another API key, account or local model", setting_commands.authenticate, ("login",)
    ),
    SlashCommand(
        "settings",
        "Change a setting (`WORD`: those with it in their names; `reset KEY`)",
        setting_commands.settings,
        ("config",),
    ),
    SlashCommand("theme", "Choose the colours (`NAME`)", setting_commands.theme),
    SlashCommand(
        "directory",
        "Directories of the workspace (`add DIR`)",
        setting_commands.directory,
        ("dir",),
    ),
    SlashCommand("plan", "Plan mode (`/plan PROMPT`: with this prompt)", setting_commands.plan),
    SlashCommand("copy", "Copy the last answer", setting_commands.copy_answer),
    SlashCommand(
        "export", "Write the conversation to a file (`FILE.md`, `.json`, `.html`)", export
    ),
    SlashCommand("todos", "The model's tasks", setting_commands.todos),
    SlashCommand(
        "show",
        "Whole outputs, diffs, thoughts and long prompts (`NUMBER`)",
        setting_commands.show,
    ),
    SlashCommand("init", "Have the model write a GEMINI.md", setting_commands.init),
    SlashCommand("about", "Version, system, model, session", setting_commands.about, ("version",)),
    SlashCommand("bug", "Details for a bug report", setting_commands.bug),
    SlashCommand("docs", "Folder of the documentation", setting_commands.docs),
    SlashCommand("quit", "Leave", _quit, ("exit",)),
)
AT_ONCE = frozenset(
    (
        *("help", "commands", "tools", "policies", "hooks", "mcp", "ide", "agents", "extensions"),
        *("diff", "trace", "tasks"),
        *("skills", "stats", "plan", "copy", "todos", "show", "about", "bug", "docs", "quit"),
    )
)
"""Commands that need not wait until what runs has ended."""
PLAIN = {**dict.fromkeys(("exit", "quit", ":q", ":q!", ":wq"), "/quit"), "?": "/help"}
"""Lines that are commands without a slash."""
NAMES = frozenset(name for each in COMMANDS for name in (each.name, *each.aliases))


def _cached_share(cached: int, all_tokens: int) -> str:
    """The input tokens that came from a cache, and their share."""
    share = f", {cached / all_tokens:.0%}" if cached and all_tokens else ""
    return f"{cached:,} cached{share}"


def find_command(text: str) -> tuple[SlashCommand | None, str, str] | None:
    """The command that a line names (None: there is none of that name), the name, and the rest of
    the line. None for a line that is no command: it does not begin with a slash, or with a path."""
    if not text.startswith("/"):
        return None
    first, _, rest = text[1:].partition(" ")
    name = first.strip()
    if "/" in name or "\n" in name:
        return None
    found = (each for each in COMMANDS if name in (each.name, *each.aliases))
    return next(found, None), name, rest


def command_names() -> list[tuple[str, str]]:
    """Names with their summaries, for completion."""
    return [(each.name, each.summary) for each in COMMANDS]


INSTEAD = {
    "editor": "Set VISUAL or EDITOR to choose your editor.",
    "privacy": "`alhena settings show privacy` shows what is set.",
    "shortcuts": "/help has the keys, too.",
    "vim": "/settings general.vimMode true sets the keys of vi.",
}
"""For commands of the reference: how the same is done here."""


def unknown_words(name: str, prompts: Iterable[tuple[str, str]]) -> str:
    """Message for an unknown command, where these prompts are known."""
    shown = one_line(name, 60)
    if name.lower() in INSTEAD:
        return f"There is no /{shown} here. {INSTEAD[name.lower()]}"
    known = [*NAMES, *(each for each, _ in prompts)]
    near = near_name(name, known, VERY_NEAR)
    return f"Unknown command /{shown}. {f'Did you mean /{near}?' if near else 'See /help.'}"
