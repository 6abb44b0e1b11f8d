"""All that a folder, or an extension, brings: the one list for trust and for consent.

Whoever reads it is about to accept it. So it is whole: a text is made safe to print, and never cut;
it says what is run, with which words, directory, variables and headers, and which variables of the
reader's it is given.
"""

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, assert_never, cast

import msgspec

from alhena.agent.subagents import AgentDefinition
from alhena.agent.subagents.files import (
    AgentFiles,
    AgentSource,
    FoundAgent,
    impossible_tools,
)
from alhena.agent.subagents.remote import ApiKeyAuth, Auth, GoogleAuth, HttpAuth, OAuth, RemoteAgent
from alhena.commands import CommandFolder, CustomCommands
from alhena.config.documents import names_in, read_limited
from alhena.config.env_files import parse_env
from alhena.config.environment import has_secret_name, is_choosing
from alhena.config.extension_manifest import (
    Manifest,
    manifest_document,
    manifest_of,
    substitute_paths,
)
from alhena.config.extensions import Extension
from alhena.config.mcp_servers import server_of
from alhena.config.pinned_entries import (
    MAX_TEXT,
    SERVERS,
    UNWATCHED,
    BoundEntry,
    bound_entries,
    runs_command,
)
from alhena.config.settings import EnvironmentRedaction
from alhena.display_text import escaped, exact, one_line
from alhena.errors import InputError
from alhena.hooks.gather import extension_document
from alhena.hooks.load import HookDocument, load_hooks
from alhena.policy.gather import unread_restrictions
from alhena.skills.files import Skills
from alhena.suspicious_text import suspicious
from alhena.tools.registry import ALIASES, BUILT_IN

INDENT = "    "


