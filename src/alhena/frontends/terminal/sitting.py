"""One sitting of a person with an agent, from opening to leaving."""

import time
from collections.abc import Callable

from msgspec.structs import replace

from alhena.agent.agent import Agent
from alhena.config.place import Place
from alhena.frontends.arguments import RunArguments
from alhena.frontends.here import place_here, session_settings
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
    place = place_here(skip_trust=arguments.skip_trust, told=False)
    if place.undecided:
        from alhena.frontends.terminal.trusting import ask_trust

        if await ask_trust(place, screen.choose, conversation.print):
            place = place_here(skip_trust=arguments.skip_trust, told=False)
    if place.pending:
        from alhena.frontends.terminal.trusting import ask_changed

        if await ask_changed(place, screen.choose, conversation.print):
            place = place_here(skip_trust=arguments.skip_trust, told=False)
    async with _agent(arguments, place, conversation) as agent:
        greeting = f"alhena {__version__}  /help tells what can be done here"
        conversation.print([line(greeting, "dim")])
        if agent.workbench.resumed:
            from alhena.frontends.terminal.earlier import recalled

            conversation.view, blocks = await recalled(agent, conversation.view)
            screen.update(conversation.view, blocks)
            conversation.print([line(f"Session {agent.session_id} goes on.", "dim")])
        if arguments.prompt_interactive:
            conversation.submit(arguments.prompt_interactive)
        attach(conversation)
        await conversation.run(agent)


def _agent(arguments: RunArguments, place: Place, conversation: Conversation) -> Agent:
    asked = session_settings(arguments, place)
    return Agent(
        model=arguments.model,
        policy=arguments.policy_paths,
        approve=conversation.approve,
        settings=replace(
            asked,
            ask=conversation.ask,
            edit=conversation.edit,
            wait_for_servers=False,
            facts={**asked.facts, "output_format": "text"},
        ),
    )
