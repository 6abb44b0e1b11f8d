"""The arguments of `Agent` and the MCP servers in code, checked, and the session's options made of
them."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from inspect import iscoroutinefunction
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import msgspec

from alhena.agent.subagents import AgentDefinition, Handoff, builtin_agents
from alhena.agent.subagents.remote import RemoteAgent
from alhena.agent.toolset.options import (
    ModelOptions,
    People,
    Permissions,
    PolicySource,
    RecordOptions,
    SessionSpec,
    Tools,
    workspace_directory,
)
from alhena.config.effective_settings import Place, open_place
from alhena.config.settings import Settings, with_model
from alhena.errors import ConfigError
from alhena.models.generator import ContentGenerator
from alhena.models.settings import ModelSettings
from alhena.policy.model import ApprovalMode, PolicyRule
from alhena.scheduler.bus import MessageBus
from alhena.scheduler.question import Approver, ConfirmationRequest, Edit
from alhena.tools.builtin.ask_user import Ask
from alhena.tools.contract import Tool
from alhena.tools.function import as_tool
from alhena.tools.registry import BUILT_IN, declared_name, is_declarable
from alhena.tools.value_types import schema_of, value_from_json
from alhena.values import Limits, Value
from alhena.wire.content import Content

HERE = "(in this process)"
"""The command of an in-process server as people are shown it; it is never run."""


class StdioServer(Value, frozen=True):
    """An MCP server that a command starts; it speaks over its standard input and output."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str | None = None

    if TYPE_CHECKING:  # a list becomes the tuple

        def __init__(
            self,
            command: str,
            args: Sequence[str] = (),
            env: Mapping[str, str] = ...,
            cwd: str | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.command.strip():
            raise ConfigError("StdioServer.command is empty.", remedy="Name the program to start.")
        _require_texts("StdioServer.env", self.env)


class HttpServer(Value, frozen=True):
    """An MCP server at a URL (streamable HTTP)."""

    url: str
    headers: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.url.startswith(("http://", "https://")):
            raise ConfigError(
                f"HttpServer.url cannot be {self.url!r:.100}.", remedy="It begins with https://."
            )
        _require_texts("HttpServer.headers", self.headers)

    def __repr__(self) -> str:
        return f"HttpServer({self.url!r})"


class InProcessServer(Value, frozen=True):
    """A server object of the MCP SDK, which runs in this process."""

    server: Any

    def __post_init__(self) -> None:
        if not hasattr(self.server, "run"):
            kind = type(self.server).__name__
            raise TypeError(f"InProcessServer takes a server of the MCP SDK, not {kind}")


Server = StdioServer | HttpServer | InProcessServer


def _require_texts(where: str, texts: Any) -> None:
    items: list[Any] = list(cast("Any", texts).items()) if isinstance(texts, Mapping) else [(0, 0)]
    for name, text in items:
        if not isinstance(name, str) or not isinstance(text, str):
            raise TypeError(f"{where} has to be a mapping of texts to texts, not {texts!r:.60}")


def entries_of(servers: Mapping[str, Server]) -> dict[str, Any]:
    """The servers as entries of `mcpServers` in settings. Raises ConfigError, TypeError."""
    found: dict[str, Any] = {}
    for name, server in servers.items():
        match server:
            case StdioServer():
                entry: dict[str, Any] = {
                    "command": server.command,
                    "args": list(server.args),
                    "env": dict(server.env),
                }
                found[name] = entry | ({} if server.cwd is None else {"cwd": server.cwd})
            case HttpServer():
                found[name] = {"httpUrl": server.url, "headers": dict(server.headers)}
            case InProcessServer():
                found[name] = {"command": HERE}
            case _:
                raise TypeError(
                    f"servers[{name!r}] has to be a StdioServer, HttpServer or InProcessServer, "
                    f"not {type(server).__name__}"
                )
    return found


T = TypeVar("T")


class AgentOptions(Value, frozen=True, kw_only=True):
    """Rarely needed options of an `Agent`.

    `settings`: instead of those of the directory's settings files. `environ`: instead of the
    process's environment and .env files. `include_directories`: workspace directories beside `cwd`.
    `allowed_tools`: tools, or `run_shell_command(prefix)`, that run without approval. `skip_trust`:
    trust the workspace. `sandbox`: run commands in one, whatever the settings say. `ask`: answers
    questions of the model and of MCP servers; without it the model has no tool to ask, and servers
    are declined. `edit`: lets a person change a proposed edit. `bus`: a message bus whose listeners
    confirm calls and answer questions.
    `session_id`: the id of a new session. `record`: write the session to disk, so that it can be
    resumed. `full_context`: send the workspace's files first, as far as they fit.
    `wait_for_servers`: wait for MCP servers before the first prompt, for some seconds.
    `service_tier`: "flex" costs half and may wait, "priority" costs more and is served first;
    "standard"; None is that of the settings.
    """

    settings: Settings | None = None
    environ: Mapping[str, str] | None = None
    include_directories: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    skip_trust: bool = False
    sandbox: bool | None = None
    ask: Ask | None = None
    edit: Edit | None = None
    bus: MessageBus | None = None
    session_id: str | None = None
    record: bool = True
    full_context: bool = False
    wait_for_servers: bool = True
    service_tier: Literal["flex", "standard", "priority"] | None = None


class Subagent(Value, frozen=True, kw_only=True):
    """An agent that the model may give tasks to; it works in a conversation of its own.

    `tools`: functions and tools of the program, and names of the agent's other tools ("read_file",
    "server__*", "*"). `output`: the type of what it hands over. Of `limits`, turns (30) and seconds
    (600) are its own. `model`: a name or an object; None is the agent's; `model_settings` are its
    own. With `handoff` its answer ends the run: `Result.handed_over` is its value. Its calls pass
    the agent's rules, approvals and hooks, its requests count in the usage of the run.
    """

    name: str
    description: str
    instructions: str
    tools: Sequence[str | Tool | Callable[..., Any]] = ()
    model: str | ContentGenerator | None = None
    output: Any = str
    limits: Limits | None = None
    model_settings: "ModelSettings | None" = None
    handoff: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        model = cast("object", self.model)
        if isinstance(model, type) or not (
            isinstance(model, str | None) or hasattr(model, "stream")
        ):
            raise TypeError(f"Subagent.model cannot be {model!r:.60}: it is a name or a model")

    def definition(self) -> AgentDefinition:
        """The agent for a session. Raises ConfigError, TypeError."""
        where = f"Subagent {self.name!r}"
        if not is_declarable(self.name):
            raise ConfigError(f"{where}: that is no name.", remedy="Use letters, digits, _ and -.")
        for field in ("description", "instructions"):
            if not getattr(self, field).strip():
                raise ConfigError(f"{where}: its {field} is empty.", remedy="Give it a text.")
        model = self.model
        settings = settings_of(f"{where}: model_settings", self.model_settings)
        limits = self.limits or Limits()
        if limits.tokens is not None or limits.cost is not None:
            raise ConfigError(
                f"{where}: limits of tokens and cost cannot be its own; "
                "they count for the agent with all its subagents.",
                remedy="Give them to the Agent.",
            )
        items = sequence_of(f"{where}: tools", self.tools)
        own = tuple(as_tool(each, f"{where}: tools") for each in items if not isinstance(each, str))
        return AgentDefinition(
            name=self.name,
            description=self.description,
            system_prompt=self.instructions,
            tools=tuple(each for each in items if isinstance(each, str)),
            own_tools=own,
            result_schema=schema_of(self.output),
            model=model if isinstance(model, str) else None,
            generator=None if isinstance(model, str) else model,
            settings=settings,
            handoff=Handoff(partial(value_from_json, self.output)) if self.handoff else None,
            max_turns=30 if limits.turns is None else limits.turns,
            time_limit_s=600 if limits.seconds is None else limits.seconds,
        )


Hook = Callable[[Any], Any] | str | Mapping[str, Any]
"""A function, async or not, of an object of `alhena.hooks`, or of the documented dict, that returns
what it answers or None; a command; or a group with a matcher, as settings.json has it."""


class AgentArguments(Value, frozen=True, kw_only=True):
    """The arguments of `Agent`."""

    model: str | ContentGenerator | None
    instructions: Any
    environment: bool | None
    tools: tuple[Tool, ...]
    builtin_tools: tuple[str, ...] | None
    search_tools: bool
    agents: tuple[AgentDefinition, ...]
    remote_agents: tuple[RemoteAgent, ...]
    approve: Approver | None
    approval_mode: ApprovalMode
    policy: tuple[PolicySource, ...]
    servers: Mapping[str, Server]
    hooks: Mapping[str, Any]
    model_settings: "ModelSettings | None"
    limits: Limits
    cwd: str | PathLike[str] | None
    isolated: bool
    resume: str | None
    history: tuple[Content, ...]
    options: AgentOptions


def sequence_of(argument: str, items: Iterable[T] | object) -> tuple[T, ...]:
    """The items of an argument. Raises TypeError for what is no sequence, or is a text or path."""
    if isinstance(items, str | bytes | PathLike) or not isinstance(items, Iterable):
        raise TypeError(f"{argument} has to be a sequence, such as [{items!r:.60}]")
    return tuple(cast("Iterable[T]", items))


def contents_of(history: Sequence[Content] | bytes | str | None) -> tuple[Content, ...]:
    """The contents of a conversation, or of its JSON; none for what is empty. Raises ConfigError,
    TypeError."""
    if not history:
        return ()
    if isinstance(history, bytes):
        try:
            return msgspec.json.decode(history, type=tuple[Content, ...])
        except msgspec.DecodeError as error:
            raise ConfigError(
                f"history is no JSON of a conversation: {error}.",
                remedy="Pass what history_json() returned.",
            ) from None
    contents: tuple[Any, ...] = sequence_of("history", history)
    for index, item in enumerate(contents):
        if not isinstance(item, Content):
            raise TypeError(
                f"history[{index}] has to be a Content, not {type(item).__name__}; "
                "pass Agent.history, or the bytes of history_json()"
            )
    return contents


def mode_of(name: str) -> ApprovalMode:
    """An approval mode by its name. Raises ConfigError."""
    try:
        return ApprovalMode(name)
    except ValueError:
        names = ", ".join(repr(each.value) for each in ApprovalMode)
        raise ConfigError(
            f"approval_mode cannot be {name!r:.60}.", remedy=f"It is one of {names}."
        ) from None


def instance_of(argument: str, kind: type[T], given: object) -> T:
    """The value of an argument, or that of a `kind` made without arguments. Raises TypeError."""
    if given is None:
        return kind()
    if not isinstance(given, kind):
        raise TypeError(f"{argument} has to be {kind.__name__}(…), not {given!r:.60}")
    return given


def tools_of(items: object) -> tuple[Tool, ...]:
    """The tools of the program, plain functions made into tools. Raises TypeError."""
    given: tuple[Any, ...] = sequence_of("tools", items)
    made = tuple(map(as_tool, given))
    names = [tool.name for tool in made]
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise ConfigError(
            f"tools: there are two of the name {twice!r}.", remedy="Rename one: @tool(name=…)."
        )
    return made


def agents_of(items: object) -> tuple[tuple[AgentDefinition, ...], tuple[RemoteAgent, ...]]:
    """The subagents of the program, and its remote agents. Raises ConfigError, TypeError."""
    found: list[AgentDefinition] = []
    remote: list[RemoteAgent] = []
    taken = {agent.name for agent in builtin_agents()}
    given: tuple[Any, ...] = sequence_of("agents", items)
    for item in given:
        if not isinstance(item, Subagent | RemoteAgent):
            raise TypeError(f"agents: {item!r:.60} is no Subagent")
        if item.name in taken:
            raise ConfigError(
                f"agents: there are two of the name {item.name!r}.", remedy="Rename one."
            )
        taken.add(item.name)
        if isinstance(item, Subagent):
            found.append(item.definition())
        else:
            remote.append(item)
    return tuple(found), tuple(remote)


def builtin_names(names: object) -> tuple[str, ...] | None:
    """The declared names of built-in tools. Raises ConfigError for an unknown one, TypeError."""
    if names is None:
        return None
    found: tuple[Any, ...] = sequence_of("builtin_tools", names)
    for name in found:
        if declared_name(str(name)) not in BUILT_IN:
            raise ConfigError(
                f"builtin_tools: there is no built-in tool {name!r:.60}.",
                remedy=f"They are {', '.join(sorted(BUILT_IN))}.",
            )
    return tuple(map(declared_name, found))


def hooks_of(hooks: Mapping[str, Hook | Sequence[Hook]]) -> dict[str, Any]:
    """The hooks of the program as a settings document. Raises ConfigError, TypeError."""
    if not isinstance(cast("object", hooks), Mapping):
        raise TypeError(f"hooks has to be a mapping of events, not {type(hooks).__name__}")
    document: dict[str, Any] = {
        event: [_group(event, hook) for hook in _several(given)] for event, given in hooks.items()
    }
    if not document:
        return {}
    from alhena.hooks.load import HookDocument, load_hooks
    from alhena.hooks.model import HookSource

    whole = {"hooks": document}
    loaded = load_hooks(HookDocument(value=whole, file="hooks", source=HookSource.RUNTIME))
    for problem in loaded.problems:
        raise ConfigError(f"{problem.path} {problem.message}.", remedy=problem.remedy or None)
    return whole


def _several(given: Any) -> Sequence[Any]:
    return cast("Sequence[Any]", given) if isinstance(given, list | tuple) else (given,)


def _group(event: str, hook: Any) -> Mapping[str, Any]:
    from alhena.hooks.functions import typed_hook

    if isinstance(hook, Mapping):
        return _typed_group(event, cast("Mapping[str, Any]", hook))
    if isinstance(hook, str):
        return {"hooks": [{"type": "command", "command": hook}]}
    if not callable(hook):
        kind = type(hook).__name__
        raise TypeError(f"hooks[{event!r}] has to be a function, a command or a group, not {kind}")
    function = typed_hook(event, hook)
    return {"hooks": [{"function": function}], "sequential": function is not hook}


def instructions_of(instructions: Any) -> Any:
    """Instructions as they are. Raises TypeError for what is neither a text nor a function."""
    if isinstance(instructions, type) or not (
        instructions is None or isinstance(instructions, str) or callable(instructions)
    ):
        raise TypeError(f"instructions cannot be {instructions!r:.60}: give a text or a function")
    return instructions


def function_of(argument: str, function: Any) -> Any:
    """A function that is not async, or None, as it is. Raises TypeError."""
    if function is not None and (not callable(function) or iscoroutinefunction(function)):
        kind = "a function that is not async" if callable(function) else "a function"
        raise TypeError(f"{argument} has to be {kind}, not {function!r:.60}")
    return function


def _typed_group(event: str, group: Mapping[str, Any]) -> Mapping[str, Any]:
    """A group with a matcher, its functions typed."""
    from alhena.hooks.functions import TypedHook, typed_hook

    members = group.get("hooks")
    if not isinstance(members, list | tuple):
        return group
    made: list[Any] = []
    sequential: dict[str, Any] = {}
    for each in cast("Sequence[Any]", members):
        entry = cast("dict[str, Any]", each) if isinstance(each, dict) else {}
        function = entry.get("function")
        typed = typed_hook(event, function) if callable(function) else None
        if isinstance(typed, TypedHook):
            sequential = {"sequential": True}
        made.append({**entry, "function": typed} if isinstance(typed, TypedHook) else each)
    return {**group, "hooks": made, **sequential}


def _defer(_request: ConfirmationRequest) -> bool:
    from alhena.tools.contract import Deferred

    raise Deferred


def approver_of(approve: object) -> Approver | None:
    """The callback that approves calls. Raises TypeError."""
    if approve == "always":
        return lambda _request: True
    if approve == "never":
        from alhena.scheduler.question import Answer

        return lambda _request: Answer.no("This program never approves calls.")
    if approve == "defer":
        return _defer
    if approve is not None and not callable(approve):
        raise TypeError(
            f"approve has to be callable, 'always', 'never' or 'defer', not {approve!r:.60}"
        )
    return cast("Approver | None", approve)


def model_of(argument: str, model: Any) -> str | ContentGenerator | None:
    """A model by its name or object. Raises TypeError."""
    if isinstance(model, str) and not model.strip():
        raise TypeError(f"{argument} is empty: name one, or leave it out for the default")
    if isinstance(model, type) or not (
        model is None or isinstance(model, str) or hasattr(model, "stream")
    ):
        kind = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        raise TypeError(f"{argument} has to be a name or a model, not {kind}")
    return model


def settings_of(argument: str, given: object) -> "ModelSettings | None":
    """The settings of a model, None for none. Raises TypeError."""
    if given is None:
        return None
    from alhena.models.settings import settings_of

    return settings_of(argument, given)


def require_usable(given: AgentArguments) -> None:
    """Raises TypeError for arguments of the wrong type."""
    model_of("model", given.model)
    for index, rule in enumerate(given.policy):
        _require(f"policy[{index}]", rule, str | PathLike | PolicyRule, "a Rule or a path")
    _require("cwd", given.cwd, str | PathLike | None, "a path")
    _require("AgentOptions.settings", given.options.settings, Settings | None, "a Settings")
    _require("AgentOptions.environ", given.options.environ, Mapping | None, "a mapping")
    if not isinstance(cast("object", given.servers), Mapping):
        raise TypeError("servers has to be a mapping of names to servers")
    entries_of(given.servers)
    if given.isolated and given.resume is not None:
        raise ConfigError(
            "resume and isolated exclude each other: an isolated agent reads no records.",
            remedy="Pass the conversation as history.",
        )


def _require(what: str, value: object, kinds: Any, wanted: str) -> None:
    if not isinstance(value, kinds):
        raise TypeError(f"{what} has to be {wanted}, not {value!r:.60}")


def session_options(given: AgentArguments, home: str | None = None) -> SessionSpec:
    """The options of a session for the arguments of an `Agent`; reads the settings. `home` is the
    empty home directory of an isolated one. Raises ConfigError, InputError."""
    more = given.options
    name = given.model if isinstance(given.model, str) else getattr(given.model, "name", None)
    return SessionSpec(
        place=_find_place(given, home),
        model=ModelOptions(
            name=name,
            generator=None if isinstance(given.model, str) else given.model,
            instructions="" if callable(given.instructions) else _instructions(given),
            environment=not given.isolated if given.environment is None else given.environment,
            full_context=more.full_context,
            settings=given.model_settings,
        ),
        permissions=Permissions(
            approval_mode=given.approval_mode,
            policy=given.policy,
            allowed_tools=more.allowed_tools,
            sandbox=more.sandbox,
        ),
        tools=Tools(
            builtin=given.builtin_tools,
            own=given.tools,
            search_own=given.search_tools,
            agents=given.agents,
            remote_agents=given.remote_agents,
            hooks=given.hooks,
            in_process_servers={
                name: each.server
                for name, each in given.servers.items()
                if isinstance(each, InProcessServer)
            },
            wait_for_servers=more.wait_for_servers,
        ),
        people=People(approve=given.approve, ask=more.ask, edit=more.edit, bus=more.bus),
        record=RecordOptions(
            enabled=more.record and home is None,
            resume=given.resume,
            session_id=more.session_id,
            history=given.history,
        ),
        limits=given.limits,
    )


def _instructions(given: AgentArguments) -> str | None:
    """The system instruction; None for the composed one, which tells of built-in tools. An isolated
    agent without these has none unless the program gave one."""
    alone = given.isolated and given.builtin_tools == ()
    return "" if alone and given.instructions is None else given.instructions


def _find_place(given: AgentArguments, home: str | None) -> Place:
    """The directory of the agent with its settings: those given, those of its files, or, with
    `home`, those of an isolated agent, which has none of either."""
    more, cwd = given.options, workspace_directory(given.cwd)
    settings, environ = more.settings, os.environ if more.environ is None else more.environ
    if home is None and settings is None:
        place = open_place(cwd, environ, skip_trust=more.skip_trust, env_files=more.environ is None)
    else:
        if home is not None:
            environ = {**environ, "GEMINI_CLI_HOME": home, "GEMINI_RESTRICTED_MODE": "true"}
            settings = settings or open_place(cwd, environ, env_files=False).settings
            listing = msgspec.structs.replace(settings.context, include_directory_tree=False)
            settings = msgspec.structs.replace(settings, context=listing)
        place = Place(
            cwd=cwd,
            settings=settings or Settings(),
            environ=environ,
            skip_trust=more.skip_trust,
        )
    settings = with_model(place.settings, service_tier=more.service_tier)
    if given.servers:
        merged = {**settings.mcp_servers, **entries_of(given.servers)}
        settings = msgspec.structs.replace(settings, mcp_servers=merged)
    return msgspec.structs.replace(place, settings=settings, directories=more.include_directories)
