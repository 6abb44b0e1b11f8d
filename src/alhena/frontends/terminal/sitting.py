"""One sitting of a person with an agent: opened, carried on until it is left, closed."""

import os
import sys
import time
from collections.abc import Callable

from alhena.agent.agent import Agent
from alhena.agent.options import AgentSettings
from alhena.config.home import user_settings_path
from alhena.config.settings import load_settings
from alhena.frontends.cli.arguments import RunArguments
from alhena.frontends.streams import is_terminal
from alhena.frontends.terminal.conversation import Conversation
from alhena.frontends.terminal.lines import line
from alhena.frontends.terminal.screen import Screen
from alhena.policy.model import ApprovalMode
from alhena.version import __version__


async def converse(
    arguments: RunArguments, screen: Screen, attach: Callable[[Conversation], None]
) -> None:
    """Works off what a person sends until the person leaves. `attach` is given the conversation as
    soon as it takes input. Raises ConfigError, CredentialsError and what else keeps a session from
    beginning."""
    conversation = Conversation(screen, time.monotonic)
    async with _agent(arguments, conversation) as agent:
        greeting = f"alhena {__version__}  /help tells what can be done here"
        conversation.print([line(greeting, "dim")])
        if agent.resumed:
            conversation.print([line(f"Session {agent.session_id} goes on.", "dim")])
        if arguments.prompt_interactive:
            conversation.submit(arguments.prompt_interactive)
        attach(conversation)
        await conversation.run(agent)


def _agent(arguments: RunArguments, conversation: Conversation) -> Agent:
    settings = load_settings(user_settings_path(os.environ))
    mode = arguments.approval_mode or ApprovalMode.parse(settings.general.default_approval_mode)
    return Agent(
        model=arguments.model,
        policy=arguments.policy_paths,
        approve=conversation.approve,
        settings=AgentSettings(
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
            ask=conversation.ask,
            edit=conversation.edit,
            facts={"output_format": "text", "debug_mode": arguments.debug},
        ),
    )
