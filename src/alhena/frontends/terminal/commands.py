"""The slash commands: a table, and the answer of each."""

from collections.abc import Awaitable, Callable, Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING

import msgspec

from alhena.agent.toolset.approval import describe_allowance
from alhena.commands import sources_of
from alhena.display_text import escaped, one_line
from alhena.frontends.terminal import setting_commands
from alhena.frontends.terminal.drawing.call_result import counted, duration
from alhena.frontends.terminal.drawing.lines import Line, line, row
from alhena.frontends.terminal.rewind import rewind
from alhena.frontends.terminal.session_commands import (
    chat,
    export,
    mcp,
    model,
    restore,
    resume,
    skills,
    undo,
    unread_lines,
)
from alhena.policy.model import PolicyRule

if TYPE_CHECKING:
    from alhena.frontends.terminal.conversation import Conversation

KEYS = (
    ("Enter", "sends; Alt-Enter, Ctrl-J or a backslash at the end begins a new line"),
    ("Esc", "interrupts what runs, then asks about queued prompts; twice: goes back to a prompt"),
    ("Ctrl-C", "interrupts, or clears the input; twice in a row leaves"),
    ("Ctrl-D", "leaves, when the input is empty"),
    ("Shift-Tab", "changes the approval mode: default, autoEdit, plan"),
    ("Ctrl-Y", "everything runs without asking (yolo), and back"),
    ("Up, Down, Ctrl-R", "earlier prompts; in an empty line Up first takes back a queued one"),
    ("Tab", "completes a command, or a path after an @"),
    ("Ctrl-G, Ctrl-X Ctrl-E", "the input in your editor"),
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


class Command(msgspec.Struct, frozen=True):
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
        "Agents": tuple(f"@{each.name}" for each in tools.agents),
        "Extensions": tuple(each.name for each in tools.options.extensions if not each.why),
    }
    own += ((), *(row(kind, ", ".join(found)) for kind, found in names.items() if found))
    return [line("Commands", "bold"), *commands, *own, (), line("Keys", "bold"), *keys]


async def _commands(context: "Conversation", rest: str) -> list[Line]:
    what = rest.strip() or "list"
    if what not in ("list", "reload"):
        return [line("It is /commands list or /commands reload.", "error")]
    if what == "reload":
        context.prompts.load()
    custom = context.prompts.custom
    lines = [line(counted(len(custom.files), "custom command"), "bold")]
    for name, file in custom.files.items():
        lines.append(row(f"/{name}", custom.describe_command(file)))
        lines.append(line(f"      {one_line(str(file.path))}", "dim"))
    return lines + [line(f"! {each}", "warning") for each in custom.problems]


def _with_aliases(command: Command) -> str:
    also = ", ".join(f"/{name}" for name in command.aliases)
    return f"{command.summary} (also {also})" if also else command.summary


async def _tools(context: "Conversation", rest: str) -> list[Line]:
    registry = context.toolset.registry
    if rest.strip() not in ("", "desc"):
        return [line("It is /tools or /tools desc.", "error")]
    tools = registry.all_tools
    lines = [line(counted(len(tools), "tool"), "bold")]
    for tool in tools:
        if rest.strip() == "desc":
            lines.append(row(tool.name, tool.kind))
            lines += (
                line(f"      {escaped(each)}", "dim") for each in tool.description.split("\n")
            )
        else:
            first = one_line(tool.description).partition(". ")[0]
            lines.append(row(tool.name, f"{tool.kind:11} {one_line(first, 200)}"))
    return lines


async def _policies(context: "Conversation", _rest: str) -> list[Line]:
    bench = context.toolset
    mode = bench.context.mode
    rules = [
        rule
        for rule in bench.engine.rules
        if (not rule.modes or mode in rule.modes)
        and rule.interactive in (None, bench.context.interactive)
    ]
    lines = [line(f"{len(rules)} rules hold in mode {mode}, the strongest first", "bold")]
    return lines + [_rule(rule) for rule in rules]


async def _hooks(context: "Conversation", _rest: str) -> list[Line]:
    hooks = context.toolset.hooks
    waiting = (each for each in context.toolset.warnings if each.startswith("hooks: "))
    unread = [line(f"! {one_line(each)}", "warning") for each in waiting]
    unread += unread_lines(context.folder.place)
    if hooks is None:
        return [line("No hooks are configured." if not unread else "No hooks run."), *unread]
    lines = [line("Hooks", "bold")]
    for group in hooks.groups:
        for hook in group.hooks:
            matcher = f" ({group.matcher})" if group.matcher else ""
            lines.append(row(f"{group.event}{matcher}", f"{one_line(hook.label, 120)}"))
            lines.append(line(f"      {hook.source}: {one_line(hook.command, 200)}", "dim"))
    return lines + unread


