"""The options of a session: eight values, from the command line and from `Agent` to the tools."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from alhena.config.effective_settings import Place
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
    from alhena.models.settings import ModelSettings
    from alhena.scheduler.bus import MessageBus
    from alhena.scheduler.question import Approver, Edit
    from alhena.session.journal import Disk
    from alhena.session.stored import StoredConversation
    from alhena.system.workspace import EditorFiles, Terminal
    from alhena.tools.builtin.ask_user import Ask

T = TypeVar("T")
PolicySource = str | PathLike[str] | PolicyRule


class People(Value, frozen=True, kw_only=True):
    """The ways to the people of a session: `approve` confirms calls, `ask` answers questions of the
    model, `edit` lets a person change a proposed edit; the listeners of `bus` do the first two.
    `interject` takes what a person has said since the last request; it is sent with the results of
    the calls that ran meanwhile.
    `interactive`: a person can be asked, whoever does it."""

    approve: "Approver | None" = None
    ask: "Ask | None" = None
    edit: "Edit | None" = None
    interject: "Callable[[], Sequence[str]] | None" = None
    bus: "MessageBus | None" = None
    interactive: bool = False


class Client(Value, frozen=True, kw_only=True):
    """The capabilities of a front end: `editor` shows files, `terminal` runs commands, `console`
    is lent to them, `program` serves the tools that it wrote; `is_terminal`: a person sits at
    it. `checkpoints`: it can restore files, so they are made although no setting asks for them.
    `facts` go to telemetry (output_format, debug_mode)."""

    console: "TerminalProvider | None" = None
    editor: "EditorFiles | None" = None
    terminal: "Terminal | None" = None
    program: HostProgram | None = None
    is_terminal: bool = False
    checkpoints: bool = False
    facts: Mapping[str, str | bool] = {}


class RecordOptions(Value, frozen=True, kw_only=True):
    """The record of a session: `resume` one, or continue a given `history`; with `enabled` it is
    written by `disk`, a new one under `session_id`. With `proceeds` the first prompt of a resumed
    session continues at the step its journal ends with. `stored` is a conversation in a store of
    the program, which is continued and written instead. `spent` counts against the limits from the
    start."""

    enabled: bool = True
    resume: str | None = None
    session_id: str | None = None
    history: tuple[Content, ...] = ()
    disk: "Disk | None" = None
    proceeds: bool = False
    stored: "StoredConversation | None" = None
    spent: "Spent | None" = None


class ModelOptions(Value, frozen=True, kw_only=True):
    """The model of a session, and what it gets first: `generator` answers instead of the one chosen
    by `name` and credentials; `wrap` puts something between the session and the service; answers
    come from the file `fake_responses`, or go to `record_responses`. `instructions` replace the
    system prompt, "" sends none; without `environment` the workspace and the date are not told;
    with `full_context` the workspace's files are sent first. `settings` are those of the program,
    before those of the generator."""

    name: str | None = None
    generator: ContentGenerator | None = None
    wrap: Callable[[ContentGenerator], ContentGenerator] | None = None
    fake_responses: str | None = None
    fake_strict: bool = True
    record_responses: str | None = None
    instructions: str | None = None
    environment: bool = True
    full_context: bool = False
    settings: "ModelSettings | None" = None


class Permissions(Value, frozen=True, kw_only=True):
    """The permissions of the calls of a session: its approval mode, `policy` files and rules beside
    those of the settings, `allowed_tools` that run without approval. Without `may_act` no mode
    changes files unasked. `sandbox`: run commands in one or in none; None is that of the settings.
    """

    approval_mode: ApprovalMode = ApprovalMode.DEFAULT
    may_act: bool = True
    policy: tuple[PolicySource, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    sandbox: bool | None = None


class Tools(Value, frozen=True, kw_only=True):
    """The tools of a session: `builtin` are the only ones declared of the built-in ones, `own`
    those of the program, which with `search_own` are found by search; `agents` and `remote_agents`
    come beside the built-in ones; `hooks` are those of the program. `servers`: connect to MCP
    servers, of which `in_process_servers` are objects of the SDK by name, and wait for them before
    the first prompt, or not."""

    builtin: tuple[str, ...] | None = None
    own: tuple[Tool, ...] = ()
    search_own: bool = False
    agents: "tuple[AgentDefinition, ...]" = ()
    remote_agents: "tuple[RemoteAgent, ...]" = ()
    hooks: Mapping[str, Any] | None = None
    servers: bool = True
    in_process_servers: Mapping[str, Any] = {}
    wait_for_servers: bool = True


class SessionSpec(Value, frozen=True, kw_only=True):
    """Everything a session is opened with, in eight values. The settings and the environment were
    loaded for the `place`."""

    place: Place
    model: ModelOptions = ModelOptions()
    permissions: Permissions = Permissions()
    tools: Tools = Tools()
    people: People = People()
    client: Client = Client()
    record: RecordOptions = RecordOptions()
    limits: Limits = Limits()


def workspace_directory(cwd: str | PathLike[str] | None) -> Path:
    """The directory of a session. Raises InputError when it does not exist."""
    if cwd is None:
        return current_directory()
    path = Path(cwd)
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is no directory.", remedy="Name one as the working directory.")
    if not path.is_dir():
        raise InputError(f"the directory {path} does not exist.", remedy="Name an existing one.")
    return path
