"""The lists of an open session, for the terminal's slash commands and for those of editors."""

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from alhena.config.home import user_settings_path
from alhena.display_text import escaped, one_line
from alhena.frontends.shared.listings import (
    Listing,
    Note,
    Row,
    agent_files,
    agent_row,
    command_rows,
    count_noun,
    extension_rows,
    hook_rows,
    memory_tree,
    mode_word,
    rule_rows,
    server_rows,
    skill_rows,
    tool_rows,
)

if TYPE_CHECKING:
    from alhena.agent.toolset.mcp import ServerControl
    from alhena.agent.toolset.memory import SessionMemory
    from alhena.agent.toolset.toolset import Toolset
    from alhena.frontends.shared.current_settings import SessionFolder
    from alhena.frontends.shared.mentions import PromptCommands
    from alhena.mcp.servers import ServerReport
    from alhena.skills.files import Skills

SETTINGS = ".gemini/settings.json"
MAX_NOTES = 5
"""Most recent log messages of a server that are shown."""


class OpenSession(msgspec.Struct, frozen=True):
    """The subject of lists: the tools of a session, the settings of its folder, its commands."""

    toolset: "Toolset"
    folder: "SessionFolder"
    prompts: "PromptCommands"


ListCommand = Callable[[OpenSession, str], Listing]
"""Carries out a command with the words behind its name; wrong ones are answered by its usage."""


def usage(text: str) -> Listing:
    """The answer to a command with wrong words."""
    return Listing(notes=(("error", text),))


def _warnings(texts: Iterable[str]) -> tuple[Note, ...]:
    return tuple(("warning", one_line(each)) for each in texts)


def _unread(folder: "SessionFolder", *names: str) -> tuple[Note, ...]:
    """Names the files (of these `names`) that are not read since the folder is not trusted."""
    unread = [each for each in folder.place.unread if each in (names or (SETTINGS,))]
    if not unread:
        return ()
    text = f"Not read, because this folder is not trusted: {', '.join(unread)}."
    return (("warning", f"{text} To trust it: {folder.trust_command}"),)


def list_tools(session: OpenSession, rest: str) -> Listing:
    """/tools [desc]."""
    if rest.strip() not in ("", "desc"):
        return usage("Usage: /tools or /tools desc")
    rows = tool_rows(session.toolset.registry, whole=bool(rest.strip()))
    return Listing(noun="tool", rows=rows)


def list_rules(session: OpenSession, _rest: str) -> Listing:
    """/policies."""
    bench = session.toolset
    mode = bench.authority.context.mode
    rules = [
        rule
        for rule in bench.authority.engine.rules
        if (not rule.modes or mode in rule.modes)
        and rule.interactive in (None, bench.authority.context.interactive)
    ]
    title = f"{count_noun(len(rules), 'rule')} in {mode_word(mode)} mode, highest priority first"
    return Listing(noun="rule", title=title, rows=rule_rows(rules))


def list_hooks(session: OpenSession, _rest: str) -> Listing:
    """/hooks: those that run, then those of the settings that do not, and why."""
    from alhena.hooks.gather import HookEntry, HooksRequest, HookState, gather_hooks

    bench, place = session.toolset, session.folder.place
    gathered = gather_hooks(
        HooksRequest(
            cwd=place.cwd,
            environ=place.environ,
            settings=place.settings,
            program=bench.spec.tools.hooks,
            extensions=place.extensions,
            skip_trust=bench.spec.place.skip_trust,
        )
    )
    groups = () if bench.hooks is None else bench.hooks.groups
    entries = [
        next(
            (each for each in gathered.entries if each.hook == hook),
            HookEntry(group=group, hook=hook, state=HookState.ENABLED),
        )
        for group in groups
        for hook in group.hooks
    ]
    entries += (each for each in gathered.entries if each.state is not HookState.ENABLED)
    warnings = (each for each in bench.warnings if each.startswith("hooks: "))
    notes = (*_warnings(warnings), *_unread(session.folder))
    return Listing(noun="hook", rows=hook_rows(entries), notes=notes)


def list_agents(session: OpenSession, _rest: str) -> Listing:
    """/agents: those of the session, then those of files that are not used, and why."""
    bench = session.toolset
    found = agent_files(session.folder.place).found
    used = {each.name: each for each in found if not each.unused}
    agents = (*bench.agents.local, *bench.spec.tools.remote_agents)
    rows = [agent_row(agent, used.get(agent.name)) for agent in agents]
    rows += (agent_row(each.definition, each) for each in found if each.unused)
    return Listing(noun="agent", rows=tuple(rows), notes=_warnings(bench.agents.problems))


def list_commands(session: OpenSession, rest: str) -> Listing:
    """/commands [list|reload]."""
    what = rest.strip() or "list"
    if what not in ("list", "reload"):
        return usage("Usage: /commands list or /commands reload")
    if what == "reload":
        session.prompts.load()
    custom = session.prompts.custom
    notes = _warnings(custom.problems)
    return Listing(noun="custom command", rows=command_rows(custom), notes=notes)


def list_extensions(session: OpenSession, _rest: str) -> Listing:
    """/extensions."""
    return Listing(noun="extension", rows=extension_rows(session.toolset.spec.place.extensions))