class ConsentList:
    """The list: `lines` that are safe to print, and `problems` for what is wrong in it.
    `entries` are its servers and commands by their keys, `agents` those of its files. `moves`: the
    present folder of an extension, its later one, and the workspace, for variables in servers."""

    def __init__(
        self,
        environ: Mapping[str, str],
        redaction: EnvironmentRedaction | None = None,
        moves: tuple[Path, Path, Path] | None = None,
    ) -> None:
        self.lines: list[str] = []
        self.problems: list[str] = []
        self.entries: dict[str, BoundEntry] = {}
        self.agents: list[FoundAgent] = []
        self._environ = environ
        self._moves = moves
        self._redaction = redaction or EnvironmentRedaction()

    def add(self, label: str, text: str = "", *, indent: str = "") -> None:
        """Adds a text with its label: on the same line, or below it where it has several."""
        rows = exact(text).split("\n") if text else []
        label = _escape_exact(label)
        if len(rows) < 2:
            self.lines.append(f"{indent}{label}{': ' if rows else ''}{''.join(rows)}")
        else:
            self.lines.append(f"{indent}{label}:")
            self.lines += (f"{indent}{INDENT}{row}" for row in rows)
        if text and (found := suspicious(text)):
            self.lines.append(f"{indent}{INDENT}! {_escape_exact('; '.join(found))}")

    def add_entry(self, each: BoundEntry, value: Any, *, indent: str = "", name: str = "") -> None:
        """Adds a server or command, under another `name` where it has one; `value` is how it is
        written."""
        rows = entry_lines(each, value, self._redaction, name)
        self.lines += (f"{indent}{row}" for row in rows)

    def add_servers(
        self,
        servers: Mapping[str, Any],
        folder: Path,
        *,
        given: bool,
        of: str = "",
        indent: str = "",
    ) -> None:
        """Adds MCP servers whose files are in a folder, with the name of whose they are; `given`:
        variables with credentials of models are given to them, too."""
        present = shown = servers
        if self._moves is not None:
            now, then, workspace = self._moves
            present = substitute_paths(servers, now, workspace)
            shown = substitute_paths(servers, then, workspace)
        for each in bound_entries({SERVERS: present}, folder, self._environ):
            entry = shown[each.path[1]]
            made = server_of(each.path[1], entry)
            if isinstance(made, str) and "$" not in str(entry):
                self.problems.append(made.removeprefix("settings: "))
            if given:
                each = msgspec.structs.replace(each, given=tuple(sorted(names_in(entry))))
            name = f"{of}{each.path[1]}" if of else ""
            self.add_entry(each, entry, indent=indent, name=name)

    def add_hooks(self, document: HookDocument, *, indent: str = "") -> None:
        """Adds the hooks of a document, each whole."""
        loaded = load_hooks(document)
        self.problems += [str(each) for each in loaded.problems]
        for group in loaded.groups:
            matcher = f" for {group.matcher}" if group.matcher else ""
            for hook in group.hooks:
                self.add(f"hook {group.event}{matcher}", hook.command, indent=indent)
                for name, value in sorted(hook.env.items()):
                    self.add(f"with {name}", value, indent=f"{indent}{INDENT}")

    def add_commands(self, name: str, folder: Path, *, indent: str = "") -> None:
        """Adds custom commands, each with the whole of its file."""
        commands = CustomCommands([CommandFolder(name=name, folder=folder)])
        self.problems += commands.problems
        for each, file in commands.files.items():
            try:
                commands.read(file)
            except InputError as error:
                self.problems.append(error.message)
            self.add(f"command: /{each}", _text(file.path), indent=indent)

    def add_skills(self, name: str, folder: Path, *, indent: str = "") -> None:
        """Adds skills with the names of their files."""
        skills = Skills([(name, folder)] if folder.is_dir() else [])
        self.problems += skills.problems
        for skill in skills.all.values():
            self.add(f"skill {skill.name}", skill.description, indent=indent)
            inside = sorted(
                os.path.relpath(os.path.join(top, each), skill.path.parent)
                for top, _, names in os.walk(skill.path.parent)
                for each in names
            )
            if len(inside) > 1 and skill.path.parent != folder:
                self.add("with", ", ".join(inside), indent=f"{indent}{INDENT}")

    def add_agents(self, source: AgentSource, root: Path, *, given: bool, indent: str = "") -> None:
        """Adds agents: tools, servers, addresses and credentials."""
        files = AgentFiles([source], {})
        self.problems += files.problems
        for each in files.found:
            self.agents.append(each)
            if warning := impossible_tools(each.definition):
                self.problems.append(f"{warning}.")
            self.add_agent(each.definition, root, given=given, indent=indent)

    def add_agent(
        self, agent: AgentDefinition | RemoteAgent, root: Path, *, given: bool, indent: str = ""
    ) -> None:
        """Adds an agent whose servers have their files in `root`."""
        self.add(f"agent: {agent.name}", agent.summary.description, indent=indent)
        inner = f"{indent}{INDENT}"
        if isinstance(agent, RemoteAgent):
            self.add("sends your tasks to", agent.card, indent=inner)
            for label, text in _credentials(agent.auth):
                self.add(label, text, indent=inner)
            return
        self.add("with the tools", ", ".join(agent.tools), indent=inner)
        of = f"MCP server of the agent {agent.name}: " if self._moves else ""
        self.add_servers(agent.mcp_servers, root, given=given, of=of, indent=inner)

    def add_policies(self, folder: Path, *, indent: str = "") -> None:
        """Adds the policies of an extension in `folder`, each rule on a line."""
        self.problems += unread_restrictions(folder, {*BUILT_IN, *ALIASES})
        for path in sorted((folder / "policies").glob("*.toml")):
            self.add(f"policy: {path.name} (can only restrict)", indent=indent)
            try:
                tables = tomllib.loads(_text(path))
            except (tomllib.TOMLDecodeError, RecursionError):
                continue
            for kind, rules in tables.items():
                for rule in cast("list[Any]", rules) if isinstance(rules, list) else [rules]:
                    self.add(kind, _json(rule), indent=f"{indent}{INDENT}")

    def add_context(self, paths: Iterable[Path], *, indent: str = "") -> None:
        """Adds context files."""
        for path in paths:
            self.add(f"context file: {path.name}", indent=indent)


