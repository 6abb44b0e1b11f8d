"""Rows of the lists that front ends show, made once for the command line, the terminal and editors.

A front end prints a `Listing` in its form: `print_listing` as plain text or JSON, `as_markdown` for
editors, `list_lines` of the terminal in colours.
"""

import re
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from alhena.display_text import escaped, first_of, one_line
from alhena.frontends.shared.streams import write_json, write_stdout

if TYPE_CHECKING:
    from alhena.agent.subagents import AgentDefinition
    from alhena.agent.subagents.files import AgentFiles, FoundAgent
    from alhena.agent.subagents.remote import RemoteAgent
    from alhena.commands import CustomCommands
    from alhena.config.effective_settings import Place
    from alhena.config.extensions import Extension
    from alhena.hooks.gather import HookEntry
    from alhena.hooks.trust import PinnedFiles
    from alhena.mcp.servers import ServerReport
    from alhena.memory.files import LoadedMemory
    from alhena.policy.model import PolicyRule
    from alhena.session.store import SessionSummary
    from alhena.skills.files import Skills
    from alhena.tools.registry import ToolRegistry

Note = tuple[str, str]
"""A tone (the name of a style: "", ok, warning, error, dim) and a line of text."""
MAX_TEXT = 300
"""Characters of a description."""
MAX_SENTENCE = 200
"""Characters of the first sentence of a tool's description."""
MAX_MORE = 1_000
"""Characters of a line about a server's directory, variables and headers."""
MAX_FILES = 20
"""Files of a hook that are listed."""
MAX_RULE = 2_000
"""Characters of a rule in words."""


_NONE = {
    "custom command": "No custom commands. Add one as .gemini/commands/NAME.toml.",
    "extension": "No extensions. Add one with alhena extensions install SOURCE.",
    "hook": "No hooks. Add one with the setting hooks.",
    "MCP server": "No MCP servers. Add one with alhena mcp add NAME COMMAND.",
    "skill": "No skills. Add one with alhena skills install PATH.",
}
"""The sentence for an empty list, with the way to add to it."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One thing of a list. `state` says why it is not used, "" if it is; `mark` precedes the
    name, in `tone`; `gap` separates the name from `text`; `notes` are the lines below, and `facts`
    its fields in JSON documents."""

    name: str
    state: str = ""
    text: str = ""
    notes: tuple[Note, ...] = ()
    mark: str = ""
    tone: str = ""
    gap: str = "  "
    facts: Mapping[str, Any] = {}

    @property
    def label(self) -> str:
        """The name, with the state of what is not used."""
        return f"{self.name} ({self.state})" if self.state else self.name


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """Rows for things that are called `noun`, with a `title` other than their number. `blocks` are
    texts to show unchanged, in place of rows; `notes` follow."""

    noun: str = ""
    rows: tuple[Row, ...] = ()
    title: str = ""
    blocks: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def heading(self) -> str:
        """The title, "" where there is nothing below it."""
        if not self.rows and not self.blocks:
            return ""
        return self.title or (count_noun(len(self.rows), self.noun) if self.noun else "")

    @property
    def none(self) -> str:
        """The sentence for a list without rows."""
        if self.rows or not self.noun:
            return ""
        return _NONE.get(self.noun, f"No {self.noun}s.")


