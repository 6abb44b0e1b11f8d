"""The options of a session, in one type, from the command line and from `Agent` to the tools."""

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from alhena.config.settings import Settings
from alhena.errors import InputError
from alhena.models.generator import ContentGenerator
from alhena.policy.model import ApprovalMode, PolicyRule
from alhena.system.workspace import TerminalProvider, current_directory
from alhena.tools.contract import HostProgram, Tool
from alhena.values import Limits, Value
from alhena.wire.content import Content

if TYPE_CHECKING:
    from alhena.agent.limits.budget import Spent
    from alhena.agent.subagents import AgentDefinition
    from alhena.agent.subagents.remote import RemoteAgent
    from alhena.config.effective_settings import Place
    from alhena.config.extensions import Extension
    from alhena.config.pinned_entries import Acceptance
    from alhena.scheduler.bus import MessageBus
    from alhena.scheduler.confirmation import Edit
    from alhena.scheduler.question import Approver
    from alhena.session.journal import Disk
    from alhena.system.workspace import EditorFiles, Terminal
    from alhena.tools.builtin.ask_user import Ask

T = TypeVar("T")
PolicySource = str | PathLike[str] | PolicyRule


class People(Value, frozen=True, kw_only=True):
    """The ways to the people of a session: `approve` confirms calls, `ask` answers questions of the
    model, `edit` lets a person change a proposed edit; the listeners of `bus` do the first two."""

    approve: "Approver | None" = None
    ask: "Ask | None" = None
    edit: "Edit | None" = None
    bus: "MessageBus | None" = None


class Client(Value, frozen=True, kw_only=True):
    """The capabilities of a front end: `editor` shows files, `terminal` runs commands, `console`
    is lent to them, `program` serves the tools that it wrote; `is_terminal`: a person sits at
    it. `facts` go to telemetry (output_format, debug_mode)."""

    console: "TerminalProvider | None" = None
    editor: "EditorFiles | None" = None
    terminal: "Terminal | None" = None
    program: HostProgram | None = None
    is_terminal: bool = False
    facts: Mapping[str, str | bool] = {}


class RecordOptions(Value, frozen=True, kw_only=True):
    """The record of a session: `resume` one, or continue a given `history`; with `enabled` it is
    written by `disk`, a new one under `session_id`. With `proceeds` the first prompt of a resumed
    session continues at the step its journal ends with."""

    enabled: bool = True
    resume: str | None = None
    session_id: str | None = None
    history: tuple[Content, ...] = ()
    disk: "Disk | None" = None
    proceeds: bool = False


class SessionOptions(Value, frozen=True, kw_only=True):
    """Everything a session is opened with.

    Beside what `Agent` and `AgentOptions` describe: `environ` and `settings` are loaded for `cwd`;
    `generator` answers instead of the one chosen by model and credentials; `builtin_tools`: the
    only ones declared; `agents` and `remote_agents`: beside the built-in ones; `interactive`:
    someone can be asked; `servers`: connect to MCP servers, of which `in_process_servers`
    are objects of the SDK by name; `extensions`: those in use;
    `held_servers`: blocked ones with the reason; `acceptance` is asked before other ones start;
    `named` replaces secret values by their variables for display;
    `wrap` puts something between the session and the service;
    `spent` counts against the limits from the start;
    `notices` go to the person with the first run.
    """

    cwd: Path
    environ: Mapping[str, str]
    settings: Settings
    model: str | None = None
    generator: ContentGenerator | None = None
    system_prompt: str | None = None
    tools: tuple[Tool, ...] = ()
    builtin_tools: tuple[str, ...] | None = None
    agents: "tuple[AgentDefinition, ...]" = ()
    remote_agents: "tuple[RemoteAgent, ...]" = ()
    people: People = People()
    client: Client = Client()
    interactive: bool = False
    approval_mode: ApprovalMode = ApprovalMode.DEFAULT
    may_act: bool = True
    policy: tuple[PolicySource, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    skip_trust: bool = False
    sandbox: bool | None = None
    hooks: Mapping[str, Any] | None = None
    include_directories: tuple[str, ...] = ()
    servers: bool = True
    in_process_servers: Mapping[str, Any] = {}
    wait_for_servers: bool = True
    extensions: "tuple[Extension, ...]" = ()
    held_servers: Mapping[str, str] = {}
    acceptance: "Acceptance | None" = None
    named: Callable[[tuple[str, ...], Any], Any] | None = None
    limits: Limits = Limits()
    record: RecordOptions = RecordOptions()
    full_context: bool = False
    fake_responses: str | None = None
    fake_strict: bool = True
    record_responses: str | None = None
    wrap: Callable[[ContentGenerator], ContentGenerator] | None = None
    spent: "Spent | None" = None
    notices: tuple[str, ...] = ()


def workspace_directory(cwd: str | PathLike[str] | None) -> Path:
    """The directory of a session. Raises InputError when it does not exist."""
    if cwd is None:
        return current_directory()
    path = Path(cwd)
    if not path.is_dir():
        raise InputError(f"the directory {path} does not exist.", remedy="Name an existing one.")
    return path


def of_place(place: "Place") -> dict[str, Any]:
    """The options of a session that come with the settings of its directory."""
    return {
        "notices": place.told,
        "extensions": place.extensions,
        "held_servers": place.held_servers,
        "acceptance": place.acceptance,
        "named": place.name_secrets,
    }
