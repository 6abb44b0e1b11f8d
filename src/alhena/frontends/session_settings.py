"""From a command line and the user's settings to those of a session, the same for every front
end."""

import sys

from alhena.agent.options import AgentSettings
from alhena.config.settings import Settings
from alhena.frontends.cli.arguments import RunArguments
from alhena.frontends.streams import is_terminal
from alhena.policy.model import ApprovalMode


def session_settings(arguments: RunArguments, settings: Settings) -> AgentSettings:
    """What a run was asked for. Raises ConfigError."""
    mode = arguments.approval_mode or ApprovalMode.parse(settings.general.default_approval_mode)
    return AgentSettings(
        approval_mode=mode,
        include_directories=arguments.include_directories,
        fake_responses=arguments.fake_responses,
        fake_strict=arguments.fake_strict,
        record_responses=arguments.record_responses,
        is_terminal=is_terminal(sys.stdin) and is_terminal(sys.stdout),
        settings=settings,
        allowed_tools=arguments.allowed_tools,
        skip_trust=arguments.skip_trust,
        sandbox=arguments.sandbox,
        resume=arguments.resume,
        facts={
            "output_format": arguments.output_format or settings.output.format,
            "debug_mode": arguments.debug,
        },
    )
