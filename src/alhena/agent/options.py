"""Options of an agent, beyond the six arguments that most programs need."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    from alhena.scheduler.bus import MessageBus
    from alhena.scheduler.confirmation import Approver, Edit


class AgentSettings(Value, frozen=True, kw_only=True):
    """Settings of an `Agent`.

    `approval_mode`: how much runs without asking. `include_directories`: workspace roots beside the
    working directory. `max_turns`: model turns per prompt, -1 for no limit. `max_tokens`,
    `max_cost` (US dollars): of a session; `max_seconds`: of a run, which ends whatever it is at;
    None leaves them to `model.budget` of the settings. `settings`: None reads those of the
    working directory (`config/effective_settings.py`). `environ`: None is this process's, with what
    a .env file adds where the settings are read, too. `generator`: who answers, instead
    of choosing by model and credentials. `history`: a conversation to go on from (as
    `Agent.history` gave it); the environment context is then not sent again. `ask`: puts the
    model's questions to a person; without it there is no tool for them. `allowed_tools`: tools, or
    `run_shell_command(prefix)`, that need no approval. `skip_trust`: the workspace is trusted.
    `sandbox`: whether commands run in one, whatever the settings say; None leaves it to them.
    `hooks`: hooks of the program's own, as settings.json has them: {"hooks": {…}}. `facts`: what
    telemetry is told of the front end (output_format, debug_mode). `bus`: whoever listens on it
    answers, too, for calls that need a person and for the model's questions. `edit`: lets a person
    change what a call would write, in an editor of theirs. `resume`: the session to go on with:
    `latest`, its number, its id or the beginning of that. `session_id`: the id of a new session,
    which no other of the project may have. `record`: whether the session is written
    down, so that it can be resumed. `full_context`: a new conversation begins with the text of the
    workspace's files, as far as it fits. `notices`: lines that a person should see with the first
    run. `wait_for_servers`: whether the first prompt waits until MCP servers are connected, for
    some seconds. `held_servers`: MCP servers that are held back, each with why, where `settings`
    are given; `acceptance` (as `open_place` gives it) is asked again before each of the others,
    and each command of the workspace, is started. `named` (as a place has it) puts the names of
    secret variables in the place of what they hold, for people. `system_prompt`: stands in place of
    the composed one, with the variables of docs/prompt.md; the user's memory follows behind it.
    """

    approval_mode: ApprovalMode = ApprovalMode.DEFAULT
    include_directories: tuple[str, ...] = ()
    max_turns: int = -1
    max_tokens: int | None = None
    max_seconds: float | None = None
    max_cost: float | None = None
    settings: Settings | None = None
    environ: Mapping[str, str] | None = None
    generator: ContentGenerator | None = None
    fake_responses: str | None = None
    fake_strict: bool = True
    record_responses: str | None = None
    is_terminal: bool = False
    history: tuple[Content, ...] = ()
    ask: Ask | None = None
    allowed_tools: tuple[str, ...] = ()
    skip_trust: bool = False
    sandbox: bool | None = None
    wait_for_servers: bool = True
    held_servers: Mapping[str, str] = {}
    acceptance: "Acceptance | None" = None
    named: Callable[[tuple[str, ...], Any], Any] | None = None
    hooks: Mapping[str, Any] | None = None
    facts: Mapping[str, str | bool] = {}
    bus: "MessageBus | None" = None
    edit: "Edit | None" = None
    resume: str | None = None
    session_id: str | None = None
    record: bool = True
    full_context: bool = False
    system_prompt: str | None = None
    notices: tuple[str, ...] = ()


class AgentOptions(Value, frozen=True, kw_only=True):
    """The arguments of `Agent`, as given."""

    model: str | None
    cwd: Path | None
    tools: tuple[Tool, ...]
    approve: "Approver | None"
    policy: tuple[str | os.PathLike[str] | PolicyRule, ...]
    settings: AgentSettings

    def directory(self) -> Path:
        """The workspace's directory. Raises InputError when it is none."""
        if self.cwd is None:
            return current_directory()
        if not self.cwd.is_dir():
            raise InputError(
                f"the directory {self.cwd} does not exist.", remedy="Name an existing one."
            )
        return self.cwd
