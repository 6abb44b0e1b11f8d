"""The lists of an open session, for the terminal's slash commands and for those of editors."""

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

import msgspec

from alhena.config.home import user_settings_path
from alhena.display_text import escaped, one_line
from alhena.frontends.shared.listings import (
    NO_COMMANDS,
    NO_EXTENSIONS,
    NO_HOOKS,
    NO_SERVERS,
    NO_SKILLS,
    Listing,
    Note,
    Row,
    agent_files,
    agent_row,
    command_rows,
    counted,
    extension_rows,
    hook_rows,
    memory_tree,
    placed_reports,
    rule_rows,
    server_row,
    server_words,
    skill_rows,
    tool_rows,
)

if TYPE_CHECKING:
    from alhena.agent.toolset.mcp import ServerControl
    from alhena.agent.toolset.toolset import Toolset
    from alhena.frontends.shared.current_settings import Folder
    from alhena.frontends.shared.mentions import PromptCommands
    from alhena.mcp.servers import ServerReport
    from alhena.skills.files import Skills

SETTINGS = ".gemini/settings.json"
MAX_NOTES = 5
"""Most recent log messages of a server that are shown."""


class OpenSession(Protocol):
    """A session as its lists see it."""

    @property
    def toolset(self) -> "Toolset":
        """The tools, and the policy over them."""
        ...

    @property
    def folder(self) -> "Folder":
        """The settings of its folder."""
        ...

    @property
    def prompts(self) -> "PromptCommands":
        """The commands that stand for prompts."""
        ...


ListCommand = Callable[[OpenSession, str], Listing]
"""Carries out a command with the words behind its name; wrong ones are answered by its usage."""


def usage(text: str) -> Listing:
    """The answer to a command with wrong words."""
    return Listing(notes=(("error", text),))


def _warnings(texts: Iterable[str]) -> tuple[Note, ...]:
    return tuple(("warning", one_line(each)) for each in texts)


def _unread(folder: "Folder", *names: str) -> tuple[Note, ...]:
    """Names the files (of these `names`) that are not read since the folder is not trusted."""
    unread = [each for each in folder.place.unread if each in (names or (SETTINGS,))]
    if not unread:
        return ()
    text = f"Not read, because this folder is not trusted: {', '.join(unread)}."
    return (("warning", f"{text} To trust it: {folder.trust_command}"),)


def list_tools(session: OpenSession, rest: str) -> Listing:
    """/tools [desc]."""
    if rest.strip() not in ("", "desc"):
        return usage("It is /tools or /tools desc.")
    rows = tool_rows(session.toolset.registry, whole=bool(rest.strip()))
    return Listing(title=counted(len(rows), "tool"), rows=rows, none="There are no tools.")


def list_rules(session: OpenSession, _rest: str) -> Listing:
    """/policies."""
    bench = session.toolset
    mode = bench.context.mode
    rules = [
        rule
        for rule in bench.engine.rules
        if (not rule.modes or mode in rule.modes)
        and rule.interactive in (None, bench.context.interactive)
    ]
    title = f"{len(rules)} rules hold in mode {mode}, the strongest first"
    return Listing(title=title, rows=rule_rows(rules), none="There are no rules.")


def list_hooks(session: OpenSession, _rest: str) -> Listing:
    """/hooks: those that run, then those of the settings that do not, and why."""
    from alhena.hooks.gather import HookEntry, HooksRequest, HookState, gather_hooks

    bench, place = session.toolset, session.folder.place
    gathered = gather_hooks(
        HooksRequest(
            cwd=place.cwd,
            environ=place.environ,
            settings=place.settings,
            program=bench.options.hooks,
            extensions=place.extensions,
            skip_trust=bench.options.skip_trust,
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
    return Listing(
        title=counted(len(entries), "hook"),
        rows=hook_rows(entries),
        none=NO_HOOKS,
        notes=(*_warnings(warnings), *_unread(session.folder)),
    )


def list_agents(session: OpenSession, _rest: str) -> Listing:
    """/agents: those of the session, then those of files that are not used, and why."""
    bench = session.toolset
    found = agent_files(session.folder.place).found
    used = {each.name: each for each in found if not each.unused}
    agents = (*bench.agents, *bench.options.remote_agents)
    rows = [agent_row(agent, used.get(agent.name)) for agent in agents]
    rows += (agent_row(each.definition, each) for each in found if each.unused)
    return Listing(
        title=counted(len(rows), "agent"),
        rows=tuple(rows),
        none="There are no agents.",
        notes=_warnings(bench.agent_problems),
    )


def list_commands(session: OpenSession, rest: str) -> Listing:
    """/commands [list|reload]."""
    what = rest.strip() or "list"
    if what not in ("list", "reload"):
        return usage("It is /commands list or /commands reload.")
    if what == "reload":
        session.prompts.load()
    custom = session.prompts.custom
    rows = command_rows(custom)
    return Listing(
        title=counted(len(rows), "custom command"),
        rows=rows,
        none=NO_COMMANDS,
        notes=_warnings(custom.problems),
    )


def list_extensions(session: OpenSession, _rest: str) -> Listing:
    """/extensions."""
    rows = extension_rows(session.toolset.options.extensions)
    return Listing(
        title=counted(len(rows), "extension"),
        rows=rows,
        none=NO_EXTENSIONS,
    )


def list_skills(session: OpenSession, rest: str) -> Listing:
    """/skills [list|reload|enable NAME|disable NAME]. Raises ConfigError."""
    from alhena.frontends.shared.files import set_disabled

    toolset, found = session.toolset, session.toolset.skills
    if found is None:
        return Listing(none=NO_SKILLS)
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
                "It is /skills list, /skills reload, /skills enable NAME or /skills disable NAME."
            )
    if found.active and "activate_skill" not in toolset.registry.names:
        from alhena.skills.files import ActivateSkill

        toolset.registry.register(ActivateSkill(found, toolset.workspace))
    toolset.sources.changed()
    return Listing(notes=done) if done else _skills(found)


def _skills(found: "Skills") -> Listing:
    rows = skill_rows(found)
    title, problems = counted(len(rows), "skill"), _warnings(found.problems)
    return Listing(title=title, rows=rows, none=NO_SKILLS, notes=problems)


def list_memory(session: OpenSession, rest: str) -> Listing:
    """/memory [show|list|refresh]."""
    own, what = session.toolset.memory, rest.strip() or "show"
    if own is None:
        return Listing(none="This session has no memory.")
    if what not in ("show", "list", "refresh", "reload"):
        return usage("It is /memory show, /memory list or /memory refresh.")
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


def list_servers(session: OpenSession, what: str) -> Listing:
    """/mcp [list|desc|schema]: the servers with what they offer."""
    control = session.toolset.server_control
    if control is None:
        return Listing(none=NO_SERVERS, notes=_unread(session.folder))
    options, place = session.toolset.options, session.folder.place
    named = place.secret_variables().named
    words = server_words(options.settings, options.environ, options.held_servers, named)
    rows = tuple(
        _with_offer(server_row(each, words), each, control, what)
        for each in placed_reports(control.reports, place)
    )
    title = counted(len(rows), "MCP server")
    return Listing(title=title, rows=rows, none=NO_SERVERS, notes=_unread(session.folder))


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
}
"""The commands that list something, by name; /mcp waits for servers first."""
