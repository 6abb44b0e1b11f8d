"""One sitting of a person with an agent: opened, carried on until it is left, closed."""

import os
import time
from collections.abc import Callable

from msgspec.structs import replace

from alhena.agent.agent import Agent
from alhena.config.home import user_settings_path
from alhena.config.settings import load_settings
from alhena.frontends.cli.arguments import RunArguments
from alhena.frontends.session_settings import session_settings
from alhena.frontends.terminal.conversation import Conversation
from alhena.frontends.terminal.lines import line
from alhena.frontends.terminal.screen import Screen
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
    asked = session_settings(arguments, settings)
    return Agent(
        model=arguments.model,
        policy=arguments.policy_paths,
        approve=conversation.approve,
        settings=replace(
            asked,
            ask=conversation.ask,
            edit=conversation.edit,
            facts={**asked.facts, "output_format": "text"},
        ),
    )
