"""One sitting of a person with an agent: opened, carried on until it is left, closed."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

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

INTERRUPTED = 130


async def converse(
    arguments: RunArguments, screen: Screen, attach: Callable[[Conversation], None]
) -> int:
    """Works off what a person sends until the person leaves. `attach` is given the conversation as
    soon as it takes input. Returns the exit code; raises ConfigError, CredentialsError and what
    else keeps a session from beginning."""
    conversation = Conversation(screen, time.monotonic)
    agent = _agent(arguments, conversation)
    with _signals(conversation, agent) as caught:
        async with agent:
            greeting = f"alhena {__version__}  /help tells what can be done here"
            conversation.print([line(greeting, "dim")])
            if arguments.prompt_interactive:
                conversation.submit(arguments.prompt_interactive)
            attach(conversation)
            await conversation.run(agent)
    return INTERRUPTED if caught else 0


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
            ask=conversation.ask,
            edit=conversation.edit,
            facts={"output_format": "text", "debug_mode": arguments.debug},
        ),
    )


@contextmanager
def _signals(conversation: Conversation, agent: Agent) -> Generator[list[int]]:
    """SIGTERM and SIGHUP end the sitting in good order, a second one at once; SIGINT, which a raw
    terminal does not send, stops what runs. Those that have come are in the list."""
    caught: list[int] = []
    loop = asyncio.get_running_loop()

    def end(number: int) -> None:
        if caught:
            agent.kill()
            os._exit(INTERRUPTED)
        caught.append(number)
        conversation.leave()

    def stop() -> None:
        if not conversation.interrupt():
            conversation.leave()

    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    used = [each for each in numbers if signal.getsignal(each) is not signal.SIG_IGN]
    for number in used:
        if number == signal.SIGINT:
            loop.add_signal_handler(number, stop)
        else:
            loop.add_signal_handler(number, end, number)
    try:
        yield caught
    finally:
        for number in used:
            loop.remove_signal_handler(number)
