"""Opens the hooks of a session, where there are any."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from alhena.config.environment import own_environment
from alhena.config.home import (
    system_defaults_path,
    system_settings_path,
    workspace_settings_path,
)
from alhena.config.settings import Settings
from alhena.events import Event

if TYPE_CHECKING:
    from alhena.hooks.system import Hooks
    from alhena.system.processes import ProcessGroups


class HookOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the hooks of a session are made of. `program` is the embedding program's own document;
    `plans` the directory of the session's plans, `transcript` the path of its record."""

    cwd: Path
    environ: Mapping[str, str]
    settings: Settings
    session_id: str
    plans: Path
    transcript: str = ""
    program: Mapping[str, Any] | None = None
    skip_trust: bool = False


def open_session_hooks(
    options: HookOptions,
    groups: "ProcessGroups",
    emit: Callable[[Event], None],
    is_tool: Callable[[str], bool],
) -> "tuple[Hooks | None, tuple[str, ...], tuple[str, ...]]":
    """The hooks of a session (None when there are none), warnings, and notes. Nothing of hooks is
    imported where none can be. Raises ConfigError."""
    settings = options.settings
    wanted = settings.hooks or options.program
    others = (
        workspace_settings_path(options.cwd),
        system_defaults_path(options.environ),
        system_settings_path(options.environ),
    )
    if not wanted and not any(map(os.path.lexists, others)):
        return None, (), ()
    from alhena.hooks.firing import HookSurroundings
    from alhena.hooks.gather import HooksRequest, gather_hooks, open_hooks

    gathered = gather_hooks(
        HooksRequest(
            cwd=options.cwd,
            environ=options.environ,
            settings=settings,
            program=options.program,
            skip_trust=options.skip_trust,
        )
    )
    cwd = str(options.cwd)
    around = HookSurroundings(
        session_id=options.session_id,
        cwd=cwd,
        environ=own_environment(options.environ),
        project_dir=cwd,
        plans_dir=str(options.plans),
        transcript_path=options.transcript,
        redaction=settings.security.environment_variable_redaction,
        groups=groups,
    )
    hooks = open_hooks(gathered, around, emit, is_tool)
    return hooks if hooks.groups else None, gathered.warnings, gathered.notes