async def _memory(context: "Conversation", rest: str) -> list[Line]:
    from alhena.memory.files import format_trees

    session, what = context.toolset.memory, rest.strip() or "show"
    if session is None:
        return [line("This session has no memory.")]
    if what not in ("show", "list", "refresh", "reload"):
        return [line("It is /memory show, /memory list or /memory refresh.", "error")]
    memory = session.refresh() if what in ("refresh", "reload") else session.memory
    content, top = memory.text(), str(context.toolset.workspace.cwd)
    lines = [line(escaped(each)) for each in content.split("\n")] if what == "show" else []
    if what in ("refresh", "reload"):
        lines = [line(f"Reloaded: {len(content):,} characters.", "dim")]
    place = context.folder.place
    unread = unread_lines(place, *place.settings.context.file_names)
    if what in ("show", "list") and session.changed:
        unread.append(
            line("! The files have changed. To read them again: /memory refresh", "warning")
        )
    if not memory.files:
        return [line("No memory files found."), *unread]
    tree = format_trees(((item.kind, item.tree) for item in memory.files), top)
    lines += [line(escaped(each)) for each in tree.split("\n")]
    return [*lines, *(line(one_line(each), "warning") for each in memory.warnings), *unread]


async def _stats(context: "Conversation", _rest: str) -> list[Line]:
    totals = context.view.totals
    session, model = context.identity
    cost = context.toolset.spending.cost()
    return [
        line("Session", "bold"),
        row("session", session),
        row("model", model),
        row("time", duration(context.age_ms)),
        row("requests", f"{totals.requests} ({duration(totals.model_ms)})"),
        row("tokens in", f"{totals.input_tokens:,} ({totals.cached_tokens:,} of them cached)"),
        row("tokens out", f"{totals.output_tokens:,}"),
        row("cost", "not known" if cost is None else f"about ${cost:.4f}, by the table of prices"),
        row(
            "tool calls",
            f"{totals.calls} ({totals.failed_calls} failed, {duration(totals.tool_ms)})",
        ),
    ]


async def _clear(context: "Conversation", _rest: str) -> list[Line]:
    await context.clear()
    return [line("Started a new conversation.", "dim")]


async def _compress(context: "Conversation", _rest: str) -> list[Line]:
    from alhena.frontends.headless.output import compressed_words

    event = await context.compress()
    style = "dim" if event.status in ("compressed", "noop") else "warning"
    return [line(one_line(compressed_words(event), 2_000), style)]


async def _ide(context: "Conversation", rest: str) -> list[Line]:
    return await context.ide.command(rest)


async def _agents(context: "Conversation", _rest: str) -> list[Line]:
    bench = context.toolset
    lines = [line(counted(len(bench.agents), "agent"), "bold")]
    lines += [row(agent.name, agent.description) for agent in bench.agents]
    return lines + [line(f"! {each}", "warning") for each in bench.agent_problems]


async def _extensions(context: "Conversation", _rest: str) -> list[Line]:
    used = [each for each in context.toolset.options.extensions if not each.why]
    if not used:
        return [line("There are no extensions. To add one: alhena extensions install SOURCE")]
    lines = [line(counted(len(used), "extension"), "bold")]
    rows = ((each.name, f"{each.manifest.version}  {each.manifest.description}") for each in used)
    return [*lines, *(row(name, text) for name, text in rows)]


async def _trust(context: "Conversation", rest: str) -> list[Line]:
    if rest.strip() not in ("", "trust"):
        return [line("It is /trust.", "error")]
    from alhena.frontends.terminal.dialogs.trust import ask_trust

    place = context.folder.place
    if place.trust.trusted:
        return [line(f"This folder is trusted ({place.trust.reason}).")]
    if not await ask_trust(place, context.screen.choose, context.print):
        return [line("Nothing is changed.")]
    context.prompts.load(sources_of(context.folder.reread()))
    return await context.begin_again()


async def _quit(context: "Conversation", _rest: str) -> list[Line]:
    context.leave()
    return []


