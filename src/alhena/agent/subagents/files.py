"""Definition files of agents, TOML and Markdown: finds them, checks them, and says which are not
used and why."""

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

from alhena.agent.subagents import AgentDefinition
from alhena.agent.subagents.remote import RemoteAgent
from alhena.config.documents import read_value
from alhena.config.environment import CREDENTIALS, own_environment
from alhena.config.home import accepted_agents_path
from alhena.config.settings import AgentOverride
from alhena.display_text import one_line
from alhena.errors import AlhenaError, ConfigError, InputError
from alhena.system.files import read_content
from alhena.system.workspace import is_within

if TYPE_CHECKING:
    from alhena.config.extensions import Extension

MAX_BYTES = 1_000_000
ENDINGS = (".toml", ".md")
HELD = "it has not been accepted as it is now; alhena trust accepts it"
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_HEAD = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_REPORT = {"type": "string", "description": "The result, in Markdown."}


class AgentSource(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of agents. `name` is workspace, user, or that of an extension; symlinks may lead out
    of the folder only with `follows`. The content of files is `accepted` by hash; None: all is.
    `state` adds to a hash what the servers of an agent run; `root` has the files that its commands
    for credentials name; `expand` puts the variables of an extension into descriptions and
    prompts."""

    name: str
    folder: Path
    follows: bool = False
    accepted: Mapping[str, str] | None = None
    state: Callable[[dict[str, Any]], str] = lambda _servers: ""
    root: Path = Path()
    expand: Callable[[str], str] = str


class FoundAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent of a file. `unused` is the reason why it is not used, "" if it is; `digest` is that
    of its content, "" where it needs no acceptance."""

    definition: AgentDefinition | RemoteAgent
    source: str
    path: Path
    digest: str
    unused: str = ""

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.definition.name

    @property
    def is_held(self) -> bool:
        """True if its current content is not accepted."""
        return self.unused == HELD


class _Fields(msgspec.Struct, kw_only=True):
    """The keys of a definition, of both forms."""

    name: str
    description: str = ""
    kind: Literal["local", "remote"] = "local"
    display_name: str = ""
    tools: tuple[str, ...] = ("*",)
    isolation: Literal["", "worktree"] = ""
    system_prompt: str = ""
    query: str = "${query}"
    model: str = "inherit"
    temperature: float | None = None
    max_turns: int = 30
    timeout_mins: float = 10
    output: dict[str, Any] | None = None
    agent_card_url: str = ""
    agent_card_json: str = ""
    auth: dict[str, Any] | None = None
    mcp_servers: dict[str, dict[str, Any]] = {}


_TABLES = {
    "prompts": ("system_prompt", "query"),
    "model": ("model", "temperature"),
    "run": ("max_turns", "timeout_mins"),
}
"""The tables of the TOML form and their keys."""
_TOP = ("name", "description", "display_name", "tools", "isolation", "output", "mcp_servers")


_RESTRICTING = re.compile(r"tool|permission|unknown key '(?:hooks|isolation)", re.IGNORECASE)
"""Unknown keys that may be meant to restrict what an agent can do."""


class AgentFiles:
    """The agents of some sources, the stronger first; a name in `taken` is a built-in agent's.
    `problems` say which files are not used, and why; `notes` name unknown keys that restrict
    nothing."""

    def __init__(
        self,
        sources: Iterable[AgentSource],
        overrides: Mapping[str, AgentOverride],
        taken: Iterable[str] = (),
    ) -> None:
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.found: list[FoundAgent] = []
        names = dict.fromkeys(taken, "a built-in agent")
        for source in sources:
            for agent in self._read(source):
                self._add(agent, overrides.get(agent.name, AgentOverride()), names)

    @property
    def usable(self) -> tuple[FoundAgent, ...]:
        """The agents that are used."""
        return tuple(agent for agent in self.found if not agent.unused)

    def _add(self, agent: FoundAgent, override: AgentOverride, names: dict[str, str]) -> None:
        unused = agent.unused
        if agent.name in names:
            unused = f"{names[agent.name]} has the same name"
        elif override.enabled is False:
            unused = "disabled by agents.overrides"
        names.setdefault(agent.name, str(agent.path))
        definition = agent.definition
        if isinstance(definition, AgentDefinition):
            definition = apply_overrides(definition, override)
        self.found.append(msgspec.structs.replace(agent, definition=definition, unused=unused))
        if unused and override.enabled is not False:
            self._problem(agent.path, f"is not used: {unused}")

    def _read(self, source: AgentSource) -> Iterator[FoundAgent]:
        for path in self._paths(source):
            try:
                text, data = content(path, follows=source.follows)
                agents, warnings = parse_agents(path, text)
                agents = [_expand_texts(each, source.expand) for each in agents]
                found = [_describe_agent(source, path, each, data) for each in agents]
            except AlhenaError as error:
                self._problem(path, f"is not used: {error.message}")
                continue
            for warning in warnings:
                restricts = _RESTRICTING.search(warning) is not None
                self._problem(path, warning, self.problems if restricts else self.notes)
            yield from found

    def _paths(self, source: AgentSource) -> Iterator[Path]:
        try:
            names = sorted(os.listdir(source.folder))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self._problem(source.folder, f"cannot be read: {error.strerror}")
            return
        # The agents of an extension may share files of its whole folder.
        own = source.name in ("workspace", "user")
        top = os.path.realpath(source.folder if own else source.folder.parent)
        for name in names:
            path = source.folder / name
            if name.startswith(("_", ".")) or not name.endswith(ENDINGS):
                continue
            if not source.follows and not is_within(os.path.realpath(path), top):
                self._problem(path, "is not used: it is a link out of its folder")
                continue
            yield path

    def _problem(self, path: Path, text: str, told: list[str] | None = None) -> None:
        told = self.problems if told is None else told
        told.append(f"agent {one_line(str(path))} {one_line(text, 400).rstrip('.')}.")


def _expand_texts(
    agent: AgentDefinition | RemoteAgent, expand: Callable[[str], str]
) -> AgentDefinition | RemoteAgent:
    """The agent with variables put into its description and prompts."""
    description = expand(agent.description)
    if isinstance(agent, RemoteAgent):
        return msgspec.structs.replace(agent, description=description)
    return msgspec.structs.replace(
        agent,
        description=description,
        system_prompt=expand(agent.system_prompt),
        query=expand(agent.query),
    )


def _describe_agent(
    source: AgentSource, path: Path, definition: AgentDefinition | RemoteAgent, data: bytes
) -> FoundAgent:
    """An agent of a file with this content; a project's starts servers only as it was accepted."""
    digest = unused = ""
    if source.accepted is not None:
        import hashlib

        digest = hashlib.sha256(data).hexdigest()
        accepted = source.accepted.get(definition.name)
        if isinstance(definition, AgentDefinition) and definition.mcp_servers:
            of_file, servers = digest, definition.mcp_servers

            def now() -> str:
                return hashlib.sha256(f"{of_file} {source.state(servers)}".encode()).hexdigest()

            def why_held(_name: str) -> str:
                return "" if now() == accepted else f"held back: {HELD}"

            digest = now()
            definition = msgspec.structs.replace(definition, why_held=why_held)
        elif isinstance(definition, RemoteAgent) and (commands := definition.commands):
            of_remote = digest

            def now_remote() -> str:
                return _digest_with_files(of_remote, commands, source.root)

            def why_withheld() -> str:
                return "" if now_remote() == accepted else f"held back: {HELD}"

            digest = now_remote()
            definition = msgspec.structs.replace(definition, why_held=why_withheld)
        unused = "" if accepted == digest else HELD
    return FoundAgent(
        definition=definition, source=source.name, path=path, digest=digest, unused=unused
    )


def _digest_with_files(digest: str, commands: Iterable[str], root: Path) -> str:
    """A digest of these commands for credentials, too: of the files in `root` that they name."""
    import hashlib

    from alhena.config.pinned_entries import named_files

    files = [sorted(named_files(each, root)[0].items()) for each in commands]
    return hashlib.sha256(f"{digest} {files!r}".encode()).hexdigest()


def sources_of(
    folders: Iterable[tuple[str, Path]],
    environ: Mapping[str, str],
    project: Path,
    extensions: "Iterable[Extension]" = (),
) -> list[AgentSource]:
    """The sources in these folders, each with its name ("workspace", "user", an extension's): only
    the user's links are followed, and only a project's agents need acceptance."""
    expanders = {each.name: partial(each.expand_text, workspace=project) for each in extensions}
    state = partial(_state_of_servers, project, environ)
    return [
        AgentSource(
            name=name,
            folder=folder,
            follows=name == "user",
            accepted=accepted_agents(environ, project) if name == "workspace" else None,
            state=state,
            root=project,
            expand=expanders.get(name, str),
        )
        for name, folder in folders
    ]


def _state_of_servers(project: Path, environ: Mapping[str, str], servers: Mapping[str, Any]) -> str:
    """The state of the servers of a project's agent: entries and the files that they name."""
    from alhena.config.pinned_entries import bound_entries

    bound = bound_entries({"mcpServers": servers}, project, own_environment(environ))
    return repr([(each.key, sorted(each.parts.items())) for each in bound])


def with_resolved_servers(
    agent: FoundAgent,
    environ: Mapping[str, str],
    cwd: Path,
    extensions: Iterable["Extension"],
) -> AgentDefinition | RemoteAgent:
    """The definition with the variables in its servers replaced. A project's .env file reaches
    none of them; only a server of the user's own agents can be trusted."""
    definition = agent.definition
    if not isinstance(definition, AgentDefinition) or not definition.mcp_servers:
        return definition
    from alhena.config.layers import expand_variables
    from alhena.config.mcp_servers import OF_WORKSPACE

    own, forced = own_environment(environ), {}
    withheld: frozenset[str] = frozenset()
    entries: Any = definition.mcp_servers
    if agent.source == "workspace":
        forced, withheld = OF_WORKSPACE, CREDENTIALS
    for each in extensions:
        if each.name == agent.source:
            from alhena.config.extension_manifest import substitute_paths
            from alhena.config.extensions import with_environ

            entries = substitute_paths(entries, each.folder, cwd)
            entries = {
                name: {**entry, "env": with_environ(each.environ, entry.get("env"))}
                for name, entry in entries.items()
            }
            own, forced = {**own, **each.environ}, {"trust": False}
    found = expand_variables({"mcpServers": entries}, own, withheld=withheld)["mcpServers"]
    entries = {name: {**entry, **forced} for name, entry in found.items()}
    return msgspec.structs.replace(definition, mcp_servers=entries)


def accepted_agents(environ: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The accepted agents of a project: SHA-256 of the file by name. An unusable file accepts
    none."""
    return _all_accepted(accepted_agents_path(environ)).get(os.path.realpath(folder), {})


def _all_accepted(path: Path) -> dict[str, dict[str, str]]:
    try:
        data = read_content(path, MAX_BYTES, follows=False)
        return msgspec.json.decode(data, type=dict[str, dict[str, str]])
    except (AlhenaError, msgspec.DecodeError):
        return {}


def accept_agents(environ: Mapping[str, str], folder: Path, agents: Iterable[FoundAgent]) -> None:
    """Accepts agents of a project as they are. Raises AlhenaError if that cannot be written."""
    from alhena.system.private_files import PrivateFiles

    path = accepted_agents_path(environ)
    kept = _all_accepted(path)
    mine = kept.setdefault(os.path.realpath(folder), {})
    mine |= {agent.name: agent.digest for agent in agents}
    PrivateFiles(path.parent).write(path.name, msgspec.json.format(msgspec.json.encode(kept)))


def apply_overrides(agent: AgentDefinition, override: AgentOverride) -> AgentDefinition:
    """The agent as the settings change it; the model `inherit` undoes one of its own."""
    run, model = override.run_config, override.model_settings
    changes: dict[str, Any] = {
        "max_turns": run.max_turns,
        "time_limit_s": None if run.max_time_minutes is None else run.max_time_minutes * 60,
        "model": model.model,
        "temperature": model.generate_content_config.get("temperature"),
        "tools": override.tools,
    }
    if changes["temperature"] is not None:
        changes["temperature_place"] = f"agents.overrides.{agent.name}"
    known = {name: value for name, value in changes.items() if value is not None}
    if model.model == "inherit":
        known["model"] = None
    return msgspec.structs.replace(agent, **known)


def impossible_tools(agent: AgentDefinition | RemoteAgent) -> str:
    """A warning about tools of an agent that no session has: no built-in ones, and no names that a
    server's tools can have; "" without any."""
    from alhena.tools.registry import ALIASES, BUILT_IN, unmatched_patterns

    if isinstance(agent, RemoteAgent):
        return ""
    of_servers = [each for each in agent.tools if "__" in each or each.startswith("mcp_")]
    odd = unmatched_patterns(agent.tools, {*BUILT_IN, *ALIASES, *of_servers})
    if not odd:
        return ""
    return f"agent {agent.name} gets no tool for {', '.join(map(one_line, odd))}: none is called so"


def parse_agents(path: Path, text: str) -> tuple[list[AgentDefinition | RemoteAgent], list[str]]:
    """The agents of a file, and a warning for each unknown key. Raises InputError, which names the
    key or line."""
    documents = _from_toml(text) if path.suffix == ".toml" else _from_markdown(text)
    warnings: list[str] = []
    agents: list[AgentDefinition | RemoteAgent] = []
    for document, unknown in documents:
        warnings += (f"has an unknown key '{key}'" for key in unknown)
        agents.append(_read_agent(document, path))
    return agents, warnings


def _read_agent(document: dict[str, Any], path: Path) -> AgentDefinition | RemoteAgent:
    try:
        fields = read_value(document, _Fields)
    except msgspec.ValidationError as error:
        from alhena.config.checking import explain_error

        place, words = explain_error(error)
        raise InputError(f"{place}: {words}" if place else words) from error
    if not _NAME.fullmatch(fields.name):
        raise InputError(f"name {fields.name!r}: use a-z, 0-9, - and _, beginning with a letter")
    if fields.kind == "remote":
        return _remote(fields)
    if not fields.description.strip():
        raise InputError("it has no description")
    if fields.max_turns < 1 or fields.timeout_mins <= 0:
        raise InputError("max_turns and timeout_mins have to be greater than 0")
    return AgentDefinition(
        name=fields.name,
        description=one_line(fields.description, 1_000),
        display_name=fields.display_name,
        system_prompt=fields.system_prompt,
        query=fields.query,
        tools=tuple(fields.tools),
        result_schema=fields.output or _REPORT,
        max_turns=fields.max_turns,
        time_limit_s=fields.timeout_mins * 60,
        temperature=1.0 if fields.temperature is None else fields.temperature,
        temperature_place="" if fields.temperature is None else str(path),
        model=None if fields.model == "inherit" else fields.model,
        in_worktree=fields.isolation == "worktree",
        mcp_servers={name: _entry(name, each) for name, each in fields.mcp_servers.items()},
    )


def _entry(name: str, written: dict[str, Any]) -> dict[str, Any]:
    """A server as it would be written in the settings. Raises InputError."""
    from alhena.config.mcp_servers import server_of, typed_entries

    entry = _camel(written)
    auth = entry.pop("auth", None)
    if isinstance(auth, dict):
        kind = cast("dict[str, Any]", auth).pop("type", None)
        if kind == "google-credentials":
            entry["authProviderType"] = "google_credentials"
        entry["oauth"] = {"enabled": True, **_camel(cast("dict[str, Any]", auth))}
    entry = typed_entries({name: entry})[name]
    made = server_of(name, entry)
    if isinstance(made, str) and "$" not in str(entry.get("url") or entry.get("httpUrl")):
        raise InputError(made.removeprefix("settings: ").replace("mcpServers", "mcp_servers", 1))
    return entry


def _camel(written: dict[str, Any]) -> dict[str, Any]:
    return {
        re.sub("_(.)", lambda found: found[1].upper(), key): each for key, each in written.items()
    }


def _remote(fields: _Fields) -> RemoteAgent:
    card = fields.agent_card_url or fields.agent_card_json
    if not card:
        raise InputError("a remote agent needs agent_card_url or agent_card_json")
    try:
        return RemoteAgent(
            name=fields.name, card=card, description=fields.description, auth=fields.auth
        )
    except (ConfigError, TypeError) as error:
        raise InputError(str(error)) from error


def _from_toml(text: str) -> list[tuple[dict[str, Any], list[str]]]:
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"no valid TOML: {error}") from error
    fields = {key: document.pop(key) for key in _TOP if key in document}
    unknown: list[str] = []
    for table, keys in _TABLES.items():
        values = document.pop(table, {})
        if not isinstance(values, dict):
            raise InputError(f"{table} has to be a table: [{table}]")
        for key, value in cast("dict[str, Any]", values).items():
            if key in keys:
                fields[key] = value
            else:
                unknown.append(f"{table}.{key}")
    return [(fields, [*document, *unknown])]


def _from_markdown(text: str) -> list[tuple[dict[str, Any], list[str]]]:
    """The agent of the front matter; remote ones may be a list."""
    head = _HEAD.match(text)
    if head is None:
        raise InputError("it does not begin with front matter between two lines of ---")
    document: Any = plain_front_matter(head[1])
    if document is None:
        document = _from_yaml(head[1])
    several: list[Any] = cast("list[Any]", document) if isinstance(document, list) else [document]
    body = text[head.end() :].strip()
    return [_of_front_matter(each, body) for each in several]


_KEY = re.compile(r"([a-z_]+):(?: +(?:([A-Za-z0-9][^:#]*)|\[([\w.*, -]+)\]))? *")
_ITEM = re.compile(r" *- +(['\"]?)([\w.*-]+)\1 *")


def plain_front_matter(text: str) -> dict[str, Any] | None:
    """Front matter that has only plain texts and lists of names; None for any other. The YAML
    library takes longer to import than all agents to read."""
    found: dict[str, Any] = {}
    items: list[str] | None = None
    for line in filter(str.strip, text.split("\n")):
        line = line.rstrip()
        item, key = _ITEM.fullmatch(line), _KEY.fullmatch(line)
        if item is not None and items is not None:
            items.append(item[2])
            continue
        if key is None or key[1] in found or items == [] or not line.isprintable():
            return None
        items = None
        if key[2]:
            found[key[1]] = key[2].strip()
        elif key[3]:
            found[key[1]] = [each.strip() for each in key[3].split(",")]
        else:
            items = found[key[1]] = []
    return None if items == [] else found


def _from_yaml(text: str) -> Any:
    """Front matter as YAML, or with quotes around the values that are no YAML: text with colons."""
    import yaml

    try:
        return _load_yaml(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        try:
            return _load_yaml(quote_values(text))
        except (yaml.YAMLError, RecursionError, ValueError):
            pass
        mark: Any = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" (at line {mark.line + 2})"
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise InputError(f"no valid YAML: {problem}{where}") from error


def _load_yaml(text: str) -> Any:
    import yaml

    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506  a safe loader


_NO_YAML = re.compile(r":(?:\s|$)|^[@`*&!%]|^[\[{].*[\]}]\s*[^\s\]}]")
"""Texts that people do not quote: with a colon, or beginning with a character of YAML's."""
_PLAIN_VALUE = re.compile(r"([ \t]*)([A-Za-z_][\w-]*):[ \t]+([^\s|>#].*)")


def quote_values(text: str) -> str:
    """Front matter with quotes around the values that are not valid YAML of their own."""
    import yaml

    lines = text.splitlines()
    quoted: list[str] = []
    at = 0
    while at < len(lines):
        found, end = _PLAIN_VALUE.fullmatch(lines[at]), at + 1
        if found is not None:
            deeper = f"{found[1]} ", f"{found[1]}\t"
            while end < len(lines) and lines[end].startswith(deeper):
                end += 1
            try:
                _load_yaml("\n".join((f"{found[2]}: {found[3]}", *lines[at + 1 : end])))
            except (yaml.YAMLError, RecursionError, ValueError):
                value = " ".join((found[3], *(line.strip() for line in lines[at + 1 : end])))
                if _NO_YAML.search(value):
                    escaped = value.strip().replace("'", "''")
                    lines[at:end] = [f"{found[1]}{found[2]}: '{escaped}'"]
                    end = at + 1
        quoted += lines[at:end]
        at = end
    return "\n".join(quoted)


def _of_front_matter(document: Any, body: str) -> tuple[dict[str, Any], list[str]]:
    if not isinstance(document, dict):
        raise InputError("its front matter has to be keys and values")
    fields = cast("dict[str, Any]", document)
    if "name" not in fields:
        raise InputError("its front matter has no name")
    if "mcpServers" in fields:
        fields.setdefault("mcp_servers", fields.pop("mcpServers"))
    known = {key: value for key, value in fields.items() if key in _Fields.__struct_fields__}
    known.pop("system_prompt", None)
    if "agent_card_url" in known or "agent_card_json" in known:
        known.setdefault("kind", "remote")
    return {**known, "system_prompt": body}, [str(key) for key in fields if key not in known]


def content(path: Path, *, follows: bool = True) -> tuple[str, bytes]:
    """The text of a file, and its bytes; `follows` as in `read_content`. Raises InputError,
    FileError."""
    data = read_content(path, MAX_BYTES, follows=follows)
    try:
        return data.decode("utf-8"), data
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError(f"not valid UTF-8 (at line {line})") from error