def count_noun(count: int, noun: str) -> str:
    """`1 line`, `1,200 lines`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def print_listing(listing: Listing, *, as_json: bool) -> int:
    """Prints a list to standard output, as JSON or plain text; returns the exit code."""
    if as_json:
        write_json([row.facts for row in listing.rows])
    else:
        write_stdout("".join(f"{each}\n" for each in plain_lines(listing)))
    return 0


def plain_lines(listing: Listing) -> list[str]:
    """The rows as plain text, in columns if none has notes."""
    rows = listing.rows
    in_columns = not any(row.notes or row.mark for row in rows)
    width = max((len(row.label) for row in rows), default=0) if in_columns else 0
    lines: list[str] = []
    for row in rows:
        mark = f"{row.mark} " if row.mark else ""
        lines.append(f"{mark}{row.label:{width}}{row.gap}{row.text}".rstrip())
        lines += (f"    {text}" for _, text in row.notes)
    return lines or [listing.none]


def as_markdown(listing: Listing) -> str:
    """A list for clients that show Markdown: an item for each row, its notes below it."""
    parts = [f"**{listing.heading}**"] if listing.heading else []
    parts += (_fence(block) for block in listing.blocks)
    items: list[str] = []
    for row in listing.rows:
        mark = f"{row.mark} " if row.mark else ""
        state = f" ({row.state})" if row.state else ""
        items.append(f"- {mark}{_code(row.name)}{state}{f': {row.text}' if row.text else ''}")
        items += (f"  - {text}" for _, text in row.notes if text.strip())
    parts.append("\n".join(items) or listing.none)
    parts += (f"Warning: {text}" if tone == "warning" else text for tone, text in listing.notes)
    return "\n\n".join(filter(None, parts))


def _longest_ticks(text: str) -> int:
    return max((len(each) for each in re.findall("`+", text)), default=0)


def _code(text: str) -> str:
    """A text as a code span, whatever backticks are in it."""
    ticks = "`" * (_longest_ticks(text) + 1)
    space = " " if len(ticks) > 1 else ""
    return f"{ticks}{space}{text}{space}{ticks}"


def _fence(text: str) -> str:
    fence = "`" * max(_longest_ticks(text) + 1, 3)
    return f"{fence}text\n{text}\n{fence}"


def tool_rows(registry: "ToolRegistry", *, whole: bool = False) -> tuple[Row, ...]:
    """The active tools; their `whole` descriptions below them, else the first sentence beside."""
    names = [tool.name for tool in registry.all_tools]
    declared = {item.name: item for item in registry.function_declarations(names)}
    rows: list[Row] = []
    for tool in registry.all_tools:
        first = one_line(one_line(tool.description).partition(". ")[0], MAX_SENTENCE)
        lines = (("dim", escaped(each)) for each in tool.description.split("\n"))
        facts = {
            "name": tool.name,
            "displayName": tool.display_name,
            "description": tool.description,
            "kind": tool.kind,
            "parametersJsonSchema": declared[tool.name].parameters_json_schema,
        }
        text = str(tool.kind) if whole else f"{tool.kind:11} {first}"
        notes = tuple(lines) if whole else ()
        rows.append(Row(name=tool.name, text=text, notes=notes, facts=facts))
    return tuple(rows)


def agent_files(place: "Place") -> "AgentFiles":
    """The agents of files that concern the folder of a place."""
    from alhena.agent.subagents import builtin_agents
    from alhena.agent.subagents.files import AgentFiles, sources_of
    from alhena.config.home import agent_folders

    folders = agent_folders(
        place.environ, place.cwd, trusted=place.trust.trusted, extensions=place.extensions
    )
    sources = sources_of(folders, place.environ, place.cwd, place.extensions)
    taken = [agent.name for agent in builtin_agents()]
    return AgentFiles(sources, place.settings.agents.overrides, taken)


def agent_row(agent: "AgentDefinition | RemoteAgent", found: "FoundAgent | None" = None) -> Row:
    """An agent, built-in unless it was `found` in a file."""
    summary = agent.summary
    path = "" if found is None else str(found.path)
    source = "built-in" if found is None else found.source
    unused = "" if found is None else found.unused
    return Row(
        name=agent.name,
        state=f"not used: {one_line(unused, MAX_TEXT)}" if unused else "",
        text=one_line(summary.description, MAX_TEXT),
        notes=(("dim", one_line(", ".join(filter(None, (summary.place, path or source))))),),
        facts={
            "name": agent.name,
            "description": summary.description,
            "url": summary.place or None,
            "kind": "remote" if summary.place else "local",
            "source": source,
            "path": path or None,
            "enabled": not unused,
        },
    )


def skill_rows(skills: "Skills") -> tuple[Row, ...]:
    """The skills, also those that are disabled."""
    active = skills.active
    return tuple(
        Row(
            name=name,
            state="" if name in active else "disabled",
            text=skill.description,
            notes=(("dim", one_line(str(skill.path))),),
            facts={
                "name": name,
                "description": skill.description,
                "source": skill.source,
                "path": str(skill.path),
                "enabled": name in active,
            },
        )
        for name, skill in skills.all.items()
    )


def command_rows(commands: "CustomCommands") -> tuple[Row, ...]:
    """The custom commands, by their names."""
    return tuple(
        Row(
            name=f"/{name}",
            text=commands.describe_command(file),
            notes=(("dim", one_line(str(file.path))),),
            facts={
                "name": name,
                "description": commands.describe_command(file),
                "source": file.source.name,
                "path": str(file.path),
            },
        )
        for name, file in commands.files.items()
    )


def hook_rows(entries: "Iterable[HookEntry]") -> tuple[Row, ...]:
    """The configured hooks, each with whether it runs."""
    return tuple(map(_hook_row, entries))


def _hook_row(entry: "HookEntry") -> Row:
    group, hook = entry.group, entry.hook
    state = f"{entry.state} ({entry.why})" if entry.why else str(entry.state)
    matcher = f"[{group.matcher}]" if group.matcher else ""
    details = [hook.description] if hook.description else []
    if hook.name:
        details.append(f"runs {hook.command}")
    details += [
        f"{hook.source}{' ' + hook.extension if hook.extension else ''}, {hook.place}",
        f"timeout {hook.timeout_ms} ms, on failure: {hook.on_failure}"
        + (", one after the other" if group.sequential else ""),
    ]
    if entry.pinned is not None:
        details.append(pinned_words(entry.pinned))
    return Row(
        name=one_line(f"{group.event}{matcher} {hook.label}"),
        text=one_line(state),
        gap=": ",
        notes=tuple(("dim", one_line(each)) for each in details),
        facts={
            "event": group.event,
            "matcher": group.matcher,
            "sequential": group.sequential,
            "name": hook.label,
            "command": hook.command,
            "description": hook.description,
            "source": hook.source,
            "extension": hook.extension or None,
            "place": hook.place,
            "timeout": hook.timeout_ms,
            "env": hook.env,
            "onFailure": hook.on_failure,
            "state": entry.state,
            "why": entry.why or None,
            "files": None if entry.pinned is None else list(entry.pinned.names),
        },
    )


def pinned_words(pinned: "PinnedFiles") -> str:
    """The files that belong to a trusted hook, on one line."""
    from alhena.hooks.trust import HOOKS_FOLDER

    if pinned.problem:
        return f"cannot be trusted: {pinned.problem}"
    if not pinned.files:
        return "no file of it is checked for changes"
    whole = f" (all of {HOOKS_FOLDER})" if pinned.folder else ""
    return f"part of it: {first_of(pinned.names, MAX_FILES)}{whole}"


def extension_rows(extensions: "Iterable[Extension]") -> tuple[Row, ...]:
    """Installed extensions, also those that are not used."""
    return tuple(map(_extension_row, extensions))


def _extension_row(extension: "Extension") -> Row:
    manifest, installation = extension.manifest, extension.installation
    source = installation.source if installation else "no source"
    kind = installation.type if installation else "a folder"
    text = f"{one_line(manifest.version)}  {one_line(manifest.description, 300)}"
    notes = [("dim", f"{one_line(str(extension.folder))} ({kind}: {one_line(source)})")]
    if extension.missing:
        notes.append(("warning", missing_words(extension)))
    from alhena.policy.gather import unread_restrictions
    from alhena.tools.registry import ALIASES, BUILT_IN

    known = {*BUILT_IN, *ALIASES}
    problems = () if extension.why else unread_restrictions(extension.folder, known)
    notes += (("warning", one_line(each, 600)) for each in problems)
    return Row(
        name=extension.name,
        state=f"not used: {one_line(extension.why)}" if extension.why else "",
        text=text.rstrip(),
        notes=tuple(notes),
        facts={
            "name": extension.name,
            "version": manifest.version,
            "description": manifest.description,
            "path": str(extension.folder),
            "source": installation.source if installation else None,
            "type": installation.type if installation else None,
            "used": not extension.why,
            "why": extension.why or None,
            "missing": list(extension.missing),
            "problems": list(problems),
        },
    )


def missing_words(extension: "Extension") -> str:
    """The variables without values that an extension needs, and the command that asks for them."""
    names = ", ".join(extension.missing)
    return f"It needs values for {names}: alhena extensions config {extension.name}"


MARKS = {
    "connected": "✓",
    "connecting": "…",
    "disconnected": "✗",
    "needs_auth": "!",
    "disabled": "-",
}
"""Marks of the states of a server."""
_TONES = {"connected": "ok", "needs_auth": "warning", "disconnected": "error"}


def server_rows(reports: "Iterable[ServerReport]", place: "Place") -> tuple[Row, ...]:
    """MCP servers with command line or URL and state; an entry that cannot be used with its file
    and line."""
    from alhena.config.mcp_server_checks import server_problems
    from alhena.config.mcp_servers import configured_servers, describe_server

    configured = configured_servers(place.settings, place.environ, held=place.held_servers)
    problems = server_problems(place.layers) if configured.problems else {}
    named, entries = place.secret_variables().name_secrets, place.settings.mcp_servers
    rows: list[Row] = []
    for each in reports:
        report, server = each, configured.servers.get(each.name)
        if each.name in configured.problems:
            why = problems.get(each.name, each.why)
            report = msgspec.structs.replace(each, why=why)
        shown = () if server is None else describe_server(each.name, server, named)
        extension = entries.get(each.name, {}).get("extension", "")
        rows.append(_server_row(report, shown, extension))
    return tuple(rows)


def _server_row(report: "ServerReport", shown: tuple[str, ...], extension: str) -> Row:
    what, *rest = shown or ("",)
    name = f"{report.name} (from {extension})" if extension else report.name
    where = f"{one_line(what, MAX_TEXT)} ({report.transport})" if what else ""
    notes = [("dim", one_line(", ".join(rest), MAX_MORE))] if rest else []
    if report.description:
        notes.append(("dim", one_line(report.description, MAX_TEXT)))
    parts = (where, state_words(report))
    return Row(
        mark=MARKS[report.state],
        tone=_TONES.get(report.state, "dim"),
        name=one_line(name, 60),
        gap=": " if where else " - ",
        text=" - ".join(filter(None, parts)),
        notes=tuple(notes),
        facts={
            "name": report.name,
            "state": report.state,
            "why": report.why,
            "transport": report.transport,
            "server": what,
            "with": rest,
            "tools": sorted(report.tools),
            "prompts": [prompt.name for prompt in report.prompts],
            "resources": [resource.uri for resource in report.resources],
            "templates": [template.uri for template in report.templates],
            "leftOut": report.left_out,
            "notes": list(report.notes),
        },
    )


def state_words(report: "ServerReport") -> str:
    """The state of a server, and the reason when it is not connected."""
    name, why = one_line(report.name), one_line(report.why, 300)
    words = {
        "connected": f"connected: {offer_words(report)}",
        "connecting": "connecting",
        "disconnected": f"not connected: {why}",
        "needs_auth": f"needs you to sign in: alhena mcp auth {name} (or /mcp auth {name})",
        "disabled": f"turned off: {why}",
    }
    return words[report.state]


def offer_words(report: "ServerReport") -> str:
    """Counts of a server's tools, prompts, resources and templates of them."""
    counts = (
        (len(report.tools), "tool"),
        (len(report.prompts), "prompt"),
        (len(report.resources), "resource"),
        (len(report.templates), "resource template"),
    )
    return ", ".join(count_noun(count, noun) for count, noun in counts if count) or "nothing"