def consent_to_extension(
    folder: Path, workspace: Path, environ: Mapping[str, str], base: Path | None = None
) -> tuple[Manifest, ConsentList]:
    """All that the extension in a folder brings; with `base` it is to be installed there. Raises
    ConfigError for a manifest that cannot be used."""
    document = manifest_document(folder)
    place = folder if base is None else base / manifest_of(folder, document).name
    manifest = manifest_of(folder, substitute_paths(document, place, workspace))
    found = ConsentList(environ, moves=(folder, place, workspace))
    found.add(f"{manifest.name} {manifest.version}", manifest.description)
    inner = "  "
    extension = Extension(
        manifest=manifest, home=folder, folder=folder, installation=None, environ={}
    )
    servers = manifest_of(folder, document).mcp_servers
    found.add_servers(servers, folder, given=True, indent=inner)
    found.add_hooks(extension_document(extension, workspace, place), indent=inner)
    if manifest.exclude_tools:
        found.add("excludes tools", ", ".join(manifest.exclude_tools), indent=inner)
    found.add_context(extension.context_files(), indent=inner)
    found.add_skills(manifest.name, folder / "skills", indent=inner)
    source = AgentSource(name=manifest.name, folder=folder / "agents")
    found.add_agents(source, folder, given=True, indent=inner)
    found.add_commands(manifest.name, folder / "commands", indent=inner)
    found.add_policies(folder, indent=inner)
    for theme in manifest.themes:
        name = str(theme.get("name", ""))
        found.add("theme", f"{name} ({manifest.name})", indent=inner)
    for setting in manifest.settings:
        secret = ", a secret" if setting.sensitive else ""
        label = f"asks for: {setting.name} ({setting.env_var}{secret})"
        found.add(label, setting.description, indent=inner)
    if os.path.isfile(folder / ".env") and base is not None:
        values = parse_env(_text(folder / ".env"))
        for setting in manifest.settings:
            if setting.env_var in values:
                found.add(f"brings {setting.env_var}", values[setting.env_var], indent=inner)
    return manifest, found


def _credentials(auth: Auth | None) -> Iterator[tuple[str, str]]:
    """The credentials for a remote agent: labels and texts."""
    match auth:
        case None:
            return
        case ApiKeyAuth():
            yield from _secret(f"with the header {auth.name}", auth.key)
        case HttpAuth():
            label = f"with the header Authorization ({auth.scheme})"
            for text in filter(None, (auth.token, auth.username, auth.password, auth.value)):
                yield from _secret(label, text)
        case GoogleAuth():
            yield "with an access token of", "your Google account"
        case OAuth():
            where = ", ".join(filter(None, (auth.authorization_url, auth.token_url)))
            yield "with a sign-in of yours (OAuth)", where or "at the addresses of its card"
            if auth.client_secret:
                yield from _secret("with a client secret", auth.client_secret)
        case _:
            assert_never(auth)


def _secret(label: str, text: str) -> Iterator[tuple[str, str]]:
    if text.startswith("!") and not text.startswith("!!"):
        yield f"{label}, of the command", text[1:].strip()
    elif text.startswith("$") and not text.startswith("$$"):
        yield f"{label}, of your variable", text[1:]
    else:
        yield label, "a text of the file"


def _text(path: Path) -> str:
    try:
        return read_limited(path).decode("utf-8", "replace").rstrip("\n")
    except OSError as error:
        return f"(unreadable: {error.strerror})"