def list_skills(session: OpenSession, rest: str) -> Listing:
    """/skills [list|reload|enable NAME|disable NAME]. Raises ConfigError."""
    from alhena.frontends.shared.files import set_disabled

    toolset, found = session.toolset, session.toolset.skills
    if found is None:
        return Listing(noun="skill")
    done: tuple[Note, ...] = ()
    match rest.split():
        case [] | ["list"]:
            return _skills(found)
        case ["reload"]:
            found.reload()
        case [("enable" | "disable") as what, name] if name in found.all:
            set_disabled(name, user_settings_path(os.environ), disabled=what == "disable")
            found.turn(name, enabled=what == "enable")
            done = (("", f"{one_line(name)} is {what}d, for later sessions too."),)
        case [("enable" | "disable"), name]:
            return usage(f"There is no skill {one_line(name)}. /skills lists them.")
        case _:
            return usage(
                "Usage: /skills list, /skills reload, /skills enable NAME or /skills disable NAME"
            )
    if found.active and "activate_skill" not in toolset.registry.names:
        from alhena.skills.files import ActivateSkill

        toolset.registry.register(ActivateSkill(found, toolset.workspace))
    toolset.sources.notify_change()
    return Listing(notes=done) if done else _skills(found)


def _skills(found: "Skills") -> Listing:
    return Listing(noun="skill", rows=skill_rows(found), notes=_warnings(found.problems))


def list_memory(session: OpenSession, rest: str) -> Listing:
    """/memory [show|list|refresh|add FACT]."""
    own, what = session.toolset.memory, rest.strip() or "show"
    if own is None:
        return Listing(blocks=("This session has no memory.",))
    if what == "add" or what.startswith("add "):
        return _add_fact(session, own, what.removeprefix("add").strip())
    if what not in ("show", "list", "refresh", "reload"):
        return usage("Usage: /memory show, /memory list, /memory refresh or /memory add FACT")
    again = what in ("refresh", "reload")
    memory = own.refresh() if again else own.memory
    content = memory.text()
    tree = memory_tree(memory.files, str(session.toolset.workspace.cwd))
    notes = [*_warnings(memory.warnings)]
    if not again and own.changed:
        notes += _warnings(("The files have changed. To read them again: /memory refresh",))
    notes += _unread(session.folder, *session.folder.place.settings.context.file_names)
    title = f"Reloaded: {len(content):,} characters." if again else ""
    blocks = (content, tree) if what == "show" and content else (tree,)
    return Listing(title=title, blocks=blocks, notes=tuple(notes))


def _add_fact(session: OpenSession, own: "SessionMemory", fact: str) -> Listing:
    """Adds a fact to the user's memory file, as save_memory does."""
    from alhena.config.home import config_home
    from alhena.memory.saved import save

    if not fact:
        return usage("Usage: /memory add FACT")
    bench = session.toolset
    home = config_home(bench.spec.place.environ)
    path = home / bench.settings.context.names_in(home)[0]
    change = save(path, fact)
    own.refresh()
    told = "Saved in" if change else "Already in"
    return Listing(blocks=(f"{told} {one_line(str(path))}.",))


def list_servers(session: OpenSession, rest: str) -> Listing:
    """/mcp [list|desc|schema]: the servers with what they offer, once they have settled."""
    what = rest.strip() or "list"
    if what not in ("list", "desc", "schema"):
        return usage("Usage: /mcp, /mcp desc or /mcp schema")
    control = session.toolset.server_control
    if control is None:
        return Listing(noun="MCP server", notes=_unread(session.folder))
    reports, settings = control.reports, session.toolset.spec.place.settings
    place = msgspec.structs.replace(session.folder.place, settings=settings)
    rows = tuple(
        _with_offer(row, report, control, what)
        for row, report in zip(server_rows(reports, place), reports, strict=True)
    )
    return Listing(noun="MCP server", rows=rows, notes=_unread(session.folder))


def _with_offer(row: Row, report: "ServerReport", control: "ServerControl", what: str) -> Row:
    """A server's row with its tools, prompts and resources, and problems with them, below."""
    lines: list[Note] = []
    for own, declared in report.tools.items():
        other = f" (called {one_line(declared, 70)})" if own != declared else ""
        lines.append(("", f"tool {one_line(own, 70)}{other}"))
        if what != "list":
            lines += _details(control, declared, what)
    for prompt in report.prompts:
        lines.append(_entry("prompt", prompt.name, prompt.description, what))
    for resource in report.resources:
        lines.append(_entry("resource", resource.uri, resource.description, what))
    for template in report.templates:
        lines.append(_entry("resource template", template.uri, template.description, what))
    for own, reason in report.left_out.items():
        text = f"left out: {one_line(own, 70)}: {one_line(reason, 200)}"
        lines.append(("warning", text))
    notes = [note for note in dict.fromkeys(report.notes) if note != report.why]
    lines += (("dim", one_line(note, 200)) for note in notes[-MAX_NOTES:])
    return msgspec.structs.replace(row, notes=(*row.notes, *lines))


def _entry(kind: str, name: str, description: str, what: str) -> Note:
    more = f": {one_line(description, 200)}" if what != "list" and description else ""
    return "", f"{kind} {one_line(name, 120)}{more}"


def _details(control: "ServerControl", declared: str, what: str) -> list[Note]:
    tool = control.tool(declared)
    if tool is None:
        return []
    text = tool.description
    if what == "schema":
        encoded = msgspec.json.encode(tool.parameter_schema)
        text += "\n" + msgspec.json.format(encoded, indent=2).decode("utf-8")
    return [("dim", f"  {escaped(each)}") for each in text.split("\n")]


SESSION_LISTS: dict[str, ListCommand] = {
    "tools": list_tools,
    "policies": list_rules,
    "hooks": list_hooks,
    "agents": list_agents,
    "skills": list_skills,
    "commands": list_commands,
    "extensions": list_extensions,
    "memory": list_memory,
    "mcp": list_servers,
}
"""The commands that list something, by name."""
