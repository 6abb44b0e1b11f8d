"""How an agent is set up: everything beyond the six arguments that most programs need."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from alhena.config.settings import Settings
from alhena.errors import InputError
from alhena.models.generator import ContentGenerator
from alhena.policy.model import ApprovalMode, PolicyRule
from alhena.system.workspace import current_directory
from alhena.tools.builtin.ask_user import Ask
from alhena.tools.contract import Tool
from alhena.wire.content import Content

if TYPE_CHECKING:
    from alhena.bus.bus import MessageBus
    from alhena.scheduler.confirm import Approver
    from alhena.scheduler.questions import Edit


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of an `Agent`.

    `approval_mode`: how much runs without asking. `include_directories`: workspace roots beside the
    working directory. `max_turns`: model turns per prompt, -1 for no limit. `settings`: None reads
    the user's settings.json. `environ`: None is this process's. `generator`: who answers, instead
    of choosing by model and credentials. `history`: a conversation to go on from (as
    `Agent.history` gave it); the environment context is then not sent again. `ask`: puts the
    model's questions to a person; without it there is no tool for them. `allowed_tools`: tools, or
    `run_shell_command(prefix)`, that need no approval. `skip_trust`: the workspace is trusted.
    `sandbox`: whether commands run in one, whatever the settings say; None leaves it to them.
    `hooks`: hooks of the program's own, as settings.json has them: {"hooks": {…}}. `facts`: what
    telemetry is told of the front end (output_format, debug_mode). `bus`: whoever listens on it
    answers, too, for calls that need a person and for the model's questions. `edit`: lets a person
    change what a call would write, in an editor of theirs. `resume`: the session to go on with:
    `latest`, its number, its id or the beginning of that. `record`: whether the session is written
    down, so that it can be resumed.
    """

    approval_mode: ApprovalMode = ApprovalMode.DEFAULT
    include_directories: tuple[str, ...] = ()
    max_turns: int = 100
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
    hooks: Mapping[str, Any] | None = None
    facts: Mapping[str, str | bool] = {}
    bus: "MessageBus | None" = None
    edit: "Edit | None" = None
    resume: str | None = None
    record: bool = True


class AgentOptions(msgspec.Struct, frozen=True, kw_only=True):
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