def session_rows(sessions: "Iterable[SessionSummary]") -> tuple[Row, ...]:
    """Recorded sessions: the id is the name, the first prompt the text, the age the state."""
    from alhena.frontends.shared.descriptions import age_words

    now = time.time()
    rows: list[Row] = []
    for item in sessions:
        fork = f"fork of {one_line(item.forked_from)[:8]}, " if item.forked_from else ""
        rows.append(
            Row(
                name=one_line(item.session_id),
                state=f"{fork}{age_words(now - item.updated)}",
                text=one_line(item.title, 70) or "(no prompt)",
                facts={
                    "sessionId": item.session_id,
                    "title": item.title,
                    "started": item.started,
                    "updated": item.updated,
                    "size": item.size,
                    "project": item.project,
                    "path": item.path,
                    "forkedFrom": item.forked_from,
                },
            )
        )
    return tuple(rows)


def rule_rows(rules: "Iterable[PolicyRule]") -> tuple[Row, ...]:
    """Rules of the policy."""
    return tuple(map(_rule_row, rules))


def _limits_of(rule: "PolicyRule") -> str:
    """The calls of its tools that a rule is about."""
    if rule.command_class:
        return "read-only commands"
    if rule.paths:
        return f"files {one_line(', '.join(rule.paths), 100)}"
    pattern = rule.command_regex or rule.args_pattern or ""
    return f"{'commands' if rule.command_regex else 'arguments'} like {one_line(pattern, 100)}"


def mode_word(mode: str) -> str:
    """An approval mode as it is written for people, and as flags take it."""
    return {"autoEdit": "auto_edit"}.get(str(mode), str(mode))


def _rule_row(rule: "PolicyRule") -> Row:
    from alhena.agent.toolset.approval import describe_allowance

    what = (
        one_line(describe_allowance(rule), MAX_RULE)
        if rule.tool_names or rule.mcp_name
        else "all tools"
    )
    if rule.command_regex or rule.command_class or rule.args_pattern or rule.paths:
        what = f"{what.removeprefix('all calls of ')}: {_limits_of(rule)}"
    return Row(
        mark=f"{rule.decision:9}",
        tone={"allow": "ok", "deny": "error", "ask_user": "warning"}[rule.decision],
        name=what,
        text=f"{rule.author} {rule.final_priority:.3f} {one_line(rule.source, 100)}",
    )


def memory_tree(files: "tuple[LoadedMemory, ...]", top: str) -> str:
    """The tree of memory files and their imports; paths below `top` are relative."""
    from alhena.memory.files import format_trees

    if not files:
        return "No memory files. Add a fact with /memory add FACT, or write GEMINI.md."
    return format_trees(((item.kind, item.tree) for item in files), top)