def _json(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode("utf-8")


_SAID = frozenset(
    {
        *("command", "args", "url", "httpUrl", "type", "trust", "timeout", "description"),
        *("includeTools", "excludeTools"),
    }
)
"""Members of a server's entry that are shown otherwise, or do not say what it is."""


def entry_name(each: BoundEntry) -> str:
    """The whole name of an entry."""
    return _escape_exact(f"MCP server {each.path[1]}" if each.path[0] == SERVERS else each.key)


def entry_lines(
    each: BoundEntry, value: Any, redaction: EnvironmentRedaction, name: str = ""
) -> Iterator[str]:
    """An entry that is not accepted yet; `value` is what the settings say, `redaction` what
    the user's settings say of the environment of children, `name` another name than its own."""
    name = _escape_exact(name) if name else entry_name(each)
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        yield from (f"{name}: {_escape_exact(words)}" for words in _server_words(fields))
        more = {key: member for key, member in fields.items() if key not in _SAID and member}
        if more:
            yield f"{name} with {_escape_exact(msgspec.json.encode(more).decode('utf-8'))}"
    else:
        yield f"{name}: {_escape_exact(value if isinstance(value, str) else '?')}"
    yield from _choice_lines(each, name)
    if each.files:
        yield f"{name} with what is now in {_escape_exact(', '.join(each.files))}"
    elif runs_command(value):
        yield f"{name}: {UNWATCHED}"
    yield from _secret_lines(each, redaction, name)


def pending_lines(each: BoundEntry, redaction: EnvironmentRedaction) -> Iterator[str]:
    """An entry that is held back: the reason, and its change as a unified diff, or the whole entry.
    Never shortened, since the reader is about to accept it."""
    yield f"{entry_name(each)}: {one_line(each.why, 600)}"
    new = each.before is None or max(len(each.before), len(each.text)) >= MAX_TEXT
    rows = each.text.split("\n") if new else _difference(each)
    yield from (f"    {exact(row)}" for row in rows)
    name = entry_name(each)
    more = (*_doubt_lines(each), *_choice_lines(each, name), *_secret_lines(each, redaction, name))
    yield from (f"    {row}" for row in more)


def _difference(each: BoundEntry) -> list[str]:
    from difflib import unified_diff

    before, now = (each.before or "").split("\n"), each.text.split("\n")
    rows = [*unified_diff(before, now, lineterm="", n=2)][2:]
    found = [row for row in rows if not row.startswith("@@")]
    return found or ["(changed ones are not among those shown)"]


def _doubt_lines(each: BoundEntry) -> Iterator[str]:
    """The reason why a change of what may be data is asked about, and how to end that."""
    from shlex import quote

    for name in each.doubtful:
        yield _escape_exact(
            f"{name} is watched, for it may say what is run; if this program writes it itself: "
            f"alhena trust --data {quote(name)}"
        )


def _choice_lines(each: BoundEntry, name: str) -> Iterator[str]:
    """Variables of an entry that can make its command run another program."""
    told = [name for name in each.variables if is_choosing(name)]
    if told:
        yield (
            f"{name}: its variables choose the program, "
            f"its source or its server: {_escape_exact(', '.join(told))}"
        )


def _secret_lines(each: BoundEntry, redaction: EnvironmentRedaction, name: str) -> Iterator[str]:
    """The user's secrets an entry receives: variables it names, and those the user's settings pass
    to every child."""
    key = "security.environmentVariableRedaction"
    if not each.server and not redaction.enabled:
        yield f"{name} is given all your variables, secrets too: {key}.enabled is false"
    elif redaction.allowed:
        allowed = ", ".join(one_line(variable, 80) for variable in redaction.allowed)
        yield f"{name} is given what {key}.allowed lets through: {allowed}"
    if each.given:
        told = (
            f"{name} (a secret by its name)" if has_secret_name(name) else name
            for name in each.given
        )
        yield f"{name} is given what these variables of yours hold: {', '.join(told)}"


def _server_words(members: dict[str, Any]) -> Iterator[str]:
    """All that a server may turn out to be: its command line, its URLs. Which of them it is can
    depend on what variables hold when it is started."""
    addresses = [str(members[key]) for key in ("httpUrl", "url") if members.get(key)]
    arguments = members.get("args")
    words: list[Any] = [members["command"]] if members.get("command") else []
    if isinstance(arguments, list):
        words += cast("list[Any]", arguments)
    elif arguments:
        words.append(arguments)
    if words or not addresses:
        yield " ".join(map(str, words)) or "?"
    for count, address in enumerate(addresses):
        if words and count == 0:
            yield f"it is connected to instead of run wherever this is not empty: {address}"
        elif count:
            yield f"or, where that is empty, it is connected to {address}"
        else:
            yield address


def _escape_exact(text: str) -> str:
    return escaped(exact(text))
