"""The options of a session, in one type, from the command line and from `Agent` to the tools."""

import os
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from alhena.config.errors import ConfigError
from alhena.config.settings import Settings
from alhena.errors import InputError
from alhena.models.generator import ContentGenerator
from alhena.policy.model import ApprovalMode, PolicyRule
from alhena.system.workspace import current_directory
from alhena.tools.builtin.ask_user import Ask
from alhena.tools.contract import Tool
from alhena.values import Value
from alhena.wire.content import Content

if TYPE_CHECKING:
    from alhena.config.accepted_entries import Acceptance
    from alhena.config.effective_settings import Place
    from alhena.scheduler.bus import MessageBus
    from alhena.scheduler.confirmation import Approver, Edit

T = TypeVar("T")
PolicySource = str | PathLike[str] | PolicyRule


class SessionOptions(Value, frozen=True, kw_only=True):
    """Everything a session is opened with.

    Beside what `Agent` and `AgentOptions` describe: `environ` and `settings` are loaded for `cwd`;
    `generator` answers instead of the one chosen by model and credentials; `interactive`: someone
    can be asked; `servers`: connect to MCP servers; `held_servers`: blocked ones with the reason;
    `acceptance` is asked before each other one starts; `named` replaces secret values by their
    variables for display; `max_turns` -1: no limit; `facts` go to telemetry (output_format,
    debug_mode), `notices` to the person with the first run.
    """

    cwd: Path
    environ: Mapping[str, str]
    settings: Settings
    model: str | None = None
    generator: ContentGenerator | None = None
    system_prompt: str | None = None
    tools: tuple[Tool, ...] = ()
    approve: "Approver | None" = None
    ask: Ask | None = None
    edit: "Edit | None" = None
    bus: "MessageBus | None" = None
    interactive: bool = False
    approval_mode: ApprovalMode = ApprovalMode.DEFAULT
    policy: tuple[PolicySource, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    skip_trust: bool = False
    sandbox: bool | None = None
    hooks: Mapping[str, Any] | None = None
    include_directories: tuple[str, ...] = ()
    servers: bool = True
    wait_for_servers: bool = True
    held_servers: Mapping[str, str] = {}
    acceptance: "Acceptance | None" = None
    named: Callable[[tuple[str, ...], Any], Any] | None = None
    max_turns: int = -1
    max_tokens: int | None = None
    max_seconds: float | None = None
    max_cost: float | None = None
    history: tuple[Content, ...] = ()
    resume: str | None = None
    session_id: str | None = None
    record: bool = True
    full_context: bool = False
    fake_responses: str | None = None
    fake_strict: bool = True
    record_responses: str | None = None
    is_terminal: bool = False
    facts: Mapping[str, str | bool] = {}
    notices: tuple[str, ...] = ()


class Limits(Value, frozen=True, kw_only=True):
    """Limits of an agent: model `turns` per prompt, `seconds` per run, `tokens` and `cost` (US
    dollars) per session. None: no limit but that of the settings."""

    turns: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    cost: float | None = None


class AgentOptions(Value, frozen=True, kw_only=True):
    """Rarely needed options of an `Agent`.

    `settings`: instead of those of the directory's settings files. `environ`: instead of the
    process's environment and .env files. `include_directories`: workspace directories beside `cwd`.
    `allowed_tools`: tools, or `run_shell_command(prefix)`, that run without approval. `skip_trust`:
    trust the workspace. `sandbox`: run commands in one, whatever the settings say. `ask`: answers
    the model's questions; without it the model has no tool to ask. `edit`: lets a person change a
    proposed edit. `bus`: a message bus whose listeners confirm calls and answer questions.
    `session_id`: the id of a new session. `record`: write the session to disk, so that it can be
    resumed. `full_context`: send the workspace's files first, as far as they fit.
    `wait_for_servers`: wait for MCP servers before the first prompt, for some seconds.
    """

    settings: Settings | None = None
    environ: Mapping[str, str] | None = None
    include_directories: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    skip_trust: bool = False
    sandbox: bool | None = None
    ask: Ask | None = None
    edit: "Edit | None" = None
    bus: "MessageBus | None" = None
    session_id: str | None = None
    record: bool = True
    full_context: bool = False
    wait_for_servers: bool = True


def workspace_directory(cwd: str | PathLike[str] | None) -> Path:
    """The directory of a session. Raises InputError when it does not exist."""
    if cwd is None:
        return current_directory()
    path = Path(cwd)
    if not path.is_dir():
        raise InputError(f"the directory {path} does not exist.", remedy="Name an existing one.")
    return path


class Arguments(Value, frozen=True, kw_only=True):
    """The arguments of `Agent`."""

    model: str | ContentGenerator | None
    instructions: str | None
    tools: tuple[Tool, ...]
    approve: "Approver | None"
    approval_mode: ApprovalMode
    policy: tuple[PolicySource, ...]
    hooks: Mapping[str, Any] | None
    limits: Limits
    cwd: str | PathLike[str] | None
    resume: str | None
    history: tuple[Content, ...]
    options: AgentOptions


def sequence_of(argument: str, items: Sequence[T]) -> tuple[T, ...]:
    """The items of an argument. Raises TypeError for a single text or path."""
    if isinstance(items, str | bytes | PathLike):
        raise TypeError(f"{argument} has to be a sequence, such as [{items!r:.60}]")
    return tuple(items)


def mode_of(name: str) -> ApprovalMode:
    """An approval mode by its name. Raises ConfigError."""
    try:
        return ApprovalMode(name)
    except ValueError:
        names = ", ".join(repr(each.value) for each in ApprovalMode)
        raise ConfigError(
            f"approval_mode cannot be {name!r:.60}.", remedy=f"It is one of {names}."
        ) from None


def require_usable(given: Arguments) -> None:
    """Raises TypeError for arguments of the wrong type."""
    model = given.model
    if model is not None and not isinstance(model, str) and not hasattr(model, "stream"):
        raise TypeError(f"model has to be a name or a model, not {type(model).__name__}")
    if given.approve is not None and not callable(given.approve):
        raise TypeError(f"approve has to be callable, not {type(given.approve).__name__}")
    for item in given.tools:
        if not callable(getattr(item, "build", None)):
            name = getattr(item, "__name__", type(item).__name__)
            raise TypeError(f"tools: {name} is no tool; make a function one with @tool")


def session_options(given: Arguments | SessionOptions) -> SessionOptions:
    """The options of a session for the arguments of an `Agent`; reads the settings. Raises
    ConfigError, InputError."""
    if isinstance(given, SessionOptions):
        return given
    more, limits = given.options, given.limits
    cwd = workspace_directory(given.cwd)
    settings, environ = more.settings, os.environ if more.environ is None else more.environ
    found: Mapping[str, Any] = {}
    if settings is None:
        from alhena.config.effective_settings import open_place

        place = open_place(cwd, environ, skip_trust=more.skip_trust, env_files=more.environ is None)
        settings, environ, found = place.settings, place.environ, of_place(place)
    model, generator = given.model, None
    if model is not None and not isinstance(model, str):
        model, generator = getattr(model, "name", None), model
    return SessionOptions(
        cwd=cwd,
        environ=environ,
        settings=settings,
        model=model,
        generator=generator,
        system_prompt=given.instructions,
        tools=given.tools,
        approve=given.approve,
        approval_mode=given.approval_mode,
        policy=given.policy,
        hooks=given.hooks,
        max_turns=-1 if limits.turns is None else limits.turns,
        max_tokens=limits.tokens,
        max_seconds=limits.seconds,
        max_cost=limits.cost,
        history=given.history,
        resume=given.resume,
        **{name: getattr(more, name) for name in _SAME},
        **found,
    )


_SAME = tuple(
    name for name in AgentOptions.__struct_fields__ if name not in ("settings", "environ")
)


def of_place(place: "Place") -> dict[str, Any]:
    """The options of a session that come with the settings of its directory."""
    return {
        "notices": place.told,
        "held_servers": place.held_servers,
        "acceptance": place.acceptance,
        "named": place.named,
    }
