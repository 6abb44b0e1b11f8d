"""From a command line and the user's settings to those of a session, the same for every front
end."""

import sys

import msgspec

from alhena.agent.options import AgentSettings
from alhena.config.place import Place
from alhena.config.settings import CheckpointingSettings, Settings
from alhena.frontends.cli.arguments import RunArguments
from alhena.frontends.here import included
from alhena.frontends.streams import is_terminal
from alhena.policy.model import ApprovalMode


def session_settings(arguments: RunArguments, place: Place) -> AgentSettings:
    """What a run was asked for, in the place it is carried out in. Raises ConfigError."""
    settings = place.settings
    if arguments.checkpointing:
        settings = with_checkpoints(settings)
    if arguments.mcp_servers is not None:
        mcp = msgspec.structs.replace(settings.mcp, allowed=arguments.mcp_servers)
        settings = msgspec.structs.replace(settings, mcp=mcp)
    roots, missing = included(place, arguments.include_directories)
    limits = arguments.limits
    mode = arguments.approval_mode or ApprovalMode(settings.general.default_approval_mode)
    return AgentSettings(
        approval_mode=mode,
        include_directories=roots,
        max_turns=limits.max_turns,
        max_tokens=limits.max_tokens,
        max_seconds=limits.max_seconds,
        max_cost=limits.max_cost,
        fake_responses=arguments.fake_responses,
        fake_strict=arguments.fake_strict,
        record_responses=arguments.record_responses,
        is_terminal=is_terminal(sys.stdin) and is_terminal(sys.stdout),
        settings=settings,
        environ=place.environ,
        notices=(*place.told, *missing),
        held_servers=place.held_servers,
        acceptance=place.acceptance,
        named=place.named,
        allowed_tools=arguments.allowed_tools,
        skip_trust=arguments.skip_trust,
        sandbox=arguments.sandbox,
        resume=arguments.resume,
        session_id=arguments.session_id,
        full_context=arguments.all_files,
        facts={
            "output_format": arguments.output_format or settings.output.format,
            "debug_mode": arguments.debug,
        },
    )


def with_checkpoints(settings: Settings) -> Settings:
    """These settings, with general.checkpointing.enabled."""
    kept = CheckpointingSettings(enabled=True)
    general = msgspec.structs.replace(settings.general, checkpointing=kept)
    return msgspec.structs.replace(settings, general=general)