COMMANDS: tuple[Command, ...] = (
    Command("help", "these commands and the keys", _help, ("?",)),
    Command("commands", "your own commands (`reload`: find them again)", _commands),
    Command("tools", "the tools (`/tools desc`: all about them)", _tools),
    Command("policies", "the rules in effect", _policies),
    Command("hooks", "the hooks of this session", _hooks),
    Command(
        "mcp", "MCP servers (`desc`, `schema`, `refresh`; `auth`, `enable`, `disable` NAME)", mcp
    ),
    Command(
        "ide", "the editor around the terminal (`status`, `enable`, `disable`, `install`)", _ide
    ),
    Command("agents", "agents that get tasks", _agents),
    Command("extensions", "extensions of this session", _extensions),
    Command("skills", "skills of this session (`reload`; `enable`, `disable` NAME)", skills),
    Command(
        "memory",
        "what GEMINI.md files say (`list`: which they are; `refresh`: reload them)",
        _memory,
    ),
    Command("stats", "tokens, cost, calls and times", _stats, ("usage", "cost", "status")),
    Command("context", "the parts of the context window, by size", setting_commands.context),
    Command("clear", "begin a new session", _clear, ("new",)),
    Command(
        "compress",
        "replace the conversation so far with a summary",
        _compress,
        ("summarize", "compact"),
    ),
    Command(
        "chat",
        "`save NAME` keeps the conversation; `list`, `resume`, `delete NAME`; `share FILE`",
        chat,
    ),
    Command(
        "restore",
        "restore a checkpoint: files, conversation, call (without NAME: list them)",
        restore,
    ),
    Command(
        "rewind",
        "go back to an earlier prompt, with or without its file changes",
        rewind,
        idle=True,
    ),
    Command("undo", "undo the last turn's file changes", undo),
    Command("model", "choose the model (`set NAME [--persist]`)", model),
    Command("resume", "resume an earlier session (`ID`, or pick one)", resume),
    Command("trust", "trust this folder, or not", _trust, ("permissions",)),
    Command(
        "auth", "another API key, account or local model", setting_commands.authenticate, ("login",)
    ),
    Command(
        "settings",
        "change a setting (`WORD`: those with it in their names; `reset KEY`)",
        setting_commands.settings,
        ("config",),
    ),
    Command(
        "directory",
        "directories of the workspace (`add DIR`)",
        setting_commands.directory,
        ("dir",),
    ),
    Command("plan", "plan mode (`/plan PROMPT`: with this prompt)", setting_commands.plan),
    Command("copy", "copy the last answer", setting_commands.copy_answer),
    Command("export", "write the conversation to a file (`FILE.md`, `.json`, `.html`)", export),
    Command("todos", "the model's list of tasks", setting_commands.todos),
    Command(
        "show",
        "whole outputs, diffs, thoughts and long prompts (`NUMBER` prints one)",
        setting_commands.show,
    ),
    Command("init", "have the model write a GEMINI.md", setting_commands.init),
    Command("about", "version, system, model, session", setting_commands.about, ("version",)),
    Command("bug", "what a report of a defect needs", setting_commands.bug),
    Command("docs", "where the documentation is", setting_commands.docs),
    Command("quit", "leave", _quit, ("exit",)),
)
AT_ONCE = frozenset(
    (
        *("help", "commands", "tools", "policies", "hooks", "mcp", "ide", "agents", "extensions"),
        *("skills", "stats", "plan", "copy", "todos", "show", "about", "bug", "docs", "quit"),
    )
)
"""Commands that need not wait until what runs has ended."""
LISTINGS = ("tools", "context", "show")
"""Commands whose lines are cut where the terminal ends, unless more was asked for than the list."""


PLAIN = {**dict.fromkeys(("exit", "quit", ":q", ":q!", ":wq"), "/quit"), "?": "/help"}
"""Lines that are commands without a slash."""
NAMES = frozenset(name for each in COMMANDS for name in (each.name, *each.aliases))


def named(text: str) -> tuple[Command | None, str, str] | None:
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


def _rule(rule: PolicyRule) -> Line:
    style = {"allow": "ok", "deny": "error", "ask_user": "warning"}[rule.decision]
    named = rule.tool_names or rule.mcp_name
    what = one_line(describe_allowance(rule), MAX_RULE) if named else "every tool"
    if rule.command_regex or rule.command_class or rule.args_pattern or rule.paths:
        what += ", of some arguments"
    return (
        (style, f"  {rule.decision:9}"),
        ("", f" {what}"),
        ("dim", f"  {rule.author} {rule.final_priority:.3f} {one_line(rule.source, 100)}"),
    )


MAX_RULE = 2_000
"""Characters of a rule in words."""
NEAR = 0.75
"""Least similarity of a misspelling to the command suggested for it."""
INSTEAD = {
    "editor": "Set VISUAL or EDITOR to choose your editor.",
    "privacy": "`alhena settings show privacy` shows what is set.",
    "shortcuts": "/help has the keys, too.",
    "theme": "/settings ui.theme NAME sets the colours.",
    "vim": "/settings general.vimMode true sets the keys of vi.",
}
"""For commands of the reference: how the same is done here."""


def unknown_words(name: str, prompts: Iterable[tuple[str, str]]) -> str:
    """Message for an unknown command, where these prompts are known."""
    shown = one_line(name, 60)
    if name.lower() in INSTEAD:
        return f"There is no /{shown} here. {INSTEAD[name.lower()]}"
    known = [*NAMES, *(each for each, _ in prompts)]
    near = get_close_matches(name.lower(), known, n=1, cutoff=NEAR)
    return f"Unknown command /{shown}. {f'Did you mean /{near[0]}?' if near else 'See /help.'}"
